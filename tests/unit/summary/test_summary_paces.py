"""The summary names the bookies that were asked more slowly than the limits allow."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from auditor.evidence.rows import answer_row, greeting_row, pace_cells, read_row, table
from auditor.evidence.run_directory import Place, place
from auditor.evidence.schemas import ANSWERS, READS, with_pace
from auditor.model.availability import (
    Answer,
    AnswerStatus,
    EntryRead,
    Greeting,
    LanePace,
    ReadStatus,
)
from auditor.model.codec import encode
from auditor.run.request_counts import count_requests
from auditor.summary.costs import BOOKIES_NAMED_MAX

FULL = LanePace(64, 2_000.0, is_low=False)


@pytest.fixture
def run(tmp_path: Path) -> Place:
    return place(str(tmp_path / "run"))


def greeting_cells(bookie: str, pace: LanePace, look: int = 1, at_ms: int = 0) -> tuple[Any, ...]:
    return (*greeting_row(bookie, look, at_ms, Greeting.ANSWERED, ""), pace_cells(pace))


def read_cells(bookie: str, pace: LanePace | None, at_ms: int = 0) -> tuple[Any, ...]:
    row = read_row(EntryRead(bookie, 7, 0, 1, at_ms, ReadStatus.PRESENT))
    return (*row, None if pace is None else pace_cells(pace))


def write(run: Place, answers: list[Any], reads: list[Any]) -> None:
    run.write_table("evidence/answers", table(with_pace(ANSWERS), answers), "all")
    run.write_table("evidence/reads", table(with_pace(READS), reads), "all")


def slow(
    bookie: str, inflight: int, rate: float, settled: tuple[int, float] | None = None
) -> dict[str, Any]:
    """Return what is said of a bookie. By default its conversation ended at the lowest pace."""
    end = settled or (inflight, rate)
    return {
        "bookie_id": bookie,
        "inflight": inflight,
        "requests_per_second": rate,
        "settled": {"inflight": end[0], "requests_per_second": end[1]},
    }


def grown(to: tuple[int, float], since: tuple[int, float]) -> LanePace:
    """Return a pace that grew from a lower one, to the limits or not."""
    return LanePace(*to, to < (64, 2_000.0), LanePace(*since, is_low=True))


def test_each_bookie_is_named_with_the_lowest_pace_of_its_conversations(run: Place) -> None:
    """Lists and reads both count. A bookie at the limits and a row without a pace are left out."""
    listed = (*answer_row(Answer("b4", 7, 1, 0, AnswerStatus.HELD)), None)
    write(
        run,
        [
            listed,
            greeting_cells("b1", LanePace(16, 500.04, is_low=True)),
            greeting_cells("b1", LanePace(8, 900.0, is_low=True), look=2),
            greeting_cells("b2", FULL),
            greeting_cells("b3", LanePace(64, 0.0, is_low=False)),
        ],
        [
            read_cells("b1", None),
            read_cells("b1", FULL),
            read_cells("b2", LanePace(8, 250.04, is_low=True)),
        ],
    )
    slowest = [slow("b2", 8, 250.0), slow("b1", 8, 900.0)]
    found = encode(count_requests(run).paces)
    assert {"bookies": 2, "slowest": slowest} == found
    assert all(isinstance(one["requests_per_second"], float) for one in found["slowest"])


@pytest.mark.parametrize("order", [1, -1])
def test_a_bookie_that_recovered_is_named_with_what_it_settled_at(run: Place, order: int) -> None:
    """Also if it was asked as the limits allow in the end. What counts is the end of the
    conversation in which it was asked least, or of the last of these.
    """
    answers = [
        greeting_cells("b1", grown((64, 2_000.0), since=(8, 250.04))),
        greeting_cells("b1", FULL, look=2),
        greeting_cells("b2", grown((24, 750.06), since=(16, 500.0)), at_ms=5),
        greeting_cells("b2", grown((32, 1_000.0), since=(16, 500.0)), at_ms=6),
        greeting_cells("b3", grown((36, 1_125.0), since=(32, 1_000.0)), at_ms=9),
        greeting_cells("b3", grown((40, 1_250.0), since=(32, 1_000.0)), look=2, at_ms=8),
        greeting_cells("b3", grown((50, 1_500.0), since=(33, 1_031.25)), look=3),
    ][::order]
    reads = [read_cells("b2", LanePace(16, 500.0, is_low=True), at_ms=4)]
    write(run, answers, reads)
    assert {
        "bookies": 3,
        "slowest": [
            slow("b1", 8, 250.0, (64, 2_000.0)),
            slow("b2", 16, 500.0, (32, 1_000.0)),
            slow("b3", 32, 1_000.0, (40, 1_250.0)),
        ],
    } == encode(count_requests(run).paces)


@pytest.mark.parametrize("order", [1, -1])
def test_the_lowest_pace_is_the_fewest_requests_at_once(run: Place, order: int) -> None:
    """The look and the rate do not matter."""
    paces = [LanePace(32, 1_000.0, is_low=True), LanePace(8, 100.25, is_low=True),
             LanePace(16, 50.0, is_low=True)][::order]  # fmt: skip
    write(run, [greeting_cells("b1", pace, look) for look, pace in enumerate(paces, 1)], [])
    assert [slow("b1", 8, 100.2)] == encode(count_requests(run).paces)["slowest"]


def test_bookies_are_named_up_to_a_bound_the_slowest_first(run: Place) -> None:
    """All are counted. Bookies with equal paces are sorted by id."""
    many = BOOKIES_NAMED_MAX + 2
    rows = [
        greeting_cells(f"b{n:02}", LanePace(32 - n // 2, 1_000.0, is_low=True), at_ms=n)
        for n in range(many)
    ]
    write(run, rows[::-1], [])
    found = encode(count_requests(run).paces)
    assert many == found["bookies"]
    order = sorted(range(many), key=lambda n: (32 - n // 2, n))[:BOOKIES_NAMED_MAX]
    assert [slow(f"b{n:02}", 32 - n // 2, 1_000.0) for n in order] == found["slowest"]


def test_runs_that_wrote_no_pace_have_none(run: Place) -> None:
    """Their tables lack the column."""
    answers = [greeting_row("b1", 1, 0, Greeting.ANSWERED, "")]
    run.write_table("evidence/answers", table(ANSWERS, answers), "all")
    run.write_table("evidence/reads", table(READS, []), "all")
    assert {"bookies": 0, "slowest": []} == encode(count_requests(run).paces)
