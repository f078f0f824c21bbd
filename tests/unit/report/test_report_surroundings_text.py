"""What the report says of maintenance, of bookies that are away, of placement, and of the cluster
as a whole.
"""

from __future__ import annotations

from typing import Any

import pytest
from support import report_stories as stories

from auditor.model.finding import Kind
from auditor.model.verdict import Unknown
from auditor.report.layout import NAMES_SHOWN_MAX
from auditor.report.surroundings_text import malformed_sentence, name_some, placement_words
from auditor.report.text import render
from auditor.report.unjudged_text import what_to_do

BOOKIES = stories.summary().as_json()["bookies"]


def flat(**changes: Any) -> str:
    """Return a report on one line."""
    return " ".join(render(stories.summary(**changes), []).split())


def away(*pairs: tuple[str, str], ledgers: int = 0) -> dict[str, Any]:
    return {"bookies": [{"bookie_id": b, "found": found} for b, found in pairs], "ledgers": ledgers}


def test_bookies_in_maintenance_are_reported_with_how_they_were_found():
    """The sentence has the number of ledgers that could not be judged. A bookie that answers should
    be taken out of --maintenance.
    """
    text = away(("b1", "silent"), ("b2", "not_registered"), ("b3", "answered"), ledgers=12)
    said = flat(maintenance=text)
    assert (
        "In planned maintenance: b3 answering; b2 not registered; b1 registered and silent. 12"
        " ledgers could not" in said
    )
    assert "b3 answers: take what is back out of --maintenance." in said


def test_a_name_that_no_bookie_has_is_a_warning():
    """With a misspelt name, the bookie that was meant would be accused."""
    assert "WARNING: no bookie of this cluster is named b9" in flat(
        maintenance=away(("b9", "no_such_bookie"))
    )
    assert "aintenance" not in flat(maintenance=away())


def test_there_is_nothing_to_do_about_what_is_in_maintenance():
    """The report does not propose to re-replicate a bookie that will be back. Other unregistered
    bookies are still named.
    """
    silent = Unknown.BOOKIE_SILENT
    unheard = {"silent": ["b1"], "unregistered": ["b2"]}
    assert "maintenance" in what_to_do(silent, unheard, frozenset({"b1", "b2"}))
    assert "listledgers -bookieid b2" in what_to_do(silent, unheard, frozenset({"b1"}))
    assert "listledgers -bookieid" not in what_to_do(silent, unheard, frozenset({"b2"}))
    assert "maintenance" not in what_to_do(silent, {}, frozenset({"b1"}))


def test_bookies_that_are_not_registered_stand_in_the_line_of_bookies():
    """This does not depend on findings. A bookie without a cookie is called gone, as in a witness.
    A bookie with a cookie may come back.
    """
    away = flat(bookies=BOOKIES | {"away": 2}, bookies_away=["b4", "b5"])
    assert "5 answered; 2 with a cookie and no registration (b4, b5)" in away
    gone = flat(bookies=BOOKIES | {"away": 1, "gone": 1}, bookies_away=["b4"], bookies_gone=["b5"])
    assert "no registration (b4); 1 gone, with neither a cookie nor a registration (b5)" in gone
    assert "gone" not in away and "gone" not in flat() and "cookie" not in flat()


@pytest.mark.parametrize(
    ("said", "placement"),
    [
        (
            "placement: not judged (placement_policy is none)",
            {"policy": "none", "compat": "assigned"},
        ),
        ("placement rack-aware, by assigned location", {"policy": "rack", "compat": "assigned"}),
        (
            "placement zone-aware, as BookKeeper's own classes judge",
            {"policy": "zone", "compat": "java"},
        ),
        (
            "placement region-aware, by assigned location; no location of b1, b2 and 5 more",
            {
                "policy": "region",
                "compat": "assigned",
                "without_location": 7,
                "bookies_without_location": ["b1", "b2"],
            },
        ),
    ],
)
def test_the_placement_policy_of_a_run_is_one_line(said: str, placement: dict[str, Any]):
    """This includes a run without a policy."""
    assert said == placement_words(stories.summary(placement=placement))
    assert said in flat(placement=placement)


def test_names_are_bounded():
    """Ten names are given, then a count."""
    assert f"and {40 - NAMES_SHOWN_MAX} more" in name_some([f"b{n}" for n in range(40)])


def test_a_finding_on_the_cluster_is_reported_as_such():
    """The text names neither a ledger nor a bookie. What was listed stands beside the looks."""
    found = stories.finding(
        Kind.LEDGER_POPULATION_DROPPED, "cluster", witness="This run listed 411."
    )
    said = render(
        stories.summary(findings=stories.counted([found]), outcome="VIOLATED", exit_code=1), [found]
    )
    assert "None" not in said
    flattened = " ".join(said.split())
    assert "CRITICAL LEDGER_POPULATION_DROPPED the cluster" in flattened
    assert "the cluster as a whole needs attention" in flattened
    assert "listing 411 ledgers 411 ledgers" in flattened


def test_a_malformed_mark_is_named_with_its_path():
    """`listunderreplicated` would fail at it. Of several, the first is named."""
    one = stories.summary(malformed_marks=["/ledgers/underreplication/ledgers/urL-7"])
    assert (
        "Malformed mark of under-replication: /ledgers/underreplication/ledgers/urL-7 marks no"
        in (malformed_sentence(one))
    )
    assert "/a and 1 more (malformed_marks in summary.json) mark no ledger" in malformed_sentence(
        stories.summary(malformed_marks=["/a", "/b"])
    )
    assert "" == malformed_sentence(stories.summary())
