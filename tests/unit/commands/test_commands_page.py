"""report.html of a finished run: what it is read from, where it is written, and that no run fails
because of it.
"""

from __future__ import annotations

import io
import json
from pathlib import Path

import pyarrow as pa
import pytest
from faults.carried import summary_of
from faults.nights import Night, Nights
from structlog.testing import capture_logs
from support import report_stories
from support.page_elements import Elements
from support.page_stories import topic
from support.stored_run import store_run

from auditor.after.differences import Change
from auditor.after.page.contents import Lacking
from auditor.after.page.page_view import TOPICS_SHOWN_MAX
from auditor.after.page.pictures import LEDGERS_MAX
from auditor.after.page.reading import (
    COMPARED_MAX,
    HISTORY_RUNS_MAX,
    count_lacking,
    read_bytes_by_namespace,
    read_changes,
    read_contents,
    read_history,
    read_margin,
    read_topics,
)
from auditor.after.page.rendering import render_page
from auditor.commands import page as module
from auditor.commands.page import publish_page
from auditor.commands.report import report
from auditor.config import Layers, parse
from auditor.context import Context
from auditor.errors import ConfigError, OutputError
from auditor.evidence.rows import table
from auditor.evidence.run_directory import Place, place
from auditor.evidence.schemas import BOOKIES, LEDGERS, VERDICTS
from auditor.model.availability import Greeting
from auditor.model.cluster import ClusterFacts, Surroundings
from auditor.model.evidence import Terms
from auditor.model.finding import Kind
from auditor.model.summary import Summary
from auditor.stop import StopRequest
from auditor.summary.about import About
from auditor.telemetry import log
from auditor.telemetry.progress import Silent

LOST = Night({1: Kind.ENTRY_WITHOUT_REPLICA})
FACTS = ClusterFacts("zk://h/ledgers", ("h",), "/ledgers", "flat", "inst", False, None)


def context(out: io.StringIO) -> Context:
    settings = parse(Layers(flags={}), command="report")
    return Context(settings, out, log.setup(stream=io.StringIO()), Silent(), StopRequest())


def run_of(home: Path, number: int, **changes: object) -> Place:
    """Write the directory of a finished run without evidence, and return it."""
    directory = place(str(home / f"run-202601{number:02d}T030000Z-00000{number % 10}"))
    directory.create()
    began = f"2026-01-{number:02d}T03:00:00Z"
    summary = report_stories.summary(run_id=f"{number}", started_at=began).as_json() | changes
    directory.write_text("summary.json", json.dumps(summary))
    directory.write_text("findings.jsonl", "")
    directory.write_text("run.json", "{}")
    return directory


def read(directory: Place) -> Summary:
    found = json.loads(directory.read_text("summary.json") or "")
    assert isinstance(found, dict)
    return Summary.from_json(found)


