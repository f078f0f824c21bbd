"""A story of the demo: a subject with a finding, and a twin that differs in one fact.

Also the decorator that registers the functions which write stories.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

from auditor.model.finding import Kind
from auditor.model.identity import BookieId, LedgerId
from auditor.model.ledger import LedgerMetadata
from auditor.model.topic import Cursor, DataLedger, ManagedLedger
from auditor.sandbox.cluster import SandboxCluster
from auditor.wire.pulsar_metadata import encode_cursor, encode_managed_ledger
from auditor.wire.topic_paths import encode_name, parse_topic, topic_path

SILENT, LOST, LOST_AND_MARKED, BESIDE_B1, WIPED, SCRATCHED, UNLISTABLE = (
    "b6",
    "b7",
    "b8",
    "b9",
    "b10",
    "b11",
    "b12",
)
"""Bookies of the stories: b6 is registered and silent; b7 and b8 are lost; b9 has b1's location.

b10 lost its content, b11 is its twin, and b12 cannot list.
"""
FAILING, FAILING_ONCE, UNREADABLE = "b13", "b14", "b15"
"""Bookies that answer with an error status: about all their ledgers, about one, and to reads only.
"""


@dataclass(frozen=True, slots=True)
class Story:
    """A ledger or bookie with a finding of `kind`, and a twin without it.

    They differ in one fact, which `fact` names. Both are ledgers or both are bookies, by the kind's
    subject. For a finding on the cluster they are ids of ledgers that do not exist.
    `ledger_ids` are the story's ledgers, the twin's last.
    """

    kind: Kind
    ledger_or_bookie: LedgerId | BookieId
    twin: LedgerId | BookieId
    fact: str
    ledger_ids: tuple[LedgerId, ...]


StoryWriter: TypeAlias = Callable[[SandboxCluster, LedgerId], Story]
STORY_WRITERS: dict[Kind, StoryWriter] = {}
"""The function that writes the story of each kind, from the ledger id that it is given."""


def story_of(kind: Kind) -> Callable[[StoryWriter], StoryWriter]:
    """Register the decorated function as the one that writes the story of `kind`."""

    def enter(writer: StoryWriter) -> StoryWriter:
        assert kind not in STORY_WRITERS, f"{kind} has two stories"
        STORY_WRITERS[kind] = writer
        return writer

    return enter


def twins(
    cluster: SandboxCluster, kind: Kind, n: LedgerId, text: str, lose: Mapping[str, str], fact: str
) -> Story:
    """Write two equal ledgers, the first without the entries in `lose`, and return the story."""
    put(cluster, n, text, lose)
    put(cluster, n + 1, text)
    return Story(kind, n, n + 1, fact, (n, n + 1))


def put(
    cluster: SandboxCluster,
    ledger_id: LedgerId,
    text: str,
    lose: Mapping[str, str] | None = None,
    written: int | None = None,
) -> None:
    """Write a ledger of a topic and put its entries on their bookies, except those in `lose`."""
    cluster.place(
        ledger_id, with_owner(cluster.ledger(text), f"story-{ledger_id}"), lose, written=written
    )


NAMESPACE = "public/default"
"""The namespace of all topics of the stories."""


def put_topic(
    cluster: SandboxCluster,
    name: str,
    ledgers: Iterable[DataLedger],
    cursors: Mapping[str, Cursor] | None = None,
) -> None:
    """Write a topic that references these ledgers, with its subscriptions, as a broker does."""
    path = topic_path(parse_topic(f"{NAMESPACE}/{name}"))
    cluster.set_raw(path, encode_managed_ledger(ManagedLedger(tuple(ledgers))))
    for subscription, cursor in (cursors or {}).items():
        cluster.set_raw(f"{path}/{encode_name(subscription)}", encode_cursor(cursor))


def with_owner(metadata: LedgerMetadata, topic: str) -> LedgerMetadata:
    """Return the metadata with a topic as owner, as Pulsar writes it; format 1 is unchanged.

    Format 1 has no custom metadata.
    """
    if metadata.format_version == 1:
        return metadata
    name = f"{NAMESPACE}/persistent/{topic}"
    owner = {"application": "pulsar", "component": "managed-ledger", "pulsar/managed-ledger": name}
    return replace(
        metadata, custom_metadata=tuple((key, value.encode()) for key, value in owner.items())
    )
