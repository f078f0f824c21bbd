"""The class-data archive: JVM classes that Spark loads at start, kept ready in one file. Made once, at set-up.

With it a run starts some five seconds sooner. It fits one Java and one Spark only, which its name says; an archive that does
not fit is passed over by the JVM, so it can cost nothing but the time it saves.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from pyspark import __version__ as spark_version

from auditor.java import JavaHome, cache_dir, find_java

MAKING_TIMEOUT_S = 300
"""How long making it may take; it needs about half a minute."""


def archive_path(java: JavaHome) -> Path:
    """Where the archive for this Java and this Spark is, or would be."""
    return cache_dir(os.environ) / f"spark-{spark_version}-java-{java.version}.jsa"


def make() -> Path:
    """Make the archive by running a small Spark job once. Does nothing where it is there already. About half a minute."""
    path = archive_path(find_java())
    if path.is_file():
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent) as scratch:
        fresh = Path(scratch) / "fresh.jsa"
        subprocess.run(  # noqa: S603 - our own module, in our own interpreter
            [sys.executable, "-m", "auditor.spark.class_training", str(fresh)],
            check=True,
            timeout=MAKING_TIMEOUT_S,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        fresh.replace(path)
    return path


if __name__ == "__main__":
    sys.stdout.write(f"{make()}\n")
