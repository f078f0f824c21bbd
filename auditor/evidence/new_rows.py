"""Read the rows that a growing table of a run gained since the last call."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from auditor.evidence.run_directory import Place


@dataclass(slots=True)
class NewRows:
    """Reads each file of a table once. Files are added to the table and never changed.

    Each call reads the files that were added since the last. Memory: the names of the files, and
    one batch of rows.
    """

    run: Place
    name: str
    schema: pa.Schema
    _known: set[str] = field(default_factory=set)

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield the named columns of the files that no earlier call read. Raises OutputError.

        Skips checksums and what Spark has not committed (`_temporary`).
        """
        new = self.run.files_in(self.name) - self._known
        for file in sorted(filter(_has_rows, new)):
            yield from self.run.stream(file, self.schema, list(columns))
            self._known.add(file)


def _has_rows(name: str) -> bool:
    return name.endswith(".parquet") and not any(part[0] in "._" for part in name.split("/"))
