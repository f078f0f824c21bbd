"""The summary fields `assurance` (what verdicts rest on), `maintenance` and `listers`.

`listers` says whose lists came from a lister, and which listers did not list. Nothing here loads
Arrow, because `auditor ledger` answers in a second.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet

from auditor.first_checker.probing import missing_bound
from auditor.model.availability import (
    LISTED_BY_LISTER,
    LISTER_CONTRADICTED,
    LISTER_SILENT,
    AnswerStatus,
    Greeting,
)
from auditor.model.cluster import BookieRecord
from auditor.model.evidence import LedgerEvidence, Terms
from auditor.model.finding_record import FindingRecord
from auditor.model.identity import BookieId
from auditor.model.summary import (
    Assurance,
    BookieDetail,
    BookieInMaintenance,
    Listers,
    Maintenance,
)
from auditor.model.verdict import Probes, Standing, Verdict
from auditor.witness.finding_lines import LISTED, PROBED

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
) -> Assurance:
    """Return what the verdicts on a few ledgers rest on. Counts the bookies that were asked about
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
    read = Probes(sum(probed.read for probed in probes), sum(probed.random for probed in probes))
    lacking = {lack.bookie_id for _, verdict in judged for lack in verdict.lacks}
    return assurance_of(ledgers, read, unable, terms, lacking | missing_on(findings))


def maintenance_of_ledgers(
    judged: Sequence[tuple[LedgerEvidence, Verdict]], terms: Terms
) -> Maintenance:
    """Return the bookies in planned maintenance that were asked about a few ledgers."""
    newest: dict[BookieId, AnswerStatus] = {}
    for evidence, _ in judged:
        for look in evidence.looks:
            newest |= {bookie: answer.status for bookie, answer in look.answers.items()}
    away = sorted(newest.keys() & terms.around.maintenance)
    found = (
        BookieInMaintenance(bookie, _FOUND_BY_ANSWER.get(newest[bookie], ANSWERED))
        for bookie in away
    )
    return Maintenance(tuple(found), sum(verdict.only_maintenance for _, verdict in judged))


def missing_on(findings: Sequence[FindingRecord]) -> set[BookieId]:
    """Return the bookies on which findings say that entries are missing."""
    return {bookie for found in findings for bookie in found.missing_on}


def assurance_of(
    ledgers: Mapping[str, int],
    probes: Probes,
    unable: set[BookieId],
    terms: Terms,
    lacking: AbstractSet[BookieId],
) -> Assurance:
    """Return what verdicts rest on.

    `ledgers` counts judged ledgers by what they rest on. `unable` are the bookies that cannot list.
    `lacking` are the bookies that surely lack an entry of some ledger, also of an exempt ledger
    without a finding. `missing_bound` is null without random probes, or if a lacking bookie cannot
    list.
    """
    missing = bool(unable & lacking)
    has_bound = probes.random and not missing
    return Assurance(
        listed=ledgers[LISTED],
        probed=ledgers[PROBED],
        probes=probes.read,
        random_probes=probes.random,
        missing_bound=round(missing_bound(probes.random), 6) if has_bound else None,
        probe_entries=terms.probe_entries,
        bookies_unable=tuple(sorted(unable)[:BOOKIES_NAMED_MAX]),
    )


def listed_by_lister(records: Iterable[BookieRecord]) -> dict[BookieId, str]:
    """Return the bookies that a lister listed for at any look, with its address at the last one."""
    ordered = sorted(records, key=lambda record: record.read_at_ms)
    said = [
        (record.bookie_id, record.greeting_detail)
        for record in ordered
        if record.greeting_detail.startswith(LISTED_BY_LISTER)
    ]
    return {bookie: detail.removeprefix(LISTED_BY_LISTER) for bookie, detail in said}


def listers_of(records: Iterable[BookieRecord]) -> Listers:
    """Return what became of the lists of listers.

    `silent` names bookies whose lister gave no list at the last look. `not_believed` names those
    that denied their lister's list at any look. Each has the reason, and at most BOOKIES_NAMED_MAX
    are named. `unindexed` is left empty: it comes from the answers (`unindexed_bookies`).
    """
    seen = list(records)
    denied: dict[BookieId, str] = {}
    for record in seen:
        if record.greeting_detail.startswith(LISTER_CONTRADICTED):
            denied[record.bookie_id] = record.greeting_detail.removeprefix(LISTER_CONTRADICTED)
    return Listers(
        len(listed_by_lister(seen)),
        _name_some(_last_details(seen, LISTER_SILENT)),
        _name_some(denied),
    )


def _name_some(details: Mapping[BookieId, str]) -> tuple[BookieDetail, ...]:
    return tuple(BookieDetail(b, details[b]) for b in sorted(details)[:BOOKIES_NAMED_MAX])


def _last_details(records: Iterable[BookieRecord], prefix: str) -> dict[BookieId, str]:
    last: dict[BookieId, BookieRecord] = {}
    for record in records:
        if record.greeting is not None:
            last[record.bookie_id] = max(
                record, last.get(record.bookie_id, record), key=lambda seen: seen.read_at_ms
            )
    return {
        b: r.greeting_detail.removeprefix(prefix)
        for b, r in last.items()
        if r.greeting_detail.startswith(prefix)
    }
