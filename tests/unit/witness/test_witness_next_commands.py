"""Which commands to run next, for each kind."""

import shlex
from dataclasses import replace

import pytest
from support.commands_of_findings import (
    COMMANDS_MAX,
    ENTRY,
    MARK,
    OWNERS,
    TOPIC,
    commands_of,
    finding,
)
from support.findings_by_kind import finding_of

from auditor.model.facts import (
    BeyondEndFacts,
    CorruptFacts,
    EntryFacts,
    HeldBeyondEnd,
    MarkFacts,
    Search,
    UnrecoverableFacts,
    WhyMarked,
)
from auditor.model.finding import CATALOGUE, Family, Kind, Severity, Subject
from auditor.model.finding_record import Owner
from auditor.model.ledger import LedgerState
from auditor.witness.next_commands import (
    CHANGES,
    NO_LOADING,
    NOTE,
    SAVES,
    next_commands,
    sort_steps,
)

ENABLE = f"{CHANGES}bookkeeper shell autorecovery -e"
STATUS = "zkCli.sh -server ZOOKEEPER ls /ledgers/underreplication"


@pytest.mark.parametrize("owner", OWNERS)
@pytest.mark.parametrize("disabled", [False, True])
@pytest.mark.parametrize("kind", Kind)
def test_looks_come_before_changes_and_are_bounded(kind, disabled, owner):
    """What has to be saved comes first. Each line comes once, and there are at most sixteen."""
    commands = commands_of(kind, owner, disabled, bookies=200)
    prefixes = (NOTE, SAVES, "", CHANGES)
    order = [
        next(n for n in (0, 1, 3, 2) if command.startswith(prefixes[n])) for command in commands
    ]
    assert sorted(order) == order and 2 in order
    assert len(set(commands)) == len(commands) <= COMMANDS_MAX


@pytest.mark.parametrize("kind", Kind)
def test_auto_recovery_is_enabled_only_where_it_is_disabled(kind):
    """A command without an effect wastes time."""
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
def test_disabled_auto_recovery_is_looked_at_and_enabled_first(kind):
    """All other changes rely on auto-recovery."""
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


def test_a_renamed_bookie_gets_its_new_id_behind_what_is_saved():
    """The change is undone from the copy of ZooKeeper. Nothing is recovered."""
    steps = sort_steps(commands_of(Kind.BOOKIE_LOST_UNNOTICED, renamed_to="b9:3181"))
    assert ["cp -a ZOOKEEPER_DATA/version-2 SAVED_ZOOKEEPER"] == steps.save
    (change,) = steps.change
    assert change.startswith("bookkeeper shell updateBookieInLedger -srcBookie ")
    assert change.endswith(" -destBookie b9:3181")


def test_entries_of_a_bookie_that_is_gone_may_be_those_of_a_renamed_one():
    """Where no bookie is gone, none was renamed."""
    entries = replace(ENTRY, gone=("b1",))
    gone = finding_of(Kind.ENTRY_WITHOUT_REPLICA, entries)
    notes = sort_steps(next_commands(gone, replication_disabled=False)).notes
    assert any("updateBookieInLedger CHANGES THE CLUSTER" in note for note in notes)
    assert [] == sort_steps(commands_of(Kind.ENTRY_WITHOUT_REPLICA)).notes


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
    """On a ledger that is not closed `recover` would fence the writer; on a complete one it would
    copy in vain.
    """
    recovering = f"{CHANGES}bookkeeper shell recover -l 7 b1"
    assert recovering in commands_of(Kind.UNDERREPLICATED_BEYOND_GRACE)
    commands = commands_of(Kind.UNDERREPLICATED_BEYOND_GRACE, **changes)
    assert not [command for command in commands if " recover " in command]


