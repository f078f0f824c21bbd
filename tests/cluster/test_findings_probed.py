"""DbLedgerStorage, Pulsar's default, cannot list: its ledgers are judged by reading entries, on
real bookies and in the sandbox.

There are one cluster, one run and its replay for all ledgers, beside a run without probes and
`auditor ledger`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from support.audits import Outcome, accounted, audit, audit_ledgers
from support.either_cluster import EITHER, Cluster, cluster_of

from auditor.evidence.run_directory import place
from auditor.evidence.schemas import READS
from auditor.model.availability import HIGHEST_STORED
from auditor.model.finding import Kind
from auditor.model.ledger import DigestType, LedgerMetadata
from auditor.sandbox.cluster import SandboxCluster

DB = "DbLedgerStorage"
PASSWORD = b"it's a secret"
PROBES = 3
FIRST_ID = 430_000


class Case(NamedTuple):
    """A ledger, what its bookies lack or have wrong, and the expected kind and entries."""

    text: str
    kind: Kind | None = None
    ranges: tuple[tuple[int, int], ...] = ()
    lose: dict[str, str] = {}
    corrupt: tuple[tuple[str, int], ...] = ()
    digest: DigestType = DigestType.CRC32C
    password: bytes = b""


TWO, ACK_ONE = "e2 w2 a2 0:[b1 b2] closed 9", "e2 w2 a1 0:[b1 b2] closed 9"
CHANGED = "e2 w2 a1 0:[b1 b2] 10:[b1 b3] closed 19"
LOST, BELOW_ACK, BELOW_WRITE = (
    Kind.ENTRY_WITHOUT_REPLICA,
    Kind.ENTRY_BELOW_ACK_QUORUM,
    Kind.ENTRY_BELOW_WRITE_QUORUM,
)

CASES = {
    "sound, striped": Case("e3 w2 a2 0:[b1 b2 b3] closed 29"),
    "sound, after ensemble changes": Case(
        "e3 w3 a2 0:[b1 b2 b3] 7:[b1 b4 b3] 12:[b2 b4 b3] closed 19"
    ),
    "sound, one entry": Case("e1 w1 a1 0:[b1] closed 0"),
    **{
        f"sound, {digest.name}": Case(TWO, digest=digest, password=PASSWORD)
        for digest in DigestType
    },
    "the first entry is lost": Case(TWO, LOST, ((0, 0),), {"b1": "0", "b2": "0"}),
    "the last entry is lost on one bookie": Case(TWO, BELOW_ACK, ((9, 9),), {"b2": "9"}),
    "an entry before an ensemble change": Case(CHANGED, BELOW_WRITE, ((9, 9),), {"b2": "9"}),
    "an entry behind an ensemble change": Case(
        CHANGED, LOST, ((10, 10),), {"b1": "10", "b3": "10"}
    ),
    "the ledger is unknown on one bookie": Case(ACK_ONE, BELOW_WRITE, ((0, 9),), {"b1": "0-9"}),
    "the ledger is unknown on all": Case(TWO, LOST, ((0, 9),), {"b1": "0-9", "b2": "0-9"}),
    "a bookie was wiped": Case("e1 w1 a1 0:[b4] closed 19", LOST, ((0, 19),)),
    "the same entry is lost on both, and more on one": Case(
        TWO, LOST, ((9, 9),), {"b1": "9", "b2": "0 9"}
    ),
    **{
        f"a corrupt copy, {digest.name}": Case(
            ACK_ONE, Kind.ENTRY_CORRUPT, ((9, 9),), {"b2": "9"}, (("b2", 9),), digest, PASSWORD
        )
        for digest in (DigestType.CRC32, DigestType.HMAC, DigestType.CRC32C)
    },
    "a corrupt copy that no digest tells": Case(
        ACK_ONE, None, (), {"b2": "9"}, (("b2", 9),), DigestType.DUMMY, PASSWORD
    ),
}
"""The inner entries are complete: a sample finds such losses only by chance."""

INNER = "an inner entry is lost"
"""Found only when every entry is probed."""
IDS = {name: FIRST_ID + number for number, name in enumerate((*CASES, INNER))}


@pytest.fixture(scope="module", params=EITHER)
def cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cluster]:
    """Yield four bookies with DbLedgerStorage and every case; b4 is wiped at the end, except for a
    ledger that begins afterwards.
    """
    workdir = tmp_path_factory.mktemp("probed")
    with cluster_of(request.param, workdir, 4, DB) as cluster:
        put(cluster, "a bookie was wiped", CASES["a bookie was wiped"])
        wipe(cluster, "b4")
        for name, case in CASES.items():
            if name != "a bookie was wiped":
                put(cluster, name, case)
        put(cluster, INNER, Case("e1 w1 a1 0:[b3] closed 39", lose={"b3": "17"}))
        yield cluster


def metadata_of(cluster: Cluster, case: Case) -> LedgerMetadata:
    return replace(cluster.ledger(case.text), digest_type=case.digest)


def put(cluster: Cluster, name: str, case: Case) -> None:
    """Write the ledger as its case says. A bookie that lacks all of it does not know it."""
    ledger_id = IDS[name]
    cluster.place(ledger_id, metadata_of(cluster, case), case.lose, password=case.password)
    for bookie, lost in case.lose.items():
        if lost == "0-9" and isinstance(cluster, SandboxCluster):
            cluster.bookie(bookie).forget(ledger_id)
    for bookie, entry in case.corrupt:
        cluster.corrupt(bookie, ledger_id, entry)


def wipe(cluster: Cluster, bookie: str) -> None:
    if isinstance(cluster, SandboxCluster):
        cluster.bookie(bookie).wipe()
    else:
        cluster.wipe(bookie)


@pytest.fixture(scope="module")
def outcome(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    """Return one run over the whole cluster with the default number of probes."""
    return accounted(
        audit(cluster, tmp_path_factory.mktemp("run"), probe_entries=PROBES, probe_budget=0)
    )


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.kind is None])
def test_a_sound_ledger_is_sound_by_its_probes(outcome: Outcome, name: str) -> None:
    """Every digest type is verified, HMAC with the password from the metadata; ends and a sample
    were read and found.
    """
    assert ["sound"] == outcome.standings(IDS[name])
    assert [] == outcome.of(IDS[name])


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.kind is not None])
def test_what_the_probes_show_is_found(outcome: Outcome, name: str) -> None:
    """The finding has the right kind, the entries read in vain, and all entries of a ledger that a
    bookie does not know.
    """
    found = outcome.one(IDS[name])
    assert (CASES[name].kind, CASES[name].ranges) == (
        Kind(found["kind"]),
        tuple(map(tuple, found["entries"])),
    )
    assert "probed" == found["assurance"]


def test_the_worst_entry_was_read_on_every_bookie_that_lacks_it(outcome: Outcome) -> None:
    """This includes a bookie for which it was not a probe: the first of the equally worst entries
    is named.
    """
    read = {
        (row["ledger_id"], row["bookie_id"], row["entry_id"]): row["status"]
        for row in reads_of(outcome)
    }
    checked = 0
    for name in (
        name for name, case in CASES.items() if case.kind in (LOST, BELOW_ACK, BELOW_WRITE)
    ):
        found = outcome.one(IDS[name])
        worst = found["entries"][0][0]
        for bookie, ranges in found["missing_on"].items():
            if any(first <= worst <= last for first, last in ranges):
                assert read[IDS[name], bookie, worst] in ("no_entry", "no_ledger"), name
                checked += 1
    assert checked >= 10


def test_every_entry_is_only_said_where_every_copy_was_listed(
    cluster: Cluster, outcome: Outcome, tmp_path: Path
) -> None:
    """Otherwise the headline counts what was read, and a ratio gives its share of the copies."""
    sound = [IDS[name] for name, case in CASES.items() if case.kind is None]
    settings = {"probe_entries": PROBES, "probe_budget": 0}
    said = accounted(audit(cluster, tmp_path, ledger_ids=sound, **settings))
    copies = said.summary["copies"]
    assert copies["assumed"] > 0 == copies["listed"]
    assert copies["expected"] == copies["read"] + copies["assumed"]
    assert round(copies["read"] / copies["expected"], 6) == said.summary["verified_ratio"]
    headline = " ".join(said.stdout.split("\n\n")[0].split())
    assert f"nothing wrong in the {copies['read']} of {copies['expected']} copies" in headline
    assert "every acknowledged entry" not in headline
    assert outcome.summary["verified_ratio"] < 1


def reads_of(outcome: Outcome) -> list[dict[str, Any]]:
    """Return every entry read in that run."""
    assert outcome.run_dir is not None
    return place(str(outcome.run_dir)).read_table("evidence/reads", READS).to_pylist()


def test_a_wrong_digest_is_read_at_two_looks_before_it_accuses(outcome: Outcome) -> None:
    """The same copy is read again at the second look, by its number and as the highest one."""
    rows = [row for row in reads_of(outcome) if row["status"] == "corrupt"]
    corrupt = {(row["ledger_id"], row["bookie_id"], row["entry_id"], row["look"]) for row in rows}
    names = [name for name, case in CASES.items() if case.kind is Kind.ENTRY_CORRUPT]
    asked = [(entry, look) for entry in (HIGHEST_STORED, 9) for look in (1, 2)]
    assert {(IDS[name], "b2", *one) for name in names for one in asked} == corrupt
    assert [Kind.ENTRY_CORRUPT.value] * 3 == [outcome.one(IDS[name])["kind"] for name in names]


def test_what_was_not_sampled_is_found_by_probing_more(cluster: Cluster) -> None:
    """As many probes as entries are as good as a list."""
    found = audit_ledgers(cluster, [IDS[INNER]], probe_entries=40).one(IDS[INNER])
    assert (LOST, [[17, 17]]) == (Kind(found["kind"]), found["entries"])


def test_auditor_ledger_says_the_same(cluster: Cluster, outcome: Outcome) -> None:
    """The lost ends, the unknown ledgers and the corrupt copies do not depend on the sample."""
    names = [name for name in CASES if name != "sound, striped"]
    alone = audit_ledgers(cluster, [IDS[name] for name in names], probe_entries=PROBES)
    for name in names:
        assert outcome.standings(IDS[name]) == alone.standings(IDS[name]), name
        assert [found["kind"] for found in outcome.of(IDS[name])] == [
            found["kind"] for found in alone.of(IDS[name])
        ], name


def test_without_probes_nothing_is_known(cluster: Cluster) -> None:
    """The ledgers are INDETERMINATE(bookie_unsupported), unless a bookie said ENOLEDGER."""
    held = [IDS[name] for name, case in CASES.items() if case.kind is None]
    without = audit_ledgers(cluster, held, probe_entries=0)
    assert ["indeterminate: bookie_unsupported"] * len(held) == without.standings(*held)
    assert [] == without.findings
