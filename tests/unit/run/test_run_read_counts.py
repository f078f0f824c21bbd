"""How many znodes a run read: from the rows of tasks and of the driver, each once."""

from __future__ import annotations

from pathlib import Path

import pytest

from auditor.evidence.rows import table
from auditor.evidence.run_directory import Place, place
from auditor.evidence.schemas import LISTING, READS
from auditor.run.request_counts import (
    add_kept_counts,
    count_silent_parents,
    kept_reads,
    write_read_counts,
    znodes_read,
)
from auditor.stages.reading import COUNTED_LISTING, with_counts
from auditor.zookeeper.ledgers import Listing, ListingPartition
from auditor.zookeeper.session import ReadCounts


@pytest.fixture
def run(tmp_path: Path) -> Place:
    return place(str(tmp_path / "run"))


def test_a_tasks_counts_stand_in_its_last_row() -> None:
    """They are taken when the last row is written, after everything was read. A task without rows
    writes no counts.
    """
    counts = ReadCounts()

    def rows():
        for number in range(3):
            counts.add(ReadCounts(reads=2, reads_ok=1))
            yield (number,)

    assert [(0, None, None), (1, None, None), (2, 6, 3)] == list(with_counts(rows(), counts))
    assert [] == list(with_counts([], counts))


def test_counts_of_tasks_and_of_the_driver_add_up(run: Place) -> None:
    """Tables whose tasks read nothing from ZooKeeper, or that an older version wrote, add
    nothing.
    """
    run.write_table("evidence/listing", table(COUNTED_LISTING, [(1, None, None), (2, 5, 1)]), "one")
    run.write_table("evidence/listing", table(COUNTED_LISTING, [(3, 7, 0)]), "other")
    run.write_table("evidence/reads", READS.empty_table(), "none")
    write_read_counts(run, ReadCounts(reads=100, reads_ok=98))
    assert (112, 3) == znodes_read(run)
    assert [1, 2, 3] == sorted(run.read_table("evidence/listing", LISTING)["ledger_id"].to_pylist())


def test_evidence_without_counts_says_so_with_a_zero(run: Place) -> None:
    """An older version wrote it, or the run died."""
    run.write_table("evidence/listing", table(LISTING, [(1,)]), "one")
    assert (0, 0) == znodes_read(run)


@pytest.mark.parametrize(
    ("silent", "portions"), [(2, (("/a", "/b"), ("/c", "/d"))), (0, (("/a",), ("/b",)))]
)
def test_parents_without_ledgers_are_counted_by_the_driver(
    run: Place, silent: int, portions: tuple[tuple[str, ...], ...]
):
    """A task that found no ledger has no row for its counts."""
    run.write_table("evidence/listing", table(COUNTED_LISTING, [(1, 2, 0)]), "one")
    counts = ReadCounts()
    listing = Listing(tuple(map(ListingPartition, portions)), 0)
    count_silent_parents(run, "evidence/listing", listing, counts)
    assert (silent, silent) == (counts.reads, counts.reads_ok)


def test_what_the_journal_keeps_is_added_once() -> None:
    """The journal keeps the counts of earlier processes of the run."""
    counts = ReadCounts(reads=3, reads_ok=3)
    add_kept_counts(counts, kept_reads(ReadCounts(reads=10, reads_ok=9)))
    assert (13, 12, 1) == (counts.reads, counts.reads_ok, counts.reads_failed)
    add_kept_counts(counts, {})
    assert 13 == counts.reads
