"""Ledgers of every format and shape, some written by BookKeeper's own client: sound ones are SOUND,
and a loss is found.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest
from support.audits import Outcome, accounted, audit, audit_ledgers
from support.real_cluster import RealCluster

from auditor.model.finding import Kind
from auditor.model.ledger import DigestType

pytestmark = pytest.mark.real

FIRST = 400_000
"""Ledger ids of this module on the shared cluster, far from those that its tests draw."""

SOUND = {
    "every bookie has every entry": "e3 w3 a2 0:[b1 b2 b3] closed 49",
    "one copy": "e3 w1 a1 0:[b1 b2 b3] closed 49",
    "one bookie": "e1 w1 a1 0:[b2] closed 49",
    "two bookies lack each entry": "e4 w2 a2 0:[b1 b2 b3 b4] closed 19",
    "three bookies lack each entry": "e5 w2 a1 0:[b5 b4 b3 b2 b1] closed 50",
    "one entry": "e3 w2 a2 0:[b1 b2 b3] closed 0",
    "a bookie with no entry": "e5 w2 a2 0:[b1 b2 b3 b4 b5] closed 0",
    "several segments": "e3 w2 a2 0:[b1 b2 b3] 7:[b1 b4 b3] 8:[b5 b4 b3] 40:[b1 b2 b3] closed 44",
    "a bookie that left and came back": (
        "e3 w2 a2 0:[b1 b2 b3] 10:[b1 b4 b3] 20:[b1 b2 b3] closed 29"
    ),
    "an empty last segment": "e3 w2 a2 0:[b1 b2 b3] 30:[b1 b2 b4] closed 29",
    "a page of the index and one more": "e2 w2 a1 0:[b1 b3] closed 1025",
    "format 1": "e3 w2 0:[b1 b2 b3] 5:[b4 b2 b3] closed 9 v1",
    "format 1, two bookies lack each entry": "e4 w2 0:[b1 b2 b3 b4] closed 19 v1",
    "format 2": "e3 w2 a1 0:[b1 b2 b3] 5:[b4 b2 b3] closed 9 v2",
    "format 2, CRC32": "e4 w2 a2 0:[b1 b2 b3 b4] closed 19 v2 crc32",
    "format 3, CRC32": "e3 w2 a2 0:[b3 b2 b1] closed 9 crc32",
    "format 3, HMAC": "e3 w2 a2 0:[b3 b2 b1] closed 9 hmac",
    "format 3, no digest": "e3 w2 a2 0:[b3 b2 b1] closed 9 dummy",
}
LOSSES: dict[str, tuple[str, dict[str, str], dict[str, Any]]] = {
    "one entry of the second segment, in format 1": (
        "e3 w2 0:[b1 b2 b3] 5:[b4 b2 b3] closed 9 v1",
        {"b4": "6", "b2": "6"},
        {
            "kind": "ENTRY_WITHOUT_REPLICA",
            "segment": 5,
            "entries": [[6, 6]],
            "missing_on": {"b4": [[6, 6]], "b2": [[6, 6]]},
        },
    ),
    "all of the first segment on one bookie, in format 2": (
        "e3 w2 a1 0:[b1 b2 b3] 5:[b4 b2 b3] closed 9 v2",
        {"b1": "0-4"},
        {
            "kind": "ENTRY_BELOW_WRITE_QUORUM",
            "segment": 0,
            "entries": [[0, 0], [2, 3]],
            "missing_on": {"b1": [[0, 0], [2, 3]]},
        },
    ),
    "where write quorum and ensemble differ by two": (
        "e4 w2 a2 0:[b1 b2 b3 b4] closed 19",
        {"b2": "12-13"},
        {
            "kind": "ENTRY_BELOW_ACK_QUORUM",
            "segment": 0,
            "entries": [[12, 13]],
            "missing_on": {"b2": [[12, 13]]},
        },
    ),
    "the only copy": (
        "e3 w1 a1 0:[b1 b2 b3] closed 49",
        {"b3": "47"},
        {
            "kind": "ENTRY_WITHOUT_REPLICA",
            "segment": 0,
            "entries": [[47, 47]],
            "missing_on": {"b3": [[47, 47]]},
        },
    ),
    "the first entry": (
        "e3 w3 a2 0:[b1 b2 b3] closed 49",
        {"b1": "0"},
        {
            "kind": "ENTRY_BELOW_WRITE_QUORUM",
            "segment": 0,
            "entries": [[0, 0]],
            "missing_on": {"b1": [[0, 0]]},
        },
    ),
    "the last entry, HMAC, with a password": (
        "e3 w3 a3 0:[b1 b2 b3] closed 49 hmac",
        {"b2": "49"},
        {
            "kind": "ENTRY_BELOW_ACK_QUORUM",
            "segment": 0,
            "entries": [[49, 49]],
            "missing_on": {"b2": [[49, 49]]},
        },
    ),
    "every second entry": (
        "e2 w2 a1 0:[b1 b3] closed 8",
        {"b1": "1 3 5 7"},
        {
            "kind": "ENTRY_BELOW_WRITE_QUORUM",
            "segment": 0,
            "entries": [[1, 1], [3, 3], [5, 5], [7, 7]],
            "missing_on": {"b1": [[1, 1], [3, 3], [5, 5], [7, 7]]},
        },
    ),
    "one copy twice over": (
        "e3 w2 a2 0:[b1 b2 b1] closed 2",
        {},
        {"kind": "ENTRY_BELOW_ACK_QUORUM", "segment": 0, "entries": [[2, 2]], "missing_on": {}},
    ),
}
EXEMPT = {
    "open": ("e3 w2 a2 0:[b1 b2 b3] open", "open"),
    "open, several segments": ("e3 w2 a2 0:[b1 b2 b3] 5:[b1 b4 b3] open", "open"),
    "open, format 1": ("e3 w2 0:[b1 b2 b3] open v1", "open"),
    "open, format 2": ("e3 w2 a2 0:[b1 b2 b3] open v2", "open"),
    "in recovery": ("e3 w2 a2 0:[b1 b2 b3] in_recovery", "in_recovery"),
    "in recovery, format 2": ("e3 w2 a2 0:[b1 b2 b3] in_recovery v2", "in_recovery"),
    "empty": ("e3 w2 a2 0:[b1 b2 b3] closed -1", "empty"),
    "empty, format 1": ("e3 w2 0:[b1 b2 b3] closed -1 v1", "empty"),
    "marked": ("e3 w2 a2 0:[b1 b2 b3] closed 9", "marked_underreplicated"),
    "marked and open": ("e3 w2 a2 0:[b1 b2 b3] open", "marked_underreplicated"),
    "marked and empty": ("e3 w2 a2 0:[b1 b2 b3] closed -1", "marked_underreplicated"),
}
"""By name: metadata of ledgers that hold no entry on any bookie, and why that is not a finding."""
MARKED_WHOLE = "marked"
"""The one of them that has its entries: a mark excuses missing copies, but never that no copy is
left.
"""

CLIENT = {
    "client, striped": ((3, 2, 2, 20), {"digest": DigestType.CRC32C}),
    "client, two bookies lack each entry": (
        (4, 2, 2, 21),
        {"digest": DigestType.HMAC, "password": "secret"},
    ),
    "client, open": ((3, 2, 2, 5), {"close": False}),
}
_ids = count(FIRST)
IDS = {name: next(_ids) for name in (*SOUND, *LOSSES, *EXEMPT)}
PASSWORD = b"sesame"


@pytest.fixture(scope="module")
def by_client(shared_cluster: RealCluster) -> dict[str, int]:
    """Return the ledgers that BookKeeper's ordinary client wrote, by name."""
    return {
        name: shared_cluster.write_as_client(*shape, **how) for name, (shape, how) in CLIENT.items()
    }