def test_a_stuck_ledger_is_closed_by_its_topic_else_by_recovery():
    """If Pulsar owns it, unloading the topic makes the broker close it. Recovery fences the ledger,
    and is proposed only without such an owner.
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
    """This holds for every kind on a ledger. A ledger without an owner has no such command."""
    assert f"auditor topic {TOPIC}" in commands_of(kind, "messages")
    if CATALOGUE[kind].family is not Family.REFERENCE:  # the references name the topic
        assert not [command for command in commands_of(kind) if "auditor topic" in command]


@pytest.mark.parametrize("owner", OWNERS)
@pytest.mark.parametrize("kind", Kind)
def test_nothing_that_looks_asks_a_broker_or_runs_recovery(kind, owner):
    """A broker that loads a topic rewrites what it cannot read; recovery closes a ledger.

    `listunderreplicated` fails at the first znode that is no mark.
    """
    steps = sort_steps(commands_of(kind, owner, disabled=True))
    for command in (*steps.save, *steps.look):
        assert "pulsar-admin" not in command and not command.endswith(" -r")
        assert "listunderreplicated" not in command


@pytest.mark.parametrize("kind", Kind)
def test_whatever_changes_something_stands_behind_what_is_saved(kind):
    """Each kind with a command that changes something has one that saves."""
    steps = sort_steps(commands_of(kind, disabled=True))
    assert steps.save or not steps.change


@pytest.mark.parametrize(
    "kind", [kind for kind in Kind if CATALOGUE[kind].subject is Subject.LEDGER]
)
@pytest.mark.parametrize("owner", ["messages", "cursor", "schema", "compacted"])
def test_a_topic_that_a_broker_may_not_read_is_saved_before_it_is_loaded(kind, owner):
    """This holds for each critical kind on a ledger, for malformed metadata and for a ledger that
    only its broker closes.
    """
    steps = sort_steps(commands_of(kind, owner))
    critical = CATALOGUE[kind].severity is Severity.CRITICAL
    harmed = critical or kind in (
        Kind.METADATA_MALFORMED,
        Kind.RECOVERY_BLOCKED,  # a broker gives up a cursor whose ledger it cannot recover
        Kind.LEDGER_STUCK,
        Kind.POSITION_BEYOND_END,  # a broker moves such a position
    )
    assert harmed == (NO_LOADING in steps.notes)
    assert harmed == any("PULSAR_ZOOKEEPER get -b" in command for command in steps.save)


@pytest.mark.parametrize("kind", Kind)
def test_no_look_makes_the_znodes_of_auto_recovery(kind):
    """BookKeeper's own commands on auto-recovery make those that are missing."""
    steps = sort_steps(commands_of(kind, disabled=True))
    made_by = ("clusterinfo", "queryautorecoverystatus", "lostbookierecoverydelay", "listunder")
    assert not [c for c in (*steps.save, *steps.look) if any(word in c for word in made_by)]


def test_the_state_of_auto_recovery_is_read_below_the_clusters_own_root():
    """ROOT is quoted like any other name."""
    found = next_commands(
        finding(Kind.ENTRY_BELOW_ACK_QUORUM), replication_disabled=False, root="/a b"
    )
    assert "zkCli.sh -server ZOOKEEPER ls '/a b/underreplication'" in found and STATUS not in found
    assert STATUS in commands_of(Kind.ENTRY_BELOW_ACK_QUORUM)


def test_a_mark_is_read_at_its_own_znode():
    """So is the lock of the worker that repairs the ledger, where there is one."""
    of_ledger_7 = "/underreplication/ledgers/0000/0000/0000/0007/urL0000000007"
    marked = next_commands(
        finding(Kind.UNDERREPLICATED_BEYOND_GRACE), replication_disabled=False, root="/bk"
    )
    assert f"zkCli.sh -server ZOOKEEPER get /bk{of_ledger_7}" in marked
    lock = "zkCli.sh -server ZOOKEEPER get /ledgers/underreplication/locks/urL0000000007"
    for since in (None, 1):
        commands = commands_of(Kind.UNDERREPLICATED_BEYOND_GRACE, lock_since_ms=since)
        assert (since is not None) == (lock in commands)


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
        BeyondEndFacts: BeyondEndFacts(9, 1, (HeldBeyondEnd(evil, ((42, 42),), 1, True),)),
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
    owner = Owner("pulsar", "managed-ledger", "t/n/persistent/%24%28reboot%29%3Breboot")
    for command in next_commands(hostile, replication_disabled=False, owner=owner):
        words = list(shlex.shlex(command, posix=True, punctuation_chars=True))
        assert "reboot" not in words and ";" not in words, command
