"""Which ledgers could not be judged, by reason, and how the numbers add up."""

from __future__ import annotations

import pyarrow as pa

from auditor.evidence.table_scan import scan_rows
from auditor.model.codec import encode
from auditor.model.verdict import Unknown
from auditor.summary.counts import EXAMPLES_MAX, unjudged_ledgers

SCHEMA = pa.schema(
    [
        ("ledger_id", pa.int64()),
        ("standing", pa.string()),
        ("unknowns", pa.list_(pa.string())),
    ]
)


def unjudged(*rows: tuple[int, str, list[str] | None]):
    """Return what is found in verdicts of these ledgers."""
    columns = [list(column) for column in zip(*rows, strict=True)] or [[], [], []]
    return unjudged_ledgers(scan_rows(pa.table(columns, SCHEMA)))


def test_each_reason_has_its_ledgers_sorted():
    """A ledger with two reasons is in the file of each; one without a reason is in none."""
    found = unjudged(
        (9, "indeterminate", ["bookie_silent", "answer_timeout"]),
        (3, "indeterminate", ["bookie_silent"]),
        (5, "sound", []),
        (6, "exempt", None),
        (7, "violated", ["bookie_silent"]),
    )
    assert {
        "unjudged/bookie_silent.txt": [3, 7, 9],
        "unjudged/answer_timeout.txt": [9],
    } == {name: ids.tolist() for name, ids in found.files.items()}


def test_the_numbers_explain_why_the_reasons_do_not_add_up():
    """Three ledgers, four reasons: one has two, and one is violated all the same."""
    found = unjudged(
        (9, "indeterminate", ["bookie_silent", "answer_timeout"]),
        (3, "indeterminate", ["bookie_silent"]),
        (7, "violated", ["bookie_silent"]),
    )
    assert {
        "ledgers": 3,
        "in_part": 1,
        "several_reasons": 1,
        "some": {"bookie_silent": [3, 7, 9], "answer_timeout": [9]},
    } == encode(found.counts)


def test_the_summary_names_few_and_the_file_all():
    """However many ledgers a silent bookie leaves unjudged."""
    found = unjudged(*((n, "indeterminate", ["poison"]) for n in range(100)))
    assert list(range(EXAMPLES_MAX)) == encode(found.counts)["some"]["poison"]
    assert list(range(100)) == found.by_reason[Unknown.POISON].tolist()


def test_where_all_is_judged_there_is_no_file():
    """Nothing is written for a reason that no ledger has."""
    assert {} == unjudged((1, "sound", [])).files == unjudged().files
