"""What the first screen says of bookies that cannot list."""

from __future__ import annotations

from typing import Any

import pytest
from support import report_stories as stories

from auditor.model.summary import Assurance
from auditor.model.verdict import Unknown
from auditor.report.surroundings_text import probed_words
from auditor.report.text import render

PROBED = {
    "listed": 500,
    "probed": 412,
    "probes": 2_060,
    "random_probes": 1_236,
    "missing_bound": 0.002427,
    "probe_entries": 3,
}


BOOKIES = stories.summary().as_json()["bookies"]
BOUNDS = {"1": 0.000244, "10": 0.002441, "100": 0.024414, "1000": 0.24414}
SAMPLING = {
    "budget": 10_000,
    "step": 4_096,
    "bounds": BOUNDS,
    "accumulated": {"runs": 1, "since": "", "bounds": BOUNDS},
}


def flat(**changes: Any) -> str:
    """Return a report on one line."""
    return " ".join(render(stories.summary(**changes), []).split())


def test_how_many_bookies_cannot_list_is_on_the_first_screen():
    """The sentence has what was read instead, and a bound on what may be missing, rounded up."""
    said = flat(bookies=BOOKIES | {"unsupported": 2}, assurance=PROBED)
    assert (
        "2 of 5 bookies gave no list of entries (as with DbLedgerStorage): 2,060 entries were"
        " read there instead, 1,236 of them drawn at random; none missing: at most 0.25 % of what"
        " was sampled from is missing at 95 %. 412 ledgers there were found sound or in violation."
        in said
    )


def test_without_probing_the_first_screen_says_what_is_not_judged():
    """It also names the flag that turns probing on. Ledgers in violation carry the reason too: they
    are judged, but not in full.
    """
    unjudged = {"indeterminate": {Unknown.BOOKIE_UNSUPPORTED.value: 412}}
    said = flat(
        bookies=BOOKIES | {"unsupported": 2},
        assurance=PROBED | {"probe_entries": 0, "probed": 0},
        **unjudged,
    )
    assert (
        "412 ledgers are not judged, or not in full, on their account, because probing is off;"
        " --probe-entries 3 has a few" in said
    )


def test_a_sample_that_found_entries_missing_gives_no_bound():
    """The findings say what is missing."""
    said = flat(bookies=BOOKIES | {"unsupported": 2}, assurance=PROBED | {"missing_bound": None})
    assert "no bound can be given" in said and "at 95 %" not in said


def test_how_sure_a_loss_was_found_is_on_the_first_screen():
    """The chance is given for this run, and for all runs since a moment for losses before that
    moment.
    """
    said = flat(bookies=BOOKIES | {"unsupported": 2}, assurance=PROBED, sampling=SAMPLING)
    assert (
        "Of each of these that was judged in full, 1 in 4,096 of the entries that such a bookie"
        " should hold was read, other ones in each run. A run of entries of one such ledger that"
        " one bookie lost was found with a chance of 0.02 % (1 entry), 0.24 % (10 entries), 2.44 %"
        " (100 entries) and 24.41 % (1,000 entries) in this run." in said
    )
    assert "If it was lost before" not in said
    together = {"runs": 12, "since": "2026-03-01T02:00:00Z", "bounds": BOUNDS | {"1000": 1.0}}
    said = flat(assurance=PROBED, sampling=SAMPLING | {"accumulated": together})
    assert (
        "If it was lost before 2026-03-01T02:00:00Z, with 0.02 % (1 entry), 0.24 % (10 entries),"
        " 2.44 % (100" in said
    )
    assert (
        "and 100.00 % (1,000 entries) in the 12 counted runs since then, in ledgers that did not"
        " change and that each" in said
    )


def test_where_every_entry_was_read_no_chance_is_given():
    """The same holds if none was read: then the report names the setting to change."""
    whole = {
        "budget": 10_000,
        "step": 1,
        "bounds": dict.fromkeys(BOUNDS, 1.0),
        "accumulated": {"runs": 9},
    }
    said = flat(assurance=PROBED | {"random_probes": 0, "missing_bound": None}, sampling=whole)
    assert (
        "2,060 entries were read there instead. 412 ledgers there were found sound or in violation."
        " Of each of these that was judged in full, every entry that such" in said
    )
    assert "chance" not in said and "runs since" not in said
    off = flat(
        assurance=PROBED, sampling={"budget": 0, "step": None, "bounds": None, "accumulated": None}
    )
    assert (
        "No chance can be given that a run of lost entries was found there: none was read by rank"
        " (--probe-budget)." in off
    )


def test_of_listed_ledgers_no_chance_is_given():
    """Every entry was on a list."""
    assert "chance" not in flat(assurance=PROBED | {"probed": 0}, sampling=SAMPLING)


def test_where_every_bookie_can_list_nothing_is_said_of_it():
    """No sentence mentions bookies that cannot list."""
    assert "cannot list" not in flat(
        assurance=PROBED | {"probed": 0, "probes": 0, "random_probes": 0}
    )


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ((0, 0, 0), "no entry could be read there instead."),
        (
            (0, 5, 3),
            "5 entries were read there instead, 3 of them drawn at random; no ledger there was"
            " found sound or in violation.",
        ),
        (
            (0, 1, 0),
            "1 entry was read there instead; no ledger there was found sound or in violation.",
        ),
    ],
)
def test_reads_that_judged_nothing_are_not_called_a_judgement(
    counts: tuple[int, int, int], expected: str
):
    """Nothing was read, another bookie of each ledger was silent, or a mark excuses each."""
    probed, read, drawn = counts
    assurance = {"probed": probed, "probes": read, "random_probes": drawn, "missing_bound": 1.0}
    assert expected == probed_words(Assurance(**assurance))


@pytest.mark.parametrize(
    ("bound", "expected"),
    [
        (
            0.001,
            "3,000 entries were read there instead, 2,998 of them drawn at random; none missing: at"
            " most 0.10 % of what was sampled from is missing at 95 %. 1 ledger there was found"
            " sound or in violation.",
        ),
        (
            None,
            "3,000 entries were read there instead, 2,998 of them drawn at random; some of what was"
            " read is missing, so no bound can be given. 1 ledger there was found sound or in"
            " violation.",
        ),
    ],
)
def test_entries_read_are_not_said_to_be_those_of_the_judged_ledgers(
    bound: float | None, expected: str
):
    """Entries of unjudged and exempt ledgers are read too, and are counted."""
    assurance = {"probed": 1, "probes": 3_000, "random_probes": 2_998, "missing_bound": bound}
    assert expected == probed_words(Assurance(**assurance))
