"""Entries without a copy, looked for on other bookies: in their lists, and by reading from those
that cannot list.

b1 to b4 list; b5 has DbLedgerStorage, which cannot. Each ledger has two segments, and b5 is only in
the second one. It cannot answer the request for its list, so it is read for what the first segment
lost.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from support.audits import Outcome, audit_ledgers
from support.either_cluster import EITHER, Cluster, cluster_of, hold_more

from auditor.model.finding import Kind
from auditor.model.ledger import DigestType
from auditor.wire import ledger_metadata

TEXT = "e2 w2 a2 0:[b1 b2] 10:[b3 b5] closed 19"
NOWHERE, ON_MUTE, ON_LISTING, CORRUPT, GONE, GONE_FROM_NOTHING, STRANDED = range(10, 80, 10)
MIRRORED_TAIL, MIRRORED_HOLE, NEWER_DIGEST = 80, 81, 90
LOST = {"b1": "4", "b2": "4"}
UNKNOWN_BOOKIE = "b99:3181"
SEGMENTS = 90
"""Segments of a ledger that is completely lost: each of one entry, or of three striped ones."""
LOST_WHOLE = {
    100: " ".join(f"{n}:[{('b1 b2', 'b3 b4')[n % 2]}]" for n in range(SEGMENTS)),
    101: " ".join(f"{3 * n}:[{('b1 b2 b3', 'b2 b4 b1')[n % 2]}]" for n in range(SEGMENTS)),
}
STRANDED_LOST = {"b1": "10-89", "b2": "10-89"}
ENTRIES_OF_LOST = {100: SEGMENTS, 101: 3 * SEGMENTS}


@pytest.fixture(scope="module", params=EITHER)
def cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cluster]:
    """Yield a cluster in which entry 4 of each ledger is lost where the metadata says."""
    storages = [*["SortedLedgerStorage"] * 4, "DbLedgerStorage"]
    workdir = tmp_path_factory.mktemp("search")
    with cluster_of(request.param, workdir, 5, storages) as cluster:
        for ledger_id in (NOWHERE, ON_MUTE, ON_LISTING, CORRUPT):
            cluster.place(ledger_id, cluster.ledger(TEXT), LOST)
        hold_more(cluster, "b5", ON_MUTE, "4")
        hold_more(cluster, "b3", ON_LISTING, "4")
        cluster.corrupt("b4", CORRUPT, 4)
        cluster.place(GONE, cluster.ledger(f"e3 w2 a2 0:[b1 {UNKNOWN_BOOKIE} b3] closed 8"))
        expects_nothing = f"e3 w2 a2 0:[b1 b2 b3] 9:[b1 {UNKNOWN_BOOKIE} b3] closed 8"
        cluster.place(GONE_FROM_NOTHING, cluster.ledger(expects_nothing))
        cluster.place(STRANDED, cluster.ledger("e2 w2 a2 0:[b1 b2] closed 99"), STRANDED_LOST)
        hold_more(cluster, "b4", STRANDED, "10-89")
        for ledger_id, lost in ((MIRRORED_TAIL, "20-29"), (MIRRORED_HOLE, "7 20-29")):
            mirrored = cluster.ledger("e3 w3 a2 0:[b1 b2 b3] closed 29")
            cluster.place(ledger_id, mirrored, {"b3": lost})
        _place_with_a_newer_digest(cluster)
        for ledger_id, segments in LOST_WHOLE.items():
            ensemble, last = ledger_id - 98, ENTRIES_OF_LOST[ledger_id] - 1
            text = f"e{ensemble} w2 a2 {segments} closed {last}"
            cluster.add_ledger(ledger_id, cluster.ledger(text))
        yield cluster


def _place_with_a_newer_digest(cluster: Cluster) -> None:
    """Place a ledger on b3 and on b5, which cannot list; the digest type in the metadata is one of
    a later BookKeeper.
    """
    metadata = cluster.ledger("e2 w2 a2 0:[b3 b5] closed 9")
    cluster.place(NEWER_DIGEST, metadata)
    data, known = ledger_metadata.encode(metadata), bytes([7 << 3, DigestType.CRC32C])
    assert 1 == data.count(known), "the field digestType"
    cluster.set_raw(NEWER_DIGEST, data.replace(known, bytes([7 << 3, 9])))


@pytest.fixture(scope="module")
def outcome(cluster: Cluster) -> Outcome:
    searched = (NOWHERE, ON_MUTE, ON_LISTING, CORRUPT, GONE, GONE_FROM_NOTHING, STRANDED)
    beside = (MIRRORED_TAIL, MIRRORED_HOLE, NEWER_DIGEST, *LOST_WHOLE)
    return audit_ledgers(cluster, [*searched, *beside], rpc_timeout="2s")


def search(outcome: Outcome, ledger_id: int) -> dict[str, Any]:
    """Return the search of a ledger whose finding is a loss."""
    found = outcome.one(ledger_id)
    assert (Kind.ENTRY_WITHOUT_REPLICA.value, [[4, 4]]) == (found["kind"], found["entries"])
    result: dict[str, Any] = found["facts"]["search"]
    return result


def test_a_bookie_of_another_segment_that_cannot_list_is_read(outcome: Outcome) -> None:
    """Each registered bookie outside the write set of the entry was searched, and none has it."""
    found = search(outcome, NOWHERE)
    assert (["b3", "b4", "b5"], [], []) == (found["searched"], found["found_on"], found["unheard"])
    assert "none has it" in outcome.one(NOWHERE)["witness"]


@pytest.mark.parametrize(("ledger_id", "holder"), [(ON_MUTE, "b5"), (ON_LISTING, "b3")])
def test_a_copy_on_a_bookie_of_another_segment_is_found(
    outcome: Outcome, ledger_id: int, holder: str
) -> None:
    """It is found by a read, or in a list. A segment names the bookie, so it keeps the copy: the
    entry is lost only where the metadata says.
    """
    found = search(outcome, ledger_id)
    assert ([holder], []) == (found["found_on"], found["found_unnamed"])
    assert holder in outcome.one(ledger_id)["witness"]
    assert f"-b {holder}" in outcome.one(ledger_id)["next"][0], (
        "what to do begins with reading from the holder"
    )


def test_a_copy_with_a_wrong_digest_is_named_and_is_not_none(outcome: Outcome) -> None:
    """b4 returned the entry, but its bytes do not match: b4 is neither a holder nor a bookie that
    has nothing.
    """
    found = search(outcome, CORRUPT)
    assert (["b4"], []) == (found["corrupt_on"], found["found_on"])
    assert "b4 sent a copy with a wrong digest" in outcome.one(CORRUPT)["witness"]


def test_a_bookie_that_nobody_knows_has_lost_its_copies(outcome: Outcome) -> None:
    """It has neither registration nor cookie: each of its entries has one copy left, below the ack
    quorum of two.
    """
    found = outcome.one(GONE)
    assert Kind.ENTRY_BELOW_ACK_QUORUM.value == found["kind"]
    assert [UNKNOWN_BOOKIE] == found["facts"]["gone"]
    assert [UNKNOWN_BOOKIE] == list(found["missing_on"])
    assert ["violated"] == outcome.standings(GONE)


def test_a_bookie_that_nobody_knows_is_no_matter_where_it_should_hold_nothing(
    outcome: Outcome,
) -> None:
    """The segment that names it has no entry: no contradiction, and no finding."""
    assert (["sound"], []) == (outcome.standings(GONE_FROM_NOTHING), outcome.of(GONE_FROM_NOTHING))


def test_every_stranded_entry_is_counted_not_only_those_looked_for(outcome: Outcome) -> None:
    """b4 alone, which no segment names, holds eighty entries; a few of them are read there."""
    found = outcome.one(STRANDED)
    assert (Kind.ENTRY_ONLY_OUTSIDE_ENSEMBLE.value, [[10, 89]], 80) == (
        found["kind"],
        found["entries"],
        found["entries_total"],
    )
    assert ["b4"] == found["facts"]["search"]["found_unnamed"]
    assert found["facts"]["search"]["entries"] < 80


@pytest.mark.parametrize(("ledger_id", "at_tail"), [(MIRRORED_TAIL, True), (MIRRORED_HOLE, False)])
def test_the_end_that_one_bookie_lacks_is_distinguished_from_a_hole(
    outcome: Outcome, ledger_id: int, at_tail: bool
) -> None:
    """The ack quorum has the last ten entries. In the twin b3 also lacks an entry in the middle."""
    found = outcome.one(ledger_id)
    assert Kind.ENTRY_BELOW_WRITE_QUORUM.value == found["kind"]
    assert at_tail == found["facts"]["at_tail"]
    assert at_tail == ("b3 lacks only the end of the ledger" in found["witness"])


def test_what_has_a_newer_digest_is_read_and_not_called_corrupt(outcome: Outcome) -> None:
    """Real bookies stored it with CRC32C; its metadata names a digest type that the auditor does
    not know.
    """
    assert (["sound"], []) == (outcome.standings(NEWER_DIGEST), outcome.of(NEWER_DIGEST))
    assert "probed" == outcome.verdicts[NEWER_DIGEST].report["assurance"]


@pytest.mark.parametrize("ledger_id", LOST_WHOLE)
def test_a_ledger_of_many_segments_that_is_lost_whole_is_a_loss(
    outcome: Outcome, ledger_id: int
) -> None:
    """Both checkers agree on it, for ensembles of the write quorum and for striped ones."""
    found, total = outcome.one(ledger_id), ENTRIES_OF_LOST[ledger_id]
    assert (Kind.ENTRY_WITHOUT_REPLICA.value, [[0, total - 1]], total) == (
        found["kind"],
        found["entries"],
        found["entries_total"],
    )
    assert ["violated"] == outcome.standings(ledger_id)
