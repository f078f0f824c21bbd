"""The pages that the site is made of: each is in its navigation, and pictures are as drawn."""

from __future__ import annotations

import importlib.util
import json
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

from auditor.first_checker import schedule
from auditor.model.verdict import Standing

PROJECT = Path(__file__).resolve().parents[2]


def module(name: str) -> ModuleType:
    """Return a module of docs/site, which is not a package."""
    spec = importlib.util.spec_from_file_location(f"site_{name}", PROJECT / f"docs/site/{name}.py")
    assert spec is not None and spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = made
    spec.loader.exec_module(made)
    return made


build, pictures = module("build"), module("pictures")
SITE = build.Site()


def test_every_page_is_in_the_navigation_once():
    """It is there by name, or as one of a folder whose index is."""
    named = [page for pages in build.NAVIGATION.values() for page in pages]
    assert len(set(named)) == len(named)
    folders = [str(Path(page).parent) for page in build.PAGES_BESIDE]
    alone = [
        str(page)
        for page in SITE.pages
        if str(page.parent) not in folders or str(page) in build.PAGES_BESIDE
    ]
    assert sorted([*named, build.FRONT]) == sorted(alone)
    assert set(build.PAGES_BESIDE) <= set(named)


def linked(text: str, page: str = "docs/python.md") -> str:
    return SITE.with_links(Path(page), text)


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("[the words](names.md#kinds)", "[the words](../docs/names.md#kinds)"),
        ("[names.md](names.md)", "[*The names that stay*](../docs/names.md)"),
        ("[the start](../README.md)", "[the start](../index.md)"),
        ("[findings](findings/)", "[findings](../docs/findings/README.md)"),
        ("[deploy/](../deploy/)", "[*Running the auditor night after night*](../deploy/README.md)"),
        (
            "[the rules](../deploy/prometheus/rules.yml)",
            "the rules (`deploy/prometheus/rules.yml`)",
        ),
        ("[rules.yml](../deploy/prometheus/rules.yml)", "`deploy/prometheus/rules.yml`"),
        ("![x](pictures/looks.svg)", "![x](../docs/pictures/looks.svg)"),
        ("[elsewhere](https://kafka.apache.org)", "[elsewhere](https://kafka.apache.org)"),
        ("[nowhere](missing.md)", "[nowhere](missing.md)"),
        ("```text\n[a](names.md)\n```", "```text\n[a](names.md)\n```"),
    ],
)
def test_a_link_leads_to_the_page_of_its_document(written: str, shown: str):
    """The link to a file without a page becomes its name; a broken link is left for Sphinx to
    report.
    """
    assert shown == linked(written)


def test_a_notebook_becomes_a_page():
    """Text stays as it is, code becomes blocks of Python, and what a cell shows stands below it."""
    path = PROJECT / "docs/notebooks/reading-a-run.ipynb"
    text = build.notebook_text(json.loads(path.read_text(encoding="utf-8")))
    assert text.startswith("# Reading a run")
    assert "```python\nfrom auditor import open_run\n" in text
    assert "```text\n<Run " in text and "```{raw} html\n<svg " in text


@pytest.mark.parametrize("name", pictures.PICTURES)
def test_a_picture_is_as_drawn(name: str):
    """Run `python docs/site/pictures.py` after a change. It loads nothing, and has a text for
    screen readers.
    """
    text = (PROJECT / "docs/pictures" / name).read_text(encoding="utf-8")
    assert pictures.PICTURES[name]() == text
    assert {"http://www.w3.org/2000/svg"} == set(re.findall(r"https?://[^\s\"')<]+", text))
    assert "<title>" in text and "<script" not in text


def test_the_picture_of_a_segment_stripes_as_the_checker_does():
    """It has the same entries on the same bookies."""
    drawn = [
        {e for e in range(pictures.ENTRIES) if pictures.belongs(e, place)}
        for place in range(pictures.ENSEMBLE)
    ]
    period = pictures.ENSEMBLE
    for place, entries in enumerate(drawn):
        runs = schedule.window(0, place, period, pictures.WRITE_QUORUM)
        places = {first + n for first, length in runs for n in range(length)}
        assert entries == {e for e in range(pictures.ENTRIES) if e % period in places}


def test_the_picture_of_the_standings_has_them_in_their_order():
    """From the best to the worst."""
    assert [one.name for one in Standing] == [name for name, _, _ in pictures.WRITTEN]
