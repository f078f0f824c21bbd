"""Fuzz target: a file of mutes, which may come out of somebody else's repository."""

from __future__ import annotations

import contextlib
import functools
import io
import json
import tempfile
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path

from fuzz_runs import template
from support.stored_run import ABOUT
from targets import Target

from auditor.after.mutes import MUTES_FILE, Mute, state_of
from auditor.clock import utc_now
from auditor.commands.mute import list_mutes, remove_mute
from auditor.config import Layers, parse
from auditor.context import Context
from auditor.errors import ConfigError
from auditor.evidence import findings_file
from auditor.evidence.output_directory import Output
from auditor.evidence.rows import table
from auditor.evidence.run_directory import place
from auditor.evidence.schemas import VERDICTS
from auditor.evidence.table_scan import scan_rows
from auditor.model.finding import Kind
from auditor.model.summary import Summary
from auditor.report.findings_text import muted_words, mutes_sentences
from auditor.run.conclusion import Conclusion, add_history
from auditor.run.mutes_file import read_mutes
from auditor.stop import StopRequest
from auditor.telemetry import log
from auditor.telemetry.progress import Silent

NEVER = date.max


@functools.cache
def stored() -> Conclusion:
    """Return the conclusion of a stored run: one finding, without mutes."""
    summary = json.loads((template() / "summary.json").read_text())
    lines = (template() / "findings.jsonl").read_text().splitlines()
    return Conclusion(Summary.from_json(summary), list(findings_file.parse(lines)))


def read_file_of_mutes(data: bytes) -> None:
    """Check that the file costs a run nothing but its mutes, that all that is shown of it is
    printable, and that the commands refuse what a run does not take.
    """
    with tempfile.TemporaryDirectory() as home:
        (Path(home) / MUTES_FILE).write_bytes(data)
        out = io.StringIO()
        context = _context(home, out)
        mutes = read_mutes(context, Output(place(home)))
        _conclude(context, home)
        if mutes.problem:
            assert not mutes.mutes
        else:
            list_mutes(context)
            assert len(out.getvalue().splitlines()) == len(mutes.mutes)
        with contextlib.suppress(ConfigError):
            remove_mute(context, mutes.mutes[0].id if mutes.mutes else "-")
        _check_printable(out.getvalue())
        assert len(read_mutes(context, Output(place(home))).mutes) == max(len(mutes.mutes) - 1, 0)
        list_mutes(context)  # raises ConfigError for a bad file


def _conclude(context: Context, home: str) -> None:
    run, rows = place(home), scan_rows(table(VERDICTS, []))
    mutes = read_mutes(context, Output(run))
    done = add_history(stored(), run, ABOUT, rows, (), None, mutes)
    assert len(done.findings) == len(stored().findings)
    muted = [one for one in done.findings if one.is_muted]
    assert (done.summary.exit_code == 1) == (len(muted) < len(done.findings))
    for text in (*mutes_sentences(done.summary), *map(muted_words, done.findings)):
        _check_printable(text)
    json.dumps(done.summary.as_json()).encode()


def _check_printable(text: str) -> None:
    hostile = {char for char in text if not (char.isprintable() or char == "\n")}
    assert not hostile, hostile


def _context(home: str, out: io.StringIO) -> Context:
    settings = parse(Layers(flags={"output": home}), command="mute")
    logger = log.setup(stream=io.StringIO(), quiet=True)
    return Context(settings, out, logger, Silent(), StopRequest())


def _seeds() -> list[bytes]:
    """Return files with a mute that applies, one that is outgrown, and one that is over."""
    finding = stored().findings[0]
    applies = Mute(finding.id, NEVER, "known", finding.kind, "ledger 8", "1", state_of(finding))
    outgrown = replace(applies, state=replace(applies.state, entries=(), entries_total=0))
    expired = replace(applies, until=utc_now().date() - timedelta(days=1))
    other = replace(applies, id="other", kind=Kind.LEDGER_POPULATION_DROPPED, on="the cluster")
    return [
        f"{applies.line()}\n{other.line()}\n".encode(),
        f"\n{outgrown.line()}\n".encode(),
        f"{expired.line()}\n".encode(),
    ]


TARGETS = (Target("mutes", read_file_of_mutes, _seeds(), (ConfigError,), quick_examples=60),)
