"""What to run next for each kind: commands that only look, then commands that change something.

The syntax is that of BookKeeper 4.17.2's own shell (`bookkeeper shell help`) and of `pulsar-admin`.
docs/findings/ says what each command shows. Bookie ids and topic names are quoted, because anybody
may have written the metadata that they come from.
"""

from __future__ import annotations

from collections.abc import Callable

from auditor.model.cluster_facts import MarkWithoutLedgerFacts
from auditor.model.facts import (
    MarkFacts,
    WhyMarked,
)
from auditor.model.finding import CATALOGUE, Finding, Kind
from auditor.model.ledger import LedgerState
from auditor.witness import bookie_commands, entry_commands, pulsar_commands, reference_commands
from auditor.witness.bookie_commands import LEDGERS_MAX, Commands, Steps, shell
from auditor.witness.command_words import can_be_pasted, quote_word
from auditor.witness.ledger_commands import metadata_command, recover_command, topic_commands
from auditor.witness.pulsar_commands import Owner, PulsarLedger, pulsar_ledger

CHANGES = "CHANGES THE CLUSTER: "
"""Prefix of every command that changes something."""


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


def _duplicate_steps(finding: Finding, topic: PulsarLedger | None) -> Steps:
    """Suggest no `recover`: in 4.17.2 it puts the same new bookie into both places."""
    look = [metadata_command(finding), shell("listbookies -rw -h"), *topic_commands(topic)]
    return Steps(look, [])


def _placement_steps(finding: Finding, topic: PulsarLedger | None) -> Steps:
    look = [metadata_command(finding), shell("listbookies -a -h"), *topic_commands(topic)]
    return Steps(["auditor topology", *look], [])


_LACKS_NOTHING = frozenset({WhyMarked.STALE, WhyMarked.EMPTY_LEDGER})


def _mark_steps(finding: Finding, topic: PulsarLedger | None) -> Steps:
    """Suggest `recover` only for a closed ledger that may lack something.

    On a ledger that is not closed, `recover` fences it under its writer.
    """
    facts = finding.facts
    assert isinstance(facts, MarkFacts), finding
    may_lack = facts.state is LedgerState.CLOSED and _LACKS_NOTHING.isdisjoint(facts.why)
    named = facts.missing_replicas[:1] if may_lack else ()
    look = [
        shell("listunderreplicated -pmr -prw"),
        metadata_command(finding),
        shell("clusterinfo"),
        shell("queryautorecoverystatus"),
        *(recover_command(finding, bookie, plan=True) for bookie in named),
        *topic_commands(topic),
    ]
    return Steps(look, [recover_command(finding, bookie) for bookie in named])


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


def _malformed_steps(finding: Finding, topic: PulsarLedger | None) -> Steps:
    look = [metadata_command(finding), shell("listbookies -a -h"), *topic_commands(topic)]
    return Steps(look, [])


def _stuck_steps(finding: Finding, topic: PulsarLedger | None) -> Steps:
    look = [metadata_command(finding), shell("listbookies -a -h"), *topic_commands(topic)]
    unload = pulsar_commands.unload_commands(topic) if topic else []
    fence = [] if topic else [shell(f"readledger -l {finding.ledger_id} -fe 0 -le 0 -r")]
    return Steps(look, [*unload, *fence])


_NEXT: dict[Kind, Callable[[Finding, PulsarLedger | None], Steps]] = {
    Kind.ENTRY_WITHOUT_REPLICA: entry_commands.without_replica_steps,
    Kind.ENTRY_ONLY_OUTSIDE_ENSEMBLE: entry_commands.outside_ensemble_steps,
    Kind.ENTRY_UNAVAILABLE: entry_commands.unavailable_steps,
    Kind.ENTRY_BELOW_ACK_QUORUM: entry_commands.below_quorum_steps,
    Kind.ENTRY_CORRUPT: entry_commands.corrupt_steps,
    Kind.ENTRY_BELOW_WRITE_QUORUM: entry_commands.below_quorum_steps,
    Kind.ENSEMBLE_DUPLICATE_BOOKIE: _duplicate_steps,
    Kind.PLACEMENT_FAILED: _placement_steps,
    Kind.PLACEMENT_SOFT: _placement_steps,
    Kind.UNDERREPLICATED_UNRECOVERABLE: entry_commands.unrecoverable_steps,
    Kind.UNDERREPLICATED_BEYOND_GRACE: _mark_steps,
    Kind.MARK_WITHOUT_LEDGER: _mark_without_ledger_steps,
    Kind.BOOKIE_SILENT_YET_REGISTERED: bookie_commands.silent_bookie_steps,
    Kind.BOOKIE_LOST_UNNOTICED: bookie_commands.lost_bookie_steps,
    Kind.BOOKIE_LOST_CONTENT: bookie_commands.lost_content_steps,
    Kind.BOOKIE_FAILING_REQUESTS: bookie_commands.failing_bookie_steps,
    Kind.ENTRY_LOG_LOST: bookie_commands.entry_log_lost_steps,
    Kind.METADATA_MALFORMED: _malformed_steps,
    Kind.LEDGER_STUCK: _stuck_steps,
    Kind.ENTRIES_BEYOND_END: entry_commands.beyond_end_steps,
    Kind.LEDGER_POPULATION_DROPPED: bookie_commands.population_steps,
    Kind.REFERENCED_LEDGER_MISSING: reference_commands.missing_ledger_steps,
    Kind.LEDGER_TRUNCATED: reference_commands.truncated_ledger_steps,
    Kind.LEDGER_ORPHANED: reference_commands.orphan_steps,
}
assert _NEXT.keys() == CATALOGUE.keys(), "each kind of the catalogue has its commands"
