"""Commands on one ledger: show metadata and mark, read an entry, recover a bookie's share."""

from __future__ import annotations

from collections.abc import Iterable

from auditor.model.facts import MarkFacts, UnrecoverableFacts
from auditor.model.finding import Finding
from auditor.model.identity import EntryId
from auditor.wire import znode_paths
from auditor.witness.bookie_commands import Commands, shell, zookeeper_get
from auditor.witness.command_words import quote_word


def metadata_command(finding: Finding) -> str:
    """Return the command that shows the metadata of the finding's ledger."""
    return shell(f"ledgermetadata -l {finding.ledger_id}")


def mark_commands(finding: Finding, root: str) -> Commands:
    """Return the commands that show a ledger's mark and the lock of the worker that repairs it.

    ROOT is the parent of all ledgers. BookKeeper's `listunderreplicated` reads all marks, and fails
    at the first znode that is not a mark. Findings on other subjects have no such commands.
    """
    facts = finding.facts.mark if isinstance(finding.facts, UnrecoverableFacts) else finding.facts
    if not isinstance(facts, MarkFacts) or finding.ledger_id is None:
        return []
    locks = [] if facts.lock_since_ms is None else [znode_paths.lock_path(finding.ledger_id)]
    paths = (znode_paths.mark_path(finding.ledger_id), *locks)
    return [zookeeper_get(root + path) for path in paths]


def read_commands(
    finding: Finding, bookies: Iterable[str], entry: EntryId, *, save: bool = False
) -> Commands:
    """Return commands to read one entry on each bookie.

    With `-b` the shell leaves out the last entry of the range: therefore the end is one higher.
    """
    form, body = ("-entryformat hex ", " -m") if save else ("", "")
    ranged = f"-l {finding.ledger_id} -fe {entry} -le {entry + 1}"
    return [shell(f"{form}readledger{body} {ranged} -b {quote_word(bookie)}") for bookie in bookies]


def recover_command(finding: Finding, bookie: str, *, plan: bool = False) -> str:
    """Return the command to copy the ledger's share of one bookie to another.

    `plan`: it only prints what it would copy. Even then the shell asks for confirmation, hence
    `-f`.
    """
    return shell(f"recover {'-dr -f ' if plan else ''}-l {finding.ledger_id} {quote_word(bookie)}")
