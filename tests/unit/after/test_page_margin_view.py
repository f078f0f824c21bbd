"""What may fail, and what changed, as sections of a page."""

from __future__ import annotations

from dataclasses import replace

from support import report_stories
from support.page_stories import changes_of, contents, every_kind, margin_of, sound

from auditor.after.differences import Change
from auditor.after.margin import Exposure
from auditor.after.margin_text import Cluster
from auditor.after.page import page_view as changes_module
from auditor.after.page import pictures as margin_module
from auditor.after.page.contents import ChangesSeen
from auditor.after.page.page_view import changes_view, page_view
from auditor.after.page.pictures import margin_view

NO_EXPOSURE = Exposure({}, {}, {}, {})


def test_ledgers_stand_by_their_copies():
    """The fewest copies come first. No confirmed copy has the colour of violated ledgers, and one
    copy that of unknown ledgers.
    """
    view = margin_view(margin_of("b"))
    assert view is not None
    assert [("none confirmed", "2"), ("1 copy", "5"), ("2 copies", "20"), ("3 copies", "65")] == [
        (bar["words"], bar["count"]) for bar in view["bars"]
    ]
    hues = ["violated", "unknown", "sound", "sound"]
    assert all(f'class="{hue}"' in bar["bar"] for hue, bar in zip(hues, view["bars"], strict=True))


def test_the_worst_bookies_and_locations_to_lose_come_first():
    """Surely lost copies count before possible ones."""
    view = margin_view(margin_of("b"))
    assert view is not None
    bookies, racks = view["tables"]
    assert [("b-3", ["4", "0", "1,400", "0"]), ("b-9", ["1", "2", "0", "0"])] == [
        (row["name"], row["numbers"]) for row in bookies["rows"]
    ]
    assert ("Location", "/rack/b") == (racks["what"], racks["rows"][0]["name"])
    assert any("80 copies rest on a sample" in sentence for sentence in view["limits"])
    assert any("location of 1 bookie" in sentence for sentence in view["limits"])


def test_bookies_beyond_the_table_are_counted(monkeypatch):
    """`auditor margin` shows all of them."""
    monkeypatch.setattr(margin_module, "SHOWN_MAX", 1)
    view = margin_view(margin_of("b"))
    assert view is not None and (1, 1) == (
        len(view["tables"][0]["rows"]),
        view["tables"][0]["left"],
    )


def test_where_nothing_may_be_lost_the_page_says_so():
    """There is no table of zeros. A cluster without a closed ledger has no section on the
    margin.
    """
    harmless = replace(margin_of("b"), cluster=Cluster({3: 9}, NO_EXPOSURE, {}))
    view = margin_view(harmless)
    assert view is not None and [] == view["tables"]
    assert view["harmless"].startswith("If one bookie failed, no closed ledger would have fewer")
    empty = replace(margin_of("b"), cluster=Cluster({}, NO_EXPOSURE, {}))
    assert margin_view(empty) is None
    assert any("no ledger is closed" in line for line in _left_out(margin=empty))


def test_ledgers_without_readable_metadata_are_not_said_to_be_harmless():
    """The sentences are about the ledgers that were read, and the others are counted."""
    made = margin_of("b")
    unread = replace(
        made,
        basis=replace(made.basis, unread=30),
        cluster=Cluster({3: 92}, NO_EXPOSURE, {}),
    )
    view = margin_view(unread)
    assert view is not None and "of 92 closed ledgers of the cluster whose" in view["sentence"]
    assert view["harmless"] == (
        "If one bookie failed, none of the 92 closed ledgers whose metadata is understood would"
        " have fewer copies of an entry than its ack quorum."
    )
    assert any("30 ledgers could not be read or understood" in one for one in view["limits"])
    (said,) = (
        line
        for line in _left_out(margin=replace(unread, cluster=Cluster({}, NO_EXPOSURE, {})))
        if line.startswith("Margin: ")
    )
    assert said == (
        "Margin: no ledger whose metadata is understood is closed and has entries. The metadata of"
        " 30 ledgers could not be read or understood."
    )


def test_a_run_too_large_for_its_margin_says_so():
    """The sentence names the limit."""
    ledgers = {
        **report_stories.summary().as_json()["ledgers"],
        "listed": margin_module.LEDGERS_MAX + 1,
    }
    page = page_view(replace(sound(), summary=report_stories.summary(ledgers=ledgers)))
    assert any("not computed of more than 250,000 ledgers" in one for one in page["left_out"])


def test_every_change_is_counted_and_all_but_those_that_stand_are_listed():
    """New and worse findings come first, each with its subject and the reason. Findings of this run
    have a link.
    """
    found = every_kind("b")
    view = changes_view(changes_of("b", found), report_stories.summary())
    assert ["1"] * len(Change) == [one["count"] for one in view["counts"]]
    names = ["new", "worse", "better", "resolved", "not_checked_again"]
    assert names == [group["name"] for group in view["groups"]]
    rows = {group["name"]: group["rows"][0] for group in view["groups"]}
    assert found[0].id == rows["new"]["id"] and rows["new"]["why"] == "b says why"
    assert rows["resolved"]["id"] is None and rows["resolved"]["subject"].startswith("ledger ")


def test_changes_beyond_the_list_are_counted(monkeypatch):
    """A night that changes everything does not make the page endless."""
    monkeypatch.setattr(changes_module, "SHOWN_MAX", 2)
    one = changes_of("b", every_kind("b")).differences[0]
    seen = ChangesSeen("r", "2026-01-01T00:00:00Z", (), [one] * 5)
    (group,) = changes_view(seen, report_stories.summary())["groups"]
    assert (2, 3, "5") == (len(group["rows"]), group["left"], group["count"])


def test_other_numbers_than_those_of_the_first_screen_are_explained():
    """The first screen also counts findings that earlier runs passed on."""
    seen = changes_of("b", every_kind("b"))
    since = {"run_id": "r0", "started_at": "2025-12-31T03:00:00Z"}
    same = {"since": since} | {change.value.replace(" ", "_"): 1 for change in Change}
    assert ["b differs"] == changes_view(seen, report_stories.summary(changes=same))["notes"]
    (_, note) = changes_view(seen, report_stories.summary(changes=same | {"new": 2}))["notes"]
    assert "passed on" in note


def test_a_run_without_an_earlier_one_says_so():
    """It says also if the earlier one could not be read, or if nothing was compared."""
    assert any("no earlier run" in line for line in _left_out(changes=None))
    problem = {"since": None, "problem": "gone"}
    assert any("not known: gone" in line for line in _left_out(problem))
    summary = report_stories.summary_without("changes")
    sentences = page_view(replace(sound(), summary=summary))["left_out"]
    assert any("did not compare" in line for line in sentences)


def test_muted_findings_are_counted():
    """A page without muted findings counts none, and needs no filter for them."""
    assert (1, 0) == (page_view(contents())["muted"], page_view(sound())["muted"])


def _left_out(changes_field: object = None, **parts: object) -> list[str]:
    summary = report_stories.summary(changes=changes_field)
    left: list[str] = page_view(replace(sound(), summary=summary, **parts))["left_out"]
    return left
