"""Read a run's tables: what was seen of each ledger, new rows, the newest write.

A finished run also records what it stored in each table, so that a lost part is noticed. A table
that lacks a file looks like one with fewer rows: ledgers would be judged on less than was seen of
them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from auditor.errors import OutputError
from auditor.evidence.local_files import is_table_file
from auditor.evidence.run_directory import Place
from auditor.evidence.schemas import ANSWERS, LEDGERS, READS, SEEN
from auditor.model.summary import StoredTable


@dataclass(slots=True)
class NewRows:
    """Reads each file of a table once. Files are added to the table and never changed.

    Each call reads the files that were added since the last call. Memory: the names of the files,
    and one batch of rows.
    """

    run: Place
    name: str
    schema: pa.Schema
    _known: set[str] = field(default_factory=set)

    def batches(
        self, columns: Sequence[str], words: Sequence[str] = ()
    ) -> Iterator[pa.RecordBatch]:
        """Yield the named columns of the files that no earlier call read. Raises OutputError.

        On disk the strings in the columns `words` are numbers of a dictionary. Skips checksums and
        what Spark has not committed (`_temporary`).
        """
        new = self.run.files_in(self.name) - self._known
        for file in sorted(filter(_has_rows, new)):
            yield from self.run.stream(file, self.schema, list(columns), words)
            self._known.add(file)


def _has_rows(name: str) -> bool:
    return name.endswith(".parquet") and not any(part[0] in "._" for part in name.split("/"))


def newest_time_ms(run: Place) -> int:
    """Return when the youngest znode of a ledger or mark was created or written, in ms; 0 without
    any.

    Costs a scan of three columns of evidence/ledgers.
    """
    newest = 0
    columns = ["znode_ctime_ms", "znode_mtime_ms", "mark"]
    for batch in run.scan("evidence/ledgers", LEDGERS).batches(columns):
        created = pc.struct_field(batch.column("mark"), "created_ms")
        times = batch.column("znode_ctime_ms"), batch.column("znode_mtime_ms"), created
        newest = max(newest, *(pc.max(column).as_py() or 0 for column in times))
    return newest


KEPT = ("evidence", "verdicts")
"""Directories of a run whose tables stay when it has finished."""


def count_stored(sizes: Mapping[str, int]) -> dict[str, StoredTable]:
    """Return the number of files and bytes of each table. `sizes` has the bytes of each file."""
    found: dict[str, StoredTable] = {}
    for file, size_bytes in sizes.items():
        if not is_table_file(file):
            continue
        folders = file.split("/")[:-1]
        table = "/".join(folders[: 1 + (folders[0] == "evidence")])
        before = found.get(table, StoredTable())
        found[table] = StoredTable(before.files + 1, before.bytes + size_bytes)
    return dict(sorted(found.items()))


def require_stored(run: Place, stored: Mapping[str, StoredTable] | None) -> None:
    """Raise OutputError if a table of a finished run differs from what its summary says was stored.

    `stored` is what the summary says, None if it does not say it: then nothing is done. Costs one
    listing of the run's files.
    """
    if stored is None:
        return
    present = count_stored(run.file_sizes(*KEPT))
    wrong = [name for name in {**stored, **present} if stored.get(name) != present.get(name)]
    if wrong:
        name = min(wrong)
        was, now = (tables.get(name, StoredTable()) for tables in (stored, present))
        more = f", and {len(wrong) - 1} more tables are not as stored" if len(wrong) > 1 else ""
        raise OutputError(
            f"{run.address} has lost a part of what the run stored, or was changed: {name} has"
            f" {_words(now)}, and the run stored {_words(was)}{more}; use another run, or a copy of"
            " this one"
        )


def _words(table: StoredTable) -> str:
    return f"{table.files} file{'' if table.files == 1 else 's'} of {table.bytes:,} bytes"


SEEN_TABLES = (
    ("evidence/ledgers", LEDGERS),
    ("evidence/answers", ANSWERS),
    ("evidence/reads", READS),
)
"""The tables from which a SEEN row is gathered, with their schemas, in the order of `seen_rows`."""


def read_seen_rows(
    run: Place, keep: pc.Expression, *, with_answers: bool = True
) -> list[pa.RecordBatch]:
    """Return a SEEN row for every ledger of a run whose rows pass the filter `keep`, ascending.

    `with_answers`: include what bookies said; False before any bookie was asked, when those tables
    do not exist. Costs one scan of each table of evidence. Raises OutputError.
    """
    read = SEEN_TABLES if with_answers else SEEN_TABLES[:1]
    tables = [run.read_table(name, schema, keep) for name, schema in read]
    return seen_rows(*tables, *(schema.empty_table() for _, schema in SEEN_TABLES[len(read) :]))


def seen_rows(records: pa.Table, answers: pa.Table, reads: pa.Table) -> list[pa.RecordBatch]:
    """Return a SEEN row for every ledger in `records`, ascending. The rows may come in any order.

    Answers and reads of other ledgers are left out.
    """
    records = records.sort_by([("ledger_id", "ascending"), ("look", "ascending")])
    ids = pc.unique(records["ledger_id"])
    columns = [ids, *(_lists(rows, ids) for rows in (records, _sorted(answers), _sorted(reads)))]
    batches: list[pa.RecordBatch] = pa.Table.from_arrays(columns, schema=SEEN).to_batches()
    return batches


def _sorted(rows: pa.Table) -> pa.Table:
    return rows.sort_by("ledger_id")


def _lists(rows: pa.Table, ids: pa.Array) -> pa.ListArray:
    """Return sorted rows as one list of structs for each id."""
    flat = [column.combine_chunks() for column in rows.columns]
    structs = pa.StructArray.from_arrays(flat, fields=list(rows.schema))
    ledgers = structs.field("ledger_id").to_numpy()
    starts = np.searchsorted(ledgers, ids.to_numpy())
    ends = np.searchsorted(ledgers, ids.to_numpy(), side="right")
    spans = [np.arange(a, b) for a, b in zip(starts, ends, strict=True)]
    values = structs.take(pa.array(np.concatenate([np.empty(0, np.int64), *spans])))
    return pa.ListArray.from_arrays(np.concatenate([[0], np.cumsum(ends - starts)]), values)
