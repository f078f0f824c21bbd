"""The report of `auditor ledger ID`: one or a few ledgers in full."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from auditor.model.finding_record import FindingRecord
from auditor.model.judged_ledger import NO_SUCH_LEDGER, JudgedLedger, ShownMetadata
from auditor.model.ledger import LedgerState
from auditor.model.summary import Summary
from auditor.model.verdict import CopyCounts, Standing
from auditor.report.findings_text import looks_table, matrix, next_section, one_line, owner_text
from auditor.report.layout import PLAIN, Screen, count, duration, name_some, of, printable
from auditor.report.outcome_text import (
    EXEMPT_WORDS,
    SEVERITY_HUES,
    STANDING_HUES,
    UNKNOWN_WORDS,
    machine_line,
    sampled_words,
)
from auditor.report.surroundings_text import note_lines, unindexed_sentence
from auditor.report.text import assemble, cluster_name, fit
from auditor.report.unjudged_text import bookies_behind, unheard_at, what_to_do
from auditor.witness.finding_lines import PROBED

SEGMENTS_SHOWN_MAX = 20
"""At most this many segments of a ledger are shown; if there are more, the first and last ten."""
WITNESS_LINES_MAX = 20

_WITHHELD = (
    "Suspects are looked at again after {delay} (--second-look-delay). Findings on bookies"
    " are withheld: they need a whole run."
)
_HUES = {standing.word: hue for standing, hue in STANDING_HUES.items()}


def render_ledgers(
    summary: Summary,
    ledgers: Sequence[JudgedLedger],
    findings: Sequence[FindingRecord],
    *,
    second_look_delay_s: float,
    screen: Screen = PLAIN,
) -> str:
    """Return the report: each ledger's standing, metadata, findings, witnesses and answers. Pure.

    The machine line is last.
    """
    screen, away = fit(screen), summary.maintenance.bookie_ids
    return assemble(
        screen.wrap(f"cluster   {cluster_name(summary)}"),
        note_lines(summary, screen),
        _newest_run(summary, screen),
        screen.wrap(sampled_words(summary)) if sampled_words(summary) else [],
        [""],
        *(_ledger(ledger, findings, screen, away) for ledger in ledgers),
        next_section(findings, screen),
        screen.wrap(_WITHHELD.format(delay=duration(second_look_delay_s))),
        [machine_line(summary.outcome, summary.run_id, summary.ledgers)],
    )


def _newest_run(summary: Summary, screen: Screen) -> Iterator[str]:
    """Yield which facts of the newest run in OUTPUT were used."""
    used = summary.newest_run
    if used is None:
        return
    unable, listing = used.bookies_unable, used.bookies_listing_now
    head = f"Run {printable(used.run_id)} ({printable(used.finished_at)}) found"
    if unable:
        said = (
            f"{head} {name_some(unable)} unable to list: entries were read there at once, while"
            " lists were asked for too."
        )
        yield from screen.wrap(said)
    if listing:
        yield from screen.wrap(f"{head} {name_some(listing)} unable to list, which can list now.")


def _ledger(
    ledger: JudgedLedger,
    findings: Sequence[FindingRecord],
    screen: Screen,
    away: frozenset[str],
) -> Iterator[str]:
    standing = ledger.standing
    head = screen.paint(f"Ledger {ledger.ledger_id}", "bold")
    if standing == NO_SUCH_LEDGER:
        yield f"{head}: no such ledger"
        yield ""
        return
    yield f"{head}: {screen.paint(standing.upper(), _HUES[standing])}"
    yield from _reasons(ledger, screen, away)
    yield from _metadata(ledger, screen)
    own = [finding for finding in findings if finding.ledger_id == ledger.ledger_id]
    for finding in own:
        said = f"{finding.severity.name} {finding.kind.value}"
        yield f"  {screen.paint(said, SEVERITY_HUES[finding.severity])}"
        yield from screen.wrap(one_line(finding), "    ")
        yield from screen.wrap(printable(finding.witness, 4_000), "    ", WITNESS_LINES_MAX)
        yield from matrix(finding, "    ")
    if not own:
        yield from looks_table(ledger.looks, "    ")
    yield ""


def _reasons(ledger: JudgedLedger, screen: Screen, away: frozenset[str]) -> Iterator[str]:
    if ledger.exempt:
        reason = ledger.exempt
        is_exempt = ledger.standing == Standing.EXEMPT.word
        head = f"exempt ({reason.value}): " if is_exempt else ""
        yield from screen.wrap(f"{head}{EXEMPT_WORDS[reason]}", "  ")
    unheard = unheard_at(ledger.looks, ledger.gone)
    extent = " in full" if ledger.standing == Standing.VIOLATED.word else ""
    for unknown in ledger.unknowns:
        bookies = bookies_behind(unknown, unheard)
        means = UNKNOWN_WORDS[unknown].means + (f" ({bookies})" if bookies else "")
        to_do = what_to_do(unknown, unheard, away)
        said = f"could not be judged{extent} ({unknown.value}): {means}; to do: {to_do}"
        yield from screen.wrap(said, "  ")
    if ledger.only_maintenance:
        yield from screen.wrap("only bookies in planned maintenance prevented judging it", "  ")
    if ledger.assurance == PROBED:
        probes, drawn = ledger.probes, ledger.random_probes
        read = (
            f"so {of(probes, 'entry was', 'entries were')} read there instead, {drawn} of them"
            " drawn at random"
            if probes
            else "and no entry could be read there instead"
        )
        yield from screen.wrap(f"assurance: probed. A bookie of it gave no list, {read}", "  ")
    if listed_by := ledger.listed_by:
        where = ", ".join(
            f"{printable(bookie, 60)} ({printable(at, 60)})" for bookie, at in listed_by.items()
        )
        yield from screen.wrap(f"listed by the listers of {where}", "  ")
    for bookie, why in ledger.odd_lists.items():
        said = f"the list of {printable(bookie, 60)} {printable(why, 300)}"
        yield from screen.wrap(said, "  ")
    for bookie, entry in ledger.unindexed.items():
        yield from screen.wrap(unindexed_sentence(bookie, f"entry {entry}"), "  ")
    yield from screen.wrap(_copies(ledger.copies), "  ")
    if ledger.detail:
        yield from screen.wrap(printable(ledger.detail, 1_000), "  ")
    if back := ledger.listing_false_negatives:
        entries = of(back, "entry", "entries")
        yield from screen.wrap(
            f"{entries} that a list left out could be read: copies all the same", "  "
        )


def _end(metadata: ShownMetadata) -> str:
    """Return where the ledger ends.

    BookKeeper writes lastEntryId -1 until a ledger is closed, so before that it means nothing.
    """
    if metadata.state != LedgerState.CLOSED:
        return "last entry not known yet"
    last = metadata.last_entry_id
    return (
        "last entry unknown"
        if last is None
        else "lastEntryId -1"
        if last < 0
        else f"last entry {last}"
    )


def _copies(copies: CopyCounts | None) -> str:
    """Return how many copies were verified; "" if none is expected."""
    if copies is None or not copies.expected:
        return ""
    verified = copies.listed + copies.read
    assumed = f", {count(copies.assumed)} assumed from a sample" if copies.assumed else ""
    return (
        f"copies    {count(verified)} of {count(copies.expected)} verified "
        f"({count(copies.listed)} listed, {count(copies.read)} read){assumed}"
    )


def _metadata(ledger: JudgedLedger, screen: Screen) -> Iterator[str]:
    if owner := ledger.owner:
        yield from screen.wrap(f"owner     {owner_text(owner)}", "  ")
    metadata = ledger.metadata
    if not metadata:
        return
    yield (
        f"  metadata  {printable(metadata.state)}, {_end(metadata)}, ensemble"
        f" {metadata.ensemble_size}, write quorum {metadata.write_quorum}, ack quorum"
        f" {metadata.ack_quorum}, format {metadata.format_version}"
    )
    segments = list(metadata.segments)
    half = SEGMENTS_SHOWN_MAX // 2
    for place, segment in enumerate(segments):
        if len(segments) > SEGMENTS_SHOWN_MAX and half <= place < len(segments) - half:
            if place == half:
                yield f"            ... {of(len(segments) - 2 * half, 'segment')} not shown"
            continue
        bookies = " ".join(printable(bookie, 60) for bookie in segment.ensemble)
        yield from screen.wrap(f"from {segment.first_entry_id}: {bookies}", "            ")
