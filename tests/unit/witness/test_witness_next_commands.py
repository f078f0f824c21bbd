"""What to run next."""

import shlex
from dataclasses import replace

import pytest
from support.findings_by_kind import EXAMPLES, facts_types, finding_of
from support.findings_by_kind import MARK as MARKED

from auditor.model.facts import (
    BeyondEndFacts,
    CorruptFacts,
    EntryFacts,
    MarkFacts,
    Search,
    UnrecoverableFacts,
    WhyMarked,
)
from auditor.model.finding import CATALOGUE, Kind, Subject
from auditor.model.ledger import LedgerState
from auditor.witness.next_commands import CHANGES, next_commands

COMMANDS_MAX = 10
ENABLE = f"{CHANGES}bookkeeper shell autorecovery -e"
STATUS = "bookkeeper shell clusterinfo"
TOPIC = "persistent://public/default/orders"
OWNERS = {
    "nobody": None,
    "messages": {
        "application": "pulsar",
        "component": "managed-ledger",
        "name": "public/default/persistent/orders",
    },
    "cursor": {
        "application": "pulsar",
        "component": "managed-ledger",
        "name": "public/default/persistent/orders cursor bill",
    },
    "schema": {"application": "pulsar", "component": "schema", "name": "public/default/orders"},
    "compacted": {"application": "pulsar", "component": "compacted-ledger", "name": TOPIC},
    "somebody else": {"application": "flink", "component": None, "name": None},
}


HOLDERS = ("h1", "h2", "h3", "h4")
SEARCH = Search(1, 1, 1, 0, found_on=HOLDERS, found_unnamed=HOLDERS, found_first=(42,) * 4)
ENTRY = EntryFacts(42, ("b1", "b2"), search=SEARCH)
MARK = replace(MARKED, missing_replicas=("b1", "b2"))


def finding(kind, bookies=3, **changes):
    """A finding on which as much as possible is to be done; `changes` are those of its facts."""
    of_kind = {
        CorruptFacts: CorruptFacts(
            40, ("b1", "b2"), tuple((f"c{n}", (40 + n, 99)) for n in range(bookies))
        ),
        EntryFacts: ENTRY,
        MarkFacts: MARK,
        UnrecoverableFacts: UnrecoverableFacts(ENTRY, MARK),
    }
    facts_type = facts_types(kind)[-1]
    facts = of_kind.get(facts_type, EXAMPLES[facts_type])
    missing_on = tuple((f"b{n}", ((42, 42),)) for n in range(bookies))
    return finding_of(kind, replace(facts, **changes), missing_on=missing_on)


def commands_of(kind, owner=None, disabled=False, **changes):
    return next_commands(
        finding(kind, **changes), replication_disabled=disabled, owner=OWNERS.get(owner, owner)
    )


@pytest.mark.parametrize("owner", OWNERS)
@pytest.mark.parametrize("disabled", [False, True])
@pytest.mark.parametrize("kind", Kind)
def test_looks_come_before_changes_and_are_bounded(kind, disabled, owner):
    """At most ten for each kind and owner, each one once, however many bookies lack something."""
    commands = commands_of(kind, owner, disabled, bookies=200)
    changes = [command.startswith(CHANGES) for command in commands]
    assert sorted(changes) == changes and not changes[0]
    assert len(set(commands)) == len(commands) <= COMMANDS_MAX


@pytest.mark.parametrize("kind", Kind)
def test_auto_recovery_is_enabled_only_where_it_is_disabled(kind):
    """A command that does nothing wastes the night."""
    assert ENABLE not in commands_of(kind)


@pytest.mark.parametrize(
    "kind",
    [
        Kind.UNDERREPLICATED_BEYOND_GRACE,
        Kind.BOOKIE_LOST_UNNOTICED,
        Kind.ENTRY_BELOW_ACK_QUORUM,
        Kind.ENTRY_BELOW_WRITE_QUORUM,
    ],
)
def test_disabled_auto_recovery_is_asked_for_then_enabled_first(kind):
    """Everything else that changes relies on it."""
    commands = commands_of(kind, disabled=True)
    first_change = next(command for command in commands if command.startswith(CHANGES))
    assert ENABLE == first_change and commands.index(STATUS) < commands.index(ENABLE)


