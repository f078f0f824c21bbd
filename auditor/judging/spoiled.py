"""Correct verdicts that rest on lists of a lister which its bookie contradicted later in the run.

Such a list may name too much, which hides losses: a verdict that was sound or exempt becomes
unknown (`answer_invalid`). A violation stays, because a read on the bookie itself confirmed each
absence. It gets the reason too.

This module does not load Arrow, because `auditor ledger` uses it. `spoiled_rows` does.
"""

from __future__ import annotations

from dataclasses import replace

from auditor.model.verdict import Exempt, Standing, Unknown, Verdict

_ORDER = {unknown: number for number, unknown in enumerate(Unknown)}


def spoil_verdict(verdict: Verdict) -> Verdict:
    """Return the verdict of a ledger some of whose lists no longer count."""
    if verdict.exempt is Exempt.DELETED:
        return verdict
    unknowns = sorted({*verdict.unknowns, Unknown.ANSWER_INVALID}, key=_ORDER.__getitem__)
    standing = max(verdict.standing, Standing.INDETERMINATE)
    kept = replace(verdict, is_mark_stale=False, only_maintenance=False)
    return replace(kept, standing=standing, unknowns=tuple(unknowns))
