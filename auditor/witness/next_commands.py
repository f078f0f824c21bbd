"""What to run next for each kind: commands that only look, then commands that change something.

The syntax is that of BookKeeper 4.17.2's own shell (`bookkeeper shell help`) and of `pulsar-admin`.
docs/findings/ says what each command shows. Bookie ids and topic names are quoted, because anybody
may have written the metadata that they come from.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from auditor.model.cluster_facts import MarkWithoutLedgerFacts
from auditor.model.facts import (
    BeyondEndFacts,
    CorruptFacts,
    EntryFacts,
    MarkFacts,
    UnrecoverableFacts,
    WhyMarked,
)
from auditor.model.finding import CATALOGUE, Finding, Kind
from auditor.model.identity import BookieId, EntryId
from auditor.model.ledger import LedgerState
from auditor.witness import bookie_commands, pulsar_commands, reference_commands
from auditor.witness.bookie_commands import LEDGERS_MAX, Commands, Steps, shell
from auditor.witness.command_words import can_be_pasted, quote_word
from auditor.witness.pulsar_commands import Owner, PulsarLedger, pulsar_ledger

CHANGES = "CHANGES THE CLUSTER: "
"""Prefix of every command that changes something."""

_BOOKIES_MAX = 3
"""Bookies that lack something and get a command of their own."""
_HOLDERS_MAX = 2
"""Bookies that hold entries outside their write set and get a command of their own."""


def next_commands(
    finding: Finding, *, replication_disabled: bool, owner: Owner | None = None
) -> Commands:
    """Return commands for a person: first those that look, then those that change something.

    There are at most ten, however many entries are hit. Auto-recovery is enabled only if
    `replication_disabled`, and then before any other change. `owner` is the ledger's owner in its
    outside form; if Pulsar owns the ledger, the topic is looked at too. A command with a name that
    must not be pasted is left out (`command_words`), and without one that looks nothing is changed.
    """
    look, change = _NEXT[finding.kind](finding, pulsar_ledger(owner))
    if replication_disabled and finding.kind in _HEALED_BY_AUTORECOVERY:
        status = shell("clusterinfo")
        look = look if status in look else [*look, status]
        change = [shell("autorecovery -e"), *change]
    shown = list(filter(can_be_pasted, look))
    change = list(filter(can_be_pasted, change)) if len(shown) == len(look) else []
    return [*shown, *(CHANGES + command for command in change)]


_HEALED_BY_AUTORECOVERY = frozenset(
    {
        Kind.ENTRY_BELOW_ACK_QUORUM,
        Kind.ENTRY_BELOW_WRITE_QUORUM,
        Kind.UNDERREPLICATED_BEYOND_GRACE,
        Kind.MARK_WITHOUT_LEDGER,
        Kind.BOOKIE_LOST_UNNOTICED,
    }
)
"""Kinds for which auto-recovery makes copies, or removes marks, once it is enabled."""


def _metadata(finding: Finding) -> str:
    return shell(f"ledgermetadata -l {finding.ledger_id}")


def _read_on(
    finding: Finding, bookies: Iterable[str], entry: EntryId, *, save: bool = False
) -> Commands:
    """Return commands to read one entry on each bookie.

    With `-b` the shell leaves out the last entry it is given, so that entry is one higher.
    """
    form, body = ("-entryformat hex ", " -m") if save else ("", "")
    ranged = f"-l {finding.ledger_id} -fe {entry} -le {entry + 1}"
    return [shell(f"{form}readledger{body} {ranged} -b {quote_word(bookie)}") for bookie in bookies]


def _recover(finding: Finding, bookie: str, *, plan: bool = False) -> str:
    """Return the command to copy the ledger's share of one bookie to another.

    `plan`: it only prints what it would copy. The shell asks for confirmation even then, hence
    `-f`.
    """
    return shell(f"recover {'-dr -f ' if plan else ''}-l {finding.ledger_id} {quote_word(bookie)}")


def _entry_facts(finding: Finding) -> EntryFacts:
    facts = (
        finding.facts.entries if isinstance(finding.facts, UnrecoverableFacts) else finding.facts
    )
    assert isinstance(facts, EntryFacts), finding
    return facts


def _holders(finding: Finding) -> dict[BookieId, EntryId]:
    """Return the bookies outside the write set that hold an entry without a copy, with that entry.

    Those that list the worst entry come first.
    """
    facts = _entry_facts(finding)
    found = (
        zip(facts.search.found_on, facts.search.found_first, strict=False) if facts.search else ()
    )
    return dict.fromkeys(facts.listed_outside, facts.worst_entry) | dict(found)


def _save_on(finding: Finding, holders: Mapping[BookieId, EntryId], most: int) -> Commands:
    some = list(holders.items())[:most]
    return [
        command
        for bookie, entry in some
        for command in _read_on(finding, [bookie], entry, save=True)
    ]


def _lacking_bookies(finding: Finding, worst_entry: EntryId) -> list[BookieId]:
    """Return a few bookies to read: those that lack the worst entry, then others that lack entries.

    Gone bookies are left out, because they cannot be read.
    """
    gone = _entry_facts(finding).gone
    return [bookie for bookie in _lacking_in_order(finding, worst_entry) if bookie not in gone][
        :_BOOKIES_MAX
    ]


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

    Neither has to be readable.
    """
    lacking, gone = _lacking_in_order(finding, worst_entry)[:1], _entry_facts(finding).gone
    return [*lacking, *([] if set(lacking) & set(gone) else gone[:1])]


