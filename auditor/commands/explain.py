"""`auditor explain` shows findings of a stored run in full."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import pyarrow.compute as pc

from auditor.after.finished_run import open_finished_run, read_all_findings
from auditor.commands.stored_run import choose_run, refuse_damaged_run
from auditor.context import EXIT_SOUND, Context
from auditor.errors import ConfigError
from auditor.evidence.run_directory import Place
from auditor.evidence.schemas import VERDICTS
from auditor.model.finding_record import FindingRecord
from auditor.model.identity import LEDGER_ID_MAX
from auditor.model.summary import Summary
from auditor.report.carried_text import ledger_carried_sentence
from auditor.report.findings_text import render_finding
from auditor.report.layout import of
from auditor.report.unjudged_text import render_verdict
from auditor.report.verification_text import ledger_age_sentences
from auditor.summary.carried import carried_from
from auditor.summary.reading_plan import milliseconds
from auditor.summary.verification import LedgerAges, ages_of_ledger

SHOWN_MAX = 20
"""At most this many findings are shown by one call. A ledger or bookie has a handful."""
PREFIX_CHARS_MIN = 4
"""The beginning of a finding's id is accepted if it has at least this many characters and only one
id begins with it."""


def explain(context: Context, name: str, run_dir: str | None) -> int:
    """Print the finding with this id, or all findings on a ledger or a bookie. Returns 0.

    A ledger without a finding gets its verdict, with each reason why it could not be judged. What
    is said of a ledger ends with the run whose lists its verdict rests on, if that was an earlier
    one, and with the ages of the newest reads of its copies.
    `run_dir` is as `choose_run` takes it. Raises ConfigError if the run cannot be read, has lost
    findings, or has neither a finding nor a verdict.
    """
    chosen_dir = choose_run(context, run_dir)
    with refuse_damaged_run(context, chosen_dir):
        run, summary = open_finished_run(chosen_dir)
        findings = read_all_findings(run, summary)
        chosen = choose_findings(findings, name)
        verdict = None if chosen else _verdict_on(run, name)
        ages = _ages_on(run, summary, name, chosen)
        verified: dict[str, Any] = {"verification": asdict(ages)} if ages else {}
        carried = carried_from(run, ledger) if (ledger := _ledger_of(name)) is not None else None
        if carried is not None:
            verified["carried_from"] = asdict(carried)
        said = [] if carried is None else [ledger_carried_sentence(carried)]
        sentences = " ".join([*said, *(ledger_age_sentences(ages) if ages else ())])
        age_lines = "".join(f"{line}\n" for line in context.screen.wrap(sentences, "  "))
        if verdict is not None:
            if context.settings.format == "json":
                context.say(json.dumps({**verdict, **verified}) + "\n")
            else:
                context.say(render_verdict(verdict, summary, context.screen) + age_lines)
            return EXIT_SOUND
        if not chosen:
            raise ConfigError(
                f"{run.address} has no finding {name} and no ledger of that id: give the id of a"
                f" finding, a ledger id or a bookie id; the run has {of(len(findings), 'finding')}"
                " (findings.jsonl)"
            )
        if context.settings.format == "json":
            context.say(json.dumps([finding.as_json() | verified for finding in chosen]) + "\n")
            return EXIT_SOUND
        shown = [render_finding(finding, context.screen) for finding in chosen[:SHOWN_MAX]]
    more = f"... and {of(len(chosen) - SHOWN_MAX, 'more finding')} (--format json has all)\n"
    text = "\n".join(shown) + (more if len(chosen) > SHOWN_MAX else "")
    context.say(text + (f"\n{age_lines}" if age_lines else ""))
    return EXIT_SOUND


def choose_findings(findings: Sequence[FindingRecord], name: str) -> list[FindingRecord]:
    """Return the findings that a name means, in their order.

    An id of a finding is tried first, then a ledger or bookie id, then the beginning of a finding's
    id. A beginning that several ids share means none of them. Digits alone are a ledger id: a
    mistyped one must not show another ledger.
    """
    same = [finding for finding in findings if finding.id == name]
    ledger = _ledger_of(name)
    on = [
        finding
        for finding in findings
        if name == finding.bookie_id or (ledger is not None and finding.ledger_id == ledger)
    ]
    if same or on:
        return same or on
    begun = complete_id({finding.id for finding in findings}, name)
    return [finding for finding in findings if finding.id == begun]


def complete_id(ids: Collection[str], name: str) -> str | None:
    """Return the id of a finding that a name means: one of `ids` or the beginning of just one.

    None if there is no such id, and for digits alone that are not an id: they mean a ledger.
    """
    if name in ids:
        return name
    can_begin = len(name) >= PREFIX_CHARS_MIN and not name.isdigit()
    begun = [finding_id for finding_id in ids if can_begin and finding_id.startswith(name)]
    return begun[0] if len(begun) == 1 else None


def _verdict_on(run: Place, name: str) -> Mapping[str, Any] | None:
    """Return the run's verdict on the ledger with this id; None if it has none."""
    ledger = _ledger_of(name)
    if ledger is None:
        return None
    columns = ["ledger_id", "standing", "exempt", "unknowns", "detail", "looks", "assurance"]
    keep = pc.field("ledger_id") == ledger
    rows = run.scan("verdicts", VERDICTS).table(columns, keep).to_pylist()
    return rows[0] if rows else None


def _ages_on(
    run: Place, summary: Summary, name: str, chosen: Sequence[FindingRecord]
) -> LedgerAges | None:
    """Return the ages of the reads of the ledger that a name means.

    None if it means none, or if the run did not count them. `chosen`: the findings that it means.
    """
    ledger = _ledger_of(name)
    if ledger is None or any(finding.ledger_id != ledger for finding in chosen):
        return None
    verified, began = summary.verification, summary.started_at
    return ages_of_ledger(run, verified, milliseconds(began), ledger) if began else None


def _ledger_of(name: str) -> int | None:
    """Return the ledger id that a name spells, with or without leading zeros; None if it spells
    none.
    """
    if not name.isdecimal() or not name.isascii():
        return None
    digits = name.lstrip("0") or "0"
    return (
        int(digits) if len(digits) <= _LEDGER_DIGITS_MAX and int(digits) <= LEDGER_ID_MAX else None
    )


_LEDGER_DIGITS_MAX = len(str(LEDGER_ID_MAX))
"""No longer number is a ledger id. Python converts at most 4,300 digits."""