@pytest.fixture(scope="module")
def outcome(
    shared_cluster: RealCluster, by_client: dict[str, int], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Outcome]:
    """Yield one audit of these ledgers, and of nothing else on the shared cluster."""
    cluster = shared_cluster
    for name, text in SOUND.items():
        _place(cluster, name, text, {})
    for name, (text, lose, _) in LOSSES.items():
        _place(cluster, name, text, lose)
    marked = [
        IDS[name] for name, (_, reason) in EXEMPT.items() if reason == "marked_underreplicated"
    ]
    for name, (text, _) in EXEMPT.items():
        metadata = cluster.ledger(text)
        cluster.add_ledger(IDS[name], metadata, metadata.format_version)
    cluster.spread(IDS[MARKED_WHOLE], cluster.ledger(EXEMPT[MARKED_WHOLE][0]))
    for ledger_id in marked:
        cluster.mark(ledger_id, ["b1"])
    yield accounted(
        audit(
            cluster,
            tmp_path_factory.mktemp("formats"),
            ledger_ids=[*IDS.values(), *by_client.values()],
        )
    )
    for ledger_id in marked:
        cluster.unmark(ledger_id)


def _place(cluster: RealCluster, name: str, text: str, lose: dict[str, str]) -> None:
    metadata = cluster.ledger(text)
    password = PASSWORD if metadata.digest_type is DigestType.HMAC else b""
    cluster.place(
        IDS[name], metadata, lose, format_version=metadata.format_version, password=password
    )


