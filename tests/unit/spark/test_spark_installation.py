"""Spark 4 is accepted, and any other version is refused before a JVM is started."""

from __future__ import annotations

import pytest

from auditor.errors import SparkUnavailable
from auditor.spark import session as session_module
from auditor.spark.installation import check_spark_version, is_local_master
from auditor.spark.session import spark_session
from auditor.stop import StopRequest


@pytest.mark.parametrize("version", ["4.0.0", "4.0.0.dev1", "4.3.0", "4.99.1"])
def test_every_release_of_spark_4_is_accepted(version: str) -> None:
    """Nothing is raised."""
    check_spark_version(version, "PySpark")


@pytest.mark.parametrize("version", ["3.5.9", "5.0.0", "40.1.0", ""])
def test_any_other_is_refused_with_what_to_install(version: str) -> None:
    """The error names the package, its version, and the version to install."""
    with pytest.raises(SparkUnavailable) as refused:
        check_spark_version(version, "PySpark")
    assert f"PySpark is version {version}, and the auditor runs on Spark 4 alone" in str(
        refused.value
    )
    assert "'pyspark>=4,<5'" in str(refused.value)


def test_no_jvm_is_started_for_an_old_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor is a session of this process used."""
    monkeypatch.setattr(session_module, "installed_version", "3.5.9")
    monkeypatch.setattr(session_module, "start_jvm", None)
    monkeypatch.setattr(session_module, "session_of_this_process", None)
    with (
        pytest.raises(SparkUnavailable, match=r"3\.5\.9"),
        spark_session(1, None, StopRequest()),
    ):
        pytest.fail("a session was made")


@pytest.mark.parametrize(
    ("master", "is_local"),
    [
        *((one, True) for one in ("local", "local[8]", "local[*]", "local[4,2]", "local[*, 3]")),
        ("local[4, 2 ]", True),
        *((one, False) for one in ("local-cluster[2,1,1024]", "spark://local:7077", "yarn", None)),
    ],
)
def test_one_jvm_of_this_machine_is_a_local_master(master: str | None, is_local: bool) -> None:
    """Workers of a local cluster have files and processes of their own."""
    assert is_local is is_local_master(master)
