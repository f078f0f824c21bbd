"""An empty working directory, and an environment without the auditor's variables, for tests.

What lies in the checkout, what ran before and where pytest was started change no test: a relative
path leads to nothing. A test that leaves something at one fails, for the next would find it.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

_directory: Path | None = None


def enter_empty_directory() -> None:
    """Make a new directory the working directory of this process, until `leave_directory`."""
    global _directory
    _directory = Path(tempfile.mkdtemp(prefix="auditor-tests-")).resolve()
    os.chdir(_directory)


def leave_directory(invocation: Path) -> None:
    """Remove the directory, and go back to where pytest was started."""
    global _directory
    if _directory is not None:
        os.chdir(invocation)
        shutil.rmtree(_directory, ignore_errors=True)
        _directory = None


def restore_directory() -> str:
    """Empty the directory and return to it. Return what a test has changed, "" if nothing."""
    if _directory is None:
        return ""
    where, left = Path(os.getcwd()), sorted(os.listdir(_directory))
    if where != _directory:
        os.chdir(_directory)
        return f"the working directory is {where}: change it by monkeypatch.chdir"
    if left:
        _remove(_directory, left)
        return f"left in the working directory: {', '.join(left)}. Write below tmp_path"
    return ""


def _remove(directory: Path, names: list[str]) -> None:
    for name in names:
        path = directory / name
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def forget_settings() -> None:
    """Remove the variables of this user's own auditor, which would be settings of each command."""
    for name in [name for name in os.environ if name.startswith("AUDITOR_")]:
        del os.environ[name]
