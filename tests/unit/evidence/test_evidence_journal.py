"""The journal of a run: complete stages stay, incomplete ones are removed before the run is
resumed.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from auditor.errors import OutputError
from auditor.evidence.journal import JOURNAL, Journal, entries, forget
from auditor.evidence.run_directory import Place, place

ROWS = pa.table({"ledger_id": [1]})


@pytest.fixture
def run(tmp_path: Path) -> Place:
    return place(str(tmp_path / "run"))


def writes(run: Place, name: str, file: str = "part-0") -> None:
    run.write_table(name, ROWS, file)


def tables(run: Place) -> set[str]:
    return run.files_in("evidence", "steps", "verdicts")


def test_a_stage_is_done_once(run: Place):
    """A repeated call, also after the run was interrupted, returns the stage's result, and no work
    is done.
    """
    calls: list[str] = []

    def work(word: str) -> dict[str, str]:
        calls.append(word)
        writes(run, "evidence/listing")
        return {"word": word}

    journal = Journal(run)
    results = [
        journal.run_once("listing", work, "first"),
        journal.run_once("listing", work, "second"),
    ]
    again = Journal.reopen(run).run_once("listing", work, "third")
    assert [{"word": "first"}] * 3 == [*results, again]
    assert ["first"] == calls


def test_what_a_stage_left_half_written_is_removed(run: Place):
    """Files that no stage is known to have written go; the others stay, with the checksums Hadoop
    keeps beside them.
    """
    journal = Journal(run)
    journal.run_once("metadata", writes, run, "evidence/ledgers")
    writes(run, "evidence/ledgers", "part-1")
    writes(run, "evidence/ledgers/_temporary/0", "part-2")
    writes(run, "steps/look-1-judging-0")
    for name in (".part-0.parquet.crc", ".part-1.parquet.crc"):
        (run / "evidence/ledgers").write_text(name, "crc")
    Journal.reopen(run)
    assert {"evidence/ledgers/part-0.parquet", "evidence/ledgers/.part-0.parquet.crc"} == tables(
        run
    )


def test_what_another_thread_writes_for_a_later_stage_belongs_to_that_one(run: Place):
    """A run that dies before the later stage ends removes it, and does that stage again."""
    journal = Journal(run)
    journal.apart = "evidence/ledgers"
    writes(run, "evidence/ledgers")
    journal.run_once("lists", writes, run, "evidence/ledgers-of-another-name")
    Journal.reopen(run)
    assert {"evidence/ledgers-of-another-name/part-0.parquet"} == tables(run)
    writes(run, "evidence/ledgers")
    journal.apart = ""
    journal.run_once("metadata", dict)
    Journal.reopen(run)
    assert "evidence/ledgers/part-0.parquet" in tables(run)


def test_a_stage_that_raised_is_not_done(run: Place):
    """It is done again, now or by a resumed run."""

    def fails() -> None:
        writes(run, "evidence/answers")
        raise OSError("the disk is full")

    journal = Journal(run)
    with pytest.raises(OSError, match="the disk is full"):
        journal.run_once("lists", fails)
    assert not journal.has("lists")
    again = Journal.reopen(run)
    again.run_once("lists", writes, run, "evidence/answers", "part-9")
    assert {"evidence/answers/part-9.parquet"} == tables(run)


def test_what_was_odd_is_not_forgotten(run: Place):
    """The sentences of all stages are kept, in order; a resumed run has those of the stages that it
    does not repeat.
    """
    Journal(run).run_once("metadata", lambda: {"problems": ["a stray mark"]})
    again = Journal.reopen(run)
    again.run_once("lists", dict)
    again.run_once("verdicts", lambda: {"problems": ["judged again"]})
    assert ["a stray mark", "judged again"] == again.problems


def test_how_long_it_took_goes_on(run: Place):
    """They are the seconds of the interrupted run, as of its last stage."""
    journal = Journal(run, seconds=lambda: {"load": 2.5})
    journal.run_once("listing", writes, run, "evidence/listing")
    assert {"load": 2.5} == Journal.reopen(run).began_with


def test_stages_are_read_in_the_order_they_were_done(run: Place):
    """Ten and more: the last one's seconds count."""
    seconds = {"load": 0.0}
    journal = Journal(run, seconds=lambda: dict(seconds))
    for number in range(12):
        seconds["load"] = float(number)
        journal.run_once(f"stage {number}", writes, run, f"steps/{number}")
    assert {"load": 11.0} == Journal.reopen(run).began_with
    assert 12 == len(tables(run))


