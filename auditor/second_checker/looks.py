"""Which looks count for the second checker, what they exempt, and whether they suffice.

A bookie's statement counts if a look made it that saw the newest metadata, and the newest such
statement wins. Exemptions, stuck ledgers and old marks follow from the metadata alone.

`unsupported_claims` checks the rules for a second look (BP-34), without the first checker's
`recheck`, which decides when a verdict is final: nothing is reported after a single look; before an
entry is reported missing, bookies were asked at two looks of the same metadata, and the metadata
was read again; no ledger has more looks than allowed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from auditor.model.availability import Answer, AnswerStatus, EntryRead, ReadStatus
from auditor.model.evidence import LedgerEvidence, Look, Terms
from auditor.model.finding import Family, Kind, Severity
from auditor.model.identity import BookieId, EntryId
from auditor.model.ledger import LedgerRecord, LedgerState
from auditor.model.verdict import Exempt, Standing, Unknown, Verdict
from auditor.second_checker.holdings import Group, groups_of, is_listed


def is_beyond_grace(record: LedgerRecord, terms: Terms) -> bool:
    """Return whether the older of the mark's two times is beyond the grace period.

    False if the ledger has no mark.
    """
    mark = record.mark
    if mark is None:
        return False
    since = {mark.created_ms, mark.created_ms if mark.changed_ms is None else mark.changed_ms}
    ages = (terms.judged_at_ms - time for time in since)
    return max(ages) > terms.underreplication_grace_ms


def is_age_open(record: LedgerRecord, terms: Terms) -> bool:
    """Return whether a late clock hides the mark's age: it may be beyond grace though it looks
    younger.
    """
    is_late = terms.clock_lag_ms > 0
    return is_late and record.mark is not None and not is_beyond_grace(record, terms)


def exemption(record: LedgerRecord) -> Exempt | None:
    """Return the first exemption of an existing ledger (docs/names.md, "Reasons to exempt")."""
    if record.mark is not None:
        return Exempt.MARKED_UNDERREPLICATED
    if record.metadata is None:
        return None
    # EMPTY is decided by what bookies say: see `beyond_end.find_unheard`
    return _EXEMPT_STATES.get(record.metadata.state)


_EXEMPT_STATES = {
    LedgerState.IN_RECOVERY: Exempt.IN_RECOVERY,
    LedgerState.OPEN: Exempt.OPEN,
}


def is_stuck(record: LedgerRecord, terms: Terms) -> bool:
    """Return whether a ledger has been open or in recovery for longer than `stuck_after_ms`.

    A ledger is open since its creation, and in recovery since its znode was last written.
    """
    metadata, stamp = record.metadata, record.stamp
    if metadata is None or stamp is None or terms.stuck_after_ms == 0:
        return False
    if metadata.state is LedgerState.IN_RECOVERY:
        since = stamp.mtime_ms
    elif metadata.state is LedgerState.OPEN:
        since = (
            stamp.ctime_ms if metadata.ctime_ms is None else min(stamp.ctime_ms, metadata.ctime_ms)
        )
    else:
        return False
    return since != 0 and terms.judged_at_ms - since > terms.stuck_after_ms


LOOKS_OF_CORRUPTION = 2
"""A copy is reported as corrupt only if this many looks read a wrong digest."""

_SPOKEN = {AnswerStatus.HELD, AnswerStatus.NO_SUCH_LEDGER}
_SPOKEN_IF_PROBED = _SPOKEN | {AnswerStatus.UNSUPPORTED}
_DENIED = {ReadStatus.NO_ENTRY, ReadStatus.NO_LEDGER}
_READ = {ReadStatus.PRESENT, ReadStatus.NO_ENTRY, ReadStatus.NO_LEDGER, ReadStatus.CORRUPT}


@dataclass(slots=True)
class Statements:
    """What bookies said at the looks that saw the newest state of the metadata.

    `answers` and `reads` have each bookie's newest conclusive statement or, if it made none, its
    newest one. A wrong digest is conclusive. A list that a bookie gave before it was gone is
    ignored.

    `corrupt`: copies that LOOKS_OF_CORRUPTION looks read with a wrong digest, and no look since the
    first of these read conclusively in another way. `out`: bookies not in maintenance that every
    look found unregistered. `failed`: copies on other bookies that no look read and at least one
    failed to read; at the others the bookie failed, lacked the entry or was not registered.

    `denied`: copies last read as not being there at a look at which their bookie listed them, with
    the number of such looks since any other conclusive read.
    """

    record: LedgerRecord
    looks: tuple[Look, ...]
    answers: Mapping[BookieId, Answer]
    reads: Mapping[tuple[BookieId, EntryId], EntryRead]
    corrupt: frozenset[tuple[BookieId, EntryId]]
    out: frozenset[BookieId] = frozenset()
    failed: frozenset[tuple[BookieId, EntryId]] = frozenset()
    denied: Mapping[tuple[BookieId, EntryId], int] = field(default_factory=dict)


def is_same_write(one: LedgerRecord, other: LedgerRecord) -> bool:
    """Return whether two readings saw the same write of a znode, or failed in the same way."""
    return (one.status, one.stamp) == (other.status, other.stamp)


def asked_looks(looks: Sequence[Look]) -> int:
    """Return how many of the looks that saw the newest metadata asked bookies."""
    newest, asked = looks[-1].record, 0
    for look in reversed(looks):
        if look.record is not newest and not is_same_write(look.record, newest):
            break
        asked += bool(look.answers)
    return asked


def newest_statements(looks: Sequence[Look], terms: Terms) -> Statements:
    """Return what bookies said at the looks that saw the newest metadata."""
    newest = looks[-1].record
    spoken = _SPOKEN_IF_PROBED if terms.probe_entries > 0 else _SPOKEN
    chain: list[Look] = []
    answers: dict[BookieId, Answer] = {}
    reads: dict[tuple[BookieId, EntryId], EntryRead] = {}
    was_corrupt = may_be_denied = may_be_out = False
    was_gone: set[BookieId] = set()
    for look in reversed(looks):
        if look.record is not newest and not is_same_write(look.record, newest):
            break
        chain.append(look)
        for bookie, answer in look.answers.items():
            kept = answers.setdefault(bookie, answer)
            if kept.status not in spoken and bookie not in was_gone and answer.status in spoken:
                answers[bookie] = answer
            if answer.status is AnswerStatus.UNREGISTERED:
                may_be_out = True
                if answer.is_gone:
                    was_gone.add(bookie)
        for key, read in look.reads.items():
            status, before = read.status, reads.get(key)
            if before is None or (before.status not in _READ and _says_more(read, before)):
                reads[key] = read
            if status in _DENIED:
                said = look.answers.get(key[0])
                may_be_denied |= said is not None and said.groups != b""
            elif status is ReadStatus.CORRUPT:
                was_corrupt = True
            elif status is ReadStatus.FAILED:
                may_be_out = True
    away = terms.around.maintenance
    out, failed = _out_of_service(chain) if may_be_out else (set(), set())
    return Statements(
        newest,
        tuple(reversed(chain)),
        answers,
        reads,
        _corrupt_copies(chain) if was_corrupt else frozenset(),
        frozenset(out - away),
        frozenset([copy for copy in failed if copy[0] not in away]),
        _denied_copies(chain) if may_be_denied else {},
    )


def _corrupt_copies(chain: Sequence[Look]) -> frozenset[tuple[BookieId, EntryId]]:
    """Return the copies that enough looks read with a wrong digest, and none read in another way
    since the first of these. The newest look comes first.
    """
    wrong: dict[tuple[BookieId, EntryId], int] = {}
    otherwise: set[tuple[BookieId, EntryId]] = set()
    for look in chain:
        for key, read in look.reads.items():
            if read.status is ReadStatus.CORRUPT and key not in otherwise:
                wrong[key] = wrong.get(key, 0) + 1
            elif read.status in _READ:
                otherwise.add(key)
    return frozenset(key for key, times in wrong.items() if times >= LOOKS_OF_CORRUPTION)


def _denied_copies(chain: Sequence[Look]) -> dict[tuple[BookieId, EntryId], int]:
    """Return the copies last read as not being there although listed, with the number of such
    looks. The newest look comes first.
    """
    denied: dict[tuple[BookieId, EntryId], int] = {}
    undenied: set[tuple[BookieId, EntryId]] = set()
    for look in chain:
        lists: dict[BookieId, tuple[Group, ...]] = {}
        for key, read in look.reads.items():
            if read.status not in _READ:
                continue
            bookie, entry = key
            if bookie not in lists:
                lists[bookie] = _listed_groups(look.answers.get(bookie))
            is_denial = read.status in _DENIED and key not in undenied
            if is_denial and is_listed(lists[bookie], entry):
                denied[key] = denied.get(key, 0) + 1
            else:
                undenied.add(key)
    return denied


def _out_of_service(
    chain: Sequence[Look],
) -> tuple[set[BookieId], set[tuple[BookieId, EntryId]]]:
    """Return the bookies that no look found registered, and the copies that every look failed to
    get.

    A copy on a registered bookie counts only if each look tried to read it.
    """
    asked = [look for look in chain if look.answers]
    reads = [item for look in asked for item in look.reads.items()]
    tried = {key for key, read in reads if read.status is ReadStatus.FAILED}
    missing_at = [
        {b for b, answer in look.answers.items() if answer.status is AnswerStatus.UNREGISTERED}
        for look in asked
    ]
    unseen: dict[BookieId, int] = {}
    unread: dict[tuple[BookieId, EntryId], int] = {}
    for look, missing in zip(asked, missing_at, strict=True):
        for bookie in missing:
            unseen[bookie] = unseen.get(bookie, 0) + 1
        for bookie, entry in tried:
            read = look.reads.get((bookie, entry))
            is_bad = read is not None and read.status in ("failed", "no_entry", "no_ledger")
            if is_bad or bookie in missing:
                unread[bookie, entry] = unread.get((bookie, entry), 0) + 1
    looks = len(asked)
    return (
        {bookie for bookie, times in unseen.items() if times == looks},
        {key for key, times in unread.items() if times == looks},
    )


def _says_more(older: EntryRead, newer: EntryRead) -> bool:
    """Return whether an older read counts although there is a newer one, which is not conclusive.

    Conclusive reads outrank all others, and a failure of the bookie outranks silence.
    """
    return older.status in _READ or (
        older.status is ReadStatus.FAILED and newer.status is not ReadStatus.FAILED
    )


def _listed_groups(answer: Answer | None) -> tuple[Group, ...]:
    """Return the groups that a bookie listed; none if its answer is not a list."""
    return groups_of(answer) if answer is not None and answer.status is AnswerStatus.HELD else ()


CLOSING_LOOKS = 2
"""Looks allowed beyond `looks_max`. They ask no bookie."""

LOOKS_THAT_ASK = 2
"""An entry is reported only after this many looks of the same metadata asked bookies."""

_SAID_BY_BOOKIES = (Kind.UNDERREPLICATED_UNRECOVERABLE, Kind.RECOVERY_BLOCKED)
"""Kinds that rest on bookies' answers although their family is not `entry`."""

