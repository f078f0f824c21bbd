"""What to run next for each kind: what to save first, commands that look, commands that change.

The syntax is that of BookKeeper 4.17.2's own shell (`bookkeeper shell help`), of ZooKeeper's
`zkCli.sh` and of `pulsar-admin`. docs/findings/ says what each command shows. Bookie ids and topic
names are quoted, because anybody may have written the metadata that they come from. The commands
that save and look change nothing, neither in ZooKeeper nor on a bookie. A request that makes a
broker load a topic counts as a change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from auditor.model.facts import (
    BeyondEndFacts,
    CorruptFacts,
    EntryFacts,
    MarkFacts,
    MarkWithoutLedgerFacts,
    UnavailableFacts,
    UnrecoverableFacts,
    WhyMarked,
)
from auditor.model.finding import CATALOGUE, Finding, Kind, Severity, Subject
from auditor.model.finding_record import Owner
from auditor.model.identity import BookieId, EntryId
from auditor.model.ledger import LedgerState
from auditor.wire.service_uri import DEFAULT_ROOT
from auditor.witness import ledger_commands, pulsar_commands
from auditor.witness.ledger_commands import (
    LEDGERS_MAX,
    RECOVERY_DELAY,
    RECOVERY_STATE,
    SAVE_ZOOKEEPER,
    Commands,
    Steps,
    can_be_pasted,
    dump_command,
    mark_commands,
    metadata_command,
    quote_word,
    read_commands,
    recover_command,
    shell,
    zookeeper_get,
)
from auditor.witness.pulsar_commands import (
    PulsarLedger,
    look_commands,
    pulsar_ledger,
    save_commands,
    unload_commands,
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
    holders = {held.bookie_id: held.ranges[0][0] for held in facts.held_on}
    return Steps([metadata_command(finding)], [], _save_on(finding, holders, _BOOKIES_MAX))


SAVES = "SAVE FIRST: "
"""Prefix of every command whose output has to be kept before anything is changed."""
CHANGES = "CHANGES THE CLUSTER: "
"""Prefix of every command that changes something, even if only as a side effect."""
NOTE = "# "
"""Prefix of every line that is a sentence. A shell takes it for a comment."""

NO_LOADING = (
    "Until this is saved, let no broker load the topic: it rewrites cursors, deletes schemas"
    " and drops ledgers that it cannot read. A client, a restart of a broker and every request of"
    " pulsar-admin on the topic may load it."
)


class NextSteps(NamedTuple):
    """The lines of a finding's `next`, without their prefixes: sentences, and three groups of
    commands.
    """

    notes: list[str]
    save: list[str]
    look: list[str]
    change: list[str]


def sort_steps(lines: Iterable[str]) -> NextSteps:
    """Return the lines of a finding's field `next`, by group."""
    steps = NextSteps([], [], [], [])
    for line in lines:
        if line.startswith(SAVES):
            steps.save.append(line.removeprefix(SAVES))
        elif line.startswith(CHANGES):
            steps.change.append(line.removeprefix(CHANGES))
        elif line.startswith(NOTE):
            steps.notes.append(line.removeprefix(NOTE))
        else:
            steps.look.append(line)
    return steps


def next_commands(
    finding: Finding,
    *,
    replication_disabled: bool,
    owner: Owner | None = None,
    root: str = DEFAULT_ROOT,
    is_misplaced: bool = False,
) -> Commands:
    """Return what a person does next: first what to save, then what looks, then what changes.

    There are at most twenty lines, however many entries are hit. Auto-recovery is enabled only if
    `replication_disabled`, and then before any other change. `owner` is the ledger's
    owner; if Pulsar owns the ledger, `with_topic` adds the topic. `root` is the parent of
    all ledgers. A command with a name that must not be pasted is left out (`command_words`), and a
    line says so; if no command that looks is left, no change is suggested. `is_misplaced`: copies
    lie where a neighbouring segment would have them: corrected metadata brings them back.
    """
    look, change, save, notes = _NEXT[finding.kind](finding)
    if is_misplaced:
        notes = [*notes, RESTORE_NOTE]
        change = [restore_command(finding), *change]
    look = [*look[:1], *mark_commands(finding, root), *look[1:]]
    if replication_disabled and finding.kind in _HEALED_BY_AUTORECOVERY:
        look = look if RECOVERY_STATE in look else [*look, RECOVERY_STATE]
        change = [shell("autorecovery -e"), *change]
    look = [_in_root(command, root) for command in look]
    if finding.ledger_id is not None and change and finding.kind not in _WITHOUT_METADATA:
        save = [*save, dump_command(finding.ledger_id)]
    if finding.kind in _OF_REFERENCES:
        notes = [NO_LOADING, *notes]
    lines = _lines(NextSteps(list(notes), list(save), look, change))
    return with_topic(lines, finding.kind, pulsar_ledger(owner))


