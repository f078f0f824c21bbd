"""What a growing table gained since it was read last."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from auditor.evidence.run_directory import Place, place
from auditor.evidence.run_tables import NewRows

NUMBERS = pa.schema([("n", pa.int64()), ("word", pa.string())])


@pytest.fixture
def run(tmp_path: Path) -> Place:
    return place(str(tmp_path / "run"))


def write(run: Place, name: str, file: str, *numbers: int) -> None:
    rows = pa.table({"n": numbers, "word": [str(n) for n in numbers]}, schema=NUMBERS)
    run.write_table(name, rows, file)


def numbers(reader: NewRows) -> list[int]:
    return [n for batch in reader.batches(["n"]) for n in batch["n"].to_pylist()]


def test_each_file_is_read_once(run: Place) -> None:
    """Also those in directories below, in the order of their names; each reader remembers for
    itself.
    """
    reader, other = (NewRows(run, "evidence/numbers", NUMBERS) for _ in range(2))
    assert [] == numbers(reader)
    write(run, "evidence/numbers/X=1", "a", 3)
    write(run, "evidence/numbers", "b", 1, 2)
    write(run, "evidence/others", "c", 9)
    assert [3, 1, 2] == numbers(reader)
    assert [] == numbers(reader)
    write(run, "evidence/numbers", "a", 4)
    assert [4] == numbers(reader)
    assert [3, 4, 1, 2] == numbers(other)


def test_a_column_that_a_file_lacks_is_null(run: Place) -> None:
    """An older run did not write it."""
    run.write_table("numbers", pa.table({"n": [1]}), "a")
    (batch,) = NewRows(run, "numbers", NUMBERS).batches(NUMBERS.names)
    assert {"n": [1], "word": [None]} == batch.to_pydict()


def test_only_the_named_columns_are_read(run: Place) -> None:
    """The evidence has wide columns that a count does not need."""
    write(run, "numbers", "a", 1)
    (batch,) = NewRows(run, "numbers", NUMBERS).batches(("word",))
    assert {"word": ["1"]} == batch.to_pydict()


@pytest.mark.parametrize("name", ["_temporary/0", ".hidden"])
def test_what_is_not_committed_is_no_row(run: Place, name: str) -> None:
    """It is read once it is where it belongs."""
    write(run, f"numbers/{name}", "a", 1)
    (run / "numbers").write_text("_SUCCESS", "")
    (run / "numbers").write_text(".a.parquet.crc", "crc")
    (run / "numbers").write_text("notes.txt", "text")
    reader = NewRows(run, "numbers", NUMBERS)
    assert [] == numbers(reader)
    write(run, "numbers", "a", 1)
    assert [1] == numbers(reader)


def test_a_file_of_which_not_all_was_taken_is_read_again(run: Place) -> None:
    """A reader that stopped in the middle of it counted none of it."""
    write(run, "numbers", "a", 1)
    reader = NewRows(run, "numbers", NUMBERS)
    next(iter(reader.batches(["n"])))
    assert [1] == numbers(reader)
