"""Turn errors in reading a stored run into one sentence: anybody may have written its files."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import PurePath
from traceback import extract_tb

import pyarrow as pa

from auditor.context import Context
from auditor.errors import ConfigError, OutputError
from auditor.report.layout import printable

DETAIL_CHARS_MAX = 200
"""At most this many characters of an exception's text are shown."""
UNREADABLE = (
    ArithmeticError, AssertionError, AttributeError, LookupError, RecursionError, StopIteration,
    TypeError, ValueError,
    pa.ArrowException,
)  # fmt: skip
"""Exceptions that code raises for a value of an unexpected shape. Errors of the machine, such as
MemoryError, are not among them."""


@contextmanager
def refuse_damaged_run(context: Context, *run_dirs: str) -> Iterator[None]:
    """Raise ConfigError if files of a stored run cannot be read, or have values that no run writes.

    The sentence says where the error occurred, and that a fault of the auditor looks the same. The
    log has the traceback with --verbose.
    """
    try:
        yield
    except OutputError as error:
        raise ConfigError(str(error)) from error
    except UNREADABLE as error:
        context.logger.debug("stored_run_unreadable", run_dirs=list(run_dirs), exc_info=error)
        raise ConfigError(
            f"{' or '.join(run_dirs)} cannot be used ({describe_fault(error)}): "
            "its files are damaged, were changed, or come from another version of the auditor; "
            "if none of this is so, please report it"
        ) from error


def describe_fault(error: Exception) -> str:
    """Return the text of an exception, and where it was raised, in one printable line."""
    at = extract_tb(error.__traceback__)[-1]
    said = printable(f"{type(error).__name__}: {error}".partition("\n")[0], DETAIL_CHARS_MAX)
    return f"{said}, at {PurePath(at.filename).name}:{at.lineno}"
