"""What a summary has beside the counts: bookies that are gone or in maintenance, placement, and
what verdicts rest on.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from support.report_stories import finding

from auditor.evidence.schemas import VERDICTS
from auditor.evidence.table_scan import TableScan, scan_rows
from auditor.model.availability import LISTED_BY_LISTER, Answer, AnswerStatus, Greeting
from auditor.model.cluster import BookieRecord, Registration, Surroundings
from auditor.model.codec import encode
from auditor.model.evidence import LedgerEvidence, Look, PlacementRule, Policy, Terms
from auditor.model.finding import Kind
from auditor.model.finding_record import FindingRecord
from auditor.model.ledger import LedgerRecord, RecordStatus
from auditor.model.verdict import BookieLack, Exempt, Probes, Standing, Unknown, Verdict
from auditor.summary.assurance import (
    BOOKIES_NAMED_MAX,
    assurance_of_ledgers,
    maintenance_of_ledgers,
)
from auditor.summary.run_summary import (
    assurance_of_run,
    away_bookies,
    bookie_counts,
    gone_bookies,
    maintenance,
    placement,
    unheard,
)

TERMS = Terms(9_000, 1_000, 16, 5, probe_entries=3)
WRITABLE, NONE = Registration.WRITABLE, Registration.NONE


def bookie(
    name: str,
    greeting: Greeting | None,
    registration: Registration = WRITABLE,
    look: int = 1,
    *,
    cookie: bool = True,
):
    return BookieRecord(name, look, 0, registration, "h", 1, cookie, "", greeting)


AWAY = bookie("away", Greeting.UNREGISTERED, NONE)
FORGOTTEN = bookie("forgotten", Greeting.UNREGISTERED, NONE, cookie=False)
SILENT = bookie("silent", Greeting.SILENT)
WELL = bookie("well", Greeting.ANSWERED)
UNABLE = bookie("unable", Greeting.UNSUPPORTED)
IDLE = bookie("idle", None)


def rows(*verdicts: dict[str, Any]) -> TableScan:
    """Return VERDICTS rows; fields that are not given are null."""
    ledgers = [
        {"ledger_id": n, "standing": "sound", "assurance": "listed"} | one
        for n, one in enumerate(verdicts)
    ]
    return scan_rows(pa.Table.from_pylist(ledgers, schema=VERDICTS))


def lacking(bookie: str) -> FindingRecord:
    return finding(Kind.ENTRY_BELOW_WRITE_QUORUM, 7, missing_on={bookie: [[0, 0]]})


def probed_row(probes: int, random: int, standing: str = "sound") -> dict[str, Any]:
    return {"assurance": "probed", "probes": probes, "random_probes": random, "standing": standing}


def test_a_bookie_without_registration_is_away_with_a_cookie_and_gone_without():
    """It does not matter whether the bookie has a finding. A bookie that registered again is
    neither.
    """
    back = [bookie("back", Greeting.UNREGISTERED, NONE), bookie("back", Greeting.ANSWERED, look=2)]
    records = [AWAY, FORGOTTEN, WELL, *back]
    assert (["away"], 1) == (
        encode(away_bookies(records)),
        encode(bookie_counts(records, 0))["away"],
    )
    assert (["forgotten"], 1) == (
        encode(gone_bookies(records)),
        encode(bookie_counts(records, 0))["gone"],
    )


def test_nobody_is_gone_where_nobody_has_a_cookie():
    """A missing cookie proves nothing then."""
    records = [FORGOTTEN, replace(WELL, has_cookie=False)]
    assert ([], 0, 0) == (
        encode(gone_bookies(records)),
        encode(bookie_counts(records, 0))["gone"],
        encode(bookie_counts(records, 0))["away"],
    )


def test_few_of_many_that_are_away_are_named():
    """BOOKIES_NAMED_MAX are named, and all are counted."""
    records = [bookie(f"b{n:02}", Greeting.UNREGISTERED, NONE) for n in range(40)]
    assert (BOOKIES_NAMED_MAX, 40) == (
        len(encode(away_bookies(records))),
        encode(bookie_counts(records, 0))["away"],
    )


@pytest.mark.parametrize(
    ("found", "name"),
    [
        ("not_registered", "away"),
        ("not_registered", "forgotten"),
        ("silent", "silent"),
        ("answered", "well"),
        ("answered", "unable"),
        ("not_asked", "idle"),
        ("no_such_bookie", "typo"),
    ],
)
def test_how_a_bookie_in_maintenance_was_found_is_reported(found: str, name: str):
    """It may answer, or no bookie may have the name."""
    terms = replace(TERMS, around=Surroundings(maintenance=frozenset({name})))
    as_json = encode(maintenance([AWAY, FORGOTTEN, SILENT, WELL, UNABLE, IDLE], terms, rows()))
    assert {"bookies": [{"bookie_id": name, "found": found}], "ledgers": 0} == as_json


def test_ledgers_that_only_maintenance_kept_from_being_judged_are_counted():
    """The rows of their verdicts say so."""
    away = {"standing": "indeterminate", "only_maintenance": True}
    assert (
        2
        == encode(maintenance([], TERMS, rows(away, away, {"only_maintenance": False}, {})))[
            "ledgers"
        ]
    )


def test_a_bookie_without_a_location_is_named_where_placement_is_judged():
    """Without a placement policy no bookie needs a location."""
    around = Surroundings(locations={"well": "/r1"})
    rack = replace(TERMS, around=around, placement=PlacementRule(Policy.RACK, java_compatible=True))
    expected = {
        "policy": "rack",
        "compat": "java",
        "without_location": 1,
        "bookies_without_location": ["silent"],
    }
    assert expected == encode(placement([WELL, SILENT], rack))
    none = {
        "policy": "none",
        "compat": "assigned",
        "without_location": 0,
        "bookies_without_location": [],
    }
    assert none == encode(placement([WELL, SILENT], TERMS))


def test_ledgers_count_by_what_their_verdicts_rest_on():
    """Only sound and violated ledgers are counted. Probes are counted for each ledger that rests on
    them, judged or not.
    """
    table = rows(
        {},
        {"standing": "violated", "probes": 9, "random_probes": 9},
        {"standing": "exempt"},
        probed_row(5, 3),
        probed_row(2, 0, "indeterminate"),
    )
    said = encode(assurance_of_run([WELL, UNABLE], TERMS, table, []))
    assert (2, 1, 7, 3) == tuple(
        said[name] for name in ("listed", "probed", "probes", "random_probes")
    )
    assert (["unable"], 3) == (said["bookies_unable"], said["probe_entries"])


def test_a_bookie_with_a_lister_is_unable_where_some_ledger_was_only_probed():
    """Its lister did not list that ledger. If all ledgers were listed, the lister has listed for
    the bookie.
    """
    helped = replace(WELL, bookie_id="helped", greeting_detail=f"{LISTED_BY_LISTER}h:3182")
    assert ["helped", "unable"] == sorted(
        encode(assurance_of_run([helped, UNABLE], TERMS, rows({}, probed_row(5, 3)), []))[
            "bookies_unable"
        ]
    )
    assert ["unable"] == encode(assurance_of_run([helped, UNABLE], TERMS, rows({}), []))[
        "bookies_unable"
    ]


@pytest.mark.parametrize(
    ("bound", "random", "missing_on"),
    [
        (0.03, 100, None),
        (1.0, 1, None),
        (None, 0, None),
        (None, 100, "unable"),
        (0.03, 100, "well"),
    ],
)
def test_the_bound_holds_where_no_probe_found_an_entry_missing(
    bound: float | None, random: int, missing_on: str | None
):
    """The bound is 3 divided by the number of random probes. A lack on a bookie that can list does
    not affect the sample.
    """
    findings = [lacking(missing_on)] if missing_on else []
    assert (
        bound
        == encode(
            assurance_of_run([WELL, UNABLE], TERMS, rows(probed_row(random + 2, random)), findings)
        )["missing_bound"]
    )


def test_an_entry_missing_from_an_excused_ledger_ends_the_bound_too():
    """Its probes are part of the sample, though a mark within grace excuses the ledger."""
    excused = Verdict(
        1,
        Standing.EXEMPT,
        Exempt.MARKED_UNDERREPLICATED,
        probes=Probes(5, 3),
        lacks=(BookieLack("unable", 10, 1),),
    )
    row = probed_row(5, 3, "exempt") | {
        "lacks": [{"bookie_id": "unable", "expected": 10, "absent": 1}]
    }
    look = Look(
        LedgerRecord(1, 1, 0, RecordStatus.FOUND),
        {"unable": Answer("unable", 1, 1, 0, AnswerStatus.UNSUPPORTED)},
    )
    by_ledger = encode(assurance_of_ledgers([(LedgerEvidence(1, (look,)), excused)], TERMS, []))
    assert (None, None) == (
        encode(assurance_of_run([UNABLE], TERMS, rows(row), []))["missing_bound"],
        by_ledger["missing_bound"],
    )


def test_single_ledgers_are_reported_in_the_same_words():
    """`auditor ledger` gives the fields that a run gives for the same ledgers and the bookies that
    were asked.
    """
    record = LedgerRecord(1, 1, 0, RecordStatus.FOUND)
    statuses = {
        "unable": AnswerStatus.UNSUPPORTED,
        "gone": AnswerStatus.UNREGISTERED,
        "well": AnswerStatus.HELD,
    }
    look = Look(record, {b: Answer(b, 1, 1, 0, status) for b, status in statuses.items()})
    judged = [
        (LedgerEvidence(1, (look,)), Verdict(1, Standing.SOUND, probes=Probes(5, 3))),
        (
            LedgerEvidence(2, (look,)),
            Verdict(
                2, Standing.INDETERMINATE, unknowns=(Unknown.BOOKIE_SILENT,), only_maintenance=True
            ),
        ),
    ]
    terms = replace(
        TERMS, around=Surroundings(maintenance=frozenset({"gone", "well", "not asked"}))
    )
    by_rows = encode(
        assurance_of_run([UNABLE], terms, rows(probed_row(5, 3), {"standing": "indeterminate"}), [])
    )
    assert by_rows == encode(assurance_of_ledgers(judged, terms, []))
    found = {
        one["bookie_id"]: one["found"]
        for one in encode(maintenance_of_ledgers(judged, terms))["bookies"]
    }
    assert {"gone": "not_registered", "well": "answered"} == found
    assert 1 == encode(maintenance_of_ledgers(judged, terms))["ledgers"]


def test_bookies_that_gave_no_word_are_named_by_how_they_failed_to():
    """The last look decides how. A bookie that answered at any look is not named. A few of each
    sort are named, sorted.
    """
    back = [bookie("back", Greeting.ANSWERED), bookie("back", Greeting.SILENT, look=2)]
    found = encode(
        unheard(
            [
                *back,
                AWAY,
                UNABLE,
                WELL,
                IDLE,
                SILENT,
                bookie("mute", Greeting.SILENT),
                bookie("shut", Greeting.REFUSED),
            ]
        )
    )
    assert {
        "silent": ["mute", "silent"], "refused": ["shut"], "unsupported": ["unable"],
        "unregistered": ["away"],
        "address_unknown": [], "auditor_limited": [],
    } == found  # fmt: skip
    assert BOOKIES_NAMED_MAX == len(
        encode(unheard([bookie(f"b{n:02}", Greeting.SILENT) for n in range(40)]))["silent"]
    )


def test_a_gone_bookie_stands_behind_no_unknown_copy():
    """Its copies count as absent. If no bookie has a cookie, a missing cookie proves nothing."""
    assert ["away"] == encode(unheard([AWAY, FORGOTTEN, WELL]))["unregistered"]
    assert [] == encode(unheard([FORGOTTEN, WELL]))["unregistered"]
    without = bookie("well", Greeting.ANSWERED, cookie=False)
    assert ["forgotten"] == encode(unheard([FORGOTTEN, without]))["unregistered"]


def test_a_bookie_in_maintenance_that_answered_once_is_reported_as_answering():
    """Its silence at a later look does not matter."""
    terms = replace(TERMS, around=Surroundings(maintenance=frozenset({"b"})))
    records = [bookie("b", Greeting.ANSWERED), bookie("b", Greeting.SILENT, look=2)]
    assert [{"bookie_id": "b", "found": "answered"}] == encode(maintenance(records, terms, rows()))[
        "bookies"
    ]