def _in_root(command: str, root: str) -> str:
    """Return the command for a cluster whose ledgers have this parent."""
    if command not in (RECOVERY_STATE, RECOVERY_DELAY):
        return command
    before, path = command.rsplit(" ", 1)
    return f"{before} {quote_word(root + path.removeprefix(DEFAULT_ROOT))}"


def with_topic(lines: Sequence[str], kind: Kind, topic: PulsarLedger | None) -> Commands:
    """Return the lines of `next` with what Pulsar's topic adds to them; unchanged without a topic.

    A broker closes a ledger that a topic owns. Recovery would fence its writer.
    """
    if topic is None:
        return list(lines)
    notes, save, look, change = sort_steps(lines)
    if kind in _HARMED_BY_LOADING:
        notes = _unique([NO_LOADING, *notes])
        save = [*save, *save_commands(topic.znodes)]
    if kind is Kind.LEDGER_STUCK:
        change = unload_commands(topic)
    look = [*look, *look_commands(topic.topic)]
    return _lines(NextSteps(notes, _unique(save), _unique(look), change))


def _unique(commands: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(commands))


def _lines(steps: NextSteps) -> Commands:
    """Return the lines of `next`, without the commands that must not be pasted."""
    save, look, change = (list(filter(can_be_pasted, group)) for group in steps[1:])
    seen_left_out = len(steps.save) + len(steps.look) - len(save) - len(look)
    if seen_left_out:
        change = []
    left_out = seen_left_out + len(steps.change) - len(change)
    are = "is" if left_out == 1 else "are"
    without = [f"{NOTE}{left_out} of the commands {are} {_LEFT_OUT}"] if left_out else []
    return [
        *(NOTE + note for note in steps.notes),
        *without,
        *(SAVES + command for command in save),
        *look,
        *(CHANGES + command for command in change),
    ]


_LEFT_OUT = (
    "left out: a name in them would be misread by a shell or a terminal. The facts of the finding"
    " have the name, its page in docs/findings the commands."
)

_MISSING = frozenset({Kind.REFERENCED_LEDGER_MISSING, Kind.NEWEST_LEDGER_MISSING})
_OF_REFERENCES = _MISSING | {
    Kind.LEDGER_TRUNCATED,
    Kind.LEDGER_DROPPED_FROM_TOPIC,
    Kind.POSITION_BEYOND_END,
}

_WITHOUT_METADATA = _MISSING | {Kind.METADATA_MALFORMED, Kind.LEDGER_DROPPED_FROM_TOPIC}
"""Kinds on ledgers whose metadata BookKeeper's shell cannot save."""

_HARMED_BY_LOADING = frozenset(
    {
        *(
            kind
            for kind, facts in CATALOGUE.items()
            if facts.subject is Subject.LEDGER and facts.severity is Severity.CRITICAL
        ),
        Kind.METADATA_MALFORMED,
        Kind.RECOVERY_BLOCKED,
        Kind.LEDGER_STUCK,
        Kind.POSITION_BEYOND_END,
    }
)
"""Kinds on ledgers that a broker may fail to read: it then repairs the topic by dropping them."""

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


def _duplicate_steps(finding: Finding) -> Steps:
    """Suggest no `recover`: in 4.17.2 it puts the same new bookie into both positions."""
    return Steps([metadata_command(finding), shell("listbookies -rw -h")], [])


def _placement_steps(finding: Finding) -> Steps:
    return Steps(["auditor topology", metadata_command(finding), shell("listbookies -a -h")], [])


_LACKS_NOTHING = frozenset({WhyMarked.STALE, WhyMarked.EMPTY_LEDGER})


def _mark_steps(finding: Finding) -> Steps:
    """Suggest `recover` only for a closed ledger that may lack something.

    `recover` would fence the writer of a ledger that is not closed.
    """
    facts = finding.facts
    assert isinstance(facts, MarkFacts), finding
    may_lack = facts.state is LedgerState.CLOSED and _LACKS_NOTHING.isdisjoint(facts.why)
    named = facts.missing_replicas[:1] if may_lack else ()
    look = [
        metadata_command(finding),
        RECOVERY_STATE,
        *(recover_command(finding, bookie, plan=True) for bookie in named),
    ]
    return Steps(look, [recover_command(finding, bookie) for bookie in named])