def test_what_the_journal_names_and_is_not_there_ends_it(run: Place):
    """A table that lost a file has less than the run heard, so it is not judged."""
    Journal(run).run_once("lists", writes, run, "evidence/answers")
    run.remove_file("evidence/answers/part-0.parquet")
    with pytest.raises(OutputError, match=r"part-0\.parquet is gone, which the journal names"):
        Journal.reopen(run)


def test_a_file_of_another_size_is_not_as_written(run: Place):
    """A truncated file may still be read, with fewer rows. Checksums of Hadoop may go."""
    journal = Journal(run)
    journal.run_once("lists", writes, run, "evidence/answers")
    file = Path(run.path, "evidence/answers/part-0.parquet")
    whole = file.read_bytes()
    assert "" == journal.lost()
    file.write_bytes(whole[:-1])
    said = f"part-0.parquet has {len(whole) - 1} bytes, and the journal names {len(whole)}"
    assert said in journal.lost()
    with pytest.raises(OutputError, match=said):
        Journal.reopen(run)
    file.unlink()
    assert "is gone, which the journal names; find out what removes files" in journal.lost()


def test_marks_beside_a_table_are_not_missed(run: Place):
    """Spark's mark and Hadoop's checksum hold no rows."""
    (run / "evidence/answers").create()
    journal = Journal(run)
    journal.run_once("lists", (run / "evidence/answers").write_text, "_SUCCESS", "")
    run.remove_file("evidence/answers/_SUCCESS")
    assert "" == journal.lost()


def test_a_journal_is_forgotten_from_its_end(run: Place, monkeypatch: pytest.MonkeyPatch):
    """If that is interrupted, the rest is the journal of the run's first stages."""
    journal = Journal(run)
    for number in range(3):
        journal.run_once(f"stage {number}", writes, run, f"steps/{number}")
    removed: list[str] = []
    with monkeypatch.context() as patch:
        patch.setattr(Place, "remove_file", lambda _, name: removed.append(name))
        patch.setattr(Place, "remove", lambda *_: None)
        forget(run)
    assert ["journal/000002.json", "journal/000001.json", "journal/000000.json"] == removed
    forget(run)
    assert set() == run.files_in("journal")


@pytest.mark.parametrize("text", ["", "{", "[]", '{"stage": "listing"}'])
def test_a_damaged_journal_is_a_sentence(run: Place, text: str):
    """Nothing is guessed, and nothing of the run removed."""
    writes(run, "evidence/listing")
    (run / "journal").create()
    (run / "journal").write_text("000000.json", text)
    with pytest.raises(OutputError, match=r"000000\.json is damaged .* start a new one"):
        Journal.reopen(run)
    assert {"evidence/listing/part-0.parquet"} == tables(run)


def test_a_journal_knows_which_stages_are_complete(run: Place):
    """None before the first; afterwards those that ended, and no other."""
    journal = Journal(run)
    assert not journal.has("listing")
    journal.run_once("listing", writes, run, "evidence/listing")
    assert (True, False) == (journal.has("listing"), journal.has("metadata"))


def test_each_stage_names_the_files_that_it_wrote_itself(run: Place):
    """A file of an earlier stage is not named again, also by a stage that is called with
    keywords.
    """
    journal = Journal(run)
    for stage, file in (("listing", "part-0"), ("metadata", "part-1"), ("lists", "part-2")):
        journal.run_once(stage, writes, run, "evidence/ledgers", file=file)
    expected = [[f"evidence/ledgers/part-{number}.parquet"] for number in range(3)]
    assert expected == [list(entry["files"]) for entry in entries(run)]


def test_a_forgotten_journal_leaves_no_directory(run: Place):
    """The run's tables stay."""
    Journal(run).run_once("listing", writes, run, "evidence/listing")
    forget(run)
    assert not (Path(run.path) / JOURNAL).exists()
    assert {"evidence/listing/part-0.parquet"} == tables(run)
