"""False facts planted in the checkers: in one checker the other contradicts it, in both the truth
does.

Each history is the shortest of some random ones in which the fact is stated.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module

import pytest
from support.falsehoods import FALSEHOODS, FIRST, OF_SAMPLES, RUN, SECOND
from support.model import actions
from support.model.clusters import started
from support.model.history import Broken, Cluster
from support.quick_forms import one_in

WRITTEN = "create 1 e3 w2 a2 b1 b2 b3; append 1 5; close 1"
"""Entry e is on positions e and e + 1: b1 has 0 2 3, b2 has 0 1 3 4, b3 has 1 2 4."""
HALF_LOST = "create 1 e2 w1 a1 b3 b1; append 1 5; close 1; wipe b1"
SWAPPED = "create 1 e5 w1 a1 b3 b1 b2 b4 b6; append 1 9; close 1; swap 1 0 4 1"
UNHEARD = (
    "create 1 e4 w2 a1 b4 b5 b2 b1; append 1 3; close 1; rereplicate 1 b5 b3; crash b1 silent; lose"
    " 1 1 b3 b2"
)
REFUSED = "create 1 e3 w2 a2 b1 b2 b3; append 1 5; close 1; lose 1 4 b2 b3; refuse b5"
OVERTAKEN = (
    "create 1 e3 w2 a2 b1 b2 b3; append 1 9; close 1; truncate 1 3; cut 5 unrecorded; stripe 1 b1"
    " emptied; resume"
)
"""b1 sent an entry above the end, and lost all before it was asked for its list again."""
BEYOND = "create 1 e5 w5 a3 b1 b5 b2 b3 b4; append 1 14; close 1; truncate 1 6"
MARKED_OPEN = "create 1 e4 w4 a2 b2 b3 b6 b1; mark 1; time 150"
PLACED = "create 1 e3 w2 a1 b3 b2 b4; append 1 2; close 1; rack b3 /r2"
ONE_RACK = (
    "create 1 e5 w2 a1 b1 b2 b3 b4 b5; append 1 2; close 1; rack b1 /r2; rack b3 /r2; rack b4 /r2;"
    " rack b5 /r2"
)
"""Five write sets decide, as many as a finding shows: a further one does not contradict those
shown.
"""
MARKED_LOSS = f"{HALF_LOST}; mark 1; time 150"

SHOWN_BY: dict[str, str] = {
    "the entry behind the worst is called the worst": HALF_LOST,
    "a write set lacks its last bookie": HALF_LOST,
    "listed outside includes the write set": HALF_LOST,
    "nobody lists an entry outside its write set": (
        "create 1 e5 w4 a2 b4 b5 b6 b2 b3; append 1 2; close 1; swap 1 0 1 4"
    ),
    "a gone bookie is left out": f"{WRITTEN}; crash b3 gone",
    "a hole is called a tail": HALF_LOST,
    "a tail is called a hole": "create 1 e2 w2 a1 b3 b1; append 1 2; close 1; lose 1 1 b3",
    "nothing was looked for": HALF_LOST,
    "one entry was looked for": HALF_LOST,
    "whatever was looked for was found": HALF_LOST,
    "no entry was left out of the search": (
        "create 1 e2 w2 a1 b4 b3; append 1 5; close 1; lose 1 0 b4; wipe b3; lose 1 4 b4; crash b5"
        " silent"
    ),
    "who was not heard was searched": UNHEARD,
    "found on leaves one out": SWAPPED,
    "found on a bookie that metadata names counts as unnamed": SWAPPED,
    "each holder has the next entry": SWAPPED,
    "a corrupt copy is no copy at all": (
        "create 1 e1 w1 a1 b1; append 1 9; close 1; spoil 1 b1 digest 8; rename b1 b6"
    ),
    "who was not heard is left out": REFUSED,
    "that no copy is in reach is left out": (
        "create 1 e1 w1 a1 b1; append 1 2; close 1; crash b1 lost; mark 1; time 150"
    ),
    "no copy is out of reach": MARKED_LOSS,
    "that replication is off is left out": f"{MARKED_LOSS}; replication off",
    "somebody is always elected": MARKED_OPEN,
    "there is always a spare bookie": (
        "create 1 e5 w1 a1 b6 b5 b4 b1 b3; append 1 1; close 1; mark 1; crash b2 gone; wipe b6"
    ),
    "an open ledger is empty": MARKED_OPEN,
    "an empty ledger is not said to be empty": (
        "create 1 e3 w3 a3 b4 b5 b6; close 1; mark 1; time 150"
    ),
    "every mark is stale": MARKED_LOSS,
    "no mark is stale": f"{WRITTEN}; mark 1; time 150",
    "that a worker has the lock is left out": f"{MARKED_LOSS}; lock 1 b4",
    "nobody holds a lock": f"{MARKED_LOSS}; lock 1 b4",
    "every lock is held by one worker": MARKED_LOSS,
    "a mark is an hour older": MARKED_LOSS,
    "a corrupt copy is on another entry": f"{WRITTEN}; unlist b2; spoil 1 b2 digest 1",
    "the ledger ends one entry later": BEYOND,
    "one bookie lists entries beyond the end": BEYOND,
    "one entry more was acknowledged": BEYOND,
    "what a list named was read": WRITTEN,
    "what was read was listed": f"{WRITTEN}; unlist b2",
    "what is there is all that is expected": f"{WRITTEN}; lose 1 4 b3",
    "a bookie stands where it does not": (
        "create 1 e5 w1 a1 b3 b1 b2 b4 b6; ensemble 1 4 b2; append 1 1; close 1"
    ),
    "a ledger is open for an hour more": "create 1 e4 w1 a1 b6 b5 b2 b4; time 150",
    "there is one write set more": PLACED,
    "one write set more decides": ONE_RACK,
    "a write set needs one rack less": PLACED,
    "a write set has another rack": PLACED,
    "a policy is recorded everywhere": PLACED,
}
"""For each false fact, a history in which it is stated."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with started(tmp_path_factory.mktemp("facts")) as cluster:
        yield cluster


