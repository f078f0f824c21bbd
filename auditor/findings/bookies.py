"""Bookies that are silent, or that were lost without the cluster knowing it.

**The fourth check of BP-34.** A silent bookie should not be registered, and the cluster should
know. Verified: registered bookies that were dialled answered at some look. Closed ledgers that name
an unregistered bookie are marked, or the cluster is marking them. Not verified: why a bookie is
silent; that somebody works on a marked ledger (its age is judged elsewhere); bookies in planned
maintenance, which are known to be down; whether a bookie that two runs saw unregistered was back in
between.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from auditor.evidence.schemas import ANSWERS, DISK
from auditor.model.availability import (
    LISTED_BY_LISTER,
    LISTER_CONTRADICTED,
    NOT_DIALLED,
    AnswerStatus,
    DiskSpace,
    Greeting,
)
from auditor.model.cluster import BookieLook, BookieRecord, ClusterFacts, Registration
from auditor.model.facts import LostFacts, SilentFacts
from auditor.model.finding import Finding, Kind
from auditor.model.identity import BookieId, LedgerId
from auditor.model.ledger import RecordStatus

LEDGERS_NAMED_MAX = 10
"""At most this many ledgers are named in the finding on a lost bookie. The others are counted."""


@dataclass(frozen=True, slots=True)
class Missed:
    """What a run knows of a bookie that is not registered, beside its records.

    It counts closed, non-empty ledgers that still name the bookie. `unmarked`: those that no look
    of at least two saw marked; `some` are the first of them. `marked_last`: those with a mark when
    they were last read. `marked_first`: those of `marked_last` that had a mark at the first look
    too. While the cluster is marking, `marked_last` is larger. A ledger whose mark was removed
    counts nowhere.
    """

    unmarked: int
    some: tuple[LedgerId, ...]
    marked_first: int = 0
    marked_last: int = 0
    since_ms: int | None = None
    """When it was first known to be unregistered, also from earlier runs; None: at the first
    look."""
    renamed_to: BookieId | None = None
    """The registered bookie that holds this bookie's entries, if there is one."""


def nobody_answered(looks: Sequence[BookieLook]) -> bool:
    """Return whether every registered bookie that was asked was silent or refused at every look.

    Then the fault lies with our network or our credentials. A bookie without a known address was
    not asked. False if no registered bookie was silent or refused.
    """
    greetings = {b.greeting for look in looks for b in look.values() if b.is_registered}
    return bool(greetings & {Greeting.SILENT, Greeting.REFUSED}) and not greetings & {
        Greeting.ANSWERED,
        Greeting.UNSUPPORTED,
    }


def recovery_gap_ms(facts: ClusterFacts) -> int:
    """Return the least time between two looks at an unregistered bookie with a cookie, in ms.

    It is lostBookieRecoveryDelay and a session time-out: a slow restart must not alert anybody.
    """
    return (facts.lost_bookie_recovery_delay_s or 0) * 1000 + facts.session_timeout_ms


def judge_bookies(
    looks: Sequence[BookieLook],
    missed: Mapping[BookieId, Missed],
    facts: ClusterFacts,
    maintenance: frozenset[BookieId] = frozenset(),
) -> list[Finding]:
    """Return the findings on bookies after the last look, in order of bookie id.

    Needs at least two looks. Empty if no bookie answered. Bookies in `maintenance` get no finding.
    """
    if len(looks) < 2 or nobody_answered(looks):
        return []
    found = []
    for bookie in sorted(set().union(*looks) - maintenance):
        records = [look[bookie] for look in looks if bookie in look]
        if len(records) < 2:
            continue
        if all(_is_mute(record) for record in records):
            found.append(_silent(records, facts))
        if _is_missed(records, missed.get(bookie)) and not _why_withheld(
            records, missed[bookie], facts
        ):
            found.append(_lost_finding(records, missed[bookie], facts))
    return found


