"""Java programs of the tests, compiled once beside the jars that they need."""

from __future__ import annotations

import fcntl
import hashlib
import shutil
import subprocess
from pathlib import Path

COMPILE_TIMEOUT_S = 120
QUICK_START = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
"""Flags of a JVM that works for a few seconds: compiling its code well takes half of its time."""


def compiled(jars: Path, source: Path) -> Path:
    """Return the folder with the classes of this program, which is compiled unless it exists.

    A JVM that is given a source file compiles it at each start. The folder lies beside the jars,
    and its name has a hash of the source.
    """
    digest = hashlib.sha256(source.read_bytes()).hexdigest()[:16]
    classes = jars.parent / f"{source.stem}-{digest}"
    with (jars.parent / f"{source.stem}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # released with the file, also when this process dies
        if not classes.exists():
            made = jars.parent / f"{source.stem}-made"
            shutil.rmtree(made, ignore_errors=True)
            quick = [f"-J{flag}" for flag in QUICK_START]
            flags = ["-nowarn", "-proc:none", "-d", str(made), "-cp", f"{jars}/*"]
            done = subprocess.run(
                ["javac", *quick, *flags, str(source)],
                capture_output=True,
                text=True,
                timeout=COMPILE_TIMEOUT_S,
                check=False,
            )
            assert done.returncode == 0, f"{source} does not compile: {done.stdout}{done.stderr}"
            made.rename(classes)
    return classes
