"""Shared by the deploy tests: where the files are, and which options the command line accepts."""

from __future__ import annotations

import shlex
from pathlib import Path

from auditor.config import CONFIG_FILE, SETTINGS

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"

FLAGS = {
    flag
    for s in (*SETTINGS, CONFIG_FILE)
    if "run" in s.commands
    for flag in (s.flag, s.off_flag)
    if flag
}


def unknown_flags(command: str | list[str]) -> set[str]:
    """Return the options of an `auditor run` command line that `auditor run` does not have."""
    words = shlex.split(command) if isinstance(command, str) else command
    return {word.partition("=")[0] for word in words if word.startswith("--")} - FLAGS


def stub(folder: Path, code: int, says: str = "the report") -> Path:
    """Write an `auditor` stub that records how it was called, prints something and ends with
    `code`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "auditor"
    path.write_text(
        f'#!/bin/sh\necho "$@" > {shlex.quote(str(folder / "called"))}\necho'
        f" {shlex.quote(says)}\nexit {code}\n"
    )
    path.chmod(0o755)
    return path
