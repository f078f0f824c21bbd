"""`auditor diff` on the directories of two runs."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from support import report_stories

from auditor.commands.diff import diff
from auditor.config import Layers, parse
from auditor.context import Context
from auditor.errors import ConfigError
from auditor.evidence import findings_file
from auditor.evidence.rows import answer_row, read_row, table
from auditor.evidence.run_directory import place
from auditor.evidence.schemas import ANSWERS, BOOKIES, READS, VERDICTS
from auditor.model.availability import Answer, AnswerStatus, EntryRead, ReadStatus
from auditor.model.cluster import ClusterFacts, Surroundings
from auditor.model.evidence import PlacementRule, Policy, Terms
from auditor.model.finding import Kind
from auditor.stop import StopRequest
from auditor.summary.about import About
from auditor.summary.outcome import findings_by_kind
from auditor.telemetry import log
from auditor.telemetry.progress import Silent

CLUSTER = {
    "metadata_service_uri": "zk://h:1/ledgers",
    "instance_id": "inst",
    "root": "/ledgers",
    "hosts": ["h:1"],
}


def stored(
    home: Path,
    name: str,
    findings: list[Any],
    unknowns: dict[int, list[str]] | None = None,
    **changes: Any,
) -> str:
    """Write a run that judged ledgers 1 to 9, and return its directory. `unknowns` has the reasons
    of ledgers that it could not judge.

    `changes` replace fields of the summary. Two keys do not: `terms` are those of the run, and
    `detail` is that of b1's greeting.
    """
    directory = home / name
    directory.mkdir()
    facts = ClusterFacts("zk://h:1/ledgers", ("h:1",), "/ledgers", "flat", "inst", False, None)
    terms, detail = changes.pop("terms", Terms(1, 2, 3, 4)), changes.pop("detail", "")
    about = About(name, "2026-01-01T03:00:00Z", facts, terms, "warning", False)
    (directory / "run.json").write_text(json.dumps(about.as_json()))
    plain = report_stories.summary(
        run_id=name,
        partial=False,
        withheld=[],
        cluster=CLUSTER,
        findings=findings_by_kind(findings),
    )
    summary = replace(plain, ledgers=replace(plain.ledgers, listed=9)).as_json()
    (directory / "summary.json").write_text(json.dumps(summary | changes))
    (directory / "findings.jsonl").write_text(findings_file.text(findings))
    columns = {field.name: pa.nulls(9, field.type) for field in VERDICTS}
    columns["ledger_id"] = pa.array(range(1, 10), pa.int64())
    columns["unknowns"] = pa.array(
        [(unknowns or {}).get(n, []) for n in range(1, 10)], pa.list_(pa.string())
    )
    place(str(directory)).write_table("verdicts", pa.table(columns, schema=VERDICTS), "all")
    bookie = {
        "bookie_id": "b1",
        "look": 1,
        "registration": "writable",
        "greeting": "answered",
        "greeting_detail": detail,
    }
    rows = pa.Table.from_pylist([dict.fromkeys(BOOKIES.names) | bookie], schema=BOOKIES)
    place(str(directory)).write_table("evidence/bookies", rows, "all")
    return str(directory)


def said(earlier: str, later: str, form: str = "text") -> tuple[int, str]:
    out = io.StringIO()
    settings = parse(Layers(flags={"format": form}), command="diff")
    return (
        diff(
            Context(settings, out, log.setup(stream=io.StringIO()), Silent(), StopRequest()),
            earlier,
            later,
        ),
        out.getvalue(),
    )


@pytest.fixture
def loss() -> list[Any]:
    return [report_stories.finding(Kind.ENTRY_WITHOUT_REPLICA, 7)]


def test_a_new_loss_is_exit_code_1(tmp_path: Path, loss: list[Any]):
    """Cron can then distinguish new losses from old ones."""
    code, text = said(stored(tmp_path, "run-a", []), stored(tmp_path, "run-b", loss))
    assert 1 == code and text.startswith("1 new, 0 worse"), text


def test_an_old_loss_is_exit_code_0_and_so_is_a_new_hint(tmp_path: Path, loss: list[Any]):
    """A finding of severity info never changes an exit code."""
    hint = report_stories.finding(Kind.LEDGER_STUCK, 3)
    code, text = said(stored(tmp_path, "run-a", loss), stored(tmp_path, "run-b", [*loss, hint]))
    assert 0 == code and text.startswith("1 new, 0 worse, 1 still"), text


def test_a_loss_that_was_not_checked_again_is_exit_code_3(tmp_path: Path, loss: list[Any]):
    """Its bookie is silent now: nothing is resolved."""
    later = stored(tmp_path, "run-b", [], {7: ["bookie_silent"]}, complete=False)
    code, text = said(stored(tmp_path, "run-a", loss), later)
    assert 3 == code
    assert "the later run could not judge it (bookie_silent)" in " ".join(text.split())
    assert "there may be new findings that it does not have" in " ".join(text.split())


def test_a_later_run_that_could_not_judge_everything_is_never_exit_code_0(tmp_path: Path):
    """New findings may be where it could not look."""
    code, _ = said(
        stored(tmp_path, "run-a", []),
        stored(tmp_path, "run-b", [], {3: ["poison"]}, complete=False),
    )
    assert 3 == code


def test_the_json_form_is_one_document(tmp_path: Path, loss: list[Any]):
    """It has the counts and both runs."""
    code, text = said(stored(tmp_path, "run-a", loss), stored(tmp_path, "run-b", []), "json")
    document = json.loads(text)
    assert (0, 1, "run-a") == (code, document["counts"]["resolved"], document["earlier"]["run_id"])


def test_runs_in_the_wrong_order_and_of_two_versions_are_said(tmp_path: Path):
    """In the wrong order, `new` and `resolved` would be swapped."""
    late = stored(
        tmp_path, "run-b", [], finished_at="2026-01-02T00:00:00Z", auditor_version="0.2.0"
    )
    _, text = said(late, stored(tmp_path, "run-a", []))
    words = " ".join(text.split())
    assert "give the earlier run first" in words and "different versions of the auditor" in words


def test_runs_of_two_clusters_are_refused(tmp_path: Path):
    """Ledger ids mean something else there."""
    other = stored(tmp_path, "run-b", [], cluster=CLUSTER | {"instance_id": "other"})
    with pytest.raises(ConfigError) as refused:
        said(stored(tmp_path, "run-a", []), other)
    assert "different clusters (inst and other)" in str(refused.value)


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({}, 0),
        ({"partial": True}, 3),
        ({"outcome": "INCOMPLETE"}, 3),
        ({"outcome": "AUDITOR_FAULT"}, 3),
        ({"outcome": "VIOLATED"}, 0),
    ],
)
def test_only_a_whole_later_run_is_exit_code_0(tmp_path: Path, changes: dict[str, Any], code: int):
    """New findings may be where it did not look."""
    assert code == said(stored(tmp_path, "run-a", []), stored(tmp_path, "run-b", [], **changes))[0]


def test_other_settings_are_said(tmp_path: Path):
    """The later run had no placement policy, and did not check the finding on placement again."""
    bad = [report_stories.finding(Kind.PLACEMENT_FAILED, 7)]
    rack = replace(Terms(1, 2, 3, 4), placement=PlacementRule(Policy.RACK))
    away = replace(Terms(1, 2, 3, 4), around=Surroundings(maintenance=frozenset({"b9"})))
    code, text = said(
        stored(tmp_path, "run-a", bad, terms=rack), stored(tmp_path, "run-b", [], terms=away)
    )
    assert 3 == code
    assert "The runs had different settings (placement, maintenance)" in " ".join(text.split())


@pytest.mark.parametrize(("detail", "code"), [("", 3), ("listed by its lister at h:1", 0)])
def test_a_lost_entry_log_is_resolved_where_the_lister_listed(
    tmp_path: Path, detail: str, code: int
):
    """The greeting of the bookie says whether its lister listed."""
    before = stored(tmp_path, "run-a", [report_stories.finding(Kind.ENTRY_LOG_LOST, "b1")])
    assert code == said(before, stored(tmp_path, "run-b", [], detail=detail))[0]


@pytest.mark.parametrize(("status", "code"), [(AnswerStatus.HELD, 0), (AnswerStatus.TIMED_OUT, 3)])
def test_lost_content_is_resolved_where_the_bookie_answered_for_its_ledgers(
    tmp_path: Path, status: AnswerStatus, code: int
):
    """Its greeting alone does not show that the content is back."""
    before = stored(tmp_path, "run-a", [report_stories.finding(Kind.BOOKIE_LOST_CONTENT, "b1")])
    after = stored(tmp_path, "run-b", [])
    rows = [answer_row(Answer("b1", ledger, 1, 0, status)) for ledger in range(1, 10)]
    place(after).write_table("evidence/answers", table(ANSWERS, rows), "all")
    place(after).write_table("evidence/reads", table(READS, []), "all")
    found, text = said(before, after)
    assert code == found
    assert (status is AnswerStatus.HELD) is ("it answered for 0 of 9 ledgers" not in text)


@pytest.mark.parametrize(("entries", "code"), [([4, 5], 0), ([4], 3)])
def test_corruption_is_resolved_where_the_copies_were_read_again(
    tmp_path: Path, entries: list[int], code: int
):
    """The list of the bookie names the entries, and does not show their bytes."""
    corrupt = report_stories.finding(Kind.ENTRY_CORRUPT, 7, facts={"copies": [["b1", [4, 5]]]})
    before, after = stored(tmp_path, "run-a", [corrupt]), stored(tmp_path, "run-b", [])
    held = answer_row(Answer("b1", 7, 1, 0, AnswerStatus.HELD))
    reads = [read_row(EntryRead("b1", 7, one, 1, 0, ReadStatus.PRESENT)) for one in entries]
    place(after).write_table("evidence/answers", table(ANSWERS, [held]), "all")
    place(after).write_table("evidence/reads", table(READS, reads), "all")
    found, text = said(before, after)
    assert code == found
    assert (code == 0) is ("not all read again" not in " ".join(text.split()))


def test_runs_that_lost_a_part_are_refused(tmp_path: Path, loss: list[Any]):
    """A lost finding does not count as resolved, nor a lost verdict as a ledger that is not
    listed.
    """
    run = stored(tmp_path, "run-a", loss)
    few = stored(tmp_path, "run-b", loss)
    (Path(few) / "findings.jsonl").unlink()
    with pytest.raises(
        ConfigError, match=r"findings\.jsonl has 0 findings, and summary\.json counts 1"
    ):
        said(run, few)
    with pytest.raises(ConfigError, match="has 9 verdicts, and its summary counts 10 ledgers"):
        counts = report_stories.summary().as_json()["ledgers"] | {"listed": 10}
        said(run, stored(tmp_path, "run-c", [], ledgers=counts))
    gone = stored(tmp_path, "run-d", [])
    place(gone).remove("evidence/bookies")
    with pytest.raises(ConfigError, match="evidence/bookies is not there"):
        said(run, gone)


def test_stored_words_cannot_forge_the_last_line(tmp_path: Path):
    """They come from a file that anybody may have written."""
    hostile = stored(tmp_path, "run-b", [], run_id="x\nauditor: DIFF", outcome="SOUND\x1b[2J")
    _, text = said(stored(tmp_path, "run-a", []), hostile)
    assert "\x1b" not in text and text.splitlines()[-1].startswith(
        "auditor: DIFF earlier=run-a later=x\\n"
    )


@pytest.mark.parametrize("finished_at", ["2026-01-01T03:00:00", "soon", None])
def test_an_end_that_is_not_a_time_is_refused(tmp_path: Path, finished_at: str | None):
    """Times without an offset cannot be compared."""
    run = stored(tmp_path, "run-a", [])
    with pytest.raises(ConfigError, match="finished_at is not a time with an offset"):
        said(run, stored(tmp_path, "run-b", [], finished_at=finished_at))


def test_what_is_not_a_finished_run_is_refused(tmp_path: Path):
    """There is no directory, or its summary lacks fields."""
    run = stored(tmp_path, "run-a", [])
    with pytest.raises(ConfigError, match="not the directory of a finished run"):
        said(run, str(tmp_path / "nothing"))
    (Path(run) / "summary.json").write_text("{}")
    with pytest.raises(ConfigError, match="lacks run_id: it was not written by this version"):
        said(run, run)
    older = report_stories.summary_without("finished_at").as_json()
    (Path(run) / "summary.json").write_text(json.dumps(older))
    with pytest.raises(ConfigError, match=r"lacks finished_at, .*not written by this version"):
        said(run, run)
