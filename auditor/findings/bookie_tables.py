"""Read from the evidence how bookies behaved, and which may have a new name.

Also which ledgers name an unregistered bookie, whom to ask about renamed bookies, and the result.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from auditor.evidence.gathered import ledger_records
from auditor.evidence.run_directory import Place
from auditor.evidence.schemas import ANSWERS, LEDGERS, RENAMES
from auditor.findings.bookies import LEDGERS_NAMED_MAX, Missed
from auditor.findings.renaming import (
    RENAME_LEDGERS_MAX,
    RENAMES_MAX,
    RenameCase,
    Renamed,
    entries_due,
    find_new_name,
)
from auditor.model.availability import (
    LISTED_BY_LISTER,
    LISTER_CONTRADICTED,
    NO_COOKIE,
    Answer,
    AnswerStatus,
    Greeting,
    ReadStatus,
)
from auditor.model.cluster import BookieLook, BookieRecord, Registration
from auditor.model.identity import BookieId, EntryId, LedgerId
from auditor.model.ledger import LedgerMetadata, RecordStatus

BRIEF_ANSWERS = pa.schema(
    [
        ANSWERS.field(name)
        for name in ("bookie_id", "ledger_id", "look", "asked_at_ms", "status", "detail")
    ]
)
"""The columns of ANSWERS that tell how bookies behaved, without the entries they hold."""
UNHEARD_OR_GREETING = pc.is_null(pc.field("ledger_id")) | (
    pc.field("status") == AnswerStatus.UNREGISTERED.value
)
"""Selects greetings and UNREGISTERED answers: few rows, however many ledgers there are."""


def by_look(records: Iterable[BookieRecord]) -> list[BookieLook]:
    """Return bookie records as one mapping a look, oldest look first.

    If a look has two records of a bookie, the newer one counts.
    """
    looks: dict[int, dict[BookieId, BookieRecord]] = {}
    for record in sorted(records, key=lambda one: one.read_at_ms):
        looks.setdefault(record.look, {})[record.bookie_id] = record
    return [looks[look] for look in sorted(looks)]


def with_greetings(
    records: Sequence[BookieRecord], answers: pa.Table, look: int
) -> list[BookieRecord]:
    """Return the bookies of one look with their greetings.

    They include bookies that ledgers name and that have neither a registration nor a cookie.
    `answers` holds BRIEF_ANSWERS rows. A registered bookie that was not asked keeps the greeting
    None. A bookie with several greetings (one a shard) gets the one that comes first in `_TELLING`.
    """
    mine = answers.filter(pc.field("look") == look)
    greetings: dict[BookieId, tuple[Greeting, str]] = {}
    for row in (
        mine.filter(pc.is_null(pc.field("ledger_id")))
        .select(["bookie_id", "status", "detail"])
        .to_pylist()
    ):
        one = (Greeting(row["status"]), row["detail"])
        greetings[row["bookie_id"]] = min(
            one, greetings.get(row["bookie_id"], one), key=_how_telling
        )
    named = set(
        pc.unique(
            mine.filter(pc.field("status") == AnswerStatus.UNREGISTERED.value)["bookie_id"]
        ).to_pylist()
    )
    known = {record.bookie_id for record in records}
    at_ms = records[0].read_at_ms if records else pc.max(mine["asked_at_ms"]).as_py()
    strangers = [BookieRecord(b, look, at_ms, Registration.NONE) for b in sorted(named - known)]
    return [_with_greeting(record, greetings) for record in (*records, *strangers)]


_TELLING = (
    Greeting.UNSUPPORTED,
    Greeting.ANSWERED,
    Greeting.REFUSED,
    Greeting.SILENT,
    Greeting.ADDRESS_UNKNOWN,
    Greeting.AUDITOR_LIMITED,
    Greeting.UNREGISTERED,
)
"""Greetings in order of how much they prove. A bookie that cannot list answers everything else. A
bookie that answered once is not silent."""


_TELLING_DETAILS = (LISTER_CONTRADICTED, LISTED_BY_LISTER, "")
"""The same order for details of one greeting, by their beginnings: a detail that names a lister
shows where the lister was asked.
"""


def _how_telling(greeting: tuple[Greeting, str]) -> tuple[int, int]:
    said = next(
        number for number, prefix in enumerate(_TELLING_DETAILS) if greeting[1].startswith(prefix)
    )
    return _TELLING.index(greeting[0]), said


def _with_greeting(
    record: BookieRecord, greetings: dict[BookieId, tuple[Greeting, str]]
) -> BookieRecord:
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
"""Selects the rows of LEDGERS with a mark at that look: few, unless a cluster is being rebuilt."""


def unmarked_rows(asked: pa.Table, marks: pa.Table) -> pa.Table:
    """Return the rows of `asked` whose ledger was not marked at that look.

    The cluster already knows of marked ledgers. `asked` has the columns MARK_KEY. `marks` holds the
    MARK_KEY of every marked ledger at every look.
    """
    return asked.join(marks, MARK_KEY, join_type="left anti")


STATE = [*MARK_KEY, "status", "czxid", "znode_version"]
"""The columns of LEDGERS that identify one state of a ledger's metadata."""
LEDGER_LOOKS_MIN = 2
"""A ledger without a mark counts as unmarked only if it needed the bookie at this many looks."""


