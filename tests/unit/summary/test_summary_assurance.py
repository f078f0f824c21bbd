"""The fields `assurance` and `maintenance` for a few ledgers, made from values and without a
table.
"""

from __future__ import annotations

from typing import Any

from auditor.model.availability import Answer, AnswerStatus
from auditor.model.cluster import Surroundings
from auditor.model.codec import encode
from auditor.model.evidence import LedgerEvidence, Look, Terms
from auditor.model.ledger import LedgerRecord, RecordStatus
from auditor.model.verdict import Probes, Standing, Unknown, Verdict
from auditor.summary.assurance import assurance_of, assurance_of_ledgers, maintenance_of_ledgers
from auditor.witness.finding_lines import LISTED, PROBED

HELD, SILENT = AnswerStatus.HELD, AnswerStatus.SILENT


def evidence(ledger_id: int, *looks: dict[str, AnswerStatus]) -> LedgerEvidence:
    """Return the evidence of a ledger from the answers of each look, by bookie."""
    return LedgerEvidence(
        ledger_id,
        tuple(
            Look(
                LedgerRecord(ledger_id, number, 0, RecordStatus.FOUND),
                {
                    bookie: Answer(bookie, ledger_id, number, 0, status)
                    for bookie, status in said.items()
                },
            )
            for number, said in enumerate(looks, 1)
        ),
    )


def test_ledgers_are_counted_by_what_they_rest_on() -> None:
    """Two judged ledgers rest on lists and one on probes. Probes are counted also for a ledger that
    was not judged.
    """
    unknown = Verdict(
        4, Standing.INDETERMINATE, unknowns=(Unknown.BOOKIE_SILENT,), probes=Probes(3, 2)
    )
    sound = [
        Verdict(1, Standing.SOUND),
        Verdict(2, Standing.SOUND),
        Verdict(3, Standing.SOUND, probes=Probes(9, 5)),
    ]
    judged = [(evidence(verdict.ledger_id, {"b1": HELD}), verdict) for verdict in (*sound, unknown)]
    found = encode(assurance_of_ledgers(judged, Terms(0, 0, 1, 2), []))
    assert (2, 1, 12, 7) == tuple(
        found[name] for name in ("listed", "probed", "probes", "random_probes")
    )


def test_the_bound_on_what_was_missed_has_six_digits() -> None:
    """Seven entries drawn at random were there: the bound is 3/7 of the copies."""
    as_json: dict[str, Any] = encode(
        assurance_of({LISTED: 0, PROBED: 0}, Probes(7, 7), set(), Terms(0, 0, 1, 2), set())
    )
    assert 0.428571 == as_json["missing_bound"]


def test_the_newest_word_of_each_bookie_in_maintenance_counts() -> None:
    """It may be about any of the ledgers. A bookie that was not asked is left out."""
    terms = Terms(0, 0, 1, 2, around=Surroundings(maintenance=frozenset({"b1", "b2", "b9"})))
    looks = evidence(1, {"b1": HELD, "b3": HELD}, {"b1": SILENT}), evidence(2, {"b2": HELD})
    judged = [(seen, Verdict(seen.ledger_id, Standing.SOUND)) for seen in looks]
    found = [{"bookie_id": "b1", "found": "silent"}, {"bookie_id": "b2", "found": "answered"}]
    assert {"bookies": found, "ledgers": 0} == encode(maintenance_of_ledgers(judged, terms))
