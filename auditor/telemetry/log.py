"""The log on stderr, for people or as JSON lines, made with structlog.

What kazoo, py4j and other libraries log is formatted the same way or left out.
"""

from __future__ import annotations

import logging
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, MutableMapping
from typing import Any, TextIO

import structlog
from structlog.stdlib import BoundLogger, ProcessorFormatter
from structlog.typing import Processor

from auditor.config import without_credentials
from auditor.model.finding import Severity
from auditor.model.finding_record import FindingRecord
from auditor.report.layout import printable

LOGGER = "auditor"
CONSOLE_VIOLATIONS_MAX = 20
"""At most this many violations of one kind are logged on the console. JSON has all of them, and so
has findings.jsonl."""

TEXT_CHARS_MAX = 4_000
"""The console shows at most this many characters of a text, or of a line of a traceback."""

_CHATTY = {
    "kazoo": logging.WARNING,
    "py4j": logging.ERROR,
    "pyspark": logging.WARNING,
    "urllib3": logging.WARNING,
}
"""The lowest level logged for each library without --verbose. With it, all log from INFO on."""

_BRIEF = ("severity", "kind", "ledger_id", "bookie_id", "entries_total", "id", "muted", "witness")


def setup(
    *,
    log_format: str = "console",
    verbose: bool = False,
    quiet: bool = False,
    stream: TextIO | None = None,
) -> BoundLogger:
    """Send all log events of this process to `stream` (default stderr), and return the logger.

    The level is DEBUG with `verbose` (INFO for libraries), WARNING with `quiet`, else INFO.
    Credentials in URLs are masked and control characters escaped. May be called again.
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
    last = _json() if log_format == "json" else _console(out)
    handler = logging.StreamHandler(out)
    handler.setFormatter(_formatter(before, last))
    logging.getLogger().handlers[:] = [handler]
    _set_levels(verbose=verbose, quiet=quiet)
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


def _set_levels(*, verbose: bool, quiet: bool) -> None:
    """Set the lowest level that is logged, for the auditor and for each library."""
    logging.getLogger().setLevel(logging.WARNING)
    own = logging.DEBUG if verbose else logging.WARNING if quiet else logging.INFO
    logging.getLogger(LOGGER).setLevel(own)
    for name, level in _CHATTY.items():
        logging.getLogger(name).setLevel(logging.INFO if verbose else level)


def bind_run(run_id: str) -> None:
    """Add the run id to every log event from now on."""
    structlog.contextvars.bind_contextvars(run=run_id)


def violations(
    logger: BoundLogger,
    findings: Iterable[FindingRecord],
    *,
    log_format: str,
    is_shown: bool = False,
) -> Counter[str]:
    """Log the findings of severity warning and above, then their counts by kind; return the counts.

    JSON has every finding with all its fields. The console has the main facts of the first
    CONSOLE_VIOLATIONS_MAX findings of a kind. A terminal has only the counts, or nothing if the
    report is shown on a terminal too (`is_shown`).
    """
    watched = log_format == "console" and _on_terminal()
    seen: Counter[str] = Counter()
    for finding in findings:
        if finding.severity is Severity.INFO:
            continue
        seen[finding.kind.value] += 1
        if log_format == "json":
            violation(logger, finding, finding.as_json())
        elif not watched and seen[finding.kind.value] <= CONSOLE_VIOLATIONS_MAX:
            fields = finding.as_json()
            brief = {name: fields[name] for name in _BRIEF if fields.get(name) is not None}
            violation(logger, finding, brief)
    for kind_word, number in sorted(seen.items()) if not (watched and is_shown) else ():
        logger.info("violations", kind=kind_word, findings=number)
    return seen


def _on_terminal() -> bool:
    """Return whether the log goes to a terminal."""
    return any(
        isinstance(h, logging.StreamHandler) and h.stream.isatty()
        for h in logging.getLogger().handlers
    )


def violation(logger: BoundLogger, finding: FindingRecord, fields: Mapping[str, Any]) -> None:
    """Log one finding as one event with these fields: an error if it is critical, else a warning;
    info if it is muted.
    """
    say = logger.error if finding.severity is Severity.CRITICAL else logger.warning
    say = logger.info if finding.is_muted else say
    say("violation", **fields)


def _json() -> list[Processor]:
    return [structlog.processors.JSONRenderer(ensure_ascii=True, default=str)]


def _console(out: TextIO) -> list[Processor]:
    return [
        _escape_controls,
        structlog.dev.ConsoleRenderer(
            colors=out.isatty(), exception_formatter=structlog.dev.plain_traceback
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
