"""Seeds the cluster of `auditor demo`: a story for each kind of finding that one run can show.

Each story has a twin without the finding, which differs in one fact. The stories use fifteen
bookies. b1 to b5 are well; b6 is registered and silent; b7 and b8 are lost; b9 has b1's location.
b10 lost all its entries, and b11 those of one ledger; b12 cannot list. b13 fails the requests about
all its ledgers, b14 those about one; b15 lists entries that it cannot send. A new kind in the
catalogue needs a story in a module `stories_of_*`; until it has one, seeding fails.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from auditor.model.finding import CATALOGUE, Kind, Subject
from auditor.model.identity import LedgerId
from auditor.model.verdict import Exempt
from auditor.sandbox import (
    stories_of_bookies,
    stories_of_ensembles,
    stories_of_entries,
    stories_of_metadata,
    stories_of_references,
)
from auditor.sandbox.bookie import Storage
from auditor.sandbox.cluster import SandboxCluster
from auditor.sandbox.sound_ledgers import sound_ledgers
from auditor.sandbox.stories_of_ensembles import LOCATIONS
from auditor.sandbox.story import (
    LOST,
    LOST_AND_MARKED,
    SILENT,
    STORY_WRITERS,
    UNLISTABLE,
    Story,
    with_owner,
)

__all__ = [
    "STORY_LEDGER_FIRST",
    "STORY_WRITERS",
    "Story",
    "demo_cluster",
    "seed_exempt",
    "seed_sound",
    "seed_stories",
]

STORY_MODULES = (
    stories_of_entries,
    stories_of_ensembles,
    stories_of_metadata,
    stories_of_references,
    stories_of_bookies,
)
"""The modules with the stories. Importing them fills `STORY_WRITERS`."""

DEMO_BOOKIES = len(LOCATIONS)
STORY_LEDGER_FIRST = 100
"""Where the first story of `story_kinds` begins; the others begin at ledgers 110, 120, ..."""
TAKES_TWO_RUNS = frozenset({Kind.LEDGER_POPULATION_DROPPED})
"""Kinds that one run cannot show."""
NEEDS_A_LISTER = frozenset({Kind.ENTRY_LOG_LOST})
"""Kinds that only a lister of a real index can detect. Sandbox bookies have neither an index nor
entry logs, and the demo works without the extra that reads one.
"""
ADDED_LATER: tuple[Kind, ...] = (
    Kind.ENTRY_UNAVAILABLE,
    Kind.LEDGER_CLOSED_SHORT,
    Kind.NEWEST_LEDGER_MISSING,
    Kind.BOOKIE_UNREADABLE_ENTRIES,
    Kind.RECOVERY_BLOCKED,
)
"""Kinds whose stories come after all others, in this order: a new kind goes to its end. The ledgers
of all other stories then keep their ids, which the pages on findings name."""
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
