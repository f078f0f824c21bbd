"""What a story of the demo is, and how one is entered: something that has a finding, beside a twin that differs in one fact."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

from auditor.model.finding import Kind
from auditor.model.identity import BookieId, LedgerId
from auditor.model.ledger import LedgerMetadata
from auditor.sandbox.cluster import SandboxCluster

SILENT, LOST, LOST_AND_MARKED, BESIDE_B1, WIPED, SCRATCHED, UNLISTABLE = "b6", "b7", "b8", "b9", "b10", "b11", "b12"
"""Bookies of the stories: registered and mute; gone twice; at b1's location; without its content; twin of that; cannot list."""
FAILING, FAILING_ONCE = "b13", "b14"
"""Bookies that answer with an error status: about every ledger, and about one."""


@dataclass(frozen=True, slots=True)
class Story:
    """Something that has a finding of `kind`, and a twin that has none and differs in one fact, which `told` names.

    Both are ledger ids or both bookie ids, as the catalogue has it; of a finding on the cluster they are ids of ledgers that do
    not exist. `ledger_ids` are the ledgers that tell it, the twin's last.
    """

    kind: Kind
    ledger_or_bookie: LedgerId | BookieId
    twin: LedgerId | BookieId
    told: str
    ledger_ids: tuple[LedgerId, ...]


Teller: TypeAlias = Callable[[SandboxCluster, LedgerId], Story]
TELLERS: dict[Kind, Teller] = {}
"""How each kind is told: writes ledger `n` and its twin `n + 1`."""


def tells(kind: Kind) -> Callable[[Teller], Teller]:
    """Enter the decorated function as the teller of `kind`."""

    def enter(teller: Teller) -> Teller:
        assert kind not in TELLERS, f"{kind} is told twice"
        TELLERS[kind] = teller
        return teller

    return enter


def twins(cluster: SandboxCluster, kind: Kind, n: LedgerId, text: str, lose: Mapping[str, str], told: str) -> Story:
    """Two ledgers told alike, the first without what it loses."""
    put(cluster, n, text, lose)
    put(cluster, n + 1, text)
    return Story(kind, n, n + 1, told, (n, n + 1))


def put(
    cluster: SandboxCluster, ledger_id: LedgerId, text: str, lose: Mapping[str, str] | None = None, written: int | None = None
) -> None:
    """A ledger of a topic, and its entries where striping says, but for what is lost."""
    cluster.place(ledger_id, owned(cluster.ledger(text), f"story-{ledger_id}"), lose, written=written)


def owned(metadata: LedgerMetadata, topic: str) -> LedgerMetadata:
    """The ledger as Pulsar would have written it for a topic; format 1 has no place for that."""
    if metadata.format_version == 1:
        return metadata
    name = f"public/default/persistent/{topic}"
    owner = {"application": "pulsar", "component": "managed-ledger", "pulsar/managed-ledger": name}
    return replace(metadata, custom_metadata=tuple((key, value.encode()) for key, value in owner.items()))
