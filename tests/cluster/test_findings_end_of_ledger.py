"""Ledgers whose end and whose entries differ, as real clients leave them behind."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.audits import Outcome, accounted, audit, audit_ledgers
from support.raw_bookie import fence_request, master_key, read_request
from support.real_cluster import Closed, RealCluster

from auditor.model.finding import Kind
from auditor.model.ledger import DigestType
from auditor.sandbox.cluster import ledger

pytestmark = [pytest.mark.real, pytest.mark.long]
SORTED, DB, INTERLEAVED = (
    "SortedLedgerStorage",
    "DbLedgerStorage",
    "InterleavedLedgerStorage",
)
STORAGES = [SORTED, SORTED, DB, INTERLEAVED]
PASSWORD = "it's a secret"
DIGESTS = (DigestType.CRC32C, DigestType.HMAC)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealCluster]:
    """Yield four bookies; b3 cannot list."""
    with RealCluster(tmp_path_factory.mktemp("ends"), bookies=4, storage=STORAGES) as cluster:
        yield cluster


def kinds(outcome: Outcome) -> list[str]:
    return [one["kind"] for one in outcome.findings]


def judged(cluster: RealCluster, ledger_id: int) -> Outcome:
    return audit_ledgers(cluster, [ledger_id], second_look_delay="0s")


def ensemble_of(cluster: RealCluster, ledger_id: int) -> list[str]:
    """Return the bookies of the ledger's first ensemble, by position."""
    said = cluster.shell("ledgermetadata", "-l", str(ledger_id))
    return re.findall(r"b\d", re.search(r"ensembles=\{0=\[(.*?)\]", said)[1])  # type: ignore[index]


def test_adds_that_were_never_forced_are_named_and_called_neither_empty_nor_lost(
    cluster: RealCluster,
) -> None:
    """DEFERRED_SYNC, 100 adds, no force(), close(): the metadata says -1 and 2000 bytes, and each
    header names no entry as acknowledged.
    """
    closed = cluster.close_as_client("deferred", 3, 2, 2, 100, 0)
    assert (-1, 2000) == closed[1:]
    outcome = judged(cluster, closed.ledger_id)
    assert [Kind.METADATA_MALFORMED] == kinds(outcome)
    (found,) = outcome.findings
    assert "closed" not in str(outcome.verdicts[closed.ledger_id].exempt)
    assert [{"what": "length_without_entry", "numbers": [2000]}] == found["facts"]["contradictions"]
    beyond = found["facts"]["beyond_end"]
    assert {*ensemble_of(cluster, closed.ledger_id)} == {
        one["bookie_id"] for one in beyond["held_on"]
    }
    assert -1 == beyond["header"]["last_confirmed"]
    assert "DEFERRED_SYNC" in found["witness"]


def test_a_length_that_covers_more_than_the_forced_entries_contradicts_the_end(
    cluster: RealCluster,
) -> None:
    """force() covers 50 of 100 adds: the header of entry 49 says 1000 bytes, the metadata 2000. The
    last entry is read where a bookie cannot list.
    """
    closed = cluster.close_as_client("deferred", 4, 4, 2, 100, 50)
    assert (49, 2000) == closed[1:]
    outcome = judged(cluster, closed.ledger_id)
    (found,) = outcome.findings
    assert Kind.METADATA_MALFORMED == found["kind"]
    assert [{"what": "length_not_of_last_entry", "numbers": [2000, 49, 1000]}] == found["facts"][
        "contradictions"
    ]
    assert 49 == found["facts"]["beyond_end"]["header"]["last_confirmed"]


def test_a_ledger_written_backwards_has_no_contradiction(cluster: RealCluster) -> None:
    """A writer that sets the entry ids sends the last entry first. Its header has 20 bytes of 200,
    and the ledger is sound.
    """
    closed = cluster.close_as_client("backwards", 4, 4, 2, 10)
    assert (9, 200) == closed[1:]
    outcome = judged(cluster, closed.ledger_id)
    assert ("sound", []) == (outcome.verdicts[closed.ledger_id].standing, kinds(outcome))


@pytest.mark.parametrize("digest", DIGESTS)
def test_a_recovery_that_asked_a_wiped_bookie_first_closed_the_ledger_short(
    cluster: RealCluster, digest: DigestType
) -> None:
    """Ten acknowledged adds on two bookies, both in the ack quorum. One is wiped. The other is slow
    to answer: the recovery believes the wiped one and closes the ledger without entries.
    """
    number = cluster.write_as_client(2, 2, 2, 10, digest=digest, password=PASSWORD, close=False)
    first, second = ensemble_of(cluster, number)
    cluster.wipe(first)
    closed = recovered_past(cluster, second, number, digest)
    assert -1 == closed.last_entry_id
    outcome = judged(cluster, number)
    found = next(one for one in outcome.findings if one["kind"] == Kind.LEDGER_CLOSED_SHORT)
    assert ("critical", [[0, 8]], 9) == (
        found["severity"],
        found["entries"],
        found["entries_total"],
    )
    assert (second, 9, 8) == tuple(
        found["facts"]["header"][name] for name in ("bookie_id", "entry_id", "last_confirmed")
    )
    assert [second] == [one["bookie_id"] for one in found["facts"]["held_on"]]
    assert (1, None) == (outcome.exit_code, outcome.verdicts[number].exempt)


