"""The catalogue of kinds (docs/names.md)."""

from __future__ import annotations

import pytest
from support.findings_by_kind import finding_of

from auditor.model.finding import (
    CATALOGUE,
    RANGES_MAX,
    Family,
    FindingSegment,
    Kind,
    Severity,
    Subject,
)
from auditor.model.ledger import Segment

DOCUMENTED = {
    "ENTRY_WITHOUT_REPLICA": ("critical", "entry", "ledger"),
    "ENTRY_BELOW_ACK_QUORUM": ("critical", "entry", "ledger"),
    "ENTRY_BELOW_WRITE_QUORUM": ("warning", "entry", "ledger"),
    "ENSEMBLE_DUPLICATE_BOOKIE": ("warning", "placement", "ledger"),
    "UNDERREPLICATED_BEYOND_GRACE": ("warning", "mark", "ledger"),
    "BOOKIE_SILENT_YET_REGISTERED": ("warning", "bookie", "bookie"),
    "BOOKIE_LOST_UNNOTICED": ("critical", "bookie", "bookie"),
    "METADATA_MALFORMED": ("warning", "metadata", "ledger"),
}


@pytest.mark.parametrize("name", DOCUMENTED)
def test_a_kind_is_what_docs_names_says(name: str) -> None:
    """Severity, family and subject are fixed."""
    facts = CATALOGUE[Kind(name)]
    assert DOCUMENTED[name] == (facts.severity.word, facts.family.value, facts.subject.value)


def test_every_kind_has_its_facts_and_every_family_its_kind() -> None:
    """Nothing falls through when findings are counted by kind."""
    assert set(Kind) == set(CATALOGUE)
    assert set(Family) == {facts.family for facts in CATALOGUE.values()}
    assert set(Subject) == {facts.subject for facts in CATALOGUE.values()}
    assert all(facts.says for facts in CATALOGUE.values())


@pytest.mark.parametrize("kind", [Kind.ENTRY_WITHOUT_REPLICA, Kind.UNDERREPLICATED_UNRECOVERABLE])
def test_a_lost_entry_is_said_to_lack_copies_only_where_the_metadata_says(kind: Kind) -> None:
    """Another bookie may hold it: the kind does not change for such a holder."""
    assert "an entry has no copy where the metadata says" in CATALOGUE[kind].says


def test_a_drop_of_the_population_is_one_from_an_earlier_run() -> None:
    """The number compared with is kept until three runs agree on another: it may be older than the
    last run's.
    """
    assert "than at an earlier run" in CATALOGUE[Kind.LEDGER_POPULATION_DROPPED].says


def test_within_a_family_the_strongest_kind_stands_first() -> None:
    """Where kinds compete for one place, the order of the enumeration goes from worse to milder."""
    for family in set(Family) - {Family.BOOKIE}:  # kinds on bookies never compete
        severities = [CATALOGUE[kind].severity for kind in Kind if CATALOGUE[kind].family is family]
        assert sorted(severities, reverse=True) == severities


def test_severities_are_ordered() -> None:
    """A worse severity is larger."""
    assert Severity.INFO < Severity.WARNING < Severity.CRITICAL


def test_a_finding_knows_its_severity_and_family_by_its_kind() -> None:
    """The kind decides both."""
    finding = finding_of(Kind.ENTRY_WITHOUT_REPLICA)
    assert (Severity.CRITICAL, Family.ENTRY) == (finding.severity, finding.family)


def test_a_findings_segment_has_the_end_that_metadata_leaves_implicit() -> None:
    """First and last entry, both inclusive, and the ensemble by position."""
    assert FindingSegment(5, 9, ("a", "b")) == FindingSegment.of(Segment(5, ("a", "b")), 9)


def test_twenty_ranges_are_shown() -> None:
    """A finding stores at most 20 ranges (docs/names.md)."""
    assert RANGES_MAX == 20
