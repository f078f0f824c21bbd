"""Each kind of the catalogue with any facts of its type. A witness has whole sentences, and names
only bookies of the evidence.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.findings_by_kind import FACTS_TYPES, facts_types, finding_of

from auditor.model.availability import Answer, AnswerStatus, EntryRead, ReadStatus
from auditor.model.cluster import BookieRecord, ClusterFacts, Registration
from auditor.model.evidence import Look
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
    Search,
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
    WhyMarked,
    WriteSetFacts,
)
from auditor.model.finding import (
    BESIDE_VERDICTS,
    CATALOGUE,
    Copies,
    Finding,
    FindingSegment,
    Kind,
    Subject,
)
from auditor.model.finding_record import FindingRecord
from auditor.model.ledger import LedgerRecord, LedgerState, Mark, RecordStatus, ZnodeStamp
from auditor.model.topic import Position, Role
from auditor.witness.finding_lines import (
    ClusterLook,
    bookie_testimony,
    cluster_testimony,
    gist,
    ledger_testimony,
    znode_testimony,
)

FACTS = ClusterFacts("zk://h/ledgers", ("h:2181",), "/ledgers", "hierarchical", "id", False, None)
BOOKIES = tuple(f"bk{n}.example:3181" for n in range(30))
BOOKIE = re.compile(r"bk\d+\.example:3181")
WITNESS_CHARS_MAX = 6_000
"""However many bookies, entries and looks there are. A hundred names would be more than this."""

BROKEN = re.compile(
    r"None|  |\( ?\)|\( *and|\(;|[,;:] ?[.)]|\.\.| [.,;:]|\b1 (?:other"
    r" )?(?:entries|bookies|ledgers|looks)\b|[A-Z]?[a-z]_"
)
"""What no sentence has: an absent value, an empty list, a wrong plural, a code name."""

numbers = st.integers(0, 2**62)
counts = st.integers(1, 2**40)
ms = st.integers(0, 2**62)
some_ms = st.none() | ms
flags = st.booleans()
delays = st.none() | st.integers(0, 10**6)
words = st.sampled_from(("connection refused", "no end", "rack"))


def names(low: int = 0, high: int = 30) -> st.SearchStrategy[tuple[str, ...]]:
    """Draw sorted bookies."""
    return st.lists(st.sampled_from(BOOKIES), unique=True, min_size=low, max_size=high).map(
        lambda some: tuple(sorted(some))
    )


def some(
    values: st.SearchStrategy[Any], low: int = 0, high: int = 30
) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.lists(values, unique=True, min_size=low, max_size=high).map(
        lambda found: tuple(sorted(found))
    )


@st.composite
def searches(draw: st.DrawFn) -> Search:
    """Draw the result of a search. Each bookie is in one of searched, unheard and not asked."""
    entries = draw(st.integers(1, 16))
    where = draw(st.dictionaries(st.sampled_from(BOOKIES), st.integers(0, 2), min_size=1))
    asked = tuple(tuple(sorted(b for b, at in where.items() if at == part)) for part in range(3))
    may_hold = sorted(where) if entries > 1 else asked[0]
    held = draw(st.sets(st.sampled_from(may_hold))) if may_hold else set()
    bad = draw(st.sets(st.sampled_from(may_hold))) if may_hold else set()
    found = tuple(sorted(held - bad if entries == 1 else held))
    unnamed = tuple(b for b in found if draw(flags))
    number = draw(st.integers(1, entries)) if found else 0
    left = draw(st.sampled_from((0, 1, 10**9)))
    counts = (entries, number, number if unnamed else 0, left)
    first = tuple(draw(st.integers(0, 99)) for _ in found)
    return Search(*counts, asked[0], found, unnamed, tuple(sorted(bad)), asked[1], asked[2], first)


entry_facts = st.builds(
    EntryFacts,
    st.integers(0, 99),
    names(1),
    names(),
    names(),
    at_tail=flags,
    search=st.none() | searches(),
)
mark_facts = st.builds(
    MarkFacts,
    age_ms=ms,
    grace_ms=ms,
    created_ms=ms,
    changed_ms=some_ms,
    missing_replicas=names(),
    problem=st.sampled_from(("", "no end")),
    lock_holder=st.none() | st.sampled_from(("", "worker-3")),
    lock_since_ms=some_ms,
    state=st.none() | st.sampled_from(LedgerState),
    why=st.lists(st.sampled_from(WhyMarked), unique=True).map(tuple),
)
locations = st.none() | st.sampled_from(("/r1", "/region/rack"))


@st.composite
def write_sets(draw: st.DrawFn) -> WriteSetFacts:
    members = draw(names(0, 30))
    at = tuple(draw(locations) for _ in members)
    return WriteSetFacts(
        draw(st.none() | st.integers(0, 9)) if members else None,
        members,
        at,
        "has 1 rack (/r1) and needs 2",
    )


@st.composite
def placements(draw: st.DrawFn) -> PlacementFacts:
    shown = tuple(draw(st.lists(write_sets(), min_size=1, max_size=3)))
    deciding = draw(st.integers(len(shown), 40))
    parameters = draw(st.sampled_from(((), (("minNumRacksPerWriteQuorum", "2"),))))
    policy, recorded = (
        draw(st.sampled_from(("rack", "zone", "region"))),
        draw(st.sampled_from(("", "IsolatedPolicy"))),
    )
    return PlacementFacts(
        policy, draw(flags), parameters, max(deciding, 2), deciding, shown, draw(names()), recorded
    )


BEYOND_END = st.builds(
    BeyondEndFacts,
    st.integers(-1, 99),
    st.integers(1, 30),
    names(1).flatmap(
        lambda some: st.just(
            tuple(
                HeldBeyondEnd(one, ((100, 104), (106, 106)), 6, n % 2 == 0)
                for n, one in enumerate(some)
            )
        )
    ),
    st.builds(EndHeader, st.just("b1"), st.just(106), st.integers(100, 105), st.just(848)),
)
contradictions = st.sampled_from(Contradicts).map(lambda what: Contradiction(what, (5, 6, 7)))
USES = st.lists(
    st.builds(
        UseFacts,
        st.just("persistent://t/n/topic"),
        st.sampled_from(Role),
        st.sampled_from(("", "s")),
        st.none() | st.builds(Position, st.just(7), st.integers(0, 9)),
    ),
    min_size=1,
    max_size=20,
).map(tuple)
OF_TYPE: dict[type, st.SearchStrategy[Any]] = {
    EntryFacts: entry_facts,
    RecoveryFacts: st.builds(
        RecoveryFacts,
        st.integers(0, 99),
        names(1),
        st.integers(1, 3),
        st.integers(3, 9),
        st.integers(1, 3),
        names(1),
        names(1),
    ),
    UnavailableFacts: st.builds(
        UnavailableFacts, st.integers(0, 99), names(1), names(1), names(), names()
    ),
    CorruptFacts: st.builds(
        CorruptFacts,
        st.integers(0, 99),
        names(1),
        st.dictionaries(st.sampled_from(BOOKIES), some(numbers, 1, 20), min_size=1).map(
            lambda on: tuple(sorted(on.items()))
        ),
    ),
    MarkFacts: mark_facts,
    UnrecoverableFacts: st.builds(UnrecoverableFacts, entry_facts, mark_facts),
    DuplicateFacts: st.builds(
        DuplicateFacts,
        st.dictionaries(st.sampled_from(BOOKIES), some(st.integers(0, 99), 2), min_size=1).map(
            lambda on: tuple(on.items())
        ),
    ),
    PlacementFacts: placements(),
    UndecodableFacts: st.builds(UndecodableFacts, words, numbers, numbers, st.just("00ff")),
    ContradictionFacts: (
        st.lists(contradictions, min_size=1, max_size=20).flatmap(
            lambda found: st.builds(
                ContradictionFacts,
                st.just(tuple(found)),
                st.integers(len(found), 5_000),
                st.none() | BEYOND_END,
            )
        )
    ),
    StuckFacts: st.builds(
        StuckFacts, st.sampled_from((LedgerState.OPEN, LedgerState.IN_RECOVERY)), ms, flags, ms, ms
    ),
    BeyondEndFacts: BEYOND_END,
    SilentFacts: st.builds(
        SilentFacts,
        st.just("writable"),
        st.just("h:3181"),
        st.integers(2, 9),
        st.just("") | words,
        delays,
        flags,
    ),
    LostFacts: st.builds(LostFacts, flags, counts, some(numbers, 1, 10), ms, delays, flags),
    FailingFacts: st.builds(
        FailingFacts,
        st.just("writable"),
        st.just("h:3181"),
        st.integers(2, 9),
        st.integers(3, 99),
        st.lists(st.integers(0, 99), min_size=1, max_size=3, unique=True).map(tuple),
        st.integers(1, 99),
        st.integers(0, 99),
        st.just((("EIO", 7), ("EUA", 1))),
    ),
    LostContentFacts: st.builds(
        LostContentFacts,
        st.just("readonly"),
        st.just("h:3181"),
        st.integers(3, 10**6),
        flags,
        st.integers(3, 10**6),
        counts,
        counts,
        some(numbers, 3, 10),
        st.none() | ms,
        counts,
        st.none() | ms,
    ),
    ForeignCookieFacts: st.builds(
        ForeignCookieFacts,
        st.sampled_from(["writable", "readonly", "none"]),
        st.just("f3492f09"),
        st.just("f3492f08"),
        st.none() | ms,
        st.integers(1, 9),
    ),
    ShrunkFacts: st.builds(
        ShrunkFacts,
        st.just("readonly"),
        st.just("h:3181"),
        st.none() | st.builds(SizeLost, counts, counts),
        st.builds(DirectoriesLost, st.integers(1, 9), st.integers(2, 9), st.just(("/data/1",))),
        st.integers(0, 100),
        st.integers(0, 9),
        ms,
    ),
    UnreadableFacts: st.builds(
        UnreadableFacts,
        st.just("writable"),
        st.just("h:3181"),
        st.integers(10, 10**6),
        st.integers(1, 10),
        st.integers(1, 10),
        some(st.tuples(numbers, numbers), 1, 10),
        st.just((("EIO", 7), ("digest", 1))),
        st.integers(10, 10**6),
        st.integers(1, 10),
        st.none() | st.floats(0, 1),
    ),
    EntryLogLostFacts: st.builds(
        EntryLogLostFacts,
        st.just("writable"),
        st.just("h:3181"),
        st.just("h:3182"),
        st.integers(10, 99),
        counts,
        counts,
        st.lists(
            st.builds(
                LostLog,
                words,
                st.integers(1, 99),
                counts,
                some(st.tuples(numbers, numbers, numbers), 1, 10),
                counts,
            ),
            min_size=1,
            max_size=10,
        ).map(tuple),
    ),
    OverdueFacts: st.builds(
        OverdueFacts,
        ms.filter(lambda period: period > 0),
        st.integers(10**6, 10**7),
        st.integers(1, 10**6),
        st.none() | ms,
        st.integers(10, 1000),
        some(st.sampled_from(BOOKIES), 1, 10),
        st.integers(0, 2**40),
        st.none() | st.integers(1, 2**40),
        st.integers(10, 1000),
        some(st.sampled_from(BOOKIES), 1, 10),
        st.integers(10, 1000),
        some(st.sampled_from(BOOKIES), 1, 10),
        st.integers(10, 1000),
        some(st.sampled_from(BOOKIES), 1, 10),
        st.integers(0, 10**6),
    ),
    PopulationFacts: st.builds(
        PopulationFacts,
        st.just("run-1"),
        st.just("2026-01-01T03:00:00Z"),
        st.integers(100, 10**6),
        numbers,
        numbers,
        ms,
        st.integers(1, 100),
        some(numbers, 0, 10),
        st.none() | st.just("id"),
        st.integers(1, 100),
    ),
    DroppedLedgerFacts: st.builds(
        DroppedLedgerFacts,
        st.just("run-1"),
        ms,
        st.just(1),
        st.just(("persistent://public/default/t",)),
        numbers,
        st.none() | numbers,
        st.none() | numbers,
        st.none() | numbers,
        st.booleans(),
        st.booleans(),
        ms,
    ),
    PositionBeyondFacts: st.builds(
        PositionBeyondFacts,
        st.integers(-1, 2**40),
        st.just(1),
        st.integers(3, 9),
        st.lists(
            st.builds(
                PositionFacts,
                st.just("persistent://public/default/t"),
                words,
                st.sampled_from(Acknowledgement),
                st.just(Position(7, 49)),
            ),
            min_size=3,
            max_size=3,
        ).map(tuple),
        ms,
    ),
    ChangedMetadataFacts: st.builds(
        ChangedMetadataFacts,
        st.just("run-1"),
        ms,
        st.none() | numbers,
        st.none() | numbers,
        st.booleans(),
        st.lists(
            st.builds(
                ChangedField,
                st.sampled_from(MetadataField),
                st.integers(0, 2**40).map(str),
                st.integers(0, 2**40).map(str),
            ),
            min_size=1,
            max_size=8,
        ).map(tuple),
        ms,
    ),
    MarkWithoutLedgerFacts: st.builds(
        MarkWithoutLedgerFacts,
        st.integers(20, 10**6),
        some(numbers, 1, 20),
        ms,
        st.just("/ledgers/underreplication/ledgers/0000/0000/0000/0046/urL0000000070"),
        ms,
        counts,
        ms,
        flags,
    ),
    MissingLedgerFacts: st.builds(
        MissingLedgerFacts,
        st.just(2),
        st.integers(20, 99),
        USES,
        st.none() | st.integers(2, 10**9),
        some_ms,
        ms,
    ),
    NewestMissingFacts: st.builds(NewestMissingFacts, st.just(2), st.integers(20, 99), USES, ms),
    TruncatedLedgerFacts: st.builds(
        TruncatedLedgerFacts,
        st.integers(-1, 9),
        st.integers(11, 99),
        st.just(2),
        st.integers(20, 99),
        USES,
        numbers,
        some_ms,
        ms,
    ),
    OrphanedFacts: st.builds(
        OrphanedFacts,
        st.integers(20, 99),
        some(numbers, 1, 20),
        numbers,
        numbers,
        st.integers(0, 18),
        ms,
        ms,
        st.integers(1, 9),
        st.just((OrphansInNamespace("public/default", 20, 7, True),)),
        st.integers(1, 9),
        st.just((OrphansOfTopic("persistent://public/default/t", 20, 7),)),
        st.integers(1, 9),
        st.just((OrphansOnBookie("b1", 20, 7),)) | st.just(()),
        st.integers(2, 9) | st.just(0),
        ms,
    ),
}


@st.composite
def looks(draw: st.DrawFn) -> tuple[Look, ...]:
    """Draw two to five looks at ledger 7, with any answers and reads, and any change of its
    metadata between them.
    """
    taken = []
    for number in range(1, draw(st.integers(2, 5)) + 1):
        status = draw(
            st.sampled_from((RecordStatus.FOUND, RecordStatus.MALFORMED, RecordStatus.UNREADABLE))
        )
        stamp = (
            None if status is RecordStatus.UNREADABLE else ZnodeStamp(1, draw(st.integers(0, 1)), 0)
        )
        record = LedgerRecord(
            7, number, draw(ms), status, stamp, mark=draw(st.none() | st.just(Mark(0)))
        )
        said = draw(
            st.dictionaries(st.sampled_from(BOOKIES), st.sampled_from(AnswerStatus), max_size=9)
        )
        copies = st.tuples(st.sampled_from(BOOKIES), st.integers(0, 99))
        read = draw(st.dictionaries(copies, st.sampled_from(ReadStatus), max_size=9))
        answers = {bookie: Answer(bookie, 7, number, 0, one) for bookie, one in said.items()}
        reads = {
            (bookie, at): EntryRead(bookie, 7, at, number, 0, one)
            for (bookie, at), one in read.items()
        }
        taken.append(Look(record, answers, reads))
    return tuple(taken)


@st.composite
def hits(draw: st.DrawFn) -> dict[str, Any]:
    """Draw what a finding on entries carries beside its facts."""
    ranges = tuple(
        (10 * n, 10 * n + draw(st.integers(0, 8))) for n in range(draw(st.integers(1, 20)))
    )
    total = sum(last - first + 1 for first, last in ranges)
    quorum = draw(st.integers(1, 30))
    return {
        "segment": FindingSegment(0, draw(st.sampled_from((-1, 199))), draw(names(1))),
        "entries": ranges,
        "entries_total": total + (draw(st.integers(0, 99)) if len(ranges) == 20 else 0),
        "missing_on": tuple((bookie, ranges) for bookie in draw(names(1))),
        "copies": Copies(
            quorum, quorum, draw(st.integers(0, quorum)), draw(st.integers(0, quorum))
        ),
    }


def witness_of(finding: Finding, taken: tuple[Look, ...]) -> str:
    """Return the witness of any finding."""
    records = [BookieRecord(str(finding.bookie_id), n, n, Registration.WRITABLE) for n in (1, 2)]
    tell: dict[Subject, Callable[[], FindingRecord]] = {
        Subject.LEDGER: lambda: ledger_testimony(finding, taken, FACTS),
        Subject.BOOKIE: lambda: bookie_testimony(finding, records, FACTS),
        Subject.CLUSTER: lambda: cluster_testimony(
            finding, [ClusterLook(n, "listing", "400 ledgers") for n in (1, 2)], FACTS
        ),
    }
    if finding.kind is Kind.LEDGER_DROPPED_FROM_TOPIC:
        looks = [ClusterLook(n, "topic", "without 7") for n in (1, 2)]
        return cluster_testimony(finding, looks, FACTS).witness
    if finding.kind in BESIDE_VERDICTS:
        return znode_testimony(finding, taken, FACTS, None).witness
    return tell[CATALOGUE[finding.kind].subject]().witness


def test_every_dataclass_of_facts_is_generated() -> None:
    """A dataclass that is not would never be rendered here."""
    assert set(FACTS_TYPES) == set(OF_TYPE)


@pytest.mark.parametrize(
    ("kind", "facts_type"), [(kind, facts) for kind in Kind for facts in facts_types(kind)]
)
@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_a_witness_is_whole_sentences_and_names_nobody_else(
    kind: Kind, facts_type: type, data: st.DataObject
) -> None:
    """For any facts and looks, nothing absent or empty is printed, and each bookie comes from
    them.
    """
    found = finding_of(kind, data.draw(OF_TYPE[facts_type]))
    carried = {
        name: value
        for name, value in data.draw(hits()).items()
        if getattr(found, name) not in (None, (), 0)
    }
    found = finding_of(kind, found.facts, **carried)
    taken = data.draw(looks())
    for text in (witness_of(found, taken), gist(witness_of(found, taken))):
        assert text.endswith(".") and not BROKEN.search(text), text
        assert len(text) < WITNESS_CHARS_MAX
        assert set(BOOKIE.findall(text)) <= set(BOOKIE.findall(repr((found, taken))))
