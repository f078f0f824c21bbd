"""deploy/demo/set-up.sh: by uv where it works, else by pip; each step is named. No network."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[2]
SCRIPT = PROJECT / "deploy" / "demo" / "set-up.sh"
WAIT_S = 60
PYTHON = """#!/bin/sh
case "$*" in
    "-m venv "*) mkdir -p "$3/bin" && cp "$0" "$3/bin/python" ;;
    *pip\\ install*) echo "pip $*" >> "$HOME/calls" ;;
    *find_java*) exit "$NO_JAVA" ;;
    *version_info*) exit "$TOO_OLD" ;;
    --version) echo "Python 3.9.1" ;;
esac
"""
UV = """#!/bin/sh
echo "uv $*" >> "$HOME/calls"
[ "$1" != venv ] || { mkdir -p "$5/bin" && cp "$HOME/bin/python3" "$5/bin/python"; }
exit "$UV_FAILS"
"""


def set_up(home: Path, *, has_uv: bool, **variables: str) -> tuple[int, str, list[str]]:
    """Run the script with programs that only note their calls. Return its exit code, what it says
    and these calls.
    """
    (home / "bin").mkdir()
    for name, text in (("python3", PYTHON), *((("uv", UV),) if has_uv else ())):
        (home / "bin" / name).write_text(text)
        (home / "bin" / name).chmod(0o755)
    path = f"{home / 'bin'}:/usr/bin:/bin"
    environment = {"HOME": str(home), "PATH": path, "UV_FAILS": "0", "NO_JAVA": "0", "TOO_OLD": "0"}
    done = subprocess.run(
        [SCRIPT, "python3", str(home / "venv")],
        cwd=home,
        env=environment | variables,
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=False,
    )
    calls = home / "calls"
    said = calls.read_text().splitlines() if calls.exists() else []
    return done.returncode, done.stdout + done.stderr, said


@pytest.mark.parametrize(
    ("has_uv", "fails", "installers"),
    [(True, "0", ["uv"]), (False, "0", ["pip"]), (True, "1", ["uv", "pip"])],
    ids=["uv", "pip", "uv that fails"],
)
def test_the_packages_of_the_product_alone_are_installed(
    tmp_path: Path, has_uv: bool, fails: str, installers: list[str]
) -> None:
    """In the versions of constraints.txt, and without the extra of the tests."""
    code, said, calls = set_up(tmp_path, has_uv=has_uv, UV_FAILS=fails)
    assert 0 == code, said
    assert ["1/3", "2/3", "3/3"] == [line[:3] for line in said.splitlines() if "/3" in line[:3]]
    assert " s, " in said and " MB in " in said
    installed = [call for call in calls if "install" in call]
    assert installers == [call.split()[0] for call in installed]
    assert all(call.endswith("-c constraints.txt -e .") for call in installed)


def test_a_java_is_installed_where_there_is_none(tmp_path: Path) -> None:
    """As a package, which changes nothing outside the environment."""
    code, said, calls = set_up(tmp_path, has_uv=False, NO_JAVA="1")
    assert 0 == code and "no Java 17 or newer" in said
    assert calls[-1].endswith("-e .[jdk]")


def test_an_old_python_is_refused_before_anything_is_made(tmp_path: Path) -> None:
    """The sentence says which one it is, and how to name another."""
    code, said, calls = set_up(tmp_path, has_uv=False, TOO_OLD="1")
    assert (1, []) == (code, calls) and not (tmp_path / "venv").exists()
    assert "Python 3.11 or newer is needed, python3 is Python 3.9.1; set PYTHON=..." in said
