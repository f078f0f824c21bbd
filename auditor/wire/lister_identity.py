"""Encode for which bookie a lister answers: an extra field in the response to GET_BOOKIE_INFO.

A lister answers like a bookie: an audit that reached the wrong lister would not notice. The field
is appended to the Response message under a number that BookKeeper does not use. Protocol buffers
keep unknown fields apart, and BookKeeper's own clients read the response as that of any bookie.
"""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass
from typing import Any, TypeGuard

from auditor.wire.frames import varint
from auditor.wire.unknown_fields import LISTER_FIELD

VERSION = 1

_LENGTH = struct.Struct(">i")
_LENGTH_DELIMITED = 2


@dataclass(frozen=True, slots=True)
class ListerIdentity:
    """Whose index a lister reads. `instance_id` is None in clusters that have none.

    `view_age_ms` is the age of its oldest view; None without a view.
    """

    bookie_id: str
    instance_id: str | None
    view_age_ms: int | None = None


def with_identity(frame: bytes, identity: ListerIdentity) -> bytes:
    """Return an encoded response (with its length) that also says who answers."""
    words = {
        "lister": VERSION,
        "bookie_id": identity.bookie_id,
        "instance_id": identity.instance_id,
        "view_age_ms": identity.view_age_ms,
    }
    return with_lister_field(frame, json.dumps(words).encode())


def with_lister_field(frame: bytes, field: bytes) -> bytes:
    """Return an encoded response (with its length) that also has these bytes in the field of
    listers.
    """
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
    if not isinstance(identity, dict) or identity.get("lister") != VERSION:
        return None
    bookie_id, instance_id, age_ms = (
        identity.get("bookie_id"),
        identity.get("instance_id"),
        identity.get("view_age_ms"),
    )
    has_instance_or_none = instance_id is None or _is_name(instance_id)
    if not _is_name(bookie_id) or not has_instance_or_none or not isinstance(age_ms, int | None):
        return None
    return ListerIdentity(bookie_id, instance_id, age_ms)


def _is_name(name: object) -> TypeGuard[str]:
    """Return whether this text can be stored. JSON can have a lone surrogate, which cannot."""
    return isinstance(name, str) and name.isprintable()
