"""Witnesses of the bookie family: what a person can check by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.findings_by_kind import finding_of

from auditor.findings.lost_content import NO_HISTORY, Content, CookieHistory, judge_content
from auditor.model.cluster import BookieRecord, Registration
from auditor.model.facts import DirectoriesLost, ShrunkFacts, SizeLost
from auditor.model.finding import Finding, Kind
from auditor.witness.bookies import TELL


def witness_of(content: Content, history: CookieHistory = NO_HISTORY) -> str:
    looks = [
        {"b7": BookieRecord("b7", look, 0, Registration.READONLY, "h", 3181)} for look in (1, 2)
    ]
    (found,) = judge_content(looks, {"b7": content}, {"b7": history})
    return TELL[Kind.BOOKIE_LOST_CONTENT](found, found.facts)


def test_lost_content_is_reported_with_its_counts():
    """The witness has where the bookie is registered, for how many ledgers it answered, which of
    them it lacks, and how many of their entries.
    """
    expected = (
        "Bookie b7 is registered as readonly at h:3181 and answered for 4 ledgers. Of 3 of them (5,"
        " 6, 9) it lacked, at two looks, more than half of the entries it should hold: together 29"
        " of 30."
    )
    assert expected == witness_of(Content(4, 3, 30, 29, (5, 6, 9)))


@pytest.mark.parametrize(
    ("history", "words"),
    [
        (CookieHistory(), ""),
        (CookieHistory(1_700_000_000_000, 0), ""),
        (
            CookieHistory(1_700_000_000_000, 1),
            " Its cookie was created at 2023-11-14 22:13:20 UTC. The metadata of 1 of these ledgers"
            " was last written before that, and names the bookie: its disks were probably formatted"
            " or replaced under its id.",
        ),
        (
            CookieHistory(1_700_000_000_000, 2, 1_600_000_000_000),
            " Its cookie was created at 2023-11-14 22:13:20 UTC. The metadata of 2 of these ledgers"
            " was last written before that, and names the bookie: its disks were probably formatted"
            " or replaced under its id. An earlier run saw another cookie of this bookie, created"
            " at 2020-09-13 12:26:40 UTC.",
        ),
    ],
)
def test_a_cookie_that_is_younger_than_the_ledgers_is_said(history: CookieHistory, words: str):
    """One that is older says nothing."""
    assert witness_of(Content(4, 3, 30, 29, (5, 6, 9)), history).endswith(f"29 of 30.{words}")


def test_a_smaller_disk_is_said_in_bytes_and_a_directory_by_name():
    """Each only where it is known."""
    facts = ShrunkFacts("writable", "h:1", SizeLost(75, 100), None, 25, 0, 86_400_000)
    tell = TELL[Kind.BOOKIE_DISK_SHRANK]
    finding = Finding(Kind.BOOKIE_DISK_SHRANK, facts, bookie_id="b1")
    head = "Bookie b1 is registered as writable at h:1. "
    end = " The earlier run read it 1 day before the last look."
    size = (
        "It says that the disks of its ledger directories have 75 bytes in all (GET_BOOKIE_INFO)."
        " An earlier run saw 100."
    )
    assert f"{head}{size}{end}" == tell(finding, facts)
    directories = DirectoriesLost(1, 2, ("/data/2",))
    facts = replace(facts, size=None, directories=directories)
    names = "Its cookie names 1 ledger directory. An earlier run saw 2. No longer named: /data/2."
    assert f"{head}{names}{end}" == tell(finding, facts)


def test_of_many_ledgers_a_few_are_named():
    """The rest is counted."""
    assert "Of 40000 of them (0, 1, 2, 3, 4, 5, 6, 7 and 39992 more) it lacked" in witness_of(
        Content(41_000, 40_000, 9, 9, tuple(range(10)))
    )


def test_a_bookie_that_cannot_list_is_reported_as_probed():
    """Entries were read there, which a person would have to do as well."""
    probed = witness_of(Content(3, 3, 9, 9, (1, 2, 3), True))
    assert (
        "answered for 3 ledgers (by reading entries, because it cannot list them). Of 3" in probed
    )


def test_a_silent_bookie_is_reported_with_where_it_is_registered():
    """It also says how the last try ended, if that is known."""
    silent = finding_of(Kind.BOOKIE_SILENT_YET_REGISTERED)
    expected = (
        "Bookie b1 is registered as writable at h:3181 and did not answer at any of 2 looks"
        " (connection refused)."
    )
    assert expected == TELL[silent.kind](silent, silent.facts)
    assert expected.replace(" (connection refused)", "") == TELL[silent.kind](
        silent, replace(silent.facts, detail="")
    )
