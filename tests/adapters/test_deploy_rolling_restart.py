"""deploy/rolling-restart/: a bookie is restarted only after the gate said GO."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from support.deployed import DEPLOY

SCRIPT = DEPLOY / "rolling-restart/rolling-restart.sh"
WAIT_S = 60


def call(home: Path, codes: dict[str, str], *bookies: str, **more: str) -> tuple[int, list[str]]:
    """Run the script; `codes` has, by bookie, the exit codes of the gate one after the other.

    Returns its exit code, and what was asked and restarted, in order.
    """
    said = home / "said"
    said.touch()
    for bookie, digits in codes.items():
        (home / bookie).write_text("".join(f"{digit}\n" for digit in digits))
    (home / "gate").write_text(
        '#!/bin/sh\necho "$*" >> said\ncode=$(head -n 1 "$4")\nsed -i 1d "$4"\nexit "$code"\n'
    )
    (home / "restart").write_text('#!/bin/sh\necho "restart $*" >> said\nexit "${FAILS:-0}"\n')
    for program in ("gate", "restart"):
        (home / program).chmod(0o755)
    environment = {
        "PATH": os.environ["PATH"],
        "AUDITOR": str(home / "gate"),
        "RESTART": str(home / "restart"),
        "PAUSE_S": "0",
        **more,
    }
    done = subprocess.run(
        [str(SCRIPT), *bookies],
        cwd=home,
        env=environment,
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=False,
    )
    return done.returncode, said.read_text().splitlines()


def asked(bookie: str) -> str:
    return f"margin --now --without {bookie}"


def test_each_bookie_waits_for_its_own_go(tmp_path: Path):
    """NO GO, NOT KNOWN and an unreachable ZooKeeper are asked again. Then the bookie is
    restarted.
    """
    code, said = call(tmp_path, {"b1": "0", "b2": "1350"}, "b1", "b2")
    assert (0, [asked("b1"), "restart b1", *[asked("b2")] * 4, "restart b2"]) == (code, said)


@pytest.mark.parametrize(("codes", "tries", "expected"), [("2", 1, 2), ("4", 1, 4), ("11", 2, 1)])
def test_without_a_go_no_bookie_is_restarted(tmp_path: Path, codes: str, tries: int, expected: int):
    """A wrong use and a fault of the auditor end it at once. Other answers end it after TRIES
    questions, with the gate's code.
    """
    code, said = call(tmp_path, {"b1": codes}, "b1", "b2", TRIES="2")
    assert (expected, [asked("b1")] * tries) == (code, said)


def test_a_restart_that_fails_ends_it(tmp_path: Path):
    """The next bookie keeps running."""
    code, said = call(tmp_path, {"b1": "0", "b2": "0"}, "b1", "b2", FAILS="7")
    assert (7, [asked("b1"), "restart b1"]) == (code, said)


@pytest.mark.parametrize(("bookies", "restart"), [((), "x"), (("b1",), "")])
def test_without_bookies_or_a_program_nothing_happens(
    tmp_path: Path, bookies: tuple[str, ...], restart: str
):
    """Usage is exit code 2."""
    assert (2, []) == call(tmp_path, {"b1": "0"}, *bookies, RESTART=restart)
