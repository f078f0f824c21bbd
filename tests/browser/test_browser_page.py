"""report.html in a real Chromium: it loads nothing, writes nothing to the console, and its controls
work.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
from playwright import sync_api
from support import report_stories
from support.page_stories import HOSTILE, contents, many, sound

from auditor.after.page.contents import PageContents
from auditor.report.layout import printable

ROWS_SHOWN = 50
"""As in the page's script."""
SERIOUS = {"serious", "critical"}
IMAGE = "http://127.0.0.1:9/x.png"
WIDTHS = (1280, 400)
SCHEMES = ("light", "dark")

OPEN_ALL = """() => {
    const buttons = () => document.querySelectorAll(".open");
    for (let n = 0; n < buttons().length; n++) buttons()[n].click();
}"""
"""Clicks at once: the table is drawn again after each."""

Opens = Callable[..., Any]


@pytest.fixture(scope="module")
def hundred_thousand() -> PageContents:
    """Return findings on 100,000 ledgers, of four kinds."""
    return PageContents(
        report_stories.summary(outcome="VIOLATED", exit_code=1), many(100_000), "", "/run"
    )


@pytest.fixture(scope="module")
def in_full(opening: Opens) -> Callable[[str], Any]:
    """Return a function that opens a page offline, and every finding on it: once for each name."""
    made = {"everything": contents(), "sound": sound(), "hostile names": contents(HOSTILE)}

    @cache
    def opens(name: str) -> Any:
        seen = opening(made[name], offline=True)
        seen.page.evaluate(OPEN_ALL)
        assert len(made[name].findings) == seen.page.locator(".detail").count()
        return seen

    return opens


@pytest.mark.parametrize("name", ["everything", "sound", "hostile names"])
def test_it_opens_offline_and_in_silence(in_full: Callable[[str], Any], name: str):
    """The only request is for the file; there is no message and no dialog, also when every finding
    is opened.
    """
    seen = in_full(name)
    assert [seen.page.url.partition("#")[0]] == seen.asked and [] == seen.said


def test_no_name_becomes_code_or_markup(in_full: Callable[[str], Any]):
    """The script puts the name on the page as text that is safe for a terminal and a reader."""
    seen = in_full("hostile names")
    seen.page.evaluate("document.querySelectorAll('summary').forEach((one) => one.click())")
    assert seen.page.evaluate("window.pwned") is None
    assert 0 == seen.page.locator("img, [onfocus], [onerror]").count()
    assert printable(HOSTILE) in seen.page.locator("#table").inner_text().replace("\n", " ")
    assert (
        seen.page.locator("body")
        .inner_text()
        .replace("\u2013", "-")
        .replace("\u00b7", ".")
        .isascii()
    )
    assert (
        0
        == seen.page.locator(".detail .commands", has_text="bookkeeper shell")
        .locator(".copy")
        .count()
    )


def test_the_policy_stops_what_is_not_ours(opened: Opens):
    """Even markup that got into the page would load and run nothing."""
    seen = opened(contents())
    seen.page.evaluate(
        """(source) => {
            const script = document.createElement("script");
            script.textContent = "window.pwned = 1";
            const image = document.createElement("img");
            image.src = source;
            document.body.append(script, image);
        }""",
        IMAGE,
    )
    assert seen.page.evaluate("window.pwned") is None
    assert {IMAGE: "csp"} == seen.failed
    assert 2 == sum("Content Security Policy" in message for message in seen.said)


def test_filters_narrow_the_table(opened: Opens):
    """This holds for each filter alone, and for all together; cleared, everything is back."""
    made = contents("b")
    seen = opened(made)
    page, total = seen.page, len(made.findings)
    assert f"{total} findings" == page.locator("#shown").inner_text()
    page.select_option("#severity", "critical")
    critical = sum(found.severity.word == "critical" for found in made.findings)
    assert f"{critical} findings of {total}" == page.locator("#shown").inner_text()
    page.select_option("#kind", label="ENTRY_CORRUPT")
    assert 1 == len(seen.rows())
    page.fill("#search", "nothing has this")
    assert "0 findings of" in page.locator("#shown").inner_text() and [] == seen.rows()
    assert not page.locator("#table").is_visible()
    page.locator("#none", has_text="No finding matches.").locator("button").click()
    sync_api.expect(page.locator(".open")).to_have_count(total)
    page.fill("#search", "entry_corrupt LEDGER critical")
    assert 1 == len(seen.rows())
    page.click("button[type=reset]")
    page.locator(".rack .pick", has_text="b-3").click()
    lacking = sum("b-3" in found.missing_on for found in made.findings)
    assert lacking == len(seen.rows()) > 1