DELAYS = 2
"""A run waits before this many looks of a ledger: the second and the third."""


def unsupported_claims(verdict: Verdict, evidence: LedgerEvidence, terms: Terms) -> tuple[str, ...]:
    """Return a sentence for each claim of the verdict that its looks do not support."""
    return tuple(_find_unsupported(verdict, evidence, terms))


def _find_unsupported(verdict: Verdict, evidence: LedgerEvidence, terms: Terms) -> Iterator[str]:
    looks = evidence.looks
    asked = len([look for look in looks if look.answers])
    if len(looks) > terms.looks_max + CLOSING_LOOKS or asked > terms.looks_max:
        yield (
            f"{len(looks)} looks were taken, and bookies asked at {asked}, where {terms.looks_max}"
            " are allowed"
        )
    if verdict.findings and len(looks) < 2:
        yield "something is reported after a single look"
    if (
        verdict.standing is not Standing.VIOLATED
        and any(finding.severity is Severity.INFO for finding in verdict.findings)
        and not (len(looks) > 1 and is_same_write(looks[-2].record, looks[-1].record))
    ):
        yield "a finding of severity info rests on metadata that was not read twice alike"
    if Unknown.UNSETTLED in verdict.unknowns:
        yield from _check_unsettled(verdict, evidence, terms)
    else:
        yield from _check_entry_findings(verdict, evidence)


