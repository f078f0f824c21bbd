"""What becomes of verdicts that rest on lists of a lister which its bookie contradicted later in
the run.

They were given before anybody knew. A list that names too much hides losses: so what was sound or
exempt is unknown (`answer_invalid`). What was violated stays so, because each absence was confirmed
by a read on the bookie itself; it gets the reason too.

This module does not load Arrow, because `auditor ledger` uses it; `spoiled_rows` does.
"""

from __future__ import annotations

from dataclasses import replace

from auditor.model.verdict import Exempt, Standing, Unknown, Verdict

_ORDER = {unknown: number for number, unknown in enumerate(Unknown)}


def spoil_verdict(verdict: Verdict) -> Verdict:
    """Return the verdict of a ledger some of whose lists do not count any more."""
    if verdict.exempt is Exempt.DELETED:
        return verdict
    unknowns = sorted({*verdict.unknowns, Unknown.ANSWER_INVALID}, key=_ORDER.__getitem__)
    standing = max(verdict.standing, Standing.INDETERMINATE)
    kept = replace(verdict, is_mark_stale=False, only_maintenance=False)
    return replace(kept, standing=standing, unknowns=tuple(unknowns))