def test_muted_findings_are_marked_and_filtered(opened: Opens):
    """A page without a muted finding has no such filter."""
    made = contents("b")
    page = opened(made).page
    page.select_option("#muted", "yes")
    assert "muted until 2027-01-31" in page.locator("#table tbody").inner_text()
    assert f"1 finding of {len(made.findings)}" == page.locator("#shown").inner_text()
    page.locator(".open").click()
    assert "muted until 2027-01-31: b" in page.locator(".detail").inner_text()
    page.select_option("#muted", "no")
    assert 0 == page.locator("#table .muted").count()
    assert f"{len(made.findings) - 1} findings of" in page.locator("#shown").inner_text()
    without = opened(PageContents(report_stories.summary(), many(2), "", "/run")).page
    assert 0 == without.locator("#muted").count()


def test_a_change_leads_to_its_finding(opened: Opens):
    """Filters do not matter; a resolved finding has no link."""
    made = contents("b")
    page = opened(made).page
    page.fill("#search", "nothing has this")
    page.locator("#changes a").first.click()
    page.wait_for_selector(".detail")
    assert made.findings[0].id in page.locator(".detail").inner_text()
    page.locator("#changes summary", has_text="Resolved").click()
    assert 0 == page.locator("#changes details", has_text="Resolved").locator("a").count()


def test_columns_sort_both_ways(opened: Opens):
    """Numbers are sorted as numbers, whatever their size; the heading shows the direction."""
    ids = [7, 2**63 - 1, 10, 2**63 - 2, 100]
    found = [
        report_stories.finding(
            report_stories.Kind.ENTRY_CORRUPT, n, id=f"{n:016x}", entries_total=n
        )
        for n in ids
    ]
    seen = opened(PageContents(report_stories.summary(), found, "", "/run"))
    ordered = [f"ledger {n}" for n in sorted(ids)]
    for name in ("subject", "entries"):
        button = seen.page.locator(f"[data-sort={name}]")
        button.click()
        assert ordered == [row.split("\n")[0] for row in seen.rows()]
        assert "ascending" == button.locator("..").get_attribute("aria-sort")
        button.click()
        assert ordered[::-1] == [row.split("\n")[0] for row in seen.rows()]
        assert "descending" == button.locator("..").get_attribute("aria-sort")
    seen.page.locator("[data-sort=worst]").click()
    assert [f"ledger {n}" for n in ids] == [row.split("\n")[0] for row in seen.rows()]
    assert 1 == seen.page.locator("th[aria-sort]").count()


def test_the_keyboard_is_enough(opened: Opens):
    """The slash key goes to the search, the tab key on to the first finding; enter opens and closes
    it, and the focus stays.
    """
    made = contents("b")
    page = opened(made).page
    page.keyboard.press("/")
    page.keyboard.type("entry_corrupt")
    assert "entry_corrupt" == page.input_value("#search")
    for _ in range(20):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.matches('.open')"):
            break
    page.keyboard.press("Enter")
    assert 1 == page.locator(".detail").count()
    assert "true" == page.evaluate("document.activeElement.getAttribute('aria-expanded')")
    page.keyboard.press("Enter")
    assert (0, "false") == (
        page.locator(".detail").count(),
        page.evaluate("document.activeElement.getAttribute('aria-expanded')"),
    )


def test_an_opened_finding_tells_all_of_it(opened: Opens):
    """It shows its witness, each look, each bookie's answers about the entries, and its commands.
    The address names it as long as it is open.
    """
    made = contents("b")
    place = next(
        n
        for n, found in enumerate(made.findings)
        if found.kind is report_stories.Kind.ENTRY_BELOW_WRITE_QUORUM
    )
    found = made.findings[place]
    page = opened(made).page
    page.locator(".open").nth(place).click()
    detail = page.locator(".detail")
    words = detail.inner_text()
    assert found.witness in words and len(found.looks) == detail.locator(".looks li").count()
    row = detail.locator(".says-what tbody tr", has_text="b-3")
    assert "lacks" == row.locator("td.lacks").inner_text()
    assert "CHANGES THE CLUSTER" in detail.locator(".changes").inner_text()
    assert f"auditor explain {found.id} {made.run_dir}" in words
    assert f"auditor mute {found.id} {made.run_dir} --output /var/lib/audits --until" in words
    assert len(found.looks) == detail.locator(".scale circle").count()
    assert page.url.endswith(f"#f-{found.id}")
    page.locator(".open").nth(place).click()
    assert page.url.endswith("#findings")
    assert made.findings[int(page.locator("#worst-detail").get_attribute("data-row") or -1)].id in (
        page.locator("#worst-detail").inner_text()
    )