def broken_by(cluster: Cluster, name: str, history: str = "") -> list[str]:
    """Return what is broken at the end of the history for a falsehood, as sentences."""
    try:
        cluster.end(actions.lines_of(history or SHOWN_BY[name]))
    except Broken as failure:
        return failure.sentences
    return []


def test_each_false_fact_has_a_history() -> None:
    """Every falsehood has one."""
    assert FALSEHOODS.keys() == SHOWN_BY.keys()
    assert not FALSEHOODS.keys() & OF_SAMPLES.keys()


def test_each_sort_of_facts_is_stated_where_falsehoods_are_planted() -> None:
    """A module that no longer makes such facts could not be made to state false ones."""
    assert [] == [
        f"{module} has no {facts.__name__}"
        for places in (FIRST, SECOND, RUN)
        for facts, modules in places.items()
        for module in modules
        if not hasattr(import_module(module), facts.__name__)
    ]


@pytest.mark.parametrize("history", dict.fromkeys(SHOWN_BY.values()))
def test_the_facts_of_both_checkers_are_true(cluster: Cluster, history: str) -> None:
    """Without a planted falsehood nothing is broken."""
    cluster.end(actions.lines_of(history))


def test_an_entry_above_the_end_that_a_later_list_lacks_is_not_said_to_be_there(
    cluster: Cluster,
) -> None:
    cluster.end(actions.lines_of(OVERTAKEN))


@pytest.mark.parametrize("name", one_in(5, SHOWN_BY))
def test_a_false_fact_of_the_first_checker_is_withheld(
    cluster: Cluster, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second checker contradicts it, so it is not reported; and the model misses the
    verdict.
    """
    FALSEHOODS[name].plant(monkeypatch, FIRST)
    sentences = broken_by(cluster, name)
    assert any("the checkers differ" in one for one in sentences), sentences


@pytest.mark.parametrize("name", one_in(5, SHOWN_BY))
def test_a_false_fact_of_both_checkers_contradicts_the_truth(
    cluster: Cluster, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If both checkers state the same false fact, only the model contradicts it."""
    FALSEHOODS[name].plant(monkeypatch, FIRST, SECOND)
    assert broken_by(cluster, name), f"{SHOWN_BY[name]} holds"


@pytest.mark.parametrize("name", one_in(5, SHOWN_BY))
def test_a_false_fact_of_an_audit_that_went_on_contradicts_the_truth(
    cluster: Cluster, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fact that no state of the cluster owes is false there, too."""
    FALSEHOODS[name].plant(monkeypatch, FIRST, SECOND)
    history = f"{SHOWN_BY[name]}; cut 2 half; resume"
    sentences = broken_by(cluster, name, history)
    assert any("the audit that went on" in sentence for sentence in sentences), sentences
