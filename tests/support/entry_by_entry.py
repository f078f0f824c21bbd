"""The contract's judgement spelled out entry by entry, with sets and loops: the reference for the
closed form.

Nothing of the product's checkers is used. The cost is entries times write quorum, so stories keep
the entries in question few: every entry below `base` is known to be held by its whole write set,
and is not enumerated.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise, takewhile

from support.entry_by_probe import ABSENT, HELD, READ_REASON, UNKNOWN, by_probes, probes_due

from auditor.model.availability import NO_COOKIE, Answer, AnswerStatus, EntryRead, ReadStatus
from auditor.model.evidence import LedgerEvidence, Look, Terms
from auditor.model.finding import Family, Finding, Kind
from auditor.model.ledger import LedgerMetadata, LedgerRecord, LedgerState, RecordStatus, Segment
from auditor.model.verdict import Unknown, Verdict
from auditor.second_checker.agreement import worst_entry_of

Say = Callable[[str, int], str]
"""(bookie, entry) -> HELD, ABSENT or UNKNOWN."""

Served = Callable[[str, int], bool]
"""(bookie, entry) -> whether some look leaves it open that the bookie serves the entry."""

ANSWER_REASON = {
    "silent": "bookie_silent",
    "unregistered": "bookie_silent",
    "timed_out": "answer_timeout",
    "refused": "bookie_refused",
    "failed": "bookie_refused",
    "invalid": "answer_invalid",
    "too_large": "answer_too_large",
    "unsupported": "bookie_unsupported",
    "address_unknown": "address_unknown",
    "auditor_limited": "auditor_limited",
}
_CONCLUSIVE = {"held", "no_such_ledger", "present", "no_entry", "no_ledger", "corrupt"}


@dataclass
class Judged:
    """A verdict as plain sets, to compare with the one in closed form."""

    standing: str
    exempt: str | None = None
    unknowns: set[str] = field(default_factory=set)
    kind: str | None = None
    others: set[str] = field(default_factory=set)
    """Kinds of the other families."""
    entries: list[int] = field(default_factory=list)
    missing_on: dict[str, list[int]] = field(default_factory=dict)
    copies: tuple[int, int, int, int] | None = None
    worst: int | None = None
    false_negatives: int = 0


def in_groups(groups: bytes, entry: int) -> bool:
    """Return whether a stored list names the entry, by the definition of a sequence group."""
    for first, last, size, period in struct.iter_unpack(">qqii", groups):
        if first <= entry <= last + size - 1 and (period == 0 or (entry - first) % period < size):
            return True
    return False


def entries_of(metadata: LedgerMetadata, base: int = 0) -> list[tuple[int, Segment]]:
    """Return each entry from `base` on with its segment, as far as the metadata is unambiguous
    about it.
    """
    segments, last = metadata.segments, metadata.last_entry_id
    if metadata.state is not LedgerState.CLOSED or not segments:
        return []
    if last is None:
        last = segments[-1].first_entry_id - 1
    lowest = max(base, min(segment.first_entry_id for segment in segments))
    if all(one.first_entry_id < ahead.first_entry_id for one, ahead in pairwise(segments)):
        firsts = [
            segment.first_entry_id for segment in segments
        ]  # segments in order leave no doubt, and there may be hundreds
        return [
            (entry, segments[bisect_right(firsts, entry) - 1]) for entry in range(lowest, last + 1)
        ]
    located = ((entry, _segment_of(segments, entry)) for entry in range(lowest, last + 1))
    return [(entry, segment) for entry, segment in located if segment is not None]


def _segment_of(segments: tuple[Segment, ...], entry: int) -> Segment | None:
    """Return the segment that the entry is in if every way of reading the segments agrees: upwards,
    downwards, or sorted.
    """
    reached = [at for at, segment in enumerate(segments) if segment.first_entry_id <= entry]
    if not reached:
        return None
    upwards = reached[-1]
    later = [at for at in range(len(segments)) if at not in reached]
    downwards = (later[0] if later else len(segments)) - 1
    highest = max(segments[at].first_entry_id for at in reached)
    sorts_to = [at for at in reached if segments[at].first_entry_id == highest]
    return segments[upwards] if [upwards] == [downwards] == sorts_to else None


def write_set(metadata: LedgerMetadata, segment: Segment, entry: int) -> list[str]:
    """Return the bookies an entry was written to, by position; a bookie may occur twice."""
    return [
        segment.ensemble[(entry + w) % metadata.ensemble_size] for w in range(metadata.write_quorum)
    ]


def expected_on(metadata: LedgerMetadata, base: int = 0) -> dict[str, set[int]]:
    """Return what each bookie should hold, from `base` on; every bookie of an ensemble is a key."""
    found: dict[str, set[int]] = {
        bookie: set() for segment in metadata.segments for bookie in segment.ensemble
    }
    for entry, segment in entries_of(metadata, base):
        for bookie in write_set(metadata, segment, entry):
            found[bookie].add(entry)
    return found


@dataclass
class Heard:
    """What the looks at one state of a ledger's metadata found, with the newest conclusive word
    first.

    `corrupt` has the (bookie, entry) pairs that the newest two or more conclusive looks read with a
    wrong digest. `served` says whether some look that asked bookies leaves it open that this bookie
    serves this entry.
    """

    record: LedgerRecord
    answers: dict[str, Answer]
    reads: dict[tuple[str, int], EntryRead]
    corrupt: set[tuple[str, int]]
    served: Served
    denied: dict[tuple[str, int], int]
    """How many of the newest conclusive looks in a row listed a copy and read that it is absent."""


def heard(evidence: LedgerEvidence, terms: Terms) -> Heard:
    """Merge the looks that saw the same metadata as the newest one."""
    newest = evidence.looks[-1].record
    conclusive = _CONCLUSIVE | ({"unsupported"} if terms.probe_entries else set())
    words: dict[tuple[str, int], list[str]] = {}
    answers: dict[str, Answer] = {}
    reads: dict[tuple[str, int], EntryRead] = {}
    gone_since: set[object] = set()
    asked: list[Look] = []
    denials: dict[tuple[str, int], list[bool]] = {}
    for look in reversed(evidence.looks):
        if (look.record.status, look.record.stamp) != (newest.status, newest.stamp):
            break
        asked += [look] if look.answers else []
        for key, read in look.reads.items():
            words.setdefault(key, []).extend(
                [read.status.value] if read.status.value in _CONCLUSIVE else []
            )
        for (bookie, entry), read in look.reads.items():
            if read.status.value in _CONCLUSIVE:
                answer = look.answers.get(bookie)
                is_listed = (
                    answer is not None
                    and answer.status is AnswerStatus.HELD
                    and in_groups(answer.groups, entry)
                )
                is_denied = is_listed and read.status.value in ("no_entry", "no_ledger")
                denials.setdefault((bookie, entry), []).append(is_denied)
        for said, kept in ((look.answers, answers), (look.reads, reads)):
            for key, value in said.items():
                may_speak = key not in gone_since and value.status.value in conclusive
                owns_up = value.status.value == "failed" and kept is reads
                if (
                    key not in kept
                    or (may_speak and kept[key].status.value not in conclusive)
                    or (owns_up and kept[key].status.value not in (*conclusive, "failed"))
                ):
                    kept[key] = value
        gone_since |= {bookie for bookie, answer in look.answers.items() if _is_forgotten(answer)}
    return Heard(
        newest,
        answers,
        reads,
        {key for key, said in words.items() if said[:2] == ["corrupt", "corrupt"]},
        lambda bookie, entry: (
            not asked
            or bookie in terms.around.maintenance
            or any(_leaves_open(look, bookie, entry) for look in asked)
            or all(_only_denies(look, bookie, entry) for look in asked)
        ),
        {
            copy: len(list(takewhile(bool, said)))
            for copy, said in denials.items()
            if copy in reads and said[0]
        },
    )


def _only_denies(look: Look, bookie: str, entry: int) -> bool:
    """Return whether the bookie said that it has no such entry: whether that is so is decided by
    how often, and by its list.
    """
    read = look.reads.get((bookie, entry))
    return read is not None and read.status.value in ("no_entry", "no_ledger")


def _leaves_open(look: Look, bookie: str, entry: int) -> bool:
    """Return whether the look leaves it open that the bookie serves the entry."""
    answer, read = look.answers.get(bookie), look.reads.get((bookie, entry))
    if answer is not None and answer.status is AnswerStatus.UNREGISTERED:
        return False
    return read is None or read.status.value not in ("failed", "no_entry", "no_ledger")


def judged_from_evidence(evidence: LedgerEvidence, terms: Terms, base: int = 0) -> Judged:
    """Return the verdict that the contract gives for this evidence."""
    said = heard(evidence, terms)
    metadata = said.record.metadata
    if metadata is None or said.record.status is not RecordStatus.FOUND:
        return judged(
            said.record, lambda b, e: UNKNOWN, lambda b: set(), 0, terms, base, asked=False
        )
    say, reasons, false_negatives = _by_word(metadata, said, terms, base)
    wants = expected_on(metadata, base)
    corrupt = {(b, e) for b, e in said.corrupt if e in wants.get(b, ())}
    return judged(
        said.record,
        say,
        reasons,
        false_negatives,
        terms,
        base,
        asked=bool(said.answers),
        corrupt=corrupt,
        said=said,
        served=said.served,
    )


def _listed_from(answer: Answer, base: int) -> set[int]:
    """Return the entries from `base` on that a list names."""
    ends = [last + size for _, last, size, _ in struct.iter_unpack(">qqii", answer.groups)]
    return {
        entry for entry in range(base, max(ends, default=base)) if in_groups(answer.groups, entry)
    }


def _is_forgotten(answer: Answer) -> bool:
    """Return whether the bookie has neither a registration nor a cookie."""
    return answer.status is AnswerStatus.UNREGISTERED and answer.detail == NO_COOKIE


def _by_word(
    metadata: LedgerMetadata, said: Heard, terms: Terms, base: int
) -> tuple[Say, Callable[[str], set[str]], int]:
    """Apply the rule for a list and the reads behind it, bookie by bookie."""
    wants = expected_on(metadata, base)
    lacks: dict[str, dict[int, str]] = {}
    why: dict[str, set[str]] = {}
    false_negatives = 0
    for bookie, wanted in wants.items():
        answer = said.answers.get(bookie)
        if answer is not None and _is_forgotten(answer):
            lacks[bookie] = dict.fromkeys(wanted, ABSENT)
            continue
        if (
            answer is not None
            and answer.status is AnswerStatus.UNSUPPORTED
            and terms.probe_entries
            and wanted
        ):
            probes = {e: read for (b, e), read in said.reads.items() if b == bookie and e in wanted}
            due = probes_due(metadata, bookie, wanted, said.record.ledger_id, terms)
            lacks[bookie], why[bookie] = by_probes(wanted, due, probes)
            continue
        if answer is None or answer.status not in (AnswerStatus.HELD, AnswerStatus.NO_SUCH_LEDGER):
            why[bookie] = {ANSWER_REASON[answer.status.value] if answer else "bookie_silent"}
            if (
                said.record.mark is not None
                and answer is not None
                and answer.status is AnswerStatus.UNREGISTERED
            ):
                why[bookie] = set()  # a mark means that this is being repaired
            lacks[bookie] = dict.fromkeys(wanted, UNKNOWN)
            if answer is not None and answer.status is AnswerStatus.FAILED:
                mine = {e: r for (b, e), r in said.reads.items() if b == bookie and e in wanted}
                by_word = {"present": HELD, "no_entry": ABSENT, "no_ledger": ABSENT}
                lacks[bookie] |= {e: by_word.get(r.status.value, UNKNOWN) for e, r in mine.items()}
                words = {r.status.value for r in mine.values()} - by_word.keys()
                why[bookie] |= {READ_REASON[word] for word in words}
            continue
        missing = {e for e in wanted if not in_groups(answer.groups, e)}
        read = {e: said.reads[b, e].status for b, e in said.reads if b == bookie and e in missing}
        present = {e for e, status in read.items() if status is ReadStatus.PRESENT}
        gone = {
            e for e, status in read.items() if status in (ReadStatus.NO_ENTRY, ReadStatus.NO_LEDGER)
        }
        failed = set(read) - present - gone
        false_negatives += len(present)
        tail = max(wanted, default=-1)
        known_defect = {tail} if answer.status is AnswerStatus.HELD and tail % 1024 == 0 else set()
        rest = ABSENT if gone and not failed and present <= known_defect else UNKNOWN
        lacks[bookie] = {
            e: HELD if e in present else ABSENT if e in gone else rest for e in missing
        }
        why[bookie] = {READ_REASON[read[e].value] for e in failed}
        why[bookie] |= set() if present <= known_defect else {"answer_invalid"}
        wrong = {
            e
            for (b, e), word in said.reads.items()
            if b == bookie and word.status is ReadStatus.CORRUPT
        }
        for entry in wrong & wanted:
            lacks[bookie][entry] = UNKNOWN
            why[bookie].add("answer_invalid")
        _apply_reads_of_listed(bookie, wanted - missing, said, lacks[bookie], why[bookie], wanted)
        why[bookie] = why[bookie] or {"answer_timeout"}
    return (lambda b, e: lacks[b].get(e, HELD)), (lambda b: why.get(b, set())), false_negatives


def _apply_reads_of_listed(
    bookie: str,
    listed: set[int],
    said: Heard,
    lacks: dict[int, str],
    why: set[str],
    wanted: set[int],
) -> None:
    """Let reads beat a list: what was denied at two looks is absent, once or failed is unknown."""
    newest = {e: said.reads[b, e] for b, e in said.reads if b == bookie and e in wanted}
    for entry in listed & newest.keys():
        if newest[entry].status is ReadStatus.FAILED:
            lacks[entry] = UNKNOWN
            why.add("bookie_refused")
    denied = {e: times for (b, e), times in said.denied.items() if b == bookie and e in listed}
    is_sure = any(times > 1 for times in denied.values())
    lacks.update(dict.fromkeys(denied, ABSENT if is_sure else UNKNOWN))
    if denied and not is_sure:
        why.add("answer_invalid")
    spoken = [one for one in newest.values() if one.status.value in _CONCLUSIVE]
    last = max((one.look for one in spoken), default=0)
    words = {one.status for one in spoken if one.look == last}
    was_sent = any(one.status.value in ("present", "corrupt") for one in newest.values())
    if is_sure and ReadStatus.NO_LEDGER in words and not was_sent:
        lacks.update(dict.fromkeys(wanted, ABSENT))
        why.clear()


def judged(
    record: LedgerRecord,
    say: Say,
    reasons: Callable[[str], set[str]],
    false_negatives: int,
    terms: Terms,
    base: int,
    *,
    asked: bool,
    corrupt: Iterable[tuple[str, int]] = (),
    said: Heard | None = None,
    served: Served = lambda bookie, entry: True,
) -> Judged:
    """Return a ledger's verdict; `say` maps a bookie and an entry to what is known of the copy,
    `served` whether the bookie may serve the entry at some look.
    """
    if record.status is RecordStatus.GONE:
        return Judged("exempt", exempt="deleted")
    out = Judged("sound", exempt=_exempt(record))
    metadata = record.metadata
    oldest = (
        None
        if record.mark is None
        else min(record.mark.created_ms, record.mark.changed_ms or record.mark.created_ms)
    )
    late = oldest is not None and terms.judged_at_ms - oldest > terms.underreplication_grace_ms
    excused = oldest is not None and not late
    if late:
        out.others.add("UNDERREPLICATED_BEYOND_GRACE")
    if record.status is RecordStatus.MALFORMED:
        out.others.add("METADATA_MALFORMED")
    elif metadata is None:
        out.unknowns.add("metadata_unreadable")
    else:
        beyond, is_short = (set(), False) if said is None else _beyond_end(metadata, said)
        if said is not None and _is_closed_empty(metadata) and (asked or record.mark is None):
            unheard = _unheard_of_empty(metadata, said, terms)
            if len(unheard) >= metadata.ack_quorum:
                out.unknowns |= {why for why in unheard.values() if why}
            elif out.exempt is None and not beyond and not _contradicts(metadata):
                out.exempt = "empty"
        if _contradicts(metadata):
            out.others.add("METADATA_MALFORMED")
        elif asked and beyond and not is_short:
            out.others.add("ENTRIES_BEYOND_END")
        if asked and is_short:
            out.others.add("LEDGER_CLOSED_SHORT")
        if not excused and _doubled(metadata, base):
            out.others.add("ENSEMBLE_DUPLICATE_BOOKIE")
        if record.mark is None or asked:
            unknowns = _judge_entries(
                out, metadata, say, reasons, base, {e for _, e in corrupt}, served, excused=excused
            )
            out.unknowns |= unknowns
            out.false_negatives = false_negatives
        if record.mark is not None and out.kind == "ENTRY_WITHOUT_REPLICA":
            out.kind = (  # it stands alone, except beside what the metadata itself contradicts
                "UNDERREPLICATED_UNRECOVERABLE"
            )
            out.others &= {"METADATA_MALFORMED", "ENTRIES_BEYOND_END", "LEDGER_CLOSED_SHORT"}
    if out.kind or out.others - {"ENTRIES_BEYOND_END"}:
        out.standing = "violated"
    elif out.unknowns:
        out.standing = "indeterminate"
    elif out.exempt:
        out.standing = "exempt"
    return out


def _exempt(record: LedgerRecord) -> str | None:
    if record.mark is not None:
        return "marked_underreplicated"
    if record.metadata is None:
        return None
    if record.metadata.state is not LedgerState.CLOSED:
        return record.metadata.state.value.lower()
    return None


def _contradicts(metadata: LedgerMetadata) -> bool:
    first = metadata.segments[0].first_entry_id
    is_closed = metadata.state is LedgerState.CLOSED
    is_long = metadata.last_entry_id == -1 and metadata.length > 0
    return first != 0 or (is_closed and (metadata.last_entry_id is None or is_long))


def _is_closed_empty(metadata: LedgerMetadata) -> bool:
    return metadata.state is LedgerState.CLOSED and metadata.last_entry_id == -1


def _unheard_of_empty(metadata: LedgerMetadata, said: Heard, terms: Terms) -> dict[str, str]:
    """Return the bookies that did not say whether they hold an entry, with the reason; "" where a
    mark explains it.
    """
    unheard = {}
    for bookie in set(metadata.segments[-1].ensemble):
        answer, read = said.answers.get(bookie), said.reads.get((bookie, -1))
        if answer is None:
            unheard[bookie] = "bookie_silent"
        elif answer.status is AnswerStatus.UNSUPPORTED and terms.probe_entries and read is not None:
            if read.status.value not in _CONCLUSIVE:
                unheard[bookie] = READ_REASON[read.status.value]
        elif answer.status.value not in ("held", "no_such_ledger") and not _is_forgotten(answer):
            is_marked = said.record.mark is not None
            is_away = answer.status is AnswerStatus.UNREGISTERED
            unheard[bookie] = "" if is_marked and is_away else ANSWER_REASON[answer.status.value]
    return unheard


def _beyond_end(metadata: LedgerMetadata, said: Heard) -> tuple[set[int], bool]:
    """Return the entries above the end that any bookie lists or sent, and whether the header of one
    names another as acknowledged.
    """
    last = metadata.last_entry_id
    if metadata.state is not LedgerState.CLOSED or last is None:
        return set(), False
    held = {
        (bookie, entry)
        for bookie, answer in said.answers.items()
        if answer.status is AnswerStatus.HELD
        for entry in _listed_from(answer, last + 1)
    }
    sent = [
        (read.entry_id if read.stored_entry_id is None else read.stored_entry_id, read)
        for read in said.reads.values()
        if read.status is ReadStatus.PRESENT
    ]
    held |= {(read.bookie_id, entry) for entry, read in sent if entry > last}
    held -= {
        copy
        for copy, read in said.reads.items()
        if read.status in (ReadStatus.NO_ENTRY, ReadStatus.NO_LEDGER)
    }
    gone = {bookie for bookie, answer in said.answers.items() if _is_forgotten(answer)}
    is_short = any(
        entry > last and read.last_confirmed is not None and read.last_confirmed > last
        for entry, read in sent
    )
    return {entry for bookie, entry in held if bookie not in gone}, is_short


def _doubled(metadata: LedgerMetadata, base: int) -> bool:
    return any(
        len(set(segment.ensemble)) < len(segment.ensemble)
        for _, segment in entries_of(metadata, base)
    )


def _judge_entries(
    out: Judged,
    metadata: LedgerMetadata,
    say: Say,
    reasons: Callable[[str], set[str]],
    base: int,
    corrupt: set[int],
    served: Served,
    *,
    excused: bool,
) -> set[str]:
    """Fill in the strongest kind that is true of any entry; return the reasons for unknown
    copies.
    """
    write, ack = metadata.write_quorum, metadata.ack_quorum
    order: list[tuple[int, int, int]] = []
    unknown_on: set[str] = set()
    missing: dict[str, list[int]] = {}
    unserved: list[tuple[int, int, int]] = []
    for entry, segment in entries_of(metadata, base):
        distinct = list(dict.fromkeys(write_set(metadata, segment, entry)))
        words = {bookie: say(bookie, entry) for bookie in distinct}
        for bookie, word in words.items():
            if word == ABSENT:
                missing.setdefault(bookie, []).append(entry)
            elif word == UNKNOWN:
                unknown_on.add(bookie)
        confirmed = sum(word == HELD for word in words.values())
        order.append(
            (confirmed + sum(word == UNKNOWN for word in words.values()), confirmed, entry)
        )
        if not any(word != ABSENT and served(b, entry) for b, word in words.items()):
            unserved.append((order[-1][0], 0, entry))
    if unserved and min(order)[0] > 0:
        possible, confirmed, worst = min(unserved)
        out.kind, out.entries = "ENTRY_UNAVAILABLE", [entry for _, _, entry in unserved]
        out.missing_on, out.worst, out.copies = missing, worst, (write, ack, confirmed, possible)
        return {reason for bookie in unknown_on for reason in reasons(bookie)}
    for kind, too_few in (
        ("ENTRY_WITHOUT_REPLICA", 0),
        ("ENTRY_BELOW_ACK_QUORUM", ack - 1),
        ("ENTRY_CORRUPT", -1),
        ("ENTRY_BELOW_WRITE_QUORUM", write - 1),
    ):
        entries = [
            entry
            for possible, _, entry in order
            if possible <= too_few or (entry in corrupt and too_few < 0)
        ]
        if entries and (kind in ("ENTRY_WITHOUT_REPLICA", "ENTRY_CORRUPT") or not excused):
            possible, confirmed, worst = (
                min(order) if too_few >= 0 else next(one for one in order if one[2] == entries[0])
            )
            out.kind, out.entries, out.missing_on, out.worst = kind, entries, missing, worst
            out.copies = (write, ack, confirmed, possible - confirmed)
            break
    return {reason for bookie in unknown_on for reason in reasons(bookie)}


def runs(entries: Iterable[int]) -> tuple[tuple[int, int], ...]:
    """Return the maximal inclusive runs of the entries."""
    found: list[tuple[int, int]] = []
    for entry in sorted(entries):
        if found and found[-1][1] + 1 == entry:
            found[-1] = (found[-1][0], entry)
        else:
            found.append((entry, entry))
    return tuple(found)


def differences(expected: Judged, verdict: Verdict) -> list[str]:
    """Return each difference between the verdict and the expected one, as a sentence."""
    entry = [
        f
        for f in verdict.findings
        if f.kind is Kind.UNDERREPLICATED_UNRECOVERABLE
        or (f.family is Family.ENTRY and f.kind is not Kind.LEDGER_CLOSED_SHORT)
    ]
    others = {f.kind.value for f in verdict.findings if f not in entry}
    pairs: list[tuple[str, object, object]] = [
        ("standing", expected.standing, verdict.standing.word),
        ("exempt", expected.exempt, verdict.exempt.value if verdict.exempt else None),
        ("unknowns", sorted(expected.unknowns), sorted(u.value for u in verdict.unknowns)),
        (
            "unknowns in the catalogue's order",
            [u for u in Unknown if u in verdict.unknowns],
            list(verdict.unknowns),
        ),
        ("entry kinds", [expected.kind] if expected.kind else [], [f.kind.value for f in entry]),
        ("other kinds", sorted(expected.others), sorted(others)),
        ("listing false negatives", expected.false_negatives, verdict.listing_false_negatives),
    ]
    if expected.kind and entry:
        pairs += _finding_pairs(expected, entry[0])
    return [f"{what}: expected {want}, got {got}" for what, want, got in pairs if want != got]


def _finding_pairs(expected: Judged, finding: Finding) -> list[tuple[str, object, object]]:
    copies = finding.copies
    missing: Mapping[str, object] = dict(finding.missing_on)
    return [
        ("entries", runs(expected.entries)[:20], finding.entries),
        ("entries_total", len(expected.entries), finding.entries_total),
        ("missing_on", {b: runs(gone)[:20] for b, gone in expected.missing_on.items()}, missing),
        (
            "copies",
            expected.copies,
            copies and (copies.write_quorum, copies.ack_quorum, copies.confirmed, copies.unknown),
        ),
        ("worst entry", expected.worst, worst_entry_of(finding)),
        (
            "segment holds the worst entry",
            True,
            finding.segment is not None
            and finding.segment.first_entry_id
            <= (expected.worst or 0)
            <= finding.segment.last_entry_id,
        ),
    ]
