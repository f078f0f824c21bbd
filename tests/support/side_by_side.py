"""Two auditors asked about the same ledgers, and the truth that a test states for them.

An `Answer` is what an auditor says, in BookKeeper's form: how many ledgers, by word. The words are
BookKeeper's gauges, and those that it has no gauge for. `holds_truth` compares an answer with the
truth and does not know who gave it. `lives_on` reads every entry from every bookie, so the truth
does not rest on the test's word alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from support.audits import Outcome
from support.java_auditor import JavaRun
from support.raw_bookie import read_request, status_name
from support.real_cluster import RealCluster

from auditor.model.finding import CATALOGUE, Family, Kind
from auditor.model.verdict import Unknown

READS_A_BATCH = 200
Says = Mapping[str, int]
"""Ledgers by word; a word that is not named has 0."""


class Question(StrEnum):
    """The question to an auditor. Java's replicas check answers the first, its placement check the
    others.
    """

    ENTRIES = "entries"
    PLACEMENT = "placement"
    MARKS = "marks"


GAUGES = {
    Question.ENTRIES: ("no_replica", "below_ack", "below_write"),
    Question.PLACEMENT: ("placement_failed", "placement_soft"),
    Question.MARKS: ("beyond_grace",),
}
FAMILIES = {
    Question.ENTRIES: {Family.ENTRY, Family.METADATA},
    Question.PLACEMENT: {Family.PLACEMENT, Family.METADATA},
    Question.MARKS: {Family.MARK},
}
REASONS = {
    Question.ENTRIES: set(Unknown) - {Unknown.TOPOLOGY_UNKNOWN},
    Question.PLACEMENT: {Unknown.TOPOLOGY_UNKNOWN},
    Question.MARKS: set(),
}
"""The unknown reasons that concern a question."""
WORDS = {
    Kind.ENTRY_WITHOUT_REPLICA: "no_replica",
    Kind.ENTRY_BELOW_ACK_QUORUM: "below_ack",
    Kind.ENTRY_BELOW_WRITE_QUORUM: "below_write",
    Kind.METADATA_MALFORMED: "malformed",
    Kind.PLACEMENT_FAILED: "placement_failed",
    Kind.PLACEMENT_SOFT: "placement_soft",
    Kind.UNDERREPLICATED_BEYOND_GRACE: "beyond_grace",
}
"""A word for each kind. A kind without one is its own word, and no truth allows it."""


@dataclass(frozen=True)
class Answer:
    """What an auditor says: whether it finished, and the number of ledgers by word."""

    finished: bool
    says: Says


@dataclass(frozen=True)
class Truth:
    """The number of ledgers by word. `or_unknown`: some bookie gives no word, so `unknown` for all
    ledgers is right as well.
    """

    says: Says
    or_unknown: int = 0


def holds_truth(answer: Answer, truth: Truth) -> bool:
    """Return whether it finished, accuses nothing sound and omits nothing that is not."""
    honest = [dict(truth.says)] + ([{"unknown": truth.or_unknown}] if truth.or_unknown else [])
    return answer.finished and _said(answer.says) in honest


def java_answer(question: Question, run: JavaRun) -> Answer:
    """Return the answer by its gauges, which are all it publishes; ZooKeeper says whether it
    finished.
    """
    return Answer(run.finished, _said({name: run.gauges[name] for name in GAUGES[question]}))


def our_answer(question: Question, outcome: Outcome, ledger_ids: Iterable[int]) -> Answer:
    """Return the answer by the findings and reasons of these ledgers.

    One with an unknown reason that concerns the question also counts as `unknown`.
    """
    counts: Counter[str] = Counter()
    for ledger_id in ledger_ids:
        kinds = {Kind(found["kind"]) for found in outcome.of(ledger_id)}
        counts.update(
            WORDS.get(kind, kind.value)
            for kind in kinds
            if CATALOGUE[kind].family in FAMILIES[question]
        )
        counts["unknown"] += bool(REASONS[question] & set(outcome.verdicts[ledger_id].unknowns))
    return Answer(outcome.exit_code in (0, 1, 3), _said(counts))


def _said(counts: Says) -> dict[str, int]:
    return {word: count for word, count in counts.items() if count}


def lives_on(cluster: RealCluster, ledger_id: int, text: str, entries_max: int = 2_000) -> str:
    """Return what is true of the entries of the ledger that `text` describes: "sound" or a word.

    Each entry is read (READ_ENTRY) on each bookie of its write set. Copies on bookies that do not
    answer count as present; then " unknown" is added.
    """
    metadata = cluster.ledger(text)
    assert metadata.last_entry_id is not None
    ends = [later.first_entry_id - 1 for later in metadata.segments[1:]] + [metadata.last_entry_id]
    quorum, worst, unknown = metadata.write_quorum, metadata.write_quorum, False
    for segment, last in zip(metadata.segments, ends, strict=True):
        span = range(segment.first_entry_id, min(last + 1, segment.first_entry_id + entries_max))
        held = {bookie: _held(cluster, bookie, ledger_id, span) for bookie in set(segment.ensemble)}
        for entry in span:
            chosen = {segment.ensemble[(entry + n) % len(segment.ensemble)] for n in range(quorum)}
            silent = sum(held[bookie] is None for bookie in chosen)
            copies = sum(entry in (held[bookie] or ()) for bookie in chosen)
            worst, unknown = min(worst, copies + silent), unknown or silent > 0
    word = _bucket(worst, metadata.ack_quorum, quorum)
    return f"{word} unknown" if unknown else word


def _bucket(copies: int, ack_quorum: int, write_quorum: int) -> str:
    if copies == 0:
        return "no_replica"
    if copies < ack_quorum:
        return "below_ack"
    return "below_write" if copies < write_quorum else "sound"


def _held(cluster: RealCluster, bookie_id: str, ledger_id: int, span: range) -> set[int] | None:
    """Return the entries of `span` that the bookie returns; None if it cannot be reached."""
    if bookie_id not in cluster.bookie_ids:
        return None
    try:
        connection = cluster.connect(bookie_id)
    except ConnectionRefusedError:
        return None
    held = set()
    with connection:
        for start in range(0, len(span), READS_A_BATCH):
            batch = span[start : start + READS_A_BATCH]
            answers = connection.ask_all([read_request(ledger_id, entry, entry) for entry in batch])
            held |= {entry for entry in batch if status_name(answers[entry].status) == "EOK"}
    return held
