"""Bookies whose disks shrank since an earlier run, and what a run keeps of earlier runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from auditor.evidence.rows import bookie_row, table
from auditor.evidence.run_directory import Place, place
from auditor.evidence.schemas import BOOKIES
from auditor.findings.disks import (
    DIRECTORIES_NAMED_MAX,
    SHRINK_REMEMBERED_MS,
    judge_disks,
    keep_earlier_bookies,
    largest,
    read_earlier_bookies,
)
from auditor.model.cluster import BookieLook, BookieRecord, Registration
from auditor.model.facts import DirectoriesLost, ShrunkFacts, SizeLost
from auditor.model.finding import Finding, Kind

TWO, ONE = ("/data/1", "/data/2"), ("/data/1",)


def record(
    total: int | None = None,
    directories: tuple[str, ...] | None = None,
    look: int = 1,
    read_at_ms: int = 0,
    registration: Registration = Registration.WRITABLE,
    bookie: str = "b1",
) -> BookieRecord:
    free = None if total is None else total // 2
    return BookieRecord(
        bookie, look, read_at_ms, registration, "h", 1, total_bytes=total, free_bytes=free,
        cookie_directories=directories,
    )  # fmt: skip


def looks(*records: BookieRecord) -> list[BookieLook]:
    return [{one.bookie_id: one} for one in records]


@pytest.mark.parametrize(
    ("before", "now", "size"),
    [
        (1000, [979], SizeLost(979, 1000)),
        (1000, [980], None),
        (1000, [1000], None),
        (1000, [2000], None),
        (1000, [500, 600], SizeLost(600, 1000)),
        (1000, [500, 1000], None),
        (1000, [None, 500], SizeLost(500, 1000)),
        (1000, [500, None], SizeLost(500, 1000)),
        (1000, [None], None),
        (None, [500], None),
    ],
)
def test_a_smaller_size_is_found_beyond_the_tolerance(
    before: int | None, now: Sequence[int | None], size: SizeLost | None
) -> None:
    """At each look at which the bookie said it. What it did not say is unknown."""
    records = [record(total, look=look) for look, total in enumerate(now, start=1)]
    found = judge_disks(looks(*records), [record(before)])
    assert [size] * (size is not None) == [
        one.facts.size for one in found if isinstance(one.facts, ShrunkFacts)
    ]


@pytest.mark.parametrize(
    ("before", "now", "lost"),
    [
        (TWO, ONE, DirectoriesLost(1, 2, ("/data/2",))),
        (TWO, ("/mnt/1",), DirectoriesLost(1, 2, TWO)),
        (TWO, ("/mnt/1", "/mnt/2"), None),
        (ONE, TWO, None),
        (TWO, None, None),
        (None, ONE, None),
    ],
)
def test_a_cookie_with_fewer_directories_is_found(
    before: tuple[str, ...] | None, now: tuple[str, ...] | None, lost: DirectoriesLost | None
) -> None:
    """As many directories under other names are no loss, and neither is a cookie that cannot be
    read.
    """
    found = judge_disks(looks(record(None, now)), [record(None, before)])
    assert [lost] * (lost is not None) == [
        one.facts.directories for one in found if isinstance(one.facts, ShrunkFacts)
    ]


def test_the_finding_says_how_much_is_missing_and_since_when_at_most() -> None:
    """Per cent are rounded down. The time is that between both readings."""
    many = tuple(f"/data/{n}" for n in range(DIRECTORIES_NAMED_MAX + 2))
    now = record(670, many[:1], read_at_ms=90)
    (found,) = judge_disks(looks(now), [record(1000, many, read_at_ms=40)])
    gone = DirectoriesLost(1, len(many), many[1 : DIRECTORIES_NAMED_MAX + 1])
    facts = ShrunkFacts(
        "writable", "h:1", SizeLost(670, 1000), gone, 33, DIRECTORIES_NAMED_MAX + 1, 50
    )
    assert Finding(Kind.BOOKIE_DISK_SHRANK, facts, bookie_id="b1") == found


def test_bookies_that_are_gone_new_or_in_maintenance_have_no_finding() -> None:
    """A bookie that is not registered has its own kinds."""
    before = [record(1000)]
    assert judge_disks(looks(record(10)), before)
    assert [] == judge_disks(looks(record(10)), before, {"b1"})
    assert [] == judge_disks(
        looks(record(10), record(10, look=2, registration=Registration.NONE)), before
    )
    assert [] == judge_disks(looks(record(10, bookie="b2")), before)
    assert [] == judge_disks([], before)


@pytest.mark.parametrize(
    ("newest", "kept", "chosen"),
    [
        (record(100), record(200, look=9), 9),
        (record(200), record(100, look=9), 1),
        (record(100), record(100, look=9), 1),
        (record(100, ONE), record(100, TWO, look=9), 9),
        (record(None), record(100, look=9), 9),
    ],
)
def test_the_record_with_the_largest_disks_is_kept(
    newest: BookieRecord, kept: BookieRecord, chosen: int
) -> None:
    """Of two equal ones the newer."""
    assert [chosen] == [one.look for one in largest([newest], [kept])]


def test_a_bookie_of_which_nothing_is_known_is_not_kept() -> None:
    """There is nothing to compare with."""
    assert [] == largest([record(None)])
    assert [2] == [one.look for one in largest([record(5, read_at_ms=1), record(5, None, 2, 2)])]


@pytest.fixture
def earlier(tmp_path: Path) -> Place:
    """Return a run that saw b1 with 100 bytes at time 0."""
    run = place(str(tmp_path / "one"))
    run.write_table("evidence/bookies", table(BOOKIES, [bookie_row(record(100))]), "all")
    return run


@pytest.mark.parametrize(
    ("now_ms", "size"), [(SHRINK_REMEMBERED_MS - 1, 100), (SHRINK_REMEMBERED_MS, 40)]
)
def test_a_larger_size_is_passed_on_for_a_week(
    tmp_path: Path, earlier: Place, now_ms: int, size: int
) -> None:
    """From run to run. Then the new size counts."""
    second, third = place(str(tmp_path / "two")), place(str(tmp_path / "three"))
    keep_earlier_bookies(second, earlier, 50)
    assert [record(100)] == read_earlier_bookies(second)
    smaller = record(40, read_at_ms=50)
    second.write_table("evidence/bookies", table(BOOKIES, [bookie_row(smaller)]), "all")
    keep_earlier_bookies(third, second, now_ms)
    assert [size] == [one.total_bytes for one in read_earlier_bookies(third)]


def test_a_run_without_an_earlier_one_keeps_nothing(earlier: Place) -> None:
    """It compares with nothing."""
    assert [] == read_earlier_bookies(earlier)
