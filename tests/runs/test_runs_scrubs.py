"""Laws of whole runs about entries that scrubs of listers name: reads on the bookie decide."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from support.audits import FIRST_LOOK_ON_SPARK, Outcome, accounted, audit
from support.listers import scrubs_of_sandbox

from auditor.model.finding import Kind
from auditor.model.scrub import Candidate, ScrubPass, ScrubReport, Suspicion
from auditor.sandbox.cluster import SandboxCluster

ROTTEN, SOUND, UNKNOWN, OPEN = 7, 8, 9, 10
ENTRIES, HIT = 5_000, 3_210
PASS = ScrubPass(1_000, 2_000, logs=1, entries=ENTRIES, verified=ENTRIES - 1, failed=1, suspected=1)

IN_PROCESS = pytest.param({}, id="in this process")
ON_SPARK = pytest.param(
    FIRST_LOOK_ON_SPARK, id="on Spark", marks=[pytest.mark.spark, pytest.mark.long]
)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SandboxCluster]:
    """Yield four bookies. One of three copies of one entry of a large ledger is rotten."""
    with SandboxCluster(tmp_path_factory.mktemp("cluster"), bookies=4, named=True) as made:
        for ledger in (ROTTEN, SOUND):
            made.place(ledger, made.ledger(f"e3 w2 a2 0:[b1 b2 b3] closed {ENTRIES - 1}"))
        made.place(OPEN, made.ledger("e3 w2 a2 0:[b1 b2 b3] open"), written=9)
        made.corrupt("b2", ROTTEN, HIT)
        yield made


def scrubbed(
    cluster: SandboxCluster,
    workdir: Path,
    named: Mapping[str, list[tuple[int, int]]],
    settings: Mapping[str, str],
) -> Outcome:
    """Return a run beside scrubs that name these entries, without any other spot read."""
    reports = {
        bookie: ScrubReport(
            3_000, PASS, None, tuple(Candidate(*one, Suspicion.DIGEST) for one in entries)
        )
        for bookie, entries in named.items()
    }
    (workdir / "scrubs").mkdir()
    with scrubs_of_sandbox(cluster, workdir / "scrubs", reports) as listers:
        return accounted(
            audit(cluster, workdir / "out", lister_map=str(listers), spot_reads="0", **settings)
        )


def test_a_rotten_copy_that_nobody_names_is_not_seen(
    cluster: SandboxCluster, tmp_path: Path
) -> None:
    """It is one of thousands, and every list is complete."""
    outcome = scrubbed(cluster, tmp_path, {"b2": []}, {})
    assert ([], 0) == (outcome.findings, outcome.summary["requests"]["scrub_reads"])


@pytest.mark.parametrize("settings", [IN_PROCESS, ON_SPARK])
def test_a_rotten_copy_that_a_scrub_names_is_found(
    cluster: SandboxCluster, tmp_path: Path, settings: Mapping[str, str]
) -> None:
    """The ledger was sound by its lists, and is judged again by what was read."""
    outcome = scrubbed(cluster, tmp_path, {"b2": [(ROTTEN, HIT), (SOUND, HIT)]}, settings)
    on_bookie, on_ledger = outcome.one("b2"), outcome.one(ROTTEN)
    assert Kind.BOOKIE_UNREADABLE_ENTRIES.value == on_bookie["kind"]
    assert ([[ROTTEN, HIT]], None) == (on_bookie["facts"]["some"], on_bookie["facts"]["share_min"])
    assert Kind.ENTRY_CORRUPT.value == on_ledger["kind"]
    assert ["violated: answer_invalid", "sound"] == outcome.standings(ROTTEN, SOUND)
    assert [] == outcome.summary["listers"]["silent"]


def test_a_copy_that_a_scrub_named_and_that_comes_whole_accuses_nobody(
    cluster: SandboxCluster, tmp_path: Path
) -> None:
    """The reads are counted, and nothing else is said."""
    outcome = scrubbed(cluster, tmp_path, {"b2": [(SOUND, HIT)], "b1": [(SOUND, 0)]}, {})
    assert ([], 2) == (outcome.findings, outcome.summary["requests"]["scrub_reads"])
    assert ["sound"] == outcome.standings(SOUND)


@pytest.mark.parametrize("settings", [IN_PROCESS, ON_SPARK])
def test_what_the_bookie_need_not_hold_is_not_read(
    cluster: SandboxCluster, tmp_path: Path, settings: Mapping[str, str]
) -> None:
    """Deleted ledgers, entries of other bookies, above the end, and of a ledger that is open. What
    is named twice is read once.
    """
    named = [(UNKNOWN, 1), (SOUND, 1), (SOUND, ENTRIES), (OPEN, 1), (SOUND, 2), (SOUND, 2)]
    outcome = scrubbed(cluster, tmp_path, {"b1": named, "b4": [(SOUND, 0)]}, settings)
    assert ([], 1) == (outcome.findings, outcome.summary["requests"]["scrub_reads"])
