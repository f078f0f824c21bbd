"""Changes between two looks at real bookies: nothing is reported that the second look does not
confirm.

One audit of ledgers that are all suspects at the first look. At each pause the test changes what
the story says, for `auditor run` and for `auditor ledger`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path

import pytest
from support.audits import Outcome, accounted, audit, audit_ledgers
from support.raw_bookie import list_request
from support.real_cluster import RealCluster

from auditor.first_checker.recheck import WAITED_LOOKS_MAX
from auditor.model.finding import Kind
from auditor.wire import ledger_metadata, znode_paths

pytestmark = pytest.mark.real

LOOKS_MAX = 3
DAY_MS = 24 * 3600 * 1000
BASES = {"run": 420_000, "ledger": 421_000}
"""Ledger ids of this module on the shared cluster, one range for each command."""
REGISTERED_WAIT_S = 30.0
"""How long a resumed bookie may take to be registered and to answer again, in seconds."""

PAIR = "e2 w2 a1 0:[b1 b2] closed 9"
MOVED = "e2 w2 a1 0:[b1 b3] closed 9"


class Story(IntEnum):
    """A story of one ledger; its number is added to the base of the command."""

    STILL_LOST = 0
    REPLICATED = 1
    REPLICATED_IN_PART = 2
    FILLED = 3
    MARKED = 4
    LOST_AND_MARKED = 5
    DELETED = 6
    MADE_AGAIN = 7
    CHANGING = 8
    MARK_CLEARED = 9
    MENDED = 10
    BROKEN_ANEW = 11


@dataclass(frozen=True)
class Audited:
    """The outcome of one command on the stories, whose ids begin at `base`."""

    outcome: Outcome
    base: int

    def standing(self, story: Story) -> str:
        return self.outcome.standings(self.base + story)[0]

    def looks(self, story: Story) -> int:
        return self.outcome.verdicts[self.base + story].looks


def seed(cluster: RealCluster, base: int) -> None:
    """Write every ledger as the first look sees it: a suspect."""
    pair = cluster.ledger(PAIR)
    short = (
        Story.STILL_LOST,
        Story.REPLICATED,
        Story.REPLICATED_IN_PART,
        Story.FILLED,
        Story.MARKED,
        Story.MADE_AGAIN,
    )
    for story in (*short, Story.CHANGING):
        cluster.place(base + story, pair, {"b2": "0-9"})
    for story in (Story.LOST_AND_MARKED, Story.DELETED):
        cluster.place(base + story, pair, {"b1": "5", "b2": "5"})
    for story in (Story.MARK_CLEARED, Story.MENDED, Story.BROKEN_ANEW):
        cluster.place(base + story, pair)
    cluster.mark(base + Story.MARK_CLEARED, ["b2"], int(time.time() * 1000) - 10 * DAY_MS)
    whole = ledger_metadata.encode(pair, password=b"")
    for story in (Story.MENDED, Story.BROKEN_ANEW):
        cluster.set_raw(base + story, whole[:-3])


def meanwhile(cluster: RealCluster, base: int) -> Callable[[int], None]:
    """Change the ledgers at a pause; most changes are at the first one."""
    pair, moved = cluster.ledger(PAIR), cluster.ledger(MOVED)

    def act(pause: int) -> None:
        cluster.add_ledger(base + Story.CHANGING, pair)
        if pause > 1:
            return
        for story, held in ((Story.REPLICATED, "0-9"), (Story.REPLICATED_IN_PART, "0-8")):
            cluster.add_ledger(base + story, moved)
            cluster.hold("b3", base + story, held)
        cluster.hold("b2", base + Story.FILLED, "0-9")
        for story in (Story.MARKED, Story.LOST_AND_MARKED):
            cluster.mark(base + story, ["b2"])
        cluster.delete_ledger(base + Story.DELETED)
        cluster.delete_ledger(base + Story.MADE_AGAIN)
        cluster.add_ledger(base + Story.MADE_AGAIN, pair)
        cluster.unmark(base + Story.MARK_CLEARED)
        cluster.add_ledger(base + Story.MENDED, pair)
        cluster.set_raw(base + Story.BROKEN_ANEW, ledger_metadata.encode(pair, password=b"")[:-4])

    return act


@pytest.fixture(scope="module", params=list(BASES))
def audited(
    request: pytest.FixtureRequest,
    shared_cluster: RealCluster,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Audited]:
    """Yield the outcomes of `auditor run` and of `auditor ledger` on the stories."""
    base = BASES[request.param]
    ids = [base + story for story in Story]
    seed(shared_cluster, base)
    act = meanwhile(shared_cluster, base)
    if request.param == "run":
        directory = tmp_path_factory.mktemp("second-look")
        outcome = accounted(
            audit(shared_cluster, directory, between=act, ledger_ids=ids, looks_max=LOOKS_MAX)
        )
    else:
        outcome = audit_ledgers(shared_cluster, ids, between=act, looks_max=LOOKS_MAX)
    yield Audited(outcome, base)
    for story in (Story.MARKED, Story.LOST_AND_MARKED):
        shared_cluster.unmark(base + story)


def test_suspects_were_looked_at_again_after_each_pause(audited: Audited) -> None:
    """There is one pause before the second look, one more for the changed ones, and no third."""
    assert [0.0] * WAITED_LOOKS_MAX == audited.outcome.pauses_s


def test_what_stays_lost_is_found(audited: Audited) -> None:
    """The unchanged ledger is asked about at two looks, its metadata is read once more, and it is
    found.
    """
    found = audited.outcome.one(audited.base + Story.STILL_LOST)
    assert (Kind.ENTRY_BELOW_WRITE_QUORUM.value, [[0, 9]]) == (found["kind"], found["entries"])
    assert [2, 2, 0] == [len(look["answers"]) for look in found["looks"]]


def test_re_replicated_between_the_looks(audited: Audited) -> None:
    """The metadata changed and the entries are on another bookie: SOUND, and what the first look
    saw is not reported.
    """
    assert "sound" == audited.standing(Story.REPLICATED)
    assert [] == audited.outcome.of(audited.base + Story.REPLICATED)


def test_re_replicated_in_part(audited: Audited) -> None:
    """After a change the analysis begins anew: two looks at the new metadata, and the finding names
    the new bookie.
    """
    found = audited.outcome.one(audited.base + Story.REPLICATED_IN_PART)
    assert (Kind.ENTRY_BELOW_WRITE_QUORUM.value, [[9, 9]]) == (found["kind"], found["entries"])
    assert {"b3": [[9, 9]]} == found["missing_on"]
    assert [0, 1, 1, 1] == [look["znode_version"] for look in found["looks"]]
    assert [{"b1", "b2"}, {"b1", "b3"}, {"b1", "b3"}, set()] == [
        set(look["answers"]) for look in found["looks"]
    ]


def test_entries_that_came_late(audited: Audited) -> None:
    """A bookie that holds at the second look what it lacked at the first is believed: SOUND."""
    assert "sound" == audited.standing(Story.FILLED)
    assert [] == audited.outcome.of(audited.base + Story.FILLED)


def test_marked_between_the_looks(audited: Audited) -> None:
    """The cluster has noticed: EXEMPT, and the finding of the first look is dropped."""
    assert "exempt: marked_underreplicated" == audited.standing(Story.MARKED)
    assert [] == audited.outcome.of(audited.base + Story.MARKED)


def test_a_mark_never_excuses_a_confirmed_loss(audited: Audited) -> None:
    """It was marked meanwhile, but an entry is on no bookie: unrecoverable, and the last look has
    the mark.
    """
    found = audited.outcome.one(audited.base + Story.LOST_AND_MARKED)
    assert (Kind.UNDERREPLICATED_UNRECOVERABLE.value, [[5, 5]]) == (found["kind"], found["entries"])
    assert (False, True) == (found["looks"][0]["marked"], found["looks"][-1]["marked"])
    assert "violated" == audited.standing(Story.LOST_AND_MARKED)


def test_deleted_between_the_looks(audited: Audited) -> None:
    """It is deleted: EXEMPT(deleted), and the loss confirmed at the first look is not reported."""
    assert "exempt: deleted" == audited.standing(Story.DELETED)
    assert [] == audited.outcome.of(audited.base + Story.DELETED)


def test_another_incarnation_is_another_ledger(audited: Audited) -> None:
    """It was deleted and recreated with the same bytes and the same version: earlier answers no
    longer count.
    """
    found = audited.outcome.one(audited.base + Story.MADE_AGAIN)
    assert [0, 0, 0, 0] == [look["znode_version"] for look in found["looks"]]
    assert [2, 2, 2, 0] == [len(look["answers"]) for look in found["looks"]]


def test_metadata_that_keeps_changing(audited: Audited) -> None:
    """Three looks saw three states: INDETERMINATE(unsettled), without a finding."""
    assert "indeterminate: unsettled" == audited.standing(Story.CHANGING)
    assert [] == audited.outcome.of(audited.base + Story.CHANGING)
    assert WAITED_LOOKS_MAX + 1 == audited.looks(Story.CHANGING)


def test_mark_cleared_between_the_looks(audited: Audited) -> None:
    """A mark beyond grace that is gone at the second look is not a finding; the bookies are asked
    then, and have everything.
    """
    assert "sound" == audited.standing(Story.MARK_CLEARED)
    assert [] == audited.outcome.of(audited.base + Story.MARK_CLEARED)


def test_metadata_mended_between_the_looks(audited: Audited) -> None:
    """Bytes that could not be decoded at one look and can at the next: the present ones are
    judged.
    """
    assert "sound" == audited.standing(Story.MENDED)
    assert [] == audited.outcome.of(audited.base + Story.MENDED)


def test_malformed_needs_the_same_bytes_twice(audited: Audited) -> None:
    """It is malformed at both looks but with other bytes: found only after the new bytes were read
    twice.
    """
    found = audited.outcome.one(audited.base + Story.BROKEN_ANEW)
    assert Kind.METADATA_MALFORMED.value == found["kind"]
    assert [1, 2, 2] == [look["znode_version"] for look in found["looks"]]


def test_nothing_else_is_found(audited: Audited) -> None:
    """Five of the twelve have one finding each."""
    expected = [
        Story.STILL_LOST,
        Story.REPLICATED_IN_PART,
        Story.LOST_AND_MARKED,
        Story.MADE_AGAIN,
        Story.BROKEN_ANEW,
    ]
    assert [audited.base + story for story in expected] == sorted(
        found["ledger_id"] for found in audited.outcome.findings
    )
    assert 1 == audited.outcome.exit_code


def test_bookie_paused_at_the_first_look(
    real_cluster: Callable[..., RealCluster], tmp_path: Path
) -> None:
    """It is stopped at the first look and runs again before the second: its ledgers are SOUND, and
    its silence is not reported.
    """
    cluster = real_cluster(bookies=3, settings={"zkTimeout": 20_000})
    for ledger_id in range(1, 6):
        cluster.place(ledger_id, cluster.ledger("e3 w2 a2 0:[b1 b2 b3] closed 9"))
    cluster.pause("b2")

    outcome = accounted(audit(cluster, tmp_path, between=lambda _: _go_on(cluster, "b2")))

    assert ["sound"] * 5 == outcome.standings(*range(1, 6))
    assert {2} == {verdict.looks for verdict in outcome.verdicts.values()}
    assert [] == outcome.findings
    assert (0, "SOUND") == (outcome.exit_code, outcome.summary["outcome"])
    assert 0 == outcome.summary["bookies"]["silent"]


def _go_on(cluster: RealCluster, bookie: str) -> None:
    """Send SIGCONT, and wait until it is registered and answers: its session may have ended
    meanwhile.
    """
    cluster.resume(bookie)
    with cluster.connect(bookie) as connection:
        connection.ask(list_request(1, 1))
    deadline = time.monotonic() + REGISTERED_WAIT_S
    path = f"{cluster.root}{znode_paths.AVAILABLE}/{bookie}"
    while cluster.zk.exists(path) is None:
        assert time.monotonic() < deadline, (
            f"{bookie} is not registered {REGISTERED_WAIT_S:g} s after it went on"
        )
        time.sleep(0.05)
