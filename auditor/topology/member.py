"""A bookie to locate, its location, and host names and addresses as text."""

from __future__ import annotations

from dataclasses import dataclass

from auditor.model.address import Address, address_of
from auditor.model.identity import BookieId


@dataclass(frozen=True, slots=True)
class Member:
    """A bookie as sources look for it.

    `host` is a name in lower case, or an address as text; None if it is not known.
    """

    bookie_id: BookieId
    host: str | None = None
    port: int | None = None

    @property
    def address(self) -> Address | None:
        """The host as an address; None for a name or without a host."""
        return None if self.host is None else address_of(self.host)


@dataclass(frozen=True, slots=True)
class Match:
    """What one source says of one bookie.

    `matched_by` is for a person: "bookie id", "network 10.0.0.0/24 (line 7)".
    """

    location: str
    matched_by: str


@dataclass(frozen=True, slots=True)
class Located:
    """A bookie's location and its source. Without one, `location` is None and the rest is empty."""

    bookie_id: BookieId
    location: str | None = None
    source: str = ""
    matched_by: str = ""
