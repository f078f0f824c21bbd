"""The stories of the demo: each has a subject with a finding, and a twin that differs in one fact.

They are about bookies (silent, lost, without content, failing), ensembles and their placement,
entries, marks and metadata, and what Pulsar's topics reference. A decorator registers the functions
that write stories.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

from auditor.findings.failing_requests import FAILING_LEDGERS_MIN
from auditor.model.finding import Kind
from auditor.model.identity import BookieId, LedgerId
from auditor.model.ledger import LedgerMetadata
from auditor.model.topic import Cursor, DataLedger, ManagedLedger, Position
from auditor.pulsar.metadata import encode_cursor, encode_managed_ledger
from auditor.pulsar.topic_paths import encode_name, parse_topic, topic_path
from auditor.sandbox.bookie import LedgerFault
from auditor.sandbox.cluster import SandboxCluster

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
"""Bookies that answer with an error status: to all requests, to those about one ledger, and to
reads."""

MOVED, OTHER_INSTANCE = "b4", "00000000-0000-4000-8000-000000000000"
"""The bookie of the story on cookies, and the instance id that its cookie names."""
SHRUNK, SHRUNK_BYTES = "b5", 75 * 2**30
"""The bookie whose disks shrink from one night to the next, and their size then."""


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
"""By kind, the function that writes its story with ledgers from the given id on."""


def story_of(kind: Kind) -> Callable[[StoryWriter], StoryWriter]:
    """Register the decorated function as the one that writes the story of `kind`."""

    def register(writer: StoryWriter) -> StoryWriter:
        assert kind not in STORY_WRITERS, f"{kind} has two stories"
        STORY_WRITERS[kind] = writer
        return writer

    return register


def _write_twins(
    cluster: SandboxCluster, kind: Kind, n: LedgerId, text: str, lose: Mapping[str, str], fact: str
) -> Story:
    """Write two equal ledgers, the first without the entries in `lose`, and return the story."""
    _put_ledger(cluster, n, text, lose)
    _put_ledger(cluster, n + 1, text)
    return Story(kind, n, n + 1, fact, (n, n + 1))


def _put_ledger(
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


LEDGERS_OF_A_CONTENT = 4
"""This many ledgers are on the bookie that lost its content, and as many on its twin."""


@story_of(Kind.BOOKIE_SILENT_YET_REGISTERED)
def _silent_yet_registered(cluster: SandboxCluster, n: LedgerId) -> Story:
    _put_ledger(cluster, n, f"e3 w2 a2 0:[b1 b2 {SILENT}] closed 49")
    _put_ledger(cluster, n + 1, "e3 w2 a2 0:[b1 b2 b5] closed 49")
    fact = (
        f"Bookie {SILENT}, named by ledger {n}, is registered and nobody listens; b5, named by"
        f" ledger {n + 1}, answers."
    )
    ids = cluster.id_of(SILENT), cluster.id_of("b5")
    return Story(Kind.BOOKIE_SILENT_YET_REGISTERED, *ids, fact, (n, n + 1))


@story_of(Kind.BOOKIE_LOST_UNNOTICED)
def _lost_unnoticed_story(cluster: SandboxCluster, n: LedgerId) -> Story:
    _put_ledger(cluster, n, f"e3 w2 a2 0:[b1 {LOST} b3] closed 49")
    _put_ledger(cluster, n + 1, f"e3 w2 a2 0:[b1 {LOST_AND_MARKED} b3] closed 49")
    cluster.mark(n + 1, [LOST_AND_MARKED])
    fact = (
        f"Bookies {LOST} and {LOST_AND_MARKED} are gone, registration and cookie too. Ledger {n},"
        f" which names {LOST}, is not marked under-replicated: nobody knows. Ledger {n + 1}, which"
        f" names {LOST_AND_MARKED}, is."
    )
    ids = cluster.id_of(LOST), cluster.id_of(LOST_AND_MARKED)
    return Story(Kind.BOOKIE_LOST_UNNOTICED, *ids, fact, (n, n + 1))


@story_of(Kind.BOOKIE_LOST_CONTENT)
def _lost_content_story(cluster: SandboxCluster, n: LedgerId) -> Story:
    ids = tuple(range(n, n + 2 * LEDGERS_OF_A_CONTENT))
    for ledger_id in ids:
        bookie = WIPED if ledger_id < n + LEDGERS_OF_A_CONTENT else SCRATCHED
        lose = {bookie: "0-49"} if bookie == WIPED or ledger_id == n + LEDGERS_OF_A_CONTENT else {}
        _put_ledger(cluster, ledger_id, f"e3 w3 a2 0:[b1 b2 {bookie}] closed 49", lose)
    fact = (
        f"Bookie {WIPED} answers and has nothing of ledgers {n} to {n + LEDGERS_OF_A_CONTENT - 1},"
        f" which name it. {SCRATCHED} lacks one ledger of as many, {n + LEDGERS_OF_A_CONTENT}."
    )
    return Story(
        Kind.BOOKIE_LOST_CONTENT, cluster.id_of(WIPED), cluster.id_of(SCRATCHED), fact, ids
    )


@story_of(Kind.BOOKIE_FAILING_REQUESTS)
def _failing_requests(cluster: SandboxCluster, n: LedgerId) -> Story:
    ids = tuple(range(n, n + 2 * FAILING_LEDGERS_MIN))
    for ledger_id in ids:
        bookie = FAILING if ledger_id < n + FAILING_LEDGERS_MIN else FAILING_ONCE
        _put_ledger(cluster, ledger_id, f"e3 w2 a2 0:[b1 b2 {bookie}] closed 49")
        if bookie == FAILING or ledger_id == n + FAILING_LEDGERS_MIN:
            cluster.fault(bookie, ledger_id, LedgerFault.EIO)
    fact = (
        f"Bookie {FAILING} answers each request about ledgers {n} to {n + FAILING_LEDGERS_MIN - 1},"
        f" which name it, with EIO. {FAILING_ONCE} does about one of as many,"
        f" {n + FAILING_LEDGERS_MIN}."
    )
    return Story(
        Kind.BOOKIE_FAILING_REQUESTS, cluster.id_of(FAILING), cluster.id_of(FAILING_ONCE), fact, ids
    )


@story_of(Kind.BOOKIE_UNREADABLE_ENTRIES)
def _unreadable_entries(cluster: SandboxCluster, n: LedgerId) -> Story:
    _put_ledger(cluster, n, f"e3 w2 a2 0:[b1 b2 {UNREADABLE}] closed 49")
    _put_ledger(cluster, n + 1, "e3 w2 a2 0:[b1 b2 b5] closed 49")
    cluster.fault(UNREADABLE, n, LedgerFault.READS_FAIL)
    fact = (
        f"Bookie {UNREADABLE} lists its entries of ledger {n} and answers each read of them with"
        f" EIO; b5, named by ledger {n + 1}, sends what it lists."
    )
    ids = cluster.id_of(UNREADABLE), cluster.id_of("b5")
    return Story(Kind.BOOKIE_UNREADABLE_ENTRIES, *ids, fact, (n, n + 1))


@story_of(Kind.COOKIE_OF_ANOTHER_INSTANCE)
def _foreign_cookie(cluster: SandboxCluster, _n: LedgerId) -> Story:
    cluster.cookie(MOVED, OTHER_INSTANCE)
    fact = (
        f"The cookie of bookie {MOVED} has the instance id {OTHER_INSTANCE}; that of b5 has the"
        " cluster's."
    )
    ids = cluster.id_of(MOVED), cluster.id_of("b5")
    return Story(Kind.COOKIE_OF_ANOTHER_INSTANCE, *ids, fact, ())


_ZONES_AND_DOMAINS = (
    *((1, 1), (2, 1), (3, 1), (1, 2), (2, 2), (3, 2), (1, 3)),
    *((2, 3), (1, 1), (3, 3), (2, 4), (3, 4), (3, 5), (3, 6), (2, 5)),
)
LOCATIONS = {
    f"b{number}": f"/zone{zone}/domain{domain}"
    for number, (zone, domain) in enumerate(_ZONES_AND_DOMAINS, start=1)
}
"""The locations of the demo's bookies. b1 and b9 share one.

