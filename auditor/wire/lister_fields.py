"""Encode what a lister adds to a bookie's responses: whom it lists for, and lost entry logs.

A lister answers like a bookie: an audit that reached the wrong lister would not notice. Its
response to GET_BOOKIE_INFO therefore names the bookie. Its response with a list names the missing
entry logs. The list itself leaves out the entries that the index places in these logs.

Both are in one field that is appended to the Response message, under a number that BookKeeper does
not use. Protocol Buffers keeps unknown fields apart: BookKeeper's own clients read the response
like that of any bookie.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from itertools import islice, pairwise
from typing import Any, TypeGuard

from auditor.errors import MalformedAvailability
from auditor.model.availability import MissingLog
from auditor.model.identity import ENTRY_ID_MAX, EntryId
from auditor.model.scrub import CANDIDATES_MAX, Candidate, ScrubPass, ScrubReport, Suspicion
from auditor.wire.frames import varint
from auditor.wire.protobuf_forms import LISTER_FIELD

IDENTITY_VERSION = 1

_LENGTH = struct.Struct(">i")
_LENGTH_DELIMITED = 2


@dataclass(frozen=True, slots=True)
class ListerIdentity:
    """Whose index a lister reads. `instance_id` is None in clusters that have none.

    `view_age_ms` is the age of its oldest view; None without a view. `scrub` is what it found in
    the entry logs; None if it does not scrub. `lists`: whether it makes lists, or only scrubs.
    """

    bookie_id: str
    instance_id: str | None
    view_age_ms: int | None = None
    scrub: ScrubReport | None = None
    lists: bool = True


def with_identity(frame: bytes, identity: ListerIdentity) -> bytes:
    """Return an encoded response (with its length) that also says who answers."""
    words: dict[str, Any] = {
        "lister": IDENTITY_VERSION,
        "bookie_id": identity.bookie_id,
        "instance_id": identity.instance_id,
        "view_age_ms": identity.view_age_ms,
    }
    if identity.scrub is not None:
        words["scrub"] = scrub_words(identity.scrub)
    if not identity.lists:
        words["lists"] = False
    return with_lister_field(frame, json.dumps(words).encode())


def with_lister_field(frame: bytes, field: bytes) -> bytes:
    """Return an encoded response (with its length), with these bytes in the field of listers."""
    body = (
        frame[_LENGTH.size :]
        + varint(LISTER_FIELD << 3 | _LENGTH_DELIMITED)
        + varint(len(field))
        + field
    )
    return _LENGTH.pack(len(body)) + body


def decode_identity(data: bytes) -> ListerIdentity | None:
    """Return the identity in such a field; None if this version does not understand it."""
    try:
        identity: Any = json.loads(data)
    except (ValueError, RecursionError):
        return None
    if not isinstance(identity, dict) or identity.get("lister") != IDENTITY_VERSION:
        return None
    bookie_id, instance_id, age_ms = (
        identity.get("bookie_id"),
        identity.get("instance_id"),
        identity.get("view_age_ms"),
    )
    has_instance_or_none = instance_id is None or _is_name(instance_id)
    if not _is_name(bookie_id) or not has_instance_or_none or not isinstance(age_ms, int | None):
        return None
    scrub = identity.get("scrub")
    lists = identity.get("lists", True) is not False
    return ListerIdentity(bookie_id, instance_id, age_ms, decode_scrub(scrub), lists)


def _is_name(name: object) -> TypeGuard[str]:
    """Return whether this text can be stored. JSON may contain a lone surrogate, which cannot."""
    return isinstance(name, str) and name.isprintable()


def scrub_words(report: ScrubReport) -> dict[str, Any]:
    """Return what a scrub reports as JSON values."""
    return {
        "written_at_ms": report.written_at_ms,
        "finished": None if report.finished is None else asdict(report.finished),
        "current": None if report.current is None else asdict(report.current),
        "candidates": [[c.ledger_id, c.entry_id, c.why.value] for c in report.candidates],
    }


def decode_scrub(words: object) -> ScrubReport | None:
    """Return the report in such values; None if this version does not understand them.

    Candidates of a later version's kinds are left out, and so are those beyond CANDIDATES_MAX.
    """
    if not isinstance(words, dict) or not _is_time(words.get("written_at_ms")):
        return None
    candidates = words.get("candidates")
    found = map(_candidate, candidates if isinstance(candidates, list) else ())
    return ScrubReport(
        words["written_at_ms"],
        _scrub_pass(words.get("finished")),
        _scrub_pass(words.get("current")),
        tuple(islice((one for one in found if one is not None), CANDIDATES_MAX)),
    )


def _scrub_pass(words: object) -> ScrubPass | None:
    if not isinstance(words, dict):
        return None
    known = {field.name: words.get(field.name, 0) for field in fields(ScrubPass)}
    began, ended = known.pop("began_at_ms"), known.pop("ended_at_ms")
    if not all(map(_is_count, known.values())) or not _is_time(began):
        return None
    if ended is not None and not _is_time(ended):
        return None
    return ScrubPass(began, ended, **known)


def _candidate(words: object) -> Candidate | None:
    match words:
        case [int(ledger), int(entry), str(why)] if _is_count(ledger) and _is_count(entry):
            try:
                return Candidate(ledger, entry, Suspicion(why))
            except ValueError:
                return None
    return None


def _is_count(value: object) -> bool:
    return type(value) is int and 0 <= value <= ENTRY_ID_MAX  # True is an int


_TIME_MAX_MS = 253_402_300_799_999
"""The last millisecond of the year 9999: no later time can be shown."""


def _is_time(value: object) -> TypeGuard[int]:
    return type(value) is int and 0 <= value <= _TIME_MAX_MS


MISSING_LOGS_MAX = 64
"""Missing entry logs named in one response. A ledger is rarely in more than a few logs."""
RANGES_MAX = 20
"""Ranges of entries that one answer names for each log; the others are counted."""
PATH_CHARACTERS_MAX = 4_096
"""Longest path of an entry log, which is Linux's own bound."""


