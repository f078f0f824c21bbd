"""OUTPUT and the directory of a run: written in one step, locked, pruned, and damage told in sentences."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from support import report_stories as told

from auditor.errors import OutputError
from auditor.evidence import run_directory
from auditor.evidence.newest_run import LATEST
from auditor.evidence.run_directory import LOCK, Output, Place, place, write_json
from auditor.first_checker.population import LastPopulation
from auditor.model.cluster import ClusterFacts
from auditor.model.evidence import Terms
from auditor.model.finding import Kind
from auditor.summary.about import About
from auditor.summary.previous_run import read_findings, read_previous, read_summary
from auditor.summary.run_summary import NO_PREVIOUS

NUMBERS = pa.schema([("n", pa.int64()), ("word", pa.string())])
LINE_TIMEOUT_S = 30
NAMES = [f"run-2026010{day}T030000Z-{day:06x}" for day in range(1, 6)]


@pytest.fixture
def root(tmp_path: Path) -> Place:
    """An OUTPUT that can be written to."""
    found = place(str(tmp_path / "audits"))
    found.create()
    return found


CLUSTER = {"metadata_service_uri": "zk://h:2181/ledgers", "instance_id": "inst"}
FACTS = ClusterFacts("zk://h:2181/ledgers", ("h:2181",), "/ledgers", "hierarchical", "inst", False, None)


def finished(root: Place, name: str, **summary: object) -> Place:
    """A run with a summary."""
    run = Output(root).start(name.removeprefix("run-"))
    write_json(run, "summary.json", {"cluster": CLUSTER, **summary})
    return run


def rows(*numbers: int) -> pa.Table:
    return pa.table({"n": numbers, "word": [str(n) for n in numbers]}, schema=NUMBERS)


def test_a_file_is_written_whole_and_leaves_nothing_beside_it(root: Place, tmp_path: Path):
    """The old one or the new one: never half of it, and no leftovers."""
    root.write_text("a.txt", "old")
    root.write_text("a.txt", "neu\n")
    assert "neu\n" == root.read_text("a.txt")
    assert ["a.txt"] == [path.name for path in (tmp_path / "audits").iterdir()]


def test_what_a_dead_run_lacks_is_none_and_no_rows(root: Place):
    """A missing file is None; a missing table is empty, with its columns, for whoever said that it may be missing."""
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
    """Each write is one file more; reading, streaming and counting see all of them, filtered where told."""
    root.write_table("evidence/numbers", rows(1, 2), "a")
    root.write_table("evidence/numbers", rows(3).to_batches()[0], "b")
    assert [1, 2, 3] == sorted(root.read_table("evidence/numbers", NUMBERS)["n"].to_pylist())
    assert [2, 3] == sorted(root.read_table("evidence/numbers", NUMBERS, ds.field("n") > 1)["n"].to_pylist())
    assert 2 == root.count("evidence/numbers", NUMBERS, ds.field("n") > 1)
    assert 3 == sum(batch.num_rows for batch in root.stream("evidence/numbers", NUMBERS, ["n"]))


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


@pytest.mark.parametrize("text", ["gopher://host/x", "etcd://host/x"])
def test_a_uri_of_no_file_system_is_a_sentence(text: str):
    """What was given, and that it cannot be used."""
    with pytest.raises(OutputError, match=f"cannot use {text}"):
        place(text)


def test_a_local_path_and_its_uri_are_one_place(tmp_path: Path):
    """Relative, absolute, or as a URI: Spark is given a URI in any case."""
    assert (str(tmp_path), tmp_path.as_uri()) == (place(str(tmp_path)).path, place(str(tmp_path)).uri)
    assert str(tmp_path) == place(tmp_path.as_uri()).path
    assert place("audits").path == str(Path.cwd() / "audits")


def test_an_output_that_cannot_be_written_is_noticed_before_the_run(tmp_path: Path):
    """A file in its way, now and not after an hour."""
    (tmp_path / "audits").write_text("a file")
    with (
        pytest.raises(OutputError, match=r"cannot write (to )?file:.*audits"),
        Output(place(str(tmp_path / "audits"))).hold_lock(),
    ):
        pass


def test_a_full_disk_is_noticed_before_the_run(root: Place, monkeypatch: pytest.MonkeyPatch):
    """An empty lock file can still be made there: a run's files cannot."""

    def full(place: Place, name: str, text: str) -> None:
        raise OutputError(f"cannot write {place.uri}/{name}: no space left on device")

    monkeypatch.setattr(Place, "write_text", full)
    with pytest.raises(OutputError, match="no space left"), Output(root).hold_lock():
        pass


