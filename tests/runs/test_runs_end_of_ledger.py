"""Laws of whole runs about what lies above the end of a ledger."""

import struct
from collections.abc import Iterator
from dataclasses import replace

import pytest
from support.audits import Outcome, accounted, audit, audit_ledgers, replay_run

from auditor.model.finding import Kind
from auditor.model.ledger import DigestType
from auditor.sandbox.bookie import Storage
from auditor.sandbox.cluster import SandboxCluster
from auditor.wire.digest import digest_of

EMPTY, SHORT, CUT_AT_3, NEVER_FORCED, SILENT, EARLIER = range(1, 7)
ONE_GONE, TWO_GONE, ALL_GONE = range(7, 10)
TWO, FOUR = "e2 w2 a2 0:[b1 b2]", "e4 w2 a2 0:[b1 b2 b3 b4]"
TEN_DAYS_MS = 10 * 24 * 3600 * 1000


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[SandboxCluster, Outcome]]:
    """Yield a cluster and its run: b1 came back empty, b4 cannot list, b5 is silent, b6 and b7 are
    gone.
    """
    storages = [*[Storage.SORTED] * 3, Storage.DB, *[Storage.SORTED] * 3]
    workdir = tmp_path_factory.mktemp("ends")
    with SandboxCluster(workdir, bookies=7, named=True, storage=storages) as cluster:
        cluster.add_ledger(EMPTY, cluster.ledger(f"{FOUR} closed -1"))
        cluster.add_ledger(SHORT, cluster.ledger(f"{TWO} closed -1"))
        cluster.hold("b2", SHORT, "0-9")
        cluster.add_ledger(CUT_AT_3, cluster.ledger(f"{TWO} closed 3"))
        cluster.hold("b2", CUT_AT_3, "0-9")
        never = cluster.ledger(f"{FOUR} closed -1")
        cluster.add_ledger(NEVER_FORCED, replace(never, length=16))
        for name in ("b2", "b3"):
            hold_unforced(cluster, name, NEVER_FORCED, range(2))
        cluster.add_ledger(SILENT, cluster.ledger("e2 w2 a1 0:[b3 b5] closed -1"))
        cluster.place(EARLIER, cluster.ledger("e2 w2 a2 0:[b2 b3] 5:[b3 b4] closed 9"))
        cluster.hold("b2", EARLIER, "0-4 11")
        for number, ensemble in (
            (ONE_GONE, "e3 w2 a2 0:[b2 b3 b6]"),
            (TWO_GONE, "e3 w2 a2 0:[b3 b6 b7]"),
            (ALL_GONE, "e2 w2 a2 0:[b6 b7]"),
        ):
            cluster.add_ledger(number, cluster.ledger(f"{ensemble} closed -1"))
        cluster.stop_bookie("b5")
        for name in ("b6", "b7"):
            cluster.lose_bookie(name)
        for number in (EMPTY, SHORT):
            cluster.mark(number, ["b1"], 1)
        run = accounted(audit(cluster, workdir, second_look_delay="0s"))
        yield cluster, run


def hold_unforced(
    cluster: SandboxCluster, name: str, number: int, entries: tuple[int, ...]
) -> None:
    """Make a bookie hold entries whose headers name no entry as acknowledged."""
    cluster.hold(name, number, "")
    holding = cluster.bookie(name).holding(number)
    assert holding is not None
    for entry in entries:
        head = struct.pack(">qqqq", number, entry, -1, 8 * (entry + 1))
        body = head + digest_of(head + bytes(8), DigestType.CRC32C, b"") + bytes(8)
        holding.store(entry, body)


def found(outcome: Outcome, number: int) -> dict[str, dict]:
    return {one["kind"]: one for one in outcome.of(number)}


