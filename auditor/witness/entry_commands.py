"""What to run next for findings on the entries of a ledger: save what is left, read, recover."""

from __future__ import annotations

from collections.abc import Mapping

from auditor.model.facts import (
    BeyondEndFacts,
    CorruptFacts,
    EntryFacts,
    UnavailableFacts,
    UnrecoverableFacts,
)
from auditor.model.finding import Finding
from auditor.model.identity import BookieId, EntryId
from auditor.witness.bookie_commands import RECOVERY_STATE, Commands, Steps, shell
from auditor.witness.command_words import quote_word
from auditor.witness.ledger_commands import (
    metadata_command,
    read_commands,
    recover_command,
)

_BOOKIES_MAX = 3
"""At most this many bookies that lack something get a command of their own."""
_HOLDERS_MAX = 2
"""At most this many bookies that hold entries outside their write set get a command of their
own."""


def _entry_facts(finding: Finding) -> EntryFacts:
    facts = finding.facts
    if isinstance(facts, UnrecoverableFacts):
        facts = facts.entries
    assert isinstance(facts, EntryFacts), finding
    return facts


def _holders(finding: Finding) -> dict[BookieId, EntryId]:
    """Return the bookies outside the write set that hold an entry without a copy, with that entry.

    Those that list the worst entry come first.
    """
    facts = _entry_facts(finding)
    listed = dict.fromkeys(facts.listed_outside, facts.worst_entry)
    if facts.search is None:
        return listed
    return listed | dict(zip(facts.search.found_on, facts.search.found_first, strict=False))


def _save_on(finding: Finding, holders: Mapping[BookieId, EntryId], most: int) -> Commands:
    some = list(holders.items())[:most]
    return [
        command
        for bookie, entry in some
        for command in read_commands(finding, [bookie], entry, save=True)
    ]


def _lacking_bookies(finding: Finding, worst_entry: EntryId) -> list[BookieId]:
    """Return a few bookies to read: those that lack the worst entry, then others that lack entries.

    Gone bookies are left out, because they cannot be read.
    """
    gone = _entry_facts(finding).gone
    lacking = _lacking_in_order(finding, worst_entry)
    return [bookie for bookie in lacking if bookie not in gone][:_BOOKIES_MAX]


def _lacking_in_order(finding: Finding, worst_entry: EntryId) -> list[BookieId]:
    """Return all bookies that lack entries; those that lack the worst entry come first."""
    lacks_it = [
        b
        for b, runs in finding.missing_on
        if any(first <= worst_entry <= last for first, last in runs)
    ]
    return list(dict.fromkeys((*lacks_it, *(bookie for bookie, _ in finding.missing_on))))


def _bookies_to_recover(finding: Finding, worst_entry: EntryId) -> list[BookieId]:
    """Return the first bookie that lacks the worst entry, and a gone one if the first is not gone.

    They need not be readable.
    """
    lacking, gone = _lacking_in_order(finding, worst_entry)[:1], _entry_facts(finding).gone
    return [*lacking, *([] if set(lacking) & set(gone) else gone[:1])]


def _renamed(finding: Finding) -> Commands:
    """Say what restores the copies if a bookie that is gone was only renamed.

    A run finds out which bookie was renamed at its end, after this finding was made.
    """
    return [_IF_RENAMED] if _entry_facts(finding).gone else []


_IF_RENAMED = (
    "A bookie of this ledger is gone. If bookies_renamed in the summary names it, its copies are"
    " there: save ZooKeeper, then bookkeeper shell updateBookieInLedger CHANGES THE CLUSTER and"
    " gives all its ledgers the new id."
)


def restore_command(finding: Finding) -> str:
    """Return the command that gives the ledger corrected metadata, which has to be made first."""
    return shell(f"ledgermetadata -l {finding.ledger_id} -restorefromfile CORRECTED -update")


RESTORE_NOTE = (
    "Copies lie where a neighbouring segment would have them. Metadata that names their bookies"
    " makes them readable. CORRECTED stands for a copy of the saved file that was corrected so."
)


