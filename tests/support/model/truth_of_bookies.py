"""What is true of the bookies of the model's cluster: which findings on them an audit may give, and
which it owes.
"""

from __future__ import annotations

from support.model.state import UNREGISTERED
from support.model.truth import Truth

FAILING_LEDGERS_MIN = 3
"""Ledgers that a bookie must refuse before it is reported as failing."""


def silent(truth: Truth) -> set[str]:
    """Return the bookies that are `down` among those that an audit must ask."""
    return {name for number in truth.listed() for name in truth.due(truth.ledgers[number])} & down(
        truth
    )


def down(truth: Truth) -> set[str]:
    """Return the registered bookies that do not listen. An audit may ask any of them, for an entry
    that is lost elsewhere.
    """
    return {
        name
        for name, one in truth.bookies.items()
        if one.registered != UNREGISTERED and not one.listens
    }


def unnoticed(truth: Truth) -> set[str]:
    """Return the bookies that are gone without a cookie among those that unmarked ledgers need."""
    return {name for name in gone(truth) if truth.is_forgotten(name)}


def gone(truth: Truth) -> set[str]:
    """Return the unregistered bookies among those that unmarked ledgers need.

    One that left a cookie may be restarting. Whether an audit reports it depends on the time
    between two looks.
    """
    unmarked = [
        one for number in truth.listed() if (one := truth.ledgers[number]).marked_at is None
    ]
    due = {name for ledger in unmarked for name in truth.due(ledger)}
    return {name for name in due if truth.bookies[name].registered == UNREGISTERED}


def true_of_bookies(truth: Truth) -> set[tuple[str, str]]:
    """Return all that an audit may say of bookies that are silent, gone or failing, as (kind,
    bookie).
    """
    return _found(silent=down(truth), failing=failing(truth), lost=gone(truth))


def owed_on_bookies(truth: Truth) -> set[tuple[str, str]]:
    """Return all that an audit must say of them."""
    served = failing(truth) if _is_served(truth) else set()
    return _found(silent=silent(truth), failing=served, lost=unnoticed(truth))


def _found(*, silent: set[str], failing: set[str], lost: set[str]) -> set[tuple[str, str]]:
    kinds = {
        "BOOKIE_SILENT_YET_REGISTERED": silent,
        "BOOKIE_FAILING_REQUESTS": failing,
        "BOOKIE_LOST_UNNOTICED": lost,
    }
    return {(kind, name) for kind, names in kinds.items() for name in names}


def failing(truth: Truth) -> set[str]:
    """Return the bookies that refuse each request, about at least three ledgers that need them."""
    refusing = {n for n, one in truth.bookies.items() if one.refuses and one.listens}
    return {
        n
        for n in refusing
        if truth.bookies[n].registered and len(truth.needing(n)) >= FAILING_LEDGERS_MIN
    }


def _is_served(truth: Truth) -> bool:
    """Return whether some bookie answers a list. If none does, the fault counts as ours."""
    return any(truth.listing(number) for number in truth.listed())


def lacks_most(truth: Truth, bookie: str) -> bool:
    """Return whether it lacks more than half of what it should hold, of at least three ledgers."""
    poor = 0
    for number in truth.listed():
        ledger = truth.ledgers[number]
        due = [
            e
            for e in ledger.judged_entries()
            if bookie in ledger.write_set(ledger.segment_of(e), e)
        ]
        poor += 2 * sum(not truth.bookies[bookie].has(number, entry) for entry in due) > len(due)
    return poor >= 3