@pytest.mark.parametrize(
    "kind",
    [
        Kind.ENTRY_WITHOUT_REPLICA,
        Kind.UNDERREPLICATED_UNRECOVERABLE,
        Kind.METADATA_MALFORMED,
        Kind.BOOKIE_SILENT_YET_REGISTERED,
        Kind.ENSEMBLE_DUPLICATE_BOOKIE,
        Kind.PLACEMENT_FAILED,
        Kind.PLACEMENT_SOFT,
    ],
)
def test_what_no_command_can_heal_changes_nothing(kind):
    """A lost entry has no copy to copy from, and no command moves a good copy to another rack."""
    assert [] == [
        command
        for command in commands_of(kind, "messages", disabled=True)
        if command.startswith(CHANGES)
    ]


def test_the_worst_entry_is_read_on_each_bookie_that_lacks_it():
    """The look that proves the finding. With `-b` the shell reads up to the last entry without it:
    one more is asked for.
    """
    commands = commands_of(Kind.ENTRY_WITHOUT_REPLICA, bookies=2)
    assert "bookkeeper shell readledger -l 7 -fe 42 -le 43 -b b0" in commands
    assert "bookkeeper shell readledger -l 7 -fe 42 -le 43 -b b1" in commands


def test_bookies_that_lack_the_worst_entry_come_first():
    """Bookies that lack other entries prove nothing about the one that is named."""
    others = tuple((f"o{n}", ((1, 2),)) for n in range(5))
    lacking = finding_of(Kind.ENTRY_BELOW_ACK_QUORUM, missing_on=(*others, ("b9", ((40, 50),))))
    commands = next_commands(lacking, replication_disabled=False)
    assert commands.index("bookkeeper shell readledger -l 7 -fe 42 -le 43 -b b9") == 1
    assert f"{CHANGES}bookkeeper shell recover -l 7 b9" == commands[-1]


def test_what_lacks_copies_is_planned_before_it_is_recovered():
    """The plan is printed without a question, the recovery asks one."""
    commands = commands_of(Kind.ENTRY_BELOW_WRITE_QUORUM)
    assert "bookkeeper shell recover -dr -f -l 7 b0" in commands
    assert f"{CHANGES}bookkeeper shell recover -l 7 b0" == commands[-1]


def test_a_stranded_entry_is_saved_before_anything_else():
    """Its holder may collect it: the whole entry is printed there, then the holder is kept from
    collecting.
    """
    commands = commands_of(Kind.ENTRY_ONLY_OUTSIDE_ENSEMBLE)
    assert "bookkeeper shell -entryformat hex readledger -m -l 7 -fe 42 -le 43 -b h1" == commands[0]
    assert f"{CHANGES}restart bookie h1 with gcOverreplicatedLedgerWaitTime=0" in commands


def test_a_corrupt_copy_is_read_where_it_is_corrupt():
    """Each bookie's own first corrupt entry, then the entry as a client gets it from any bookie."""
    commands = commands_of(Kind.ENTRY_CORRUPT, bookies=2)
    assert "bookkeeper shell -entryformat hex readledger -m -l 7 -fe 40 -le 41 -b c0" == commands[1]
    assert "bookkeeper shell -entryformat hex readledger -m -l 7 -fe 41 -le 42 -b c1" == commands[2]
    assert "bookkeeper shell readledger -l 7 -fe 40 -le 40" == commands[3]


