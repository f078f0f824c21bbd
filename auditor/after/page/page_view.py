"""What the template shows: every part of the page as plain values, sentences and pictures.

Whole sentences are the text report's. What became of each finding since the run before is shown as
`auditor diff` shows it. A part without data is None; the page then says which part it does not
have, and why.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import quote

from auditor.after.differences import Change, Difference
from auditor.after.differences_text import (
    count_changes,
    extent_words,
    kinds_words,
    subject_of_change,
)
from auditor.after.page.charts import (
    bytes_by_namespace,
    copies_by_rack,
    findings_by_night,
    marks_by_age,
)
from auditor.after.page.contents import ChangesSeen, PageContents, PastRun
from auditor.after.page.findings_data import choose_listed
from auditor.after.page.pictures import (
    LEDGERS_MAX,
    Part,
    line_chart,
    margin_view,
    meter,
    racks_view,
    stacked_bar,
)
from auditor.model.finding import CATALOGUE, Kind, Severity
from auditor.model.finding_record import FindingRecord
from auditor.model.summary import ChangeCounts, Summary
from auditor.model.verdict import Exempt, Standing
from auditor.report.carried_text import carried_runs, carried_section, due_reasons
from auditor.report.findings_text import (
    BECAUSE_OF_A_BOOKIE,
    GROUPED,
    PROBLEM_CHARS_MAX,
    WITNESS_CHARS_MAX,
    cause_words,
    changes_words,
    more_causes,
    one_line,
    without_cause,
    worst_finding,
)
from auditor.report.layout import Screen, count, duration, moment, of, printable, share, size
from auditor.report.metadata_text import metadata_section
from auditor.report.outcome_text import (
    EXEMPT_WORDS,
    HUES,
    SEVERITY_HUES,
    STANDING_HUES,
    doubt_words,
    headline,
    machine_line,
    sampled_words,
    verified_share_meaning,
)
from auditor.report.references_text import references_section
from auditor.report.surroundings_text import note_sentences
from auditor.report.tally import Tally, tally_of
from auditor.report.text import cluster_name, marks_section, verdict_notes
from auditor.report.unjudged_text import (
    bookies_behind,
    most_frequent,
    name_examples,
    unjudged_section,
)
from auditor.report.verification_text import verification_sentences
from auditor.summary.counts import FILES
from auditor.witness.phrases import percent

Json = dict[str, Any]

UNBROKEN = 1_000_000
"""A width at which no sentence is broken into lines."""


class Line(NamedTuple):
    """A line of a section, and its indentation. Lines without indentation are sentences."""

    depth: int
    text: str


def conditions(summary: Summary) -> list[str]:
    """Return what limits the run, as the report has it below its headline."""
    return [*filter(None, [sampled_words(summary)]), *note_sentences(summary)]


def title(summary: Summary) -> str:
    """Return the page's title: outcome, cluster, and when the run began."""
    began = moment(summary.started_at)
    when = f", {began:%Y-%m-%d %H:%M} UTC" if began else ""
    return f"{summary.outcome}: {printable(summary.cluster.metadata_service_uri)}{when}"


ICON_HUES = {"green": "1b6e53", "red": "b3261e", "yellow": "8f5a00", "purple": "6b3fa0"}
"""The colours of the style sheet, for the icon beside the title."""


def icon(summary: Summary) -> str:
    """Return an image of the outcome's colour as a URI that has it whole."""
    hue = ICON_HUES[HUES[summary.outcome]]
    box = "xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'"
    svg = f"<svg {box}><circle cx='8' cy='8' r='7' fill='#{hue}'/></svg>"
    return f"data:image/svg+xml,{quote(svg, safe='')}"


def numbers_view(summary: Summary) -> list[Json]:
    """Return the numbers of the first screen, each with its colour and what it counts."""
    tally = tally_of(summary)
    shown = [
        {
            "name": row.severity.word,
            "number": count(row.counts.findings),
            "says": f"on {row.hits}" if row.hits else "",
            "hue": SEVERITY_HUES[row.severity] if row.counts.findings else "none",
        }
        for row in tally.rows
        if row.counts.findings or row.severity > Severity.INFO
    ]
    in_part = f", and {count(tally.in_part)} more in part" if tally.in_part else ""
    shown.append(
        {
            "name": "not judged",
            "number": count(tally.unjudged),
            "says": f"of {of(tally.listed, 'ledger')}{in_part}",
            "hue": STANDING_HUES[Standing.INDETERMINATE] if tally.unjudged else "none",
        }
    )
    shown.append(_new_number(summary, tally))
    copies = summary.copies
    if copies is not None and copies.expected:
        expected = of(copies.expected, "copy", "copies")
        ratio = share(summary.verified_ratio or 0.0)
        shown.append({"name": "verified", "number": ratio, "says": f"of {expected}", "hue": "none"})
    return shown