def _topic(topic: PulsarLedger | None) -> Commands:
    return pulsar_commands.look_commands(topic) if topic else []


def _without_replica_steps(finding: Finding, topic: PulsarLedger | None) -> Steps:
    entry = _entry_facts(finding).worst_entry
    through_broker = (
        pulsar_commands.read_commands(topic, finding.ledger_id, str(entry)) if topic else []
    )
    look = [
        *_save_on(finding, _holders(finding), _HOLDERS_MAX),
        _metadata(finding),
        *_read_on(finding, _lacking_bookies(finding, entry), entry),
        shell("listbookies -a -h"),
        *_topic(topic),
        *through_broker,
    ]
    return Steps(look, [])


def _outside_ensemble_steps(finding: Finding, topic: PulsarLedger | None) -> Steps:
    entry, search = _entry_facts(finding).worst_entry, _entry_facts(finding).search
    unnamed = search.found_unnamed if search else ()
    holders = {bookie: held for bookie, held in _holders(finding).items() if bookie in unnamed}
    look = [
        *_save_on(finding, holders, _BOOKIES_MAX),
        _metadata(finding),
        *_read_on(finding, _lacking_bookies(finding, entry)[:_HOLDERS_MAX], entry),
        *_topic(topic),
    ]
    pause = [
        f"restart bookie {quote_word(b)} with gcOverreplicatedLedgerWaitTime=0"
        for b in list(holders)[:_HOLDERS_MAX]
    ]
    return Steps(look, pause)


def _below_quorum_steps(finding: Finding, topic: PulsarLedger | None) -> Steps:
    entry = _entry_facts(finding).worst_entry
    recovered = _bookies_to_recover(finding, entry)
    read = _read_on(
        finding, _lacking_bookies(finding, entry)[: _BOOKIES_MAX + 1 - len(recovered)], entry
    )
    plan = [_recover(finding, bookie, plan=True) for bookie in recovered[:1]]
    look = [_metadata(finding), *read, shell("clusterinfo"), *plan, *_topic(topic)]
    return Steps(look, [_recover(finding, bookie) for bookie in recovered])


def _corrupt_steps(finding: Finding, topic: PulsarLedger | None) -> Steps:
    facts = finding.facts
    assert isinstance(facts, CorruptFacts), finding
    entry, corrupt = facts.worst_entry, {bookie: entries[0] for bookie, entries in facts.copies}
    look = [
        _metadata(finding),
        *_save_on(finding, corrupt, _BOOKIES_MAX),
        shell(f"readledger -l {finding.ledger_id} -fe {entry} -le {entry}"),
        *(_recover(finding, bookie, plan=True) for bookie in list(corrupt)[:1]),
        *_topic(topic),
    ]
    return Steps(look, [_recover(finding, bookie) for bookie in list(corrupt)[:1]])


def _duplicate_steps(finding: Finding, topic: PulsarLedger | None) -> Steps:
    """Suggest no `recover`: in 4.17.2 it puts the same new bookie into both places."""
    return Steps([_metadata(finding), shell("listbookies -rw -h"), *_topic(topic)], [])


def _placement_steps(finding: Finding, topic: PulsarLedger | None) -> Steps:
    return Steps(
        ["auditor topology", _metadata(finding), shell("listbookies -a -h"), *_topic(topic)], []
    )


_LACKS_NOTHING = frozenset({WhyMarked.STALE, WhyMarked.EMPTY_LEDGER})


def _mark_steps(finding: Finding, topic: PulsarLedger | None) -> Steps:
    """Suggest `recover` only for a closed ledger that may lack something.

    On a ledger that is not closed, `recover` fences it under its writer.
    """
    facts = finding.facts
    assert isinstance(facts, MarkFacts), finding
    named = (
        facts.missing_replicas[:1]
        if facts.state is LedgerState.CLOSED and _LACKS_NOTHING.isdisjoint(facts.why)
        else ()
    )
    look = [
        shell("listunderreplicated -pmr -prw"),
        _metadata(finding),
        shell("clusterinfo"),
        shell("queryautorecoverystatus"),
        *(_recover(finding, bookie, plan=True) for bookie in named),
        *_topic(topic),
    ]
    return Steps(look, [_recover(finding, bookie) for bookie in named])


