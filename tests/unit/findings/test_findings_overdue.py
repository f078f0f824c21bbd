"""When copies that were not read within the period are a finding, and what it says."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.findings_by_kind import finding_of

from auditor.findings.overdue import judge_overdue, overdue_findings
from auditor.model.cluster import ClusterFacts
from auditor.model.evidence import Terms
from auditor.model.facts import OverdueFacts
from auditor.model.finding import Finding, Kind
from auditor.model.summary import CopiesByAge, Verification, VerifiedBookie, VerifiedBy
from auditor.summary.about import About

DAY_MS = 24 * 60 * 60 * 1000
SINCE = "2026-01-01T00:00:00.000Z"
CLUSTER = ClusterFacts("zk://h:1/ledgers", ("h:1",), "/ledgers", "hierarchical", "i", False, None)
ABOUT = About("run", SINCE, CLUSTER, Terms(0, 0, 16, 3), "warning", False)


def bookie(
    name: str, overdue: int, by: VerifiedBy = VerifiedBy.READS, rate: int | None = None
) -> VerifiedBookie:
    return VerifiedBookie(name, by, SINCE, (), CopiesByAge(100, overdue=overdue), rate)


def verification(*bookies: VerifiedBookie) -> Verification:
    overdue = sum(one.counts.overdue for one in bookies if one.counts)
    counts = CopiesByAge(100 * len(bookies), overdue=overdue, oldest=SINCE)
    return Verification(1, 30 * DAY_MS, 131_072, counts, bookies)


def test_the_bookies_with_the_greatest_shares_are_named_first() -> None:
    """The rate is what the slowest of them needs; those that runs do not read are named apart."""
    found = judge_overdue(
        verification(
            bookie("b1", 5, rate=200_000),
            bookie("b2", 90, rate=5_000_000),
            bookie("b3", 0),
            bookie("b4", 100, VerifiedBy.NOTHING),
            bookie("b5", 1, VerifiedBy.SCRUB),
            bookie("b6", 3, VerifiedBy.UNANSWERED),
        ),
        (),
    )
    facts = OverdueFacts(
        period_ms=30 * DAY_MS,
        copies_due=600,
        overdue=199,
        oldest_read_ms=1_767_225_600_000,
        bookies=5,
        some_bookies=("b4", "b2", "b1", "b6", "b5"),
        bytes_per_second=131_072,
        rate_needed=5_000_000,
        not_read=1,
        some_not_read=("b4",),
        scrubbed=1,
        some_scrubbed=("b5",),
        unanswered=1,
        some_unanswered=("b6",),
        reads_unanswered=0,
    )
    assert Finding(Kind.VERIFICATION_OVERDUE, facts) == found


@pytest.mark.parametrize(
    "verified",
    [
        verification(bookie("b1", 0)),
        replace(verification(bookie("b1", 9)), counts=None),
        verification(),
    ],
    ids=["nothing overdue", "not counted", "no bookie"],
)
def test_no_finding_where_no_copy_is_known_to_be_overdue(verified: Verification) -> None:
    """A run that does not count says nothing."""
    assert judge_overdue(verified, ()) is None
    assert [] == overdue_findings(verified, ABOUT, ())


def test_bookies_that_are_away_are_not_named() -> None:
    """They are in maintenance or not registered: other findings are about them."""
    found = judge_overdue(verification(bookie("b1", 5), bookie("b2", 5)), {"b1"})
    assert found is not None and isinstance(found.facts, OverdueFacts)
    assert ("b2",) == found.facts.some_bookies


def test_the_witness_says_where_how_many_and_what_would_keep_the_period() -> None:
    """The rate is rounded up to a size as the setting takes it."""
    verified = verification(
        bookie("b1", 5, rate=5_000_000), bookie("b4", 100, VerifiedBy.NOTHING), bookie("b5", 0)
    )
    (record,) = overdue_findings(verified, ABOUT, ())
    assert (
        "Each of 300 copies should be read once in 30 days (--verify-within). 105 of them (35 %)"
        " were not, on 2 bookies: b4, b1. The oldest read of a copy was made at 2026-01-01 00:00:00"
        " UTC. --verify-bytes-per-second is 128KiB. With 5MiB runs as far apart as these would read"
        " those that list within the period, and would take longer. Runs do not read b4 for this:"
        " they read bookies that list by themselves. A lister with --scrub reads the others."
        in record.witness
    )
    assert record.is_on_cluster
    (look,) = record.looks
    assert {"reads of copies": "105 of 300 copies overdue"} == look.answers


def test_the_witness_says_nothing_of_a_rate_that_would_not_help() -> None:
    """No bookie is read, and no read is known."""
    verified = verification(bookie("b4", 100, VerifiedBy.NOTHING))
    assert verified.counts is not None
    unread = replace(verified, counts=replace(verified.counts, oldest=None))
    (record,) = overdue_findings(unread, ABOUT, ())
    assert "bytes-per-second" not in record.witness
    assert "No read of any copy is known." in record.witness
    assert "No scrub" not in record.witness
    (record,) = overdue_findings(verification(bookie("b5", 1, VerifiedBy.SCRUB)), ABOUT, ())
    assert "No scrub of b5 that checked every record began" in record.witness
    assert "answer" not in record.witness
    assert isinstance(finding_of(Kind.VERIFICATION_OVERDUE).facts, OverdueFacts)


def test_the_witness_says_what_was_not_answered() -> None:
    """Neither a rate nor a lister would help a bookie that is silent."""
    (record,) = overdue_findings(verification(bookie("b7", 9, VerifiedBy.UNANSWERED)), ABOUT, ())
    assert "b7 did not answer this run, or answered too few of its reads." in record.witness
    assert "bytes-per-second" not in record.witness and "Runs do not read" not in record.witness
    one = replace(bookie("b1", 1), unanswered=((7, 1, 0),))
    (record,) = overdue_findings(verification(one), ABOUT, ())
    assert "1 read on the bookies that runs read had no answer when last made" in record.witness
