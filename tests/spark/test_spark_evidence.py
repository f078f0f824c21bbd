"""What a run writes: exact tables, no secrets, and enough to judge it again, byte for byte."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from support.audits import FIRST_LOOK_ON_SPARK, Outcome, audit, replay_run
from support.file_modes import wrong_modes

from auditor.evidence.schemas import (
    BOOKIES,
    LEDGERS,
    LISTING,
    MARKS,
    READ_COUNTS,
    READS,
    VERDICTS,
    with_pace,
    with_read_counts,
)
from auditor.sandbox.cluster import SandboxCluster
from auditor.spark.store import spark_type
from auditor.stages.asking import PACED_ANSWERS

pytestmark = pytest.mark.spark

PASSWORD = b"kennwort-8315-of-the-ledger"
REPLAY_TIMEOUT_S = 120
TABLES = {
    "evidence/listing": with_read_counts(LISTING),
    "evidence/ledgers": with_read_counts(LEDGERS),
    "evidence/answers": PACED_ANSWERS,
    "evidence/reads": with_pace(with_read_counts(READS)),
    "evidence/bookies": BOOKIES,
    "evidence/marks": MARKS,
    "evidence/zookeeper_reads": READ_COUNTS,
    "verdicts": VERDICTS,
}
HMAC, LOST, BROKEN = 11, 12, 13


class Run(NamedTuple):
    outcome: Outcome
    directory: Path


@pytest.fixture(scope="module")
def run(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    """Yield a run over thirty ledgers with passwords, including one that needs reads under HMAC, a
    loss, and metadata that is broken after the password.
    """
    with SandboxCluster(tmp_path_factory.mktemp("cluster"), 4) as cluster:
        for ledger_id in range(1, 11):
            cluster.place(
                ledger_id,
                cluster.ledger("e3 w2 a2 0:[b1 b2 b3] 20:[b1 b4 b3] closed 59"),
                password=PASSWORD,
            )
        cluster.place(
            HMAC,
            cluster.ledger("e2 w2 a1 0:[b1 b2] closed 9 hmac"),
            {"b2": "2-3"},
            password=PASSWORD,
        )
        cluster.place(
            LOST,
            cluster.ledger("e2 w2 a2 0:[b1 b2] closed 9"),
            {"b1": "5", "b2": "5"},
            password=PASSWORD,
        )
        cluster.place(BROKEN, cluster.ledger("e1 w1 a1 0:[b1] closed 9"), password=PASSWORD)
        cluster.set_raw(
            BROKEN, b"BookieMetadataFormatVersion\t2\n" + b'password: "' + PASSWORD + b'" garbage {'
        )
        outcome = audit(cluster, tmp_path_factory.mktemp("evidence"), **FIRST_LOOK_ON_SPARK)
        assert outcome.run_dir is not None, outcome.stdout
        yield Run(outcome, outcome.run_dir)


def test_the_run_found_what_was_seeded(run: Run):
    """Otherwise the rest of this file would test an empty run."""
    assert ["sound", "violated", "violated", "violated"] == run.outcome.standings(
        1, HMAC, LOST, BROKEN
    )


@pytest.mark.parametrize("name", TABLES)
def test_each_table_has_exactly_its_columns(spark: SparkSession, run: Run, name: str):
    """Names, types and order are as in the schema, in every file, whether Spark wrote it or this
    process.
    """
    files = sorted((run.directory / name).glob("*.parquet"))
    assert files
    for file in files:
        assert TABLES[name].names == pq.read_schema(file).names, file
        assert (
            spark_type(TABLES[name]).simpleString()
            == spark.read.parquet(str(file)).schema.simpleString()
        ), file


def test_the_keys_are_unique(run: Run):
    """Each table has a key, and no row twice."""
    keys = {
        "evidence/listing": ["ledger_id"],
        "evidence/ledgers": ["ledger_id", "look"],
        "evidence/answers": ["bookie_id", "ledger_id", "look"],
        "evidence/reads": ["bookie_id", "ledger_id", "entry_id", "look"],
        "evidence/bookies": ["bookie_id", "look"],
        "verdicts": ["ledger_id"],
    }
    for name, key in keys.items():
        rows = ds.dataset(run.directory / name, format="parquet").to_table(columns=key).to_pylist()
        assert len(rows) == len({tuple(row.values()) for row in rows}) > 0, name


def test_every_row_is_dated_and_of_a_look(run: Run):
    """Evidence has the time when it was heard."""
    for name, dated in (
        ("ledgers", "read_at_ms"),
        ("answers", "asked_at_ms"),
        ("reads", "asked_at_ms"),
        ("bookies", "read_at_ms"),
    ):
        table = ds.dataset(run.directory / "evidence" / name, format="parquet").to_table(
            columns=["look", dated]
        )
        assert 0 == table[dated].null_count + table["look"].null_count
        assert min(table["look"].to_pylist()) >= 1


def test_the_steps_on_the_way_are_gone(run: Run):
    """Only the tables that the contract names are left."""
    texts = {
        "run.json",
        "summary.json",
        "findings.jsonl",
        "report.txt",
        "report.html",
        "metrics.prom",
        "announced.json",
    }
    expected = {"evidence", "verdicts", *texts}
    assert expected == {
        path.name for path in run.directory.iterdir() if not path.name.startswith(".")
    }


def test_others_may_read_no_file_of_a_run(run: Run):
    """Those that Spark wrote included, and what lies beside the run."""
    assert any((run.directory / "evidence").rglob("part-*.parquet"))
    assert {} == wrong_modes(run.directory.parent)


def forms(secret: bytes) -> list[bytes]:
    """Return the forms in which the secret might be written: plain, hex, base64 at each of the
    three alignments.
    """
    aligned = [
        base64.b64encode(b"x" * shift + secret)[4 if shift else 0 : -4] for shift in range(3)
    ]
    return [secret, secret.hex().encode(), *aligned]


def everything(value: Any) -> Iterator[bytes]:
    """Yield every string and every bytes anywhere in a value."""
    if isinstance(value, bytes):
        yield value
    elif isinstance(value, str):
        yield value.encode()
    elif isinstance(value, dict):
        for key, one in value.items():
            yield from everything(key)
            yield from everything(one)
    elif isinstance(value, list | tuple):
        for one in value:
            yield from everything(one)


def test_no_password_stands_anywhere(run: Run):
    """It is in no file as stored, in no cell of any table, not in the report, and not in the
    log.
    """
    secrets = forms(PASSWORD)
    for path in run.directory.rglob("*"):
        if path.is_file():
            assert [] == [form for form in secrets if form in path.read_bytes()], path
        if path.suffix == ".parquet":
            cells = b"\n".join(everything(pq.read_table(path).to_pylist()))
            assert [] == [form for form in secrets if form in cells], path
    said = b"\n".join([run.outcome.stdout.encode(), *everything(run.outcome.events)])
    assert [] == [form for form in secrets if form in said]


def test_the_hmac_was_checked_with_the_password_all_the_same(run: Run):
    """Reads of the ledger under HMAC find absence where it is real, and digests that hold where
    spot reads test what is listed.
    """
    rows = (
        ds.dataset(run.directory / "evidence" / "reads", format="parquet")
        .to_table(filter=ds.field("ledger_id") == HMAC)
        .to_pylist()
    )
    absent = {(row["bookie_id"], row["entry_id"]) for row in rows if row["status"] == "no_entry"}
    assert [2, 3] == sorted(entry for _, entry in absent)
    assert {"no_entry"} == {row["status"] for row in rows if not row["is_spot"]}
    assert {"no_entry", "present"} == {row["status"] for row in rows if row["is_spot"]}


def test_replay_is_the_same_to_the_byte(run: Run):
    """Same evidence, same judging time, same code: the same findings and counts."""
    again = replay_run(run.directory)
    assert run.outcome.exit_code == again.exit_code
    assert run.outcome.findings == again.findings
    assert run.outcome.verdicts == again.verdicts
    assert run.outcome.summary["ledgers"] == again.summary["ledgers"]
    assert ["byte-identical to the stored ones"] == [
        event["findings"] for event in again.events if event["event"] == "replay"
    ]
    untotalled = {key for key in again.summary if again.summary[key] != run.outcome.summary[key]}
    assert untotalled <= {"totals", "request_totals"}


def test_replay_needs_no_java(run: Run, tmp_path: Path):
    """A process that can find no Java judges it, and starts none."""
    environment = {"PATH": str(tmp_path), "HOME": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "auditor", "replay", str(run.directory)],
        env=environment, capture_output=True, text=True,
        timeout=REPLAY_TIMEOUT_S, check=False,
    )  # fmt: skip
    assert 1 == done.returncode, done.stderr
    assert "byte-identical" in done.stderr
    assert done.stdout.splitlines()[-1] == run.outcome.last_line


def test_a_missing_answer_changes_its_ledger_alone(run: Run, tmp_path: Path):
    """One row of the answers is deleted, by a run that counted without it: only that ledger's
    verdict changes, and the replay says that they differ.
    """
    copy = copied(run.directory, tmp_path)
    first = ds.dataset(copy / "evidence" / "answers", format="parquet").to_table()
    keep = pa.array(
        [
            not (r["ledger_id"] == 5 and r["look"] == 1 and r["status"] == "held" and n)
            for n, r in numbered(first, 5)
        ]
    )
    rewritten(copy / "evidence" / "answers", first.filter(keep))
    summary = json.loads((copy / "summary.json").read_text())
    (copy / "summary.json").write_text(json.dumps({**summary, "stored": None}))
    again = replay_run(copy)
    changed = {i for i, verdict in again.verdicts.items() if verdict != run.outcome.verdicts[i]}
    assert {5} == changed
    assert "sound" != again.verdicts[5].standing
    assert run.outcome.findings == again.findings


def test_a_run_that_died_after_the_first_look_is_judged_as_far_as_it_came(run: Run, tmp_path: Path):
    """It has no verdicts, no summary and no second look: replay judges, and says that the run did
    not finish.
    """
    copy = copied(run.directory, tmp_path)
    for name in ("summary.json", "findings.jsonl", "report.txt", "metrics.prom"):
        (copy / name).unlink()
    for table in ("ledgers", "answers", "reads"):
        rewritten(
            copy / "evidence" / table,
            ds.dataset(copy / "evidence" / table, format="parquet").to_table(
                filter=ds.field("look") == 1
            ),
        )
    (copy / "evidence" / "answers" / "_temporary").mkdir()
    (copy / "evidence" / "answers" / "_temporary" / "part-0.parquet").write_bytes(b"half a file")
    again = replay_run(copy)
    assert run.outcome.summary["ledgers"]["listed"] == again.summary["ledgers"]["listed"]
    assert [] == [found for found in again.findings if found["ledger_id"] in (HMAC, LOST)], (
        "nothing is reported on one look"
    )
    assert any("did not finish" in str(event.get("findings")) for event in again.events)


def test_a_run_that_died_while_it_read_the_metadata_says_so(run: Run, tmp_path: Path):
    """There is nothing to judge: exit 2 and a sentence, not a fault of the auditor."""
    copy = copied(run.directory, tmp_path)
    for name in ("summary.json", "findings.jsonl"):
        (copy / name).unlink()
    ledgers = ds.dataset(copy / "evidence" / "ledgers", format="parquet").to_table(
        filter=ds.field("ledger_id") < 5
    )
    rewritten(copy / "evidence" / "ledgers", ledgers)
    done = subprocess.run(
        [sys.executable, "-m", "auditor", "replay", str(copy)],
        capture_output=True, text=True, timeout=REPLAY_TIMEOUT_S,
        check=False,
        env={key: value for key, value in os.environ.items() if not key.startswith("AUDITOR_")},
    )  # fmt: skip
    assert 2 == done.returncode, done.stdout + done.stderr
    assert "died" in done.stderr
    assert "4 of 13" in done.stderr


def copied(directory: Path, tmp_path: Path) -> Path:
    """Return the run's directory, copied so that it may be changed."""
    import shutil

    return Path(shutil.copytree(directory, tmp_path / directory.name))


def rewritten(table: Path, rows: pa.Table) -> None:
    for part in table.iterdir():
        if part.is_file():
            part.unlink()
    pq.write_table(rows, table / "rewritten.parquet")


def numbered(rows: pa.Table, ledger_id: int) -> Iterator[tuple[bool, dict[str, Any]]]:
    """Yield each row, and whether it is the first on this ledger."""
    seen = False
    for row in rows.to_pylist():
        first = row["ledger_id"] == ledger_id and not seen
        seen = seen or first
        yield first, row


def test_the_run_says_what_it_was_judged_by(run: Run):
    """run.json has the cluster without secrets, the terms, and the judging time."""
    about = json.loads((run.directory / "run.json").read_text())
    assert about["terms"]["judged_at_ms"] > 0
    assert about["run_id"] == run.outcome.summary["run_id"]
