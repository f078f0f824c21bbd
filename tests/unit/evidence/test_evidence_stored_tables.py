"""How much a run stored of each table, and what is said where some of it is lost."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from auditor.errors import OutputError
from auditor.evidence.run_directory import Place, place
from auditor.evidence.run_tables import KEPT, count_stored, require_stored
from auditor.model.summary import StoredTable

ROWS = pa.table({"ledger_id": [1, 2, 3]})


@pytest.fixture
def run(tmp_path: Path) -> Place:
    """Return a run with two files of answers, one of verdicts, and a mark of Spark."""
    run = place(str(tmp_path / "run"))
    for name, file in (("evidence/answers", "a"), ("evidence/answers", "b"), ("verdicts", "kept")):
        run.write_table(name, ROWS, file)
    (run / "evidence/answers").write_text("_SUCCESS", "")
    return run


def test_each_table_is_counted_by_files_and_bytes(run: Place) -> None:
    """Files in folders of a table belong to it. Marks of Spark are not counted."""
    sizes = run.file_sizes(*KEPT)
    stored = count_stored({**sizes, "evidence/reads/part/c.parquet": 7})
    answers = sizes["evidence/answers/a.parquet"] + sizes["evidence/answers/b.parquet"]
    assert StoredTable(2, answers) == stored["evidence/answers"]
    assert StoredTable(1, 7) == stored["evidence/reads"]
    assert ["evidence/answers", "evidence/reads", "verdicts"] == list(stored)


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


@pytest.mark.parametrize(
    ("name", "harm", "says"),
    [
        ("evidence/answers/b.parquet", Path.unlink, "evidence/answers has 1 file of"),
        ("verdicts/kept.parquet", Path.unlink, "verdicts has 0 files of 0 bytes"),
        ("verdicts/kept.parquet", truncate, "and the run stored 1 file of"),
        ("verdicts/new.parquet", Path.touch, "verdicts has 2 files of"),
        ("evidence/more/new.parquet", Path.touch, "and the run stored 0 files of 0 bytes"),
    ],
)
def test_a_table_that_is_not_as_stored_is_named(
    run: Place, name: str, harm: Callable[[Path], None], says: str
) -> None:
    """A lost file, a truncated one, and one that the run did not write."""
    stored = count_stored(run.file_sizes(*KEPT))
    require_stored(run, stored)
    path = Path(run.path, name)
    path.parent.mkdir(exist_ok=True)
    harm(path)
    with pytest.raises(OutputError, match=f"has lost a part of what the run stored.*{says}"):
        require_stored(run, stored)


def test_a_summary_that_does_not_say_it_is_accepted(run: Place) -> None:
    """Such as that of a bundle."""
    require_stored(run, None)
