"""What to run next for findings on entries."""

from dataclasses import replace

import pytest
from support.commands_of_findings import COMMANDS_MAX, ENTRY, SEARCH, commands_of
from support.findings_by_kind import finding_of

from auditor.model.finding import Kind
from auditor.witness.next_commands import CHANGES, SAVES, next_commands, sort_steps


def test_the_worst_entry_is_read_on_each_bookie_that_lacks_it():
    """These reads prove the finding. With `-b` the shell does not read the last entry of the range:
    the range has one entry more.
    """
    commands = commands_of(Kind.ENTRY_WITHOUT_REPLICA, bookies=2)
    assert "bookkeeper shell readledger -l 7 -fe 42 -le 43 -b b0" in commands
    assert "bookkeeper shell readledger -l 7 -fe 42 -le 43 -b b1" in commands


def test_bookies_that_lack_the_worst_entry_come_first():
    """Bookies that lack other entries prove nothing about the one that is named."""
    others = tuple((f"o{n}", ((1, 2),)) for n in range(5))
    lacking = finding_of(Kind.ENTRY_BELOW_ACK_QUORUM, missing_on=(*others, ("b9", ((40, 50),))))
    commands = next_commands(lacking, replication_disabled=False)
    assert commands.index("bookkeeper shell readledger -l 7 -fe 42 -le 43 -b b9") == 2
    assert f"{CHANGES}bookkeeper shell recover -l 7 b9" == commands[-1]


def test_what_lacks_copies_is_planned_before_it_is_recovered():
    """The plan is printed without a question. The recovery asks one."""
    commands = commands_of(Kind.ENTRY_BELOW_WRITE_QUORUM)
    assert "bookkeeper shell recover -dr -f -l 7 b0" in commands
    assert f"{CHANGES}bookkeeper shell recover -l 7 b0" == commands[-1]


def test_a_stranded_entry_is_saved_before_anything_else():
    """Garbage collection on its holder may delete it. The whole entry is printed there, then
    garbage collection is held off.
    """
    commands = commands_of(Kind.ENTRY_ONLY_OUTSIDE_ENSEMBLE)
    saved = "bookkeeper shell -entryformat hex readledger -m -l 7 -fe 42 -le 43 -b h1"
    assert SAVES + saved == commands[0]
    assert f"{CHANGES}restart bookie h1 with gcOverreplicatedLedgerWaitTime=0" in commands


def test_a_corrupt_copy_is_read_where_it_is_corrupt():
    """The first corrupt entry of each bookie is read there. Then the entry is read as by a client,
    from any bookie.
    """
    steps = sort_steps(commands_of(Kind.ENTRY_CORRUPT, bookies=2))
    assert (
        "bookkeeper shell -entryformat hex readledger -m -l 7 -fe 40 -le 41 -b c0" == steps.save[0]
    )
    assert (
        "bookkeeper shell -entryformat hex readledger -m -l 7 -fe 41 -le 42 -b c1" == steps.save[1]
    )
    assert "bookkeeper shell readledger -l 7 -fe 40 -le 40" == steps.look[1]


@pytest.mark.parametrize("kind", [Kind.ENTRY_WITHOUT_REPLICA, Kind.UNDERREPLICATED_UNRECOVERABLE])
def test_a_copy_that_was_found_elsewhere_is_saved_first(kind):
    """Copies that lists name come first, then copies that the search found."""
    entry = replace(ENTRY, listed_outside=("l1",))
    whole = (
        {"entries": entry}
        if kind is Kind.UNDERREPLICATED_UNRECOVERABLE
        else {"listed_outside": ("l1",)}
    )
    saved = [
        f"{SAVES}bookkeeper shell -entryformat hex readledger -m -l 7 -fe 42 -le 43 -b {holder}"
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
    """A holder may lack the worst entry and hold others, which are then read."""
    found = replace(
        ENTRY, search=replace(SEARCH, entries=4, entries_found=4, found_first=(44, 43, 42, 45))
    )
    is_marked = kind is Kind.UNDERREPLICATED_UNRECOVERABLE
    commands = commands_of(kind, **({"entries": found} if is_marked else {"search": found.search}))
    read = f"{SAVES}bookkeeper shell -entryformat hex readledger -m -l 7 -fe"
    assert [f"{read} 44 -le 45 -b h1", f"{read} 43 -le 44 -b h2"] == commands[:2]


def test_a_bookie_that_is_gone_is_not_read():
    """It counts as without the worst entry, and cannot be asked."""
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
    """The first bookie that lacks the worst entry comes first. If it is not gone, the first gone
    bookie comes second.
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
    """A bookie that occurs twice in a write set holds one copy of the two: no bookie lacks the
    entry.
    """
    assert [] == [one for one in commands_of(kind, bookies=0) if "recover" in one]


@pytest.mark.parametrize("kind", [Kind.ENTRIES_BEYOND_END, Kind.LEDGER_CLOSED_SHORT])
def test_entries_beyond_the_end_are_saved_where_they_are_held(kind):
    """The lists alone do not say that they can be read, and nobody else has them."""
    reads = [c for c in commands_of(kind) if " readledger " in c]
    save = "SAVE FIRST: bookkeeper shell -entryformat hex readledger -m -l 7 -fe 42 -le 43 -b b1"
    assert [save] == reads
