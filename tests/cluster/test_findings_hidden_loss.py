"""Marked ledgers: a loss behind a mark is found, and the witness says why the mark
still stands.

One cluster: b1 to b4 run, b5 is killed and unregistered and has its cookie, except in one test.
Every ledger was marked ten days ago, by the mark's own field.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from support.audits import Outcome, audit_ledgers
from support.either_cluster import EITHER, Cluster, cluster_of, hold_more, read_znode

from auditor.model.finding import Kind
from auditor.wire import znode_paths

LOST = "b5"
ELECTED, WORKER = "b1", "worker-7.example.com"
DAY_MS = 24 * 3600 * 1000
LONGER_THAN_THE_MARKS = "720h"

NO_COPY, IN_REACH, NO_SPARE = "no_copy", "no_copy_in_reach", "no_spare_bookie"
DISABLED, NO_AUDITOR, HELD_LOCK = "replication_disabled", "no_auditor", "locked"
EMPTY, STALE = "empty_ledger", "stale"

STRIPED = "e3 w2 a2 0:[b1 b2 b3] closed 49"
ON_LOST = f"e3 w2 a2 0:[b1 {LOST} b3] closed 49"
LOST_ENTRY = 42
"""Its write set is the first two bookies of an ensemble of three."""


@dataclass(frozen=True)
class HiddenLoss:
    """A marked ledger, what its bookies lack of it, and the reasons that hold while auto-recovery
    works.
    """

    text: str
    lose: dict[str, str]
    why: tuple[str, ...]


(
    UNRECOVERABLE,
    ONE_COPY,
    STRANDED,
    NOWHERE_TO_GO,
    SPARED,
    EMPTIED,
    ONE_ENTRY,
    LOCKED,
    ON_LOST_BOOKIE,
    BESIDE_IT,
    LEFT_OPEN,
    RECOVERING,
    ONE_BOOKIE,
) = range(10, 140, 10)
LEDGERS = {
    UNRECOVERABLE: HiddenLoss(STRIPED, {"b1": "42", "b2": "42"}, (NO_COPY,)),
    ONE_COPY: HiddenLoss(STRIPED, {"b1": "42"}, ()),
    STRANDED: HiddenLoss(STRIPED, {"b1": "42", "b2": "42"}, (NO_COPY,)),
    NOWHERE_TO_GO: HiddenLoss("e4 w2 a2 0:[b1 b2 b3 b4] closed 49", {"b2": "8"}, (NO_SPARE,)),
    SPARED: HiddenLoss(STRIPED, {"b2": "9"}, ()),
    EMPTIED: HiddenLoss("e3 w2 a2 0:[b1 b2 b3] closed -1", {}, (EMPTY,)),
    ONE_ENTRY: HiddenLoss("e3 w2 a2 0:[b1 b2 b3] closed 0", {}, (STALE,)),
    LOCKED: HiddenLoss(STRIPED, {"b1": "42"}, (HELD_LOCK,)),
    ON_LOST_BOOKIE: HiddenLoss(ON_LOST, {"b1": "42"}, (IN_REACH,)),
    BESIDE_IT: HiddenLoss(ON_LOST, {}, ()),
    LEFT_OPEN: HiddenLoss("e3 w2 a2 0:[b1 b2 b3] open", {}, ()),
    RECOVERING: HiddenLoss("e3 w2 a2 0:[b1 b2 b3] in_recovery", {}, ()),
    ONE_BOOKIE: HiddenLoss(f"e1 w1 a1 0:[{LOST}] closed 9", {}, (IN_REACH,)),
}
"""Each ledger beside a twin; LOCKED's is ONE_COPY, that of ledgers without an end EMPTIED."""
FOR_GOOD = (UNRECOVERABLE, STRANDED)
"""Lost whatever the bookie with the cookie may hold."""
FOR_NOW = (ON_LOST_BOOKIE, ONE_BOOKIE)
"""Only the bookie with the cookie, which is not registered, may hold an entry of these."""


@pytest.fixture(scope="module", params=EITHER)
def cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cluster]:
    """Yield a cluster in which an auditor is elected and auto-recovery is on when a test begins."""
    with cluster_of(request.param, tmp_path_factory.mktemp("hidden"), 5) as cluster:
        marked_at_ms = int(time.time() * 1000) - 10 * DAY_MS
        for ledger_id, holdings in LEDGERS.items():
            cluster.place(ledger_id, cluster.ledger(holdings.text), holdings.lose)
            cluster.mark(ledger_id, ["b1"], marked_at_ms)
        hold_more(cluster, "b4", STRANDED, str(LOST_ENTRY))
        cluster.lock(LOCKED, WORKER)
        cluster.lose_bookie(LOST, cookie=True)
        cluster.elect_auditor(ELECTED)
        yield cluster


