"""Fault plans on the wire: one fault each, and beforehand the ledgers that are owed their verdict.

    plan = PLANS["bookie: reply to a list: reset"] faults = plan.faults(random.Random(seed))
    # by proxy; which bookie, frame and byte is the seed's affair

A transient fault is over when the second look begins, and owes every ledger. A lasting one owes
those that it cannot touch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from random import Random

from faults.harm import Fault, Harm
from faults.scene import ALL, BOOKIES, LEDGERS, without

Faults = Mapping[str, list[Fault]]
"""Faults by the name of a proxy."""

LISTS_ASKED = 8
"""At the first look every bookie is asked for more lists than this."""
ZNODE = b"/ledgers/00/0000/L%04d"
SOUND_ID, LOSSY_ID = 2, 11


@dataclass(frozen=True)
class Plan:
    """A fault plan. `owed`: from the bookies with faults, the ledgers whose verdict is owed.
    `hidden`: ledgers of which, although owed, a loss may stay unseen.

    `sampled`: a bookie never lists, like one whose storage cannot, and its ledgers may be judged by
    a sample. `heals`: the fault is over when the second look begins. `reachable`: False if the
    metadata service is out of reach and no verdict is given. `quick`: one of the few plans of every
    test run.
    """

    name: str
    faults: Callable[[Random], Faults]
    owed: Callable[[Faults], frozenset[int]] = lambda faults: ALL
    hidden: frozenset[int] = frozenset()
    sampled: bool = False
    heals: bool = True
    reachable: bool = True
    quick: bool = False
    settings: Mapping[str, object] = field(default_factory=dict)


def _one_bookie(name: str, harm: Harm, *, quick: bool = False, **where: object) -> Plan:
    """Return a fault of one frame of one bookie; the frame is drawn from the first few that fit."""

    def faults(draw: Random) -> Faults:
        bookie = draw.choice(BOOKIES)
        frames = LISTS_ASKED if where.get("operation") == "list" else 1
        return {bookie: [Fault(harm, frame=draw.randrange(frames), **where)]}  # type: ignore[arg-type]

    return Plan(f"bookie: {name}: {harm}", faults, quick=quick)


FEW_RETRIES = {"bookie_retries": 1, "bookie_connect_attempts": 2, "bookie_deadline": "20s"}
"""Frames to draw from if each try costs a time-out or a connection."""


def _first_look(
    name: str, harm: Harm, bookies: int = 1, *, quick: bool = False, **where: object
) -> Plan:
    """Return faults of every frame that fits, of some bookies, until the second look begins."""

    def faults(draw: Random) -> Faults:
        return {
            bookie: [Fault(harm, count=None, **where)] for bookie in draw.sample(BOOKIES, bookies)
        }  # type: ignore[arg-type]

    who = "bookie" if bookies == 1 else f"{bookies} bookies"
    return Plan(
        f"{who}: {name}, all of the first look: {harm}", faults, quick=quick, settings=FEW_RETRIES
    )


def _for_ever(name: str, harm: Harm, *, quick: bool = False, **where: object) -> Plan:
    """Return faults of every frame that fits, of one bookie, to the end.

    The ledgers that do not need it are owed. A bookie that never lists is rightly taken for one
    that cannot.
    """

    def faults(draw: Random) -> Faults:
        return {draw.choice(BOOKIES): [Fault(harm, count=None, **where)]}  # type: ignore[arg-type]

    title = f"bookie: {name}, to the end: {harm}"
    sampled = where.get("operation") == "list"
    return Plan(
        title,
        faults,
        lambda found: without(*found),
        sampled=sampled,
        heals=False,
        quick=quick,
        settings=FEW_RETRIES,
    )


def _zookeeper(
    name: str,
    harm: Harm,
    *,
    frames: int = 1,
    quick: bool = False,
    heals: bool = True,
    **where: object,
) -> Plan:
    """Return a fault of one ZooKeeper frame. Each znode is read by a request of its own, so no
    other is hit.
    """

    def faults(draw: Random) -> Faults:
        return {"zookeeper": [Fault(harm, frame=draw.randrange(frames), **where)]}  # type: ignore[arg-type]

    return Plan(
        f"zookeeper: {name}: {harm}",
        faults,
        heals=heals,
        quick=quick,
        settings={"zookeeper_batch_paths": 1},
    )


def _wrong_list(ledger_id: int, what: str, *, quick: bool) -> Plan:
    """Change one byte of one list, once.

    The wire has no checksum, but what the list lacks is read. If it hides a loss, another bookie's
    list still shows it.
    """

    def faults(draw: Random) -> Faults:
        bookie = draw.choice(sorted(LEDGERS[ledger_id].bookies))
        return {bookie: [Fault(Harm.CORRUPT, ledger_id=ledger_id, operation="list", part="rest")]}

    return Plan(f"bookie: list of a ledger {what}: {Harm.CORRUPT} rest", faults, quick=quick)


def _corrupt_metadata(ledger_id: int, hidden: Iterable[int]) -> Plan:
    """Change one byte of the metadata of one ledger, or of its mark, once."""
    path = ZNODE % ledger_id
    faults = {"zookeeper": [Fault(Harm.CORRUPT, operation="multi_read", path=path, part="rest")]}
    hides = frozenset(hidden)
    what = "with a loss" if hides else "that is sound"
    return Plan(
        f"zookeeper: metadata of a ledger {what}: {Harm.CORRUPT} rest",
        lambda _: faults,
        hidden=hides,
        settings={"zookeeper_batch_paths": 1},
    )


HARMS = (
    Harm.DELAY, Harm.DROP, Harm.RESET, Harm.TRUNCATE, Harm.CORRUPT, Harm.DUPLICATE, Harm.REORDER,
    Harm.HALF_OPEN,
)  # fmt: skip
ONE_LIST = [
    *(
        _one_bookie(
            "reply to a list",
            harm,
            operation="list",
            quick=harm in (Harm.RESET, Harm.CORRUPT, Harm.REORDER),
        )
        for harm in HARMS
    ),
    *(
        _one_bookie(
            "request of a list", harm, operation="list", reply=False, quick=harm is Harm.DUPLICATE
        )
        for harm in HARMS
    ),
]
LENGTHS = [
    Plan(
        "bookie: length of a reply: corrupt",
        lambda draw: {draw.choice(BOOKIES): [Fault(Harm.CORRUPT, operation="list", part="length")]},
    )
]
GREETINGS = [
    _one_bookie("reply to the greeting", harm, operation="info")
    for harm in (Harm.DROP, Harm.RESET, Harm.TRUNCATE, Harm.CORRUPT, Harm.HALF_OPEN)
]
READS = [
    *(
        _one_bookie(
            "reply to a read", harm, operation="read", part="rest", quick=harm is Harm.CORRUPT
        )
        for harm in (Harm.DROP, Harm.RESET, Harm.TRUNCATE, Harm.CORRUPT, Harm.DUPLICATE)
    ),
]
FIRST_LOOKS = [
    _first_look("lists", Harm.DELAY, operation="list", delay_s=0.02),
    _first_look("lists", Harm.DUPLICATE, operation="list"),
    _first_look("lists", Harm.REORDER, operation="list"),
    _first_look("lists", Harm.RESET, operation="list"),
    _first_look("lists", Harm.TRUNCATE, operation="list"),
    _first_look("greetings", Harm.DROP, operation="info", quick=True),
    _first_look("lists", Harm.HALF_OPEN, operation="list"),
    _first_look("greetings", Harm.RESET, len(BOOKIES), operation="info"),
    _first_look("greetings", Harm.HALF_OPEN, len(BOOKIES), operation="info"),
]
LASTING = [
    _for_ever("greetings", Harm.RESET, operation="info", quick=True),
    _for_ever("greetings", Harm.HALF_OPEN, operation="info"),
    _for_ever("lists", Harm.TRUNCATE, operation="list"),
    _for_ever("lists", Harm.CORRUPT, operation="list", part="length"),
    _for_ever("reads", Harm.DROP, operation="read"),
]
WRONG = [
    _wrong_list(SOUND_ID, "that is sound", quick=True),
    _wrong_list(LOSSY_ID, "with a loss", quick=False),
]
METADATA = [
    *(
        _zookeeper(
            "reply to a read", harm, operation="multi_read", frames=12, quick=harm is Harm.RESET
        )
        for harm in (
            Harm.DELAY,
            Harm.DROP,
            Harm.RESET,
            Harm.TRUNCATE,
            Harm.DUPLICATE,
            Harm.REORDER,
            Harm.HALF_OPEN,
        )
    ),
    *(
        _zookeeper("request", harm, operation="multi_read", reply=False, frames=12)
        for harm in (Harm.DROP, Harm.RESET, Harm.DUPLICATE, Harm.REORDER, Harm.TRUNCATE)
    ),
    _zookeeper("number of a reply", Harm.CORRUPT, operation="multi_read", frames=12, part="head"),
    _zookeeper("length of a reply", Harm.CORRUPT, operation="multi_read", frames=12, part="length"),
    _zookeeper("reply to a sync", Harm.DROP, operation="sync", heals=False),
    _zookeeper("reply to a sync", Harm.RESET, operation="sync", heals=False),
    _zookeeper("first reply of a session", Harm.RESET, operation="connect"),
    _corrupt_metadata(SOUND_ID, ()),
    _corrupt_metadata(LOSSY_ID, (LOSSY_ID,)),
    Plan(
        "zookeeper: every reply, to the end: drop",
        lambda draw: {
            "zookeeper": [
                Fault(Harm.DROP, operation="multi_read", count=None, frame=draw.randrange(6))
            ]
        },
        heals=False,
        reachable=False,
        settings={"zookeeper_batch_paths": 1, "zookeeper_retries": 1},
    ),
]
PLANS: Mapping[str, Plan] = {
    plan.name: plan
    for plan in (*ONE_LIST, *LENGTHS, *GREETINGS, *READS, *FIRST_LOOKS, *LASTING, *WRONG, *METADATA)
}
