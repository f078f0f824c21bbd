"""The summary fields `assurance` (what verdicts rest on) and `maintenance` for single ledgers.

Nothing here loads Arrow, because `auditor ledger` answers in a second.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

from auditor.first_checker.probing import missing_bound
from auditor.model.availability import AnswerStatus, Greeting
from auditor.model.evidence import LedgerEvidence, Terms
from auditor.model.finding_record import FindingRecord
from auditor.model.identity import BookieId
from auditor.model.verdict import Probes, Standing, Verdict
from auditor.witness.finding_lines import LISTED, PROBED

Json = dict[str, Any]

JUDGED_WORDS = (Standing.SOUND.word, Standing.VIOLATED.word)
"""The standings of ledgers that were judged."""
BOOKIES_NAMED_MAX = 10
"""At most this many bookies are named in each list of a summary; the rest is only counted."""

NO_SUCH_BOOKIE, NOT_REGISTERED, NOT_ASKED = "no_such_bookie", "not_registered", "not_asked"
"""Further states of a bookie in maintenance, beside the values of Greeting. NO_SUCH_BOOKIE suggests
a typing error in the setting."""

ANSWERED = Greeting.ANSWERED.value
_FOUND_BY_ANSWER = {
    AnswerStatus.UNREGISTERED: NOT_REGISTERED,
    AnswerStatus.SILENT: Greeting.SILENT.value,
    AnswerStatus.TIMED_OUT: Greeting.SILENT.value,
    AnswerStatus.REFUSED: Greeting.REFUSED.value,
    AnswerStatus.FAILED: Greeting.REFUSED.value,
    AnswerStatus.ADDRESS_UNKNOWN: Greeting.ADDRESS_UNKNOWN.value,
    AnswerStatus.AUDITOR_LIMITED: Greeting.AUDITOR_LIMITED.value,
}


def assurance_of_ledgers(
    judged: Sequence[tuple[LedgerEvidence, Verdict]],
    terms: Terms,
    findings: Sequence[FindingRecord],
) -> Json:
    """Return the field `assurance` for a few ledgers. Counts the bookies that were asked about
    them.
    """
    answers = [
        answer
        for evidence, _ in judged
        for look in evidence.looks
        for answer in look.answers.values()
    ]
    unable = {answer.bookie_id for answer in answers if answer.status is AnswerStatus.UNSUPPORTED}
    sure = [verdict.probes for _, verdict in judged if verdict.standing.word in JUDGED_WORDS]
    ledgers = {LISTED: sure.count(None), PROBED: len(sure) - sure.count(None)}
    probes = [verdict.probes for _, verdict in judged if verdict.probes is not None]
    read = Probes(sum(one.read for one in probes), sum(one.random for one in probes))
    lacking = {one.bookie_id for _, verdict in judged for one in verdict.lacks}
    return assurance_json(ledgers, read, unable, terms, lacking | missing_on(findings))


def maintenance_of_ledgers(judged: Sequence[tuple[LedgerEvidence, Verdict]], terms: Terms) -> Json:
    """Return the field `maintenance` for a few ledgers. Lists the bookies that were asked about
    them.
    """
    newest: dict[BookieId, AnswerStatus] = {}
    for evidence, _ in judged:
        for look in evidence.looks:
            newest |= {bookie: answer.status for bookie, answer in look.answers.items()}
    away = sorted(newest.keys() & terms.around.maintenance)
    return {
        "bookies": [
            {"bookie_id": bookie, "found": _FOUND_BY_ANSWER.get(newest[bookie], ANSWERED)}
            for bookie in away
        ],
        "ledgers": sum(verdict.only_maintenance for _, verdict in judged),
    }


def missing_on(findings: Sequence[FindingRecord]) -> set[BookieId]:
    """Return the bookies on which findings say that entries are missing."""
    return {bookie for found in findings for bookie in found.missing_on}


def assurance_json(
    ledgers: Mapping[str, int],
    probes: Probes,
    unable: set[BookieId],
    terms: Terms,
    lacking: AbstractSet[BookieId],
) -> Json:
    """Return the field `assurance` of a summary.

    `ledgers` counts judged ledgers by what they rest on. `unable` are the bookies that cannot list.
    `lacking` are the bookies that surely lack an entry of some ledger, also of an exempt ledger
    without a finding. `missing_bound` is null without random probes, or if a lacking bookie cannot
    list.
    """
    missing = bool(unable & lacking)
    return {
        **ledgers,
        "probes": probes.read,
        "random_probes": probes.random,
        "missing_bound": (
            round(missing_bound(probes.random), 6) if probes.random and not missing else None
        ),
        "probe_entries": terms.probe_entries,
        "bookies_unable": sorted(unable)[:BOOKIES_NAMED_MAX],
    }
