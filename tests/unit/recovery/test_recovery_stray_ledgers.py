"""Which metadata is proposed for a ledger without any: that of a run, inferred, or none."""

from __future__ import annotations

import pytest

from auditor.first_checker.entry_set import EntrySet
from auditor.model.ledger import DigestType
from auditor.recovery.inference import EndOfLedger
from auditor.recovery.stray_ledgers import StrayLedger, propose
from auditor.sandbox.cluster import ledger


def stray(held: dict[str, tuple[int, int]], *unheard: str) -> StrayLedger:
    """Return a ledger of which bookies hold one range each."""
    entries = {bookie: EntrySet.span(*ends) for bookie, ends in held.items()}
    last = max(end for _, end in held.values())
    return StrayLedger(7, entries, unheard, EndOfLedger(last, 1_000, last - 1), DigestType.CRC32C)


MOVED_ON = {"b1": (0, 49), "b2": (0, 59), "b3": (50, 99), "b4": (60, 99)}


@pytest.mark.parametrize(
    ("known", "held", "expected"),
    [
        ("e2 w2 a2 0:[b1 b2] open", {"b1": (0, 9), "b2": (0, 9)}, "0:b1,b2 open run"),
        ("e2 w2 a2 0:[b1 b2] open", MOVED_ON, "0:b1,b2 50:b2,b3 60:b3,b4 closed entries"),
        ("e2 w2 a2 0:[b1 b2] closed 99", {"b3": (0, 99), "b2": (0, 99)}, "0:b1,b2 closed run"),
        ("e2 w2 a2 0:[b1 b2] closed 99", {"b3": (0, 99), "b4": (0, 99)}, "0:b3,b4 closed entries"),
        ("e2 w2 a2 0:[b1 b2] closed 9", {"b1": (0, 12), "b2": (0, 9)}, "0:b1,b2 closed run"),
    ],
)
def test_the_metadata_of_a_run_is_proposed_unless_entries_are_elsewhere(
    known: str, held: dict[str, tuple[int, int]], expected: str
) -> None:
    """The ensemble of an open ledger changed after the run, or a closed one was replicated. A copy
    that is left over, or an entry behind the end, contradicts nothing.
    """
    found = propose(stray(held), ledger(known))
    assert found.proposal is not None, found.why
    segments = (f"{s.first_entry_id}:{','.join(s.ensemble)}" for s in found.proposal.segments)
    source = "run" if found.is_from_run else "entries"
    assert expected == " ".join((*segments, found.proposal.state.value.lower(), source))


@pytest.mark.parametrize(
    ("known", "held", "says"),
    [
        ("e2 w2 a2 0:[b1 b2] open", {"b1": (0, 9), "b2": (0, 9), "b3": (5, 9)}, "entry 5 is elsew"),
        ("e2 w2 a2 0:[b1 b2] closed 99", {"b3": (0, 9), "b4": (0, 9)}, "its end was 99, and is 9"),
    ],
)
def test_metadata_that_is_out_of_date_is_not_proposed(
    known: str, held: dict[str, tuple[int, int]], says: str
) -> None:
    """If entries do not show the newer one either, nothing is."""
    found = propose(stray(held), ledger(known))
    assert found.proposal is None and "out of date" in found.why and says in found.why


@pytest.mark.parametrize("known", [None, "e2 w2 a2 0:[b1 b2] open"])
def test_nothing_is_proposed_if_the_ledger_may_go_on_at_silent_bookies(known: str | None) -> None:
    """Its last entries may have both copies there. A single silent bookie cannot have both."""
    held = {"b1": (0, 9), "b2": (0, 9)}
    metadata = None if known is None else ledger(known)
    found = propose(stray(held, "b3", "b4"), metadata)
    assert found.proposal is None and "entries behind 9 may be on the 2 bookies" in found.why
    assert propose(stray(held, "b3"), metadata).proposal is not None
    assert propose(stray(held, "b3", "b4"), ledger("e2 w2 0:[b1 b2] closed 9")).proposal is not None
