"""Decode Arrow columns into the evidence of each ledger.

Whole columns are decoded at once: decoding cell by cell is ten times slower.

A list that was as expected when it came is not stored (docs/decisions/0062). It is restored here
from the metadata with which it was compared, and nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields
from itertools import pairwise
from operator import attrgetter
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from auditor.evidence.ids import distinct_numbers
from auditor.evidence.rows import ANSWER_ROWS, LEFT_OUT, READ_ROWS, structs
from auditor.evidence.run_directory import Place
from auditor.evidence.schemas import ANSWERS, LEDGERS
from auditor.evidence.shard_files import ShardFiles, ledgers_read
from auditor.evidence.table_scan import are_of
from auditor.first_checker.schedule import expected_list
from auditor.model.availability import Answer, AnswerStatus, EntryRead
from auditor.model.evidence import LedgerEvidence, Look
from auditor.model.identity import LedgerId
from auditor.model.ledger import (
    DigestType,
    LedgerMetadata,
    LedgerRecord,
    LedgerState,
    Malformed,
    Mark,
    RecordStatus,
    ReplicationLock,
    Segment,
    ZnodeStamp,
)

_RECORD_STATUS = {status.value: status for status in RecordStatus}
_STATE = {state.value: state for state in LedgerState}
_DIGEST: dict[int | None, DigestType | None] = {
    None: None,
    **{int(digest): digest for digest in DigestType},
}


def evidence_by_ledger(batch: pa.RecordBatch) -> Iterator[LedgerEvidence]:
    """Yield the evidence of each ledger of a batch of SEEN rows, its looks oldest first.

    Costs some ten microseconds a ledger.
    """
    records = _Nested(batch.column("records"), _ledger_records)
    answers = _Nested(batch.column("answers"), ANSWER_ROWS.values)
    reads = _Nested(batch.column("reads"), READ_ROWS.values)
    for index, ledger_id in enumerate(batch.column("ledger_id").to_pylist()):
        yield evidence_of(ledger_id, records[index], answers[index], reads[index])


def evidence_of(
    ledger_id: int,
    records: Sequence[LedgerRecord],
    answers: Sequence[Answer],
    reads: Sequence[EntryRead],
) -> LedgerEvidence:
    """Return what was seen of one ledger as its looks, oldest first. Lists are restored.

    Raises AssertionError for two answers of one bookie at one look, and for a list that is neither
    stored nor as expected: these are faults of the auditor.
    """
    if len(records) == 1:
        metadata = records[0].metadata
        only = Look(
            records[0],
            {a.bookie_id: _restored(a, metadata) for a in answers},
            {(r.bookie_id, r.entry_id): r for r in reads},
        )
        assert len(only.answers) == len(answers), (
            f"two answers of one bookie on ledger {ledger_id} at one look"
        )
        return LedgerEvidence(ledger_id, (only,))
    looks = []
    for record in sorted(records, key=lambda record: record.look):
        said = [_restored(a, record.metadata) for a in answers if a.look == record.look]
        read = {(r.bookie_id, r.entry_id): r for r in reads if r.look == record.look}
        look = Look(record, {a.bookie_id: a for a in said}, read)
        assert len(look.answers) == len(said), (
            f"two answers of one bookie on ledger {ledger_id} at look {record.look}"
        )
        looks.append(look)
    return LedgerEvidence(ledger_id, tuple(looks))


def _restored(answer: Answer, metadata: LedgerMetadata | None) -> Answer:
    """Return the answer with its list. `metadata` is what its look read of the ledger."""
    if answer.groups is not LEFT_OUT:
        return answer
    assert metadata is not None and _can_restore(answer), (
        f"the list of {answer.bookie_id} on ledger {answer.ledger_id} at look {answer.look} is"
        " neither stored nor as expected"
    )
    groups = expected_list(metadata, answer.bookie_id)
    cells = [*_BEFORE_GROUPS(answer), groups, *_AFTER_GROUPS(answer)]
    return Answer(*cells)


_FIELDS = [field.name for field in fields(Answer)]
_BEFORE_GROUPS = attrgetter(*_FIELDS[: _FIELDS.index("groups")])
_AFTER_GROUPS = attrgetter(*_FIELDS[_FIELDS.index("groups") + 1 :])
"""The fields around the list. `dataclasses.replace` takes four times as long."""


def _can_restore(answer: Answer) -> bool:
    return answer.is_as_expected and answer.status is AnswerStatus.HELD


_COMPARED = ("bookie_id", "ledger_id", "look", "asked_at_ms", "status", "groups", "is_as_expected")


def read_answers(run: Place, keep: pc.Expression) -> list[Answer]:
    """Return the answers whose rows pass the filter `keep`, with their lists restored.

    Their counts and details are left out. Costs a scan of the answers, and where a list is not
    stored a scan of the ledgers. Raises OutputError.
    """
    rows = run.read_table("evidence/answers", ANSWERS, keep, list(_COMPARED))
    answers = ANSWER_ROWS.values(structs(rows))
    metadata = _metadata_of(run, {a.ledger_id for a in answers if a.groups is LEFT_OUT})
    return [_restored(a, metadata.get((a.ledger_id, a.look))) for a in answers]


def _metadata_of(
    run: Place, ids: set[LedgerId]
) -> Mapping[tuple[LedgerId, int], LedgerMetadata | None]:
    """Return the metadata of some ledgers that the run read, by ledger and look."""
    if not ids:
        return {}
    rows = ledgers_read(ShardFiles(run)).table(LEDGERS.names, are_of(sorted(ids)))
    return {(one.ledger_id, one.look): one.metadata for one in ledger_records(rows)}


CHECKED_AT_ONCE = 20_000
"""Ledgers of the sample whose answers are in memory at a time."""
UNKNOWN_CHECKED_MAX = 20_000
"""Of at most this many ledgers the answers that a bookie does not know them are compared: those of
more ledgers are chosen evenly."""

IS_KEPT_LIST = (
    pc.field("is_as_expected")
    & (pc.field("status") == AnswerStatus.HELD.value)
    & pc.is_valid(pc.field("groups"))
)
"""Lists that are stored though they are said to be as expected: those of the sample."""
IS_EXPECTED_UNKNOWN = pc.field("is_as_expected") & (
    pc.field("status") == AnswerStatus.NO_SUCH_LEDGER.value
)
"""Answers that a bookie does not know the ledger, and need not: nothing of them is left out."""


def has_wrong_comparison(run: Place) -> bool:
    """Return whether some answer was said to be as expected, and is not by what is stored.

    The lists of a sample of ledgers are stored, and each answer that a bookie does not know the
    ledger. A single wrong one proves that the comparison was wrong, and that no answer that was
    said to be as expected may be believed. Costs a scan of the answers and, for CHECKED_AT_ONCE
    ledgers each, one more and one of the ledgers. Raises OutputError.
    """
    can_be_checked, columns = IS_KEPT_LIST | IS_EXPECTED_UNKNOWN, ["ledger_id", "status"]
    rows = run.read_table("evidence/answers", ANSWERS, can_be_checked, columns)
    is_list = pc.equal(rows["status"], AnswerStatus.HELD.value)
    kept, unknown = (
        distinct_numbers(rows["ledger_id"].filter(mask).to_numpy())
        for mask in (is_list, pc.invert(is_list))
    )
    step = max(1, -(-len(unknown) // UNKNOWN_CHECKED_MAX))
    ids = np.union1d(kept, unknown[::step])
    return any(
        _has_wrong_comparison(run, ids[start : start + CHECKED_AT_ONCE].tolist())
        for start in range(0, len(ids), CHECKED_AT_ONCE)
    )


def _has_wrong_comparison(run: Place, ids: list[LedgerId]) -> bool:
    can_be_checked = IS_KEPT_LIST | IS_EXPECTED_UNKNOWN
    answers = read_answers(run, can_be_checked & are_of(ids))
    metadata = _metadata_of(run, set(ids))
    return not all(_is_confirmed(a, metadata.get((a.ledger_id, a.look))) for a in answers)


def _is_confirmed(answer: Answer, metadata: LedgerMetadata | None) -> bool:
    return metadata is not None and answer.groups == expected_list(metadata, answer.bookie_id)


def ledger_records(rows: pa.Table) -> list[LedgerRecord]:
    """Return LEDGERS rows as values, in their order."""
    return _ledger_records(structs(rows))


class _Nested:
    """A list<struct> column, decoded once. Indexing it with a row returns that row's values."""

    def __init__(self, column: pa.ListArray, decode: Callable[[pa.StructArray], list[Any]]) -> None:
        self._offsets = column.offsets.to_pylist()
        self._values = decode(column.values) if len(column.values) else []
        self._is_there = column.is_valid().to_pylist() if column.null_count else None

    def __getitem__(self, row: int) -> list[Any]:
        if self._is_there is not None and not self._is_there[row]:
            return []  # Arrow allows values under a null cell. They are not data.
        return self._values[self._offsets[row] : self._offsets[row + 1]]


