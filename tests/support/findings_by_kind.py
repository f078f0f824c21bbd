"""An example finding of each kind, with facts of its type, for tests that need any finding of a
kind.
"""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from typing import Any, get_args

from auditor.model.facts import (
    Acknowledgement,
    BeyondEndFacts,
    ChangedField,
    ChangedMetadataFacts,
    Contradiction,
    ContradictionFacts,
    Contradicts,
    CorruptFacts,
    DirectoriesLost,
    DroppedLedgerFacts,
    DuplicateFacts,
    EndHeader,
    EntryFacts,
    EntryLogLostFacts,
    Facts,
    FailingFacts,
    ForeignCookieFacts,
    HeldBeyondEnd,
    LostContentFacts,
    LostFacts,
    LostLog,
    MarkFacts,
    MarkWithoutLedgerFacts,
    MetadataField,
    MissingLedgerFacts,
    NewestMissingFacts,
    OrphanedFacts,
    OrphansInNamespace,
    OrphansOfTopic,
    OrphansOnBookie,
    OverdueFacts,
    PlacementFacts,
    PopulationFacts,
    PositionBeyondFacts,
    PositionFacts,
    RecoveryFacts,
    ShrunkFacts,
    SilentFacts,
    SizeLost,
    StuckFacts,
    TruncatedLedgerFacts,
    UnavailableFacts,
    UndecodableFacts,
    UnreadableFacts,
    UnrecoverableFacts,
    UseFacts,
    WriteSetFacts,
)
from auditor.model.finding import CATALOGUE, Copies, Family, Finding, FindingSegment, Kind, Subject
from auditor.model.ledger import LedgerState
from auditor.model.topic import Position, Role

DAY_MS = 86_400_000

FACTS_TYPES: tuple[type, ...] = get_args(Facts)
"""Every dataclass of facts."""


def kinds_of(facts: type) -> list[Kind]:
    """Return the kinds that the docstring of a facts dataclass names."""
    return [kind for kind in Kind if re.search(rf"\b{kind.value}\b", facts.__doc__ or "")]


@cache
def facts_types(kind: Kind) -> list[type]:
    """Return the dataclasses whose docstrings name the kind."""
    return [facts for facts in FACTS_TYPES if kind in kinds_of(facts)]


