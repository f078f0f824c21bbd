"""What to run next for findings on what Pulsar's topics reference: save everything, then look.

A broker that loads a topic "repairs" it: it rewrites cursors and deletes schemas that it cannot
read.
"""

from __future__ import annotations

from auditor.model.finding import Finding
from auditor.model.reference_facts import (
    MissingLedgerFacts,
    NewestMissingFacts,
    OrphanedFacts,
    TruncatedLedgerFacts,
)
from auditor.witness.bookie_commands import (
    LEDGERS_MAX,
    SAVE_ZOOKEEPER,
    Commands,
    Steps,
    dump_command,
    shell,
)
from auditor.witness.pulsar_commands import look_commands, save_commands, znodes_of_use

TOPICS_MAX = 2
"""At most this many topics of a ledger get commands of their own."""


def missing_ledger_steps(finding: Finding) -> Steps:
    """Suggest to restore the metadata from a backup: nothing else brings such a ledger back."""
    look, save = _topic_steps(finding)
    back = shell(f"ledgermetadata -l {finding.ledger_id} -restorefromfile BACKUP_OF_ITS_METADATA")
    return Steps([_metadata(finding), *look], [back], [SAVE_ZOOKEEPER, *save])


def truncated_ledger_steps(finding: Finding) -> Steps:
    """Suggest no change: metadata with the right end must be made by hand."""
    look, save = _topic_steps(finding)
    save = [SAVE_ZOOKEEPER, dump_command(finding.ledger_id), *save]
    return Steps([_metadata(finding), shell("listbookies -a -h"), *look], [], save)


def orphan_steps(finding: Finding) -> Steps:
    """Suggest no deletion: others may use the bookies too."""
    facts = finding.facts
    assert isinstance(facts, OrphanedFacts), finding
    return Steps(
        [shell(f"ledgermetadata -l {ledger}") for ledger in facts.some_ledgers[:LEDGERS_MAX]], []
    )


def _topic_steps(finding: Finding) -> tuple[Commands, Commands]:
    """Return commands that look at the topics of the finding, and those that save their znodes.

    The list of a shadow topic is in the znode of its source, which is saved before its own.
    """
    facts = finding.facts
    assert isinstance(facts, MissingLedgerFacts | NewestMissingFacts | TruncatedLedgerFacts), (
        finding
    )
    topics = list(dict.fromkeys(use.topic for use in facts.some_uses))[:TOPICS_MAX]
    paths = [
        path
        for use in facts.some_uses
        if use.topic in topics
        for topic in filter(None, (use.shadow_source, use.topic))
        for path in znodes_of_use(topic, use.role, use.name)
    ]
    look = [command for topic in topics for command in look_commands(topic)]
    return look, save_commands(list(dict.fromkeys(paths))[: 2 * TOPICS_MAX])


def _metadata(finding: Finding) -> str:
    return shell(f"ledgermetadata -l {finding.ledger_id}")