def _columns(rows: pa.StructArray, *names: str) -> Iterator[tuple[Any, ...]]:
    return zip(*(rows.field(name).to_pylist() for name in names), strict=True)


def _ledger_records(rows: pa.StructArray) -> list[LedgerRecord]:
    heads = _columns(
        rows,
        *("ledger_id", "look", "read_at_ms", "status", "detail"),
        *("czxid", "znode_version", "znode_ctime_ms", "znode_mtime_ms"),
    )
    metadata = _metadata(rows)
    malformed = _optional(
        rows.field("malformed"),
        lambda bad: Malformed(bad[0], bad[1], bad[2], bad[3]),
        _MALFORMED_ORDER,
    )
    marks = _optional(rows.field("mark"), _mark, _MARK_ORDER)
    return [
        LedgerRecord(
            ledger_id,
            look,
            at,
            _RECORD_STATUS[status],
            None if czxid is None else ZnodeStamp(czxid, version, ctime, mtime or 0),
            metadata[i],
            malformed[i],
            marks[i],
            detail,
        )
        for i, (ledger_id, look, at, status, detail, czxid, version, ctime, mtime) in enumerate(
            heads
        )
    ]


_MALFORMED_ORDER = ("reason", "offset_bytes", "length_bytes", "sha256")
_MARK_ORDER = ("created_ms", "changed_ms", "missing_replicas", "problem", "lock")


