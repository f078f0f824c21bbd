"""docs/versions.md promises what tests show, what pyproject.toml allows, and nothing else."""

from __future__ import annotations

import re
import tomllib

from support.supported_versions import (
    BOOKKEEPERS,
    JAVAS,
    PULSARS,
    PYTHONS,
    SPARKS,
    STORAGES,
    ZOOKEEPERS,
)
from test_house_docs import PROJECT, table

from auditor import PYTHON_MIN
from auditor.java import JAVA_MAJOR_MIN
from auditor.spark.installation import SPARK_MAJOR

PAGE = PROJECT / "docs" / "versions.md"
SHOWN = {
    "BookKeeper": BOOKKEEPERS,
    "ZooKeeper": ZOOKEEPERS,
    "Pulsar": tuple(PULSARS),
    "Python": PYTHONS,
    "Spark": SPARKS,
    "Java": tuple(JAVAS),
}


def test_each_row_is_one_that_a_test_shows() -> None:
    """The versions of each product, in order, are those of the tests; BookKeeper's rows name the
    storages.
    """
    rows = table(PAGE, "What is supported")
    versions = {
        product: tuple(row["version"] for row in rows if row["of"] == product) for product in SHOWN
    }
    assert SHOWN == versions
    assert len(rows) == sum(map(len, SHOWN.values()))
    for row in rows:
        if row["of"] == "BookKeeper":
            assert all(storage in row["with"] for storage in STORAGES), row


def test_what_is_installed_has_the_same_bounds() -> None:
    """pyproject.toml, the classifiers and the sentences of refusal say the same."""
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
    oldest, *_ = PYTHONS
    assert (oldest, f">={oldest}") == (
        ".".join(map(str, PYTHON_MIN)),
        project["requires-python"],
    )
    classifiers = [
        found[1] for line in project["classifiers"] if (found := re.search(r":: (3\.\d+)$", line))
    ]
    assert list(PYTHONS) == classifiers
    assert f"pyspark>={SPARK_MAJOR}.0,<{SPARK_MAJOR + 1}" in project["dependencies"]
    assert {str(SPARK_MAJOR)} == {version.partition(".")[0] for version in SPARKS}
    assert str(JAVA_MAJOR_MIN) == min(JAVAS)


def test_the_newest_spark_is_the_one_of_make_test() -> None:
    """constraints.txt pins the last of them."""
    assert f"pyspark=={SPARKS[-1]}" in (PROJECT / "constraints.txt").read_text().splitlines()
