"""The comparison of findings on bookies and on the cluster: equal findings stand, all others are
withheld."""

from __future__ import annotations

from dataclasses import replace

from auditor.model.bookie_facts import SilentFacts
from auditor.model.finding import Finding, Kind
from auditor.second_checker.finding_comparison import SIDE_CHARS_MAX, Difference, agree_on

SILENT = Kind.BOOKIE_SILENT_YET_REGISTERED
FACTS = SilentFacts("writable", "h:3181", 2, "timed out", None, False)
ONE, OTHER = (Finding(SILENT, FACTS, bookie_id=bookie) for bookie in ("b1", "b2"))


def test_findings_that_both_make_stand_in_their_order() -> None:
    """No sentence is written."""
    assert ([OTHER, ONE], []) == agree_on(
        [OTHER, ONE], {(SILENT, "b1"): FACTS, (SILENT, "b2"): FACTS}
    )


def test_a_finding_with_another_fact_is_withheld_alone() -> None:
    """The sentence has both sides, each shortened."""
    long = replace(FACTS, looks=3, detail="x" * 500)
    found, (differ,) = agree_on([ONE, OTHER], {(SILENT, "b1"): long, (SILENT, "b2"): FACTS})
    assert [OTHER] == found
    assert "b1" == differ.bookie_id
    assert "looks: the first says 2, the second 3; detail: the first says timed" in differ.detail
    assert (
        f"{'x' * SIDE_CHARS_MAX}..." in differ.detail
        and "x" * (SIDE_CHARS_MAX + 1) not in differ.detail
    )
    assert differ.sentence.startswith(
        f"{SILENT.value} on bookie b1 is withheld: our two checkers differ on the same evidence ("
    )


def test_a_finding_that_one_of_them_makes_is_withheld() -> None:
    """It does not matter which checker makes it; what the first one overlooked comes last."""
    found, differ = agree_on(
        [ONE], {(SILENT, "b2"): FACTS, (Kind.MARK_WITHOUT_LEDGER, None): FACTS}
    )
    assert [] == found
    assert ["b1", "b2", None] == [one.bookie_id for one in differ]
    assert ["the first checker finds it", "the second checker finds it"] == [
        one.detail.split(",")[0] for one in differ[:2]
    ]
    assert "on the cluster" in differ[2].sentence


def test_a_difference_on_what_is_unknown_withholds_nothing() -> None:
    """Its sentence names the difference and the ledger."""
    on_ledger = Difference(Kind.REFERENCED_LEDGER_MISSING, None, "x", 7, is_withheld=False)
    differ = "our two checkers differ on the same evidence"
    assert f"{differ} about ledger 7 (x)" == on_ledger.sentence
    assert f"{differ} (x)" == on_ledger._replace(ledger_id=None).sentence


def test_findings_on_ledgers_are_compared_ledger_by_ledger() -> None:
    """The one that differs is withheld; its sentence names the ledger."""
    missing = Kind.REFERENCED_LEDGER_MISSING
    one, other = (Finding(missing, FACTS, ledger_id=number, bookie_id="b1") for number in (7, 8))
    found, (differ,) = agree_on(
        [one, other], {(missing, 7): replace(FACTS, looks=3), (missing, 8): FACTS}
    )
    assert [other] == found
    assert Difference(missing, None, "looks: the first says 2, the second 3", 7) == differ
    assert differ.sentence.startswith(f"{missing.value} on ledger 7 is withheld: ")


def test_what_the_first_overlooked_is_sorted_by_kind_and_subject() -> None:
    """The order in which the second checker found it does not matter, nor what it is about."""
    lost = Kind.BOOKIE_LOST_CONTENT
    subjects = [(SILENT, "b2"), (SILENT, None), (lost, "b3"), (SILENT, 7), (SILENT, "b1")]
    _, differ = agree_on([], dict.fromkeys(subjects, FACTS))
    overlooked = "the second checker finds it, the first does not"
    assert [
        Difference(lost, "b3", overlooked),
        Difference(SILENT, None, overlooked, 7),
        Difference(SILENT, None, overlooked),
        Difference(SILENT, "b1", overlooked),
        Difference(SILENT, "b2", overlooked),
    ] == differ


def test_what_just_fits_is_not_cut() -> None:
    """A text of exactly the maximum length is kept."""
    _, (differ,) = agree_on([ONE], {(SILENT, "b1"): replace(FACTS, detail="x" * SIDE_CHARS_MAX)})
    assert differ.detail.endswith("x" * SIDE_CHARS_MAX)
