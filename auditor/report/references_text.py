"""The report's section on Pulsar: what topics reference, and which topics are hit, worst first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from auditor.model.finding import Kind
from auditor.model.summary import References, Summary, WorstTopics
from auditor.model.topic import Unread
from auditor.report.layout import Screen, count, of, printable, size

TOPICS_SHOWN_MAX = 5
"""At most this many topics, and namespaces, are shown; topics.jsonl has all topics."""


def references_section(summary: Summary, screen: Screen) -> Iterator[str]:
    """Yield lines on topics; none if the run did not look for topics. Stored runs may lack the
    fields.
    """
    references = summary.references
    if references is None:
        return
    yield screen.paint("Topics (Pulsar)", "bold")
    yield from screen.wrap(_read_words(references), "  ")
    for sentence in (*_lost_words(references), *_orphan_words(references)):
        yield from screen.wrap(sentence, "  ")
    if references.unread:
        yield from screen.wrap(unread_words(references.unread), "  ")
    if summary.topics_hit:
        yield from screen.wrap(f"{hit_words(summary)}; worst first:", "  ")
        yield from _worst(summary.topics_worst or WorstTopics(), screen)
    yield ""


def _read_words(references: References) -> str:
    parts = [
        of(references.topics, "topic"),
        of(references.cursors, "cursor"),
        of(references.schemas, "schema"),
    ]
    sentence = (
        f"{', '.join(parts)} were read; they reference"
        f" {of(references.ledgers_referenced, 'ledger')}"
    )
    unread = references.unreadable
    sentence = (
        f"{sentence}; of {of(unread, 'topic')} something could not be read" if unread else sentence
    )
    return f"{sentence}; not all topics could be listed" if references.not_listed else sentence


def _lost_words(references: References) -> Iterator[str]:
    missing, cut, unknown = references.missing, references.truncated, references.unknown
    if missing or cut:
        ends = (
            "1 ends before what its topic"
            if cut == 1
            else f"{count(cut)} end before what their topics"
        )
        yield (
            f"{of(missing, 'referenced ledger has', 'referenced ledgers have')} no metadata, and"
            f" {ends} recorded"
        )
    if beyond := references.positions_beyond:
        yield (
            f"{of(beyond, 'ledger ends', 'ledgers end')} before a position that a subscription"
            " acknowledged"
        )
    if dropped := references.dropped:
        yield (
            f"{of(dropped, 'ledger is', 'ledgers are')} gone from inside a topic's list"
            " since an earlier run"
        )
    if newest := references.newest_missing:
        yield (
            f"{of(newest, 'newest ledger of a topic has', 'newest ledgers of topics have')} no"
            " metadata; the next load of the topic drops it from the topic's list"
        )
    if outdated := references.outdated:
        yield (
            f"{of(outdated, 'outdated compacted ledger')} of subscriptions in use could not be"
            " found, which is usual"
        )
    if unknown:
        yield (
            f"of {of(unknown, 'referenced ledger')} it is not known whether"
            f" {'it is' if unknown == 1 else 'they are'} lost"
        )


def _orphan_words(references: References) -> Iterator[str]:
    orphaned, undecided = references.orphaned, references.orphaned_unknown
    if orphaned:
        held = references.orphaned_bytes
        least = "at least " if references.orphaned_without_length else ""
        in_copies = "" if held is None else f", with {least}{size(held)} in all copies"
        yield (
            f"{of(orphaned, 'old ledger is', 'old ledgers are')} referenced by no topic"
            f" (orphans){in_copies}"
        )
    if growth := references.orphaned_growth:
        ledgers, held = growth.ledgers, growth.stored_bytes
        if ledgers or held:
            yield (
                f"that is {count(abs(ledgers))} {'fewer' if ledgers < 0 else 'more'} orphans and"
                f" {size(abs(held))} {'less' if held < 0 else 'more'} than at run"
                f" {growth.since.run_id} (began {growth.since.started_at})"
            )
    if undecided:
        beside = " more" if orphaned else ""
        yield (
            f"{count(undecided)}{beside} without a known reference may be needed by something that"
            " is not decoded"
        )


def unread_words(counts: Mapping[str, int]) -> str:
    """Return which parts of topics are not read although they can hold a ledger or position.

    `counts` are by the names of Unread; there is at least one.
    """
    parts = [
        of(int(counts[unread]), singular, plural)
        for unread, (singular, plural) in _UNREAD.items()
        if counts.get(unread)
    ]
    return f"not read: {'; '.join(parts)} (docs/auditing-pulsar.md)"


_UNREAD = {
    Unread.NEWEST_POSITION: (
        "subscription's newest position, in the ledger of its cursor",
        "subscriptions' newest positions, in the ledgers of their cursors",
    ),
    Unread.BATCH_ACKNOWLEDGEMENT: (
        "batch that is acknowledged in part",
        "batches that are acknowledged in part",
    ),
    Unread.SCHEMA_INDEX: (
        "schema's index of older versions",
        "schemas' indexes of older versions",
    ),
    Unread.OFFLOADED_COPY: (
        "copy of a ledger in long-term storage",
        "copies of ledgers in long-term storage",
    ),
    Unread.PROPERTY: (
        "property that no broker reads a ledger from",
        "properties that no broker reads a ledger from",
    ),
    Unread.UNKNOWN_FIELD: (
        "field that no Pulsar up to 4.0 writes",
        "fields that no Pulsar up to 4.0 writes",
    ),
}


def hit_words(summary: Summary) -> str:
    """Return how many topics are hit, and how many subscriptions are blocked."""
    worst, references = summary.topics_worst or WorstTopics(), summary.references
    has_truncated = references is not None and references.truncated > 0
    hit = of(summary.topics_hit or 0, "topic is", "topics are")
    namespaces = of(worst.namespaces, "namespace")
    blocked = _blocked_words(
        worst.subscriptions_blocked, worst.subscriptions_possibly_blocked, may_skip=has_truncated
    )
    return f"{hit} hit, in {namespaces}: {count(worst.with_loss)} with a loss, {blocked}"


def _blocked_words(blocked: int, possibly: int, *, may_skip: bool) -> str:
    """Return how many subscriptions a loss hits.

    A broker may continue beyond the end of a truncated ledger.
    """
    word = "blocked (or skipping the lost entries without an error)" if may_skip else "blocked"
    return f"{of(blocked, 'subscription')} {word} and {count(possibly)} possibly"


def _worst(worst: WorstTopics, screen: Screen) -> Iterator[str]:
    for topic in worst.worst_topics[:TOPICS_SHOWN_MAX]:
        loss = "a loss" if topic.has_loss else "no loss of entries"
        may_skip = Kind.LEDGER_TRUNCATED.value in topic.kinds
        numbers = topic.subscriptions_blocked, topic.subscriptions_possibly_blocked
        blocked = _blocked_words(*numbers, may_skip=may_skip)
        ledgers = f"{of(topic.ledgers, 'ledger')} ({', '.join(topic.kinds)})"
        yield from screen.wrap(
            f"{printable(topic.topic, 300)}: {loss}, {ledgers}, {blocked}",
            "    ",
            hang="  ",
        )
    if worst.namespaces > 1:
        named = (
            f"{printable(namespace.namespace, 200)} {count(namespace.topics)}"
            for namespace in worst.worst_namespaces[:TOPICS_SHOWN_MAX]
        )
        yield from screen.wrap(f"by namespace: {', '.join(named)}", "    ", hang="  ")
