"""Commands on one ledger: show it and its topic, read an entry, recover a bookie's share."""

from __future__ import annotations

from collections.abc import Iterable

from auditor.model.finding import Finding
from auditor.model.identity import EntryId
from auditor.witness import pulsar_commands
from auditor.witness.bookie_commands import Commands, shell
from auditor.witness.command_words import quote_word
from auditor.witness.pulsar_commands import PulsarLedger


def metadata_command(finding: Finding) -> str:
    """Return the command that shows the metadata of the finding's ledger."""
    return shell(f"ledgermetadata -l {finding.ledger_id}")


def read_commands(
    finding: Finding, bookies: Iterable[str], entry: EntryId, *, save: bool = False
) -> Commands:
    """Return commands to read one entry on each bookie.

    With `-b` the shell leaves out the last entry it is given, so that entry is one higher.
    """
    form, body = ("-entryformat hex ", " -m") if save else ("", "")
    ranged = f"-l {finding.ledger_id} -fe {entry} -le {entry + 1}"
    return [shell(f"{form}readledger{body} {ranged} -b {quote_word(bookie)}") for bookie in bookies]


def recover_command(finding: Finding, bookie: str, *, plan: bool = False) -> str:
    """Return the command to copy the ledger's share of one bookie to another.

    `plan`: it only prints what it would copy. The shell asks for confirmation even then, hence
    `-f`.
    """
    return shell(f"recover {'-dr -f ' if plan else ''}-l {finding.ledger_id} {quote_word(bookie)}")


def topic_commands(topic: PulsarLedger | None) -> Commands:
    """Return the commands that look at the ledger's topic; none if Pulsar does not own it."""
    return pulsar_commands.look_commands(topic) if topic else []
