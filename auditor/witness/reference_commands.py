"""What to run next for findings on what Pulsar's topics reference. All commands only look."""

from __future__ import annotations

from auditor.model.finding import Finding
from auditor.model.reference_facts import OrphanedFacts, TruncatedLedgerFacts
from auditor.witness import pulsar_commands
from auditor.witness.bookie_commands import LEDGERS_MAX, Commands, Steps, shell
from auditor.witness.pulsar_commands import PulsarLedger


def missing_ledger_steps(finding: Finding, topic: PulsarLedger | None) -> Steps:
    """Suggest no change: only a copy of the metadata, from a backup, brings such a ledger back."""
    return Steps([_metadata(finding), shell("listbookies -a -h"), *_topic(topic)], [])


def truncated_ledger_steps(finding: Finding, topic: PulsarLedger | None) -> Steps:
    """Suggest to read the first entry that is cut off."""
    facts = finding.facts
    assert isinstance(facts, TruncatedLedgerFacts), finding
    first_lost = str(facts.last_entry_id + 1)
    through_broker = (
        pulsar_commands.read_commands(topic, finding.ledger_id, first_lost) if topic else []
    )
    return Steps(
        [_metadata(finding), shell("listbookies -a -h"), *_topic(topic), *through_broker], []
    )


def orphan_steps(finding: Finding, _topic_of: PulsarLedger | None) -> Steps:
    """Suggest no deletion: it is not known who else uses the bookies."""
    facts = finding.facts
    assert isinstance(facts, OrphanedFacts), finding
    return Steps(
        [shell(f"ledgermetadata -l {ledger}") for ledger in facts.some_ledgers[:LEDGERS_MAX]], []
    )


def _metadata(finding: Finding) -> str:
    return shell(f"ledgermetadata -l {finding.ledger_id}")


def _topic(topic: PulsarLedger | None) -> Commands:
    return pulsar_commands.look_commands(topic) if topic else []
