"""What a person is told of lost, stranded and corrupt entries, and of marks that stand: from stories taken to their end."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.stories import NOW_MS, Bookie, State, Story, drive

from auditor.confirm.witness import gist, ledger_testimony
from auditor.model.availability import AnswerStatus, ReadStatus
from auditor.model.cluster import ClusterFacts, Surroundings
from auditor.model.ledger import LedgerMetadata, Mark, ReplicationLock
from auditor.sandbox.notation import ledger

FACTS = ClusterFacts("zk://h/ledgers", ("h:2181",), "/ledgers", "hierarchical", "id", False, None)
E3 = ledger("e3 w2 a2 0:[b1 b2 b3] closed 19")
HELD = {b: frozenset(e for e in range(20) if (k - e) % 3 < 2) for k, b in enumerate(("b1", "b2", "b3"))}
LOST = frozenset({6})
DAY_MS = 24 * 3600 * 1000


def witness(
    mark: Mark | None = None, around: Surroundings | None = None, metadata: LedgerMetadata = E3, **bookies: Bookie
) -> str:
    """Of a ledger that lost entry 6 on its whole write set, b1 and b2, unless `bookies` say otherwise."""
    lost = {b: Bookie(held - LOST) for b, held in HELD.items()}
    state = State(metadata, {**lost, **bookies}, mark=mark)
    surroundings = around or Surroundings(writable=frozenset({"b1", "b2", "b3", "x1"}), auditor="b1")
    told = replace(Story("told", (state,)), more_terms={"around": surroundings, "stranded_entries_max": 16})
    driven = drive(told)
    (finding,) = driven.step.verdict.findings
    return str(ledger_testimony(finding, driven.evidence.looks, FACTS)["witness"])


def test_a_loss_says_where_else_was_looked() -> None:
    """In vain: on every other registered bookie."""
    said = witness(x1=Bookie(knows_ledger=False))
    assert "It was looked for on every other registered bookie too, and found on none." in said


def test_a_stranded_entry_says_who_holds_it_and_until_when() -> None:
    """The holder, and when its garbage collection may take it at the earliest."""
    said = witness(x1=Bookie(LOST))
    assert "it is alive on x1, which the metadata does not name." in said
    assert "gcOverreplicatedLedgerWaitTime" in said and "earliest" in said


def test_a_holder_that_a_segment_without_entries_names_is_told_as_named() -> None:
    """It never collects the ledger, so nothing is said of that; a second holder that is not named will."""
    around = Surroundings(writable=frozenset({"b1", "b2", "b3", "x1", "x2"}), auditor="b1")
    named = ledger("e3 w2 a2 0:[b1 b2 b3] 20:[b1 b2 x1] closed 19")
    alone = witness(around=around, metadata=named, x1=Bookie(LOST))
    assert "it is alive on x1. The metadata names x1, but for none of its entries." in alone
    assert "garbage" not in alone
    both = witness(around=around, metadata=named, x1=Bookie(LOST), x2=Bookie(LOST))
    assert "it is alive on x1, x2. The metadata names x1, but for none of its entries. It does not name the rest. " in both
    assert "gcOverreplicatedLedgerWaitTime" in both


def test_who_could_not_be_asked_elsewhere_is_named() -> None:
    """A silent bookie outside the ensemble may still hold it."""
    assert "No conclusive answer came from x1." in witness(x1=Bookie(read=ReadStatus.SILENT))


@pytest.mark.parametrize(
    ("expected", "mark", "around"),
    [
        ("no bookie has a copy to replicate from.", Mark(NOW_MS), None),
        ("auto-recovery is disabled", Mark(NOW_MS), Surroundings(frozenset({"x1"}), replication_disabled=True)),
        ("no auditor is elected", Mark(NOW_MS), Surroundings(frozenset({"x1"}))),
        ("no writable bookie outside the ensemble", Mark(NOW_MS), Surroundings(frozenset({"b1"}), auditor="b1")),
        (
            "worker-3 has held its replication lock since 2027-01-15T07:00:00.000Z",
            Mark(NOW_MS, lock=ReplicationLock("worker-3", NOW_MS - 3_600_000)),
            None,
        ),
    ],
)
def test_an_unrecoverable_ledger_says_why_its_mark_stands(expected: str, mark: Mark, around: Surroundings | None) -> None:
    """Each reason in words, behind the lost entry."""
    said = witness(mark, around)
    assert said.index("0 of 2 copies are confirmed") < said.index(expected)


def test_an_unrecoverable_ledger_says_how_long_it_has_been_marked() -> None:
    """The age stands in its witness: no finding of its own says it."""
    said = witness(Mark(NOW_MS - 10 * DAY_MS))
    assert "marked under-replicated for 10 days (up to 1 h is acceptable)" in said


def test_a_forgotten_bookie_of_the_write_set_is_named() -> None:
    """It counts as without the entry, because it will not come back."""
    said = witness(Mark(NOW_MS), b2=Bookie(answer=AnswerStatus.UNREGISTERED, is_forgotten=True))
    assert "Bookie b2 is neither registered nor known by a cookie" in said


def test_the_gist_of_a_stranded_entry_begins_behind_its_premise() -> None:
    """A screen with one line for it shows what was concluded."""
    assert gist(witness(x1=Bookie(LOST))).startswith("its write set is b1, b2.")