def withheld(
    looks: Sequence[BookieLook],
    missed: Mapping[BookieId, Missed],
    facts: ClusterFacts,
    maintenance: frozenset[BookieId] = frozenset(),
) -> list[str]:
    """Return a sentence for each lost bookie that is not accused, in order of bookie id.

    Bookies in `maintenance` are reported elsewhere.
    """
    found = []
    for bookie in sorted(missed.keys() - maintenance):
        records = [look[bookie] for look in looks if bookie in look]
        if _is_missed(records, missed[bookie]) and (
            why := _why_withheld(records, missed[bookie], facts)
        ):
            found.append(
                f"bookie {bookie} is not registered and some closed ledgers that name it are"
                f" unmarked: {why}"
            )
    return found


def not_dialled(looks: Sequence[BookieLook]) -> list[str]:
    """Return a sentence if bookies without a finding were not dialled at the last look.

    The sentence names the first of them and the reason: its length does not depend on their number.
    """
    newest = [looks[-1][bookie] for bookie in sorted(looks[-1])] if looks else []
    found = [record for record in newest if _was_not_dialled(record)]
    if not found:
        return []
    first = found[0]
    named = f"bookie {first.bookie_id} was" if len(found) == 1 else f"{len(found)} bookies were"
    return [
        f"{named} asked nothing at the last look, and says nothing about itself"
        f" ({first.bookie_id}: {first.greeting_detail})"
    ]


def _was_not_dialled(record: BookieRecord) -> bool:
    """Return whether we did not dial the bookie because no KDC gave us a ticket."""
    return record.greeting is Greeting.SILENT and record.greeting_detail.startswith(NOT_DIALLED)


def _is_mute(record: BookieRecord) -> bool:
    """Return whether a registered bookie was silent when it was dialled."""
    return (
        record.is_registered and record.greeting is Greeting.SILENT and not _was_not_dialled(record)
    )


def _is_missed(records: Sequence[BookieRecord], missed: Missed | None) -> bool:
    """Return whether the bookie was unregistered at every look, and unmarked ledgers name it.

    One look is not enough: it takes at least two.
    """
    gone = len(records) > 1 and all(not record.is_registered for record in records)
    return gone and missed is not None and missed.unmarked > 0


def _why_withheld(records: Sequence[BookieRecord], missed: Missed, facts: ClusterFacts) -> str:
    """Return why the cluster may still know of the bookie, or "" if nothing says so."""
    has_cookie = any(record.has_cookie for record in records)
    if missed.marked_last > missed.marked_first:
        named = missed.marked_last + missed.unmarked
        return (
            f"replication is being arranged: {missed.marked_last} of {named} ledgers are marked,"
            f" {missed.marked_first} of them were at the first look"
        )
    if has_cookie and facts.replication_disabled:
        return (
            "it has a cookie and auto-recovery is disabled, as during an upgrade: it is reported"
            " when auto-recovery is enabled and the bookie is still not registered"
        )
    if has_cookie and _unregistered_for_ms(records, missed) < recovery_gap_ms(facts):
        return (
            "it has a cookie and may be restarting. It is reported once it has not been registered"
            f" for {recovery_gap_ms(facts) // 1000} s (lostBookieRecoveryDelay and a session"
            " time-out). So far it is known to be unregistered for"
            f" {_unregistered_for_ms(records, missed) // 1000} s; whole runs remember since when,"
            " and --lost-bookie-wait-max bounds how long one run waits"
        )
    return ""


def _unregistered_for_ms(records: Sequence[BookieRecord], missed: Missed) -> int:
    """Return for how long the bookie is known to be unregistered, up to the last look."""
    first = records[0].read_at_ms
    since = first if missed.since_ms is None else min(missed.since_ms, first)
    return records[-1].read_at_ms - since


def _silent(records: Sequence[BookieRecord], cluster: ClusterFacts) -> Finding:
    last = records[-1]
    facts = SilentFacts(
        registration=last.registration.value,
        address=f"{last.host}:{last.port}",
        looks=len(records),
        detail=last.greeting_detail,
        lost_bookie_recovery_delay_s=cluster.lost_bookie_recovery_delay_s,
        replication_disabled=cluster.replication_disabled,
    )
    return Finding(Kind.BOOKIE_SILENT_YET_REGISTERED, facts, bookie_id=last.bookie_id)


