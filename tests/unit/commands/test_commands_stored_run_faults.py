"""Errors from stored values of an unexpected shape become one sentence. It does not say whose fault
they are.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from support.stored_run import store_run

from auditor.commands.diff import diff
from auditor.commands.explain import explain
from auditor.commands.margin import margin
from auditor.commands.replay import replay
from auditor.commands.report import report
from auditor.commands.stored_run import refuse_damaged_run
from auditor.config import Layers, parse
from auditor.context import Context
from auditor.errors import AccountingError, ConfigError, OutputError
from auditor.stop import StopRequest
from auditor.telemetry import log
from auditor.telemetry.progress import Silent


def context(heard: io.StringIO | None = None) -> Context:
    logger = log.setup(stream=heard or io.StringIO(), verbose=heard is not None)
    return Context(
        parse(Layers(), command="margin"), io.StringIO(), logger, Silent(), StopRequest()
    )


@pytest.mark.parametrize(
    "error",
    [
        KeyError("x"),
        TypeError("x"),
        AttributeError("x"),
        AssertionError("x"),
        RecursionError("x"),
        OverflowError("x"),
    ],
)
def test_a_value_of_another_shape_is_refused(error: Exception):
    """The error has the line of code at which it showed. Control characters of the file do not
    reach the terminal.
    """
    heard = io.StringIO()
    said = r"^/a or /b cannot be used \(.*x.*, at test_commands_.*:\d+\).*damaged"
    with pytest.raises(ConfigError, match=said), refuse_damaged_run(context(heard), "/a", "/b"):
        raise error
    assert "Traceback" in heard.getvalue()
    with pytest.raises(ConfigError) as refused, refuse_damaged_run(context(), "/a"):
        raise ValueError("\x1b[31m\n\u202e")
    assert str(refused.value).isprintable()


def test_an_error_of_the_output_keeps_its_words():
    """It already says what is wrong."""
    with pytest.raises(ConfigError, match=r"^the words$"), refuse_damaged_run(context(), "/a"):
        raise OutputError("the words")


@pytest.mark.parametrize(
    "error", [AccountingError("x"), MemoryError(), OSError("x"), KeyboardInterrupt()]
)
def test_errors_that_no_file_causes_are_passed_on(error: BaseException):
    """Ledgers that do not add up are our fault, and a full memory is not the file's fault."""
    with pytest.raises(type(error)), refuse_damaged_run(context(), "/a"):
        raise error


COMMANDS: dict[str, Callable[[Context, str], int]] = {
    "report": report,
    "replay": replay,
    "explain": lambda at, run: explain(at, "8", run),
    "diff": lambda at, run: diff(at, run, run),
    "margin": lambda at, run: margin(at, run, ()),
}


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_reads_a_whole_run_and_refuses_a_hostile_one(tmp_path: Path, command: str):
    """The directory is the same, once with a list where an object belongs."""
    run = store_run(tmp_path)
    assert COMMANDS[command](context(), str(run)) in (0, 1, 3)
    summary = json.loads((run / "summary.json").read_text())
    (run / "summary.json").write_text(
        json.dumps(summary | {"ledgers": [], "findings": [], "duration_s": [], "copies": 1})
    )
    with pytest.raises(ConfigError):
        COMMANDS[command](context(), str(run))


@pytest.mark.parametrize("code", [2, 5, 130, -1, "1", None, True, []])
def test_an_exit_code_that_no_finished_run_has_is_refused(tmp_path: Path, code: object):
    """The file must not choose the code that a scheduler acts on."""
    run = store_run(tmp_path)
    summary = json.loads((run / "summary.json").read_text())
    (run / "summary.json").write_text(json.dumps(summary | {"exit_code": code}))
    with pytest.raises(ConfigError, match="exit_code"):
        report(context(), str(run))
