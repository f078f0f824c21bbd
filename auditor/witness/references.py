"""Witnesses of the reference family: which topics need the ledger, and what two looks saw of it."""

from __future__ import annotations

from auditor.model.facts import (
    Acknowledgement,
    DroppedLedgerFacts,
    MissingLedgerFacts,
    NewestMissingFacts,
    OrphanedFacts,
    PositionBeyondFacts,
    PositionFacts,
    TruncatedLedgerFacts,
    UseFacts,
)
from auditor.model.finding import Finding, Kind
from auditor.model.topic import COMPACTION_CURSOR, Role
from auditor.pulsar.readability import Condition
from auditor.witness.phrases import TellOther, clock, name_some, span

_NAMESPACES_SHOWN = 3
_USES_SHOWN = 3
"""A sentence names at most this many uses. The facts have more."""
_ROLES = {
    Role.DATA: "for its messages",
    Role.SCHEMA: (
        "for its schemas, or those of the non-persistent topic of that name: ZooKeeper keeps the"
        " two together"
    ),
    Role.CURSOR: "for the cursor of subscription",
    Role.COMPACTED: "for its compacted messages, by subscription",
    Role.DELAYED: "for the times of delayed messages, by subscription",
}


NEWEST_EFFECT = (
    "A broker that loads the topic drops the ledger from the topic's list. Readers miss its"
    " messages, and get no error."
)
_EFFECTS = {
    Role.DATA: "A reader that comes to it stops there.",
    Role.SCHEMA: (
        "A broker that reads the schemas of the topic deletes all of them, also those in other"
        " ledgers."
    ),
    Role.CURSOR: (
        "A broker that loads the topic falls back to the position in ZooKeeper, and delivers again"
        " what was acknowledged since."
    ),
    Role.COMPACTED: (
        "Readers of the compacted topic get an error, and so does the next compaction. Readers of"
        " all messages get what the topic still has."
    ),
    Role.DELAYED: (
        "No message is lost: a broker that loads the topic reads the delayed messages again, and"
        " delivers them when they are due."
    ),
}
_COMPACTION_EFFECT = (
    "The newest compacted ledger is named there alone. A broker that loads the topic forgets it:"
    " readers of the compacted topic get only what the topic has not trimmed."
)


def loss_effect(role: Role, name: str) -> str:
    """Return what the loss of a ledger in this role does when a broker next uses it.

    This was tried with Pulsar 4.0. `name` is the subscription of a cursor. For the newest ledger of
    messages, NEWEST_EFFECT is used instead.
    """
    is_compaction = role is Role.CURSOR and name == COMPACTION_CURSOR
    return _COMPACTION_EFFECT if is_compaction else _EFFECTS[role]


def damage_effect(role: Role, name: str, condition: Condition) -> str:
    """Return what a broker does next with a damaged ledger in this role.

    "" if the condition's own text says it. `name` is the subscription of a cursor. The effects of a
    missing ledger and of lost entries were tried with Pulsar 4.0. Those of entries that no bookie
    serves now are read in its source.
    """
    if role is Role.CURSOR and condition in _ONE_ENTRY_COUNTS:
        return f"{_ONE_ENTRY_COUNTS[condition]} {loss_effect(role, name)}"
    if role is Role.SCHEMA and condition in _UNTIL_BOOKIES_ANSWER:
        return _SCHEMA_UNAVAILABLE
    is_lost = role is not Role.DATA and condition in _LOST
    return loss_effect(role, name) if is_lost or condition is Condition.MISSING else ""


_LOST = frozenset({Condition.UNRECOVERABLE, Condition.ENTRIES_UNAVAILABLE, Condition.ENTRIES_LOST})
"""Conditions that a broker treats as the loss of a ledger, unless the role has its own text."""
_ONE_ENTRY_COUNTS = {
    Condition.ENTRIES_UNAVAILABLE: (
        "A broker reads its last entry alone. If no bookie serves that, the topic does not load, or"
        " the broker gives the ledger up."
    ),
    Condition.ENTRIES_LOST: (
        "A broker reads its last entry alone. If that is lost, the broker gives the ledger up."
    ),
    Condition.CLOSED_SHORT: (
        "A broker takes what the entry at its end says, which is older than what was written last."
        " If no entry is left, the broker gives the ledger up."
    ),
}
"""What a broker does with a cursor's ledger that it can open. If it gives the ledger up, the effect
is that of the loss."""
_UNTIL_BOOKIES_ANSWER = frozenset({Condition.UNRECOVERABLE, Condition.ENTRIES_UNAVAILABLE})
_SCHEMA_UNAVAILABLE = (
    "A broker that reads the schemas in it gets an error until more bookies answer. Where every"
    " bookie says that it has no such entry, it deletes all schemas of the topic."
)