def test_a_bookie_that_came_back_empty_is_no_witness_against_the_other(
    outcome: tuple[SandboxCluster, Outcome],
) -> None:
    """b2 alone holds 0 to 9 of a ledger closed at 3. What b1 lacks is found, and what the end cut
    off.
    """
    said = found(outcome[1], CUT_AT_3)
    assert {Kind.LEDGER_CLOSED_SHORT, Kind.ENTRY_BELOW_ACK_QUORUM} == said.keys()
    assert [[4, 8]] == said[Kind.LEDGER_CLOSED_SHORT]["entries"]
    assert [[0, 3]] == said[Kind.ENTRY_BELOW_ACK_QUORUM]["entries"]
    assert said[Kind.LEDGER_CLOSED_SHORT]["id"] != said[Kind.ENTRY_BELOW_ACK_QUORUM]["id"]


def test_a_mark_says_that_there_is_nothing_to_replicate_only_where_that_was_shown(
    outcome: tuple[SandboxCluster, Outcome],
) -> None:
    """Both ledgers are closed without entries and marked since 1970. One has entries on b2."""
    _, run = outcome
    marks = {n: found(run, n)[Kind.UNDERREPLICATED_BEYOND_GRACE] for n in (EMPTY, SHORT)}
    assert "empty_ledger" in marks[EMPTY]["facts"]["why"]
    assert "empty_ledger" not in marks[SHORT]["facts"]["why"]
    assert "nothing to replicate" not in marks[SHORT]["witness"]
    assert Kind.LEDGER_CLOSED_SHORT in found(run, SHORT)


def test_what_was_never_forced_is_named_beside_the_length(
    outcome: tuple[SandboxCluster, Outcome],
) -> None:
    """The metadata says 16 bytes and no entry; the headers name none as acknowledged."""
    _, run = outcome
    (kind,) = found(run, NEVER_FORCED)
    assert Kind.METADATA_MALFORMED == kind
    facts = found(run, NEVER_FORCED)[kind]["facts"]
    assert ["b2", "b3"] == [one["bookie_id"] for one in facts["beyond_end"]["held_on"]]
    assert ("violated", None) == (
        run.verdicts[NEVER_FORCED].standing,
        run.verdicts[NEVER_FORCED].exempt,
    )


def test_a_ledger_of_which_an_ack_quorum_said_nothing_is_not_called_empty(
    outcome: tuple[SandboxCluster, Outcome],
) -> None:
    """The silent bookie may hold an entry that it alone acknowledged."""
    verdict = outcome[1].verdicts[SILENT]
    assert ("indeterminate", ("bookie_silent",), None) == (
        verdict.standing,
        verdict.unknowns,
        verdict.exempt,
    )


@pytest.mark.parametrize(
    ("number", "owed"),
    [
        (ONE_GONE, ("exempt", (), "empty")),
        (TWO_GONE, ("indeterminate", ("bookie_silent",), None)),
        (ALL_GONE, ("indeterminate", ("bookie_silent",), None)),
    ],
)
def test_a_ledger_whose_bookies_are_gone_is_not_called_empty(
    outcome: tuple[SandboxCluster, Outcome], number: int, owed: tuple[str, tuple[str, ...], str]
) -> None:
    """Two gone bookies may have held an entry that both acknowledged. One alone cannot."""
    verdict = outcome[1].verdicts[number]
    assert owed == (verdict.standing, verdict.unknowns, verdict.exempt)


def test_a_bookie_of_an_earlier_segment_is_heard_too(
    outcome: tuple[SandboxCluster, Outcome],
) -> None:
    """b2 holds entry 11, whose header names 10; the last segment does not name b2."""
    said = found(outcome[1], EARLIER)
    assert {Kind.LEDGER_CLOSED_SHORT: [[10, 10]]} == {
        kind: one["entries"] for kind, one in said.items()
    }


def test_a_run_a_replay_and_single_ledgers_agree(
    outcome: tuple[SandboxCluster, Outcome],
) -> None:
    """The stored evidence has what the headers say."""
    cluster, run = outcome
    assert run.run_dir is not None
    ids = [EMPTY, SHORT, CUT_AT_3, NEVER_FORCED, SILENT, EARLIER, ONE_GONE, TWO_GONE]
    alone = audit_ledgers(cluster, ids, second_look_delay="0s")
    again = replay_run(run.run_dir)
    for number in ids:
        kinds = sorted(found(run, number))
        assert kinds == sorted(found(alone, number)) == sorted(found(again, number))
        assert run.verdicts[number].standing == alone.verdicts[number].standing
