"""The parts of a page: numbers, pictures and their sentences."""

from __future__ import annotations

import re
from dataclasses import replace
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import report_stories
from support.page_stories import bookies, contents, finding, history, sound

from auditor.after.page import pictures
from auditor.after.page.contents import BookieSeen, Lacking
from auditor.after.page.page_view import TOPICS_SHOWN_MAX, page_view
from auditor.after.page.pictures import WIDTH, Part, line_chart, meter, racks_view, stacked_bar
from auditor.after.page.rendering import render_page
from auditor.model.availability import Greeting
from auditor.model.cluster import BookieRecord, Registration
from auditor.model.finding import Kind
from auditor.model.summary import RackSpace, Space
from auditor.report.carried_text import carried_section
from auditor.report.layout import Screen


def widths(svg: str) -> list[float]:
    return [float(one.get("width", "0")) for one in ElementTree.fromstring(svg)]


@given(st.lists(st.integers(0, 10**9), min_size=4, max_size=4))
def test_a_bar_shows_every_part_and_no_more(sizes: list[int]):
    """Each part that is not empty can be seen. Together the parts fill the bar, unless all are
    empty.
    """
    drawn = widths(stacked_bar([Part("sound", size) for size in sizes], "x"))
    assert len(drawn) == sum(size > 0 for size in sizes) and all(width >= 2.9 for width in drawn)
    assert not drawn or abs(sum(drawn) - WIDTH) < 0.5


@given(st.floats(0, 1))
def test_only_all_of_it_fills_a_meter(ratio: float):
    """Less than everything is never drawn as everything."""
    _, *filled = widths(meter(ratio, "sound", "x"))
    assert (filled == [WIDTH]) == (ratio == 1)


def test_a_gap_in_the_history_is_a_gap():
    """A run that counted no copies has no point, and no line leads over it."""
    svg = ElementTree.fromstring(line_chart([1.0, None, 2.0, 3.0], "sound", "x"))
    lines = [one for one in svg if one.get("class") == "sound" and one.tag == "line"]
    assert (3, 1) == (len([one for one in svg if one.tag == "circle"]), len(lines))


def test_a_picture_says_its_numbers():
    """Its label has the numbers for readers who do not see it."""
    view = page_view(contents())
    assert (
        'aria-label="18 violated, 10 indeterminate, 12 exempt, 60 sound"'
        in view["standings"]["bar"]
    )
    titles = [
        (chart["title"], chart["last"], chart["top"], chart["bottom"])
        for chart in view["history"]["charts"]
    ]
    assert ("Findings", "5", "5", "3 critical, 2 warning") == titles[0]
    assert ("Ledgers in violation", "3", "3", "0") == titles[1]
    assert ("Copies verified", "93.00 %", "93.00 %", "90.00 %") == titles[3]
    assert (
        'aria-label="Copies verified: 3 runs, from 90.00 % to 93.00 %, last 93.00 %"'
        in view["history"]["charts"][3]["svg"]
    )


def test_equal_values_are_a_line():
    """All copies verified in each run, and nothing ever wrong."""
    nothing = {"violated": 0, "indeterminate": 0, "findings": {}}
    runs = [replace(run, **nothing, verified_ratio=1.0) for run in history(3)]
    charts = page_view(contents(history=runs))["history"]["charts"]
    assert ["0", "0", "0", "100 %"] == [chart["last"] for chart in charts]


def test_one_run_is_no_history():
    """It is left out, and the page says why, also of a run of named ledgers."""
    view = page_view(sound())
    assert view["history"] is None and any(
        "no other finished run" in line for line in view["left_out"]
    )
    part = replace(sound(), summary=report_stories.summary(partial=True), history=[])
    assert any("named ledgers" in line for line in page_view(part)["left_out"])


@pytest.mark.parametrize(
    ("is_partial", "expected"),
    [
        (False, "Marks: no ledger was found marked under-replicated."),
        (True, "Marks: no named ledger was found marked under-replicated."),
    ],
)
def test_marks_of_other_ledgers_than_the_named_are_not_denied(is_partial: bool, expected: str):
    """A run of named ledgers does not count the other marks."""
    summary = report_stories.summary(partial=is_partial, marks={"total": 0})
    assert expected in page_view(replace(sound(), summary=summary))["left_out"]


def test_a_page_without_causes_denies_only_what_is_grouped():
    """A ledger may be unjudged for another reason, or have a finding of another kind."""
    summary = report_stories.summary(indeterminate={"metadata_unreadable": 30}, causes=[])
    assert (
        "Causes: no ledger has a finding whose cause is looked for, and none was left unjudged"
        " because a bookie was silent, refused or had no readable address."
        in page_view(replace(sound(), summary=summary))["left_out"]
    )