def bookies_missed(answers: pa.Table, states: pa.Table, marks: pa.Table) -> dict[BookieId, Missed]:
    """Return, for each unregistered bookie, how many closed, non-empty ledgers name it, by their
    marks.

    `answers` holds BRIEF_ANSWERS rows, `states` the STATE of the ledgers in `named_ledgers`,
    `marks` the MARK_KEY of every marked ledger at every look. A ledger counts only if the metadata
    that named the bookie is still the newest: one that was deleted or no longer names the bookie
    does not. Costs the rows of unregistered bookies.
    """
    asked = answers.filter(pc.field("status") == AnswerStatus.UNREGISTERED.value).select(
        ["bookie_id", *MARK_KEY]
    )
    if not asked.num_rows:
        return {}
    looks = asked.group_by(["bookie_id", "ledger_id"]).aggregate(
        [("look", "count_distinct"), ("look", "max")]
    )
    read_then = states.select([*MARK_KEY, *_STAMP]).rename_columns(
        [*MARK_KEY, "czxid_then", "version_then"]
    )
    named = looks.join(_histories(states, marks), "ledger_id", join_type="inner").join(
        read_then, ["ledger_id", "look_max"], ["ledger_id", "look"], join_type="inner"
    )
    still = (pc.field("czxid_last") == pc.field("czxid_then")) & (
        pc.field("znode_version_last") == pc.field("version_then")
    )
    named = named.filter((pc.field("status_last") == RecordStatus.FOUND.value) & still)
    return {
        bookie: _count_missed(named.filter(pc.field("bookie_id") == bookie))
        for bookie in pc.unique(named["bookie_id"]).to_pylist()
    }


_STAMP = STATE[-2:]


def named_ledgers(answers: pa.Table) -> pa.Array:
    """Return the ids of the ledgers that needed an unregistered bookie at some look.

    `answers` holds BRIEF_ANSWERS rows.
    """
    return pc.unique(
        answers.filter(pc.field("status") == AnswerStatus.UNREGISTERED.value)["ledger_id"]
    )


def _histories(states: pa.Table, marks: pa.Table) -> pa.Table:
    """Return one row a ledger: its newest state, and whether its first, last or any look saw a
    mark.
    """
    marked = marks.append_column("marked", pa.array([True] * marks.num_rows, pa.bool_()))
    rows = states.join(marked, MARK_KEY, join_type="left outer")
    rows = rows.set_column(
        rows.schema.get_field_index("marked"), "marked", pc.fill_null(rows["marked"], False)
    )
    ordered = rows.sort_by([("ledger_id", "ascending"), ("look", "ascending")])
    last = [(name, "last") for name in STATE[2:]]
    return ordered.group_by("ledger_id", use_threads=False).aggregate(
        [*last, ("marked", "first"), ("marked", "last"), ("marked", "any")]
    )


