"""What people look at: findings by night, marks by age, copies by location, bytes by namespace."""

from __future__ import annotations

from dataclasses import replace
from xml.etree import ElementTree

import pytest
from support import report_stories
from support.page_stories import history, sound

from auditor.after.page import charts
from auditor.after.page.charts import (
    HEIGHT,
    age_place,
    bytes_by_namespace,
    copies_by_rack,
    findings_by_night,
    marks_by_age,
)
from auditor.after.page.contents import NamespaceBytes, RackCopies
from auditor.after.page.page_view import page_view
from auditor.after.page.pictures import LEDGERS_MAX, WIDTH

HOUR_MS = 3_600_000


def rectangles(svg: str, hue: str) -> list[ElementTree.Element]:
    return [one for one in ElementTree.fromstring(svg) if one.get("class") == hue]


def test_each_night_is_a_column_with_the_worst_at_the_bottom():
    """Its height is the number of findings; the label has the numbers in words."""
    drawn = findings_by_night(history(4))
    assert ("5", "5", "3 critical, 2 warning") == (drawn["last"], drawn["top"], drawn["bottom"])
    assert "Findings: 4 runs, from 2 to 5, last 5 (3 critical, 2 warning)" in drawn["svg"]
    red, yellow = rectangles(drawn["svg"], "red"), rectangles(drawn["svg"], "yellow")
    assert (3, 4, []) == (len(red), len(yellow), rectangles(drawn["svg"], "grey"))
    bottom = float(red[-1].get("y", 0)) + float(red[-1].get("height", 0))
    assert bottom == pytest.approx(HEIGHT, abs=0.1)
    assert float(yellow[-1].get("y", 0)) == pytest.approx(8, abs=0.1)


def test_nights_without_a_finding_are_empty():
    """There is nothing to divide by."""
    quiet = [replace(run, findings={}) for run in history(2)]
    drawn = findings_by_night(quiet)
    assert ("0", "0", "") == (drawn["last"], drawn["top"], drawn["bottom"])


@pytest.mark.parametrize(
    ("age_ms", "low", "high"),
    [(0, 0, 0), (HOUR_MS, 0.25, 0.25), (24 * HOUR_MS, 0.5, 0.5), (72 * HOUR_MS, 0.5, 0.75),
    (7 * 24 * HOUR_MS, 0.75, 0.75), (10**15, 1, 1)],
)  # fmt: skip
def test_an_age_lies_in_its_class(age_ms: int, low: float, high: float):
    """Classes have the same width, whatever time they span."""
    assert low <= age_place(age_ms) <= high


def test_the_line_of_grace_is_drawn_where_marks_become_findings():
    """Without a known grace there is no line, and nothing is said of it."""
    ages = {"under_1h": 4, "under_1d": 0, "under_1w": 1, "older": 2}
    summary = report_stories.summary(marks={"total": 7}, marks_by_age=ages)
    view = marks_by_age(summary, 24 * HOUR_MS)
    (line,) = (one for one in ElementTree.fromstring(view["svg"]) if one.get("class") == "grace")
    assert float(line.get("x1", 0)) == WIDTH / 2
    assert ["4", "0", "1", "2"] == [column["count"] for column in view["columns"]]
    assert "end of grace: 1 day." in view["grace"] and "grace ends at 1 day" in view["svg"]
    unknown = marks_by_age(summary, None)
    assert "" == unknown["grace"] and "grace" not in unknown["svg"]


def test_locations_have_the_share_that_is_confirmed(monkeypatch: pytest.MonkeyPatch):
    """They are sorted by name; if there are too many, those with the smallest share are shown."""
    racks = [
        RackCopies(None, 1, 10, 10),
        RackCopies("/r10", 2, 100, 50),
        RackCopies("/r2", 1, 3, 2),
        RackCopies("/r3", 1, 0, 0),
    ]
    view = copies_by_rack(racks)
    assert view is not None
    assert [("/r2", "66.66 %"), ("/r10", "50.00 %"), ("not known", "100 %")] == [
        (row["name"], row["share"]) for row in view["rows"]
    ]
    monkeypatch.setattr(charts, "RACKS_SHOWN_MAX", 1)
    view = copies_by_rack(racks)
    assert view is not None and ("/r10", 2) == (view["rows"][0]["name"], view["left"])
    assert copies_by_rack([RackCopies("/r", 1, 0, 0)]) is None


def test_namespaces_with_most_in_violation_come_first(monkeypatch: pytest.MonkeyPatch):
    """The parts of a bar are all of it."""
    some = [
        NamespaceBytes("p/large", 10_240, 0, 0),
        NamespaceBytes("p/hit", 2_048, 1_024, 512),
        NamespaceBytes("", 100, 0, 0),
    ]
    view = bytes_by_namespace(some)
    assert view is not None
    assert ["p/hit", "p/large", "no namespace"] == [row["name"] for row in view["rows"]]
    assert "1.0 KiB in violation, 512 B not judged, 512 B other" == view["rows"][0]["says"]
    monkeypatch.setattr(charts, "NAMESPACES_SHOWN_MAX", 1)
    view = bytes_by_namespace(some)
    assert view is not None and 2 == view["left"]
    assert bytes_by_namespace([NamespaceBytes("p/n", 0, 0, 0)]) is None


def test_a_run_without_namespaces_says_so():
    """It also says that a large run does not add them up."""
    assert "Bytes: no closed ledger names a topic." in page_view(sound())["left_out"]
    ledgers = {**report_stories.summary().as_json()["ledgers"], "listed": LEDGERS_MAX + 1}
    large = replace(sound(), summary=report_stories.summary(ledgers=ledgers))
    said = f"Bytes: not added up for more than {LEDGERS_MAX:,} ledgers."
    assert said in page_view(large)["left_out"]