def test_shares_are_rounded_down():
    """A copy that was not verified keeps the share below 100 %."""
    summary = report_stories.summary(
        verified_ratio=0.999999,
        copies={"expected": 10**6, "listed": 999_999, "read": 0, "assumed": 0},
    )
    verified, coverage = page_view(replace(sound(), summary=summary))["shares"]
    assert ("99.99 %", "100 %") == (verified["share"], coverage["share"])


def test_copies_in_doubt_stand_beside_the_share_without_them():
    """The share alone would hide why it is small."""
    doubt = {"bookies": 1, "some_bookies": ["b1"], "copies": 7}
    verified, _ = page_view(
        replace(sound(), summary=report_stories.changed_summary(sound().summary, doubt=doubt))
    )["shares"]
    assert "7 copies are only listed by b1" in verified["says"]


def test_the_age_of_reads_is_a_share_of_its_own():
    """It says how many copies were read within the period."""
    verified = {
        "seed": 1,
        "period_ms": 86_400_000,
        "bytes_per_second": 1,
        "counts": {"copies": 8, "within_period": 6, "overdue": 2},
        "bookies": [],
    }
    summary = report_stories.summary(verification=verified)
    _, _, read = page_view(replace(sound(), summary=summary))["shares"]
    assert ("Read", "75.00 %") == (read["name"], read["share"])
    assert read["says"].endswith("75.00 % within 1 day. 2 copies are overdue.")


def test_orphans_are_shown_by_topic_with_their_bytes():
    """As the finding names them. Without one, and of an earlier version's, there is no table."""
    of_topic = {"topic": "persistent://a/b/c", "ledgers": 1_000, "stored_bytes": 2_048}
    facts = {"some_topics": [of_topic], "topics": 3}
    found = finding(Kind.LEDGER_ORPHANED, "cluster", facts=facts)
    made = replace(contents(), findings=[found])
    assert {
        "rows": [{"topic": "persistent://a/b/c", "ledgers": "1,000", "bytes": "2.0 KiB"}],
        "left": 2,
    } == page_view(made)["orphans"]
    assert "2 more topics have orphans with fewer bytes" in render_page(made)
    earlier = finding(Kind.LEDGER_ORPHANED, "cluster", facts={})
    assert page_view(replace(made, findings=[earlier]))["orphans"] is None
    assert page_view(sound())["orphans"] is None


def test_topics_beyond_the_table_are_counted():
    """The table is bounded, and the page has the number of the others."""
    made = contents()
    summary = replace(made.summary, topics_hit=TOPICS_SHOWN_MAX + 5)
    topics = list(made.topics or ()) * (TOPICS_SHOWN_MAX + 5)
    view = page_view(replace(made, summary=summary, topics=topics))["topics"]
    assert (TOPICS_SHOWN_MAX, 5) == (len(view["rows"]), view["left"])


def test_the_margin_is_named_as_a_command():
    """The path is quoted for a shell. The command can be copied only if it is shown unescaped."""
    assert {"text": "auditor margin '/a run'", "copy": True} == page_view(
        contents(run_dir="/a run")
    )["margin_command"]
    assert not page_view(contents(run_dir="/a\nrun"))["margin_command"]["copy"]


def test_what_was_carried_over_is_shown_as_the_report_says_it():
    """A run that asked about every ledger by default has no such section."""
    view = page_view(contents())["carried"]
    assert "70.00 %" == view["share"]
    label = (
        "30 asked about by this run, 62 carried over, and sound, 8 carried over, and unknown now"
    )
    assert f'aria-label="{label}"' in view["bar"]
    assert ["30", "62", "8"] == [row["count"] for row in view["legend"]]
    assert [("bookie", "60"), ("b", "7"), ("others", "3")] == [
        (row["run"], row["ledgers"]) for row in view["runs"]
    ]
    assert [
        ("in turn", "4"),
        ("of which an entry could not be read, or is not as the metadata says", "1"),
    ] == [(row["words"], row["ledgers"]) for row in view["due"]][1:]
    said = contents().summary
    assert [line.text for line in view["lines"]] == [
        line.strip() for line in carried_section(said, Screen(1_000_000)) if line.strip()
    ][1:]
    drawn = render_page(contents())
    assert 'id="carried"' in drawn and 'href="#carried"' in drawn
    assert page_view(sound())["carried"] is None
    assert 'id="carried"' not in render_page(sound())


