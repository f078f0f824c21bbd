"""The witnesses of lost, stranded and corrupt entries, and of marks that stand, from stories that
were judged to the end.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from support.findings_by_kind import ENTRY, finding_of
from support.stories import NOW_MS, Bookie, State, Story, drive

from auditor.model.availability import AnswerStatus, ReadStatus
from auditor.model.cluster import ClusterFacts, Surroundings
from auditor.model.evidence import Look
from auditor.model.facts import CorruptFacts, Search
from auditor.model.finding import Kind
from auditor.model.ledger import LedgerMetadata, LedgerRecord, Mark, RecordStatus, ReplicationLock
from auditor.sandbox.cluster import ledger
from auditor.witness.entries import GARBAGE_COLLECTION
from auditor.witness.finding_lines import ledger_testimony

FACTS = ClusterFacts("zk://h/ledgers", ("h:2181",), "/ledgers", "hierarchical", "id", False, None)
E3 = ledger("e3 w2 a2 0:[b1 b2 b3] closed 19")
HELD = {
    b: frozenset(e for e in range(20) if (k - e) % 3 < 2) for k, b in enumerate(("b1", "b2", "b3"))
}
LOST = frozenset({6})
DAY_MS = 24 * 3600 * 1000


def witness(
    mark: Mark | None = None,
    around: Surroundings | None = None,
    metadata: LedgerMetadata = E3,
    **bookies: Bookie,
) -> str:
    """Return the witness of a ledger that lost entry 6 on its whole write set, b1 and b2, unless
    `bookies` say otherwise.
    """
    lost = {b: Bookie(held - LOST) for b, held in HELD.items()}
    state = State(metadata, {**lost, **bookies}, mark=mark)
    surroundings = around or Surroundings(
        writable=frozenset({"b1", "b2", "b3", "x1"}), auditor="b1"
    )
    story = replace(
        Story("one story", (state,)),
        more_terms={"around": surroundings, "stranded_entries_max": 16},
    )
    driven = drive(story)
    (finding,) = driven.step.verdict.findings
    return ledger_testimony(finding, driven.evidence.looks, FACTS).witness


def test_a_loss_says_where_else_was_looked() -> None:
    """The other registered bookie was searched in vain, and so was the bookie of the ensemble
    outside the write set.
    """
    said = witness(x1=Bookie(knows_ledger=False))
    assert (
        "0 of 2 copies found; ack quorum is 2. Searched 2 other bookies for it: none has it."
        " Bookies were asked" in said
    )


def test_a_stranded_entry_says_who_holds_it_and_until_when() -> None:
    """It names the holder, and says when garbage collection there may delete the copy."""
    said = witness(x1=Bookie(LOST))
    assert (
        "Searched 2 other bookies for it: x1 has it. No segment of the ledger names x1."
        f" {GARBAGE_COLLECTION} B" in said
    )


def test_a_holder_that_a_segment_without_entries_names_is_reported_as_named() -> None:
    """Its garbage collection keeps the ledger, and is not mentioned. That of a second holder, which
    no segment names, may delete it.
    """
    around = Surroundings(writable=frozenset({"b1", "b2", "b3", "x1", "x2"}), auditor="b1")
    named = ledger("e3 w2 a2 0:[b1 b2 b3] 20:[b1 b2 x1] closed 19")
    alone = witness(around=around, metadata=named, x1=Bookie(LOST), x2=Bookie(knows_ledger=False))
    assert "Searched 3 other bookies for it: x1 lists it. Bookies" in alone
    both = witness(around=around, metadata=named, x1=Bookie(LOST), x2=Bookie(LOST))
    assert (
        "Searched 3 other bookies for it: x1 and x2 list or have it. No segment of the ledger names"
        " x2. Garbage" in both
    )


def test_a_holder_of_the_ensemble_is_named_by_its_list() -> None:
    """A bookie of the ensemble outside the write set lists the entry. The search names it too."""
    said = witness(b3=Bookie(HELD["b3"] | LOST))
    assert (
        "ack quorum is 2. Outside the write set b3 lists entry 6. Searched 2 other bookies for it:"
        " b3 lists it. B" in said
    )


def test_a_holder_that_was_not_read_is_said_to_list() -> None:
    """The copy that b3 lists was not read. The copy on x1 was read."""
    mixed = witness(b3=Bookie(HELD["b3"] | LOST, corrupt=LOST), x1=Bookie(LOST))
    assert (
        "Searched 2 other bookies for it: b3 and x1 list or have it. No segment of the ledger"
        " names x1." in mixed
    )


def test_who_could_not_be_asked_elsewhere_is_named() -> None:
    """A silent bookie outside the ensemble may still hold it."""
    said = witness(x1=Bookie(read=ReadStatus.SILENT))
    assert (
        "Searched 1 other bookie for it: none has it. x1 gave no conclusive answer. Bookies" in said
    )


@pytest.mark.parametrize(
    ("expected", "mark", "around"),
    [
        (
            (
                "an entry has no copy on any bookie of its write set, which is where replication"
                " reads. Bookies"
            ),
            Mark(NOW_MS),
            None,
        ),
        (
            "; auto-recovery is disabled (underreplication/disable exists); ",
            Mark(NOW_MS),
            Surroundings(frozenset({"x1"}), replication_disabled=True),
        ),
        (
            (
                "; no auto-recovery auditor is elected, perhaps because no auto-recovery daemon"
                " runs. Bookies"
            ),
            Mark(NOW_MS),
            Surroundings(frozenset({"x1"})),
        ),
        (
            "; there is no writable bookie outside the ensemble to take a copy. Bookies",
            Mark(NOW_MS),
            Surroundings(frozenset({"b1"}), auditor="b1"),
        ),
        (
            "; worker-3 has held the replication lock since 2027-01-15 07:00:00 UTC. Bookies",
            Mark(NOW_MS, lock=ReplicationLock("worker-3", NOW_MS - 3_600_000)),
            None,
        ),
    ],
)
def test_an_unrecoverable_ledger_says_why_its_mark_stands(
    expected: str, mark: Mark, around: Surroundings | None
) -> None:
    """Each reason is in words, after the lost entry."""
    said = witness(mark, around)
    first = "Why it may still stand: an entry has no copy"
    assert said.index("0 of 2 copies found") < said.index(first) < said.index(expected)


def test_an_unrecoverable_ledger_says_how_long_it_has_been_marked() -> None:
    """The witness has the age, because no separate finding has it."""
    said = witness(Mark(NOW_MS - 10 * DAY_MS))
    assert (
        "The ledger has been marked under-replicated for 10 days; up to 1 h is acceptable. Why"
        in said
    )


@pytest.mark.parametrize("mark", [None, Mark(NOW_MS)])
def test_a_gone_bookie_of_the_write_set_is_named(mark: Mark | None) -> None:
    """It counts as without the entry, marked or not, because it will not come back."""
    said = witness(mark, b2=Bookie(answer=AnswerStatus.UNREGISTERED, is_forgotten=True))
    assert (
        "ENOENTRY). b2 is gone: it has neither a registration nor a cookie. 0 of 2 copies found"
        in said
    )


def loss(
    kind: Kind = Kind.ENTRY_WITHOUT_REPLICA,
    entries: int = 1,
    missing: tuple[str, ...] = ("b1",),
    **facts: Any,
) -> str:
    """Return what follows the count of copies in the witness of a loss that hits entries from 42
    on.
    """
    last = 41 + entries
    found = finding_of(
        kind,
        replace(ENTRY, **facts),
        entries=((42, last),),
        entries_total=entries,
        missing_on=tuple((bookie, ((42, last),)) for bookie in missing),
    )
    look = Look(LedgerRecord(7, 1, 0, RecordStatus.FOUND))
    return ledger_testimony(found, [look], FACTS).witness.partition("; ack quorum is 2. ")[2]


@pytest.mark.parametrize(
    ("expected", "search"),
    [
        ("No other bookie was searched.", None),
        ("Searched 2 other bookies for it: none has it.", Search(1, 0, 0, 0, ("x1", "x2"))),
        (
            "Searched 2 other bookies for it: x1 and x2 have it.",
            Search(1, 1, 0, 0, ("x1", "x2"), ("x1", "x2")),
        ),
        (
            "No other bookie could be searched for it. x1 gave no conclusive answer.",
            Search(1, 0, 0, 0, unheard=("x1",)),
        ),
        (
            (
                "Searched 1 other bookie for it: none holds a good copy. x1 sent a copy with a"
                " wrong digest or under other ids. x2 was not read, because of the limit for one"
                " bookie and run."
            ),
            Search(1, 0, 0, 0, ("x1",), corrupt_on=("x1",), not_asked=("x2",)),
        ),
    ],
)
def test_a_search_for_one_entry_says_who_has_it_and_who_was_not_heard(
    expected: str, search: Search | None
) -> None:
    """`none has it` is about the bookies that were searched. The others are named."""
    assert expected == loss(search=search)


@pytest.mark.parametrize(
    ("expected", "search"),
    [
        (
            "Searched 2 other bookies for all 9 entries without a copy: none has any.",
            Search(9, 0, 0, 0, ("x1", "x2")),
        ),
        (
            (
                "Searched 2 other bookies for all 9 entries without a copy: x1 and x2 together have"
                " all of them."
            ),
            Search(9, 9, 0, 0, ("x1", "x2"), ("x1", "x2")),
        ),
        (
            (
                "Searched 1 other bookie for 3 of the 9 entries without a copy: x1 has 2 of these"
                " 3. x2 and x3 gave no conclusive answer for one or more of them."
            ),
            Search(3, 2, 0, 6, ("x1",), ("x1",), unheard=("x2", "x3")),
        ),
        (
            (
                "No other bookie answered every read for 3 of the 9 entries without a copy: x1 has"
                " 2 of these 3. x1 gave no conclusive answer for one or more of them. x2 and x3"
                " were not read for one or more of them, because of the limit for one bookie and"
                " run."
            ),
            Search(3, 2, 0, 6, (), ("x1",), unheard=("x1",), not_asked=("x2", "x3")),
        ),
    ],
)
def test_a_search_for_many_entries_says_how_many_were_looked_for_and_found(
    expected: str, search: Search
) -> None:
    """A bookie that gave no answer for some of them is not among those searched, even if it holds
    others.
    """
    assert f"9 entries are hit: 42-50. {expected}" == loss(entries=9, search=search)


@pytest.mark.parametrize(
    ("expected", "missing"), [("b1 lacks", ("b1",)), ("b1 and b2 lack", ("b1", "b2"))]
)
def test_a_missing_tail_is_reported_with_why_a_writer_may_have_left_it(
    expected: str, missing: tuple[str, ...]
) -> None:
    """The words are singular for one bookie, and plural for several."""
    expected_text = (
        f"{expected} only the end of the ledger: a writer may close a ledger when the ack quorum"
        " has stored its last entries, and not wait for the rest."
    )
    assert expected_text == loss(Kind.ENTRY_BELOW_WRITE_QUORUM, missing=missing, at_tail=True)


@pytest.mark.parametrize(
    ("expected", "copies"),
    [
        ("b1, entry 42.", (("b1", (42,)),)),
        ("b1, entries 42, 43; b2, entry 44.", (("b1", (42, 43)), ("b2", (44,)))),
        ("b1, entries 0, 1, 2, 3, 4, 5, 6, 7 and others.", (("b1", tuple(range(20))),)),
        (
            (
                "b0, entry 0; b1, entry 1; b2, entry 2; b3, entry 3; b4, entry 4; and copies on 2"
                " other bookies."
            ),
            tuple((f"b{n}", (n,)) for n in range(7)),
        ),
    ],
)
def test_corrupt_copies_are_reported_bookie_by_bookie(
    expected: str, copies: tuple[tuple[str, tuple[int, ...]], ...]
) -> None:
    """A finding carries at most twenty entries of a bookie. Those beyond the first eight are
    therefore not counted.
    """
    found = finding_of(Kind.ENTRY_CORRUPT, CorruptFacts(42, ("b1", "b2"), copies))
    said = str(
        ledger_testimony(found, [Look(LedgerRecord(7, 1, 0, RecordStatus.FOUND))], FACTS).witness
    )
    read = (
        "Copies that were read at two looks, with the right ids and a digest that does not match"
        " their bytes: "
    )
    assert (
        f"1 of 2 copies found; ack quorum is 2. {read}{expected}"
        == said.partition(" ensemble b1, b2, b3). ")[2]
    )
