"""The report's section on the metadata: what was compared with an earlier run, and what changed."""

from __future__ import annotations

from typing import Any

import pytest
from support import report_stories as stories

from auditor.model.summary import Summary
from auditor.report.layout import PLAIN
from auditor.report.metadata_text import metadata_section

RUN = "20260101T030000Z-000001"


def section(compared: dict[str, Any] | None) -> str:
    whole = stories.summary().as_json() | {"metadata_compared": compared}
    summary = Summary.from_json(whole)
    return " ".join("\n".join(metadata_section(summary, PLAIN)).split())


def counts(**changes: Any) -> dict[str, Any]:
    whole = {"earlier_run": RUN, "problem": "", "compared": 0, "changed": 0, "unknown": 0}
    return whole | changes


def test_without_an_earlier_run_there_is_no_section() -> None:
    """There was none, or an earlier version stored the run."""
    assert ["", ""] == [section(None), section(counts(earlier_run=None))]


@pytest.mark.parametrize(
    ("compared", "said"),
    [
        (
            counts(compared=1),
            f"1 ledger that was closed in run {RUN} was compared: nothing but ensembles changed",
        ),
        (
            counts(compared=2_000, changed=1),
            "2,000 ledgers that were closed in run"
            f" {RUN} were compared: 1 has other metadata now (CLOSED_METADATA_CHANGED)",
        ),
        (
            counts(compared=9, changed=2, unknown=1),
            "2 have other metadata now (CLOSED_METADATA_CHANGED) of 1 closed ledger that differs it"
            " is not known whether the metadata has changed",
        ),
        (counts(earlier_run=None, problem="it is damaged"), "not compared: it is damaged"),
        (
            counts(compared=9, forgotten=1_400),
            "nothing but ensembles changed in earlier runs 1,400 more closed ledgers differed than"
            " a run can judge: whether their metadata changed is not known, and they are compared"
            " with what they were afterwards",
        ),
        (
            counts(went_back=12, some_went_back=[1, 2], returned=1, some_returned=[7]),
            "12 znodes of ledgers have a lower version than then (1, 2 and 10 more): ZooKeeper has"
            " an older state 1 ledger is listed that it did not list, although the znode or the"
            " metadata is dated before it (7)",
        ),
        (
            counts(
                gone={"trimmed": 1_000, "unexplained": 2},
                gone_namespaces=[{"namespace": "public/default", "ledgers": 1_000}],
            ),
            "1,002 ledgers are not listed any more: 1,000 of topics whose list begins behind them"
            " or is empty, 2 that nothing explains (gone/unexplained.txt) most of them by"
            " namespace: public/default 1,000",
        ),
    ],
    ids=["sound", "one", "unknown", "not compared", "forgotten", "older", "gone"],
)
def test_what_was_compared_is_counted(compared: dict[str, Any], said: str) -> None:
    """Words are singular or plural as the count is."""
    assert said in section(compared)