def _new_number(summary: Summary, tally: Tally) -> Json:
    since = summary.changes.since if summary.changes else None
    if tally.new is None or since is None:
        return {"name": "new", "number": "-", "says": "no run to compare with", "hue": "none"}
    on = f"on {of(tally.new_ledgers, 'ledger')}, " if tally.new_ledgers else ""
    return {
        "name": "new",
        "number": count(tally.new),
        "says": f"{on}since {moment(since.started_at):%Y-%m-%d %H:%M} UTC",
        "hue": "red" if tally.new else "none",
    }


def worst_view(findings: Sequence[FindingRecord], listed: Sequence[FindingRecord]) -> Json | None:
    """Return the worst finding in words, and its row in the table; None without findings."""
    first = worst_finding(findings)
    if first is None:
        return None
    return {
        "kind": first.kind.value,
        "severity": first.severity.word,
        "says": CATALOGUE[first.kind].says,
        "line": one_line(first),
        "witness": printable(first.witness, WITNESS_CHARS_MAX),
        "row": next((place for place, one in enumerate(listed) if one is first), None),
    }


def section_lines(section: Iterable[str]) -> list[Line]:
    """Return the lines of a section of the report that was made UNBROKEN, without its heading."""
    return list(_lines(iter(section)))


def _lines(section: Iterator[str]) -> Iterator[Line]:
    next(section, None)
    for line in section:
        text = line.strip()
        if text:
            yield Line((len(line) - len(line.lstrip())) // 2 - 1, text)


SHOWN_MAX = 100
"""At most this many findings of each change are listed, the most severe first; `auditor diff
--format json` has all."""
_LISTED = [change for change in Change if change is not Change.STILL]
"""Changes that are only counted here: unchanged findings are in the table of findings."""


def changes_view(seen: ChangesSeen, summary: Summary) -> Json:
    """Return the counts, and a table for each change that has a finding."""
    counts = count_changes(seen.differences)
    began = moment(seen.started_at)
    return {
        "since": f"{began:%Y-%m-%d %H:%M}",
        "run_id": printable(seen.run_id),
        "counts": [
            {"words": change.value, "name": _class(change), "count": count(number)}
            for change, number in counts.items()
        ],
        "notes": [
            *(printable(note, PROBLEM_CHARS_MAX) for note in seen.notes),
            *_other_count(counts, summary.changes),
        ],
        "groups": [
            group
            for change in _LISTED
            if (group := _group(change, [d for d in seen.differences if d.change is change]))
        ],
    }


def _class(change: Change) -> str:
    return change.value.replace(" ", "_")


def _other_count(counts: Mapping[Change, int], counted: ChangeCounts | None) -> list[str]:
    """Return why the first screen has other numbers, if it does."""
    if counted is None or counted.since is None or counts == _counted(counted):
        return []
    return [
        "The first screen counts otherwise: it includes findings that earlier runs passed on"
        " because they could not be checked again."
    ]


def _counted(counted: ChangeCounts) -> dict[Change, int]:
    return {
        Change.NEW: counted.new,
        Change.WORSE: counted.worse,
        Change.STILL: counted.still,
        Change.BETTER: counted.better,
        Change.RESOLVED: counted.resolved,
        Change.NOT_CHECKED_AGAIN: counted.not_checked_again,
    }


def _group(change: Change, differences: Sequence[Difference]) -> Json | None:
    if not differences:
        return None
    return {
        "heading": change.value.capitalize(),
        "name": _class(change),
        "count": count(len(differences)),
        "rows": [_row(one) for one in differences[:SHOWN_MAX]],
        "left": len(differences) - len(differences[:SHOWN_MAX]),
    }


def _row(one: Difference) -> Json:
    side = one.after or one.before
    assert side is not None, one
    return {
        "severity": one.severity.word,
        "kinds": kinds_words(one),
        "subject": subject_of_change(one, side),
        "extent": extent_words(one),
        "why": printable(one.why, PROBLEM_CHARS_MAX),
        "id": printable(one.after.ids[0]) if one.after is not None else None,
    }


def left_out(contents: PageContents, view: Mapping[str, Any]) -> Iterator[str]:
    """Yield what the page does not show, and why. `view` has the parts that it shows."""
    summary = contents.summary
    if not view["causes"]:
        yield (
            f"Causes: no ledger has a finding {GROUPED}, and none was left unjudged"
            f" {BECAUSE_OF_A_BOOKIE}."
            if summary.has_causes_counted
            else ("Causes: the version that wrote this run did not store any.")
        )
    if not contents.bookies and not _is_explained(contents, "Bookies"):
        yield "Bookies: the run stored none."
    if not view["topics"]:
        yield "Topics: none were looked for, or none were found."
    if not view["marks"]:
        named = "named ledger" if summary.is_partial else "ledger"
        yield (
            f"Marks: no {named} was found marked under-replicated."
            if summary.marks is not None
            else ("Marks: the version that wrote this run did not count them.")
        )
    if not view["namespaces"] and not _is_explained(contents, "Bytes"):
        yield _no_bytes(summary)
    if not view["history"] and contents.history is not None:
        yield _no_history(summary)
    if not view["margin"] and not _is_explained(contents, "Margin"):
        yield _no_margin(contents)
    if not view["changes"] and not _is_explained(contents, "Changes"):
        yield _no_changes(summary)
    yield from contents.problems


def _no_bytes(summary: Summary) -> str:
    if summary.ledgers.listed > LEDGERS_MAX:
        return f"Bytes: not added up for more than {LEDGERS_MAX:,} ledgers."
    return "Bytes: no closed ledger names a topic."


def _no_history(summary: Summary) -> str:
    if summary.is_partial:
        return "History: a run of named ledgers is not compared with others."
    return "History: no other finished run of this cluster, as old or older, is beside this one."


def _is_explained(contents: PageContents, what: str) -> bool:
    """Return whether a problem already says why this part is missing."""
    return any(problem.startswith(what) for problem in contents.problems)


def _no_margin(contents: PageContents) -> str:
    if contents.summary.ledgers.listed > LEDGERS_MAX:
        return f"Margin: not computed of more than {LEDGERS_MAX:,} ledgers. The command above does."
    if contents.margin and contents.margin.basis.unread:
        unread = of(contents.margin.basis.unread, "ledger")
        return (
            "Margin: no ledger whose metadata is understood is closed and has entries. The metadata"
            f" of {unread} could not be read or understood."
        )
    return "Margin: no ledger is closed and has entries."


def _no_changes(summary: Summary) -> str:
    if not summary.is_compared:
        return "Changes: the version that wrote this run did not compare it with an earlier one."
    if summary.changes is None:
        return "Changes: there was no earlier run of this cluster."
    return f"Changes: {changes_words(summary.changes)}."


TOPICS_SHOWN_MAX = 200
"""At most this many topics are in the page's table, worst first; topics.jsonl has all of them."""
REPORT_CHARS_MAX = 1_000_000
"""At most this many characters of report.txt are in the page. Usually it has some 20 kB."""


def page_view(contents: PageContents) -> Json:
    """Return the values of the template."""
    summary = contents.summary
    view = {
        "outcome": summary.outcome,
        "hue": HUES[summary.outcome],
        "title": title(summary),
        "icon": icon(summary),
        "headline": headline(summary),
        "notes": list(verdict_notes(summary)),
        "conditions": conditions(summary),
        "numbers": numbers_view(summary),
        "worst": worst_view(contents.findings, choose_listed(contents.findings)),
        "about": list(_about(summary)),
        "shares": list(_shares(summary)),
        "standings": _standings(summary),
        "carried": _carried(summary),
        "causes": _causes(summary),
        "racks": (
            racks_view(contents.bookies, _kinds_on_bookies(contents.findings), summary.space)
            if contents.bookies
            else None
        ),
        "marks": _marks(contents),
        "copies": copies_by_rack(contents.margin.racks) if contents.margin else None,
        "namespaces": bytes_by_namespace(contents.namespaces or ()),
        "metadata": _metadata(contents),
        "topics": _topics(contents),
        "orphans": _orphans(contents.findings),
        "unjudged_rows": list(_unjudged_rows(summary)),
        "unjudged": section_lines(unjudged_section(summary, Screen(UNBROKEN))),
        "history": _history(contents.history or ()),
        "margin": margin_view(contents.margin) if contents.margin else None,
        "changes": changes_view(contents.changes, summary) if contents.changes else None,
        "muted": sum(finding.is_muted for finding in contents.findings),
        "margin_command": _margin_command(contents.run_dir),
        "run_dir": printable(contents.run_dir, 1_000),
        "report": contents.report[:REPORT_CHARS_MAX],
        "machine_line": machine_line(summary.outcome, summary.run_id, summary.ledgers),
    }
    return {**view, "left_out": list(left_out(contents, view))}


def _kinds_on_bookies(findings: Sequence[FindingRecord]) -> dict[str, list[str]]:
    """Return the kinds of the findings on each bookie, in the order of the findings."""
    kinds: dict[str, list[str]] = {}
    for one in findings:
        if one.bookie_id is not None:
            kinds.setdefault(one.bookie_id, []).append(one.kind.value)
    return kinds


def _about(summary: Summary) -> Iterator[tuple[str, str]]:
    yield "Cluster", cluster_name(summary)
    started, finished = moment(summary.started_at), moment(summary.finished_at)
    if started and finished:
        took = duration((finished - started).total_seconds())
        yield "Audited", f"{started:%Y-%m-%d %H:%M:%S} to {finished:%H:%M:%S} UTC ({took})"
    yield "Run", printable(summary.run_id)
    if summary.is_partial:
        yield "Extent", "only ledgers that were named"


def _shares(summary: Summary) -> Iterator[Json]:
    """Yield the verified share and the coverage, each with the whole of which it is a share."""
    copies = summary.copies
    if copies is not None and copies.expected:
        doubt = doubt_words(summary)
        said = verified_share_meaning(summary, copies) + (f"; {doubt}" if doubt else "")
        yield _share("Verified", summary.verified_ratio or 0.0, said)
    if summary.ledgers.listed:
        said = "of the ledgers carry no reason to be unknown and are not merely excused by a mark"
        yield _share("Coverage", summary.coverage, said)
    ages = summary.verification.counts if summary.verification else None
    if ages is not None and (said := " ".join(verification_sentences(summary))):
        yield _share("Read", ages.within_period / ages.copies, said)


def _share(name: str, ratio: float, says: str) -> Json:
    shown = share(ratio)
    return {
        "name": name,
        "share": shown,
        "says": says,
        "bar": meter(ratio, "sound", f"{name}: {shown}"),
    }


def _unjudged_rows(summary: Summary) -> Iterator[Json]:
    """Yield each reason to be unknown with its ledgers, the most frequent first."""
    unheard = summary.bookies_unheard
    for reason, number in most_frequent(summary):
        yield {
            "reason": reason.value,
            "ledgers": number,
            "some": name_examples(summary, reason, number).removeprefix(": "),
            "bookies": bookies_behind(reason, unheard),
            "file": FILES.replace("REASON", reason.value),
        }


def _standings(summary: Summary) -> Json:
    """Return the ledgers by standing: a picture, and a row for each standing, the worst first."""
    ledgers = summary.ledgers
    numbers = {one.word: ledgers.of(one) for one in sorted(Standing, reverse=True)}
    exempt = [f"{count(n)} {EXEMPT_WORDS[r]}" for r in Exempt if (n := summary.exempt(r))]
    label = ", ".join(f"{count(number)} {word}" for word, number in numbers.items())
    parts = [Part(word, number) for word, number in numbers.items()]
    return {
        "listed": of(ledgers.listed, "ledger"),
        "bar": stacked_bar(parts, label) if ledgers.listed else "",
        "rows": [{"word": word, "count": count(number)} for word, number in numbers.items()],
        "exempt": exempt,
    }


def _carried(summary: Summary) -> Json | None:
    """Return what the run carried over: a picture, the sentences of the report, and tables of the
    runs and of why other ledgers were asked about. None if it asked about every ledger by default.
    """
    carried = summary.carried
    if carried is None:
        return None
    parts = [
        ("exempt", carried.asked, "asked about by this run"),
        ("sound", carried.ledgers - carried.withheld, "carried over, and sound"),
        ("indeterminate", carried.withheld, "carried over, and unknown now"),
    ]
    label = ", ".join(f"{count(number)} {words}" for _, number, words in parts)
    asked = max(1, carried.asked)
    return {
        "share": share(carried.ledgers / max(1, carried.ledgers + carried.asked)),
        "bar": stacked_bar([Part(name, number) for name, number, _ in parts], label),
        "legend": [
            {"name": name, "count": count(number), "words": words}
            for name, number, words in parts
            if number
        ],
        "lines": section_lines(carried_section(summary, Screen(UNBROKEN))),
        "runs": [
            {"run": run, "began": began, "ledgers": count(number)}
            for run, began, number in carried_runs(carried)
        ],
        "due": [
            {
                "words": words,
                "ledgers": count(number),
                "bar": meter(
                    number / asked, "exempt", f"{percent(number / asked)} of all asked about"
                ),
            }
            for words, number in due_reasons(carried)
        ],
    }


def _causes(summary: Summary) -> Json | None:
    rows = summary.causes
    if not rows and not summary.ledgers_without_cause:
        return None
    ends = [f"And {more}." if (more := more_causes(summary)) else "", without_cause(summary)]
    return {
        "rows": [
            {
                "words": cause_words(row),
                "bookie": printable(row.subject) if row.cause == "bookie" else None,
                "bar": meter(row.share, "violated", f"{percent(row.share)} of all hit"),
            }
            for row in rows
        ],
        "ends": [end for end in ends if end],
    }


def _marks(contents: PageContents) -> Json | None:
    summary = contents.summary
    lines = section_lines(marks_section(summary, Screen(UNBROKEN)))
    if not lines:
        return None
    return {"lines": lines, **marks_by_age(summary, contents.grace_ms)}


def _metadata(contents: PageContents) -> Json | None:
    lines = section_lines(metadata_section(contents.summary, Screen(UNBROKEN)))
    return {"lines": lines} if lines else None


def _topics(contents: PageContents) -> Json | None:
    summary = contents.summary
    lines = section_lines(references_section(summary, Screen(UNBROKEN)))
    if not lines:
        return None
    topics = list(contents.topics or ())
    rows = [
        {
            "topic": printable(one.topic, 300),
            "has_loss": bool(one.has_loss),
            "kinds": ", ".join(printable(kind) for kind in one.kinds),
            "ledgers": count(len(one.ledgers)),
            "blocked": count(len(one.subscriptions_blocked)),
            "possibly": count(len(one.subscriptions_possibly_blocked)),
        }
        for one in topics[:TOPICS_SHOWN_MAX]
    ]
    left = max(0, (summary.topics_hit or 0) - len(rows))
    # The report names some topics, indented deeper: the table has them.
    return {
        "lines": [line for line in lines if line.depth == 0] if rows else lines,
        "rows": rows,
        "left": left,
    }


def _orphans(findings: Sequence[FindingRecord]) -> Json | None:
    """Return a row for each topic whose orphans hold the most, as the finding names them."""
    found = next((one for one in findings if one.kind is Kind.LEDGER_ORPHANED), None)
    if found is None:
        return None
    topics = found.facts.parts("some_topics")
    rows = [
        {
            "topic": printable(str(one.get("topic", "")), 300),
            "ledgers": count(int(one.get("ledgers", 0))),
            "bytes": size(int(one.get("stored_bytes", 0))),
        }
        for one in topics
    ]
    if not rows:
        return None
    return {"rows": rows, "left": max(0, found.facts.count("topics") - len(rows))}


def _history(runs: Sequence[PastRun]) -> Json | None:
    """Return a chart for each number, over at least two runs."""
    if len(runs) < 2:
        return None
    first, last = moment(runs[0].started_at), moment(runs[-1].started_at)
    charts: list[tuple[str, str, Callable[[PastRun], float | None], Callable[[float], str]]] = [
        ("Ledgers in violation", "violated", lambda run: run.violated, _whole_number),
        (
            "Ledgers that could not be judged",
            "unknown",
            lambda run: run.indeterminate,
            _whole_number,
        ),
        ("Copies verified", "sound", lambda run: run.verified_ratio, share),
    ]
    drawn: list[Json | None] = [findings_by_night(runs)]
    drawn += [
        _chart(title, name, [pick(run) for run in runs], words)
        for title, name, pick, words in charts
    ]
    return {
        "runs": len(runs),
        "first": f"{first:%Y-%m-%d %H:%M}",
        "last": f"{last:%Y-%m-%d %H:%M}",
        "charts": [chart for chart in drawn if chart],
    }


def _whole_number(number: float) -> str:
    return count(int(number))


def _chart(
    title: str, name: str, values: Sequence[float | None], words: Callable[[float], str]
) -> Json | None:
    """Return one chart with its lowest, highest and last value; None if no run has a value."""
    known = [value for value in values if value is not None]
    if not known:
        return None
    is_share = words is share
    low, high = (min(known), max(known)) if is_share else (0.0, max(known))
    label = (
        f"{title}: {len(known)} runs, from {words(min(known))} to {words(max(known))}, last"
        f" {words(known[-1])}"
    )
    drawn = line_chart(values, name, label, top=high, bottom=low if low < high else low - 1)
    return {
        "title": title,
        "svg": drawn,
        "last": words(known[-1]),
        "top": words(high),
        "bottom": words(low),
    }


def _margin_command(run_dir: str) -> Json:
    """Return the command that shows what may fail, and whether it is shown unchanged."""
    command = f"auditor margin {shlex.quote(run_dir)}"
    shown = printable(command, 1_000)
    return {"text": shown, "copy": shown == command}