def _check_entry_findings(verdict: Verdict, evidence: LedgerEvidence) -> Iterator[str]:
    """Check that bookies were asked twice and the metadata read once more for entry findings."""
    reported = [
        finding
        for finding in verdict.findings
        if finding.family is Family.ENTRY or finding.kind in _SAID_BY_BOOKIES
    ]
    if not reported:
        return
    asked = asked_looks(evidence.looks)
    if asked < LOOKS_THAT_ASK:
        yield (
            f"{reported[0].kind.value} is reported after bookies were asked at {asked}"
            " looks of the same metadata"
        )
    if evidence.looks[-1].answers:
        yield (
            f"{reported[0].kind.value} is reported, and the metadata was not read again behind the"
            " answers"
        )


def _check_unsettled(verdict: Verdict, evidence: LedgerEvidence, terms: Terms) -> Iterator[str]:
    """Check the verdict on a ledger that kept changing.

    It must have had all looks allowed. It may report only a mark beyond grace that the last two
    looks saw.
    """
    looks = evidence.looks
    asked = sum(1 for look in looks if look.answers)
    if (
        len(looks) <= terms.looks_max
        and asked < terms.looks_max
        and not _needs_a_third_delay(looks)
    ):
        yield f"it is given up after {len(looks)} looks, where {terms.looks_max} are allowed"
    stood = all(look.record.mark is not None for look in looks[-2:]) and len(looks) > 1
    late = stood and is_beyond_grace(looks[-1].record, terms)
    claimed = [finding.kind for finding in verdict.findings]
    if claimed != ([Kind.UNDERREPLICATED_BEYOND_GRACE] if late else []):
        yield (
            "of a ledger that kept changing it reports"
            f" {', '.join(kind.value for kind in claimed) or 'no mark that stands'}"
        )
    if not _has_its_standing(verdict):
        yield f"a ledger that kept changing is called {verdict.standing.word}"


def _needs_a_third_delay(looks: Sequence[Look]) -> bool:
    """Return whether the newest metadata was seen at one look only, after all delays."""
    return len(looks) > DELAYS and not is_same_write(looks[-2].record, looks[-1].record)


def _has_its_standing(verdict: Verdict) -> bool:
    """Return whether an unsettled verdict is VIOLATED with findings, or INDETERMINATE without."""
    return verdict.standing is (Standing.VIOLATED if verdict.findings else Standing.INDETERMINATE)