@pytest.mark.parametrize("kind", [Kind.ENTRY_WITHOUT_REPLICA, Kind.UNDERREPLICATED_UNRECOVERABLE])
def test_a_copy_that_was_found_elsewhere_is_saved_first(kind):
    """Those that lists name, then those that the search found: what is alive there can be read
    there.
    """
    entry = replace(ENTRY, listed_outside=("l1",))
    whole = (
        {"entries": entry}
        if kind is Kind.UNDERREPLICATED_UNRECOVERABLE
        else {"listed_outside": ("l1",)}
    )
    saved = [
        f"bookkeeper shell -entryformat hex readledger -m -l 7 -fe 42 -le 43 -b {holder}"
        for holder in ("l1", "h1")
    ]
    assert saved == commands_of(kind, **whole)[:2]
    nowhere = (
        {"entries": replace(ENTRY, search=None)}
        if kind is Kind.UNDERREPLICATED_UNRECOVERABLE
        else {"search": None}
    )
    assert not [command for command in commands_of(kind, **nowhere) if "-entryformat" in command]


@pytest.mark.parametrize(
    "kind",
    [
        Kind.ENTRY_ONLY_OUTSIDE_ENSEMBLE,
        Kind.ENTRY_WITHOUT_REPLICA,
        Kind.UNDERREPLICATED_UNRECOVERABLE,
    ],
)
def test_a_holder_is_read_for_an_entry_that_it_holds(kind):
    """It may hold others than the worst: to read that one there would save nothing."""
    found = replace(
        ENTRY, search=replace(SEARCH, entries=4, entries_found=4, found_first=(44, 43, 42, 45))
    )
    is_marked = kind is Kind.UNDERREPLICATED_UNRECOVERABLE
    commands = commands_of(kind, **({"entries": found} if is_marked else {"search": found.search}))
    read = "bookkeeper shell -entryformat hex readledger -m -l 7 -fe"
    assert [f"{read} 44 -le 45 -b h1", f"{read} 43 -le 44 -b h2"] == commands[:2]


def test_a_bookie_that_is_gone_is_not_read():
    """It lacks the worst entry like the others, and nobody can ask it."""
    commands = commands_of(Kind.ENTRY_WITHOUT_REPLICA, gone=("b0",))
    assert [] == [command for command in commands if command.endswith("-b b0")]
    assert "bookkeeper shell readledger -l 7 -fe 42 -le 43 -b b1" in commands


@pytest.mark.parametrize("kind", [Kind.ENTRY_BELOW_ACK_QUORUM, Kind.ENTRY_BELOW_WRITE_QUORUM])
@pytest.mark.parametrize(
    ("bookies", "gone", "recovered"),
    [(1, ("b0",), ["b0"]), (3, ("b2",), ["b0", "b2"]), (3, ("b0", "b1", "b2"), ["b0"])],
)
def test_the_share_of_a_bookie_that_is_gone_is_recovered(
    kind: Kind, bookies: int, gone: tuple[str, ...], recovered: list[str]
) -> None:
    """Whoever lacks the worst entry comes first; where that one is there, the first that is gone
    comes second.
    """
    commands = commands_of(kind, bookies=bookies, gone=gone)
    assert [f"{CHANGES}bookkeeper shell recover -l 7 {bookie}" for bookie in recovered] == commands[
        -len(recovered) :
    ]
    assert f"bookkeeper shell recover -dr -f -l 7 {recovered[0]}" in commands
    assert (
        len(commands_of(kind, "messages", disabled=True, bookies=bookies, gone=gone))
        <= COMMANDS_MAX
    )
    assert [] == [
        command
        for command in commands
        if command.endswith(tuple(f"-b {bookie}" for bookie in gone))
    ]


@pytest.mark.parametrize("kind", [Kind.ENTRY_BELOW_ACK_QUORUM, Kind.ENTRY_BELOW_WRITE_QUORUM])
def test_where_no_bookie_lacks_anything_nothing_is_recovered(kind):
    """A bookie that stands twice in a write set holds one copy of the two: nobody lacks what it
    has.
    """
    assert [] == [one for one in commands_of(kind, bookies=0) if "recover" in one]


def test_entries_beyond_the_end_are_read_where_they_are_listed():
    """The lists alone do not say that they can be read."""
    reads = [c for c in commands_of(Kind.ENTRIES_BEYOND_END) if " readledger " in c]
    assert [f"bookkeeper shell readledger -l 7 -fe 42 -le 43 -b {b}" for b in ("b1", "b2")] == reads


