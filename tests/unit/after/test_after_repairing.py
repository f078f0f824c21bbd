"""How fast marked ledgers are repaired, from the marks of two moments."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from support import report_stories
from support.counted_memory import counted_memory

from auditor.after.repairing import (
    MarkedLedgers,
    MarksSince,
    marks_since,
    marks_since_earlier_run,
    read_marked,
    repair_json,
    repair_sentences,
)
from auditor.evidence.run_directory import place
from auditor.evidence.schemas import LEDGERS
from auditor.model.cluster import ClusterFacts
from auditor.model.evidence import Terms
from auditor.summary.about import About

EARLIER, LATER = "run-20260101T030000Z-000001", "run-20260102T030000Z-000002"
MARK = {"created_ms": 1, "missing_replicas": ["b1"]}


def marked(ledgers: Iterable[int], those: Iterable[int]) -> MarkedLedgers:
    ids, marks = (np.array(sorted(some), np.int64) for some in (ledgers, those))
    return MarkedLedgers(ids, marks)


def test_a_mark_that_went_is_a_repair_unless_its_ledger_was_deleted():
    """Of four ledgers one is still marked, one was deleted and two were repaired in two hours."""
    found = marks_since("r", 7200, marked(range(5), [1, 2, 3, 4]), marked([0, 1, 2, 3, 7], [1, 7]))
    assert MarksSince("r", 7200, 4, 2, 2, 1) == found
    assert 1.0 == found.per_hour == repair_json(found)["per_hour"]


@pytest.mark.parametrize(
    ("marks", "says"),
    [
        (None, "No earlier run is there to compare: no progress of the repair of marks is known."),
        (MarksSince("r", 7200, 0, 0, 0, 0), ""),
        (
            MarksSince("r", 7200, 4, 2, 2, 0),
            "2 ledgers are marked under-replicated. Repaired since run r: 2 of 4 ledgers, 1.0 an"
            " hour; the others need 2 h at that rate.",
        ),
        (
            MarksSince("r", 3600, 3, 0, 3, 0),
            "0 ledgers are marked under-replicated. Repaired since run r: 3 of 3 ledgers, 3.0 an"
            " hour.",
        ),
        (
            MarksSince("r", 7200, 1, 2, 0, 1),
            "2 ledgers are marked under-replicated. Of 1 ledger that was marked in run r, none has"
            " been repaired since: no progress is known. Marked since then: 1 ledger.",
        ),
        (
            MarksSince("r", -5, 2, 1, 1, 0),
            "1 ledger is marked under-replicated. How fast they are repaired is not known: a clock"
            " was wrong in run r.",
        ),
    ],
)
def test_progress_is_only_said_where_it_is_known(marks: MarksSince | None, says: str):
    """A rate needs a repair, a time and an earlier run."""
    assert says == " ".join(repair_sentences(marks))
    assert marks is None or marks.repaired or marks.per_hour is None


def store(
    home: Path, name: str, rows: list[dict[str, object]], instance: str = "the-cluster"
) -> str:
    """Write a finished run, which latest.json names, and return its directory."""
    directory = home / name
    directory.mkdir()
    started = f"2026-01-0{name[11]}T03:00:00.000Z"
    plain = report_stories.summary(run_id=name.removeprefix("run-"), started_at=started)
    summary = replace(plain, ledgers=replace(plain.ledgers, listed=len(rows)))
    (directory / "summary.json").write_text(json.dumps(summary.as_json()))
    facts = ClusterFacts("zk://h:1/ledgers", ("h:1",), "/ledgers", "flat", instance, False, None)
    about = About(summary.run_id, started, facts, Terms(1, 2, 3, 4), "warning", False)
    (directory / "run.json").write_text(json.dumps(about.as_json()))
    cells = [dict.fromkeys(LEDGERS.names) | row for row in rows]
    place(str(directory)).write_table(
        "evidence/ledgers", pa.Table.from_pylist(cells, schema=LEDGERS), "all"
    )
    (home / "latest.json").write_text(json.dumps({"run": name}))
    return str(directory)


def row(ledger_id: int, look: int = 1, *, is_marked: bool = False) -> dict[str, object]:
    return {"ledger_id": ledger_id, "look": look, "mark": MARK if is_marked else None}


def test_the_last_look_says_whether_a_ledger_is_marked(tmp_path: Path):
    """Ledger 2 lost its mark between two looks, and ledger 3 got one. Ledger 5 does not exist."""
    run = store(
        tmp_path,
        EARLIER,
        [
            row(3, 2, is_marked=True),
            row(1, is_marked=True),
            row(2, is_marked=True),
            row(2, 2),
            row(3),
            row(4),
        ],
    )
    found = read_marked(place(run), np.array([4, 5]))
    assert ([1, 2, 3, 4], [1, 3]) == (found.ledger_ids.tolist(), found.marked.tolist())


def test_ledgers_without_a_mark_take_no_memory(tmp_path: Path):
    """Ten ledgers are marked, in one night others than in the next, and 200,000 never."""
    unmarked, size = 200_000, 10_000
    for name, first in ((EARLIER, 0), (LATER, 5)):
        rows = [row(i, is_marked=first <= i < first + 10) for i in range(15)]
        later = store(tmp_path, name, rows)
        many = pa.Table.from_pylist([dict.fromkeys(LEDGERS.names) | row(0)], schema=LEDGERS)
        many = many.take(pa.array(np.zeros(size, np.int64)))
        for start in range(100, 100 + unmarked, size):
            ids = pa.array(np.arange(start, start + size))
            part = many.set_column(0, LEDGERS.field("ledger_id"), ids)
            place(later).write_table("evidence/ledgers", part, f"part-{start}")
    with counted_memory() as peak:
        found = marks_since_earlier_run(later)
    assert found == MarksSince("20260101T030000Z-000001", 86_400, 10, 10, 5, 5)
    assert peak() < 12 * unmarked, "their ids and looks alone take 12 bytes each"


def test_two_nights_show_the_progress(tmp_path: Path):
    """Ledgers 1 and 2 were marked, and only 2 is a day later."""
    store(tmp_path, EARLIER, [row(1, is_marked=True), row(2, is_marked=True)])
    later = store(tmp_path, LATER, [row(1), row(2, is_marked=True)])
    expected = MarksSince("20260101T030000Z-000001", 86_400, 2, 1, 1, 0)
    assert expected == marks_since_earlier_run(later)


def test_one_night_shows_none(tmp_path: Path):
    """There is no earlier run, and none of another cluster counts."""
    store(tmp_path, EARLIER, [row(1, is_marked=True)], instance="another")
    assert marks_since_earlier_run(store(tmp_path, LATER, [row(1)])) is None
    alone = tmp_path / "alone"
    alone.mkdir()
    assert marks_since_earlier_run(store(alone, LATER, [row(1)])) is None
