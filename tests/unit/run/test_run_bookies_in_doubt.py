"""Which bookies are read more densely after the first look."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import cast

import pytest

from auditor.evidence.rows import ledger_row, read_row, table
from auditor.evidence.run_directory import Place, place
from auditor.evidence.schemas import LEDGERS, READS
from auditor.first_checker.circle import NO_ARC, WHOLE
from auditor.first_checker.spot_reads import Density
from auditor.model.availability import EntryRead, ReadStatus
from auditor.model.evidence import Terms
from auditor.model.ledger import LedgerRecord, RecordStatus, ZnodeStamp
from auditor.run.judging_rounds import DoubtSearch
from auditor.sandbox.cluster import ledger
from auditor.zookeeper.metadata_store import MetadataStore

KEPT, DELETED = 7, 8
METADATA = ledger("e3 w3 a2 0:[b1 b2 b3] closed 9")
TERMS = Terms(0, 0, 16, 3, spot_reads=5, doubt_reads=100)


@dataclass
class Znodes:
    """A store in which some ledgers are gone by now."""

    gone: Sequence[int] = (DELETED,)
    asked: list[int] = field(default_factory=list)

    def sync(self) -> None:
        """Nothing to wait for."""

    def read_ledgers(
        self, ids: Sequence[int], look: int, now_ms: Callable[[], int], *, with_marks: bool
    ) -> Iterator[LedgerRecord]:
        assert not with_marks
        self.asked += ids
        for one in ids:
            found = record(one, look)
            yield (
                replace(found, status=RecordStatus.GONE, stamp=None) if one in self.gone else found
            )


def record(ledger_id: int, look: int = 1) -> LedgerRecord:
    stamp = ZnodeStamp(ledger_id, 0, 0, 0)
    return LedgerRecord(ledger_id, look, 0, RecordStatus.FOUND, stamp, METADATA)


def read(
    bookie: str,
    ledger_id: int,
    status: ReadStatus,
    *,
    is_spot: bool = True,
    is_search: bool = False,
) -> EntryRead:
    return EntryRead(bookie, ledger_id, 0, 1, 0, status, is_spot=is_spot, is_search=is_search)


@pytest.fixture
def run(tmp_path: Path) -> Place:
    """Return a run that read the metadata of two ledgers."""
    made = place(str(tmp_path))
    rows = [ledger_row(record(one)) for one in (KEPT, DELETED)]
    made.write_table("evidence/ledgers", table(LEDGERS, rows), "look-1")
    return made


def found(
    run: Place, *reads: EntryRead, terms: Terms = TERMS, store: Znodes | None = None
) -> dict[str, Density]:
    """Return the density for each bookie in doubt; b1, b2 and b3 gave lists."""
    run.write_table("evidence/reads", table(READS, map(read_row, reads)), "reads")
    search = DoubtSearch(run, cast(MetadataStore, store or Znodes()), terms)
    result = search.densities({"b1", "b2", "b3"}, [])
    tests = search.tests_of(result)
    return {} if tests is None else dict(tests.bookies)


@pytest.mark.parametrize(
    "status",
    [ReadStatus.FAILED, ReadStatus.CORRUPT, ReadStatus.NO_ENTRY, ReadStatus.NO_LEDGER],
    ids=str,
)
def test_one_refuted_list_is_enough(run: Place, status: ReadStatus) -> None:
    """All that the bookie should hold is read if that is allowed: ten entries a ledger."""
    assert {"b1": Density(WHOLE, 1)} == found(run, read("b1", KEPT, status))


@pytest.mark.parametrize(
    "one",
    [
        read("b1", KEPT, ReadStatus.PRESENT),
        read("b1", KEPT, ReadStatus.SILENT),
        read("b1", KEPT, ReadStatus.REFUSED),
        read("b1", KEPT, ReadStatus.NO_LEDGER, is_spot=False, is_search=True),
        read("b4", KEPT, ReadStatus.FAILED),
        read("b1", DELETED, ReadStatus.NO_LEDGER),
    ],
    ids=["sent", "silent", "refused", "a search", "a bookie that cannot list", "a deleted ledger"],
)
def test_nothing_else_raises_doubt(run: Place, one: EntryRead) -> None:
    """Nor does a ledger that was deleted after its metadata was read."""
    assert {} == found(run, one)


def test_no_metadata_is_read_where_nothing_was_refuted(run: Place) -> None:
    """A healthy run costs ZooKeeper nothing."""
    store = Znodes()
    found(run, read("b1", KEPT, ReadStatus.PRESENT), store=store)
    assert [] == store.asked


@pytest.mark.parametrize("off", [{"spot_reads": 0}, {"doubt_reads": 0}], ids=str)
def test_no_bookie_is_in_doubt_where_the_reads_are_off(run: Place, off: dict[str, int]) -> None:
    """Each of the two settings switches them off."""
    terms = replace(TERMS, **off)
    assert {} == found(run, read("b1", KEPT, ReadStatus.FAILED), terms=terms)


def test_half_of_the_reads_are_for_the_ends_of_segments() -> None:
    """All ends are read if they fit, and then the others get the rest."""
    assert Density(WHOLE, 1) == Density.within(100, 60, 40)
    few = Density.within(1_000, 10**6, 10**5)
    assert few.ends_step > 1 and few.arc.length < WHOLE.length
    assert Density.within(1_000, 10**6, 40).arc.length >= few.arc.length
    assert Density(NO_ARC, 0) == Density.within(0, 10, 2)
