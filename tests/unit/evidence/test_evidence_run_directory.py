"""The directory of a run: written in one step, and damage reported in sentences."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from pyarrow import fs

from auditor.errors import OutputError
from auditor.evidence import run_directory
from auditor.evidence.output_directory import Output
from auditor.evidence.run_directory import Place, place, write_json, write_ledger_files
from auditor.model.cluster import ClusterFacts
from auditor.model.evidence import Terms
from auditor.summary.about import About

NUMBERS = pa.schema([("n", pa.int64()), ("word", pa.string())])
LINE_TIMEOUT_S = 30
NAMES = [f"run-2026010{day}T030000Z-{day:06x}" for day in range(1, 6)]


@pytest.fixture
def root(tmp_path: Path) -> Place:
    """An OUTPUT that can be written to."""
    found = place(str(tmp_path / "audits"))
    found.create()
    return found


def rows(*numbers: int) -> pa.Table:
    return pa.table({"n": numbers, "word": [str(n) for n in numbers]}, schema=NUMBERS)


def test_rows_are_written_as_they_come(root: Place):
    """One file, which is there when the last row is in it."""

    def batches() -> Iterator[pa.RecordBatch]:
        yield from rows(1, 2).to_batches()
        yield from rows(3).to_batches()

    root.write_stream("numbers", batches(), NUMBERS, "some")
    root.write_stream("none", iter(()), NUMBERS, "none")
    assert rows(1, 2, 3) == root.read_table("numbers", NUMBERS)
    assert rows() == root.read_table("none", NUMBERS)
    assert {"numbers/some.parquet", "none/none.parquet"} == root.files_in("numbers", "none")


def test_rows_that_end_too_early_leave_no_file(root: Place):
    """What is raised goes through; half a table would pass for a whole one."""

    def batches() -> Iterator[pa.RecordBatch]:
        yield from rows(1, 2).to_batches()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        root.write_stream("numbers", batches(), NUMBERS, "some")
    assert set() == root.files_in("numbers")


@pytest.mark.parametrize("error", [OSError, RuntimeError, pa.ArrowInvalid])
def test_rows_that_end_too_early_say_why_before_all(
    root: Place, monkeypatch: pytest.MonkeyPatch, error: type[Exception]
):
    """A writer that cannot even be closed, and a file that is not there, hide nothing of it."""

    class Writer:
        def __init__(self, *_: object, **__: object) -> None:
            """Write nothing."""

        def close(self) -> None:
            raise error("the disk is gone")

    def batches() -> Iterator[pa.RecordBatch]:
        raise KeyboardInterrupt("stop")
        yield

    monkeypatch.setattr(run_directory.pq, "ParquetWriter", Writer)
    with pytest.raises(KeyboardInterrupt, match="stop"):
        root.write_stream("numbers", batches(), NUMBERS, "some")


def test_rows_go_to_the_file_system_of_the_output(tmp_path: Path):
    """Also where that is no local directory: an object store, for one."""
    elsewhere = Place(
        fs.SubTreeFileSystem(str(tmp_path), fs.LocalFileSystem()), "audits", "test://audits"
    )
    elsewhere.write_table("numbers", rows(1), "a")
    elsewhere.write_stream("numbers", rows(2).to_batches(), NUMBERS, "b")
    assert {"a.parquet", "b.parquet"} == {
        path.name for path in (tmp_path / "audits" / "numbers").iterdir()
    }
    assert rows(1, 2) == elsewhere.read_table("numbers", NUMBERS).sort_by("n")


def test_a_file_is_written_whole_and_leaves_nothing_beside_it(root: Place, tmp_path: Path):
    """The old one or the new one: never half of it, and no leftovers."""
    root.write_text("a.txt", "old")
    root.write_text("a.txt", "neu\n")
    assert "neu\n" == root.read_text("a.txt")
    assert ["a.txt"] == [path.name for path in (tmp_path / "audits").iterdir()]


def test_a_directory_is_made_with_those_above_it(root: Place):
    """And is named below them, by its path and by its URI; one that is there is no error."""
    deep = root / "a" / "b"
    assert (f"{root.path}/a/b", f"{root.uri}/a/b") == (deep.path, deep.uri)
    for _ in range(2):
        deep.create()
    assert Path(deep.path).is_dir()
    started = Output(root / "new").start("20260101T030000Z-000001")
    assert Path(started.path).is_dir()


def test_only_a_directory_is_a_table_and_only_a_file_a_file(root: Place):
    """What is not there is neither."""
    root.write_table("numbers", rows(1), "a")
    root.write_text("file", "text")
    names = ("numbers", "file", "nothing")
    assert [True, False, False] == [root.has_table(name) for name in names]
    assert [False, True, False] == [root.has_file(name) for name in names]


def test_a_file_system_that_is_not_local_is_used_alike():
    """Here one in memory: files, tables and runs are nowhere else, and nothing can be locked
    there.
    """
    output = Output(place("mock:///audits"))
    with output.hold_lock() as lock:
        assert lock.descriptor is None
        assert lock.problem is not None and "mock:///audits has no lock" in lock.problem
    run = output.start(NAMES[0].removeprefix("run-"))
    run.write_table("numbers", rows(1, 2), "a")
    run.write_text("a.txt", "text")
    assert (rows(1, 2), 2) == (run.read_table("numbers", NUMBERS), run.count("numbers", NUMBERS))
    assert ("text", {"numbers/a.parquet"}) == (run.read_text("a.txt"), run.files_in("numbers"))
    output.publish(run)
    assert run == output.latest()
    run.remove("numbers")
    assert not run.has_table("numbers")
    assert not Path("audits").exists()


def test_what_a_dead_run_lacks_is_none_and_no_rows(root: Place):
    """A missing file is None; a missing table is empty, with its columns, for whoever said that it
    may be missing.
    """
    assert root.read_text("nothing") is None
    lenient = replace(root, missing_is_empty=True)
    assert (0, NUMBERS.names, 0) == (
        lenient.read_table("nothing", NUMBERS).num_rows,
        lenient.read_table("nothing", NUMBERS).schema.names,
        lenient.count("nothing", NUMBERS),
    )
    assert [] == list((lenient / "deep").stream("nothing", NUMBERS, ["n"]))
    root.remove("nothing")


def test_a_table_that_was_written_and_is_not_there_is_an_error(root: Place):
    """What Spark wrote elsewhere must not pass for an empty cluster."""
    for read in (root.read_table, root.count):
        with pytest.raises(OutputError, match="is not there, although it was written"):
            read("nothing", NUMBERS)


@pytest.mark.parametrize("name", ["my runs", "a%20b", "größe", "a+b&c=d#e"])
def test_spark_and_this_process_mean_the_same_directory(tmp_path: Path, name: str):
    """The URI is the path itself: Hadoop does not decode what a URI would encode."""
    assert f"file://{tmp_path}/{name}" == place(f"{tmp_path}/{name}").uri


@pytest.mark.parametrize("name", ["a[b]", "{a}", "a*", "a?"])
def test_a_path_that_spark_would_take_for_a_pattern_is_refused(tmp_path: Path, name: str):
    """Said before anything is contacted."""
    with pytest.raises(OutputError, match="pattern"):
        place(f"{tmp_path}/{name}")


def test_tables_grow_file_by_file(root: Place):
    """Each write is one file more; reading, streaming and counting see all of them, filtered where
    reported.
    """
    root.write_table("evidence/numbers", rows(1, 2), "a")
    root.write_table("evidence/numbers", rows(3).to_batches()[0], "b")
    assert [1, 2, 3] == sorted(root.read_table("evidence/numbers", NUMBERS)["n"].to_pylist())
    assert [2, 3] == sorted(
        root.read_table("evidence/numbers", NUMBERS, ds.field("n") > 1)["n"].to_pylist()
    )
    assert 2 == root.count("evidence/numbers", NUMBERS, ds.field("n") > 1)
    assert 3 == sum(batch.num_rows for batch in root.stream("evidence/numbers", NUMBERS, ["n"]))


def test_only_the_columns_asked_for_are_read(root: Place):
    """All of the schema where none are named; a column that a file lacks is null."""
    root.write_table("numbers", rows(1).select(["n"]), "a")
    root.write_table("numbers", rows(2), "b")
    assert NUMBERS == root.read_table("numbers", NUMBERS).schema
    assert {1: None, 2: "2"} == {
        row["n"]: row["word"] for row in root.read_table("numbers", NUMBERS).to_pylist()
    }
    assert ["word"] == root.read_table("numbers", NUMBERS, columns=["word"]).schema.names
    assert [["n"]] * 2 == [batch.schema.names for batch in root.stream("numbers", NUMBERS, ["n"])]


def test_tables_are_compressed(root: Place):
    """With zstd, which halves the evidence against the default of Parquet's writers."""
    root.write_table("numbers", rows(1), "a")
    root.write_stream("numbers", rows(1).to_batches(), NUMBERS, "b")
    files = [pq.read_metadata(f"{root.path}/numbers/{name}.parquet") for name in ("a", "b")]
    assert ["ZSTD", "ZSTD"] == [metadata.row_group(0).column(0).compression for metadata in files]