def recovered_past(cluster: RealCluster, slow: str, number: int, digest: DigestType) -> Closed:
    """Recover the ledger while one bookie is paused; resume it when the ledger is closed."""
    resume = threading.Timer(20.0, cluster.resume, (slow,))
    cluster.pause(slow)
    resume.start()
    try:
        return cluster.close_as_client("recover", number, digest=digest, password=PASSWORD)
    finally:
        resume.cancel()
        cluster.resume(slow)
        cluster.await_registered(slow)


def test_entries_above_the_end_are_found_on_a_bookie_of_an_earlier_segment(
    cluster: RealCluster, tmp_path: Path
) -> None:
    """Striped over three bookies; the second segment names b4 in place of b1, and only b1 still
    holds entry 21, whose header names 20. The run and `auditor ledger` say the same.
    """
    text = "e3 w2 a2 0:[b1 b2 b3] 10:[b4 b2 b3] closed 19"
    cluster.place(9_001, ledger(text))
    cluster.hold("b1", 9_001, "21")
    run = accounted(audit(cluster, tmp_path, ledger_ids=[9_001], second_look_delay="0s"))
    for outcome in (run, judged(cluster, 9_001)):
        (found,) = outcome.findings
        assert (Kind.LEDGER_CLOSED_SHORT, [[20, 20]]) == (found["kind"], found["entries"])
        assert [
            {"bookie_id": "b1", "ranges": [[21, 21]], "entries": 1, "is_listed": True}
        ] == found["facts"]["held_on"]


def test_the_highest_entry_is_read_where_a_bookie_cannot_list(cluster: RealCluster) -> None:
    """b3 alone holds what the end cut off. Its twin has a header that names the end itself."""
    for number, above in ((9_010, "10-14"), (9_011, "10")):
        cluster.place(number, ledger("e2 w2 a2 0:[b1 b3] closed 9"))
        cluster.hold("b3", number, above)
    (short,), (beyond,) = (judged(cluster, n).findings for n in (9_010, 9_011))
    assert (Kind.LEDGER_CLOSED_SHORT, [[10, 13]]) == (short["kind"], short["entries"])
    assert (Kind.ENTRIES_BEYOND_END, [[10, 10]]) == (beyond["kind"], beyond["entries"])
    assert not beyond["facts"]["held_on"][0]["is_listed"]


def test_an_empty_ledger_is_empty_where_its_bookies_say_so(cluster: RealCluster) -> None:
    """Nobody knows it, or it was fenced and holds nothing."""
    for number in (9_020, 9_021):
        cluster.add_ledger(number, ledger("e4 w2 a2 0:[b1 b2 b3 b4] closed -1"))
    fence(cluster, 9_021)
    for number in (9_020, 9_021):
        outcome = judged(cluster, number)
        assert ("exempt", "empty", 0) == (
            outcome.verdicts[number].standing,
            outcome.verdicts[number].exempt,
            outcome.exit_code,
        )


def fence(cluster: RealCluster, number: int) -> None:
    """Fence the ledger on every bookie, which makes it known there."""
    for name in cluster.bookie_ids:
        with cluster.connect(name) as connection:
            connection.ask(fence_request(number, master_key(), connection.next_txn_id()))


@pytest.mark.parametrize("bookie", ["b1", "b3", "b4"], ids=[SORTED, DB, INTERLEAVED])
def test_the_highest_entry_is_what_minus_one_reads(cluster: RealCluster, bookie: str) -> None:
    """On each storage: the highest entry that is stored, fenced or not; ENOENTRY where the ledger
    is known and empty, ENOLEDGER where it is not known. The answer does not name the entry, its
    body does.
    """
    number = 9_100 + int(bookie[1])

    def highest(of: int) -> tuple[str, int, bytes]:
        with cluster.connect(bookie) as connection:
            said = connection.ask(read_request(of, -1, connection.next_txn_id()))
        read = said.readResponse
        return str(said.status), read.entryId, bytes(read.body[8:16])

    assert ("402", -1, b"") == highest(number)
    cluster.hold(bookie, number, "0-4 7")
    assert ("0", -1, (7).to_bytes(8, "big")) == highest(number)
    with cluster.connect(bookie) as connection:
        connection.ask(fence_request(number, master_key(), connection.next_txn_id()))
        connection.ask(fence_request(number + 10, master_key(), connection.next_txn_id()))
    assert ("0", -1, (7).to_bytes(8, "big")) == highest(number)
    assert ("403", -1, b"") == highest(number + 10)
