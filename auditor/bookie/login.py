"""What a login to a bookie is, whatever its mechanism."""

from __future__ import annotations

from typing import Protocol

from auditor.bookie.link import Link
from auditor.bookie.replies import Replies


class Login(Protocol):
    """Logs in at one bookie, on one connection after another."""

    async def prepare(self) -> None:
        """Do what needs no connection, before each of them. Raises BookieRefused, and
        BookieUnreachable if it is worth trying again.
        """

    async def log_in(self, link: Link, replies: Replies) -> None:
        """Return when the bookie admits us. Raises BookieRefused or BookieUnreachable."""
