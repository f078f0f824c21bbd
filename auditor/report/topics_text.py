"""The report of `auditor topic`: who can read a topic to its end, and which ledgers prevent it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Final

from auditor.model.finding_record import FindingRecord
from auditor.model.summary import Summary
from auditor.model.topic import Role, TopicStatus
from auditor.pulsar.readability import (
    Answer,
    Condition,
    TopicLedger,
    TopicReport,
    TopicSubscription,
)
from auditor.report.findings_text import command_lines, next_section, one_line
from auditor.report.layout import PLAIN, Screen, count, duration, of, printable, ranges, size
from auditor.report.outcome_text import machine_line, sampled_words
from auditor.report.references_text import unread_words
from auditor.report.surroundings_text import note_lines
from auditor.report.text import assemble, cluster_name, fit
from auditor.witness.ledger_commands import LEDGERS_MAX, SAVE_ZOOKEEPER
from auditor.witness.next_commands import NO_LOADING, NOTE, SAVES
from auditor.witness.pulsar_commands import save_commands, znodes_of_use
from auditor.witness.references import NEWEST_EFFECT, damage_effect

LEDGERS_SHOWN_MAX = 20
"""At most this many ledgers of a topic are shown. The JSON form has all."""
SUBSCRIPTIONS_SHOWN_MAX = 20
PROBLEMS_SHOWN_MAX = 5
FINDINGS_SHOWN_MAX = 10
ZNODES_MAX = 4
"""At most this many znodes of a topic are named for saving. The copy of ZooKeeper's data has
all."""

_WITHHELD = (
    "Suspects are looked at again after {delay} (--second-look-delay). Findings on bookies"
    " are withheld: they need a whole run."
)
_HUES: Final = {
    Answer.READABLE: "green",
    Answer.BLOCKED: "red",
    Answer.POSSIBLY_BLOCKED: "red",
    Answer.UNKNOWN: "yellow",
}
_CONDITIONS: Final = {
    Condition.NOTHING_LOST: "nothing lost was found",
    Condition.OPEN: (
        "still written to or in recovery: not judged; enough of its bookies answer for a recovery"
    ),
    Condition.OFFLOADED: "a whole copy is in long-term storage, which is not audited",
    Condition.UNKNOWN: "unknown",
    Condition.UNRECOVERABLE: (
        "not closed, and its recovery cannot succeed with the bookies that answer: no client can"
        " open it now"
    ),
    Condition.ENTRIES_UNAVAILABLE: "entries cannot be read now: no bookie serves them",
    Condition.ENTRIES_LOST: "entries have no copy where the metadata says",
    Condition.CLOSED_SHORT: "its metadata ends before entries that were acknowledged",
    Condition.TRUNCATED: "its metadata ends before the entries that the topic recorded",
    Condition.NEWEST_MISSING: (
        "the newest ledger, and no metadata: BookKeeper does not know it; whether it held messages"
        " was not recorded"
    ),
    Condition.MISSING: "no metadata: BookKeeper does not know the ledger",
}
_BAD: Final = (
    Condition.MISSING,
    Condition.NEWEST_MISSING,
    Condition.TRUNCATED,
    Condition.CLOSED_SHORT,
    Condition.ENTRIES_LOST,
    Condition.ENTRIES_UNAVAILABLE,
    Condition.UNRECOVERABLE,
    Condition.UNKNOWN,
)


def render_topics(
    summary: Summary,
    topics: Sequence[TopicReport],
    findings: Sequence[FindingRecord],
    *,
    second_look_delay_s: float,
    screen: Screen = PLAIN,
) -> str:
    """Return the report. Pure. The machine line is last."""
    screen = fit(screen)
    return assemble(
        screen.wrap(f"cluster   {cluster_name(summary)}"),
        note_lines(summary, screen),
        screen.wrap(sampled_words(summary)) if sampled_words(summary) else [],
        [""],
        *(_topic(topic, screen) for topic in topics),
        _findings(findings, screen),
        next_section(findings, screen),
        _next(topics, screen),
        screen.wrap(_WITHHELD.format(delay=duration(second_look_delay_s))),
        [_machine_line(summary)],
    )


def _machine_line(summary: Summary) -> str:
    """Return the last line. Missing or truncated ledgers are in no other number of it."""
    line = machine_line(summary.outcome, summary.run_id, summary.ledgers)
    counts = summary.references
    if counts is None:
        return line
    lost = f"missing={counts.missing} newest_missing={counts.newest_missing}"
    return f"{line} {lost} truncated={counts.truncated}"


def _topic(topic: TopicReport, screen: Screen) -> Iterator[str]:
    head = screen.paint(printable(topic.topic, 300), "bold")
    status = topic.status
    if status is TopicStatus.MISSING:
        yield f"{head}: no such topic, or it has no ledgers"
    elif status is TopicStatus.UNREADABLE:
        yield f"{head}: its references could not be read"
    else:
        answer = topic.answer
        yield f"{head}: {screen.paint(_headline(topic), _HUES[answer])}"
        if topic.shadow_source:
            source = printable(topic.shadow_source, 300)
            yield from screen.wrap(f"shadow topic: its ledgers are those of {source}", "  ")
        yield from screen.wrap(_data_words(topic.ledgers), "  ")
        yield from _subscriptions(topic, screen)
        yield from _ledgers(topic.ledgers, screen)
        if topic.unread:
            yield from screen.wrap(unread_words(topic.unread), "  ", hang="  ")
    yield from _problems(topic.problems, screen)
    yield ""


def _headline(topic: TopicReport) -> str:
    """Return what a reader that starts with the first message finds."""
    answer = topic.answer
    if topic.blocker:
        return f"NOT READABLE: {printable(topic.blocker, 1_000)}"
    if answer is Answer.BLOCKED and _is_temporary(topic):
        at = _position(topic.first_loss)
        return f"NOT READABLE now: no client can read from {at} on until more bookies answer"
    if answer is Answer.BLOCKED:
        return f"NOT READABLE from end to end: the first loss is at {_position(topic.first_loss)}"
    if answer is Answer.POSSIBLY_BLOCKED:
        return (
            "NOT READABLE to its end if its newest ledger, which is missing, held messages:"
            f" {_position(topic.first_loss)}"
        )
    if answer is Answer.UNKNOWN:
        return "NOT KNOWN whether it is readable from end to end"
    conditions = {ledger.condition for ledger in topic.ledgers if ledger.role == Role.DATA}
    beyond = " in what was judged" if conditions & {Condition.OPEN, Condition.OFFLOADED} else ""
    return f"READABLE: no loss was found{beyond}"


def _is_temporary(topic: TopicReport) -> bool:
    """Return whether the first obstacle of a reader can be read again once its bookies are back."""
    ledger_id, _ = topic.first_loss or (None, None)
    now = {Condition.ENTRIES_UNAVAILABLE, Condition.UNRECOVERABLE}
    return any(
        ledger.ledger_id == ledger_id and ledger.condition in now for ledger in topic.ledgers
    )


def _data_words(ledgers: Sequence[TopicLedger]) -> str:
    data = [ledger for ledger in ledgers if ledger.role == Role.DATA]
    recorded = [ledger for ledger in data if ledger.entries is not None]
    entries, held = (
        sum(ledger.entries or 0 for ledger in recorded),
        sum(ledger.size_bytes or 0 for ledger in recorded),
    )
    parts = [
        f"{of(len(data), 'data ledger')}, {of(entries, 'entry', 'entries')} recorded ({size(held)})"
    ]
    for condition, word in (
        (Condition.OFFLOADED, "in long-term storage"),
        (Condition.OPEN, "not judged, because not closed"),
    ):
        if number := sum(ledger.condition == condition for ledger in data):
            parts.append(f"{count(number)} {word}")
    others = len(ledgers) - len(data)
    parts += [f"{of(others, 'ledger')} of cursors, schemas and compaction"] if others else []
    return "; ".join(parts) + "."


def _subscriptions(topic: TopicReport, screen: Screen) -> Iterator[str]:
    readings = topic.subscriptions
    missing = {
        ledger.ledger_id for ledger in topic.ledgers if ledger.condition == Condition.MISSING
    }
    if not readings:
        yield "  No subscription was found." if topic.problems else "  It has no subscription."
        return
    order = [Answer.BLOCKED, Answer.POSSIBLY_BLOCKED, Answer.UNKNOWN, Answer.READABLE]
    worst = sorted(readings, key=lambda reading: order.index(reading.answer))
    for reading in worst[:SUBSCRIPTIONS_SHOWN_MAX]:
        answer = reading.answer
        word = screen.paint(answer.value.replace("_", " ").upper(), _HUES[answer])
        yield f"  subscription {printable(reading.name)}: {word}"
        yield from screen.wrap(
            _reading_words(reading, answer, missing, topic.blocker)
            + _reset_words(topic, reading, answer),
            "    ",
        )
    if len(readings) > SUBSCRIPTIONS_SHOWN_MAX:
        rest = len(readings) - SUBSCRIPTIONS_SHOWN_MAX
        yield f"  and {of(rest, 'subscription')} more, none of them worse (--format json)"


def _reading_words(
    reading: TopicSubscription, answer: Answer, missing: Collection[int], blocker: str
) -> str:
    if blocker:
        return "no broker can load the topic."
    if reading.problem:
        return f"its position could not be read: {printable(reading.problem, 1_000)}"
    at = f"position {_position(reading.position)}" if reading.position else "no position recorded"
    since, own = "", reading.cursor_ledger_id
    if not reading.is_newest_position:
        kept = (
            f"was in ledger {own}, which is missing"
            if own in missing
            else f"is in ledger {own}, which was not read"
        )
        since = f", as ZooKeeper has it; a newer one {kept}"
    unless = (
        "the subscription is blocked unless its newer position is beyond that"
        if not reading.is_newest_position
        else "the newest ledger is missing, and whether it held messages was not recorded"
    )
    found = {
        Answer.READABLE: "no loss was found after it",
        Answer.UNKNOWN: "whether entries after it are lost is not known",
        Answer.BLOCKED: f"the first loss after it is at {_position(reading.first_loss)}",
        Answer.POSSIBLY_BLOCKED: (
            f"the first loss after it is at {_position(reading.first_loss)}; {unless}"
        ),
    }[answer]
    return f"{at}{since}: {found}."


def _reset_words(topic: TopicReport, reading: TopicSubscription, answer: Answer) -> str:
    """Return what may differ if the subscription was moved back after its position was written."""
    if (
        answer is not Answer.READABLE
        or reading.is_newest_position
        or topic.answer is Answer.READABLE
    ):
        return ""
    return (
        " If the subscription was reset to an earlier position since, it may need what is lost or"
        " unknown there."
    )


def _ledgers(ledgers: Sequence[TopicLedger], screen: Screen) -> Iterator[str]:
    order = {condition: number for number, condition in enumerate((*_BAD, Condition.OFFLOADED))}
    bad = [ledger for ledger in ledgers if ledger.condition in order]
    bad = [ledger for ledger in bad if ledger.condition != Condition.OFFLOADED or ledger.detail]
    bad.sort(key=lambda ledger: (order[ledger.condition], ledger.ledger_id))
    if not bad:
        return
    yield "  ledgers"
    for ledger in bad[:LEDGERS_SHOWN_MAX]:
        role, name = ledger.role, ledger.name
        use = role if name is None else f"{role} of {printable(name)}"
        yield from screen.wrap(
            f"{ledger.ledger_id} ({use}): {_ledger_words(ledger)}", "    ", hang="  "
        )
    if len(bad) > LEDGERS_SHOWN_MAX:
        yield f"    and {of(len(bad) - LEDGERS_SHOWN_MAX, 'ledger')} more (--format json)"


def _ledger_words(ledger: TopicLedger) -> str:
    said = _CONDITIONS[ledger.condition]
    if ledger.lost:
        said += f"; lost: {_lost_words(ledger)}"
    if ledger.detail:
        said += f" ({printable(ledger.detail, 300)})"
    if ledger.condition == Condition.TRUNCATED and ledger.role == Role.DATA:
        said += "; a broker that opens the ledger skips them without an error"
    if ledger.condition == Condition.NEWEST_MISSING:
        said += f". {NEWEST_EFFECT}"
    effect = damage_effect(ledger.role, ledger.name or "", ledger.condition)
    return f"{said}. {effect}" if effect else said


def _lost_words(ledger: TopicLedger) -> str:
    if ledger.lost[-1][1] is None:
        return "all entries, how many was not recorded"
    known = [(first, last) for first, last in ledger.lost if last is not None]
    is_one = (
        len(ledger.lost) == 1 and ledger.lost[0][0] == ledger.lost[0][1] and not ledger.lost_more
    )
    return (
        f"{'entry' if is_one else 'entries'}"
        f" {ranges(known)}{' and more' if ledger.lost_more else ''}"
    )


def _problems(problems: Sequence[str], screen: Screen) -> Iterator[str]:
    for problem in problems[:PROBLEMS_SHOWN_MAX]:
        yield from screen.wrap(f"not read: {printable(problem, 1_000)}", "  ", hang="  ")
    if len(problems) > PROBLEMS_SHOWN_MAX:
        yield f"  and {of(len(problems) - PROBLEMS_SHOWN_MAX, 'problem')} more (--format json)"


def _findings(findings: Sequence[FindingRecord], screen: Screen) -> Iterator[str]:
    if not findings:
        return
    yield screen.paint("Findings on its ledgers", "bold")
    for finding in findings[:FINDINGS_SHOWN_MAX]:
        yield from screen.wrap(f"{finding.kind.value}: {one_line(finding)}", "  ", hang="  ")
    if len(findings) > FINDINGS_SHOWN_MAX:
        yield f"  and {of(len(findings) - FINDINGS_SHOWN_MAX, 'finding')} more (--format json)"
    yield ""


def _next(topics: Sequence[TopicReport], screen: Screen) -> Iterator[str]:
    """Yield what to save of a topic whose ledgers are missing or truncated, and commands that
    look.
    """
    broken = {
        Condition.MISSING,
        Condition.NEWEST_MISSING,
        Condition.TRUNCATED,
    }
    hit = [topic for topic in topics if any(ledger.condition in broken for ledger in topic.ledgers)]
    if not hit:
        return
    yield screen.paint("Next, for ledgers that are missing or truncated: save, then look", "bold")
    for topic in hit[:PROBLEMS_SHOWN_MAX]:
        bad = [ledger for ledger in topic.ledgers if ledger.condition in broken]
        ids = dict.fromkeys(ledger.ledger_id for ledger in bad)
        lines = [
            NOTE + NO_LOADING,
            SAVES + SAVE_ZOOKEEPER,
            *(SAVES + command for command in save_commands(_znodes(topic, bad))),
            *(
                f"bookkeeper shell ledgermetadata -l {ledger_id}"
                for ledger_id in list(ids)[:LEDGERS_MAX]
            ),
        ]
        yield f"  for {printable(topic.topic, 300)}"
        yield from command_lines("the topic", lines, screen)
    yield ""


def _znodes(topic: TopicReport, ledgers: Sequence[TopicLedger]) -> list[str]:
    """Return the znodes that a broker may rewrite if it cannot read these ledgers.

    The ledgers of a shadow topic are listed in the znode of its source.
    """
    source = topic.shadow_source
    paths = [
        path
        for ledger in ledgers
        for path in znodes_of_use(
            source if source and ledger.role == Role.DATA else topic.topic,
            ledger.role,
            ledger.name or "",
        )
    ]
    return list(dict.fromkeys(paths))[:ZNODES_MAX]


def _position(position: Sequence[int] | None) -> str:
    return "the first message" if position is None else f"{position[0]}:{position[1]}"
