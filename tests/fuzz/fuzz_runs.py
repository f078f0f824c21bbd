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

import pyarrow as pa
import pyarrow.parquet as pq
from support.stored_run import FACTS, store_run
from targets import Target

from auditor.commands.context import Context
from auditor.commands.diff import diff
from auditor.commands.explain import explain
from auditor.commands.margin import margin
from auditor.commands.replay import replay, report
from auditor.config import Layers, parse
from auditor.errors import ConfigError
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


class Plan:
    """Reads numbers from the bytes of an input; 0 after their end."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def number(self, below: int) -> int:
        """Return the next number, from 0 to `below` - 1."""
        part = self._data[self._at : self._at + 2]
        self._at += 2
        return int.from_bytes(part, "little") % below if below else 0

    def is_over(self) -> bool:
        return self._at >= len(self._data)


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
        out = io.StringIO()
        code = command(_context(plan, out), str(run))
        assert code in range(5), code
        hostile = {char for char in out.getvalue() if not (char.isprintable() or char == "\n")}
        assert not hostile, hostile


def _context(plan: Plan, out: io.StringIO) -> Context:
    flags = {"format": ("text", "json")[plan.number(2)]}
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
    path = _file(plan, run)
    content = path.read_bytes()
    path.write_bytes(content[: plan.number(len(content))])


def _flip(plan: Plan, run: Path) -> None:
    path = _file(plan, run)
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
    _file(plan, run).unlink()


def _link(plan: Plan, run: Path) -> None:
    """Put a link, a pipe or a folder in place of a file."""
    path = _file(plan, run)
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


def _change_column(plan: Plan, run: Path) -> None:
    """Give one column of a table other values, another type or another name; or double its rows."""
    path = _table(plan, run)
    try:
        table = pq.read_table(path)
    except (OSError, pa.ArrowException):
        return
    index = plan.number(table.num_columns)
    name, kind = table.schema.names[index], table.schema.types[index]
    rows, how = table.num_rows, plan.number(8)
    columns: dict[int, pa.Array] = {
        0: pa.nulls(rows, kind),
        1: pa.array(["\x1b[31m\u202e\n"] * rows, pa.string()),
        2: pa.array([-1] * rows, pa.int64()),
        3: pa.array([2**63 - 1] * rows, pa.int64()),
        4: pa.array([[]] * rows, pa.list_(pa.string())),
    }
    if how in columns:
        table = table.set_column(index, name, columns[how])
    elif how == 5:
        table = table.drop_columns([name])
    elif how == 6:
        table = pa.concat_tables([table, table])
    else:
        table = table.slice(0, plan.number(rows + 1))
    pq.write_table(table, path)


def _files(run: Path) -> list[Path]:
    return sorted(path for path in run.rglob("*") if path.is_file() and not path.is_symlink())


def _file(plan: Plan, run: Path) -> Path:
    files = _files(run)
    return files[plan.number(len(files))] if files else _new(run)


def _table(plan: Plan, run: Path) -> Path:
    tables = [path for path in _files(run) if path.suffix == ".parquet"]
    return tables[plan.number(len(tables))] if tables else _new(run)


def _new(run: Path) -> Path:
    path = run / "summary.json"
    if not path.is_dir():
        path.unlink(missing_ok=True)
        path.write_text("{}")
        return path
    path = run / "other"
    path.write_text("{}")
    return path


STEPS = (
    _cut,
    _flip,
    _replace_value,
    _replace_value,
    _replace_value,
    _nest,
    _remove,
    _link,
    _change_column,
    _change_column,
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
