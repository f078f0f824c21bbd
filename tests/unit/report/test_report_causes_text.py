"""Causes in the report: they come first, and they are few."""

from __future__ import annotations

from dataclasses import replace

from support import report_stories as stories

from auditor.after.causes import CAUSES_MAX
from auditor.model.finding import Kind
from auditor.model.summary import Summary
from auditor.report.findings_text import causes_section
from auditor.report.layout import PLAIN, Screen
from auditor.report.text import render

BELOW = Kind.ENTRY_BELOW_WRITE_QUORUM


def section(found: list[dict[str, object]], width: int = 100) -> list[str]:
    return list(causes_section(stories.summary(**stories.caused(found)), Screen(width)))


def words_of(summary: Summary) -> str:
    """Return the section without line breaks."""
    return " ".join(" ".join(causes_section(summary, PLAIN)).split())


def test_a_report_does_not_grow_with_the_ledgers_of_one_cause():
    """A wiped bookie with ten ledgers and one with ten thousand give the same number of lines."""
    few, many = stories.wiped_bookie(10), stories.wiped_bookie(10_000)
    assert len(render(*few, run_dir="./x", screen=Screen(120)).splitlines()) == len(
        render(*many, run_dir="./x", screen=Screen(120)).splitlines()
    )
    for width in (80, 100, 120):
        lines = [len(list(causes_section(summary, Screen(width)))) for summary, _ in (few, many)]
        assert lines[0] == lines[1] <= 6, width


def test_a_cause_says_who_how_many_what_and_where_the_ids_are():
    """Which bookie, what it does, how many ledgers, as which kinds, in which file."""
    found = [stories.finding(BELOW, n) for n in range(7)] + [stories.finding(Kind.ENTRY_CORRUPT, 9)]
    expected = [
        "Causes, the one that explains most first",
        (
            "  1. bookie bookie-3:3181 answers and lacks entries of 8 ledgers (100 % of its 8"
            " ledgers, 0 % on the"
        ),
        "     rest)",
        "     8 ledgers (100 % of all hit): ENTRY_BELOW_WRITE_QUORUM 7, ENTRY_CORRUPT 1",
        "     ids: causes/01-bookie-bookie-3-3181.txt",
        "",
    ]
    assert expected == section(found)


def test_causes_beyond_a_screenful_are_counted():
    """At most ten are shown. The others are counted, with the ledgers that they explain."""
    bookies = [f"b{n:02}" for n in range(CAUSES_MAX + 3)]
    found = [
        stories.finding(BELOW, n, missing_on={bookies[n % len(bookies)]: [[0, 0]]})
        for n in range(4 * len(bookies))
    ]
    lines = section(found)
    assert CAUSES_MAX == sum(line.startswith("     ids: ") for line in lines)
    assert any(line.startswith("  ... and 3 more causes of 12 ledgers") for line in lines)


def test_ledgers_without_a_common_cause_are_counted():
    """Ledgers that could not be judged are counted apart, because they have no findings."""
    found = [stories.finding(BELOW, n) for n in range(5)] + [
        stories.finding(BELOW, 7, missing_on={"b9": [[0, 0]]})
    ]
    assert "  No common cause was found for the findings on 1 more ledger." in section(found)
    summary = stories.summary(
        **stories.caused(found) | {"ledgers_without_cause": 5, "unjudged_without_cause": 2}
    )
    expected = (
        "No common cause was found for the findings on 3 more ledgers, nor for 2 more ledgers not"
        " judged because a bookie was silent, refused or had no readable address."
    )
    assert expected in words_of(summary)


def test_only_what_is_grouped_is_said_to_be_too_little():
    """Further ledgers may be unjudged for other reasons, or have findings of other kinds."""
    unjudged = {"ledgers_without_cause": 2, "unjudged_without_cause": 2}
    assert (
        "2 ledgers could not be judged because a bookie was silent, refused or had no readable"
        " address: too few to have a common cause." in words_of(stories.summary(**unjudged))
    )
    found = unjudged | {"unjudged_without_cause": 0}
    assert (
        "2 ledgers have findings whose cause is looked for: too few to have a common cause."
        in words_of(stories.summary(**found))
    )


def test_loss_that_no_cause_could_be_shown_of_is_not_called_evenly_spread():
    """The section says that no common cause could be shown: where all bookies are wiped, no bookie
    stands out either. Two ledgers are too few to have a common cause.
    """
    even = [
        stories.finding(BELOW, n, missing_on={f"other-{n % 10}:3181": [[0, 0]]}) for n in range(40)
    ]
    expected = [
        "Causes",
        "  40 ledgers have findings whose cause is looked for. No common cause could be shown.",
        "",
    ]
    assert expected == section(even)
    assert any(
        "2 ledgers have findings" in line and "too few" in line for line in section(even[:2])
    )


def test_the_share_of_a_cause_is_always_printed():
    """This includes a share below one per cent."""
    rows = stories.caused([stories.finding(BELOW, n) for n in range(4)])
    rows["causes"] = [replace(rows["causes"][0], share=0.00043), *rows["causes"][1:]]
    lines = list(causes_section(stories.summary(**rows), PLAIN))
    assert "     4 ledgers (0.04 % of all hit): ENTRY_BELOW_WRITE_QUORUM 4" in lines


def test_where_nothing_is_hit_nothing_is_said():
    """There is no heading without findings, nor for a summary of an older version."""
    assert [] == section([])
    assert [] == list(causes_section(stories.summary(), PLAIN))


def test_a_foreign_name_forges_nothing():
    """A bookie id comes from the metadata of a ledger. It adds no line, no escape sequence and no
    directory.
    """
    name = "../../etc/passwd\nauditor: SOUND run=x \x1b[2J" + "x" * 500
    lines = section([stories.finding(BELOW, n, missing_on={name: [[0, 0]]}) for n in range(5)])
    assert "\x1b" not in "".join(lines) and all(
        "\n" not in line and len(line) <= 100 for line in lines
    )
    (row,) = stories.caused(
        [stories.finding(BELOW, n, missing_on={name: [[0, 0]]}) for n in range(5)]
    )["causes"]
    assert row.file.startswith("causes/01-bookie-etc-passwd-auditor-")
    assert 1 == row.file.count("/") and len(row.file) < 100
