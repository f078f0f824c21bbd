"""What the written evidence says of bookies: who was asked, who answered, and which ledgers name a bookie that is gone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from auditor.evidence.schemas import ANSWERS
from auditor.model.availability import AnswerStatus, Greeting
from auditor.model.cluster import BookieRecord, Registration
from auditor.model.identity import BookieId
from auditor.model.verdict import Standing, Unknown
from auditor.verify.reachability import LEDGERS_NAMED_MAX, BookieLook, Orphans

TOLD = pa.schema([ANSWERS.field(name) for name in ("bookie_id", "ledger_id", "look", "asked_at_ms", "status", "detail")])
"""Of ANSWERS what says how bookies behaved, without what they hold."""
UNHEARD_OR_GREETING = pc.is_null(pc.field("ledger_id")) | (pc.field("status") == AnswerStatus.UNREGISTERED.value)
"""The rows of ANSWERS that are about bookies: few, however many ledgers there are."""


def by_look(records: Iterable[BookieRecord]) -> list[BookieLook]:
    """Bookie records, one mapping a look, oldest first. Of a bookie that was seen twice at a look the newer one counts."""
    looks: dict[int, dict[BookieId, BookieRecord]] = {}
    for record in sorted(records, key=lambda one: one.read_at_ms):
        looks.setdefault(record.look, {})[record.bookie_id] = record
    return [looks[look] for look in sorted(looks)]


def with_greetings(records: Sequence[BookieRecord], answers: pa.Table, look: int) -> list[BookieRecord]:
    """The bookies of one look with how they greeted us, and those that ledgers name although nothing else knows them.

    `answers` holds TOLD rows; of a registered bookie that was not asked the greeting stays None. A bookie that was greeted for
    several shards has the one of its greetings that says most of what it can.
    """
    mine = answers.filter(pc.field("look") == look)
    greetings: dict[BookieId, tuple[Greeting, str]] = {}
    for row in mine.filter(pc.is_null(pc.field("ledger_id"))).select(["bookie_id", "status", "detail"]).to_pylist():
        one = (Greeting(row["status"]), row["detail"])
        greetings[row["bookie_id"]] = min(one, greetings.get(row["bookie_id"], one), key=lambda it: _TELLING.index(it[0]))
    named = set(pc.unique(mine.filter(pc.field("status") == AnswerStatus.UNREGISTERED.value)["bookie_id"]).to_pylist())
    known = {record.bookie_id for record in records}
    at_ms = records[0].read_at_ms if records else pc.max(mine["asked_at_ms"]).as_py() or 0
    strangers = [BookieRecord(b, look, at_ms, Registration.NONE) for b in sorted(named - known)]
    return [_greeted(record, greetings) for record in (*records, *strangers)]


_TELLING = (
    Greeting.UNSUPPORTED,
    Greeting.ANSWERED,
    Greeting.REFUSED,
    Greeting.SILENT,
    Greeting.ADDRESS_UNKNOWN,
    Greeting.UNREGISTERED,
)
"""What greetings say of a bookie, most first: one that cannot list answers all else; one that spoke once is not silent."""


def _greeted(record: BookieRecord, greetings: dict[BookieId, tuple[Greeting, str]]) -> BookieRecord:
    if record.registration is Registration.NONE:
        greeting, detail = Greeting.UNREGISTERED, ""
    elif record.host is None:
        greeting, detail = Greeting.ADDRESS_UNKNOWN, record.problem
    elif record.bookie_id in greetings:
        greeting, detail = greetings[record.bookie_id]
    else:
        return record
    return replace(record, greeting=greeting, greeting_detail=detail)


MARK_KEY = ["ledger_id", "look"]
IS_MARKED = pc.is_valid(pc.field("mark"))
"""The rows of LEDGERS of which MARK_KEY says that the ledger was marked at that look: few, unless a cluster is rebuilt."""


def unmarked(asked: pa.Table, marks: pa.Table) -> pa.Table:
    """The rows of `asked` (MARK_KEY among its columns) whose ledger was not marked at that look: of the others the cluster
    knows. `marks` holds the MARK_KEY of every marked ledger at every look."""
    return asked.join(marks, MARK_KEY, join_type="left anti")


def orphans(answers: pa.Table, verdicts: pa.Table, marks: pa.Table) -> dict[BookieId, Orphans]:
    """For each unregistered bookie the closed, non-empty ledgers that were unmarked at every look and name it.

    Asked at a look means closed and non-empty then; so: asked in vain while unmarked at two looks at least, and still unknown
    in the end. Costs the rows of unregistered bookies.
    """
    asked = unmarked(answers.filter(pc.field("status") == AnswerStatus.UNREGISTERED.value), marks)
    looks = asked.group_by(["bookie_id", "ledger_id"]).aggregate([("look", "count_distinct")])
    twice = looks.filter(pc.field("look_count_distinct") >= 2)
    open_ones = set(_still_silent(verdicts))
    found: dict[BookieId, list[int]] = {}
    for bookie, ledger in zip(twice["bookie_id"].to_pylist(), twice["ledger_id"].to_pylist(), strict=True):
        if ledger in open_ones:
            found.setdefault(bookie, []).append(ledger)
    return {bookie: Orphans(len(ids), tuple(sorted(ids)[:LEDGERS_NAMED_MAX])) for bookie, ids in found.items()}


def _still_silent(verdicts: pa.Table) -> list[int]:
    """Ledgers that in the end still lack a bookie's word."""
    worst = (Standing.INDETERMINATE.word, Standing.VIOLATED.word)
    rows = verdicts.filter(pc.is_in(pc.field("standing"), pa.array(worst))).select(["ledger_id", "unknowns", "exempt"])
    return [
        row["ledger_id"] for row in rows.to_pylist() if Unknown.BOOKIE_SILENT.value in row["unknowns"] and row["exempt"] is None
    ]