@pytest.fixture
def without_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits for a lock."""
    monkeypatch.setattr(run_directory, "LOCK_WAIT_S", 0.0)


def test_a_lock_that_is_released_soon_is_waited_for(root: Place):
    """The JVM of a run that was killed holds the lock for a moment longer; the next run starts all the same."""
    held = Output(root).hold_lock()
    held.__enter__()
    release = threading.Timer(0.3, held.__exit__, (None, None, None))
    release.start()
    with Output(root).hold_lock():
        pass
    release.join()


@pytest.mark.usefixtures("without_waiting")
def test_a_run_that_finds_the_lock_held_touches_nothing(root: Place, tmp_path: Path):
    """Nobody else writes or removes the file with which a run tries its directory."""
    output = Output(root)
    with output.hold_lock():
        before = tmp_path / "audits" / ".writable"
        before.write_text("of the run at work")
        with pytest.raises(OutputError, match="another run is at work"), output.hold_lock():
            pass
        assert "of the run at work" == before.read_text()


@pytest.mark.usefixtures("without_waiting")
def test_two_runs_at_once_are_noticed(root: Place):
    """The second is told which lock, and what to do; afterwards the lock is free."""
    output = Output(root)
    with (
        output.hold_lock(),
        pytest.raises(OutputError, match=rf"another run is at work in .*{LOCK}.*another --output"),
        output.hold_lock(),
    ):
        pass
    with output.hold_lock():
        pass


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM])
def test_a_lock_lapses_with_its_process(root: Place, end: signal.Signals):
    """Whatever ended the run, the next one starts: no stale lock file has to be removed by hand."""
    program = (
        "import sys, time\nfrom auditor.evidence.run_directory import Output, place\n"
        f"with Output(place({root.path!r})).hold_lock():\n    print('held', flush=True)\n    time.sleep({LINE_TIMEOUT_S})\n"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert "held\n" == holder.stdout.readline()
        with pytest.MonkeyPatch.context() as patch, pytest.raises(OutputError):
            patch.setattr(run_directory, "LOCK_WAIT_S", 0.0)
            with Output(root).hold_lock():
                pass
        os.kill(holder.pid, end)
        holder.wait(LINE_TIMEOUT_S)
        with Output(root).hold_lock():
            pass


def test_the_newest_finished_run_is_the_one_that_was_published(root: Place):
    """Not the newest directory: a run that died leaves the old one in place."""
    output = Output(root)
    assert output.latest() is None
    output.publish(finished(root, NAMES[0]))
    output.start(NAMES[1].removeprefix("run-"))
    latest = output.latest()
    assert latest is not None
    assert latest.path.endswith(NAMES[0])


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "7", '{"run": 7}', '{"run": "../../etc"}', '{"run": "run-x"}', '{"other": 1}', "\x00"]
)
def test_a_latest_that_cannot_be_read_counts_as_none(root: Place, text: str):
    """Counters start anew; a run is not lost over it, and nothing outside OUTPUT is opened."""
    root.write_text(LATEST, text)
    assert Output(root).latest() is None
    assert NO_PREVIOUS == read_previous(Output(root), FACTS)


def test_counters_go_on_from_the_last_finished_run(root: Place):
    """Totals, request totals, and the ids of its findings."""
    totals, requests = {"METADATA_MALFORMED": 7}, {"bookie_requests": {"answered": 9, "failed": 1}}
    run = finished(root, NAMES[0], totals=totals, request_totals=requests)
    found = [told.finding(Kind.METADATA_MALFORMED, ledger_id) for ledger_id in (7, 8)]
    run.write_text("findings.jsonl", "".join(json.dumps(one) + "\n" for one in found))
    Output(root).publish(run)
    previous = read_previous(Output(root), FACTS)
    known = {(one["id"], one["kind"]) for one in found}
    assert (totals, requests, known) == (previous.totals, previous.request_totals, previous.findings)
    assert NO_PREVIOUS == read_previous(Output(root), replace(FACTS, instance_id="another cluster"))


@pytest.mark.parametrize(
    ("expected", "changes"),
    [
        (LastPopulation("r1", "2026-01-01T03:00:00Z", 812, 50), {}),
        (None, {"partial": True}),
        (None, {"ledgers": {}}),
        (None, {"run_id": None}),
    ],
)
def test_the_last_runs_number_of_ledgers_is_known(root: Place, expected: LastPopulation | None, changes: dict[str, object]):
    """Where that run looked at the whole cluster and says how many there were; its totals count all the same."""
    told = {"run_id": "r1", "finished_at": "2026-01-01T03:00:00Z", "ledgers": {"listed": 812}, "totals": {"LEDGER_STUCK": 1}}
    Output(root).publish(finished(root, NAMES[0], **(told | changes)))
    previous = read_previous(Output(root), FACTS)
    assert (expected, 1) == (previous.population(50), previous.totals["LEDGER_STUCK"])


@pytest.mark.parametrize(
    ("same", "theirs"),
    [
        (True, {"root": "/ledgers", "hosts": ["h2:2181", "h:2181"]}),
        (False, {"root": "/other", "hosts": ["h2:2181", "h:2181"]}),
        (False, {"root": "/ledgers", "hosts": ["h:2181"]}),
        (False, {}),
    ],
)
def test_a_cluster_without_an_id_is_told_by_its_root_and_hosts(root: Place, same: bool, theirs: dict[str, object]):
    """Two old clusters without an instance id are not one."""
    run = finished(root, NAMES[0], totals={"LEDGER_STUCK": 7})
    cluster = {"metadata_service_uri": "zk://h:2181,h2:2181/ledgers", "instance_id": None, **theirs}
    write_json(run, "summary.json", {"cluster": cluster, "totals": {"LEDGER_STUCK": 7}})
    Output(root).publish(run)
    previous = read_previous(Output(root), replace(FACTS, instance_id=None, hosts=("h:2181", "h2:2181")))
    assert same == (previous != NO_PREVIOUS)


def test_runs_that_died_are_not_kept_instead_of_finished_ones(root: Place):
    """A month of failures does not cost the history: what died goes when it is older than the oldest run kept."""
    for name in (NAMES[0], NAMES[2]):
        finished(root, name)
    for name in (NAMES[1], NAMES[3], NAMES[4]):
        root.files.create_dir(f"{root.path}/{name}")
    Output(root).publish(root / NAMES[2])
    assert [] == Output(root).prune(2)
    assert [NAMES[0], NAMES[1]] == Output(root).prune(1)


@pytest.mark.parametrize(
    ("name", "text"), [("summary.json", "{"), ("summary.json", "[]"), ("findings.jsonl", '{"id": "a"}\n{')]
)
def test_a_damaged_last_run_does_not_cost_this_one(root: Place, name: str, text: str):
    """It is read at the end of a run: counters start anew, and the run is published."""
    run = finished(root, NAMES[0], totals={"METADATA_MALFORMED": 7})
    run.write_text(name, text)
    Output(root).publish(run)
    assert NO_PREVIOUS == read_previous(Output(root), FACTS)


@pytest.mark.parametrize(
    ("kept", "keep", "latest"),
    [
        (NAMES[3:], 2, NAMES[4]),
        (NAMES[4:], 1, NAMES[4]),
        (NAMES, 0, NAMES[4]),
        (NAMES, 9, NAMES[4]),
        ([NAMES[0], *NAMES[3:]], 2, NAMES[0]),
        (NAMES[3:], 2, None),
    ],
)
def test_old_runs_go_and_the_newest_finished_one_never(root: Place, kept: list[str], keep: int, latest: str | None):
    """0 keeps all; whatever is no run's directory stays."""
    for name in NAMES:
        finished(root, name)
    for name in ("mine", "run-of-mine", "run-20260101T030000Z-XYZ"):
        root.files.create_dir(f"{root.path}/{name}")
    if latest:
        Output(root).publish(root / latest)
    removed = Output(root).prune(keep)
    assert sorted(set(NAMES) - set(kept)) == removed
    left = {path.name for path in Path(root.path).iterdir() if path.is_dir()}
    assert {*kept, "mine", "run-of-mine", "run-20260101T030000Z-XYZ"} == left