def _count_missed(rows: pa.Table) -> Missed:
    """Return the counts of one bookie's ledgers."""
    never = rows.filter(
        ~pc.field("marked_any") & (pc.field("look_count_distinct") >= LEDGER_LOOKS_MIN)
    )
    kept = rows.filter(pc.field("marked_last"))
    some = sorted(never["ledger_id"].to_pylist())[:LEDGERS_NAMED_MAX]
    return Missed(
        never.num_rows, tuple(some), int(pc.sum(kept["marked_first"]).as_py() or 0), kept.num_rows
    )


NAME = "evidence/renames"
CANDIDATES_MAX = 20
"""Maximum number of ledgers checked to find RENAME_LEDGERS_MAX that still name a gone bookie."""

_MISSING = pc.field("status") == AnswerStatus.UNREGISTERED.value


def rename_cases(run: Place, known: Collection[BookieId]) -> list[RenameCase]:
    """Return the bookies to look for under another name, with their ledgers, sorted by id.

    They are not registered. There are at most RENAMES_MAX; those without a cookie come first.
    `known`: bookies that are registered by now. The
    ledgers of a bookie are those with the lowest ids that are closed, not empty and still name it.
    Costs a scan of the answers.
    """
    columns = ["bookie_id", "ledger_id", "detail"]
    named = run.read_table("evidence/answers", BRIEF_ANSWERS, _MISSING, columns)
    forgotten = set(named.filter(pc.field("detail") == NO_COOKIE)["bookie_id"].to_pylist())
    missing = set(pc.unique(named["bookie_id"]).to_pylist()) - set(known)
    gone = sorted(missing, key=lambda bookie: (bookie not in forgotten, bookie))[:RENAMES_MAX]
    lowest = {bookie: _lowest(named, bookie) for bookie in gone}
    metadata = _metadata(run, {ledger for ledgers in lowest.values() for ledger in ledgers})
    cases = []
    for bookie, ledgers in lowest.items():
        due = [
            ledger
            for ledger in ledgers
            if ledger in metadata and entries_due(metadata[ledger], bookie)
        ]
        if due:
            cases.append(
                RenameCase(
                    bookie, {ledger: metadata[ledger] for ledger in due[:RENAME_LEDGERS_MAX]}
                )
            )
    return cases


def _lowest(named: pa.Table, bookie: BookieId) -> list[LedgerId]:
    ids = pc.unique(named.filter(pc.field("bookie_id") == bookie)["ledger_id"])
    return [id_.as_py() for id_ in ids.take(pc.sort_indices(ids))[:CANDIDATES_MAX]]


def _metadata(run: Place, ids: Collection[LedgerId]) -> dict[LedgerId, LedgerMetadata]:
    """Return the newest metadata of those ledgers that then existed and could be decoded."""
    rows = run.read_table(
        "evidence/ledgers", LEDGERS, pc.field("ledger_id").isin(pa.array(sorted(ids)))
    )
    newest = {record.ledger_id: record for record in ledger_records(rows.sort_by("look"))}
    return {i: one.metadata for i, one in newest.items() if one.metadata is not None}


def renames(run: Place) -> dict[BookieId, Renamed]:
    """Return the missing bookies that probably have a new name. Empty if no bookie was asked."""
    if not run.has_table(NAME):
        return {}
    rows = run.read_table(NAME, RENAMES, pc.is_valid(pc.field("ledger_id"))).to_pylist()
    answers: dict[tuple[BookieId, LedgerId], Answer] = {}
    reads: dict[tuple[BookieId, LedgerId], dict[EntryId, ReadStatus]] = defaultdict(dict)
    ledgers: dict[BookieId, set[LedgerId]] = defaultdict(set)
    for row in rows:
        key = row["bookie_id"], row["ledger_id"]
        if row["entry_id"] is None:
            answers[key] = Answer(
                *key, 0, row["asked_at_ms"], AnswerStatus(row["status"]), row["groups"]
            )
        else:
            reads[key][row["entry_id"]] = ReadStatus(row["status"])
        for bookie in row["gone"]:
            ledgers[bookie].add(row["ledger_id"])
    metadata = _metadata(run, {ledger for ids in ledgers.values() for ledger in ids})
    cases = (
        RenameCase(bookie, {i: metadata[i] for i in ids if i in metadata})
        for bookie, ids in sorted(ledgers.items())
    )
    return {
        case.gone: one for case in cases if (one := find_new_name(case, answers, reads)) is not None
    }
