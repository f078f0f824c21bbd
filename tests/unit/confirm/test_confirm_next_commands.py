"""What to run next."""

import pytest

from auditor.confirm.next_commands import CHANGES, next_commands
from auditor.model.finding import CATALOGUE, Finding, Kind, Subject

COMMANDS_MAX = 10
ENABLE = f"{CHANGES}bookkeeper shell autorecovery -e"
STATUS = "bookkeeper shell queryautorecoverystatus"


def finding(kind, bookies=3):
    on_ledger = CATALOGUE[kind].subject is Subject.LEDGER
    return Finding(
        kind,
        ledger_id=7 if on_ledger else None,
        bookie_id=None if on_ledger else "b1",
        missing_on=tuple((f"b{n}", ((42, 42),)) for n in range(bookies)),
        facts=(("worst_entry", "42"),),
    )


@pytest.mark.parametrize("disabled", [False, True])
@pytest.mark.parametrize("kind", Kind)
def test_looks_come_before_changes_and_are_bounded(kind, disabled):
    """At most ten for each kind, each one once, however many bookies lack something."""
    commands = next_commands(finding(kind, bookies=200), replication_disabled=disabled)
    changes = [command.startswith(CHANGES) for command in commands]
    assert sorted(changes) == changes and not changes[0]
    assert len(set(commands)) == len(commands) <= COMMANDS_MAX


@pytest.mark.parametrize("kind", Kind)
def test_auto_recovery_is_enabled_only_where_it_is_disabled(kind):
    """A command that does nothing wastes the night."""
    assert ENABLE not in next_commands(finding(kind), replication_disabled=False)


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
    commands = next_commands(finding(kind), replication_disabled=True)
    first_change = next(command for command in commands if command.startswith(CHANGES))
    assert ENABLE == first_change and commands.index(STATUS) < commands.index(ENABLE)


@pytest.mark.parametrize("kind", [Kind.ENTRY_WITHOUT_REPLICA, Kind.METADATA_MALFORMED, Kind.BOOKIE_SILENT_YET_REGISTERED])
def test_what_auto_recovery_cannot_heal_changes_nothing(kind):
    """A lost entry has no copy to copy from."""
    commands = next_commands(finding(kind), replication_disabled=True)
    assert [] == [command for command in commands if command.startswith(CHANGES)]


def test_the_worst_entry_is_read_on_each_bookie_that_lacks_it():
    """The look that proves the finding, with BookKeeper's own shell."""
    commands = next_commands(finding(Kind.ENTRY_WITHOUT_REPLICA, bookies=2), replication_disabled=False)
    assert "bookkeeper shell readledger -l 7 -fe 42 -le 42 -b b0" in commands
    assert "bookkeeper shell readledger -l 7 -fe 42 -le 42 -b b1" in commands