@pytest.mark.parametrize(("text", "says"), [("{", "is not JSON"), ("[]", "is no JSON object")])
def test_a_damaged_summary_is_a_sentence(root: Place, text: str, says: str):
    """Which file, and that the directory is damaged; without one the run did not finish."""
    run = Output(root).start("20260101T030000Z-000001")
    assert read_summary(run) is None
    assert [] == read_findings(run)
    run.write_text("summary.json", text)
    with pytest.raises(OutputError, match=f"summary.json {says}.*damaged"):
        read_summary(run)


def test_json_for_people_is_valid_and_ascii(root: Place):
    """Indented, one object, a newline at its end; what JSON cannot say is refused."""
    write_json(root, "a.json", {"word": "é", "n": [1]})
    text = root.read_text("a.json")
    assert text is not None
    assert {"word": "é", "n": [1]} == json.loads(text)
    assert (True, "\n") == (text.isascii(), text[-1])
    with pytest.raises(ValueError, match="JSON"):
        write_json(root, "b.json", {"n": float("nan")})


def test_what_a_run_is_judged_by_reads_back(root: Place):
    """run.json to the field, and a foreign one is refused in a sentence."""
    facts = ClusterFacts("zk://h:1/ledgers", ("h:1",), "/ledgers", "flat", None, True, 5)
    about = About("20260101T030000Z-000001", "2026-01-01T03:00:00Z", facts, Terms(1, 2, 3, 4), "warning", False)
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


def test_a_text_is_on_the_disk_before_it_gets_its_name(root: Place, monkeypatch: pytest.MonkeyPatch):
    """After a loss of power there is the old file or the new one, and never an empty one under its name."""
    root.write_text("a.txt", "old")
    seen: list[tuple[str, str | None]] = []
    real = os.fsync

    def watched(descriptor: int) -> None:
        seen.append((Path(f"/proc/self/fd/{descriptor}").readlink().name, root.read_text("a.txt")))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", watched)
    root.write_text("a.txt", "new")
    assert [(".a.txt.tmp", "old"), ("audits", "new")] == seen