def test_a_dropped_population_stops_collection():
    """The only change offered is the one that buys time."""
    changes = [c for c in commands_of(Kind.LEDGER_POPULATION_DROPPED) if c.startswith(CHANGES)]
    assert 1 == len(changes) and "gcWaitTime=604800000" in changes[0]


def test_a_mark_that_names_no_bookie_has_nothing_to_recover():
    """Marks made by placement repair have an empty list."""
    commands = commands_of(Kind.UNDERREPLICATED_BEYOND_GRACE, missing_replicas=())
    assert not [command for command in commands if " recover " in command]


@pytest.mark.parametrize(
    "changes",
    [
        {"state": LedgerState.OPEN},
        {"state": LedgerState.IN_RECOVERY},
        {"state": None},
        {"why": (WhyMarked.STALE,)},
        {"why": (WhyMarked.NO_AUDITOR, WhyMarked.EMPTY_LEDGER)},
    ],
)
def test_a_mark_of_a_ledger_that_may_lack_nothing_recovers_nothing(changes):
    """Of a ledger that is not closed `recover` would fence the writer; of one that lacks nothing it
    copies for nothing.
    """
    recovering = f"{CHANGES}bookkeeper shell recover -l 7 b1"
    assert recovering in commands_of(Kind.UNDERREPLICATED_BEYOND_GRACE)
    commands = commands_of(Kind.UNDERREPLICATED_BEYOND_GRACE, **changes)
    assert not [command for command in commands if " recover " in command]


def test_a_stuck_ledger_is_closed_by_its_topic_else_by_recovery():
    """Where Pulsar owns it the broker closes it; fencing it under the broker's feet is the last
    resort.
    """
    assert (
        f"{CHANGES}pulsar-admin topics unload {TOPIC}"
        == commands_of(Kind.LEDGER_STUCK, "messages")[-1]
    )
    assert (
        f"{CHANGES}bookkeeper shell readledger -l 7 -fe 0 -le 0 -r"
        == commands_of(Kind.LEDGER_STUCK)[-1]
    )
    assert not [c for c in commands_of(Kind.LEDGER_STUCK, "messages") if c.endswith(" -r")]


@pytest.mark.parametrize(
    "kind", [kind for kind in Kind if CATALOGUE[kind].subject is Subject.LEDGER]
)
def test_every_ledger_of_pulsars_has_its_topic_looked_at(kind):
    """Whatever is wrong with it: the owner is asked what it knows."""
    assert f"pulsar-admin topics stats-internal {TOPIC}" in commands_of(kind, "messages")
    assert not [command for command in commands_of(kind) if "pulsar-admin" in command]


@pytest.mark.parametrize("kind", Kind)
def test_nothing_from_metadata_is_run_by_a_shell(kind):
    """Bookie ids and topics may be anything; pasted, they are still single words."""
    evil = "x;reboot"
    entry = EntryFacts(
        42,
        (evil,),
        (evil,),
        search=Search(1, 1, 1, 0, (evil,), (evil,), (evil,), found_first=(42,)),
    )
    mark = replace(MARK, missing_replicas=(evil,))
    of_kind = {
        BeyondEndFacts: BeyondEndFacts(9, 1, (evil,)),
        CorruptFacts: CorruptFacts(42, (evil,), ((evil, (42,)),)),
        EntryFacts: entry,
        MarkFacts: mark,
        UnrecoverableFacts: UnrecoverableFacts(entry, mark),
    }
    hostile = finding(kind)
    facts = of_kind.get(type(hostile.facts), hostile.facts)
    missing_on = ((evil, ((42, 42),)),)
    hostile = replace(
        hostile, facts=facts, bookie_id=hostile.bookie_id and evil, missing_on=missing_on
    )
    owner = {
        "application": "pulsar",
        "component": "managed-ledger",
        "name": "t/n/persistent/%24%28reboot%29%3Breboot",
    }
    for command in next_commands(hostile, replication_disabled=False, owner=owner):
        words = list(shlex.shlex(command, posix=True, punctuation_chars=True))
        assert "reboot" not in words and ";" not in words, command