@pytest.mark.parametrize("name", SOUND)
def test_sound_whatever_its_shape(outcome: Outcome, name: str) -> None:
    """A ledger with every copy in its place is SOUND, whatever its format, quorums and segments."""
    assert outcome.standings(IDS[name]) == ["sound"]
    assert outcome.of(IDS[name]) == []


@pytest.mark.parametrize("name", LOSSES)
def test_loss_is_found_whatever_the_shape(outcome: Outcome, name: str) -> None:
    """Kind, segment, entries and bookies are exactly those of the removed copies."""
    expected = LOSSES[name][2]
    found = [one for one in outcome.of(IDS[name]) if one["family"] == "entry"]
    assert len(found) == 1, outcome.of(IDS[name])
    shown = {**found[0], "segment": found[0]["segment"]["first_entry_id"]}
    assert expected == {key: shown[key] for key in expected}
    assert outcome.standings(IDS[name]) == ["violated"]


def test_duplicate_bookie_stands_beside_the_copy_it_lacks(outcome: Outcome) -> None:
    """There are two families on one ledger: the ensemble that names a bookie twice, and the entry
    that lacks a copy because of it.
    """
    both = [Kind.ENTRY_BELOW_ACK_QUORUM.value, Kind.ENSEMBLE_DUPLICATE_BOOKIE.value]
    assert both == [found["kind"] for found in outcome.of(IDS["one copy twice over"])]


@pytest.mark.parametrize("name", EXEMPT)
def test_exempt_with_its_reason(outcome: Outcome, name: str) -> None:
    """A ledger that is not closed or has no entries is EXEMPT, though no bookie holds anything of
    it. So is a marked and complete one.
    """
    assert outcome.standings(IDS[name]) == [f"exempt: {EXEMPT[name][1]}"]
    assert outcome.of(IDS[name]) == []


def test_exemptions_are_counted_by_reason(outcome: Outcome) -> None:
    """Each reason has its number, zero included."""
    expected = {"deleted": 0, "marked_underreplicated": 3, "in_recovery": 2, "open": 5, "empty": 2}
    assert expected == outcome.summary["exempt"]


def test_what_the_ordinary_client_wrote(outcome: Outcome, by_client: dict[str, int]) -> None:
    """Closed ledgers of BookKeeper's own client are SOUND, also if two bookies lack each entry; the
    open one is open.
    """
    assert ["sound", "sound", "exempt: open"] == outcome.standings(*by_client.values())


def test_nothing_else_is_found(outcome: Outcome) -> None:
    """Only the ledgers that lost something have findings, and no bookie has one."""
    assert {IDS[name] for name in LOSSES} == {found["ledger_id"] for found in outcome.findings}


def test_single_ledgers_get_the_same_standings(
    shared_cluster: RealCluster, outcome: Outcome
) -> None:
    """`auditor ledger` agrees on every one of them."""
    ids = sorted(outcome.verdicts)
    assert outcome.standings(*ids) == audit_ledgers(shared_cluster, ids).standings(*ids)


@pytest.mark.parametrize("secret", [PASSWORD, b"secret"])
def test_no_password_is_written(outcome: Outcome, secret: bytes) -> None:
    """No file of the run, and no output, has a ledger's password."""
    assert outcome.run_dir is not None
    files = [path for path in outcome.run_dir.rglob("*") if path.is_file()]
    assert len(files) > 5
    assert [] == [path for path in files if secret in path.read_bytes()]
    assert secret.decode() not in outcome.stdout
