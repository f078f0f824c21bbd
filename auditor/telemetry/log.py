"""The log, for people or as JSON lines, made with structlog: on stderr, and of a run in run.log.

For people, stderr has what the report does not say; with --verbose, and in JSON, it has every
event. run.log in a run's directory has every event in any case. What kazoo, py4j and other
libraries log is formatted the same way or left out.
"""

from __future__ import annotations

import logging
import sys
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from contextlib import contextmanager, suppress
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import structlog
from structlog.stdlib import BoundLogger, ProcessorFormatter
from structlog.typing import Processor

from auditor.config import without_credentials
from auditor.errors import OutputError
from auditor.model.finding import Severity
from auditor.model.finding_record import FindingRecord
from auditor.report.layout import printable

if TYPE_CHECKING:
    from auditor.evidence.run_directory import Place

LOGGER = "auditor"
RUN_LOG = "run.log"
"""The file in a run's directory that has every event of the run, also without --verbose."""

RUN_LOG_BYTES_MAX = 16 * 2**20
"""At most this much is written to run.log by one process. The last line then says that it is
full."""

EARLY_LINES_MAX = 200
"""At most this many lines that are logged before the run has a directory are kept for run.log."""

CONSOLE_VIOLATIONS_MAX = 20
"""At most this many violations of one kind are logged for people. JSON has all of them, and so has
findings.jsonl."""

TEXT_CHARS_MAX = 4_000
"""The console shows at most this many characters of a text, or of a line of a traceback."""

_CHATTY = {
    "kazoo": logging.WARNING,
    "py4j": logging.ERROR,
    "pyspark": logging.WARNING,
    "urllib3": logging.WARNING,
}
"""The lowest level logged for each library without --verbose. With it, all log from INFO on."""

_IN_THE_REPORT = frozenset({"violation", "violations", "page_written"})
"""Events that say what the report says too."""

_BRIEF = ("severity", "kind", "ledger_id", "bookie_id", "entries_total", "id", "muted", "witness")


def setup(
    *,
    log_format: str = "console",
    verbose: bool = False,
    quiet: bool = False,
    stream: TextIO | None = None,
) -> BoundLogger:
    """Send the log events of this process to `stream` (default stderr), and return the logger.

    The level is DEBUG with `verbose` (INFO for libraries), WARNING with `quiet`, else INFO. On the
    console, events that repeat the report are shown with `verbose` only. Credentials in URLs are
    masked and control characters escaped. May be called again.
    """
    assert log_format in ("console", "json"), log_format
    out = stream or sys.stderr
    before: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
        _mask_secrets,
    ]
    is_json = log_format == "json"
    handler = logging.StreamHandler(stream) if stream else _StandardError()
    handler.setFormatter(_formatter(before, _json() if is_json else _console(out.isatty())))
    handler.addFilter(_Shown(verbose=verbose, quiet=quiet, repeats=verbose or is_json))
    file = _RunLog(_formatter(before, _json() if is_json else _console(has_colors=False)))
    logging.getLogger().handlers[:] = [handler, file]
    _set_levels()
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *before,
            ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=BoundLogger,
        cache_logger_on_first_use=False,
    )
    logger: BoundLogger = structlog.get_logger(LOGGER)
    return logger


def _formatter(before: list[Processor], last: list[Processor]) -> ProcessorFormatter:
    """Return the formatter for our events and for those of libraries."""
    return ProcessorFormatter(
        foreign_pre_chain=[structlog.stdlib.add_logger_name, *before],
        processors=[ProcessorFormatter.remove_processors_meta, *last],
    )


def _set_levels() -> None:
    """Set the lowest level that reaches a handler, for the auditor and for each library."""
    logging.getLogger().setLevel(logging.WARNING)
    logging.getLogger(LOGGER).setLevel(logging.DEBUG)
    for name in _CHATTY:
        logging.getLogger(name).setLevel(logging.INFO)


class _StandardError(logging.StreamHandler[TextIO]):
    """Write to what `sys.stderr` is when an event is logged: a progress bar replaces it while it is
    drawn, and moves the lines above itself.
    """

    def __init__(self) -> None:
        logging.Handler.__init__(self)

    @property
    def stream(self) -> TextIO:  # type: ignore[override]
        return sys.stderr


