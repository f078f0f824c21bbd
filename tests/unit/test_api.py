"""Runs and verdicts as objects, as a notebook has them."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from support.stored_run import store_run

import auditor
from auditor import FindingRecord, LedgerVerdict, api, audit_ledger, open_run
from auditor.api import TABLES
from auditor.errors import ConfigError, OutputError
from auditor.model.finding import Copies, Kind, Severity
from auditor.model.finding_record import Owner
from auditor.model.verdict import Standing
from auditor.sandbox.cluster import SandboxCluster

DOCUMENT = Path(__file__).parents[2] / "docs" / "python.md"


def test_the_names_of_the_package_are_those_of_its_document():
    """They stay; anything else is not public."""
    documented = set(re.findall(r"^\| `(\w+)", DOCUMENT.read_text(), re.MULTILINE))
    assert set(auditor.__all__) - {"__version__"} == documented
    assert all(getattr(auditor, name) is not None for name in auditor.__all__)
    with pytest.raises(AttributeError, match="no attribute 'no_such_name'"):
        getattr(auditor, "no_such_name")  # noqa: B009


def test_importing_the_package_imports_nothing_else():
    """The commands start without it; pyarrow alone takes longer than `--help`."""
    code = "import auditor, sys; print(sorted(n for n in sys.modules if n.startswith('auditor')))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert "['auditor']" == done.stdout.strip()


def test_the_findings_of_a_run_are_typed(tmp_path: Path):
    """With what a script asks for most; the whole line is beside them."""
    run = open_run(store_run(tmp_path))
    (found,) = run.findings()
    assert (Kind.ENTRY_BELOW_ACK_QUORUM, Severity.CRITICAL, 8) == (
        found.kind,
        found.severity,
        found.ledger_id,
    )
    assert (((4, 4),), 1, Copies(2, 2, 1, 0)) == (found.entries, found.entries_total, found.copies)
    assert "Entry 4" in found.witness and not found.is_muted
    assert found.id == found.fields["id"] and {"b2": [[4, 4]]} == found.fields["missing_on"]
    assert ("20260101T030000Z-000001", "VIOLATED") == (run.run_id, run.outcome)


def test_the_newest_run_of_an_output_is_opened(tmp_path: Path):
    """By the directory of the output; a run says in a line what it is, and so does a finding."""
    run = store_run(tmp_path)
    (tmp_path / "latest.json").write_text(json.dumps({"run": run.name}))
    opened = open_run(tmp_path)
    assert run.name == f"run-{opened.run_id}"
    assert f"<Run {opened.run_id}: VIOLATED, 1 of 3 ledgers violated, 1 finding, in {run}>" == repr(
        opened
    )
    (found,) = opened.findings()
    assert f"<ENTRY_BELOW_ACK_QUORUM (critical) on ledger 8, id {found.id}>" == repr(found)


def test_a_finding_names_the_topic_of_its_ledger(tmp_path: Path):
    """As Pulsar's tools take it; other ledgers have none."""
    (found,) = open_run(store_run(tmp_path)).findings()
    assert found.topic is None
    owned = replace(found, owner=Owner("pulsar", "managed-ledger", "acme/shop/persistent/orders"))
    assert "persistent://acme/shop/orders" == owned.topic