@pytest.fixture(scope="module")
def beyond(cluster: Cluster) -> Outcome:
    """Return all verdicts with the product's default: the marks are beyond the grace of three
    days.
    """
    return audit_ledgers(cluster, list(LEDGERS))


def on_mark(outcome: Outcome, ledger_id: int) -> dict[str, Any]:
    """Return the finding of the mark family. Beyond grace a missing copy is reported beside it, in
    the entry family.
    """
    found = [one for one in outcome.of(ledger_id) if one["family"] == "mark"]
    assert len(found) == 1, outcome.of(ledger_id)
    return found[0]


def mark_of(outcome: Outcome, ledger_id: int) -> dict[str, Any]:
    """Return the facts of the ledger's mark."""
    facts: dict[str, Any] = on_mark(outcome, ledger_id)["facts"]
    mark: dict[str, Any] = facts.get("mark", facts)
    return mark


def reasons(outcome: Outcome, ledger_id: int) -> tuple[str, ...]:
    """Return why the mark stands."""
    return tuple(mark_of(outcome, ledger_id)["why"])


@pytest.mark.parametrize("ledger_id", LEDGERS)
def test_the_reasons_that_hold_are_reported_and_no_others(beyond: Outcome, ledger_id: int) -> None:
    """The reason for the mark is a fact; the twin, which differs in one respect, has another reason
    or none.
    """
    assert LEDGERS[ledger_id].why == reasons(beyond, ledger_id)


@pytest.mark.parametrize("ledger_id", LEDGERS)
def test_beyond_grace_each_is_violated_by_one_finding(beyond: Outcome, ledger_id: int) -> None:
    """It is unrecoverable if an entry has no copy, else beyond grace; both findings have the age of
    the mark.
    """
    kind = (
        Kind.UNDERREPLICATED_UNRECOVERABLE
        if ledger_id in FOR_GOOD
        else Kind.UNDERREPLICATED_BEYOND_GRACE
    )
    found = on_mark(beyond, ledger_id)
    assert kind.value == found["kind"]
    assert "10 days" in found["witness"]
    assert "violated" == beyond.verdicts[ledger_id].standing


@pytest.mark.parametrize(("ledger_id", "state"), [(LEFT_OPEN, "OPEN"), (RECOVERING, "IN_RECOVERY")])
def test_a_ledger_without_an_end_is_not_called_empty(
    beyond: Outcome, ledger_id: int, state: str
) -> None:
    """Its lastEntryId is -1 in BookKeeper until it is closed; a person who reads that it is empty
    deletes it.
    """
    witness = on_mark(beyond, ledger_id)["witness"]
    assert f"The ledger is {state}: its entries are not checked." in witness
    assert not {"empty", "without entries", "nothing to replicate"} & {
        words for words in ("empty", "without entries", "nothing to replicate") if words in witness
    }
    assert "CLOSED without entries" in on_mark(beyond, EMPTIED)["witness"]


def test_no_copy_left(beyond: Outcome) -> None:
    """Every bookie of the write set answered without the entry. Entries, bookies and copies are the
    removed ones, and the finding stands alone.
    """
    expected = {
        "kind": "UNDERREPLICATED_UNRECOVERABLE",
        "severity": "critical",
        "segment": {"first_entry_id": 0, "last_entry_id": 49, "ensemble": ["b1", "b2", "b3"]},
        "entries": [[LOST_ENTRY, LOST_ENTRY]],
        "missing_on": {"b1": [[LOST_ENTRY, LOST_ENTRY]], "b2": [[LOST_ENTRY, LOST_ENTRY]]},
        "copies": {"write_quorum": 2, "ack_quorum": 2, "confirmed": 0, "unknown": 0},
    }
    found = beyond.one(UNRECOVERABLE)
    assert expected == {key: found[key] for key in expected}
    search = found["facts"]["entries"]["search"]
    assert (["b3", "b4"], [], []) == (search["searched"], search["found_on"], search["unheard"])
    assert 2 == sum(bool(look["answers"]) for look in found["looks"])


