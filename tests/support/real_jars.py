"""The jars of a real BookKeeper, ZooKeeper and Pulsar, resolved once by Maven and kept under the
project's `.cache/`.

Each cache is keyed on the hash of its pom, and lists every jar with its size, so a half-filled or
outdated folder is made again. A lock file keeps two test runs from filling it at once.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
from pathlib import Path

from support.compiled_java import QUICK_START

PROJECT = Path(__file__).resolve().parents[2]
POM = PROJECT / "tests" / "cluster" / "bookkeeper" / "pom.xml"
NEWEST = "4.17.2"
"""The version that the pom names, for all tests that do not name another one."""
CACHE = (PROJECT / ".cache").resolve()
"""The resolved path, without links: a class-data archive is for jars of one path."""
PULSAR_POM = PROJECT / "tests" / "cluster" / "pulsar" / "pom.xml"
PULSAR_NEWEST, PULSAR_OLDEST = "4.0.7", "3.0.7"
PULSAR_POMS = {PULSAR_NEWEST: PULSAR_POM, PULSAR_OLDEST: PULSAR_POM.parent / "pom-3.0.xml"}
"""The pom that names each version."""
ZOOKEEPER_POM = PROJECT / "tests" / "support" / "zookeeper" / "pom.xml"
OUTPUT_POMS = PROJECT / "tests" / "outputs"
OFFLOADER_POM = PULSAR_POM.parent / "offloader" / "pom.xml"
STAMP = "complete.json"
MAVEN_TIMEOUT_S = 600
"""How long Maven may take to fetch 100 MB (BookKeeper) or 220 MB (Pulsar), in seconds."""


def missing_tools() -> str | None:
    """Return why real BookKeeper cannot run here, as a sentence; None if Java and Maven are both
    there.
    """
    missing = [tool for tool in ("java", "javac", "mvn") if shutil.which(tool) is None]
    if not missing:
        return None
    return (
        f"real BookKeeper needs {' and '.join(missing)} on the PATH: install a JDK (17 or newer)"
        " and Maven"
    )


def bookkeeper_jars(version: str = NEWEST) -> Path:
    """Return the folder of BookKeeper's jars. Maven fills an incomplete one: 20-60 s, once."""
    return _complete(CACHE / f"bookkeeper-{version}", POM, f"-Dbookkeeper.version={version}")


def pulsar_jars(version: str = PULSAR_NEWEST) -> Path:
    """Return the folder of Pulsar's jars. Maven fills an incomplete one: 30-90 s, once."""
    return _complete(CACHE / f"pulsar-{version}", PULSAR_POMS[version])


def zookeeper_jars(version: str) -> Path:
    """Return the folder of a ZooKeeper server's jars. Maven fills an incomplete one, once."""
    return _complete(
        CACHE / f"zookeeper-server-{version}", ZOOKEEPER_POM, f"-Dzookeeper.version={version}"
    )


def hdfs_jars() -> Path:
    """Return the folder of HDFS's jars. Maven fills an incomplete one: 110 MB, once."""
    return _complete(CACHE / "hdfs-3.5.0", OUTPUT_POMS / "hdfs" / "pom.xml")


def s3a_jars() -> Path:
    """Return the folder of the jars that S3A adds to Spark's. Maven fills an incomplete one: 20 MB,
    once.
    """
    return _complete(CACHE / "s3a-3.5.0", OUTPUT_POMS / "s3a" / "pom.xml")


def offloader_nar() -> Path:
    """Pulsar's file system offloader, fetched by Maven when it is not there: 50 MB, once. The jar
    on Maven Central is a nar.
    """
    (jar,) = _complete(CACHE / "pulsar-offloader-4.0.8", OFFLOADER_POM).glob("*.jar")
    return jar


def _complete(cache: Path, pom: Path, *options: str) -> Path:
    cache.parent.mkdir(parents=True, exist_ok=True)
    with (cache.parent / f"{cache.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # released with the file, also when this process dies
        if not _is_complete(cache, pom):
            _resolve(cache, pom, *options)
    assert _is_complete(cache, pom), (
        f"{cache} is still not complete after Maven ran: remove it and run again"
    )
    return cache / "lib"


def _inventory(cache: Path, pom: Path) -> dict[str, object]:
    jars = {jar.name: jar.stat().st_size for jar in sorted((cache / "lib").glob("*.jar"))}
    return {"pom_sha256": hashlib.sha256(pom.read_bytes()).hexdigest(), "jars": jars}


def _is_complete(cache: Path, pom: Path) -> bool:
    stamp = cache / STAMP
    return stamp.is_file() and json.loads(stamp.read_text()) == _inventory(cache, pom)


def _resolve(cache: Path, pom: Path, *more: str) -> None:
    shutil.rmtree(cache, ignore_errors=True)
    cache.mkdir()
    options = [*more, f"-DoutputDirectory={cache / 'lib'}"]
    command = ["mvn", "-q", "-B", "-f", str(pom), "dependency:copy-dependencies", *options]
    environment = os.environ | {"MAVEN_OPTS": " ".join(QUICK_START)}
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=MAVEN_TIMEOUT_S, check=False,
        env=environment,
    )  # fmt: skip
    if done.returncode != 0:
        raise RuntimeError(
            f"Maven could not fetch the jars that {pom} names (exit {done.returncode}):"
            f" {(done.stdout + done.stderr)[-2000:]}"
        )
    (cache / STAMP).write_text(json.dumps(_inventory(cache, pom), indent=1))
