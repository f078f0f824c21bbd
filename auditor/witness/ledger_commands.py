"""Commands on a bookie and on one ledger, for a person to paste into a shell.

They show metadata and mark, read an entry, recover a bookie's share. Names that others chose are
quoted.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from typing import NamedTuple

from auditor.model.facts import (
    EntryLogLostFacts,
    FailingFacts,
    LostContentFacts,
    LostFacts,
    MarkFacts,
    UnreadableFacts,
    UnrecoverableFacts,
)
from auditor.model.finding import Finding
from auditor.model.identity import EntryId, LedgerId
from auditor.wire import znode_paths
from auditor.wire.service_uri import DEFAULT_ROOT
from auditor.wire.znode_paths import LOST_BOOKIE_RECOVERY_DELAY, UNDERREPLICATION

_NO_WORD = "\x00"
"""Replaces a name that no command may contain. No shell accepts it."""


def quote_word(name: str) -> str:
    """Return a name quoted for a shell.

    A name that looks like an option, or has characters that control a terminal, becomes a word that
    `can_be_pasted` refuses: quotes do not help against either.
    """
    return _NO_WORD if name.startswith("-") or not name.isprintable() else shlex.quote(name)


def can_be_pasted(command: str) -> bool:
    """Return whether a command may be shown: it has no character that controls a terminal."""
    return command.isprintable()


GC_PAUSE_MS = 604_800_000
"""The gcWaitTime suggested for a bookie that must not garbage collect: a week, in milliseconds."""

LEDGERS_MAX = 3
"""At most this many ledgers of a bookie get a command of their own."""

Commands = list[str]


class Steps(NamedTuple):
    """Commands that only look, commands that change something, what to save before, and sentences.

    The commands of `save` only look too. `next_commands` puts `SAVES`, `CHANGES` and `NOTE` before
    them.
    """

    look: Commands
    change: Commands
    save: Commands = []
    notes: Commands = []


def shell(command: str) -> str:
    """Return a command of BookKeeper's own shell."""
    return f"bookkeeper shell {command}"


SAVE_ZOOKEEPER = "cp -a ZOOKEEPER_DATA/version-2 SAVED_ZOOKEEPER"
"""Copies all metadata on a ZooKeeper server: snapshots, and the log of what came after them.

ZOOKEEPER_DATA stands for its dataDir, and for its dataLogDir where it has one."""


def dump_command(ledger_id: LedgerId | None) -> str:
    """Return the command that saves a ledger's metadata to a file, which holds its password."""
    return shell(f"ledgermetadata -l {ledger_id} -dumptofile ledger-{ledger_id}.metadata")


def zookeeper_get(path: str, *, base64: bool = False) -> str:
    """Return the command of ZooKeeper's own shell that prints a znode. ZOOKEEPER is its address."""
    return f"zkCli.sh -server ZOOKEEPER get {'-b ' if base64 else ''}{quote_word(path)}"


RECOVERY_STATE = f"zkCli.sh -server ZOOKEEPER ls {DEFAULT_ROOT}{UNDERREPLICATION}"
"""Shows whether auto-recovery is switched off (`disable`), and elects an auditor.

BookKeeper's own commands for it (`clusterinfo`, `queryautorecoverystatus`,
`lostbookierecoverydelay`, `listunderreplicated`) first create the znodes of auto-recovery that are
missing. `next_commands` fills in the cluster's own root, also in RECOVERY_DELAY."""
RECOVERY_DELAY = f"zkCli.sh -server ZOOKEEPER get {DEFAULT_ROOT}{LOST_BOOKIE_RECOVERY_DELAY}"


def silent_bookie_steps(finding: Finding) -> Steps:
    bookie = quote_word(str(finding.bookie_id))
    look = [
        "listbookies -a -h",
        f"endpointinfo -b {bookie}",
        "bookieinfo",
        f"listledgers -bookieid {bookie}",
    ]
    return Steps([shell(command) for command in look], [])


def lost_bookie_steps(finding: Finding) -> Steps:
    bookie = quote_word(str(finding.bookie_id))
    assert isinstance(finding.facts, LostFacts), finding
    look = [
        "listbookies -a -h",
        f"listledgers -bookieid {bookie}",
    ]
    state = [RECOVERY_STATE, RECOVERY_DELAY]
    if finding.facts.renamed_to:  # recovering a renamed bookie would take hours for nothing
        new = quote_word(finding.facts.renamed_to)
        rename = shell(f"updateBookieInLedger -srcBookie {bookie} -destBookie {new}")
        also = [*look, f"endpointinfo -b {new}"]
        return Steps([*(shell(command) for command in also), *state], [rename], [SAVE_ZOOKEEPER])
    change = ["triggeraudit", f"recover {bookie}"]
    return Steps(
        [*(shell(command) for command in look), *state],
        [shell(command) for command in change],
        [SAVE_ZOOKEEPER],
    )