def _mark(cells: tuple[Any, ...]) -> Mark:
    created_ms, changed_ms, missing, problem, lock = cells
    held = None if lock is None else ReplicationLock(lock["holder"], lock["since_ms"])
    return Mark(created_ms, changed_ms, tuple(missing or ()), problem, held)


def _optional(
    rows: pa.StructArray, make: Callable[[tuple[Any, ...]], Any], names: tuple[str, ...]
) -> list[Any]:
    """Return a nullable struct column as values.

    Skips decoding when every row is null: most ledgers have neither a mark nor a fault.
    """
    if rows.null_count == len(rows):
        return [None] * len(rows)
    valid = rows.is_valid().to_pylist()
    return [
        make(cells) if there else None
        for there, cells in zip(valid, _columns(rows, *names), strict=True)
    ]


def _metadata(rows: pa.StructArray) -> list[LedgerMetadata | None]:
    segments = _segments(rows.field("segments"))
    custom = rows.field("custom_metadata").to_pylist()
    columns = _columns(
        rows,
        *(
            "format_version",
            "state",
            "ensemble_size",
            "write_quorum",
            "ack_quorum",
            "last_entry_id",
        ),
        *("length_bytes", "digest_type", "metadata_ctime_ms"),
    )
    return [
        (
            None
            if version is None
            else LedgerMetadata(
                version,
                _STATE[state],
                size,
                write,
                ack,
                last,
                length,
                segments[i],
                _DIGEST[digest],
                ctime,
                tuple((pair["key"], pair["value"]) for pair in custom[i]) if custom[i] else (),
            )
        )
        for i, (version, state, size, write, ack, last, length, digest, ctime) in enumerate(columns)
    ]


def _segments(column: pa.ListArray) -> list[tuple[Segment, ...]]:
    inner = column.values
    ensembles = inner.field("ensemble")
    names = ensembles.values.to_pylist()
    ends = ensembles.offsets.to_pylist()
    firsts = inner.field("first_entry_id").to_pylist()
    made = [
        Segment(first, tuple(names[a:b]))
        for first, a, b in zip(firsts, ends, ends[1:], strict=False)
    ]
    offsets = column.offsets.to_pylist()
    return [tuple(made[a:b]) for a, b in pairwise(offsets)]
