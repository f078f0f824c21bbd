"""Witnesses of the bookie family."""

from __future__ import annotations

from math import floor

from auditor.model.cluster import Registration
from auditor.model.facts import (
    EntryLogLostFacts,
    FailingFacts,
    ForeignCookieFacts,
    LostContentFacts,
    LostFacts,
    LostLog,
    OverdueFacts,
    ShrunkFacts,
    SilentFacts,
    UnreadableFacts,
)
from auditor.model.finding import Finding, Kind
from auditor.witness.phrases import TellOther, clock, name_some, percent, span


def _silent_bookie_sentences(finding: Finding, facts: SilentFacts) -> str:
    why = f" ({facts.detail})" if facts.detail else ""
    return (
        f"Bookie {finding.bookie_id} is registered as {facts.registration} at {facts.address} and"
        f" did not answer at any of {facts.looks} looks{why}.{_recovery(facts)}"
    )


def _lost_bookie_sentences(finding: Finding, facts: LostFacts) -> str:
    cookie = "still has a cookie" if facts.has_cookie else "has no cookie"
    number = facts.unmarked_ledgers
    ledgers = (
        "1 closed ledger names it and is"
        if number == 1
        else f"{number} closed ledgers name it and are"
    )
    marked = facts.marked_ledgers_last
    others = (
        f" {marked} more that {'names' if marked == 1 else 'name'} it"
        f" {'is' if marked == 1 else 'are'} marked, and {'was' if marked == 1 else 'were'} at the"
        " first look."
        if marked
        else ""
    )
    before = (
        f" Earlier runs saw it unregistered too, first {span(facts.unregistered_ms)} before the"
        " last look."
        if facts.unregistered_ms > facts.apart_ms
        else ""
    )
    return (
        f"Bookie {finding.bookie_id} is not registered and {cookie}. {ledgers} not marked"
        f" under-replicated ({name_some(facts.some_ledgers, number)}). This was seen at each look;"
        f" the first and the last were {span(facts.apart_ms)}"
        f" apart.{before}{others}{_rename_sentence(facts)}{_recovery(facts)}"
    )


def _rename_sentence(facts: LostFacts) -> str:
    if not facts.renamed_to:
        return ""
    return (
        f" It was probably renamed to {facts.renamed_to}, which holds what it should hold of the"
        " ledgers that were compared, though none of their segments names it."
    )


def _recovery(facts: SilentFacts | LostFacts) -> str:
    """Say how long the cluster's auditor waits for a lost bookie, and if auto-recovery is off."""
    delay = facts.lost_bookie_recovery_delay_s
    waits = f" lostBookieRecoveryDelay is {span(delay * 1000)}." if delay else ""
    disabled = (
        " Auto-recovery is disabled (underreplication/disable exists): it repairs nothing until it"
        " is enabled."
    )
    return waits + (disabled if facts.replication_disabled else "")


def _lost_content_sentences(finding: Finding, facts: LostContentFacts) -> str:
    how = " (by reading entries, because it cannot list them)" if facts.was_probed else ""
    return (
        f"Bookie {finding.bookie_id} is registered as {facts.registration} at {facts.address} and"
        f" answered for {facts.asked} ledgers{how}. Of {facts.lacking_most} of them"
        f" ({name_some(facts.some_ledgers, facts.lacking_most)}) it lacked, at two looks, more than"
        f" half of the entries it should hold: together {facts.absent} of"
        f" {facts.expected}.{_cookie_sentences(facts)}"
    )


def _cookie_sentences(facts: LostContentFacts) -> str:
    """Say that the cookie is younger than the ledgers, if it is."""
    if facts.cookie_created_ms is None or not facts.older_ledgers:
        return ""
    older = facts.older_ledgers
    earlier = ""
    if facts.earlier_cookie_created_ms is not None:
        earlier = (
            " An earlier run saw another cookie of this bookie, created at"
            f" {clock(facts.earlier_cookie_created_ms)} UTC."
        )
    return (
        f" Its cookie was created at {clock(facts.cookie_created_ms)} UTC. The metadata of {older}"
        f" of these ledgers was last written before that, and names the bookie: its disks were"
        f" probably formatted or replaced under its id.{earlier}"
    )


