"""The facts of findings on what Pulsar's topics reference: one frozen dataclass a kind."""

from __future__ import annotations

from dataclasses import dataclass

from auditor.model.identity import EntryId, LedgerId
from auditor.model.topic import Position, Role

USES_SHOWN_MAX = 20
"""A finding names at most this many uses of a ledger; the rest is counted."""

LOOKS_APART_MIN_MS = 1_000
"""Least time between the two looks at a ledger, and at its references, on which a finding rests.

A broker that deletes a topic deletes the ledgers first and the references afterwards, in
milliseconds each. A small topic vanishes within a second, a large one within the default delay of
five minutes."""


@dataclass(frozen=True, slots=True)
class UseFacts:
    """What a topic needs a ledger for.

    `name` is the subscription of a cursor or of a compaction, "" for other roles. `position`
    depends on the role: the first lost entry for data, the newest schema in the ledger for a
    schema, ZooKeeper's position of the subscription for a cursor. `shadow_source` is the topic
    whose znode has the ledgers of a shadow topic; None for other topics and roles.
    """

    topic: str
    role: Role
    name: str
    position: Position | None
    shadow_source: str | None = None


@dataclass(frozen=True, slots=True)
class MissingLedgerFacts:
    """REFERENCED_LEDGER_MISSING. The ledger had no metadata at two looks, `apart_ms` apart.

    `topics` reference it in `uses` ways at both looks. `entries` and `size_bytes` are what the
    topic recorded when it closed the ledger, None if nothing was recorded.
    """

    topics: int
    uses: int
    some_uses: tuple[UseFacts, ...]
    """At most 20, those of shadow topics last; sorted by topic, role and name."""
    entries: int | None
    size_bytes: int | None
    apart_ms: int


@dataclass(frozen=True, slots=True)
class NewestMissingFacts:
    """NEWEST_LEDGER_MISSING. The ledger had no metadata at two looks, `apart_ms` apart.

    It is the newest ledger of `topics` topics at both looks, and none recorded how many entries it
    has. A shadow topic and its source have the same newest ledger.
    """

    topics: int
    uses: int
    some_uses: tuple[UseFacts, ...]
    """At most 20, those of shadow topics last; sorted by topic, role and name."""
    apart_ms: int


@dataclass(frozen=True, slots=True)
class TruncatedLedgerFacts:
    """LEDGER_TRUNCATED. The metadata was closed at `last_entry_id` at two looks, `apart_ms` apart.

    `topics` record in `uses` ways that the ledger has more entries; `entries` is the highest of the
    recorded numbers. `length_bytes` is the length in the metadata, `size_bytes` the recorded one.
    """

    last_entry_id: EntryId
    entries: int
    topics: int
    uses: int
    some_uses: tuple[UseFacts, ...]
    """At most 20, those of shadow topics last; sorted by topic, role and name."""
    length_bytes: int
    size_bytes: int | None
    apart_ms: int


@dataclass(frozen=True, slots=True)
class OrphansInNamespace:
    """The orphans of one namespace.

    `stored_bytes`: the lengths of the closed ones, times their write quorums. `is_deleted`: the
    namespace had no policies, managed ledgers or partitioned topics at two looks.
    """

    namespace: str
    ledgers: int
    stored_bytes: int
    is_deleted: bool


@dataclass(frozen=True, slots=True)
class OrphanedFacts:
    """LEDGER_ORPHANED. Ledgers of Pulsar that nothing referenced at two looks.

    They are ledgers of messages and of cursors, older than `orphan_age_ms`, whose topic could be
    read.
    """

    ledgers: int
    some_ledgers: tuple[LedgerId, ...]
    """The first 20, ascending."""
    length_bytes: int
    """The sum of the lengths of the closed ledgers."""
    stored_bytes: int
    """The sum of these lengths, each times the ledger's write quorum."""
    without_length: int
    """Ledgers that are not closed: their metadata has no length yet."""
    oldest_age_ms: int
    orphan_age_ms: int
    namespaces: int
    some_namespaces: tuple[OrphansInNamespace, ...]
    """At most 20, those with the most bytes first."""
    undecided: int
    """Further Pulsar ledgers of this age without a decoded reference.

    Something that is not decoded may reference them."""
    apart_ms: int
