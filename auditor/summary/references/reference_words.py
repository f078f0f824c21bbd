"""The sentences on what is unknown about Pulsar's topics and the ledgers that they reference."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from auditor.first_checker.references import Doubt
from auditor.model.identity import LedgerId

_NAMED_MAX = 5
"""A sentence names at most this many topics or ledgers."""


_DOUBTS = {
    Doubt.UNREAD: (
        "could not be read at some look: whether their metadata is there, and whole, is not known"
    ),
    Doubt.MISSING: (
        "had no metadata at some look, and the other did not confirm that a topic lacks them:"
        " whether anything is lost is not known"
    ),
    Doubt.SHORT: (
        "ended before what a topic recorded at some look, and the other did not confirm it: whether"
        " anything is lost is not known"
    ),
}


def withheld_sentences(
    unknown: Mapping[LedgerId, Doubt],
    outdated: Sequence[LedgerId],
    unreadable: Sequence[str | None],
    undecided: int,
) -> Iterator[str]:
    """Yield what is withheld and why. None among `unreadable` means that not all topics were
    listed.
    """
    topics = sorted(one for one in unreadable if one is not None)
    if topics:
        yield (
            f"reference_unreadable: of {_count(topics, 'topic')} something could not be read or"
            f" decoded (such as {_some(topics)}): what they reference is not known in full, and"
            " nothing is said of orphans in their namespaces"
        )
    if None in unreadable:
        yield (
            "reference_unreadable: not all of Pulsar's topics could be listed: nothing is said of"
            " orphans where they may be"
        )
    for doubt, words in _DOUBTS.items():
        ids = [ledger_id for ledger_id, why in unknown.items() if why is doubt]
        if ids:
            yield f"{_count(ids, 'ledger')} that topics reference (such as {_some(ids)}) {words}"
    if outdated:
        yield (
            f"{_count(outdated, 'compacted ledger')} (such as {_some(outdated)}) that ZooKeeper has"
            " of a subscription in use could not be found as it was: each compaction deletes the"
            " ledger of the one before, and the newest is named in the subscription's own ledger,"
            " which is not read"
        )
    if undecided:
        yield _undecided_sentence(undecided)


def _undecided_sentence(number: int) -> str:
    is_one = number == 1
    call = "is not called an orphan" if is_one else "are not called orphans"
    return (
        f"{_count(range(number), 'ledger')} of Pulsar without a known reference {call}: something"
        " that is not decoded, could not be read, or belongs to another Pulsar may reference"
        f" {'it' if is_one else 'them'}, or a run cannot look at so many again"
    )


def unjudged_sentences(more: int, suspects_max: int) -> Iterator[str]:
    """Yield how many referenced ledgers were too many to judge."""
    if more:
        yield (
            f"{_count(range(more), 'more ledger')} that topics reference could not be read at some"
            " look, or seemed missing or cut short, and nothing was found out about them: a run"
            f" judges the first {suspects_max:,}"
        )


def partition_sentences(lone: Sequence[object], in_doubt: Sequence[str]) -> Iterator[str]:
    """Yield which named partitions have no znode, and in which namespaces some may be missed."""
    if in_doubt:
        yield (
            f"not all partitioned topics of {_count(in_doubt, 'namespace')} (such as"
            f" {_some(in_doubt)}) could be listed or read: nothing is said of orphans there"
        )
    if lone:
        have = "has" if len(lone) == 1 else "have"
        yield (
            f"{_count(lone, 'partition')} of partitioned topics (such as {_some(lone)}) {have} no"
            " znode: Pulsar deletes inactive partitions, and the messages of a lost one can"
            " no longer be found; no ledger that names such a partition is called an orphan"
        )


def shadow_sentences(sourceless: Sequence[str]) -> Iterator[str]:
    """Yield the shadow topics whose source no longer exists."""
    if sourceless:
        its, them = ("its", "it") if len(sourceless) == 1 else ("their", "them")
        yield (
            f"{_count(sourceless, 'shadow topic')} (such as {_some(sourceless)}): {its} source does"
            f" not exist, and no broker can load {them}"
        )


def _count(counted: Sequence[object], noun: str) -> str:
    return f"{len(counted)} {noun}{'' if len(counted) == 1 else 's'}"


def _some(named: Sequence[object]) -> str:
    return ", ".join(map(str, named[:_NAMED_MAX]))