def without_replica_steps(finding: Finding) -> Steps:
    """Return what to run for entries without a copy on the bookies that should hold them."""
    entry = _entry_facts(finding).worst_entry
    look = [
        metadata_command(finding),
        *read_commands(finding, _lacking_bookies(finding, entry), entry),
        shell("listbookies -a -h"),
    ]
    save = _save_on(finding, _holders(finding), _HOLDERS_MAX)
    return Steps(look, [], save, _renamed(finding))


def outside_ensemble_steps(finding: Finding) -> Steps:
    """Return what to run for entries that only bookies outside their write set hold."""
    entry, search = _entry_facts(finding).worst_entry, _entry_facts(finding).search
    unnamed = search.found_unnamed if search else ()
    holders = {bookie: held for bookie, held in _holders(finding).items() if bookie in unnamed}
    look = [
        metadata_command(finding),
        *read_commands(finding, _lacking_bookies(finding, entry)[:_HOLDERS_MAX], entry),
    ]
    pause = [
        f"restart bookie {quote_word(b)} with gcOverreplicatedLedgerWaitTime=0"
        for b in list(holders)[:_HOLDERS_MAX]
    ]
    return Steps(look, pause, _save_on(finding, holders, _BOOKIES_MAX), _renamed(finding))


def unavailable_steps(finding: Finding) -> Steps:
    """Return what to run for entries that no bookie can serve now: check which bookies are
    registered.
    """
    facts = finding.facts
    assert isinstance(facts, UnavailableFacts), finding
    read = read_commands(finding, facts.failed[:_BOOKIES_MAX], facts.worst_entry)
    return Steps([metadata_command(finding), shell("listbookies -a -h"), *read], [])


def below_quorum_steps(finding: Finding) -> Steps:
    """Return what to run for entries with too few copies."""
    entry = _entry_facts(finding).worst_entry
    recovered = _bookies_to_recover(finding, entry)
    lacking = _lacking_bookies(finding, entry)[: _BOOKIES_MAX + 1 - len(recovered)]
    read = read_commands(finding, lacking, entry)
    plan = [recover_command(finding, bookie, plan=True) for bookie in recovered[:1]]
    look = [metadata_command(finding), *read, RECOVERY_STATE, *plan]
    change = [recover_command(finding, bookie) for bookie in recovered]
    return Steps(look, change, notes=_renamed(finding))


def corrupt_steps(finding: Finding) -> Steps:
    """Return what to run for copies with a wrong digest."""
    facts = finding.facts
    assert isinstance(facts, CorruptFacts), finding
    entry, corrupt = facts.worst_entry, {bookie: entries[0] for bookie, entries in facts.copies}
    look = [
        metadata_command(finding),
        shell(f"readledger -l {finding.ledger_id} -fe {entry} -le {entry}"),
        *(recover_command(finding, bookie, plan=True) for bookie in list(corrupt)[:1]),
    ]
    change = [recover_command(finding, bookie) for bookie in list(corrupt)[:1]]
    return Steps(look, change, _save_on(finding, corrupt, _BOOKIES_MAX))


def unrecoverable_steps(finding: Finding) -> Steps:
    """Return what to run for entries of a marked ledger that have no copy to replicate from."""
    entry = _entry_facts(finding).worst_entry
    look = [
        metadata_command(finding),
        *read_commands(finding, _lacking_bookies(finding, entry), entry),
        RECOVERY_STATE,
    ]
    save = _save_on(finding, _holders(finding), _HOLDERS_MAX)
    return Steps(look, [], save, _renamed(finding))


def beyond_end_steps(finding: Finding) -> Steps:
    """Return what to run for entries beyond the end of a closed ledger: save them first."""
    facts = finding.facts
    assert isinstance(facts, BeyondEndFacts), finding
    holders = {one.bookie_id: one.ranges[0][0] for one in facts.held_on}
    return Steps([metadata_command(finding)], [], _save_on(finding, holders, _BOOKIES_MAX))
