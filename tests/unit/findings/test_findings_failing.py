"""Findings on bookies that are up and fail every request."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from auditor.findings.failing_requests import (
    FAILING_LEDGERS_MIN,
    Refusals,
    judge_failing,
    withheld_failing,
)
from auditor.model.availability import Greeting
from auditor.model.cluster import BookieRecord, ClusterFacts, Registration
from auditor.model.facts import FailingFacts
from auditor.model.finding import Finding, Kind, Severity
from auditor.witness.finding_lines import bookie_testimony

CLUSTER = ClusterFacts("zk://h/ledgers", ("h",), "/ledgers", "hierarchical", "id", False, None)
BAD = BookieRecord("bad", 0, 0, Registration.WRITABLE, "h", 3181, greeting=Greeting.ANSWERED)
WELL = replace(BAD, bookie_id="well")
REFUSED = Refusals(FAILING_LEDGERS_MIN, (4, 5, 6), 7, 2, (("EIO", 8), ("EUA", 1)))


def look(*records: BookieRecord) -> Mapping[str, BookieRecord]:
    return {record.bookie_id: record for record in records}


def found(
    *records: BookieRecord, refusals: Refusals = REFUSED, away: frozenset[str] = frozenset()
) -> list[Finding]:
    return judge_failing([look(WELL, record) for record in records], {"bad": refusals}, away)


def test_a_bookie_that_refuses_everything_is_found() -> None:
    """It is registered and connected at both looks, whether it answers or refuses GET_BOOKIE_INFO;
    the finding has all facts. They are those of the last look.
    """
    facts = FailingFacts("writable", "h:3181", 2, 3, (4, 5, 6), 7, 2, (("EIO", 8), ("EUA", 1)))
    (one,) = found(BAD, BAD)
    assert Finding(Kind.BOOKIE_FAILING_REQUESTS, facts, bookie_id="bad") == one
    assert Severity.WARNING is one.severity
    (one,) = found(BAD, BAD, replace(BAD, host="moved", registration=Registration.READONLY))
    assert replace(facts, registration="readonly", address="moved:3181", looks=3) == one.facts
    for greeting in (Greeting.REFUSED, Greeting.UNSUPPORTED):
        assert 1 == len(found(BAD, replace(BAD, greeting=greeting)))


@pytest.mark.parametrize(
    "other",
    [
        replace(BAD, greeting=Greeting.SILENT),
        replace(BAD, greeting=None),
        replace(BAD, greeting=Greeting.ADDRESS_UNKNOWN, host=None),
        replace(BAD, registration=Registration.NONE, greeting=Greeting.UNREGISTERED),
    ],
)
def test_at_both_looks_it_must_be_registered_and_connect(other: BookieRecord) -> None:
    """If it is not registered or not connected at one of the looks, in either order, there is no
    such finding.
    """
    assert [] == found(BAD, other) == found(other, BAD)


def test_one_look_or_few_ledgers_are_no_finding() -> None:
    """One look, or two ledgers, are not enough for a finding."""
    assert [] == found(BAD)
    assert [] == found(BAD, BAD, refusals=replace(REFUSED, ledgers=FAILING_LEDGERS_MIN - 1))


def test_nothing_is_found_on_a_bookie_in_maintenance() -> None:
    """A bookie in maintenance is known to be down."""
    assert [] == found(BAD, BAD, away=frozenset({"bad"}))


def test_where_every_bookie_refuses_it_is_our_credentials() -> None:
    """If no bookie answers, nothing is reported on bookies: our credentials are wrong."""
    refusing = [replace(one, greeting=Greeting.REFUSED) for one in (BAD, WELL)]
    assert [] == judge_failing(
        [look(*refusing), look(*refusing)], {"bad": REFUSED, "well": REFUSED}
    )


def test_over_ledgers_that_were_named_it_is_withheld() -> None:
    """In a run over named ledgers, refusals for these say nothing of the rest."""
    (sentence,) = withheld_failing({"bad": REFUSED, "few": replace(REFUSED, ledgers=2)})
    assert "bookie bad refused each request about 3 ledgers" in sentence


def test_the_witness_counts_requests_and_statuses() -> None:
    """It has lists and reads, each error status and the ledgers, and proposes nothing that changes
    the cluster.
    """
    (one,) = found(BAD, BAD)
    testimony = bookie_testimony(one, [BAD, BAD], CLUSTER)
    assert (
        "each of 7 lists and 2 reads ended in an error status (EIO: 8, EUA: 1)" in testimony.witness
    )
    assert "3 ledgers were refused at two looks or more (4, 5, 6)." in testimony.witness
    assert not any(command.startswith("CHANGES") for command in testimony.next)
    (unable,) = found(BAD, BAD, refusals=replace(REFUSED, lists=0))
    assert (
        "because it cannot list them): each of 2 reads"
        in bookie_testimony(unable, [BAD], CLUSTER).witness
    )