def test_a_command_is_copied_as_it_is_shown(opened: Opens):
    """Its button copies it."""
    page = opened(contents("b"), permissions=["clipboard-read", "clipboard-write"]).page
    page.locator(".open").first.click()
    page.locator(".detail .copy").first.click()
    sync_api.expect(page.locator("#said")).to_have_text("Copied")
    assert "bookkeeper shell x -b b" == page.evaluate("navigator.clipboard.readText()")


def test_an_address_names_a_finding(opened: Opens):
    """The finding is opened, on whichever page of the table it is."""
    made = PageContents(report_stories.summary(), many(200), "", "/run")
    seen = opened(made, fragment=f"#f-{made.findings[120].id}")
    assert 1 == seen.page.locator(".detail").count()
    assert f"ledger {made.findings[120].ledger_id}" in seen.page.locator(".detail").inner_text()


def test_a_hundred_thousand_findings_are_a_table_of_fifty_rows(
    opened: Opens, hundred_thousand: PageContents
):
    """The number of rows is constant; filters and sorting work on all findings."""
    seen = opened(hundred_thousand)
    page = seen.page
    assert ("100,000 findings", ROWS_SHOWN) == (
        page.locator("#shown").inner_text(),
        len(seen.rows()),
    )
    page.fill("#search", "t-10000000000999")  # owners t-1000000000099900 to ...999
    assert "100 findings of 100,000" == page.locator("#shown").inner_text()
    page.fill("#search", "")
    page.select_option("#severity", "critical")
    critical = sum(found.severity.word == "critical" for found in hundred_thousand.findings)
    assert f"{critical:,} finding" in page.locator("#shown").inner_text()
    page.select_option("#severity", "")
    page.locator("[data-sort=subject]").click()
    page.locator("[data-sort=subject]").click()
    assert "ledger 1000000000099999" == seen.rows()[0].split("\n")[0]
    page.locator("#next").click()
    assert "51\u2013100 of 100,000" == page.locator("#page").inner_text()
    page.locator(".open").first.click()
    assert "not on this page in full" in page.locator(".detail").inner_text()
    assert ROWS_SHOWN == len(seen.rows()) and [] == seen.said
    spent = page.evaluate("performance.getEntriesByType('navigation')[0].domComplete")
    print(f"100,000 findings: the page was there after {spent / 1000:.2f} s")


@pytest.mark.parametrize("width", WIDTHS)
def test_it_fits_and_axe_finds_no_serious_problem(opened: Opens, axe: str, width: int):
    """It fits at the width of a desk and of a telephone, in light and dark mode, with findings
    open: nothing is cut off.
    """
    seen = opened(contents(), viewport={"width": width, "height": 900}, bypass_csp=True)
    for button in seen.page.locator(".open").all()[:6]:
        button.click()
    seen.page.evaluate("document.querySelectorAll('details').forEach((part) => (part.open = true))")
    seen.page.evaluate(axe)
    for scheme in SCHEMES:
        seen.page.emulate_media(color_scheme=scheme)
        assert seen.page.evaluate(f"matchMedia('(prefers-color-scheme: {scheme})').matches")
        assert width >= seen.page.evaluate("document.documentElement.scrollWidth"), scheme
        result = seen.page.evaluate("axe.run(document, {resultTypes: ['violations']})")
        assert result["testEngine"]["version"] and len(result["passes"]) > 20
        assert [] == [
            (scheme, one["id"], one["nodes"][0]["html"])
            for one in result["violations"]
            if one["impact"] in SERIOUS
        ]


def test_axe_does_bite(opened: Opens, axe: str):
    """The check above can fail."""
    seen = opened(sound(), bypass_csp=True)
    seen.page.evaluate("document.querySelector('main').append(document.createElement('button'))")
    seen.page.evaluate(axe)
    result = seen.page.evaluate("axe.run()")
    assert "button-name" in [one["id"] for one in result["violations"] if one["impact"] in SERIOUS]


def test_a_printed_page_has_its_findings_and_no_controls(opened: Opens):
    """Printed pages have no buttons."""
    page = opened(contents()).page
    page.emulate_media(media="print")
    assert page.locator("#table").is_visible() and page.locator(".headline").is_visible()
    for control in ("#filters", "nav", ".copy"):
        assert not page.locator(control).first.is_visible()


def test_without_a_script_the_page_says_where_the_findings_are(opened: Opens):
    """Everything else is there."""
    page = opened(contents(), java_script_enabled=False).page
    assert "needs JavaScript" in page.locator("noscript").inner_text()
    assert page.locator("#bookies").is_visible() and page.locator("#history").is_visible()