def _foreign_cookie_sentences(finding: Finding, facts: ForeignCookieFacts) -> str:
    registered = (
        "is not registered"
        if facts.registration == Registration.NONE.value
        else f"is registered as {facts.registration}"
    )
    created = (
        ""
        if facts.cookie_created_ms is None
        else f" The cookie was created at {clock(facts.cookie_created_ms)} UTC."
    )
    looks = "1 look" if facts.looks == 1 else f"each of {facts.looks} looks"
    return (
        f"Bookie {finding.bookie_id} {registered}. At {looks} its cookie in ZooKeeper named the"
        f" instance id {facts.cookie_instance_id}; the cluster's is {facts.instance_id}"
        f" (INSTANCEID).{created} A bookie compares both when it starts, and does not start if they"
        " differ (InvalidCookieException)."
    )


def _shrunk_sentences(finding: Finding, facts: ShrunkFacts) -> str:
    parts = []
    if facts.size is not None:
        size = facts.size
        parts.append(
            f"It says that the disks of its ledger directories have {size.total_bytes} bytes in all"
            f" (GET_BOOKIE_INFO). An earlier run saw {size.earlier_total_bytes}."
        )
    if facts.directories is not None:
        lost = facts.directories
        parts.append(
            f"Its cookie names {_of(lost.directories, 'ledger directory', 'ledger directories')}."
            f" An earlier run saw {lost.earlier_directories}. No longer named:"
            f" {name_some(lost.gone)}."
        )
    return (
        f"Bookie {finding.bookie_id} is registered as {facts.registration} at {facts.address}."
        f" {' '.join(parts)} The earlier run read it {span(facts.apart_ms)} before the last look."
    )


def _failing_bookie_sentences(finding: Finding, facts: FailingFacts) -> str:
    parts = []
    if facts.lists_refused:
        parts.append(f"{facts.lists_refused} lists")
    if facts.reads_refused:
        parts.append(f"{facts.reads_refused} reads")
    how = "" if facts.lists_refused else " (by reading entries, because it cannot list them)"
    statuses = ", ".join(f"{name}: {count}" for name, count in facts.statuses)
    return (
        f"Bookie {finding.bookie_id} is registered as {facts.registration} at {facts.address} and"
        f" accepts connections. It was asked about ledgers that it should hold{how}: each of"
        f" {' and '.join(parts)} ended in an error status ({statuses}). {facts.ledgers} ledgers"
        f" were refused at two looks or more ({name_some(facts.some_ledgers, facts.ledgers)})."
    )


LOGS_SPELLED_MAX = 3
"""A witness names at most this many entry logs. The facts name more."""


def _entry_log_lost_sentences(finding: Finding, facts: EntryLogLostFacts) -> str:
    logs = "1 entry log" if facts.logs == 1 else f"{facts.logs} entry logs"
    spelled = " ".join(_log_sentence(log) for log in facts.some_logs[:LOGS_SPELLED_MAX])
    left = facts.logs - len(facts.some_logs[:LOGS_SPELLED_MAX])
    more = f" {left} more {'is' if left == 1 else 'are'} missing too." if left else ""
    return (
        f"Bookie {finding.bookie_id} is registered as {facts.registration} at {facts.address}. Its"
        f" index names {logs} that its lister at {facts.lister} did not find on its disk, in two"
        f" fresh views at each of two looks or more. {spelled}{more} At least"
        f" {_of(facts.entries, 'entry', 'entries')} of {_of(facts.ledgers, 'ledger', 'ledgers')}"
        " lie in what is missing."
    )


def _unreadable_sentences(finding: Finding, facts: UnreadableFacts) -> str:
    ends = ", ".join(f"{_END_WORDS.get(name, name)} {times}x" for name, times in facts.statuses)
    some = ", ".join(f"{entry} of ledger {ledger}" for ledger, entry in facts.some[:SPELLED_MAX])
    more = f" and {facts.failed - SPELLED_MAX} more" if facts.failed > SPELLED_MAX else ""
    these_are = "This is entry" if facts.failed == 1 else "These are entries"
    share = (
        f" Of the {_of(facts.sample_read, 'entry', 'entries')} that were drawn from all that it"
        f" should hold, {facts.sample_failed} failed: at least"
        f" {floor(facts.share_min * 10_000) / 100:g} % of all cannot be read (95 % confidence,"
        " Clopper-Pearson)."
        if facts.share_min is not None
        else ""
    )
    return (
        f"Bookie {finding.bookie_id} is registered as {facts.registration} at {facts.address}. It"
        f" could not send {facts.failed} of {_of(facts.read, 'entry', 'entries')} that were read"
        f" there and that it lists, or should hold and cannot list ({ends}). {these_are}"
        f" {some}{more}, in {_of(facts.ledgers, 'ledger', 'ledgers')}. At least one failed at two"
        f" looks.{share}"
    )