def _mark_without_ledger_steps(finding: Finding, _topic_of: PulsarLedger | None) -> Steps:
    """Suggest ZooKeeper's shell for removing the mark: BookKeeper's cannot."""
    facts = finding.facts
    assert isinstance(facts, MarkWithoutLedgerFacts), finding
    again = [shell(f"ledgermetadata -l {ledger}") for ledger in facts.some_ledgers[:LEDGERS_MAX]]
    look = [
        shell("listunderreplicated -pmr -prw"),
        *again,
        shell("queryautorecoverystatus"),
        shell("clusterinfo"),
    ]
    return Steps(look, [f"zkCli.sh -server ZOOKEEPER delete {quote_word(facts.oldest_path)}"])


def _unrecoverable_steps(finding: Finding, topic: PulsarLedger | None) -> Steps:
    entry = _entry_facts(finding).worst_entry
    look = [
        *_save_on(finding, _holders(finding), _HOLDERS_MAX),
        shell("listunderreplicated -pmr -prw"),
        _metadata(finding),
        *_read_on(finding, _lacking_bookies(finding, entry), entry),
        shell("clusterinfo"),
        *_topic(topic),
    ]
    return Steps(look, [])


def _malformed_steps(finding: Finding, topic: PulsarLedger | None) -> Steps:
    return Steps([_metadata(finding), shell("listbookies -a -h"), *_topic(topic)], [])


def _beyond_end_steps(finding: Finding, topic: PulsarLedger | None) -> Steps:
    facts = finding.facts
    assert isinstance(facts, BeyondEndFacts), finding
    entry = finding.entries[0][0]
    return Steps(
        [
            _metadata(finding),
            *_read_on(finding, facts.listed_by[:_BOOKIES_MAX], entry),
            *_topic(topic),
        ],
        [],
    )


def _stuck_steps(finding: Finding, topic: PulsarLedger | None) -> Steps:
    look = [_metadata(finding), shell("listbookies -a -h"), *_topic(topic)]
    unload = pulsar_commands.unload_commands(topic) if topic else []
    fence = [] if topic else [shell(f"readledger -l {finding.ledger_id} -fe 0 -le 0 -r")]
    return Steps(look, [*unload, *fence])


_NEXT: dict[Kind, Callable[[Finding, PulsarLedger | None], Steps]] = {
    Kind.ENTRY_WITHOUT_REPLICA: _without_replica_steps,
    Kind.ENTRY_ONLY_OUTSIDE_ENSEMBLE: _outside_ensemble_steps,
    Kind.ENTRY_BELOW_ACK_QUORUM: _below_quorum_steps,
    Kind.ENTRY_CORRUPT: _corrupt_steps,
    Kind.ENTRY_BELOW_WRITE_QUORUM: _below_quorum_steps,
    Kind.ENSEMBLE_DUPLICATE_BOOKIE: _duplicate_steps,
    Kind.PLACEMENT_FAILED: _placement_steps,
    Kind.PLACEMENT_SOFT: _placement_steps,
    Kind.UNDERREPLICATED_UNRECOVERABLE: _unrecoverable_steps,
    Kind.UNDERREPLICATED_BEYOND_GRACE: _mark_steps,
    Kind.MARK_WITHOUT_LEDGER: _mark_without_ledger_steps,
    Kind.BOOKIE_SILENT_YET_REGISTERED: bookie_commands.silent_bookie_steps,
    Kind.BOOKIE_LOST_UNNOTICED: bookie_commands.lost_bookie_steps,
    Kind.BOOKIE_LOST_CONTENT: bookie_commands.lost_content_steps,
    Kind.BOOKIE_FAILING_REQUESTS: bookie_commands.failing_bookie_steps,
    Kind.ENTRY_LOG_LOST: bookie_commands.entry_log_lost_steps,
    Kind.METADATA_MALFORMED: _malformed_steps,
    Kind.LEDGER_STUCK: _stuck_steps,
    Kind.ENTRIES_BEYOND_END: _beyond_end_steps,
    Kind.LEDGER_POPULATION_DROPPED: bookie_commands.population_steps,
    Kind.REFERENCED_LEDGER_MISSING: reference_commands.missing_ledger_steps,
    Kind.LEDGER_TRUNCATED: reference_commands.truncated_ledger_steps,
    Kind.LEDGER_ORPHANED: reference_commands.orphan_steps,
}
assert _NEXT.keys() == CATALOGUE.keys(), "each kind of the catalogue has its commands"
