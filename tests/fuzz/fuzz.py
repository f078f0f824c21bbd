"""The long form of fuzzing: each target in a process of its own, for a given time.

    make fuzz                            # ten minutes a target
    make fuzz MINUTES=2 TARGET=entry-list SEED=7

Atheris (the extra `fuzz`) watches which code an input reaches; without it Hypothesis does, some
hundred times slower. What was interesting is kept in .cache/fuzz/TARGET. Exits 1 where a target
raised what it does not declare, took longer than INPUT_TIMEOUT_S, or more memory than its bound:
then copy the input that is named into tests/fuzz/found/TARGET, and mend the code.
"""

from __future__ import annotations

import argparse
import importlib.util
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

PROJECT = Path(__file__).resolve().parents[2]
KEPT = PROJECT / ".cache" / "fuzz"
MODULES = (
    "fuzz_znodes", "fuzz_wire", "fuzz_logins", "fuzz_files", "fuzz_mutes", "fuzz_runs",
)  # fmt: skip
INPUT_TIMEOUT_S = 60
"""How long one input may take, in seconds. The slowest takes a second; a busy machine may take
twenty times as long.
"""
MARGIN_S = 300
"""How long a process may take beyond its time, in seconds: for its start, and for an input that
hangs.
"""
FAILED = 1


def main(words: Sequence[str]) -> int:
    """Return the exit code."""
    parser = argparse.ArgumentParser(description="Fuzz every target, one after another.")
    parser.add_argument("--minutes", type=float, default=10.0, help="for each target")
    parser.add_argument("--target", default=None, help="one target, or those whose name begins so")
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--engine", choices=("atheris", "hypothesis"), default=None)
    given = parser.parse_args(words)
    engine = given.engine or ("atheris" if importlib.util.find_spec("atheris") else "hypothesis")
    seed = given.seed if given.seed is not None else time.time_ns() % 10**6 + 1
    names = [name for name in target_names() if name.startswith(given.target or "")]
    if not names:
        print(f"no target is named {given.target}: there are {', '.join(target_names())}")
        return 2
    print(
        f"{len(names)} targets, {given.minutes:g} minutes each, {engine}, seed {seed}", flush=True
    )
    failed = [name for name in names if not _fuzz(name, engine, given.minutes * 60, seed)]
    print(
        f"failed: {', '.join(failed)}"
        if failed
        else f"the law held in {len(names)} targets, seed {seed}"
    )
    return FAILED if failed else 0


def target_names() -> list[str]:
    """Return the names of all targets. They are imported in a process of their own: Atheris must
    come first.
    """
    code = "import fuzz_children; print(*fuzz_children.all_targets(), sep='\\n')"
    listing = subprocess.run(
        [sys.executable, "-c", code],
        env=_environment(),
        capture_output=True,
        text=True,
        check=True,
        timeout=MARGIN_S,
    )
    return listing.stdout.split()


def _environment() -> dict[str, str]:
    import os

    paths = (str(Path(__file__).parent), str(PROJECT / "tests"), str(PROJECT))
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}


def _fuzz(name: str, engine: str, seconds: float, seed: int) -> bool:
    """Return whether the law held for this target. If it did not, print the end of the process's
    output.
    """
    kept = KEPT / name
    kept.mkdir(parents=True, exist_ok=True)
    output = kept.with_suffix(".log")
    words = [
        sys.executable,
        "-m",
        "fuzz_children",
        engine,
        name,
        str(int(seconds)),
        str(seed),
        str(kept),
    ]
    with output.open("w") as log:
        try:
            code = subprocess.run(
                words,
                env=_environment(),
                cwd=kept,
                stdout=log,
                stderr=subprocess.STDOUT,
                timeout=seconds + MARGIN_S,
                check=False,
            ).returncode
        except subprocess.TimeoutExpired:
            code = -1
    lines = output.read_text(errors="replace").splitlines()
    if code == 0:
        statistics = [
            line
            for line in lines
            if line.startswith(("stat::number_of_executed", "stat::peak_rss"))
        ] or lines[-1:]
        print(f"{name}: {', '.join(' '.join(line.split()) for line in statistics)}", flush=True)
        return True
    print("\n".join([f"{name}: FAILED ({code}); {output} has all of it", *lines[-40:]]), flush=True)
    return False


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