def _effects_words(some: tuple[UseFacts, ...]) -> str:
    """Return what the loss does for each role among the first uses, each sentence once."""
    return " ".join(dict.fromkeys(loss_effect(use.role, use.name) for use in some[:_USES_SHOWN]))


def _use_words(use: UseFacts) -> str:
    name = f" {_name_of(use)}" if use.role in (Role.CURSOR, Role.COMPACTED, Role.DELAYED) else ""
    if use.shadow_source is not None:
        return f"{use.topic} as the shadow of {use.shadow_source}"
    return f"{use.topic} {_ROLES[use.role]}{name}"


def _name_of(use: UseFacts) -> str:
    """Return the name of a subscription. Any client can choose it."""
    return use.name.strip() or "without a name"


def _uses_words(some: tuple[UseFacts, ...], total: int) -> str:
    uses_text = "; ".join(map(_use_words, some[:_USES_SHOWN]))
    more = total - min(len(some), _USES_SHOWN)
    return f"{uses_text}; and {more} more" if more else uses_text


def _missing_sentences(finding: Finding, facts: MissingLedgerFacts) -> str:
    held = ""
    if facts.entries is not None:
        size = "" if facts.size_bytes is None else f" ({facts.size_bytes} bytes)"
        held = f" The topic recorded {facts.entries} entries in it{size}."
    elif any(use.role is Role.DATA for use in facts.some_uses):
        held = " How many entries it had was not recorded."
    cursors = [use for use in facts.some_uses if use.role is Role.CURSOR]
    falls_back = ""
    if cursors and cursors[0].position is not None:
        falls_back = (
            f" ZooKeeper has position {cursors[0].position} for subscription"
            f" {_name_of(cursors[0])}."
        )
    return (
        f"Ledger {finding.ledger_id} is referenced by {_uses_words(facts.some_uses, facts.uses)}."
        " It has no metadata (NONODE after a sync): BookKeeper does not know it. Both were so at"
        f" two looks, {span(facts.apart_ms)} apart; each time the reference was read"
        f" first.{held}{falls_back} {_effects_words(facts.some_uses)}"
    )


def _newest_sentences(finding: Finding, facts: NewestMissingFacts) -> str:
    return (
        f"Ledger {finding.ledger_id} is the newest ledger of"
        f" {_uses_words(facts.some_uses, facts.uses)}. It has no metadata (NONODE after a sync):"
        " BookKeeper does not know it. Both were so at two looks,"
        f" {span(facts.apart_ms)} apart; each time the reference was read first. How many entries"
        " it had was not recorded; a broker that stopped while it replaced an empty ledger leaves"
        f" the same. {NEWEST_EFFECT}"
    )


def _truncated_sentences(finding: Finding, facts: TruncatedLedgerFacts) -> str:
    end = (
        f"ends at entry {facts.last_entry_id}"
        if facts.last_entry_id >= 0
        else "says that it has no entry"
    )
    cut = facts.entries - 1 - facts.last_entry_id
    cut_off = "1 entry is" if cut == 1 else f"{cut} entries are"
    sizes = ""
    if facts.size_bytes is not None:
        sizes = (
            f" The recorded size is {facts.size_bytes} bytes, the length in the metadata"
            f" {facts.length_bytes}."
        )
    return (
        f"Ledger {finding.ledger_id} is referenced by {_uses_words(facts.some_uses, facts.uses)}."
        f" By that record it has at least {facts.entries} entries. Its metadata is CLOSED and"
        f" {end}: {cut_off} cut off. Both were so at two looks, {span(facts.apart_ms)}"
        f" apart.{sizes}"
    )


def _dropped_sentences(finding: Finding, facts: DroppedLedgerFacts) -> str:
    """Say who listed the ledger, what is left around it, and what is left of the ledger."""
    held = "How many entries it had was not recorded."
    if facts.entries is not None:
        size = "" if facts.size_bytes is None else f" ({facts.size_bytes} bytes)"
        held = f"The topic recorded {facts.entries} entries in it{size}."
    left = (
        "BookKeeper still has its metadata."
        if facts.is_listed
        else "BookKeeper does not list the ledger any more."
    )
    copy = " A copy was in long-term storage." if facts.is_offloaded else ""
    around, where = (
        f"and neither {finding.ledger_id} nor a later one of those that it had then",
        "from the end",
    )
    if facts.after is not None:
        around = f"ledger {facts.after} after it, and not {finding.ledger_id}"
        where = "from between"
    return (
        f"Run {facts.earlier_run} read ledger {finding.ledger_id} in the list of"
        f" {name_some(facts.some_topics, facts.topics)} at {clock(facts.earlier_read_at_ms)} UTC."
        f" At two looks, {span(facts.apart_ms)} apart, the list has ledger {facts.before} before"
        f" it, {around}. {held} {left}{copy} A broker trims a topic from its front: nothing that is"
        f" known removes a ledger with entries {where}. Readers of the topic pass from ledger"
        f" {facts.before} to the next one, and get no error."
    )


