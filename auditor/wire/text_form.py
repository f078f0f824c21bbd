"""Read and write protobuf's text form as BookKeeper does, with errors that never quote the text.

protobuf's own errors quote the line on which they fail, and one line of a ledger's text form is its
password. The errors here give the place alone.
"""

from __future__ import annotations

from google.protobuf import text_format
from google.protobuf.message import Message

from auditor.errors import MalformedMetadata


def merge(data: bytes, start: int, message: Message) -> None:
    """Parse `data[start:]` into `message`.

    As in Java, the last value of a singular field wins, and unknown fields are errors. Raises
    `MalformedMetadata`, with an offset from the beginning of `data`. Cost: pure Python, some 100 µs
    for a ledger.
    """
    problem = _merge(data, start, message)
    if problem is not None:
        # Raised here, so that protobuf's error with the quoted line is not kept as its context.
        raise problem


def _merge(data: bytes, start: int, message: Message) -> MalformedMetadata | None:
    body = data[start:]
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError as error:
        return MalformedMetadata("the text form is not UTF-8", start + error.start)
    try:
        text_format.Merge(text, message)
    except text_format.ParseError as error:
        return _where(text, start, error.GetLine() or 1, error.GetColumn() or 1)
    except Exception:  # arbitrary bytes: whatever protobuf raises means that it cannot read them
        return MalformedMetadata("the text form cannot be parsed", start)
    return incomplete(message, len(data))


def _where(text: str, start: int, line: int, column: int) -> MalformedMetadata:
    before = text.split("\n")[:line]
    before[-1] = before[-1][: column - 1]
    offset = start + len("\n".join(before).encode())
    return MalformedMetadata(
        f"the text form cannot be parsed at line {line}, column {column}", offset
    )


def write(message: Message) -> bytes:
    """Return `message` in text form as BookKeeper writes it.

    Each field is on its own line, indented by two spaces a level. All but printable ASCII is
    escaped.
    """
    return text_format.MessageToString(message, as_utf8=False).encode("ascii")


def incomplete(message: Message, end: int) -> MalformedMetadata | None:
    """Return an error at byte `end` that names missing required fields; None if there are none."""
    if message.IsInitialized():
        return None
    missing: list[str] = message.FindInitializationErrors()  # type: ignore[attr-defined]  # not in the stubs
    return MalformedMetadata(f"required fields are missing: {', '.join(missing)}", end)
