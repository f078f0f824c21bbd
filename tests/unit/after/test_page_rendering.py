"""report.html: nothing in it is loaded, run or forged, and it says what the text report says."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from dataclasses import replace

import pytest
from support import report_stories
from support.page_elements import Elements
from support.page_stories import HOSTILE, contents, many, sound

from auditor.after.page import findings_data
from auditor.after.page.contents import PageContents
from auditor.after.page.page_view import ICON_HUES
from auditor.after.page.rendering import render_page
from auditor.report import text
from auditor.report.first_screen import Whereabouts, render_first_screen
from auditor.report.layout import Screen, printable
from auditor.report.outcome_text import HUES

STORIES = {
    "everything": contents(),
    "sound": sound(),
    "nobody answered": replace(sound(), summary=report_stories.nobody_answered()),
    "no ledger": replace(sound(), summary=report_stories.empty_cluster()),
    "fail-on critical": replace(contents(), summary=replace(contents().summary, exit_code=0)),
}


def between(page: str, start: str, end: str) -> str:
    return page.partition(start)[2].partition(end)[0]


@pytest.mark.parametrize("story", STORIES)
def test_the_first_words_are_those_of_the_report(story: str):
    """The outcome, its sentence and what must be known before the counts stand first; what limits
    the run is folded below: all of it, word for word.
    """
    made = STORIES[story]
    report = " ".join(text.render(made.summary, made.findings).split("\n\n")[0].split())
    page = render_page(made)
    header = "<h1 " + between(page, "<h1 ", "<dl")
    outcome, *sentences = [words for _, words in Elements(header).texts]
    assert report.startswith(f"{outcome}: {sentences[0]}")
    folded = between(page, "Conditions of this run", "</details>")
    sentences += [words for tag, words in Elements(folded).texts if tag == "p"]
    for sentence in sentences:
        assert " ".join(sentence.split()) in report
    assert len(report) == len(f"{outcome}: {' '.join(sentences)}")


@pytest.mark.parametrize("story", STORIES)
def test_the_page_has_the_machine_line_once(story: str):
    """It is the last line of the text report."""
    made = STORIES[story]
    page = Elements(render_page(replace(made, report="")))
    assert 1 == page.words().count(text.render(made.summary, made.findings).splitlines()[-1])


def test_sections_of_the_report_are_there_in_its_words():
    """The page has every line of the text report on causes, on marks, and on what could not be
    judged.
    """
    made = contents()
    words = Elements(render_page(replace(made, report=""))).words()
    report = text.render(made.summary, made.findings, screen=Screen(120))
    sections = {part.splitlines()[0]: part for part in report.split("\n\n")}
    checked = 0
    for heading, part in sections.items():
        if not re.match(r"Causes|Marks|What could not", heading):
            continue
        lines = [re.sub(r"^(\d+\.|-) ", "", line.strip()) for line in part.splitlines()[1:]]
        checked += sum(" ".join(line.split()) in words for line in lines)
        missing = [line for line in lines if " ".join(line.split()) not in words]
        assert [] == missing, heading
    assert checked > 10


def test_the_section_on_reasons_has_the_heading_of_the_report():
    """Ledgers in violation carry reasons too: they are judged, but not in full."""
    page = render_page(replace(contents(), report=""))
    assert "What could not be judged, or not in full" == between(page, 'id="unjudged-h">', "<")


def test_names_from_the_cluster_change_nothing_but_text():
    """Elements and attributes are the same as for harmless names. The page is printable ASCII,
    without characters that turn text around.
    """
    harmless, hostile = (Elements(render_page(contents(name))) for name in ("bookie", HOSTILE))
    assert harmless.tags == hostile.tags
    page = render_page(contents(HOSTILE))
    assert page.isascii() and page.replace("\n", "").isprintable()
    assert printable(HOSTILE, 300) in Elements(page).words()


def test_the_data_of_the_script_ends_where_it_should():
    """No name closes the element of the data, which has a row for each finding."""
    page = render_page(contents(HOSTILE))
    data = between(page, '<script type="application/json" id="data">', "</script>")
    assert not set("<>&'") & set(data)
    assert len(contents().findings) == len(json.loads(data)["rows"])


def test_nothing_is_loaded_and_only_our_script_may_run():
    """No element names another file, no script or style stands in an attribute, and the policy has
    the hashes of both texts.
    """
    page = render_page(contents())
    elements = Elements(page)
    assert {"html", "script", "style", "svg", "table"} <= {tag for tag, _ in elements.tags}
    assert not {"img", "iframe", "object", "embed", "base"} & {tag for tag, _ in elements.tags}
    assert not {"src", "srcset", "style", "background", "action"} & {
        name for _, name, _ in elements.attributes
    }
    assert not [name for _, name, _ in elements.attributes if name.startswith("on")]
    links = [value for _, name, value in elements.attributes if name == "href"]
    assert ["data:image/svg+xml"] == [
        link.partition(",")[0] for link in links if not link.startswith("#")
    ]
    assert not re.search(r"url\(|@import|eval\(|innerHTML|fetch\(|XMLHttpRequest", page)
    (policy,) = [
        value
        for tag, name, value in elements.attributes
        if (tag, name) == ("meta", "content") and "src" in value
    ]
    for what, source in (
        ("style", between(page, "<style>", "</style>")),
        ("script", between(page, "<script>", "</script>")),
    ):
        digest = base64.b64encode(hashlib.sha256(source.encode()).digest()).decode()
        assert f"{what}-src 'sha256-{digest}'" in policy
    assert policy.startswith("default-src 'none'; ") and "unsafe" not in policy


def test_what_has_no_data_is_left_out_and_said():
    """A part without data has a sentence instead of a section. No such sentence names a part that
    is there.
    """
    page, full = Elements(render_page(sound())), Elements(render_page(contents()))
    sections = {value for tag, name, value in page.attributes if (tag, name) == ("section", "id")}
    assert {"findings", "bookies", "certainty", "more"} == sections
    for name in ("Causes", "Topics", "Marks", "History"):
        assert f" {name}: " in page.words() and f" {name}: " not in full.words()
    assert "There is no finding." in page.words()
    assert not {"script", "button"} & {tag for tag, _ in page.tags}


def test_what_could_not_be_read_is_said():
    """A damaged part is named with the reason."""
    made = replace(
        sound(),
        bookies=None,
        problems=("Bookies: not shown, because it could not be read (no such table).",),
    )
    words = Elements(render_page(made)).words()
    assert made.problems[0] in words and "the run stored none" not in words


def test_the_page_says_what_it_does_not_hold(monkeypatch: pytest.MonkeyPatch):
    """How many findings the table has, how many are in full, and where the others are."""
    monkeypatch.setattr(findings_data.choose_listed, "__defaults__", (1_000,))
    monkeypatch.setattr(findings_data.choose_in_full, "__defaults__", (50,))
    made = PageContents(
        report_stories.summary(outcome="VIOLATED", exit_code=1), many(2_000), "", "/run"
    )
    words = Elements(render_page(made)).words()
    assert (
        "The table has 1,000 of 2,000 findings, the worst of each kind; all are in findings.jsonl ."
        in words
    )
    assert (
        "50 findings, the worst of each kind, are here in full; auditor explain ID shows any other."
        in words
    )


def test_the_size_is_bounded_by_the_row():
    """A row takes less than 200 bytes. A browser can open a page with a hundred thousand of
    them.
    """
    sizes = [
        len(render_page(PageContents(report_stories.summary(), many(number), "", "/run")))
        for number in (2_000, 4_000)
    ]
    assert (sizes[1] - sizes[0]) / 2_000 < 200


def test_the_whole_report_is_in_the_page():
    """Its text is that of report.txt."""
    made = contents()
    assert made.report in [
        words for tag, words in Elements(render_page(made)).texts if tag == "pre"
    ]


def test_the_same_run_gives_the_same_page():
    """The pages are equal to the byte."""
    assert render_page(contents()) == render_page(contents())


def test_the_title_says_which_cluster_and_when():
    """A tab among others is found by it, and by the colour of its outcome."""
    page = render_page(contents("b"))
    assert "VIOLATED: zk://b/ledgers, 2026-01-01 03:00 UTC" == between(page, "<title>", "<")
    icons = [between(render_page(made), 'rel="icon" href="', '"') for made in (contents(), sound())]
    assert "%23b3261e" in icons[0] and "%231b6e53" in icons[1]
    style = between(page, "<style>", "</style>")
    assert set(HUES.values()) == ICON_HUES.keys()
    assert all(f": #{color};" in style for color in ICON_HUES.values())
    assert all(f"h1.{hue} " in style for hue in HUES.values())


def test_the_numbers_are_those_of_the_first_screen():
    """The worst finding is that of its next command."""
    summary, findings = report_stories.wiped_bookie(3)
    made = PageContents(summary, findings, "", "/run")
    words = Elements(render_page(made)).words()
    for said in (
        "1 critical on 1 bookie",
        "3 warning on 3 ledgers",
        "120 not judged of 812,345 ledgers",
        "- new no run to compare with",
    ):
        assert said in " ".join(words.split()), words
    page = render_page(made)
    place = int(between(page, 'id="worst-detail" data-row="', '"'))
    data = json.loads(between(page, '<script type="application/json" id="data">', "</script>"))
    shown = findings_data.choose_listed(findings)[place].id
    assert shown == data["rows"][place][9] == "000bookie-9:3181"
    assert f"auditor explain {shown}" in render_first_screen(summary, findings, Whereabouts("/r"))


def test_a_kind_has_a_link_where_the_documents_are_a_site():
    """Without an address the page names the path, and links to nothing."""
    made = PageContents(report_stories.summary(), many(2), "", "/data/run-1")
    for runbooks, link in (
        (None, None),
        ("https://docs.example/a/", "https://docs.example/a/findings/entry_without_replica.html"),
    ):
        page = render_page(replace(made, runbooks=runbooks))
        data = json.loads(between(page, '<script type="application/json" id="data">', "</script>"))
        assert link == data["kinds"][0][3]
    mute = "auditor mute ID /data/run-1 --output /data --until 2026-01-31 --why 'say why'"
    assert mute == data["mute"]
