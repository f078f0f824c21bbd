"""Changes to the tables of a stored run, by a plan that is read from the bytes of an input."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

TABLE_BYTES_MAX = 2**20
"""The bound on a table in memory while we fuzz. The product's would take minutes to pass."""
GROWN_BYTES = 2 * TABLE_BYTES_MAX
LONG_TEXT = "x" * 1024


class Plan:
    """Reads numbers from the bytes of an input; 0 after their end."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def number(self, below: int) -> int:
        """Return the next number, from 0 to `below` - 1."""
        part = self._data[self._at : self._at + 2]
        self._at += 2
        return int.from_bytes(part, "little") % below if below else 0

    def is_over(self) -> bool:
        return self._at >= len(self._data)


def change_column(plan: Plan, run: Path) -> None:
    """Give one column of a table other values, another type or another name; or double its rows."""
    path = choose_table(plan, run)
    try:
        table = pq.read_table(path)
    except (OSError, pa.ArrowException):
        return
    index = plan.number(table.num_columns)
    name, kind = table.schema.names[index], table.schema.types[index]
    rows, how = table.num_rows, plan.number(8)
    columns: dict[int, pa.Array] = {
        0: pa.nulls(rows, kind),
        1: pa.array(["\x1b[31m\u202e\n"] * rows, pa.string()),
        2: pa.array([-1] * rows, pa.int64()),
        3: pa.array([2**63 - 1] * rows, pa.int64()),
        4: pa.array([[]] * rows, pa.list_(pa.string())),
    }
    if how in columns:
        table = table.set_column(index, name, columns[how])
    elif how == 5:
        table = table.drop_columns([name])
    elif how == 6:
        table = pa.concat_tables([table, table])
    else:
        table = table.slice(0, plan.number(rows + 1))
    pq.write_table(table, path)


def grow(plan: Plan, run: Path) -> None:
    """Make a table huge in memory and small on disk: nulls, or one value again and again."""
    path = choose_table(plan, run)
    try:
        table = pq.read_table(path)
    except (OSError, pa.ArrowException):
        return
    column, is_null = plan.number(table.num_columns), plan.number(2) == 0
    grow_column(table, table.schema.names[column], path, is_null=is_null)


def grow_column(table: pa.Table, name: str, path: Path, *, is_null: bool) -> None:
    """Write the table with GROWN_BYTES of nulls or of one value in this column."""
    index, kind = table.schema.get_field_index(name), table.schema.field(name).type
    is_text = pa.types.is_string(kind) and not is_null
    rows = GROWN_BYTES // (len(LONG_TEXT) if is_text else 8)
    if is_null or not table.num_rows:
        grown = pa.table([pa.nulls(rows, one) for one in table.schema.types], table.schema.names)
    else:
        grown = table.take(pa.array([0] * rows))
    if is_text:
        grown = grown.set_column(index, name, pa.repeat(LONG_TEXT, rows))
    pq.write_table(grown, path)


def files_of(run: Path) -> list[Path]:
    return sorted(path for path in run.rglob("*") if path.is_file() and not path.is_symlink())


def choose_file(plan: Plan, run: Path) -> Path:
    files = files_of(run)
    return files[plan.number(len(files))] if files else make_file(run)


def choose_table(plan: Plan, run: Path) -> Path:
    tables = [path for path in files_of(run) if path.suffix == ".parquet"]
    return tables[plan.number(len(tables))] if tables else make_file(run)


def make_file(run: Path) -> Path:
    path = run / "summary.json"
    if not path.is_dir():
        path.unlink(missing_ok=True)
        path.write_text("{}")
        return path
    path = run / "other"
    path.write_text("{}")
    return path
