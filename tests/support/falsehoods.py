"""False facts, one of each sort, to plant in what a checker concludes from the evidence.

FALSEHOODS["a hole is called a tail"].plant(monkeypatch, FIRST)

Planted in one checker, the other must contradict it. Planted in both, only the truth can contradict
it, and the model has the truth.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from importlib import import_module
from re import sub
from typing import Any

import pytest

from auditor.findings.renaming import Renamed
from auditor.model.facts import (
    BeyondEndFacts,
    CorruptFacts,
    DuplicateFacts,
    EndHeader,
    EntryFacts,
    FailingFacts,
    LostFacts,
    MarkFacts,
    MarkWithoutLedgerFacts,
    PlacementFacts,
    Search,
    SilentFacts,
    StuckFacts,
    WhyMarked,
    WriteSetFacts,
)
from auditor.model.ledger import LedgerState
from auditor.model.verdict import CopyCounts

FIRST: dict[type, tuple[str, ...]] = {
    EntryFacts: ("auditor.first_checker.entries",),
    Search: ("auditor.first_checker.stranded",),
    MarkFacts: ("auditor.first_checker.underreplication",),
    CorruptFacts: ("auditor.first_checker.entries",),
    BeyondEndFacts: ("auditor.first_checker.beyond_end",),
    EndHeader: ("auditor.first_checker.beyond_end",),
    CopyCounts: ("auditor.first_checker.coverage", "auditor.first_checker.ledger"),
    DuplicateFacts: ("auditor.first_checker.ledger",),
    StuckFacts: ("auditor.first_checker.metadata",),
    PlacementFacts: ("auditor.first_checker.placement",),
    WriteSetFacts: ("auditor.first_checker.placement",),
}
"""Where the first checker states each sort of facts."""
SECOND: dict[type, tuple[str, ...]] = {
    EntryFacts: ("auditor.second_checker.findings",),
    Search: ("auditor.second_checker.search",),
    MarkFacts: ("auditor.second_checker.findings",),
    CorruptFacts: ("auditor.second_checker.findings",),
    BeyondEndFacts: ("auditor.second_checker.beyond_end",),
    EndHeader: ("auditor.second_checker.beyond_end",),
    CopyCounts: ("auditor.second_checker.findings",),
    DuplicateFacts: ("auditor.second_checker.findings",),
    StuckFacts: ("auditor.second_checker.findings",),
    PlacementFacts: ("auditor.second_checker.placement",),
    WriteSetFacts: ("auditor.second_checker.placement",),
}
"""Where the second checker states them."""


@dataclass(frozen=True)
class Falsehood:
    """A change to facts of one sort."""

    facts: type
    change: Callable[[Any], dict[str, Any]]

    def plant(
        self, monkeypatch: pytest.MonkeyPatch, *checkers: dict[type, tuple[str, ...]]
    ) -> None:
        """Make these checkers state the false fact from now on."""
        facts, change = self.facts, self.change

        def stated(*args: Any, **more: Any) -> Any:
            true = facts(*args, **more)
            return replace(true, **change(true))

        for module in (module for where in checkers for module in where[facts]):
            monkeypatch.setattr(import_module(module), facts.__name__, stated)


def _sorted(*names: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted({one for some in names for one in some}))


def _without(mark: MarkFacts, why: WhyMarked) -> dict[str, Any]:
    return {"why": tuple(one for one in mark.why if one is not why)}


def _with(mark: MarkFacts, why: WhyMarked) -> dict[str, Any]:
    return {"why": mark.why if why in mark.why else (*mark.why, why)}


def _of_open(mark: MarkFacts) -> dict[str, Any]:
    return {} if mark.state in (LedgerState.CLOSED, None) else _with(mark, WhyMarked.EMPTY_LEDGER)


FALSEHOODS: dict[str, Falsehood] = {
    "the entry behind the worst is called the worst": Falsehood(
        EntryFacts, lambda f: {"worst_entry": f.worst_entry + 1}
    ),
    "a write set lacks its last bookie": Falsehood(
        EntryFacts, lambda f: {"write_set": f.write_set[:-1]}
    ),
    "listed outside includes the write set": Falsehood(
        EntryFacts, lambda f: {"listed_outside": _sorted(f.listed_outside, f.write_set)}
    ),
    "nobody lists an entry outside its write set": Falsehood(
        EntryFacts, lambda f: {"listed_outside": ()}
    ),
    "a gone bookie is left out": Falsehood(EntryFacts, lambda f: {"gone": ()}),
    "a hole is called a tail": Falsehood(EntryFacts, lambda f: {"at_tail": True}),
    "a tail is called a hole": Falsehood(EntryFacts, lambda f: {"at_tail": False}),
    "nothing was looked for": Falsehood(EntryFacts, lambda f: {"search": None}),
    "one entry was looked for": Falsehood(Search, lambda f: {"entries": 1}),
    "whatever was looked for was found": Falsehood(Search, lambda f: {"entries_found": f.entries}),
    "no entry was left out of the search": Falsehood(Search, lambda f: {"entries_left": 0}),
    "who was not heard was searched": Falsehood(
        Search, lambda f: {"searched": _sorted(f.searched, f.unheard)}
    ),
    "found on leaves one out": Falsehood(Search, lambda f: {"found_on": f.found_on[1:]}),
    "found on a bookie that metadata names counts as unnamed": Falsehood(
        Search, lambda f: {"found_unnamed": f.found_on}
    ),
    "each holder has the next entry": Falsehood(
        Search, lambda f: {"found_first": tuple(e + 1 for e in f.found_first)}
    ),
    "a corrupt copy is no copy at all": Falsehood(Search, lambda f: {"corrupt_on": ()}),
    "who was not heard is left out": Falsehood(Search, lambda f: {"unheard": ()}),
    "that no copy is in reach is left out": Falsehood(
        MarkFacts, lambda f: _without(f, WhyMarked.NO_COPY_IN_REACH)
    ),
    "no copy is out of reach": Falsehood(MarkFacts, lambda f: _without(f, WhyMarked.NO_COPY)),
    "that replication is off is left out": Falsehood(
        MarkFacts, lambda f: _without(f, WhyMarked.REPLICATION_DISABLED)
    ),
    "somebody is always elected": Falsehood(MarkFacts, lambda f: _without(f, WhyMarked.NO_AUDITOR)),
    "there is always a spare bookie": Falsehood(
        MarkFacts, lambda f: _without(f, WhyMarked.NO_SPARE_BOOKIE)
    ),
    "an open ledger is empty": Falsehood(MarkFacts, _of_open),
    "an empty ledger is not said to be empty": Falsehood(
        MarkFacts, lambda f: _without(f, WhyMarked.EMPTY_LEDGER)
    ),
    "every mark is stale": Falsehood(MarkFacts, lambda f: _with(f, WhyMarked.STALE)),
    "no mark is stale": Falsehood(MarkFacts, lambda f: _without(f, WhyMarked.STALE)),
    "that a worker has the lock is left out": Falsehood(
        MarkFacts, lambda f: _without(f, WhyMarked.LOCKED)
    ),
    "nobody holds a lock": Falsehood(MarkFacts, lambda f: {"lock_holder": None}),
    "every lock is held by one worker": Falsehood(MarkFacts, lambda f: {"lock_holder": "worker"}),
    "a mark is an hour older": Falsehood(MarkFacts, lambda f: {"age_ms": f.age_ms + 3_600_000}),
    "a corrupt copy is on another entry": Falsehood(
        CorruptFacts,
        lambda f: {"copies": tuple((b, tuple(e + 1 for e in es)) for b, es in f.copies)},
    ),
    "the ledger ends one entry later": Falsehood(
        BeyondEndFacts, lambda f: {"last_entry_id": f.last_entry_id + 1}
    ),
    "one bookie lists entries beyond the end": Falsehood(
        BeyondEndFacts, lambda f: {"held_on": f.held_on[:1]}
    ),
    "one entry more was acknowledged": Falsehood(
        EndHeader, lambda f: {"last_confirmed": f.last_confirmed + 1}
    ),
    "what a list named was read": Falsehood(
        CopyCounts, lambda f: {"listed": 0, "read": f.read + f.listed}
    ),
    "what was read was listed": Falsehood(
        CopyCounts, lambda f: {"listed": f.listed + f.read, "read": 0}
    ),
    "what is there is all that is expected": Falsehood(
        CopyCounts, lambda f: {"expected": f.listed + f.read + f.assumed}
    ),
    "a bookie stands where it does not": Falsehood(
        DuplicateFacts,
        lambda f: {"positions": tuple((b, tuple(p + 1 for p in at)) for b, at in f.positions)},
    ),
    "a ledger is open for an hour more": Falsehood(
        StuckFacts, lambda f: {"age_ms": f.age_ms + 3_600_000}
    ),
    "there is one write set more": Falsehood(
        PlacementFacts, lambda f: {"write_sets": f.write_sets + 1}
    ),
    "one write set more decides": Falsehood(PlacementFacts, lambda f: {"deciding": f.deciding + 1}),
    "a write set needs one rack less": Falsehood(
        WriteSetFacts,
        lambda f: {"why": sub(r"needs (\d+)", lambda found: f"needs {int(found[1]) - 1}", f.why)},
    ),
    "a write set has another rack": Falsehood(
        WriteSetFacts, lambda f: {"why": f.why.replace("(/", "(/other")}
    ),
    "a policy is recorded everywhere": Falsehood(
        PlacementFacts, lambda f: {"recorded_policy": "OtherPolicy"}
    ),
}
"""All falsehoods, by what is false. Each changes what a checker states, never what it finds."""

NOT_IN_THE_MODEL: dict[str, Falsehood] = {
    "no policy is ever recorded": Falsehood(PlacementFacts, lambda f: {"recorded_policy": ""}),
    "another zone is crowded": Falsehood(
        WriteSetFacts, lambda f: {"why": f.why.replace("in zone z", "in zone y")}
    ),
    "fewer zones are desired": Falsehood(
        WriteSetFacts, lambda f: {"why": f.why.replace("where 3", "where 2")}
    ),
    "one copy more is allowed in a region": Falsehood(
        WriteSetFacts, lambda f: {"why": f.why.replace("allows 1", "allows 2")}
    ),
}
"""Falsehoods that the model cannot detect: it knows only racks, and records no policy."""

NOT_IN_THE_STORIES = frozenset(name for name in FALSEHOODS if "lock" in name)
"""Falsehoods that the stories of the properties cannot detect: no replication worker acts there."""

OF_SAMPLES: dict[str, Falsehood] = {
    "what is assumed was read": Falsehood(
        CopyCounts, lambda f: {"read": f.read + f.assumed, "assumed": 0}
    ),
}
"""Falsehoods that only show where entries are sampled. Elsewhere in the model every entry is read,
so nothing is assumed.
"""

RUN: dict[type, tuple[str, ...]] = {
    LostFacts: ("auditor.findings.bookies",),
    SilentFacts: ("auditor.findings.bookies",),
    FailingFacts: ("auditor.findings.failing_requests",),
    Renamed: ("auditor.findings.renaming",),
    MarkWithoutLedgerFacts: ("auditor.first_checker.underreplication",),
    CopyCounts: ("auditor.summary.counts",),
}
"""Where a run states what it says of bookies, of marks without a ledger and of all copies."""

OF_RUNS: dict[str, Falsehood] = {
    "a renamed bookie is lost for good": Falsehood(LostFacts, lambda f: {"renamed_to": None}),
    "a gone bookie left its cookie": Falsehood(LostFacts, lambda f: {"has_cookie": True}),
    "a gone bookie is needed by one more": Falsehood(
        LostFacts, lambda f: {"unmarked_ledgers": f.unmarked_ledgers + 1}
    ),
    "the cluster was marking": Falsehood(LostFacts, lambda f: {"marked_ledgers_last": 7}),
    "a bookie came back as another": Falsehood(Renamed, lambda f: {"renamed_to": "b1"}),
    "nothing shows the other name": Falsehood(Renamed, lambda f: {"ledgers": ()}),
    "a silent bookie is read-only": Falsehood(SilentFacts, lambda f: {"registration": "readonly"}),
    "a failing bookie is read-only": Falsehood(
        FailingFacts, lambda f: {"registration": "readonly"}
    ),
    "a bookie fails for one more ledger": Falsehood(
        FailingFacts, lambda f: {"ledgers": f.ledgers + 1}
    ),
    "a bookie fails for another ledger": Falsehood(
        FailingFacts, lambda f: {"some_ledgers": tuple(n + 1 for n in f.some_ledgers)}
    ),
    "a failing bookie was asked for nothing": Falsehood(
        FailingFacts, lambda f: {"lists_refused": 0}
    ),
    "a bookie fails by its disk": Falsehood(
        FailingFacts, lambda f: {"statuses": tuple(("EIO", n) for _, n in f.statuses)}
    ),
    "one more mark has no ledger": Falsehood(
        MarkWithoutLedgerFacts, lambda f: {"marks": f.marks + 1}
    ),
    "a mark without a ledger is an hour older": Falsehood(
        MarkWithoutLedgerFacts, lambda f: {"oldest_age_ms": f.oldest_age_ms + 3_600_000}
    ),
    "every copy was verified": Falsehood(CopyCounts, lambda f: {"listed": f.expected - f.read}),
}
"""Falsehoods of whole runs, by what is false."""
