"""Which tests run in one process, and in which order they begin."""

from __future__ import annotations

import re

from support.places import DEAREST_FIRST, REAL, ROOT, SHARED, SPARK, place, turn

FILES = sorted(str(path.relative_to(ROOT)) for path in (ROOT / "tests").rglob("test_*.py"))


def test_the_tests_of_one_spark_session_run_in_one_process():
    """A second session would take as long as many audits."""
    of_spark = {place(f"{path}::test") for path in FILES if path.startswith(SPARK)}
    assert {SPARK} == of_spark


def test_the_tests_of_one_shared_cluster_run_in_one_process_and_others_alone():
    """A second process would start the shared cluster of a file again."""
    shared = {path for path in FILES if place(f"{path}::test") == REAL}
    assert "tests/cluster/test_bookie_contract.py" in shared
    assert "tests/cluster/test_findings_catalogue.py" not in shared
    for path in FILES:
        if path not in shared and not path.startswith(SPARK):
            assert path == place(f"{path}::test[{REAL}]")


def test_what_is_shared_is_all_that_lasts_for_the_whole_run():
    """Each fixture of real BookKeeper that lasts for the run and starts Java is in the list."""
    conftest = (ROOT / "tests/cluster/conftest.py").read_text()
    lasting = re.findall(r'scope="session"\)\ndef (\w+)', conftest)
    assert {"shared_cluster", "policies", "sandbox"} == set(lasting)
    assert {"shared_cluster", "policies"} == {name for name in lasting if SHARED.search(name)}


def test_what_takes_long_begins_first():
    """The order is Spark, shared clusters, other files on real BookKeeper, the rest; each directory
    exists.
    """
    assert all((ROOT / name).is_dir() for name in DEAREST_FIRST)
    order = sorted(FILES, key=lambda path: turn(f"{path}::test"))
    places = list(dict.fromkeys(place(f"{path}::test") for path in order))
    assert [SPARK, REAL] == places[:2]
    dear = [path for path in places[2:] if path.startswith(DEAREST_FIRST)]
    assert dear == places[2 : 2 + len(dear)]
    assert all(path.startswith(REAL) for path in dear[:20])