def test_bookies_stand_at_their_locations():
    """Locations are sorted, and bookies without one come last. Each bookie has its state and what
    it lacks.
    """
    racks = racks_view(bookies("b"), {})["racks"]
    assert ["/rack/b", None] == [rack["location"] for rack in racks]
    tiles = [(one["name"], one["state"], one["lacks"]) for rack in racks for one in rack["bookies"]]
    assert [
        ("b-1", "answered", ""),
        ("b-3", "answered, read-only", "lacks 300 entries of 2 ledgers"),
        ("b-9", "silent", ""),
        ("b-10", "gone: neither registered nor known by a cookie", "lacks 3 entries of 1 ledger"),
    ] == tiles


def test_a_card_says_how_full_the_disks_of_its_bookie_are():
    """Unknown is said of a registered bookie, and nothing of a run that did not record it."""
    figures = {"b-1": (2**30, 2**28), "b-3": (2**30, None)}
    some = [
        replace(
            bookie,
            record=replace(
                bookie.record,
                total_bytes=figures.get(bookie.bookie_id, (None, None))[0],
                free_bytes=figures.get(bookie.bookie_id, (None, None))[1],
            ),
        )
        for bookie in bookies("b")
    ]
    space = Space(racks=(RackSpace("/rack/b", 3, 2**31, 2**29),))
    racks = racks_view(some, {}, space)["racks"]
    assert [
        "disks: 768.0 MiB of 1.0 GiB used (75.00 %)",
        "disks not known",
        "disks not known",
        "",
    ] == [one["disk"] for rack in racks for one in rack["bookies"]]
    assert ["disks of 3 bookies: 1.5 GiB of 2.0 GiB used (75.00 %)", ""] == [
        rack["disks"] for rack in racks
    ]
    before = racks_view(some, {})["racks"]
    assert {""} == {one["disk"] for rack in before for one in rack["bookies"]}


@pytest.mark.parametrize("greeting", [*Greeting, None])
def test_every_greeting_has_words(greeting: Greeting | None):
    """This includes a bookie to which none was sent."""
    record = BookieRecord("b", 1, 0, Registration.WRITABLE, greeting=greeting)
    assert re.fullmatch(r"[a-z, ]+", pictures.state_words(BookieSeen(record, None, Lacking(0, 0))))


def test_bookies_that_need_attention_are_drawn_first(monkeypatch: pytest.MonkeyPatch):
    """The others are counted, and called in order only if they are."""
    monkeypatch.setattr(pictures, "BOOKIES_SHOWN_MAX", 3)
    view = racks_view(bookies("b"), {})
    assert "b-1" not in [one["name"] for rack in view["racks"] for one in rack["bookies"]]
    assert "1 bookie is not drawn; it answered and lacks nothing." == view["left"]
    monkeypatch.setattr(pictures, "BOOKIES_SHOWN_MAX", 1)
    assert (
        "3 bookies are not drawn; some of them lack entries, have a finding or did not answer."
        == racks_view(bookies("b"), {})["left"]
    )
    assert "" == racks_view(bookies("b")[:1], {})["left"]


@pytest.mark.parametrize(
    ("bookie", "kinds", "condition"),
    [
        ("b-1", (), "ordered"),
        ("b-3", (), "lacking"),
        ("b-9", (), "unheard"),
        ("b-1", ("BOOKIE_FAILING_REQUESTS",), "unheard"),
        ("b-3", ("BOOKIE_LOST_CONTENT",), "lost"),
        ("b-1", ("BOOKIE_UNREADABLE_ENTRIES",), "lost"),
    ],
)
def test_a_card_says_the_worst_that_is_known(bookie: str, kinds: tuple[str, ...], condition: str):
    """One that fails every request is not in order, and one lost entry is not as bad as all."""
    made = contents("b")
    assert made.bookies is not None
    found = [finding(Kind(kind), bookie) for kind in kinds]
    page = render_page(replace(made, findings=found))
    names = "".join(f".*<span>{kind}" for kind in kinds)
    card = rf'<li class="{condition}">\s*<[^>]*>{bookie}<(?:(?!</li>).)*{names}'
    assert re.search(card, page, re.S)


def test_bookies_and_locations_are_sorted_by_their_numbers():
    """So a person counts them."""
    (one,) = bookies("b")[:1]
    names = [f"b{number}" for number in (10, 2, 1)]
    some = [
        replace(one, record=replace(one.record, bookie_id=name), location=f"/rack{name[1:]}")
        for name in names
    ]
    racks = racks_view(some, {})["racks"]
    assert ["/rack1", "/rack2", "/rack10"] == [rack["location"] for rack in racks]
    same = racks_view([replace(one, location="/r") for one in some], {})["racks"]
    assert ["b1", "b2", "b10"] == [tile["name"] for tile in same[0]["bookies"]]
