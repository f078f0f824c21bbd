"""Seed the cluster of `auditor demo`: a story for each kind of finding that one run can show.

Most of the cluster is sound ledgers of many shapes, the same in every run. Each story has a twin
without the finding, which differs in one fact. The stories use fifteen bookies:

- b1 to b5 have no fault;
- b6 is registered and silent;
- b7 and b8 are lost;
- b9 has the same location as b1;
- b10 lost all its entries, and b11 those of one ledger;
- b12 cannot list;
- b13 fails all requests, and b14 those about one ledger;
- b15 lists entries that it cannot send.

A new kind in the catalogue needs a story in `stories`: without it, seeding fails.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import cycle, islice, product
from pathlib import Path

from auditor.model.evidence import Policy
from auditor.model.finding import CATALOGUE, Kind, Subject
from auditor.model.identity import LedgerId
from auditor.model.verdict import Exempt
from auditor.sandbox.bookie import Storage
from auditor.sandbox.cluster import SandboxCluster
from auditor.sandbox.stories import (
    LOCATIONS,
    LOST,
    LOST_AND_MARKED,
    SILENT,
    STORY_WRITERS,
    UNLISTABLE,
    Story,
    pass_night,
    with_owner,
)

__all__ = [
    "STORY_LEDGER_FIRST",
    "STORY_WRITERS",
    "Story",
    "demo_cluster",
    "pass_night",
    "seed_exempt",
    "seed_sound",
    "seed_stories",
    "shown_kinds",
]

SOUND_BOOKIES = ("b1", "b2", "b3", "b4", "b5")
SOUND_LEDGER_FIRST = 1_000
LEDGERS_AROUND_2_31 = 16
"""Ledgers with ids around 2**31 - 1, above which the hierarchical layout uses its long tree."""
SOUND_ENTRIES_MAX = 20_000

_SHAPES = tuple((e, w, a) for e, w, a in product(range(1, 6), repeat=3) if a <= w <= e)
_LAST_ENTRIES = (0, 1, 9, 1023, 1024, 99, 4999, 2, SOUND_ENTRIES_MAX - 1, 250, 3)
_WORDS = ("", "", "", "v2", "crc32", "v1", "dummy")


def sound_ledgers(count: int) -> Iterator[tuple[LedgerId, str]]:
    """Yield `count` ledgers as (id, notation).

    E is 1 to 5, with every A <= W <= E. Ledgers have one to three segments, up to 20,000 entries,
    and any format. The bookies of an ensemble are distinct; a change of ensemble replaces one.
    """
    shapes = zip(cycle(_SHAPES), cycle(_LAST_ENTRIES), cycle(_WORDS), strict=False)
    for number, (ledger_id, (shape, last, word)) in enumerate(
        zip(_ids(count), islice(shapes, count), strict=True)
    ):
        e, w, a = shape
        # Format 1 does not store an ack quorum.
        ack = w if word == "v1" else a
        segments = " ".join(
            f"{first}:[{' '.join(members)}]" for first, members in _segments(number, e, last)
        )
        yield ledger_id, f"e{e} w{w} a{ack} {segments} closed {last} {word}".rstrip()


def _ids(count: int) -> Iterator[LedgerId]:
    around = min(LEDGERS_AROUND_2_31, count)
    yield from range(SOUND_LEDGER_FIRST, SOUND_LEDGER_FIRST + count - around)
    yield from range(2**31 - 1 - around // 2, 2**31 - 1 + around - around // 2)


def _segments(number: int, e: int, last: int) -> Iterator[tuple[int, list[str]]]:
    """Yield the first segment and up to two changes of ensemble.

    A change needs entries since the last one, and a bookie outside the ensemble.
    """
    turned = [*SOUND_BOOKIES[number % 5 :], *SOUND_BOOKIES[: number % 5]]
    members, spare = turned[:e], turned[e:]
    yield 0, members
    for change in range(1, 1 + number % 3):
        first = change * (last // 3)
        if not spare or first <= (change - 1) * (last // 3):
            return
        place = (number + change) % e
        members = [*members]
        members[place], spare = spare[0], [*spare[1:], members[place]]
        yield first, members


DEMO_BOOKIES = len(LOCATIONS)
STORY_LEDGER_FIRST = 100
"""Where the first story of `story_kinds` begins; the others begin at ledgers 110, 120, ..."""
TAKES_TWO_RUNS = frozenset(
    {
        Kind.LEDGER_POPULATION_DROPPED,
        Kind.VERIFICATION_OVERDUE,
        Kind.BOOKIE_DISK_SHRANK,
        Kind.CLOSED_METADATA_CHANGED,
        Kind.LEDGER_DROPPED_FROM_TOPIC,
    }
)
"""Kinds that one run cannot show."""
NEEDS_A_LISTER = frozenset({Kind.ENTRY_LOG_LOST})
"""Kinds that only the lister of a real index can detect. Sandbox bookies have neither an index nor
entry logs, and the demo works without the extra that reads one.
"""
NEEDS_A_POLICY: dict[Kind, frozenset[Policy]] = {
    Kind.PLACEMENT_FAILED: frozenset(Policy) - {Policy.NONE},
    Kind.PLACEMENT_SOFT: frozenset({Policy.ZONE}),
}
"""Kinds that show only under some placement policies."""
ADDED_LATER: tuple[Kind, ...] = (
    Kind.ENTRY_UNAVAILABLE,
    Kind.LEDGER_CLOSED_SHORT,
    Kind.NEWEST_LEDGER_MISSING,
    Kind.BOOKIE_UNREADABLE_ENTRIES,
    Kind.RECOVERY_BLOCKED,
    Kind.COOKIE_OF_ANOTHER_INSTANCE,
    Kind.POSITION_BEYOND_END,
)
"""Kinds whose stories follow all others, in this order. A new kind is appended here: the ledgers of
all other stories then keep their ids, which docs/findings names."""
EXEMPT_LEDGER_FIRST = 50
SOUND_LEDGERS = 200


def story_kinds() -> list[Kind]:
    """Return the kinds that have a story, in the order of the catalogue.

    Kinds on the cluster come after those on ledgers and bookies, and those ADDED_LATER last.
    """
    kinds = [kind for kind in CATALOGUE if kind not in TAKES_TWO_RUNS | NEEDS_A_LISTER]
    first = [kind for kind in kinds if kind not in ADDED_LATER]
    first.sort(key=lambda kind: CATALOGUE[kind].subject is Subject.CLUSTER)
    return [*first, *ADDED_LATER]


def shown_kinds(policy: Policy) -> list[Kind]:
    """Return the kinds that a run of the demo shows under this policy, in their order."""
    return [kind for kind in story_kinds() if policy in NEEDS_A_POLICY.get(kind, Policy)]


def seed_stories(cluster: SandboxCluster) -> list[Story]:
    """Write a story of each kind that one run can show without a lister, and return the stories.

    The cluster must have at least DEMO_BOOKIES bookies and none of these ledgers.
    """
    kinds = story_kinds()
    missing = [kind.value for kind in kinds if kind not in STORY_WRITERS]
    assert not missing, f"no story shows {', '.join(missing)}: add one to {__name__}"
    assert len(cluster.bookie_ids) >= DEMO_BOOKIES, f"the stories need {DEMO_BOOKIES} bookies"
    cluster.stop_bookie(SILENT)
    for bookie in (LOST, LOST_AND_MARKED):
        cluster.lose_bookie(bookie)
    return [
        STORY_WRITERS[kind](cluster, STORY_LEDGER_FIRST + 10 * number)
        for number, kind in enumerate(kinds)
    ]


def seed_exempt(cluster: SandboxCluster) -> dict[Exempt, LedgerId]:
    """Write a ledger for each exempt reason except `deleted`, and return the ids by reason."""
    first = EXEMPT_LEDGER_FIRST
    ledgers = {
        Exempt.OPEN: (first, "e3 w2 a2 0:[b1 b2 b3] open"),
        Exempt.IN_RECOVERY: (first + 1, "e3 w2 a2 0:[b2 b3 b4] in_recovery"),
        Exempt.EMPTY: (first + 2, "e3 w2 a2 0:[b3 b4 b5] closed -1"),
        Exempt.MARKED_UNDERREPLICATED: (first + 3, "e3 w2 a2 0:[b1 b2 b3] closed 99"),
    }
    for reason, (ledger_id, text) in ledgers.items():
        marked = reason is Exempt.MARKED_UNDERREPLICATED
        lose = {"b2": "30-40"} if marked else {}
        cluster.place(ledger_id, with_owner(cluster.ledger(text), f"{reason.value}-ledger"), lose)
        if marked:
            cluster.mark(ledger_id, ["b2"])
    return {reason: ledger_id for reason, (ledger_id, _) in ledgers.items()}


def seed_sound(cluster: SandboxCluster, count: int = SOUND_LEDGERS) -> tuple[LedgerId, ...]:
    """Write `count` sound ledgers of many shapes to b1 to b5, and return their ids.

    Takes about a second for 200.
    """
    ledgers = {ledger_id: cluster.ledger(text) for ledger_id, text in sound_ledgers(count)}
    written = {
        ledger_id: with_owner(metadata, f"topic-{ledger_id}")
        for ledger_id, metadata in ledgers.items()
    }
    cluster.add_ledgers(written)
    for ledger_id, metadata in written.items():
        cluster.spread(ledger_id, metadata)
    return tuple(written)


@contextmanager
def demo_cluster(workdir: Path) -> Iterator[tuple[SandboxCluster, list[Story]]]:
    """Run a cluster with all stories, exempt ledgers and SOUND_LEDGERS sound ones, inside `with`.

    Takes about three seconds to start. Raises StoreUnavailable if ZooKeeper does not start,
    SparkUnavailable if there is no Java.
    """
    storages = [
        Storage.DB if f"b{n}" == UNLISTABLE else Storage.SORTED for n in range(1, DEMO_BOOKIES + 1)
    ]
    with SandboxCluster(workdir, DEMO_BOOKIES, named=True, storage=storages) as cluster:
        cluster.elect_auditor("b1")
        seed_sound(cluster)
        seed_exempt(cluster)
        yield cluster, seed_stories(cluster)


def topology_table() -> str:
    """Return the locations of the demo's bookies, as a table file for --topology."""
    return "".join(f"{bookie} {location}\n" for bookie, location in LOCATIONS.items())