def test_what_spark_had_not_committed_is_not_read(root: Place, tmp_path: Path):
    """A job that died leaves `_temporary`: no row of it counts."""
    root.write_table("numbers", rows(1), "a")
    root.write_table("numbers/_temporary/0", rows(9), "half")
    (tmp_path / "audits" / "numbers" / "._SUCCESS.crc").write_bytes(b"crc")
    assert [1] == root.read_table("numbers", NUMBERS)["n"].to_pylist()


def test_a_table_that_is_no_parquet_is_a_sentence(root: Place, tmp_path: Path):
    """Which table, and that it cannot be read."""
    (tmp_path / "audits" / "numbers").mkdir()
    (tmp_path / "audits" / "numbers" / "a.parquet").write_bytes(b"PAR1 not at all")
    with pytest.raises(OutputError, match=r"cannot read file:.*audits/numbers"):
        root.read_table("numbers", NUMBERS)


@pytest.mark.parametrize(
    ("character", "is_refused"),
    [("\ud7ff", False), ("\ud800", True), ("\udfff", True), ("\ue000", False)],
)
def test_a_path_that_is_not_valid_utf_8_is_refused(character: str, is_refused: bool):
    """Python stands a surrogate for each byte that it could not decode."""
    if is_refused:
        with pytest.raises(OutputError, match="not valid UTF-8"):
            place(f"/audits/{character}")
    else:
        assert f"/audits/{character}" == place(f"/audits/{character}").path


