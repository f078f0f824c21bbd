"""Which class-data archive a Java writes and reads."""

from __future__ import annotations

from pathlib import Path

import pyspark
import pytest

from auditor.java import JavaHome
from auditor.spark.class_archive import archive_path, reading_options, writing_options

ENDING = {"17.0.15": ".jsa", "24.0.2": ".jsa", "25": ".aot", "25.0.2": ".aot", "26-ea": ".aot"}


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


def java(version: str) -> JavaHome:
    return JavaHome(Path("/opt/java"), "JAVA_HOME", version)


@pytest.mark.parametrize("version", ENDING)
def test_the_archive_that_is_written_is_the_one_that_is_read(version: str) -> None:
    """Java 25 and newer name an ahead-of-time cache in both options, earlier ones a dynamic
    archive.
    """
    archive = archive_path(java(version))
    assert archive.suffix == ENDING[version]
    archive.parent.mkdir(parents=True)
    archive.touch()
    names = {
        ".aot": ("-XX:AOTCacheOutput", "-XX:AOTCache"),
        ".jsa": ("-XX:ArchiveClassesAtExit", "-XX:SharedArchiveFile"),
    }
    written, read = (f"{name}={archive}" for name in names[archive.suffix])
    assert (writing_options(java(version), archive)[-1], reading_options(java(version))[-1]) == (
        written,
        read,
    )


def test_each_place_of_spark_has_its_own_archive(monkeypatch: pytest.MonkeyPatch) -> None:
    """A JVM cannot use the archive of jars that are elsewhere, as in another environment."""
    monkeypatch.delenv("SPARK_HOME", raising=False)
    packaged = archive_path(java("17.0.15"))
    monkeypatch.setenv("SPARK_HOME", "/opt/spark")
    assert packaged != archive_path(java("17.0.15"))
    monkeypatch.setenv("SPARK_HOME", str(Path(pyspark.__file__).parent))
    assert packaged == archive_path(java("17.0.15"))


def test_an_ahead_of_time_cache_is_read_without_share_options() -> None:
    """A JVM refuses to start with `-Xshare` beside `-XX:AOTCache`."""
    archive = archive_path(java("25.0.2"))
    archive.parent.mkdir(parents=True)
    archive.touch()
    assert not [
        option for option in reading_options(java("25.0.2")) if option.startswith("-Xshare")
    ]


def test_an_archive_that_was_not_made_is_not_named() -> None:
    """A JVM without an archive gets no option that names one."""
    assert [] == reading_options(java("17.0.15")) + reading_options(java("25.0.2"))


def test_a_cache_is_written_with_the_collector_that_reads_it() -> None:
    """An ahead-of-time cache holds heap objects laid out for a collector; a run uses the serial
    one.
    """
    assert "-XX:+UseSerialGC" in writing_options(java("25.0.2"), Path("/x"))