def lost_content_steps(finding: Finding) -> Steps:
    bookie = quote_word(str(finding.bookie_id))
    look = [f"endpointinfo -b {bookie}", "bookieinfo", f"listledgers -bookieid {bookie}"]
    assert isinstance(finding.facts, LostContentFacts), finding
    again = [f"auditor ledger {ledger}" for ledger in finding.facts.some_ledgers[:LEDGERS_MAX]]
    return Steps(
        [*(shell(command) for command in look), *again],
        [shell(f"recover {bookie}")],
        [SAVE_ZOOKEEPER],
    )


def shrunk_steps(finding: Finding) -> Steps:
    """Return commands that show the size of the disks, and what the bookie should hold.

    None changes anything: whether a disk is missing is seen on the bookie's host.
    """
    bookie = quote_word(str(finding.bookie_id))
    look = ["bookieinfo", f"cookie_get {bookie}", f"listledgers -bookieid {bookie}"]
    return Steps([shell(command) for command in look], [])


def foreign_cookie_steps(finding: Finding) -> Steps:
    """Return commands that show both instance ids.

    None changes anything: which of the two is right is not known.
    """
    bookie = quote_word(str(finding.bookie_id))
    look = ["whatisinstanceid", f"cookie_get {bookie}", f"listledgers -bookieid {bookie}"]
    return Steps([shell(command) for command in look], [], [], [NO_RESTART])


NO_RESTART = "do not restart the bookie before both instance ids are the same: it would not start"


def failing_bookie_steps(finding: Finding) -> Steps:
    """Return commands that show whether the bookie fails other clients too.

    None changes anything: the bookie's own log says what to do.
    """
    assert isinstance(finding.facts, FailingFacts), finding
    bookie = quote_word(str(finding.bookie_id))
    read = [
        f"readledger -l {ledger} -fe 0 -le 1 -b {bookie}"
        for ledger in finding.facts.some_ledgers[:1]
    ]
    look = ["listbookies -a -h", f"endpointinfo -b {bookie}", *read]
    again = [f"auditor ledger {ledger}" for ledger in finding.facts.some_ledgers[:LEDGERS_MAX]]
    return Steps([*(shell(command) for command in look), *again], [])


def entry_log_lost_steps(finding: Finding) -> Steps:
    """Return commands that show the missing file and whether the other copies can be read.

    The first change is to put the file back, which the bookie notices without a restart. Copying
    from other bookies needs their copies: `auditor ledger` tells beforehand whether they have the
    entries.
    """
    facts = finding.facts
    assert isinstance(facts, EntryLogLostFacts), finding
    bookie = quote_word(str(finding.bookie_id))
    log = facts.some_logs[0]
    ledgers = sorted({ledger for log in facts.some_logs for ledger, _, _ in log.some})[:LEDGERS_MAX]
    ledger, first, _ = log.some[0]
    look = [
        f"ls -l {quote_word(log.path)}",
        shell(f"endpointinfo -b {bookie}"),
        shell(f"readledger -l {ledger} -fe {first} -le {first + 1} -b {bookie}"),
        *(f"auditor ledger {ledger}" for ledger in ledgers),
    ]
    copies = [shell(f"recover -l {ledger} {bookie}") for ledger in ledgers]
    return Steps(
        look,
        [f"put the file back: {quote_word(log.path)}", *copies],
        [dump_command(ledger) for ledger in ledgers],
    )


def unreadable_steps(finding: Finding) -> Steps:
    """Return commands that repeat the failed reads, and show whether the other copies can be read.

    None changes anything. What to do depends on the disk or file that fails, which the bookie's log
    names.
    """
    facts = finding.facts
    assert isinstance(facts, UnreadableFacts), finding
    bookie = quote_word(str(finding.bookie_id))
    ledger, entry = facts.some[0]
    ledgers = dict.fromkeys(ledger for ledger, _ in facts.some)
    look = [
        f"endpointinfo -b {bookie}",
        f"readledger -l {ledger} -fe {entry} -le {entry + 1} -b {bookie}",
    ]
    again = [f"auditor ledger {ledger}" for ledger in list(ledgers)[:LEDGERS_MAX]]
    return Steps([*(shell(command) for command in look), *again], [])


def population_steps(_finding: Finding) -> Steps:
    look = [shell("whatisinstanceid"), shell("listbookies -a -h"), shell("listledgers")]
    no_compaction = "minorCompactionInterval=-1 and majorCompactionInterval=-1"
    return Steps(
        look,
        [f"restart every bookie with gcWaitTime={GC_PAUSE_MS}, {no_compaction}, or stop it"],
        [SAVE_ZOOKEEPER],
    )


def overdue_steps(_finding: Finding) -> Steps:
    """Return commands that show which bookies there are. Nothing has to be changed in the
    cluster.
    """
    return Steps([shell("listbookies -a -h")], [])


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
