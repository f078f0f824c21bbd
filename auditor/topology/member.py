"""A bookie that is to be located, and where it was found to be."""

from __future__ import annotations

from dataclasses import dataclass

from auditor.model.address import Address, address_of
from auditor.model.identity import BookieId


@dataclass(frozen=True, slots=True)
class Member:
    """A bookie as sources look for it. `host` is a name in lower case, or an address as text; None where it is not known."""

    bookie_id: BookieId
    host: str | None = None
    port: int | None = None

    @property
    def address(self) -> Address | None:
        """The address that the host is written as; None for a name."""
        return None if self.host is None else address_of(self.host)


@dataclass(frozen=True, slots=True)
class Match:
    """What one source says of one bookie. `matched_by` is for a person: "bookie id", "network 10.0.0.0/24 (line 7)"."""

    location: str
    matched_by: str


@dataclass(frozen=True, slots=True)
class Located:
    """Where a bookie got its location from; `location` is None and the rest empty where no source has one."""

    bookie_id: BookieId
    location: str | None = None
    source: str = ""
    matched_by: str = ""