def test_a_copy_outside_the_ensemble_is_named(beyond: Outcome) -> None:
    """A copy exists on a bookie that the metadata does not name: unrecoverable for the cluster, and
    the finding names the bookie.
    """
    found = beyond.one(STRANDED)
    assert ["b4"] == found["facts"]["entries"]["search"]["found_unnamed"]
    assert "No segment of the ledger names b4" in found["witness"]


def test_who_holds_the_lock_and_since_when(cluster: Cluster, beyond: Outcome) -> None:
    """The finding has the worker's name, and the time of its lock."""
    made_ms = read_znode(cluster, znode_paths.lock_path(LOCKED))[1].ctime
    mark = mark_of(beyond, LOCKED)
    assert (WORKER, made_ms) == (mark["lock_holder"], mark["lock_since_ms"])
    assert WORKER in on_mark(beyond, LOCKED)["witness"]


def test_no_auditor_elected(cluster: Cluster) -> None:
    """Replication is not scheduled: this is a reason beside the others, for every marked ledger."""
    cluster.elect_auditor(None)
    try:
        outcome = audit_ledgers(cluster, [UNRECOVERABLE, ONE_COPY])
    finally:
        cluster.elect_auditor(ELECTED)
    assert [(NO_COPY, NO_AUDITOR), (NO_AUDITOR,)] == [
        reasons(outcome, one) for one in (UNRECOVERABLE, ONE_COPY)
    ]


def test_replication_disabled(cluster: Cluster) -> None:
    """Auto-recovery is switched off: this is a reason beside the others, for every marked
    ledger.
    """
    cluster.disable_replication()
    try:
        outcome = audit_ledgers(cluster, [NOWHERE_TO_GO, ONE_COPY])
    finally:
        cluster.enable_replication()
    assert [(DISABLED, NO_SPARE), (DISABLED,)] == [
        reasons(outcome, one) for one in (NOWHERE_TO_GO, ONE_COPY)
    ]


def test_within_grace_only_what_nobody_can_read_counts(cluster: Cluster) -> None:
    """With the same marks within grace, all are EXEMPT, except those with losses that no
    replication can repair, and those with entries that no registered bookie has.
    """
    outcome = audit_ledgers(cluster, list(LEDGERS), underreplication_grace=LONGER_THAN_THE_MARKS)
    expected = [
        "violated" if one in (*FOR_GOOD, *FOR_NOW) else "exempt: marked_underreplicated"
        for one in LEDGERS
    ]
    assert expected == outcome.standings(*LEDGERS)
    unrecoverable, unavailable = Kind.UNDERREPLICATED_UNRECOVERABLE, Kind.ENTRY_UNAVAILABLE
    assert [(one, unrecoverable.value) for one in FOR_GOOD] == [
        (one, found["kind"]) for one in FOR_GOOD for found in outcome.of(one)
    ]
    assert [(one, unavailable.value) for one in FOR_NOW] == [
        (one, found["kind"]) for one in FOR_NOW for found in outcome.of(one)
    ]


def test_a_forgotten_bookie_has_no_copy_and_a_known_one_may(
    cluster: Cluster, beyond: Outcome
) -> None:
    """While the lost bookie has a cookie its copies are unknown. Without it the entry that only it
    had is lost for good; the ledger with all other copies is not.
    """
    both = (ON_LOST_BOOKIE, BESIDE_IT)
    assert [Kind.UNDERREPLICATED_BEYOND_GRACE.value] * 2 == [
        on_mark(beyond, one)["kind"] for one in both
    ]

    cookie = f"{znode_paths.COOKIES}/{LOST}"
    data, _ = read_znode(cluster, cookie)
    cluster.delete_cookie(LOST)
    try:
        outcome = audit_ledgers(cluster, both, underreplication_grace=LONGER_THAN_THE_MARKS)
    finally:
        cluster.set_raw(cluster.root + cookie, data)

    found = outcome.one(ON_LOST_BOOKIE)
    assert (Kind.UNDERREPLICATED_UNRECOVERABLE.value, [[LOST_ENTRY, LOST_ENTRY]]) == (
        found["kind"],
        found["entries"],
    )
    assert [LOST] == found["facts"]["entries"]["gone"]
    assert (NO_COPY,) == reasons(outcome, ON_LOST_BOOKIE)
    assert ["violated", "exempt: marked_underreplicated"] == outcome.standings(*both)