def _position_sentences(finding: Finding, facts: PositionBeyondFacts) -> str:
    """Say where the ledger ends, which positions lie above, and what a broker does with them."""
    ends = (
        f"ends at entry {facts.last_entry_id}"
        if facts.last_entry_id >= 0
        else "says that it has no entry"
    )
    shown = "; ".join(map(_position_words, facts.some_positions[:_USES_SHOWN]))
    more = facts.positions - min(len(facts.some_positions), _USES_SHOWN)
    rest = f"; and {more} more" if more else ""
    return (
        f"The metadata of ledger {finding.ledger_id} is CLOSED and {ends}. ZooKeeper has positions"
        f" above it: {shown}{rest}. Both were so at two looks, {span(facts.apart_ms)} apart. A"
        " subscription acknowledges what it was sent: the ledger had these entries, unless"
        f" somebody set the position. {POSITION_EFFECT}"
    )


POSITION_EFFECT = (
    "By Pulsar's source, a broker that loads the topic puts a position behind the topic's last"
    " entry back to that entry, and goes on from any other one with the next ledger. That was not"
    " tried."
)


def _position_words(facts: PositionFacts) -> str:
    name = facts.subscription.strip() or "without a name"
    what = (
        "everything up to" if facts.what is Acknowledgement.MARK_DELETE else "a range that ends at"
    )
    return f"subscription {name} of {facts.topic} has acknowledged {what} {facts.position}"


def _orphaned_sentences(_finding: Finding, facts: OrphanedFacts) -> str:
    is_single = facts.ledgers == 1
    which = (
        f"Ledger {facts.some_ledgers[0]} was"
        if is_single
        else f"{facts.ledgers} ledgers ({_ids(facts)}) were"
    )
    it, names = ("it", "it names") if is_single else ("them", "they name")
    closed = facts.ledgers - facts.without_length
    held = (
        f" Closed among them: {closed}, with {facts.length_bytes} bytes before replication and"
        f" {facts.stored_bytes} in all copies."
        if closed
        else ""
    )
    rest = ""
    if facts.undecided:
        more, needed = (
            ("1 more ledger of Pulsar has", "it")
            if facts.undecided == 1
            else (f"{facts.undecided} more ledgers of Pulsar have", "them")
        )
        rest = f" {more} no known reference; it is not known whether something needs {needed}."
    return (
        f"{which} written by Pulsar more than {span(facts.orphan_age_ms)} ago, and no topic"
        f" referenced {it}, nor did the topic that {names} when it was read again. The looks were"
        f" {span(facts.apart_ms)} apart; the oldest ledger is {span(facts.oldest_age_ms)}"
        f" old.{held} {_namespaces_words(facts)}{rest} If another Pulsar shares these bookies, the"
        " ledgers may be its own."
    )


def _namespaces_words(facts: OrphanedFacts) -> str:
    """Return where the orphans belong, the namespaces with the most bytes first."""
    parts = [
        f"{namespace.namespace} {namespace.ledgers} ({namespace.stored_bytes} bytes"
        f"{', and the namespace does not exist' if namespace.is_deleted else ''})"
        for namespace in facts.some_namespaces[:_NAMESPACES_SHOWN]
    ]
    more = facts.namespaces - len(parts)
    listed = ", ".join([*parts, *([f"and {more} more"] if more else [])])
    by_namespace = f"By namespace, with the bytes of closed ledgers in all copies: {listed}."
    topics = [
        f"{topic.topic} {topic.ledgers} ({topic.stored_bytes} bytes)"
        for topic in facts.some_topics[:_NAMESPACES_SHOWN]
    ]
    bookies = [
        f"{bookie.bookie_id} {bookie.estimated_bytes}"
        for bookie in facts.some_bookies[:_NAMESPACES_SHOWN]
        if bookie.estimated_bytes
    ]
    by_topic = f" By topic, likewise: {name_some(topics, facts.topics)}."
    by_bookie = f" Bytes by bookie, estimated: {name_some(bookies, facts.bookies)}."
    return f"{by_namespace}{by_topic}{by_bookie if bookies else ''}"


def _ids(facts: OrphanedFacts) -> str:
    return name_some(facts.some_ledgers, facts.ledgers)


TELL: dict[Kind, TellOther] = {
    Kind.REFERENCED_LEDGER_MISSING: _missing_sentences,
    Kind.NEWEST_LEDGER_MISSING: _newest_sentences,
    Kind.LEDGER_TRUNCATED: _truncated_sentences,
    Kind.LEDGER_DROPPED_FROM_TOPIC: _dropped_sentences,
    Kind.POSITION_BEYOND_END: _position_sentences,
    Kind.LEDGER_ORPHANED: _orphaned_sentences,
}