def _lost_finding(
    records: Sequence[BookieRecord], missed: Missed, cluster: ClusterFacts
) -> Finding:
    last = records[-1]
    facts = LostFacts(
        has_cookie=last.has_cookie,
        unmarked_ledgers=missed.unmarked,
        some_ledgers=missed.some[:LEDGERS_NAMED_MAX],
        marked_ledgers_first=missed.marked_first,
        marked_ledgers_last=missed.marked_last,
        apart_ms=last.read_at_ms - records[0].read_at_ms,
        unregistered_ms=_unregistered_for_ms(records, missed),
        lost_bookie_recovery_delay_s=cluster.lost_bookie_recovery_delay_s,
        replication_disabled=cluster.replication_disabled,
        renamed_to=missed.renamed_to,
    )
    return Finding(Kind.BOOKIE_LOST_UNNOTICED, facts, bookie_id=last.bookie_id)


BRIEF_ANSWERS = pa.schema(
    [
        ANSWERS.field(name)
        for name in ("bookie_id", "ledger_id", "look", "asked_at_ms", "status", "detail")
    ]
)
"""The columns of ANSWERS that tell how bookies behaved, without the entries they hold."""


GREETINGS = pa.schema([*BRIEF_ANSWERS, DISK])
"""BRIEF_ANSWERS, and what greetings say of the bookies' disks."""


UNHEARD_OR_GREETING = pc.is_null(pc.field("ledger_id")) | (
    pc.field("status") == AnswerStatus.UNREGISTERED.value
)
"""Selects greetings and UNREGISTERED answers: few rows, however many ledgers there are."""


def by_look(records: Iterable[BookieRecord]) -> list[BookieLook]:
    """Return bookie records as one mapping a look, oldest look first.

    If a look has two records of a bookie, the newer one counts.
    """
    looks: dict[int, dict[BookieId, BookieRecord]] = {}
    for record in sorted(records, key=lambda look_record: look_record.read_at_ms):
        looks.setdefault(record.look, {})[record.bookie_id] = record
    return [looks[look] for look in sorted(looks)]


def with_greetings(
    records: Sequence[BookieRecord], answers: pa.Table, look: int
) -> list[BookieRecord]:
    """Return the bookies of one look with their greetings.

    They include bookies that ledgers name and that have neither a registration nor a cookie.
    `answers` holds GREETINGS rows. A registered bookie that was not asked keeps the greeting
    None. A bookie with several greetings (one a shard) gets the one that comes first in `_TELLING`,
    and the newest figures of its disks.
    """
    mine = answers.filter(pc.field("look") == look)
    greetings: dict[BookieId, tuple[Greeting, str]] = {}
    disks: dict[BookieId, DiskSpace] = {}
    said = mine.filter(pc.is_null(pc.field("ledger_id"))).sort_by("asked_at_ms")
    for row in said.select(["bookie_id", "status", "detail", DISK.name]).to_pylist():
        if row[DISK.name] is not None:
            disks[row["bookie_id"]] = DiskSpace(**row[DISK.name])
        greeted = (Greeting(row["status"]), row["detail"])
        greetings[row["bookie_id"]] = min(
            greeted, greetings.get(row["bookie_id"], greeted), key=_how_telling
        )
    named = set(
        pc.unique(
            mine.filter(pc.field("status") == AnswerStatus.UNREGISTERED.value)["bookie_id"]
        ).to_pylist()
    )
    known = {record.bookie_id for record in records}
    at_ms = records[0].read_at_ms if records else pc.max(mine["asked_at_ms"]).as_py()
    strangers = [BookieRecord(b, look, at_ms, Registration.NONE) for b in sorted(named - known)]
    return [
        _with_greeting(record, greetings, disks.get(record.bookie_id, DiskSpace()))
        for record in (*records, *strangers)
    ]


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
    record: BookieRecord, greetings: dict[BookieId, tuple[Greeting, str]], disk: DiskSpace
) -> BookieRecord:
    if not record.is_registered:
        greeting, detail = Greeting.UNREGISTERED, ""
    elif record.host is None:
        greeting, detail = Greeting.ADDRESS_UNKNOWN, record.problem
    elif record.bookie_id in greetings:
        greeting, detail = greetings[record.bookie_id]
    else:
        return record
    return replace(
        record,
        greeting=greeting,
        greeting_detail=detail,
        total_bytes=disk.total_bytes,
        free_bytes=disk.free_bytes,
    )


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