def with_missing_logs(frame: bytes, logs: Sequence[MissingLog]) -> bytes:
    """Return an encoded list response (with its length) that also names these logs."""
    words = [[log.path, log.entries, log.ranges] for log in logs]
    return with_lister_field(
        frame, json.dumps({"lister": IDENTITY_VERSION, "missing_logs": words}).encode()
    )


def decode_missing_logs(data: bytes) -> tuple[MissingLog, ...]:
    """Return the logs in such a field. Raises MalformedAvailability for anything else."""
    try:
        fields: Any = json.loads(data)
    except (ValueError, RecursionError):
        raise MalformedAvailability("what its lister says beside the list is not JSON") from None
    if not isinstance(fields, dict) or fields.get("lister") != IDENTITY_VERSION:
        raise MalformedAvailability("what its lister says beside the list is of another version")
    logs = fields.get("missing_logs")
    if not isinstance(logs, list) or len(logs) > MISSING_LOGS_MAX:
        raise MalformedAvailability(
            f"its lister names no missing logs, or more than {MISSING_LOGS_MAX}"
        )
    return tuple(_missing_log(log) for log in logs)


def _missing_log(words: Any) -> MissingLog:
    match words:
        case [str(path), int(entries), [*ranges]] if (
            len(path) <= PATH_CHARACTERS_MAX
            and type(entries) is int
            and 1 <= len(ranges) <= RANGES_MAX
        ):
            found = tuple(_range(pair) for pair in ranges)
            if _is_in_order(found) and _count(found) <= entries <= ENTRY_ID_MAX:
                return MissingLog(path.encode("utf-8", "backslashreplace").decode(), entries, found)
    raise MalformedAvailability("its lister names a missing log without its entries")


def _range(words: Any) -> tuple[EntryId, EntryId]:
    match words:
        case [int(first), int(last)] if (
            type(first) is type(last) is int
            and 0 <= first <= last <= ENTRY_ID_MAX  # True is an int
        ):
            return first, last
    raise MalformedAvailability("its lister names a missing log with a range that has no entries")


def _is_in_order(ranges: Sequence[tuple[EntryId, EntryId]]) -> bool:
    return all(last < first for (_, last), (first, _) in pairwise(ranges))


def _count(ranges: Sequence[tuple[EntryId, EntryId]]) -> int:
    return sum(last - first + 1 for first, last in ranges)
