"""Complete values in a shell: fixed words, files, and what the stored runs in --output have.

click itself completes commands and options. Nothing here is called unless a shell asks. Only a
local OUTPUT is read, within bounds and without Arrow, so that an answer takes a fraction of a
second.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click
from click.shell_completion import CompletionItem

if TYPE_CHECKING:
    from auditor.config import Settings

VARIABLE: Final = "_AUDITOR_COMPLETE"
"""The variable with which a shell requests completions of the `auditor` command, as click
names it."""
COMPLETED_MAX: Final = 50
"""At most this many values are offered."""
BYTES_MAX: Final = 4 * 2**20
"""At most this many bytes of a file are read: the worst 600 findings."""
_WORDS: Final = re.compile(r"[a-z0-9-]+(\|[a-z0-9-]+)+")
_PATHS: Final = {"FILE": "file", "DIR": "dir", "OUTPUT": "dir"}
_PERSISTENT: Final = "persistent://"


class _Value(NamedTuple):
    """A value that is offered, and what it is."""

    text: str
    about: str = ""


class CompletedText(click.types.StringParamType):
    """Text that a shell completes by its notation in help texts: `text|json`, `FILE`, `RUN`, `ID`.

    It is only completed here. Wrong words are refused when settings are parsed.
    """

    def __init__(self, metavar: str) -> None:
        name = metavar.strip("[]").removesuffix(" …")
        self.words = tuple(metavar.split("|")) if _WORDS.fullmatch(metavar) else ()
        self.path_kind = _PATHS.get(name)
        self.stored = _STORED.get(name)

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Return the values that begin with the text, or ask the shell to complete a path."""
        if self.path_kind is not None:
            return [CompletionItem(incomplete, type=self.path_kind)]
        if self.stored is None:
            return [CompletionItem(word) for word in self.words if word.startswith(incomplete)]
        found = [] if "/" in incomplete and self.stored is _runs else self._offer(ctx, param)
        items = [
            CompletionItem(value.text, help=value.about or None)
            for value in found
            if value.text.startswith(incomplete)
        ][:COMPLETED_MAX]
        if not items and self.stored is _runs:
            return [CompletionItem(incomplete, type="dir")]
        return items

    def _offer(self, ctx: click.Context, param: click.Parameter) -> list[_Value]:
        """Return the values that the stored runs have, each once; none if they cannot be read."""
        assert self.stored is not None, "only called for what is stored"
        found: dict[str, _Value] = {}
        try:
            for value in self.stored(ctx, param):
                found.setdefault(value.text, value)
        except Exception:  # a shell cannot show why, and the command itself will say it
            return []
        return list(found.values())


def is_completing() -> bool:
    """Return whether a shell asks for completions: click writes bytes then, not text."""
    return VARIABLE in os.environ


def _settings(ctx: click.Context) -> Settings:
    """Return the settings of the command line so far."""
    from auditor.config import parse, read_layers

    flags = {key: ctx.params.get(key) for key in ("output", "config", "mutes")}
    return parse(read_layers({key: text for key, text in flags.items() if text}, os.environ))


def _output(ctx: click.Context) -> Path | None:
    """Return --output of the command line so far; None where it is not a local directory."""
    from auditor.evidence.local_files import is_uri

    output = _settings(ctx).output
    return None if is_uri(output) else Path(output)


def _run(ctx: click.Context) -> Path | None:
    """Return the directory of the run that the command line names; by default the newest."""
    from auditor.evidence.newest_run import LATEST, RUN_NAME, run_name

    output, text = _output(ctx), ctx.params.get("run_dir")
    if text and run_name(text) is None and Path(text).is_dir():
        return Path(text)
    if output is None:
        return None
    name = run_name(text) if text else None
    name = name or json.loads((output / LATEST).read_text(encoding="utf-8"))["run"]
    return output / name if RUN_NAME.fullmatch(name) else None


def _read(file: Path) -> str:
    """Return the beginning of a file, "" if it is not there."""
    try:
        with file.open(encoding="utf-8", errors="replace") as stream:
            return stream.read(BYTES_MAX)
    except OSError:
        return ""


def _rows(file: Path) -> Iterator[dict[str, Any]]:
    """Yield the objects of a file that has one a line. A line that was cut is passed over."""
    for line in _read(file).splitlines():
        try:
            row = json.loads(line)
        except ValueError:
            continue
        if isinstance(row, dict):
            yield row


def _runs(ctx: click.Context, _: click.Parameter) -> Iterator[_Value]:
    """Yield `latest`, and the ids of the runs, the newest first."""
    from auditor.evidence.newest_run import RUN_NAME

    output = _output(ctx)
    names = [] if output is None else [entry.name for entry in output.iterdir()]
    found = sorted(filter(RUN_NAME.fullmatch, names), reverse=True)
    if found:
        yield _Value("latest", "the newest finished run")
    for name in found:
        yield _Value(name.removeprefix("run-"))
    for name in found:
        yield _Value(name)


def _findings(ctx: click.Context, param: click.Parameter) -> Iterator[_Value]:
    """Yield the ids of findings, the worst first, then the ledgers and bookies they are on.

    For --remove they are the ids of mutes, and for `auditor ledger` those of ledgers alone.
    """
    if param.name == "remove":
        yield from _mutes(ctx)
        return
    run = _run(ctx)
    rows = [] if run is None else list(_rows(run / "findings.jsonl"))
    is_of_ledgers = ctx.info_name == "ledger"
    for row in [] if is_of_ledgers else rows:
        ledger, bookie = row.get("ledger_id"), row.get("bookie_id")
        on = f"bookie {bookie}" if bookie else f"ledger {ledger}" if ledger is not None else ""
        yield _Value(str(row.get("id")), f"{row.get('kind')} {on}".rstrip())
    for row in rows:
        for subject in (row.get("ledger_id"), row.get("bookie_id")):
            if subject is not None and (isinstance(subject, int) or not is_of_ledgers):
                yield _Value(str(subject))


def _mutes(ctx: click.Context) -> Iterator[_Value]:
    from auditor.after.mutes import MUTES_FILE

    settings = _settings(ctx)
    for row in _rows(Path(settings.mutes or Path(settings.output, MUTES_FILE))):
        yield _Value(str(row.get("id")), f"{row.get('kind')} on {row.get('on')}")


def _bookies(ctx: click.Context, param: click.Parameter) -> Iterator[_Value]:
    """Yield the bookies that were registered, and with --without the locations too."""
    run = _run(ctx)
    around = json.loads(_read(run / "run.json"))["terms"]["around"] if run else {}
    for name in sorted({*around.get("writable", ()), *around.get("readonly", ())}):
        yield _Value(str(name))
    if param.name == "without":
        for name in sorted(set((around.get("locations") or {}).values())):
            yield _Value(str(name))


def _topics(ctx: click.Context, _: click.Parameter) -> Iterator[_Value]:
    """Yield the topics that are hit, without their scheme, in which a shell would see words."""
    run = _run(ctx)
    for row in [] if run is None else _rows(run / "topics.jsonl"):
        yield _Value(str(row.get("topic")).removeprefix(_PERSISTENT), " ".join(row["kinds"]))


_STORED: Final[dict[str, Callable[[click.Context, click.Parameter], Iterator[_Value]]]] = {
    "RUN": _runs,
    "RUN_A": _runs,
    "RUN_B": _runs,
    "ID": _findings,
    "BOOKIE": _bookies,
    "BOOKIE|/LOCATION": _bookies,
    "TOPIC": _topics,
}
"""By notation: what the stored runs have."""