class _Shown(logging.Filter):
    """Keep the events that are shown on stderr; the handler gets all that run.log has."""

    def __init__(self, *, verbose: bool, quiet: bool, repeats: bool) -> None:
        super().__init__()
        own = logging.DEBUG if verbose else logging.WARNING if quiet else logging.INFO
        others = {name: logging.INFO if verbose else level for name, level in _CHATTY.items()}
        self._levels = {LOGGER: own, **others}
        self._repeats = repeats

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether the event has the level of its logger, and is not left to the report."""
        if record.levelno < self._levels.get(record.name.partition(".")[0], logging.WARNING):
            return False
        if self._repeats or not isinstance(record.msg, dict):
            return True
        return record.msg.get("event") not in _IN_THE_REPORT


class _RunLog(logging.Handler):
    """Keep the first lines, and then write every line to run.log, up to RUN_LOG_BYTES_MAX.

    What cannot be written is dropped: a full disk must not end an audit.
    """

    def __init__(self, formatter: logging.Formatter) -> None:
        super().__init__()
        self.setFormatter(formatter)
        self._early: deque[str] = deque(maxlen=EARLY_LINES_MAX)
        self._directory: Place | None = None
        self._file: TextIO | None = None
        self._bytes_left = RUN_LOG_BYTES_MAX

    def emit(self, record: logging.LogRecord) -> None:
        """Write one event, or keep it while there is no file."""
        if self._bytes_left <= 0:
            return
        line = self.format(record)
        if self._file is None:
            self._early.append(line)
        else:
            self._write(line)

    def open(self, directory: Place) -> None:
        """Write to run.log in this directory from now on, beginning with the lines kept.

        On a local disk each line is written at once, behind those of the process that is resumed.
        In a store, which cannot append, the file is written when it is closed.
        """
        from pyarrow.fs import LocalFileSystem  # a command without a run does without

        try:
            if isinstance(directory.files, LocalFileSystem):
                path = Path(directory.path, RUN_LOG)
                self._file = path.open("a", encoding="utf-8", buffering=1)
            else:
                self._file = StringIO()
        except OSError:
            return
        self._directory = directory
        while self._early:
            self._write(self._early.popleft())

    def end(self) -> None:
        """Close the file. In a store, this writes it. May be called without a file."""
        if self._file is None or self._directory is None:
            return
        file, self._file = self._file, None
        with suppress(OSError, OutputError):
            if isinstance(file, StringIO):
                kept = self._directory.read_text(RUN_LOG) or ""
                self._directory.write_text(RUN_LOG, kept + file.getvalue())
            file.close()

    def _write(self, line: str) -> None:
        assert self._file is not None, "a line is written behind `open`"
        self._bytes_left -= len(line.encode()) + 1
        full = f"run.log is full: this process writes {RUN_LOG_BYTES_MAX:,} bytes at most"
        with suppress(OSError):
            self._file.write(f"{line if self._bytes_left > 0 else full}\n")


@contextmanager
def ending_run_log() -> Iterator[None]:
    """Close run.log at the end of `with`, if `keep_run_log` opened it."""
    try:
        yield
    finally:
        for handler in _run_logs():
            handler.end()


def keep_run_log(directory: Place) -> None:
    """Write every event of this process to run.log in the run's directory from now on."""
    for handler in _run_logs():
        handler.open(directory)


def _run_logs() -> list[_RunLog]:
    return [one for one in logging.getLogger().handlers if isinstance(one, _RunLog)]


def bind_run(run_id: str) -> None:
    """Add the run id to every log event from now on."""
    structlog.contextvars.bind_contextvars(run=run_id)


def violations(
    logger: BoundLogger, findings: Iterable[FindingRecord], *, log_format: str
) -> Counter[str]:
    """Log the findings of severity warning and above, then their counts by kind; return the counts.

    JSON has every finding with all its fields. For people there are the main facts of the first
    CONSOLE_VIOLATIONS_MAX findings of a kind.
    """
    seen: Counter[str] = Counter()
    for finding in findings:
        if finding.severity is Severity.INFO:
            continue
        seen[finding.kind.value] += 1
        if log_format == "json":
            violation(logger, finding, finding.as_json())
        elif seen[finding.kind.value] <= CONSOLE_VIOLATIONS_MAX:
            fields = finding.as_json()
            brief = {name: fields[name] for name in _BRIEF if fields.get(name) is not None}
            violation(logger, finding, brief)
    for kind_word, number in sorted(seen.items()):
        logger.info("violations", kind=kind_word, findings=number)
    return seen


def violation(logger: BoundLogger, finding: FindingRecord, fields: Mapping[str, Any]) -> None:
    """Log one finding as one event with these fields: an error if it is critical, else a warning;
    info if it is muted.
    """
    say = logger.error if finding.severity is Severity.CRITICAL else logger.warning
    say = logger.info if finding.is_muted else say
    say("violation", **fields)


def _json() -> list[Processor]:
    return [structlog.processors.JSONRenderer(ensure_ascii=True, default=str)]


def _console(has_colors: bool) -> list[Processor]:
    return [
        _escape_controls,
        structlog.dev.ConsoleRenderer(
            colors=has_colors, exception_formatter=structlog.dev.plain_traceback
        ),
    ]


def _mask_secrets(
    _logger: Any, _method: str, event: MutableMapping[str, Any]
) -> MutableMapping[str, Any]:
    """Mask the credentials of URLs in the texts of an event (a structlog processor)."""
    for key, value in event.items():
        if isinstance(value, str):
            event[key] = without_credentials(value)
    return event


def _escape_controls(
    _logger: Any, _method: str, event: MutableMapping[str, Any]
) -> MutableMapping[str, Any]:
    """Escape control characters in the texts of an event (a structlog processor).

    Foreign text can then neither start a new line nor move the cursor. A traceback keeps its lines,
    which are indented: what an error quotes cannot look like an event.
    """
    for key, value in event.items():
        if isinstance(value, str):
            lines = value.split("\n") if key == "exception" else [value]
            indent = "  " if key == "exception" else ""
            event[key] = "\n".join(indent + printable(line, TEXT_CHARS_MAX) for line in lines)
    return event