def test_findings_are_a_table_of_pandas(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A row for each, with its columns even if there is none. Without pandas a sentence says so."""
    run = open_run(store_run(tmp_path))
    frame = run.findings_frame()
    assert list(api.FRAME_COLUMNS) == list(frame.columns)
    (row,) = frame.to_dict("records")
    assert ("ENTRY_BELOW_ACK_QUORUM", "critical", 8, 1) == tuple(
        row[name] for name in ("kind", "severity", "ledger_id", "copies_confirmed")
    )
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ConfigError, match="needs pandas"):
        run.findings_frame()


def test_ledgers_have_one_row_each_and_looks_one_a_look(tmp_path: Path):
    """In the order of their ids, with the verdict and the metadata."""
    run = open_run(store_run(tmp_path))
    ledgers = run.ledgers()
    assert [*api.LEDGER_COLUMNS, *api.STATE_COLUMNS] == ledgers.column_names
    assert [7, 8, 9] == ledgers["ledger_id"].to_pylist()
    assert ["sound", "violated", "sound"] == ledgers["standing"].to_pylist()
    assert (["CLOSED"] * 3, [2] * 3) == (
        ledgers["state"].to_pylist(), ledgers["write_quorum"].to_pylist(),
    )  # fmt: skip
    looks = run.looks(["ledger_id", "look"])
    assert looks.num_rows > ledgers.num_rows and looks == run.table(
        "evidence/ledgers", ["ledger_id", "look"]
    )


def test_a_verdict_has_its_findings(tmp_path: Path):
    """Sound and violated; a ledger that was not listed has none."""
    run = open_run(str(store_run(tmp_path)))
    violated, sound = run.verdict(8), run.verdict(7)
    assert violated is not None and sound is not None
    assert (Standing.VIOLATED, tuple(run.findings())) == (violated.standing, violated.findings)
    assert LedgerVerdict(7, Standing.SOUND, None, (), "listed", ()) == sound
    assert run.verdict(4711) is None


@pytest.mark.parametrize("name", TABLES)
def test_every_table_can_be_read(tmp_path: Path, name: str):
    """Whole, with its schema, and by columns; where it is, for other programs."""
    directory = store_run(tmp_path)
    run = open_run(directory)
    assert TABLES[name] == run.table(name).schema and run.table(name).num_rows
    first = TABLES[name].names[0]
    assert [first] == run.table(name, [first]).schema.names
    assert (directory / name).as_uri() == run.uri(name)


def test_what_is_no_run_or_no_table_is_refused(tmp_path: Path):
    """With a sentence, as on the command line."""
    with pytest.raises(ConfigError, match="not the directory of a finished run"):
        open_run(tmp_path)
    run = open_run(store_run(tmp_path))
    for ask in (run.table, run.uri):
        with pytest.raises(ConfigError, match="use one of verdicts"):
            ask("evidence/nothing")


def test_findings_that_are_lost_are_no_clean_run(tmp_path: Path):
    """A file that was cut short must not read as nothing found."""
    directory = store_run(tmp_path)
    (directory / "findings.jsonl").write_text("")
    with pytest.raises(OutputError, match="lost"):
        open_run(directory).findings()


def test_a_ledger_is_audited_as_by_the_command(tmp_path: Path, capfd: pytest.CaptureFixture[str]):
    """A sound one, one that lacks an entry, and one that is not there. Nothing is printed."""
    with SandboxCluster(tmp_path / "cluster", 3) as cluster:
        two = cluster.ledger("e2 w2 a2 0:[b1 b2] closed 9")
        cluster.place(1, two)
        cluster.place(2, two, {"b2": "4"})
        uri, output = cluster.metadata_service_uri, str(tmp_path / "audits")
        sound, lacking, missing = (
            audit_ledger(n, metadata_service_uri=uri, output=output, second_look_delay="1s")
            for n in (1, 2, 3)
        )
    assert sound is not None and lacking is not None and missing is None
    assert (Standing.SOUND, ()) == (sound.standing, sound.findings)
    (found,) = lacking.findings
    assert isinstance(found, FindingRecord) and Standing.VIOLATED == lacking.standing
    assert (Kind.ENTRY_BELOW_ACK_QUORUM, ((4, 4),)) == (found.kind, found.entries)
    assert ("", "") == capfd.readouterr()


def test_a_notebook_may_audit_a_ledger():
    """Its cells run in an event loop, where no other may run: the audit has a thread of its own."""

    async def cell() -> str:
        return api._outside_event_loops(asyncio.run, asyncio.sleep(0, "audited"))

    assert "audited" == asyncio.run(cell())
    assert "audited" == api._outside_event_loops(asyncio.run, asyncio.sleep(0, "audited"))


def test_a_wrong_setting_is_refused_before_anybody_is_asked():
    """As on the command line."""
    with pytest.raises(ConfigError, match="rpc-timeout"):
        audit_ledger(1, metadata_service_uri="zk://h:1/ledgers", rpc_timeout="soon")


def test_the_examples_of_the_document_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """On a run, in one namespace, as a notebook does; those that need Spark or a cluster apart."""
    blocks = re.findall(r"```python\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)
    ours = [block for block in blocks if "spark" not in block and "zk1" not in block]
    namespace: dict[str, object] = {}
    for block in ours:
        text = block.replace('"audits"', repr(str(store_run(tmp_path))))
        exec(compile(text, str(DOCUMENT), "exec"), namespace)
        tmp_path = tmp_path / "more"
        tmp_path.mkdir()
    said = capsys.readouterr().out
    assert len(ours) == 2 and "VIOLATED" in said
    assert "critical ENTRY_BELOW_ACK_QUORUM 8 Entry 4" in said and "sound" in said