ENTRY = EntryFacts(worst_entry=42, write_set=("b1", "b2"))
MARK = MarkFacts(
    age_ms=10 * DAY_MS,
    grace_ms=3 * DAY_MS,
    created_ms=0,
    changed_ms=None,
    missing_replicas=("b3",),
    problem="",
    lock_holder=None,
    lock_since_ms=None,
    state=LedgerState.CLOSED,
    why=(),
)
USE = UseFacts("persistent://public/default/t", Role.DATA, "", Position(7, 0))
_FACTS: tuple[Facts, ...] = (
    ENTRY,
    UnavailableFacts(42, ("b1", "b2"), ("b1",), ("b2",)),
    CorruptFacts(42, ("b1", "b2"), (("b1", (42,)),)),
    MARK,
    UnrecoverableFacts(ENTRY, MARK),
    DuplicateFacts((("b1", (0, 2)),)),
    PlacementFacts(
        policy="rack",
        java_mode=False,
        parameters=(("minNumRacksPerWriteQuorum", "2"),),
        write_sets=3,
        deciding=1,
        shown=(WriteSetFacts(2, ("b3", "b1"), ("/r1", "/r1"), "has 1 rack (/r1) and needs 2"),),
        without_location=(),
        recorded_policy="",
    ),
    UndecodableFacts("no end", 5, 9, "00ff"),
    ContradictionFacts((Contradiction(Contradicts.NO_LAST_ENTRY),), 1),
    StuckFacts(LedgerState.OPEN, 0, False, 31 * DAY_MS, 30 * DAY_MS),
    RecoveryFacts(0, ("b1", "b2"), 1, 2, 2, ("b1", "b2"), ("b2",)),
    BeyondEndFacts(
        last_entry_id=41,
        ack_quorum=2,
        held_on=(HeldBeyondEnd("b1", ((42, 43),), 2, True),),
        header=EndHeader("b1", 43, 42, 352),
    ),
    SilentFacts("writable", "h:3181", 2, "connection refused", None, False),
    FailingFacts(
        registration="writable",
        address="h:3181",
        looks=2,
        ledgers=3,
        some_ledgers=(4, 5, 6),
        lists_refused=6,
        reads_refused=0,
        statuses=(("EIO", 6),),
    ),
    LostFacts(
        has_cookie=False,
        unmarked_ledgers=1,
        some_ledgers=(160,),
        marked_ledgers_first=0,
        marked_ledgers_last=0,
        apart_ms=18_000,
        unregistered_ms=18_000,
        lost_bookie_recovery_delay_s=None,
        replication_disabled=False,
    ),
    ForeignCookieFacts(
        registration="writable",
        cookie_instance_id="f3492f09",
        instance_id="f3492f08",
        cookie_created_ms=1_700_000_000_000,
        looks=2,
    ),
    ShrunkFacts(
        registration="writable",
        address="h:3181",
        size=SizeLost(75, 100),
        directories=DirectoriesLost(2, 3, ("/data/3",)),
        missing_percent=25,
        missing_directories=1,
        apart_ms=86_400_000,
    ),
    LostContentFacts(
        registration="writable",
        address="h:3181",
        asked=4,
        was_probed=False,
        lacking_most=3,
        absent=29,
        expected=30,
        some_ledgers=(5, 6, 9),
    ),
    EntryLogLostFacts(
        registration="writable",
        address="h:3181",
        lister="h:3182",
        logs=1,
        ledgers=2,
        entries=70,
        some_logs=(LostLog("/data/current/1f.log", 2, 70, ((5, 0, 39), (6, 10, 39)), 8),),
    ),
    UnreadableFacts(
        registration="writable",
        address="h:3181",
        read=410,
        failed=11,
        ledgers=2,
        some=((50, 0), (50, 3), (51, 7), (51, 9)),
        statuses=(("EIO", 10), ("digest", 1)),
        sample_read=500,
        sample_failed=14,
        share_min=0.015,
    ),
    OverdueFacts(
        period_ms=2_592_000_000,
        copies_due=6_000,
        overdue=1_200,
        oldest_read_ms=1_767_225_600_000,
        bookies=2,
        some_bookies=("b1", "b2"),
        bytes_per_second=131_072,
        rate_needed=19_000_000,
        not_read=1,
        some_not_read=("b2",),
        scrubbed=0,
        some_scrubbed=(),
        unanswered=0,
        some_unanswered=(),
        reads_unanswered=0,
    ),
    PopulationFacts("run-1", "2026-01-01T03:00:00Z", 900, 400, 399, 60_000, 50, (7,), "id"),
    ChangedMetadataFacts(
        earlier_run="20260101T030000Z-000001",
        earlier_read_at_ms=1_767_236_400_000,
        earlier_version=3,
        version=1,
        is_same_znode=True,
        fields=(ChangedField(MetadataField.LAST_ENTRY_ID, "49", "39"),),
        apart_ms=300_000,
    ),
    MarkWithoutLedgerFacts(
        marks=2,
        some_ledgers=(70, 71),
        oldest_age_ms=864_000_000,
        oldest_path="/ledgers/underreplication/ledgers/0000/0000/0000/0046/urL0000000070",
        grace_ms=259_200_000,
        unchecked=0,
        apart_ms=300_000,
        replication_disabled=False,
    ),
    MissingLedgerFacts(1, 1, (USE,), 100, 4_000, 300_000),
    NewestMissingFacts(1, 1, (USE,), 300_000),
    TruncatedLedgerFacts(
        89, 100, 1, 1, (replace(USE, position=Position(7, 90)),), 3_600, 4_000, 300_000
    ),
    DroppedLedgerFacts(
        earlier_run="20260101T030000Z-000001",
        earlier_read_at_ms=1_767_236_400_000,
        topics=1,
        some_topics=("persistent://public/default/t",),
        before=6,
        after=9,
        entries=100,
        size_bytes=4_000,
        is_offloaded=False,
        is_listed=True,
        apart_ms=300_000,
    ),
    PositionBeyondFacts(
        last_entry_id=39,
        topics=1,
        positions=1,
        some_positions=(
            PositionFacts(
                "persistent://public/default/t", "s", Acknowledgement.MARK_DELETE, Position(7, 49)
            ),
        ),
        apart_ms=300_000,
    ),
    OrphanedFacts(
        ledgers=2,
        some_ledgers=(70, 71),
        length_bytes=5_000,
        stored_bytes=10_000,
        without_length=1,
        oldest_age_ms=60 * DAY_MS,
        orphan_age_ms=7 * DAY_MS,
        namespaces=1,
        some_namespaces=(OrphansInNamespace("public/default", 2, 10_000, False),),
        topics=1,
        some_topics=(OrphansOfTopic("persistent://public/default/orders", 2, 10_000),),
        bookies=2,
        some_bookies=(OrphansOnBookie("b1", 2, 5_000), OrphansOnBookie("b2", 1, 5_000)),
        undecided=3,
        apart_ms=300_000,
    ),
)
EXAMPLES: dict[type, Facts] = {type(facts): facts for facts in _FACTS}
"""One example of each dataclass. The entry that is hit is 42 in segment 0-99 of ledger 7."""


def finding_of(kind: Kind, facts: Facts | None = None, **changes: Any) -> Finding:
    """Return a finding of this kind, with the example facts of its type unless others are given."""
    subject, family = CATALOGUE[kind].subject, CATALOGUE[kind].family
    is_beyond_end = kind in (Kind.LEDGER_CLOSED_SHORT, Kind.ENTRIES_BEYOND_END)
    is_on_entries = not is_beyond_end and (
        family is Family.ENTRY or kind is Kind.UNDERREPLICATED_UNRECOVERABLE
    )
    has_entries = is_on_entries or is_beyond_end
    found = Finding(
        kind,
        facts or EXAMPLES[facts_types(kind)[-1]],
        ledger_id=7 if subject is Subject.LEDGER else None,
        bookie_id="b1" if subject is Subject.BOOKIE else None,
        segment=(
            FindingSegment(0, 99, ("b1", "b2", "b3"))
            if is_on_entries or family is Family.PLACEMENT
            else None
        ),
        entries=((42, 42),) if has_entries else (),
        entries_total=1 if has_entries else 0,
        missing_on=(("b1", ((42, 42),)),) if is_on_entries else (),
        copies=(
            Copies(write_quorum=2, ack_quorum=2, confirmed=1, unknown=0) if is_on_entries else None
        ),
    )
    return replace(found, **changes)