@pytest.mark.parametrize("end", ["", "/", "//"])
def test_a_uri_may_end_in_a_slash(end: str):
    """Runs are named below it with one."""
    found = place(f"mock:///audits/ofX{end}") / "run"
    assert ("audits/ofX/run", "mock:///audits/ofX/run") == (found.path, found.uri)


@pytest.mark.parametrize("scheme", ["s3", "s3a"])
def test_hadoops_name_of_s3_is_understood(scheme: str, monkeypatch: pytest.MonkeyPatch):
    """Spark is given the URI as it was named; to Arrow both are S3."""
    monkeypatch.setenv("AWS_REGION", "eu-central-1")
    found = place(f"{scheme}://bucket/s3a:/audits/")
    assert isinstance(found.files, fs.S3FileSystem)
    assert ("bucket/s3a:/audits", f"{scheme}://bucket/s3a:/audits") == (found.path, found.uri)


@pytest.mark.parametrize("text", ["gopher://host/x", "etcd://host/x"])
def test_a_uri_of_no_file_system_is_a_sentence(text: str):
    """What was given, and that it cannot be used."""
    with pytest.raises(OutputError, match=f"cannot use {text}"):
        place(text)


def test_a_local_path_and_its_uri_are_one_place(tmp_path: Path):
    """Relative, absolute, or as a URI: Spark is given a URI in any case."""
    assert (str(tmp_path), tmp_path.as_uri()) == (
        place(str(tmp_path)).path,
        place(str(tmp_path)).uri,
    )
    assert str(tmp_path) == place(tmp_path.as_uri()).path
    assert place("audits").path == str(Path.cwd() / "audits")