def _mark_without_ledger_steps(finding: Finding) -> Steps:
    """Suggest ZooKeeper's shell for removing the mark: BookKeeper's cannot.

    The mark is saved first: if the metadata was lost, it is the record of a ledger that existed.
    """
    facts = finding.facts
    assert isinstance(facts, MarkWithoutLedgerFacts), finding
    again = [shell(f"ledgermetadata -l {ledger}") for ledger in facts.some_ledgers[:LEDGERS_MAX]]
    look = [*again, RECOVERY_STATE]
    remove = f"zkCli.sh -server ZOOKEEPER delete {quote_word(facts.oldest_path)}"
    return Steps(look, [remove], [zookeeper_get(facts.oldest_path)])


def _malformed_steps(finding: Finding) -> Steps:
    return Steps([metadata_command(finding), shell("listbookies -a -h")], [], [SAVE_ZOOKEEPER])


def _changed_steps(finding: Finding) -> Steps:
    """Suggest no change: only a person can say which of the two metadata is right."""
    return Steps(
        [metadata_command(finding), shell("whatisinstanceid")],
        [],
        [SAVE_ZOOKEEPER, dump_command(finding.ledger_id)] if finding.ledger_id is not None else [],
    )


def _stuck_steps(finding: Finding) -> Steps:
    fence = [shell(f"readledger -l {finding.ledger_id} -fe 0 -le 0 -r")]
    return Steps([metadata_command(finding), shell("listbookies -a -h")], fence)


def _recovery_steps(finding: Finding) -> Steps:
    return Steps([metadata_command(finding), shell("listbookies -a -h")], [])


_NEXT: dict[Kind, Callable[[Finding], Steps]] = {
    Kind.ENTRY_WITHOUT_REPLICA: without_replica_steps,
    Kind.ENTRY_ONLY_OUTSIDE_ENSEMBLE: outside_ensemble_steps,
    Kind.LEDGER_CLOSED_SHORT: beyond_end_steps,
    Kind.ENTRY_UNAVAILABLE: unavailable_steps,
    Kind.ENTRY_BELOW_ACK_QUORUM: below_quorum_steps,
    Kind.ENTRY_CORRUPT: corrupt_steps,
    Kind.ENTRY_BELOW_WRITE_QUORUM: below_quorum_steps,
    Kind.ENSEMBLE_DUPLICATE_BOOKIE: _duplicate_steps,
    Kind.PLACEMENT_FAILED: _placement_steps,
    Kind.PLACEMENT_SOFT: _placement_steps,
    Kind.UNDERREPLICATED_UNRECOVERABLE: unrecoverable_steps,
    Kind.UNDERREPLICATED_BEYOND_GRACE: _mark_steps,
    Kind.MARK_WITHOUT_LEDGER: _mark_without_ledger_steps,
    Kind.BOOKIE_SILENT_YET_REGISTERED: ledger_commands.silent_bookie_steps,
    Kind.BOOKIE_LOST_UNNOTICED: ledger_commands.lost_bookie_steps,
    Kind.BOOKIE_LOST_CONTENT: ledger_commands.lost_content_steps,
    Kind.BOOKIE_FAILING_REQUESTS: ledger_commands.failing_bookie_steps,
    Kind.ENTRY_LOG_LOST: ledger_commands.entry_log_lost_steps,
    Kind.BOOKIE_UNREADABLE_ENTRIES: ledger_commands.unreadable_steps,
    Kind.BOOKIE_DISK_SHRANK: ledger_commands.shrunk_steps,
    Kind.COOKIE_OF_ANOTHER_INSTANCE: ledger_commands.foreign_cookie_steps,
    Kind.METADATA_MALFORMED: _malformed_steps,
    Kind.RECOVERY_BLOCKED: _recovery_steps,
    Kind.LEDGER_STUCK: _stuck_steps,
    Kind.ENTRIES_BEYOND_END: beyond_end_steps,
    Kind.CLOSED_METADATA_CHANGED: _changed_steps,
    Kind.LEDGER_POPULATION_DROPPED: ledger_commands.population_steps,
    Kind.VERIFICATION_OVERDUE: ledger_commands.overdue_steps,
    Kind.REFERENCED_LEDGER_MISSING: pulsar_commands.missing_ledger_steps,
    Kind.NEWEST_LEDGER_MISSING: pulsar_commands.missing_ledger_steps,
    Kind.LEDGER_TRUNCATED: pulsar_commands.truncated_ledger_steps,
    Kind.LEDGER_DROPPED_FROM_TOPIC: pulsar_commands.dropped_ledger_steps,
    Kind.POSITION_BEYOND_END: pulsar_commands.position_steps,
    Kind.LEDGER_ORPHANED: pulsar_commands.orphan_steps,
}
assert _NEXT.keys() == CATALOGUE.keys(), "each kind of the catalogue has its commands"
