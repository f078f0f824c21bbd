"""Verdicts that rest on lists which a bookie contradicted later. They become unknown, as values and
as rows alike.
"""

from __future__ import annotations

from itertools import product

import pyarrow as pa
from support.findings_by_kind import finding_of

from auditor.evidence.schemas import VERDICTS
from auditor.judging.verdict_rows import spoil_rows
from auditor.model.finding import Kind
from auditor.model.verdict import Exempt, Standing, Unknown, Verdict
from auditor.summary.doubted_lists import spoil_verdict

FOUND = (finding_of(Kind.ENTRY_WITHOUT_REPLICA),)
VERDICTS_GIVEN = (
    Verdict(0, Standing.SOUND),
    Verdict(1, Standing.EXEMPT, Exempt.MARKED_UNDERREPLICATED, is_mark_stale=True),
    Verdict(2, Standing.EXEMPT, Exempt.DELETED),
    Verdict(
        3,
        Standing.INDETERMINATE,
        unknowns=(Unknown.BOOKIE_SILENT, Unknown.CHECKERS_DISAGREE),
        only_maintenance=True,
    ),
    Verdict(4, Standing.INDETERMINATE, unknowns=(Unknown.ANSWER_INVALID,)),
    Verdict(5, Standing.VIOLATED, findings=FOUND),
)
INDETERMINATE, INVALID = Standing.INDETERMINATE, (Unknown.ANSWER_INVALID,)


def test_what_rests_on_contradicted_lists_is_unknown() -> None:
    """A ledger is no longer sound or exempt. A violation stays and gets the reason. A deleted
    ledger is unchanged.
    """
    spoiled = [spoil_verdict(one, Unknown.ANSWER_INVALID) for one in VERDICTS_GIVEN]
    assert [(one.standing, one.unknowns) for one in spoiled] == [
        (INDETERMINATE, INVALID),
        (INDETERMINATE, INVALID),
        (Standing.EXEMPT, ()),
        (INDETERMINATE, (Unknown.BOOKIE_SILENT, Unknown.ANSWER_INVALID, Unknown.CHECKERS_DISAGREE)),
        (INDETERMINATE, INVALID),
        (Standing.VIOLATED, INVALID),
    ]
    assert not any(one.is_mark_stale or one.only_maintenance for one in spoiled)
    assert FOUND == spoiled[-1].findings


def rows_of(*verdicts: Verdict) -> pa.RecordBatch:
    rows = [
        {
            "ledger_id": one.ledger_id,
            "standing": one.standing.word,
            "exempt": one.exempt.value if one.exempt else None,
            "unknowns": [unknown.value for unknown in one.unknowns],
            "is_mark_stale": one.is_mark_stale,
            "only_maintenance": one.only_maintenance,
        }
        for one in verdicts
    ]
    return pa.RecordBatch.from_pylist(rows, schema=VERDICTS)


def test_rows_are_spoiled_as_values_are() -> None:
    """Only the rows of the given ledgers change."""
    for hit in product((False, True), repeat=len(VERDICTS_GIVEN)):
        expected = [
            spoil_verdict(v, Unknown.ANSWER_INVALID) if h else v
            for v, h in zip(VERDICTS_GIVEN, hit, strict=True)
        ]
        ids = pa.array(
            [v.ledger_id for v, h in zip(VERDICTS_GIVEN, hit, strict=True) if h], pa.int64()
        )
        assert (
            rows_of(*expected).to_pylist()
            == spoil_rows(rows_of(*VERDICTS_GIVEN), {Unknown.ANSWER_INVALID: ids}).to_pylist()
        )
