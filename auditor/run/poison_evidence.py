"""Keep the evidence on each ledger that could not be judged in `poison/`, for a person to look
into.

`poison/ledger-<id>/` has the layout of a run's directory with one ledger in it: `auditor replay`
judges that ledger alone, with today's code. `poison/stopped` names the ledgers on which judging was
stopped: a replay of the whole run sets them aside again.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from auditor.evidence.run_directory import Place, write_json
from auditor.evidence.run_tables import SEEN_TABLES
from auditor.evidence.schemas import BOOKIES, LISTING, VERDICTS
from auditor.judging.judge import is_stopped
from auditor.summary.counts import HAS_DETAIL, disputed_ledgers, poisoned_ledgers

_STOPPED_TABLE = "poison/stopped"
_OWN_FOLDER = "poison/ledger-<id>"
STOPPED = pa.schema([("ledger_id", pa.int64()), ("detail", pa.string())])
"""A ledger on which judging was stopped, and how. Key: ledger_id."""
KEPT_MAX = 100
"""At most this many ledgers of each sort get a directory. The evidence on the others is in
`evidence/` only."""

_OF_LEDGERS = (("evidence/listing", LISTING), *SEEN_TABLES)


def keep_poison(run: Place) -> None:
    """Write `poison/` for the ledgers that were set aside, or on which the checkers differ.

    Writes nothing if there are none. Costs a scan of one column of the verdicts and, if there are
    any, of each table of evidence. Raises OutputError.
    """
    columns = ["ledger_id", "unknowns", "detail"]
    verdicts = run.read_table("verdicts", VERDICTS, HAS_DETAIL, columns)
    rows, differing = poisoned_ledgers(verdicts), disputed_ledgers(verdicts)
    if not rows and not differing:
        return
    stopped = [row for row in rows if is_stopped(row[1])]
    if stopped:
        run.write_table(
            _STOPPED_TABLE, pa.table(list(zip(*stopped, strict=True)), schema=STOPPED), "stopped"
        )
    _keep_evidence(run, [ledger_id for ledger_id, _ in (*rows[:KEPT_MAX], *differing[:KEPT_MAX])])


def stopped_ledgers(run: Place) -> dict[int, str]:
    """Return why judging was stopped, by ledger.

    Returns an empty mapping if it never was, or if the run ended before it was noted.
    """
    if not run.has_table(_STOPPED_TABLE):
        return {}
    rows = run.read_table(_STOPPED_TABLE, STOPPED).to_pylist()
    return {row["ledger_id"]: row["detail"] for row in rows}


def _keep_evidence(run: Place, ids: Sequence[int]) -> None:
    for name, schema in _OF_LEDGERS:
        rows = run.read_table(name, schema, pc.field("ledger_id").isin(ids))
        for ledger_id in ids:
            own = rows.filter(pc.field("ledger_id") == ledger_id)
            _home(run, ledger_id).write_table(name, own, "kept")
    about = json.loads(run.read_text("run.json") or "{}")
    about.pop("within_ms", None)
    bookies = run.read_table("evidence/bookies", BOOKIES)
    for ledger_id in ids:
        home = _home(run, ledger_id)
        home.write_table("evidence/bookies", bookies, "bookies")
        write_json(home, "run.json", {**about, "partial": True})


def _home(run: Place, ledger_id: int) -> Place:
    return run / _OWN_FOLDER.replace("<id>", str(ledger_id))
