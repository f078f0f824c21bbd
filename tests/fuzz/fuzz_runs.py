"""Fuzz target: the directory of a stored run that was tampered with.

The bytes of an input are a plan: a command, and the changes to files before it starts.
"""

from __future__ import annotations

import contextlib
import functools
import io
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

from support.stored_run import FACTS, store_run
from tampered_tables import (
    TABLE_BYTES_MAX,
    Plan,
    change_column,
    choose_file,
    grow,
)
from targets import Target

from auditor.commands.diff import diff
from auditor.commands.explain import explain
from auditor.commands.margin import margin
from auditor.commands.replay import replay
from auditor.commands.report import report
from auditor.config import Layers, parse
from auditor.context import Context
from auditor.errors import ConfigError
from auditor.evidence import table_scan
from auditor.evidence.newest_run import newest_run
from auditor.evidence.output_directory import Output
from auditor.evidence.run_directory import place
from auditor.stop import StopRequest
from auditor.summary.previous_run import read_previous
from auditor.telemetry import log
from auditor.telemetry.progress import Silent

HOSTILE: tuple[Any, ...] = (
    None, -1, 2**70, 1e308, True, "", "x", "\x1b[31m\u202e\n", "\ud800", [], {}, [[]], [None],
    {"a": 1}, 0,
    "2026-01-01T00:00:00",
)  # fmt: skip
"""Values to put in place of others."""
DEEP = b"[" * 100_000
FILES = ("summary.json", "findings.jsonl", "run.json")
STEPS_MAX = 4


@functools.cache
def template() -> Path:
    """Return a whole run, made once in this process."""
    home = tempfile.TemporaryDirectory()
    _kept.append(home)
    return store_run(Path(home.name))


_kept: list[tempfile.TemporaryDirectory[str]] = []


def read_tampered_run(data: bytes) -> None:
    plan = Plan(data)
    with tempfile.TemporaryDirectory() as home:
        run = Path(home) / template().name
        shutil.copytree(template(), run)
        command = COMMANDS[plan.number(len(COMMANDS))]
        for _ in range(STEPS_MAX):
            if plan.is_over():
                break
            with contextlib.suppress(OSError):  # an earlier step left no such file
                STEPS[plan.number(len(STEPS))](plan, run)
        run_bounded(command, run, ("text", "json")[plan.number(2)])


def run_bounded(
    command: Callable[[Context, str], int], run: Path, output_format: str = "text"
) -> None:
    """Run a command on a stored run, with a lower bound on a table, and check what it says."""
    out = io.StringIO()
    with patch.object(table_scan, "TABLE_BYTES_MAX", TABLE_BYTES_MAX):
        code = command(_context(output_format, out), str(run))
    assert code in range(5), code
    hostile = {char for char in out.getvalue() if not (char.isprintable() or char == "\n")}
    assert not hostile, hostile


def _context(output_format: str, out: io.StringIO) -> Context:
    flags = {"format": output_format}
    settings = parse(Layers(flags=flags), command="margin")
    return Context(
        settings, out, log.setup(stream=io.StringIO(), quiet=True), Silent(), StopRequest()
    )


COMMANDS: tuple[Callable[[Context, str], int], ...] = (
    report,
    replay,
    lambda context, run: explain(context, "8", run),
    lambda context, run: diff(context, str(template()), run),
    lambda context, run: diff(context, run, str(template())),
    lambda context, run: margin(context, run, ()),
    lambda context, run: margin(context, run, ("b1",)),
)


def _as_previous(context: Context, run: str) -> int:
    """Check that the next run, and commands on single ledgers, do not fail because they read it."""
    home = str(Path(run).parent)
    (Path(home) / "latest.json").write_text(json.dumps({"run": Path(run).name}))
    read_previous(Output(place(home)), FACTS)
    newest = newest_run(home, FACTS)
    if newest is not None:
        newest.bookies_unable()
        newest.standings([7, 8])
    return 0


COMMANDS = (*COMMANDS, _as_previous)


def _cut(plan: Plan, run: Path) -> None:
    path = choose_file(plan, run)
    content = path.read_bytes()
    path.write_bytes(content[: plan.number(len(content))])


def _flip(plan: Plan, run: Path) -> None:
    path = choose_file(plan, run)
    content = bytearray(path.read_bytes())
    if content:
        content[plan.number(len(content))] = plan.number(256)
        path.write_bytes(content)


def _replace_value(plan: Plan, run: Path) -> None:
    """Put a hostile value into a JSON file, or remove a value."""
    path = run / FILES[plan.number(len(FILES))]
    if not path.is_file():
        return
    try:
        documents = [json.loads(line) for line in _documents(path)]
        holders = [holder for document in documents for holder in _holders(document)]
        holder = holders[plan.number(len(holders))]
        key = (list(holder) if isinstance(holder, dict) else range(len(holder)))[
            plan.number(len(holder))
        ]
        choice = plan.number(len(HOSTILE) + 1)
        if choice == len(HOSTILE):
            del holder[key]
        else:
            holder[key] = HOSTILE[choice]
        path.write_text("".join(f"{json.dumps(document)}\n" for document in documents))
    except (ValueError, OSError, IndexError, RecursionError):
        return  # an earlier step broke the file


def _documents(path: Path) -> list[str]:
    text = path.read_text()
    return text.splitlines() if path.suffix == ".jsonl" else [text]


def _holders(value: Any) -> Iterator[Any]:
    """Yield every object and list in a JSON value that is not empty."""
    if isinstance(value, dict | list) and value:
        yield value
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _holders(inner)


def _nest(plan: Plan, run: Path) -> None:
    path = run / FILES[plan.number(len(FILES))]
    if path.is_file() or not path.exists():  # an earlier step may have put a pipe there
        path.write_bytes(DEEP)


def _remove(plan: Plan, run: Path) -> None:
    choose_file(plan, run).unlink()


def _link(plan: Plan, run: Path) -> None:
    """Put a link, a pipe or a folder in place of a file."""
    path = choose_file(plan, run)
    path.unlink()
    goal = ("..", path.name, "/dev/zero", "/dev/null", "/etc/passwd", "pipe", "folder")[
        plan.number(7)
    ]
    if goal == "pipe":
        os.mkfifo(path)
    elif goal == "folder":
        path.mkdir()
    else:
        path.symlink_to(goal)


STEPS = (
    _cut,
    _flip,
    _replace_value,
    _replace_value,
    _replace_value,
    _nest,
    _remove,
    _link,
    change_column,
    change_column,
    grow,
)


def _seeds() -> list[bytes]:
    """Return each command on the unchanged run, and after one step of each sort."""
    numbers = [(command,) for command in range(len(COMMANDS))]
    numbers += [
        (command, step, 1, 3, 2, 5)
        for command in range(len(COMMANDS))
        for step in range(len(STEPS))
    ]
    return [b"".join(number.to_bytes(2, "little") for number in row) for row in numbers]


TARGETS = (
    Target(
        "stored-run",
        read_tampered_run,
        _seeds(),
        (ConfigError,),
        bytes_max=64,
        memory_mib_max=2048,
        quick_examples=25,
    ),
)
