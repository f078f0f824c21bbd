"""End a command before its first look if every bookie refuses our credentials."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from auditor.bookie.admission import refusal_of_all
from auditor.clock import now_ms
from auditor.config import Settings
from auditor.model.cluster import BookieRecord, Registration


def check_admission(settings: Settings, bookies: Sequence[BookieRecord]) -> None:
    """Raise BookieRefused if all registered bookies refuse us, and KdcUnreachable if no KDC gives
    us a ticket for any that does not. Asks only if TLS or a login is set.
    """
    limits = settings.bookie_limits()
    if not limits.access.is_secured:
        return
    registered = [bookie for bookie in bookies if bookie.registration is not Registration.NONE]
    error = asyncio.run(refusal_of_all(registered, limits, now_ms))
    if error is not None:
        raise error
