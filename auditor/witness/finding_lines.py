"""Render each finding as a witness that a person can check, and as the record that is written.

The same evidence gives the same bytes.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from typing import NamedTuple

from auditor.first_checker.recheck import newest_state_start
from auditor.first_checker.schedule import expected_entries, extents, held_entries, positions
from auditor.model.availability import AnswerStatus, ReadStatus
from auditor.model.cluster import BookieRecord, ClusterFacts
from auditor.model.evidence import Look
from auditor.model.facts import facts_json
from auditor.model.finding import CATALOGUE, MATCHED_BY_KIND, Family, Finding, Kind
from auditor.model.finding_record import FindingRecord, Owner, RecordedFacts, RecordedLook
from auditor.model.identity import BookieId
from auditor.model.verdict import Probes
from auditor.witness import bookies as tell_bookies
from auditor.witness import entries as tell_entries
from auditor.witness import marks as tell_marks
from auditor.witness import metadata as tell_beyond_end
from auditor.witness import metadata as tell_metadata
from auditor.witness import placement as tell_placement
from auditor.witness import references as tell_references
from auditor.witness.entries import has_misplaced_copies
from auditor.witness.next_commands import next_commands
from auditor.witness.phrases import TellLedger, TellOther, clocks, moment
from auditor.witness.pulsar_commands import owner_of


class ClusterLook(NamedTuple):
    """One look at the whole cluster.

    It has the time when it began (ms), what was looked at, and what was seen ("listing", "411
    ledgers").
    """

    at_ms: int
    what: str
    seen: str


LISTED, PROBED = "listed", "probed"
"""What a verdict rests on: whole lists of what bookies hold, or a sample of entries that were
read."""


def assurance(probes: Probes | None) -> str:
    """Return the word for what a verdict rests on: LISTED or PROBED."""
    return LISTED if probes is None else PROBED


def ledger_testimony(
    finding: Finding, looks: Sequence[Look], facts: ClusterFacts, probes: Probes | None = None
) -> FindingRecord:
    """Return the record of a finding on a ledger, with every look at the ledger.

    `probes` are those of its verdict.
    """
    text = _TELL[finding.kind](finding, finding.facts, looks)
    owner = owner_of(looks[-1].record.metadata)
    witness = f"{text} {_time_sentence(looks)}".strip()
    return _outside(
        finding,
        facts,
        witness,
        [ledger_look(look) for look in looks],
        owner,
        assurance(probes),
        is_misplaced=has_misplaced_copies(finding, looks),
    )


def bookie_testimony(
    finding: Finding, looks: Sequence[BookieRecord], facts: ClusterFacts
) -> FindingRecord:
    """Return the record of a finding on a bookie.

    Its looks say how the bookie answered at each of them.
    """
    text = _TELL_OTHER[finding.kind](finding, finding.facts)
    return _outside(finding, facts, text, [_bookie_look(record) for record in looks])


def cluster_testimony(
    finding: Finding,
    looks: Sequence[ClusterLook],
    facts: ClusterFacts,
    owner: Owner | None = None,
) -> FindingRecord:
    """Return the record of a finding on the cluster, with what was seen at each look.

    Also of one on a ledger that rests on looks at a topic; `owner` is the ledger's.
    """
    text = _TELL_OTHER[finding.kind](finding, finding.facts)
    return _outside(
        finding,
        facts,
        text,
        [_cluster_look(look, is_mark=finding.family is Family.MARK) for look in looks],
        owner,
    )


def znode_testimony(
    finding: Finding, looks: Sequence[Look], facts: ClusterFacts, owner: Owner | None
) -> FindingRecord:
    """Return the record of a finding on a ledger that is made beside its verdict.

    Its looks are those at the ledger's znode; no bookie is asked for it.
    """
    witness = _TELL_OTHER[finding.kind](finding, finding.facts)
    return _outside(finding, facts, witness, [ledger_look(look) for look in looks], owner)


def gist(witness: str) -> str:
    """Return the witness without the sentence that says when bookies and metadata were asked.

    This is for a screen with few lines.
    """
    return _ASKED_AT.sub("", witness)


def finding_id(finding: Finding, facts: ClusterFacts) -> str:
    """Return an id of 16 hex digits that is stable over runs.

    It is a hash of the cluster, the family, the ledger or bookie (else "cluster"), and the
    segment's first entry. A kind that may stand beside another of its family is hashed too.
    """
    cluster = facts.instance_id or f"{facts.root} {' '.join(sorted(facts.hosts))}"
    subject = next(
        (str(name) for name in (finding.ledger_id, finding.bookie_id) if name is not None),
        "cluster",
    )
    first = "" if finding.segment is None else str(finding.segment.first_entry_id)
    kind = (finding.kind.value,) if finding.kind in MATCHED_BY_KIND else ()
    text = "\n".join((cluster, finding.family.value, subject, first, *kind))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def runbook(kind: Kind) -> str:
    """Return the path of the project's page on a kind.

    The page says what the kind means, what it does to readers and writers, how to look, and what to
    do.
    """
    return f"docs/findings/{kind.value.lower()}.md"


def _outside(
    finding: Finding,
    facts: ClusterFacts,
    witness: str,
    looks: Sequence[RecordedLook],
    owner: Owner | None = None,
    rests_on: str | None = None,
    *,
    is_misplaced: bool = False,
) -> FindingRecord:
    commands = next_commands(
        finding,
        replication_disabled=facts.replication_disabled,
        owner=owner,
        root=facts.root,
        is_misplaced=is_misplaced,
    )
    return FindingRecord(
        id=finding_id(finding, facts),
        kind=finding.kind,
        ledger_id=finding.ledger_id,
        bookie_id=finding.bookie_id,
        owner=owner,
        segment=finding.segment,
        entries=finding.entries,
        entries_total=finding.entries_total,
        missing_on=dict(finding.missing_on),
        copies=finding.copies,
        facts=RecordedFacts(facts_json(finding.facts)),
        witness=witness,
        looks=tuple(looks),
        next=tuple(commands),
        runbook=runbook(finding.kind),
        assurance=rests_on,
    )


def ledger_look(look: Look) -> RecordedLook:
    """Return one look at a ledger as it is written."""
    record = look.record
    return RecordedLook(
        at=moment(record.read_at_ms),
        znode_version=None if record.stamp is None else record.stamp.version,
        marked=record.mark is not None,
        answers={bookie: answer.status.value for bookie, answer in sorted(look.answers.items())},
        listed=_listed(look),
    )


def _listed(look: Look) -> dict[BookieId, tuple[int, int]]:
    """Return for each bookie with a list `(listed, due)`: entries of the ledger that it should hold
    by the metadata of the look, and how many of them its list names. Empty unless it is closed.
    """
    metadata = look.record.metadata
    if metadata is None or not (parts := extents(metadata)):
        return {}
    found = {}
    for bookie, answer in sorted(look.answers.items()):
        if answer.status is not AnswerStatus.HELD:
            continue
        held, listed, due = held_entries(answer.groups), 0, 0
        for part in parts:
            if at := positions(part.segment.ensemble).get(bookie):
                share = expected_entries(part, at, metadata.ensemble_size, metadata.write_quorum)
                listed, due = listed + (share & held).count(), due + share.count()
        found[bookie] = (listed, due)
    return found


def _bookie_look(record: BookieRecord) -> RecordedLook:
    greeting = record.greeting.value if record.greeting else "not_asked"
    return RecordedLook(moment(record.read_at_ms), None, False, {record.bookie_id: greeting})


def _cluster_look(look: ClusterLook, *, is_mark: bool) -> RecordedLook:
    return RecordedLook(moment(look.at_ms), None, is_mark, {look.what: look.seen})


_ASKED_AT = re.compile(r" (?:Bookies were asked|Metadata was read) at [^.]*\.$")


def _time_sentence(looks: Sequence[Look]) -> str:
    """Say when bookies were asked, and what the newest reading of the metadata found.

    Only looks at the newest metadata count.
    """
    if len(looks) < 2:
        return ""
    newest, chain = looks[-1].record, looks[newest_state_start(looks) :]
    asked = [look.record.read_at_ms for look in chain if _was_anyone_asked(look)]
    if newest.stamp is None:
        state = "it could not be read"
    else:
        change = "unchanged" if len(chain) > 1 else "changed since the look before"
        state = f"{change} (version {newest.stamp.version})"
    mark = "marked under-replicated" if newest.mark is not None else "not marked under-replicated"
    if asked:
        before = f"Bookies were asked at {clocks(asked)} UTC; metadata was read last at"
        read = [newest.read_at_ms]
    else:
        before = "Metadata was read at"
        read = [look.record.read_at_ms for look in chain]
    return f"{before} {clocks(read)} UTC: {state}, {mark}."


def _was_anyone_asked(look: Look) -> bool:
    """Return whether anything was sent to a bookie at this look.

    Nothing is sent without a registration or an address.
    """
    answered = {answer.status.value for answer in look.answers.values()}
    return not _NOT_SENT.issuperset(answered | {read.status.value for read in look.reads.values()})


_NOT_SENT = frozenset(
    {
        ReadStatus.UNREGISTERED.value,
        ReadStatus.ADDRESS_UNKNOWN.value,
        ReadStatus.AUDITOR_LIMITED.value,
        ReadStatus.NOT_ASKED.value,
    }
)
"""Results of requests that were never sent."""


_TELL: dict[Kind, TellLedger] = {
    **tell_entries.TELL,
    **tell_beyond_end.TELL_BEYOND_END,
    **tell_placement.TELL,
    **tell_marks.TELL,
    **tell_metadata.TELL,
}
_TELL_OTHER: dict[Kind, TellOther] = {
    **tell_bookies.TELL,
    **tell_bookies.TELL_CLUSTER,
    **tell_metadata.TELL_OTHER,
    **tell_marks.TELL_CLUSTER,
    **tell_references.TELL,
}
assert _TELL.keys() | _TELL_OTHER.keys() == CATALOGUE.keys(), (
    "each kind of the catalogue has its witness"
)