def test_ledger_files_are_read_as_they_were_written(root: Place):
    """An id a line, in the directories that their names say; for none, no directory is made."""
    write_ledger_files(root, {})
    assert [] == os.listdir(root.path)
    write_ledger_files(
        root, {"causes/deep/01.txt": np.array([7, 8]), "causes/02.txt": np.array([], np.int64)}
    )
    assert {"causes/deep/01.txt", "causes/02.txt"} == root.files_in("causes")
    assert ("7\n8\n", "") == (root.read_text("causes/deep/01.txt"), root.read_text("causes/02.txt"))


def test_json_for_people_is_valid_and_ascii(root: Place):
    """Indented, one object, a newline at its end; what JSON cannot say is refused."""
    write_json(root, "a.json", {"word": "é", "n": [1]})
    assert '{\n  "word": "\\u00e9",\n  "n": [\n    1\n  ]\n}\n' == root.read_text("a.json")
    with pytest.raises(ValueError, match="JSON"):
        write_json(root, "b.json", {"n": float("nan")})


def test_what_a_run_is_judged_by_reads_back(root: Place):
    """run.json to the field, and a foreign one is refused in a sentence."""
    facts = ClusterFacts("zk://h:1/ledgers", ("h:1",), "/ledgers", "flat", None, True, 5)
    about = About(
        "20260101T030000Z-000001",
        "2026-01-01T03:00:00Z",
        facts,
        Terms(1, 2, 3, 4),
        "warning",
        False,
    )
    write_json(root, "run.json", about.as_json())
    assert about == About.from_json(json.loads(root.read_text("run.json") or ""))
    for damage in (
        {},
        {**about.as_json(), "terms": {}},
        {**about.as_json(), "facts": {"hosts": []}},
        {**about.as_json(), "terms": 7},
    ):
        with pytest.raises(OutputError, match="not written by this version"):
            About.from_json(damage)


def test_a_text_is_on_the_disk_before_it_gets_its_name(
    root: Place, monkeypatch: pytest.MonkeyPatch
):
    """After a loss of power there is the old file or the new one, and never an empty one under its
    name.
    """
    root.write_text("a.txt", "old")
    seen: list[tuple[str, str | None]] = []
    real = os.fsync

    def watched(descriptor: int) -> None:
        seen.append((Path(f"/proc/self/fd/{descriptor}").readlink().name, root.read_text("a.txt")))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", watched)
    root.write_text("a.txt", "new")
    assert [(".a.txt.tmp", "old"), ("audits", "new")] == seen


@pytest.fixture
def elsewhere(tmp_path: Path) -> Place:
    """A directory on a file system that is not local, below one that is called like a mark."""
    (tmp_path / "_audits").mkdir()
    files = fs.SubTreeFileSystem(str(tmp_path), fs.LocalFileSystem())
    return Place(files, "_audits", "test://audits")


def test_elsewhere_a_table_is_its_files_without_what_spark_writes_beside_them(elsewhere: Place):
    """At any depth. Marks, and what a job had not committed, are not a part of it."""
    elsewhere.write_table("numbers", rows(1), "a")
    elsewhere.write_table("numbers/part", rows(2), "b")
    elsewhere.write_table("numbers/_temporary/0", rows(9), "half")
    (elsewhere / "numbers").write_text("._SUCCESS.crc", "crc")
    assert [1, 2] == sorted(elsewhere.read_table("numbers", NUMBERS)["n"].to_pylist())