SPELLED_MAX = 3
"""A sentence names at most this many entries. The facts have more."""
_END_WORDS = {"digest": "wrong digest"}


def _log_sentence(log: LostLog) -> str:
    ledger, first, last = log.some[0]
    entries = f"entry {first}" if first == last else f"entries {first} to {last}"
    others = (
        f", and entries of {_of(log.ledgers - 1, 'ledger', 'ledgers')} more"
        if log.ledgers > 1
        else ""
    )
    reads = (
        "1 read of them ended"
        if log.reads_failed == 1
        else f"{log.reads_failed} reads of them ended"
    )
    return (
        f"{log.path}: at least {_of(log.entries, 'entry', 'entries')} are indexed there, such as"
        f" {entries} of ledger {ledger}{others}; {reads} in EIO and none brought one."
    )


def _of(number: int, single: str, many: str) -> str:
    return f"{number} {single if number == 1 else many}"


def _overdue_sentences(_finding: Finding, facts: OverdueFacts) -> str:
    one = facts.bookies == 1
    oldest = (
        "No read of any copy is known."
        if facts.oldest_read_ms is None
        else f"The oldest read of a copy was made at {clock(facts.oldest_read_ms)} UTC."
    )
    sentences = [
        f"Each of {facts.copies_due} copies should be read once in {span(facts.period_ms)}"
        f" (--verify-within). {facts.overdue} of them ({percent(facts.overdue / facts.copies_due)})"
        f" were not, on {_of(facts.bookies, 'bookie', 'bookies')}:"
        f" {name_some(facts.some_bookies, facts.bookies)}.",
        oldest,
    ]
    if facts.rate_needed is not None:
        sentences.append(
            f"--verify-bytes-per-second is {_rate(facts.bytes_per_second)}. With"
            f" {_rate(facts.rate_needed)} runs as far apart as these would read"
            f" {'it' if one else 'those that list'} within the period, and would take longer."
        )
    if facts.not_read:
        sentences.append(
            f"Runs do not read {name_some(facts.some_not_read, facts.not_read)} for this: they read"
            " bookies that list by themselves. A lister with --scrub reads the others."
        )
    if facts.scrubbed:
        sentences.append(
            f"No scrub of {name_some(facts.some_scrubbed, facts.scrubbed)} that checked every"
            " record began within the period."
        )
    if facts.unanswered:
        sentences.append(
            f"{name_some(facts.some_unanswered, facts.unanswered)} did not answer this run, or"
            " answered too few of its reads. What was read there before still counts."
        )
    if facts.reads_unanswered:
        sentences.append(
            f"{_of(facts.reads_unanswered, 'read', 'reads')} on the bookies that runs read had no"
            " answer when last made: a higher rate does not help there."
        )
    return " ".join(sentences)


def _rate(bytes_per_second: int) -> str:
    """Return a rate as the setting takes it, rounded up to whole KiB or MiB."""
    unit, word = (2**20, "MiB") if bytes_per_second > 2**20 else (2**10, "KiB")
    return f"{-(-bytes_per_second // unit)}{word}"


TELL_CLUSTER: dict[Kind, TellOther] = {Kind.VERIFICATION_OVERDUE: _overdue_sentences}
TELL: dict[Kind, TellOther] = {
    Kind.BOOKIE_SILENT_YET_REGISTERED: _silent_bookie_sentences,
    Kind.BOOKIE_LOST_UNNOTICED: _lost_bookie_sentences,
    Kind.BOOKIE_LOST_CONTENT: _lost_content_sentences,
    Kind.BOOKIE_FAILING_REQUESTS: _failing_bookie_sentences,
    Kind.ENTRY_LOG_LOST: _entry_log_lost_sentences,
    Kind.BOOKIE_UNREADABLE_ENTRIES: _unreadable_sentences,
    Kind.BOOKIE_DISK_SHRANK: _shrunk_sentences,
    Kind.COOKIE_OF_ANOTHER_INSTANCE: _foreign_cookie_sentences,
}