The policy rack compares whole locations, the policy zone their two parts.
"""


@story_of(Kind.ENSEMBLE_DUPLICATE_BOOKIE)
def _duplicate_bookie(cluster: SandboxCluster, n: LedgerId) -> Story:
    # The write set of entry 2 would be b1 twice. With two entries, only the ensemble is wrong.
    _put_ledger(cluster, n, "e3 w2 a2 0:[b1 b2 b1] closed 1")
    _put_ledger(cluster, n + 1, "e3 w2 a2 0:[b1 b2 b3] closed 1")
    fact = (
        f"The ensemble of ledger {n} names b1 twice; in ledger {n + 1} the third bookie is"
        " another, b3."
    )
    return Story(Kind.ENSEMBLE_DUPLICATE_BOOKIE, n, n + 1, fact, (n, n + 1))


@story_of(Kind.PLACEMENT_FAILED)
def _placement_failed(cluster: SandboxCluster, n: LedgerId) -> Story:
    _put_ledger(cluster, n, f"e3 w2 a2 0:[b1 {BESIDE_B1} b3] closed 49")
    _put_ledger(cluster, n + 1, "e3 w2 a2 0:[b1 b2 b3] closed 49")
    fact = (
        f"Both bookies of some entries of ledger {n}, b1 and {BESIDE_B1}, share a rack; those of"
        f" ledger {n + 1} never do."
    )
    return Story(Kind.PLACEMENT_FAILED, n, n + 1, fact, (n, n + 1))


@story_of(Kind.PLACEMENT_SOFT)
def _placement_soft(cluster: SandboxCluster, n: LedgerId) -> Story:
    _put_ledger(cluster, n, "e3 w3 a2 0:[b1 b2 b4] closed 49")
    _put_ledger(cluster, n + 1, "e3 w3 a2 0:[b1 b2 b3] closed 49")
    fact = (
        f"Ledger {n} spans two zones, ledger {n + 1} three. Only --placement-policy zone tells"
        " these apart."
    )
    return Story(Kind.PLACEMENT_SOFT, n, n + 1, fact, (n, n + 1))


_WITHOUT_REPLICA = "e3 w2 a2 0:[b1 b2 b3] closed 99"
_BELOW_ACK_QUORUM = "e5 w3 a2 0:[b1 b2 b3 b4 b5] 1200:[b1 b2 b3 b5 b4] closed 1999"
_BELOW_WRITE_QUORUM = "e3 w3 a2 0:[b2 b3 b4] closed 499"


@story_of(Kind.ENTRY_WITHOUT_REPLICA)
def _without_replica(cluster: SandboxCluster, n: LedgerId) -> Story:
    text = _WITHOUT_REPLICA
    fact = (
        f"Entry 42 of ledger {n} is on neither b1 nor b2, where it belongs; ledger {n + 1} has it"
        " on both."
    )
    return _write_twins(
        cluster, Kind.ENTRY_WITHOUT_REPLICA, n, text, {"b1": "42", "b2": "42"}, fact
    )


@story_of(Kind.LEDGER_CLOSED_SHORT)
def _closed_short(cluster: SandboxCluster, n: LedgerId) -> Story:
    _put_ledger(cluster, n, "e3 w2 a2 0:[b1 b2 b3] closed 49", written=59)
    _put_ledger(cluster, n + 1, "e3 w2 a2 0:[b1 b2 b3] closed 59")
    fact = (
        f"Ledger {n} ends at entry 49, and its bookies hold entries up to 59, whose writer knew"
        f" that 58 was acknowledged; the metadata of ledger {n + 1} says 59."
    )
    return Story(Kind.LEDGER_CLOSED_SHORT, n, n + 1, fact, (n, n + 1))


@story_of(Kind.ENTRY_BELOW_ACK_QUORUM)
def _below_ack_quorum(cluster: SandboxCluster, n: LedgerId) -> Story:
    text = _BELOW_ACK_QUORUM
    fact = (
        f"Entry 1504 of ledger {n} was acknowledged by two bookies at least and is on one, b2; in"
        f" ledger {n + 1} on all three."
    )
    return _write_twins(
        cluster, Kind.ENTRY_BELOW_ACK_QUORUM, n, text, {"b4": "1504", "b1": "1504"}, fact
    )


@story_of(Kind.ENTRY_BELOW_WRITE_QUORUM)
def _below_write_quorum(cluster: SandboxCluster, n: LedgerId) -> Story:
    text = _BELOW_WRITE_QUORUM
    fact = (
        f"Bookie b3 lacks entries 100 to 199 of ledger {n}, two copies are left of each; in ledger"
        f" {n + 1} it has them."
    )
    return _write_twins(cluster, Kind.ENTRY_BELOW_WRITE_QUORUM, n, text, {"b3": "100-199"}, fact)


@story_of(Kind.ENTRY_ONLY_OUTSIDE_ENSEMBLE)
def _only_outside_ensemble(cluster: SandboxCluster, n: LedgerId) -> Story:
    story = _write_twins(
        cluster,
        Kind.ENTRY_ONLY_OUTSIDE_ENSEMBLE,
        n,
        "e3 w2 a2 0:[b1 b2 b3] closed 99",
        {"b1": "42", "b2": "42"},
        f"Entry 42 of ledger {n} is on b4 alone, which its metadata does not name; in ledger"
        f" {n + 1} it is where it belongs.",
    )
    cluster.hold("b4", n, "42")
    return story


@story_of(Kind.ENTRY_UNAVAILABLE)
def _unavailable(cluster: SandboxCluster, n: LedgerId) -> Story:
    text = "e2 w2 a2 0:[b1 b2] closed 49"
    fact = (
        f"Bookies b1 and b2 answer each request about ledger {n} with EIO; they serve ledger"
        f" {n + 1}."
    )
    story = _write_twins(cluster, Kind.ENTRY_UNAVAILABLE, n, text, {}, fact)
    for bookie in ("b1", "b2"):
        cluster.fault(bookie, n, LedgerFault.EIO)
    return story


@story_of(Kind.ENTRY_CORRUPT)
def _corrupt(cluster: SandboxCluster, n: LedgerId) -> Story:
    text = f"e3 w3 a2 0:[b1 b2 {UNLISTABLE}] closed 99"
    fact = (
        f"The copy of entry 0 of ledger {n} on {UNLISTABLE} does not match its digest; that of"
        f" ledger {n + 1} does."
    )
    story = _write_twins(cluster, Kind.ENTRY_CORRUPT, n, text, {}, fact)
    cluster.corrupt(UNLISTABLE, n, 0)
    return story


MARK_AGE_MS = 10 * 24 * 3600 * 1000
"""Age of the marks that are beyond any grace, by their ctime field: ten days."""
OPEN_AGE_MS = 60 * 24 * 3600 * 1000
"""Age of the ledger that is still open, by its metadata: sixty days."""


@story_of(Kind.UNDERREPLICATED_BEYOND_GRACE)
def _beyond_grace(cluster: SandboxCluster, n: LedgerId) -> Story:
    for ledger_id in (n, n + 1):
        _put_ledger(cluster, ledger_id, "e3 w2 a2 0:[b1 b2 b3] closed 49")
    cluster.mark(n, ["b3"], int(time.time() * 1000) - MARK_AGE_MS)
    fact = (
        f"Ledger {n} was marked under-replicated ten days ago, and still is; ledger {n + 1} is not"
        " marked."
    )
    return Story(Kind.UNDERREPLICATED_BEYOND_GRACE, n, n + 1, fact, (n, n + 1))


@story_of(Kind.MARK_WITHOUT_LEDGER)
def _mark_without_ledger(cluster: SandboxCluster, n: LedgerId) -> Story:
    now_ms = int(time.time() * 1000)
    for ledger_id, marked_ms in ((n, now_ms - MARK_AGE_MS), (n + 1, now_ms)):
        cluster.mark(ledger_id, ["b3"], marked_ms)
    fact = (
        f"Ledgers {n} and {n + 1} do not exist. {n} was marked under-replicated ten days ago,"
        f" {n + 1} just now."
    )
    return Story(Kind.MARK_WITHOUT_LEDGER, n, n + 1, fact, ())


@story_of(Kind.METADATA_MALFORMED)
def _malformed_story(cluster: SandboxCluster, n: LedgerId) -> Story:
    _put_ledger(cluster, n, "e3 w2 a2 0:[b3 b4 b5] closed", written=49)
    _put_ledger(cluster, n + 1, "e3 w2 a2 0:[b3 b4 b5] closed 49")
    fact = (
        f"Ledger {n} is closed and its metadata does not say at which entry; that of ledger {n + 1}"
        " says 49."
    )
    return Story(Kind.METADATA_MALFORMED, n, n + 1, fact, (n, n + 1))


@story_of(Kind.UNDERREPLICATED_UNRECOVERABLE)
def _unrecoverable(cluster: SandboxCluster, n: LedgerId) -> Story:
    text = "e3 w2 a2 0:[b3 b4 b5] closed 49"
    fact = (
        f"Ledger {n} is marked, and its entry 7 is on no bookie; ledger {n + 1} is marked too, with"
        " a copy of every entry."
    )
    story = _write_twins(
        cluster, Kind.UNDERREPLICATED_UNRECOVERABLE, n, text, {"b4": "7", "b5": "7"}, fact
    )
    for ledger_id in story.ledger_ids:
        cluster.mark(ledger_id, ["b4"])
    return story


@story_of(Kind.ENTRIES_BEYOND_END)
def _beyond_end(cluster: SandboxCluster, n: LedgerId) -> Story:
    _put_ledger(cluster, n, "e3 w2 a2 0:[b1 b2 b3] closed 49", written=50)
    _put_ledger(cluster, n + 1, "e3 w2 a2 0:[b1 b2 b3] closed 50")
    fact = (
        f"Ledger {n} ends at entry 49, and its bookies hold entry 50 too, whose writer knew that 49"
        f" was acknowledged; the metadata of ledger {n + 1} says 50."
    )
    return Story(Kind.ENTRIES_BEYOND_END, n, n + 1, fact, (n, n + 1))


@story_of(Kind.LEDGER_STUCK)
def _stuck(cluster: SandboxCluster, n: LedgerId) -> Story:
    now_ms = int(time.time() * 1000)
    for ledger_id, made_ms in ((n, now_ms - OPEN_AGE_MS), (n + 1, now_ms)):
        metadata = with_owner(cluster.ledger("e3 w2 a2 0:[b1 b2 b3] open"), f"story-{ledger_id}")
        cluster.place(ledger_id, replace(metadata, ctime_ms=made_ms))
        put_topic(cluster, f"story-{ledger_id}", [DataLedger(ledger_id)])
    fact = f"Ledger {n} has been open for sixty days, ledger {n + 1} since just now."
    return Story(Kind.LEDGER_STUCK, n, n + 1, fact, (n, n + 1))


@story_of(Kind.RECOVERY_BLOCKED)
def _recovery_blocked(cluster: SandboxCluster, n: LedgerId) -> Story:
    _put_ledger(cluster, n, f"e2 w2 a1 0:[b1 {LOST}] in_recovery")
    _put_ledger(cluster, n + 1, "e2 w2 a1 0:[b1 b2] in_recovery")
    fact = (
        f"Ledger {n} is in recovery, and {LOST} of its ensemble is gone: entries that one bookie"
        f" acknowledged may be there alone. Both bookies of ledger {n + 1} answer."
    )
    return Story(Kind.RECOVERY_BLOCKED, n, n + 1, fact, (n, n + 1))


def pass_night(cluster: SandboxCluster, stories: Iterable[Story]) -> list[str]:
    """Change what bookies hold, as between two nights, and return what changed, in sentences.

    One finding gets resolved, one gets worse, and three are new: two of them need an earlier night.
    """
    twins = {story.kind: story.ledger_ids for story in stories if story.ledger_ids}
    (healed, _), (worse, _) = (
        twins[Kind.ENTRY_BELOW_WRITE_QUORUM],
        twins[Kind.ENTRY_BELOW_ACK_QUORUM],
    )
    _, lost = twins[Kind.ENTRY_WITHOUT_REPLICA]
    cluster.spread(healed, cluster.ledger(_BELOW_WRITE_QUORUM))
    gone = dict.fromkeys(("b1", "b2", "b4"), "1504")
    cluster.spread(worse, cluster.ledger(_BELOW_ACK_QUORUM), gone)
    cluster.spread(lost, cluster.ledger(_WITHOUT_REPLICA), {"b1": "42", "b2": "42"})
    _, cut = twins[Kind.ENTRIES_BEYOND_END]
    shorter = cluster.ledger("e3 w2 a2 0:[b1 b2 b3] closed 49")
    cluster.add_ledger(cut, with_owner(shorter, f"story-{cut}"))
    cluster.resize_disk(SHRUNK, SHRUNK_BYTES, SHRUNK_BYTES // 2)
    return [
        f"ledger {healed} has its copies back",
        f"ledger {worse} lost the last copy of entry 1504",
        f"ledger {lost} lost entry 42",
        f"the metadata of ledger {cut} ends at entry 49, not at 50",
        f"bookie {SHRUNK} lost a quarter of its disks",
    ]


LONG_AGO_MS = 60 * 24 * 3600 * 1000
"""Age of the ledgers of the story on orphans, by their metadata: sixty days."""
_TEXT = "e3 w2 a2 0:[b1 b2 b3] closed 49"


def _closed_ledger(ledger_id: LedgerId, entries: int) -> DataLedger:
    return DataLedger(ledger_id, entries, 10 * entries, int(time.time() * 1000))


@story_of(Kind.REFERENCED_LEDGER_MISSING)
def _missing_ledger(cluster: SandboxCluster, n: LedgerId) -> Story:
    _put_ledger(cluster, n + 1, _TEXT)
    for ledger_id in (n, n + 1):
        behind = {"late": Cursor(None, Position(ledger_id, 9))}
        put_topic(cluster, f"story-{ledger_id}", [_closed_ledger(ledger_id, 50)], behind)
    fact = (
        f"Topics story-{n} and story-{n + 1} each reference a ledger; ledger {n} has no metadata,"
        f" ledger {n + 1} has."
    )
    return Story(Kind.REFERENCED_LEDGER_MISSING, n, n + 1, fact, (n + 1,))


@story_of(Kind.NEWEST_LEDGER_MISSING)
def _missing_newest_ledger(cluster: SandboxCluster, n: LedgerId) -> Story:
    _put_ledger(cluster, n + 1, _TEXT)
    for ledger_id in (n, n + 1):
        put_topic(cluster, f"story-{ledger_id}", [DataLedger(ledger_id)])
    fact = (
        f"Ledgers {n} and {n + 1} are the newest of topics story-{n} and story-{n + 1}, which have"
        f" not recorded what they hold; ledger {n} has no metadata, ledger {n + 1} has."
    )
    return Story(Kind.NEWEST_LEDGER_MISSING, n, n + 1, fact, (n + 1,))


@story_of(Kind.LEDGER_TRUNCATED)
def _truncated_ledger(cluster: SandboxCluster, n: LedgerId) -> Story:
    for ledger_id, entries in ((n, 60), (n + 1, 50)):
        _put_ledger(cluster, ledger_id, _TEXT)
        put_topic(cluster, f"story-{ledger_id}", [_closed_ledger(ledger_id, entries)])
    fact = (
        f"Both ledgers end at entry 49. The topic of ledger {n} recorded 60 entries, that of ledger"
        f" {n + 1} recorded 50."
    )
    return Story(Kind.LEDGER_TRUNCATED, n, n + 1, fact, (n, n + 1))


@story_of(Kind.POSITION_BEYOND_END)
def _position_beyond_end(cluster: SandboxCluster, n: LedgerId) -> Story:
    for ledger_id, last in ((n, 55), (n + 1, 49)):
        _put_ledger(cluster, ledger_id, _TEXT)
        done = {"done": Cursor(None, Position(ledger_id, last))}
        put_topic(cluster, f"story-{ledger_id}", [_closed_ledger(ledger_id, 50)], done)
    fact = (
        f"Both ledgers end at entry 49. Subscription done has acknowledged entry 55 of ledger {n},"
        f" and entry 49 of ledger {n + 1}."
    )
    return Story(Kind.POSITION_BEYOND_END, n, n + 1, fact, (n, n + 1))


@story_of(Kind.LEDGER_ORPHANED)
def _orphaned_ledger(cluster: SandboxCluster, n: LedgerId) -> Story:
    made_ms = int(time.time() * 1000) - LONG_AGO_MS
    for ledger_id in (n, n + 1):
        metadata = with_owner(cluster.ledger(_TEXT), f"story-{n}")
        cluster.place(ledger_id, replace(metadata, ctime_ms=made_ms))
    put_topic(cluster, f"story-{n}", [_closed_ledger(n + 1, 50)])
    fact = (
        f"Ledgers {n} and {n + 1} are sixty days old and name topic story-{n}, which references"
        f" ledger {n + 1} alone."
    )
    return Story(Kind.LEDGER_ORPHANED, n, n + 1, fact, (n, n + 1))
