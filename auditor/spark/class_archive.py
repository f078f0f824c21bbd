"""Keep the JVM classes that Spark loads at its start in one file, the class-data archive. Made at
set-up.

With it a run starts some seconds sooner. An archive fits one Java and one Spark in one place, and
its name says which. The JVM silently ignores an archive that does not fit. From Java 25 on it is an
ahead-of-time cache (JEP 514), which has the classes linked and needs no archive of the JDK beside
it. Earlier versions write a dynamic archive (JEP 350).
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pyspark
from pyspark import __version__ as spark_version

from auditor.java import JavaHome, cache_dir, find_java

MAKING_TIMEOUT_S = 300
"""How long it may take to make the archive. It needs about half a minute, with Java 25 a minute."""
PLACE_DIGITS = 8
"""Length of the hash of Spark's folder in an archive's name. Each environment keeps its own
archive."""
AOT_CACHE_JAVA_MIN = 25
"""Oldest Java that makes an ahead-of-time cache in one step (`-XX:AOTCacheOutput`)."""


def archive_path(java: JavaHome) -> Path:
    """Return the path of the archive for this Java and this Spark, whether or not it exists."""
    kind = "aot" if _has_aot_cache(java) else "jsa"
    place = hashlib.sha256(os.fsencode(_spark_home())).hexdigest()[:PLACE_DIGITS]
    return cache_dir(os.environ) / f"spark-{spark_version}-java-{java.version}-{place}.{kind}"


def writing_options(java: JavaHome, archive: Path) -> list[str]:
    """Return the options of a JVM that writes the archive when it ends.

    An ahead-of-time cache works only with the garbage collector it was written with.
    """
    if _has_aot_cache(java):
        return ["-XX:+UseSerialGC", f"-XX:AOTCacheOutput={archive}"]
    return [f"-XX:ArchiveClassesAtExit={archive}"]


def reading_options(java: JavaHome) -> list[str]:
    """Return the options of a JVM that uses the archive; none if it was not made.

    The JVM starts even if the archive does not fit. With an ahead-of-time cache `-Xshare`, even
    `auto`, is refused.
    """
    archive = archive_path(java)
    if not archive.is_file():
        return []
    return (
        [f"-XX:AOTCache={archive}"]
        if _has_aot_cache(java)
        else ["-Xshare:auto", f"-XX:SharedArchiveFile={archive}"]
    )


def _spark_home() -> str:
    """Return the folder whose jars the JVM loads: `$SPARK_HOME`, or the package's own."""
    return os.environ.get("SPARK_HOME") or str(Path(pyspark.__file__).parent)


def _has_aot_cache(java: JavaHome) -> bool:
    return java.major >= AOT_CACHE_JAVA_MIN


def make() -> Path:
    """Make the archive by running a small Spark job once, unless it is there already. Costs about
    half a minute.
    """
    path = archive_path(find_java())
    if path.is_file():
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent) as scratch:
        fresh = Path(scratch) / path.name
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