def test_elsewhere_a_file_of_a_table_is_read_alone(elsewhere: Place):
    """A file that is not there, or a directory of that name, is an error and not an empty table."""
    elsewhere.write_table("numbers", rows(1), "a")
    elsewhere.write_table("numbers", rows(2), "b")
    (elsewhere / "numbers" / "c.parquet").create()
    assert rows(2) == elsewhere.read_table("numbers/b.parquet", NUMBERS)
    for name in ("c", "d"):
        with pytest.raises(OutputError, match="is not there, although it was written"):
            elsewhere.read_table(f"numbers/{name}.parquet", NUMBERS)


def test_elsewhere_a_table_without_files_is_empty_and_a_missing_one_is_an_error(elsewhere: Place):
    """Spark writes no file for no rows. Only a dead run may lack the directory."""
    (elsewhere / "numbers").create()
    assert 0 == elsewhere.count("numbers", NUMBERS)
    with pytest.raises(OutputError, match="is not there, although it was written"):
        elsewhere.count("nothing", NUMBERS)
    assert 0 == replace(elsewhere, missing_is_empty=True).count("nothing", NUMBERS)


def test_elsewhere_files_are_found_at_any_depth(elsewhere: Place):
    """A directory that is not there has none."""
    elsewhere.write_table("numbers/part", rows(1), "a")
    assert {"numbers/part/a.parquet"} == elsewhere.files_in("numbers", "nothing")


def test_a_command_names_a_local_directory_by_its_path(root: Place, elsewhere: Place):
    """Another by its URI."""
    assert (root.path, "test://audits") == (root.address, elsewhere.address)


@pytest.fixture
def object_store(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every file system counts as an object store."""
    monkeypatch.setattr(run_directory, "is_object_store", lambda _files: True)


@pytest.mark.usefixtures("object_store")
def test_an_object_is_written_under_its_own_name(elsewhere: Place, tmp_path: Path):
    """It appears when it is whole: no other name is needed."""
    (tmp_path / "_audits" / ".a.txt.tmp").mkdir()
    elsewhere.write_text("a.txt", "größe")
    assert "größe" == elsewhere.read_text("a.txt")


class Stubborn:
    """A file system that refuses so many deletions of a directory."""

    def __init__(self, refusals: int) -> None:
        self.refusals, self.asked = refusals, []

    asked: list[str]

    def get_file_info(self, path: str) -> fs.FileInfo:
        return fs.FileInfo(path, fs.FileType.Directory)

    def delete_dir(self, path: str) -> None:
        self.asked.append(path)
        if len(self.asked) <= self.refusals:
            raise OSError("directory not empty")


@pytest.mark.usefixtures("object_store")
@pytest.mark.parametrize("levels", [0, 1, 4])
def test_a_store_may_delete_a_directory_level_by_level(levels: int):
    """Each refusal has deleted one level of its files."""
    files = Stubborn(levels)
    Place(files, "bucket/audits", "s3a://bucket/audits").remove("run-1")
    assert ["bucket/audits/run-1"] * (levels + 1) == files.asked


@pytest.mark.usefixtures("object_store")
def test_a_store_that_deletes_nothing_is_a_sentence():
    """A directory of a run has LEVELS_MAX levels at most."""
    with pytest.raises(OutputError, match="cannot remove s3a://bucket/audits/run-1: directory not"):
        Place(Stubborn(5), "bucket/audits", "s3a://bucket/audits").remove("run-1")


def test_a_file_system_deletes_a_directory_at_once(monkeypatch: pytest.MonkeyPatch):
    """What it refuses once it refuses again."""
    files = Stubborn(1)
    monkeypatch.setattr(run_directory, "is_object_store", lambda _files: False)
    with pytest.raises(OutputError, match="cannot remove"):
        Place(files, "/audits", "hdfs://nn/audits").remove("run-1")
    assert ["/audits/run-1"] == files.asked


def test_only_a_local_path_depends_on_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Spark is given the whole path of it."""
    (tmp_path / "a*b").mkdir()
    monkeypatch.chdir(tmp_path / "a*b")
    with pytest.raises(OutputError, match="pattern"):
        place("audits")
    assert "mock:///audits" == place("mock:///audits").uri
