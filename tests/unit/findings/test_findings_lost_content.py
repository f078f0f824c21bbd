"""How many entries each bookie lacks of those it should hold, by the written evidence."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from auditor.evidence.rows import answer_row, greeting_row, read_row, table
from auditor.evidence.schemas import ANSWERS, READS, VERDICTS
from auditor.evidence.table_scan import TableScan, scan_rows
from auditor.findings.lost_content import (
    LACKS,
    SPOKEN,
    Content,
    by_word,
    contents,
    lacking_by_bookie,
    lacks_of,
    last_words,
    probed_ledgers,
)
from auditor.model.availability import Answer, AnswerStatus, EntryRead, Greeting, ReadStatus

HELD, GONE, NONE = AnswerStatus.HELD, AnswerStatus.UNREGISTERED, AnswerStatus.NO_SUCH_LEDGER
NOBODY = pa.array([], pa.int64())


def answer_batches(*rows: tuple[str, int, int, AnswerStatus]) -> list[pa.RecordBatch]:
    """Return each answer (bookie, ledger, look, status) as a batch, after a greeting."""
    answer_rows = [
        greeting_row("b1", 1, 0, Greeting.ANSWERED, ""),
        *(answer_row(Answer(b, i, k, 0, s)) for b, i, k, s in rows),
    ]
    return [table(ANSWERS, [row]).select(SPOKEN) for row in answer_rows]


def read_batches(*rows: tuple[str, int, int, ReadStatus]) -> list[pa.RecordBatch]:
    """Return each read (bookie, ledger, entry, status) as a batch."""
    return [
        table(READS, [read_row(EntryRead(b, i, e, 1, 0, s))]).select(SPOKEN) for b, i, e, s in rows
    ]


def verdicts(*rows: tuple[int, str, list[tuple[str, int, int]] | None]) -> TableScan:
    """Return a verdict for each (ledger, standing, lacks); lacks are (bookie, expected, absent)."""
    cells: list[dict[str, Any]] = [
        {
            "ledger_id": i,
            "standing": standing,
            "lacks": (
                lacks
                and [
                    dict(zip(("bookie_id", "expected", "absent"), one, strict=True))
                    for one in lacks
                ]
            ),
        }
        for i, standing, lacks in rows
    ]
    return scan_rows(pa.Table.from_pylist(cells, schema=VERDICTS))


def test_a_ledger_counts_once_however_often_a_bookie_was_asked():
    """Valid answers at two looks count as one ledger; greetings do not count."""
    words = last_words(
        answer_batches(("b1", 1, 1, HELD), ("b1", 2, 1, NONE), ("b1", 2, 2, NONE)),
        pa.array([2]),
        NOBODY,
        {},
    )
    assert {"b1": 2} == words.asked


def test_the_last_word_counts():
    """A bookie that answered and then left has not answered for the ledger. A bookie that came back
    has.
    """
    rows = answer_batches(
        ("b1", 1, 2, GONE), ("b1", 1, 1, HELD), ("b2", 1, 1, GONE), ("b2", 1, 2, HELD)
    )
    words = last_words(rows, pa.array([1]), pa.array([1]), {})
    assert {"b2": 1} == words.asked
    assert {"b1": [1]} == {bookie: ids.tolist() for bookie, ids in words.unheard.items()}


def test_only_an_unjudged_ledger_blames_a_silent_bookie():
    """A ledger that could be judged without the bookie does not count."""
    words = last_words(
        answer_batches(("b1", 1, 1, GONE), ("b1", 2, 1, GONE)), NOBODY, pa.array([2]), {}
    )
    assert {"b1": [2]} == {bookie: ids.tolist() for bookie, ids in words.unheard.items()}


def test_a_bookie_that_cannot_list_is_counted_by_what_was_read():
    """A ledger counts if the bookie sent an entry of it, or answered that it has no such entry or
    no such ledger. Each ledger counts once.
    """
    present, absent, silent = ReadStatus.PRESENT, ReadStatus.NO_ENTRY, ReadStatus.SILENT
    reads = read_batches(
        ("b1", 1, 0, present),
        ("b1", 1, 9, absent),
        ("b1", 2, 0, absent),
        ("b1", 3, 0, silent),
        ("b2", 4, 0, present),
    )
    probed = probed_ledgers(reads, {"b1"})
    assert {"b1": [1, 2]} == {bookie: ids.tolist() for bookie, ids in probed.items()}
    rows = answer_batches(
        ("b1", 1, 1, AnswerStatus.UNSUPPORTED),
        ("b1", 2, 1, NONE),
        ("b1", 5, 1, NONE),
        ("b2", 4, 1, HELD),
    )
    assert {"b1": 3, "b2": 1} == last_words(rows, NOBODY, NOBODY, probed).asked


def test_only_violated_ledgers_say_what_a_bookie_lacks():
    """Copies that a mark excuses are not held against a bookie."""
    rows = verdicts(
        (1, "violated", [("b1", 10, 6), ("b2", 10, 1)]),
        (2, "exempt", [("b1", 5, 5)]),
        (3, "violated", None),
    )
    assert [("b1", 1, 10, 6), ("b2", 1, 10, 1)] == [
        tuple(row.values()) for row in lacks_of(rows).to_pylist()
    ]


def test_most_of_a_ledger_is_more_than_half():
    """Half of its entries is not most of it. The entries are added up over the ledgers of which the
    bookie lacks most.
    """
    lacking = [(2, [("b1", 10, 6)]), (1, [("b1", 10, 5)]), (3, [("b1", 1, 1)])]
    lacks = lacks_of(verdicts(*((ledger, "violated", lacked) for ledger, lacked in lacking)))
    assert {"b1": Content(7, 2, 11, 7, (2, 3))} == contents(lacks, {"b1": 7}, {})
    assert {"b1": [1, 2, 3]} == {
        bookie: ids.tolist() for bookie, ids in lacking_by_bookie(lacks).items()
    }


def test_a_probed_bookie_is_said_to_be_probed():
    """The witness must say that its content was judged by a sample."""
    lacks = lacks_of(verdicts((1, "violated", [("b1", 2, 2)])))
    assert contents(lacks, {"b1": 1}, {"b1": np.array([1])})["b1"].was_probed
    assert not contents(lacks, {"b1": 1}, {})["b1"].was_probed


def test_where_nothing_was_judged_nothing_is_lacking():
    """An empty table of verdicts gives an empty table with the same columns."""
    assert LACKS.empty_table() == lacks_of(scan_rows(VERDICTS.empty_table()))


def test_a_bookie_that_answered_for_nothing_answered_for_0_ledgers():
    """The entries that it lacks were read on it at an earlier look."""
    lacks = lacks_of(verdicts((1, "violated", [("b1", 2, 2)])))
    assert {"b1": Content(0, 1, 2, 2, (1,))} == contents(lacks, {}, {})


def test_reads_are_not_scanned_if_every_bookie_lists():
    """There may be millions of reads."""
    reads = (pytest.fail("a read was looked at") for _ in range(1))
    assert {} == probed_ledgers(reads, ())


def test_a_bookie_that_was_only_read_from_is_counted_by_that():
    """It needs no answer to a list request."""
    assert {"b1": 2} == last_words(answer_batches(), NOBODY, NOBODY, {"b1": np.array([1, 2])}).asked


def test_ledgers_are_grouped_by_word_and_keep_their_order():
    """The words are sorted, in whatever order they first come."""
    count = 3_000
    words = pa.array(["c", "a", "b"] * count)
    found = [(word, ids.tolist()) for word, ids in by_word(words, pa.array(range(3 * count)))]
    assert [
        (word, list(range(first, 3 * count, 3))) for word, first in (("a", 1), ("b", 2), ("c", 0))
    ] == found
