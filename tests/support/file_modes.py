"""Which files below a directory can be read by others than a run allows."""

from __future__ import annotations

from pathlib import Path

from auditor.evidence.local_files import own_umask

DEFAULT_MASK = 0o027
"""--output-umask, unless a test sets it."""


def wrong_modes(output: Path) -> dict[str, str]:
    """Return the files and directories below `output`, and itself, whose mode is not 0640 or 0750,
    with that mode. What the umask of this process removes is expected to be removed too.
    """
    removed = DEFAULT_MASK | own_umask()
    found = {}
    for path in (output, *output.rglob("*")):
        mode = path.lstat().st_mode & 0o7777
        if mode != (0o777 if path.is_dir() else 0o666) & ~removed:
            found[str(path.relative_to(output))] = f"{mode:04o}"
    return found
