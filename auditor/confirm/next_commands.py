"""What to run next for each kind: commands that look first, then commands that change something, marked so.

The syntax is that of BookKeeper 4.17.2's own shell (`bookkeeper shell help COMMAND`).
"""

from __future__ import annotations

from collections.abc import Callable

from auditor.model.finding import CATALOGUE, Finding, Kind

CHANGES = "CHANGES THE CLUSTER: "
"""Every command that is more than a look begins with this."""

Commands = list[str]


def next_commands(finding: Finding, *, replication_disabled: bool) -> Commands:
    """Commands for a person: those that look, then those that change something. At most ten, however many entries are hit.

    Auto-recovery is enabled only where `replication_disabled`, and then before anything that relies on it.
    """
    commands = _NEXT[finding.kind](finding)
    if not replication_disabled or finding.kind not in _HEALED_BY_AUTORECOVERY:
        return commands
    look = [command for command in commands if not command.startswith(CHANGES)]
    status = _shell("queryautorecoverystatus")
    asked = look if status in look else [*look, status]
    return [*asked, CHANGES + _shell("autorecovery -e"), *commands[len(look) :]]


def _shell(command: str) -> str:
    return f"bookkeeper shell {command}"


def _missing_entries(finding: Finding) -> Commands:
    entry, ledger = dict(finding.facts)["worst_entry"], finding.ledger_id
    lacking = [bookie for bookie, _ in finding.missing_on][:_BOOKIES_MAX]
    return [
        _shell(f"ledgermetadata -l {ledger}"),
        *(_shell(f"readledger -l {ledger} -fe {entry} -le {entry} -b {bookie}") for bookie in lacking),
        _shell("listunderreplicated -pmr"),
        _shell("whoisauditor"),
    ]


def _below_quorum(finding: Finding) -> Commands:
    return [*_missing_entries(finding), CHANGES + _shell("triggeraudit")]


_HEALED_BY_AUTORECOVERY = frozenset(
    {
        Kind.ENTRY_BELOW_ACK_QUORUM,
        Kind.ENTRY_BELOW_WRITE_QUORUM,
        Kind.UNDERREPLICATED_BEYOND_GRACE,
        Kind.BOOKIE_LOST_UNNOTICED,
    }
)
"""Kinds for which auto-recovery has copies to make, once it is enabled."""

_BOOKIES_MAX = 4
"""Bookies that get a command of their own."""


def _duplicate(finding: Finding) -> Commands:
    return [_shell(f"ledgermetadata -l {finding.ledger_id}"), _shell("listbookies -rw -h")]


def _marked(finding: Finding) -> Commands:
    return [
        _shell("listunderreplicated -pmr -prw"),
        _shell(f"ledgermetadata -l {finding.ledger_id}"),
        _shell("queryautorecoverystatus"),
        _shell("whoisauditor"),
    ]


def _malformed(finding: Finding) -> Commands:
    return [_shell(f"ledgermetadata -l {finding.ledger_id}")]


def _silent_bookie(finding: Finding) -> Commands:
    return [_shell("listbookies -a -h"), _shell("bookieinfo"), _shell(f"recover -q {finding.bookie_id}")]


def _lost_bookie(finding: Finding) -> Commands:
    return [
        _shell("listbookies -a -h"),
        _shell(f"recover -q {finding.bookie_id}"),
        _shell("whoisauditor"),
        _shell("lostbookierecoverydelay -g"),
        CHANGES + _shell("triggeraudit"),
        CHANGES + _shell(f"recover {finding.bookie_id}"),
    ]


def _population(_finding: Finding) -> Commands:
    return [_shell("listledgers")]


_NEXT: dict[Kind, Callable[[Finding], Commands]] = {
    Kind.ENTRY_WITHOUT_REPLICA: _missing_entries,
    Kind.ENTRY_ONLY_OUTSIDE_ENSEMBLE: _missing_entries,
    Kind.ENTRY_BELOW_ACK_QUORUM: _below_quorum,
    Kind.ENTRY_CORRUPT: _missing_entries,
    Kind.ENTRY_BELOW_WRITE_QUORUM: _below_quorum,
    Kind.ENSEMBLE_DUPLICATE_BOOKIE: _duplicate,
    Kind.PLACEMENT_FAILED: _duplicate,
    Kind.PLACEMENT_SOFT: _duplicate,
    Kind.UNDERREPLICATED_UNRECOVERABLE: _marked,
    Kind.UNDERREPLICATED_BEYOND_GRACE: _marked,
    Kind.BOOKIE_SILENT_YET_REGISTERED: _silent_bookie,
    Kind.BOOKIE_LOST_UNNOTICED: _lost_bookie,
    Kind.BOOKIE_LOST_CONTENT: _silent_bookie,
    Kind.METADATA_MALFORMED: _malformed,
    Kind.LEDGER_STUCK: _malformed,
    Kind.LEDGER_POPULATION_DROPPED: _population,
}
assert _NEXT.keys() == CATALOGUE.keys(), "each kind of the catalogue has its commands"