def test_every_run_leaves_its_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The page is written after the run is published. It has the outcome, and the history of
    earlier runs.
    """
    nights = Nights(tmp_path, monkeypatch)
    nights.run(Night({}))
    effects = nights.run(LOST)
    assert effects.index("write_text latest.json") < effects.index("write_text report.html")
    (run,) = (tmp_path / "audits").glob(f"run-{nights.begun[-1]}")
    page = Elements((run / "report.html").read_text())
    assert "VIOLATED" in page.words() and "History 2 runs" in page.words()


@pytest.mark.parametrize(
    "error", [ValueError("no such template"), OSError("disk full"), RecursionError()]
)
def test_a_page_that_cannot_be_made_ends_no_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
):
    """Whatever is raised: the run is published with its outcome, and the log says what to do."""

    def fail(*_: object) -> str:
        raise error

    monkeypatch.setattr(module, "render_page", fail)
    nights = Nights(tmp_path, monkeypatch)
    with capture_logs() as logged:
        nights.run(LOST)
    assert 1 == len(nights.chain) and "VIOLATED" == summary_of(nights.chain[0].directory)["outcome"]
    (said,) = [one for one in logged if one["event"] == "page_not_written"]
    assert (
        said["log_level"] == "error"
        and "auditor report " in said["advice"]
        and "--html" in said["advice"]
    )
    assert not list((tmp_path / "audits").rglob("*.html*"))


def test_a_page_that_cannot_be_written_ends_no_run(tmp_path: Path):
    """The disk of the directory may be gone by then."""
    run, gone, ours = run_of(tmp_path, 1), place(str(tmp_path / "nowhere")), context(io.StringIO())
    with capture_logs() as logged:
        assert not publish_page(ours, gone, read(run), [], "")
        assert publish_page(ours, run, read(run), [], "")
    assert ["page_not_written", "page_written"] == [one["event"] for one in logged]


def test_a_stored_run_gives_its_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """It is written to the named file, which only its owner and group can read. The report is
    printed and the exit code stays.
    """
    run, out = run_of(tmp_path, 1, exit_code=3, outcome="INCOMPLETE"), io.StringIO()
    file = tmp_path / "a [page].html"
    assert 3 == report(context(out), run.path, str(file))
    assert out.getvalue().splitlines()[-1].startswith("auditor: INCOMPLETE run=1")
    assert "INCOMPLETE" in Elements(file.read_text()).words()
    assert str(file) in capsys.readouterr().err
    assert 0 == file.stat().st_mode & 0o027
    assert ["a [page].html"] == [path.name for path in tmp_path.iterdir() if path.is_file()]


def test_a_file_that_cannot_be_written_is_an_error_of_usage(tmp_path: Path):
    """The caller gets an error, and nothing is printed."""
    run, out = run_of(tmp_path, 1), io.StringIO()
    with pytest.raises(ConfigError, match=r"cannot write .*nowhere"):
        report(context(out), run.path, str(tmp_path / "nowhere" / "page.html"))
    assert "" == out.getvalue()


def test_the_history_is_of_this_cluster_up_to_this_run(tmp_path: Path):
    """It has the readable earlier runs over the whole cluster, oldest first. Later runs, runs over
    named ledgers and runs of other clusters are left out.
    """
    other = {"metadata_service_uri": "zk://other/ledgers", "instance_id": "another"}
    for number in (1, 5, 7, 9, 12):
        run_of(tmp_path, number)
    for number, changes in (
        (2, {"partial": True}),
        (3, {"cluster": other}),
        (4, {"ledgers": {}}),
        (8, {"verified_ratio": 2}),
    ):
        run_of(tmp_path, number, **changes)
    run_of(tmp_path, 6).write_text("summary.json", "{")
    run_of(tmp_path, 9).remove_file("summary.json")
    now = run_of(tmp_path, 10)
    assert ["1", "5", "7", "10"] == [run.run_id for run in read_history(now, read(now))]
    part = run_of(tmp_path, 11, partial=True)
    assert [] == read_history(part, read(part))


def test_the_history_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """It has the newest runs, and ends with this one."""
    assert 2 <= HISTORY_RUNS_MAX
    monkeypatch.setattr("auditor.after.page.reading.HISTORY_RUNS_MAX", 3)
    runs = [run_of(tmp_path, number) for number in range(1, 8)]
    assert ["5", "6", "7"] == [run.run_id for run in read_history(runs[-1], read(runs[-1]))]


def test_bookies_are_read_from_their_newest_look(tmp_path: Path):
    """Each has the location by which the run judged, and the sum of what the verdicts say that it
    lacks.
    """
    run = run_of(tmp_path, 1)
    around = Surroundings(locations={"b1": "/rack1"})
    about = About(
        "1", "2026-01-01T03:00:00Z", FACTS, Terms(1, 2, 3, 4, around=around), "warning", False
    )
    run.write_text("run.json", json.dumps(about.as_json()))
    no_cookie = (None, None, None, None)
    rows = [
        ("b1", 1, 5, "writable", "h", 1, True, "", "answered", "", 9, 4, *no_cookie),
        ("b2", 1, 5, "writable", "h", 1, True, "", "answered", "", 9, 4, *no_cookie),
        ("b1", 2, 9, "none", None, None, True, "", "unregistered", "", None, None, *no_cookie),
    ]
    run.write_table("evidence/bookies", table(BOOKIES, rows), "all")
    lacks = [[("b1", 10, 4), ("b9", 2, 2)], [], None, [("b1", 10, 1)]]
    columns = {name: [None] * len(lacks) for name in VERDICTS.names} | {
        "ledger_id": list(range(4)),
        "lacks": lacks,
    }
    run.write_table("verdicts", table(VERDICTS, list(zip(*columns.values(), strict=True))), "all")
    found = {one.bookie_id: one for one in read_contents(run, read(run), [], "").bookies or ()}
    assert (Greeting.UNREGISTERED, "/rack1", Lacking(2, 5)) == (
        found["b1"].record.greeting,
        found["b1"].location,
        found["b1"].lacking,
    )
    assert (Greeting.ANSWERED, None, Lacking(0, 0)) == (
        found["b2"].record.greeting,
        found["b2"].location,
        found["b2"].lacking,
    )
    assert {"b1": Lacking(2, 5), "b9": Lacking(1, 2)} == count_lacking(
        run.scan("verdicts", VERDICTS).batches(["lacks"])
    )


def test_what_cannot_be_read_is_left_out_and_named(tmp_path: Path):
    """A run whose evidence is lost still has a page."""
    run = run_of(tmp_path, 1)
    run.write_text("topics.jsonl", "{")
    made = read_contents(run, read(run), [], "")
    assert (None, None, 1) == (made.bookies, made.topics, len(made.history or ()))
    assert ["Bookies", "Topics", "Margin", "Bytes"] == [
        problem.partition(":")[0] for problem in made.problems
    ]


def test_only_the_worst_topics_are_read(tmp_path: Path):
    """The file has all of them, the worst first. A run that looked for no topics has no file."""
    run = run_of(tmp_path, 1)
    assert read_topics(run) is None
    run.write_text(
        "topics.jsonl",
        "".join(json.dumps(topic(f"t{n}")) + "\n" for n in range(TOPICS_SHOWN_MAX + 1)),
    )
    assert TOPICS_SHOWN_MAX == len(read_topics(run) or ())


def test_what_changed_is_read_from_the_run_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """It agrees with `auditor diff`; if that run no longer exists, the page says so."""
    nights = Nights(tmp_path, monkeypatch)
    nights.run(Night({1: Kind.ENTRY_BELOW_WRITE_QUORUM, 2: Kind.ENTRY_BELOW_WRITE_QUORUM}))
    nights.run(Night({1: Kind.ENTRY_WITHOUT_REPLICA}))
    before, run = (place(str(tmp_path / "audits" / f"run-{name}")) for name in nights.begun)
    for one in (before, run):
        one.write_table("evidence/bookies", table(BOOKIES, []), "all")
        one.write_text("summary.json", json.dumps({**read(one).as_json(), "stored": None}))
    since = {"run_id": nights.begun[0], "started_at": "2026-03-01T03:00:00Z"}
    counts = {change.value.replace(" ", "_"): 0 for change in Change}
    more = {"since": since, "worse": 1, "not_checked_again": 1, "gone": 0, "partial": False}
    summary = report_stories.changed_summary(read(run), changes=counts | more)
    seen = read_changes(run, summary)
    assert seen is not None and nights.begun[0] == seen.run_id
    assert {1: "worse", 2: "not checked again"} == {
        one.subjects.ledger_id: one.change.value for one in seen.differences
    }
    assert read_changes(before, read(before)) is None
    page = Elements(render_page(read_contents(run, summary, [], "")))
    assert "What changed since the run of" in page.words() and "Not checked again 1" in page.words()
    before.remove_file("summary.json")
    problems = read_contents(run, summary, [], "").problems
    (problem,) = [one for one in problems if one.startswith("Changes")]
    assert "holds no summary.json" in problem


def test_a_name_in_a_summary_leads_to_no_other_directory(tmp_path: Path):
    """Anybody may have written the summary."""
    run = run_of(tmp_path, 1)
    for name in ("../../etc", "20260101T030000Z-000001/../x", ""):
        since = {"run_id": name, "started_at": "x"}
        summary = report_stories.summary(changes={"since": since})
        with pytest.raises(OutputError, match="no name that a run has"):
            read_changes(run, summary)


def test_the_margin_is_read_from_the_evidence(tmp_path: Path):
    """b2 lacks an entry of one of the three closed ledgers, of which b1 may have the last copy."""
    run = place(str(store_run(tmp_path)))
    seen = read_margin(run, read(run))
    assert seen is not None and {1: 1, 2: 2} == dict(seen.cluster.by_copies)
    assert {"b1": 1} == seen.cluster.exposure.may_have_no_copy


def test_no_margin_of_a_vast_run(tmp_path: Path):
    """It would take memory in proportion to the ledgers."""
    counts = report_stories.summary().as_json()["ledgers"] | {"listed": LEDGERS_MAX + 1}
    vast = report_stories.summary(ledgers=counts)
    assert read_margin(run_of(tmp_path, 1), vast) is None


def test_no_changes_of_vast_runs(tmp_path: Path):
    """Comparing takes memory in proportion to the findings of both runs."""
    before = place(str(tmp_path / "run-20260101T030000Z-000001"))
    before.create()
    counts = {"findings": {Kind.ENTRY_CORRUPT.value: {"findings": COMPARED_MAX // 2}}}
    before.write_text("summary.json", json.dumps(report_stories.summary(**counts).as_json()))
    since = {"run_id": "20260101T030000Z-000001", "started_at": "2026-01-01T03:00:00Z"}
    more = {"findings": {Kind.ENTRY_CORRUPT.value: {"findings": COMPARED_MAX // 2 + 1}}}
    summary = report_stories.summary(**more, changes={"since": since})
    with pytest.raises(OutputError, match=f"more than {COMPARED_MAX:,} findings: use auditor diff"):
        read_changes(run_of(tmp_path, 2), summary)


def test_bytes_are_added_up_by_namespace(tmp_path: Path):
    """The newest metadata of closed ledgers counts. Ledgers that name no topic are one group."""
    run = run_of(tmp_path, 1)
    cells = [
        (1, 1, "CLOSED", 100, "t/n/persistent/a"),
        (1, 2, "CLOSED", 150, "t/n/persistent/a"),
        (2, 1, "CLOSED", 20, "t/c/n/persistent/b"),
        (3, 1, "OPEN", 900, "t/n/persistent/a"),
        (4, 1, "CLOSED", 7, "no topic"),
        (5, 1, "CLOSED", 30, "t/n/persistent/c"),
    ]
    rows = [
        dict.fromkeys(LEDGERS.names)
        | {"ledger_id": ledger, "look": look, "state": state, "length_bytes": length}
        | {"custom_metadata": [{"key": "pulsar/managed-ledger", "value": name.encode()}]}
        for ledger, look, state, length, name in cells
    ]
    run.write_table("evidence/ledgers", pa.Table.from_pylist(rows, LEDGERS), "all")
    standings = {1: "violated", 2: "sound", 3: "exempt", 4: "sound", 5: "indeterminate"}
    verdicts = [
        dict.fromkeys(VERDICTS.names) | {"ledger_id": ledger, "standing": standing}
        for ledger, standing in standings.items()
    ]
    run.write_table("verdicts", pa.Table.from_pylist(verdicts, VERDICTS), "all")
    found = read_bytes_by_namespace(run, read(run)) or []
    assert {("t/n", 180, 150, 30), ("t/c/n", 20, 0, 0), ("", 7, 0, 0)} == {
        (one.name, one.total, one.violated, one.unjudged) for one in found
    }
