"""Which runs can be resumed, and the errors for all others. Nothing is contacted."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import structlog

from auditor.config import Layers, parse
from auditor.context import Context, terms_of
from auditor.errors import ConfigError
from auditor.evidence.output_directory import Output
from auditor.evidence.run_directory import place, write_json
from auditor.model.cluster import ClusterFacts, Surroundings
from auditor.run.resumption import resume_about, same_cluster
from auditor.stop import StopRequest
from auditor.summary.about import About
from auditor.summary.reading_plan import ReadingPlan
from auditor.telemetry.progress import Silent

RUN_ID = "20260301T020000Z-1a2b3c"
STARTED = datetime(2026, 3, 1, 2, tzinfo=UTC)
NOW = STARTED + timedelta(hours=3)
FACTS = ClusterFacts(
    "zk://h/ledgers", ("h:2181",), "/ledgers", "hierarchical", "an id", False, None
)


def context(**flags: str) -> Context:
    settings = parse(
        Layers(flags={"metadata_service_uri": "zk://h:2181/ledgers", **flags}), command="run"
    )
    return Context(settings, io.StringIO(), structlog.get_logger(), Silent(), StopRequest())


def left_behind(tmp_path: Path, **changes: Any) -> Output:
    """Return OUTPUT with one interrupted run, begun under the default settings with `changes`."""
    output = Output(place(str(tmp_path)))
    around = Surroundings(maintenance=frozenset({"b7"}), locations={"b1": "/r/1"})
    terms = terms_of(context(), RUN_ID, around)
    run = output.start(RUN_ID)
    about = About(
        RUN_ID,
        "2026-03-01T02:00:00.000Z",
        FACTS,
        terms,
        "warning",
        False,
        waits_ms=(300_000, 1_800_000),
        reading=ReadingPlan(period_ms=context().settings.verify_within_ms),
    )
    about = replace(about, **changes)
    write_json(run, "run.json", about.as_json())
    (run / "journal").create()
    (run / "journal").write_text("000000.json", entry("listing"))
    return output


def entry(stage: str) -> str:
    """Return a journal's entry on a stage that wrote nothing."""
    return json.dumps({"stage": stage, "result": {}, "files": {}, "seconds": {}, "reads": {}})


def test_a_run_goes_on_as_it_was_begun(tmp_path: Path):
    """It keeps its judging time, locations and maintenance; only the time of the resumption is
    added.
    """
    output = left_behind(tmp_path, partial=True, resumed_at=("2026-03-01T03:00:00.000Z",))
    before = About.from_json(json.loads(output.run(RUN_ID).read_text("run.json") or ""))
    after = resume_about(context(), output, RUN_ID, NOW)
    assert ("2026-03-01T03:00:00.000Z", "2026-03-01T05:00:00.000Z") == after.resumed_at
    assert before == replace(after, resumed_at=before.resumed_at)


REFUSED: Mapping[str, tuple[dict[str, str], dict[str, Any]]] = {
    "fail_on": ({"fail_on": "critical"}, {}),
    "underreplication_grace": ({"underreplication_grace": "1h"}, {}),
    r"other settings \(probe_budget\)": ({"probe_budget": "7"}, {}),
    "verify_within": ({"verify_within": "7d"}, {}),
    "placement": ({"placement_policy": "rack", "topology": "zookeeper"}, {}),
    "sound_sample, allow_empty": ({"sound_sample": "7%", "allow_empty": "true"}, {}),
    "second_look_delay or lost_bookie_wait_max": ({"second_look_delay": "0s"}, {}),
    "begun by version 0.0.9": ({}, {"auditor_version": "0.0.9"}),
    r"older than --resume-age-max allows \(2h\)": ({"resume_age_max": "2h"}, {}),
    r"other settings \(within\)": ({"within": "24h"}, {}),
    r"only about what was due when it began \(--within\)": ({}, {"within_ms": 1}),
    "neither --ledgers-from nor --dry-run": ({"dry_run": "true"}, {}),
}


@pytest.mark.parametrize("says", REFUSED)
def test_a_run_of_other_terms_does_not_go_on(tmp_path: Path, says: str):
    """Settings on which verdicts or the exit code depend must be unchanged. The error names those
    that differ.
    """
    flags, changes = REFUSED[says]
    with pytest.raises(ConfigError, match=says):
        resume_about(context(**flags), left_behind(tmp_path, **changes), RUN_ID, NOW)


def test_the_refusal_of_an_old_run_says_when_and_what_to_do(tmp_path: Path):
    """By default a run is refused in its second night. It goes on with a longer --resume-age-max,
    whose price the error names.
    """
    output, next_night = left_behind(tmp_path), STARTED + timedelta(hours=25)
    with pytest.raises(ConfigError) as refused:
        resume_about(context(window="01:00-05:00"), output, RUN_ID, next_night)
    assert (
        f"--resume: run {RUN_ID} began at 2026-03-01T02:00:00.000Z and would go on at"
        " 2026-03-02T03:00:00.000Z, its evidence older than --resume-age-max allows (24h): raise it"
        " if ledgers may be reported sound by what was seen that long ago, or start a new run"
    ) == str(refused.value)
    longer = context(window="01:00-05:00", resume_age_max="48h")
    assert RUN_ID == resume_about(longer, output, RUN_ID, next_night).run_id


@pytest.mark.parametrize(
    "flags",
    [
        {"keep_runs": "3"},
        {"bookie_inflight": "8"},
        {"shard_ledgers": "10"},
        {"output": "elsewhere"},
    ],
)
def test_settings_that_no_verdict_depends_on_may_change(tmp_path: Path, flags: dict[str, str]):
    """Gentler limits are often why a run is interrupted and resumed."""
    assert RUN_ID == resume_about(context(**flags), left_behind(tmp_path), RUN_ID, NOW).run_id


@pytest.mark.parametrize("text", ["", "newest", "../run-1", f"{RUN_ID}/evidence"])
def test_what_is_not_a_run_is_refused(tmp_path: Path, text: str):
    """Any other text could name another directory."""
    with pytest.raises(ConfigError, match="is not a run: give its id, such as"):
        resume_about(context(), left_behind(tmp_path), text, NOW)


@pytest.mark.parametrize("form", ["{id}", "run-{id}", "{output}/run-{id}", "{output}/run-{id}/"])
def test_a_run_goes_on_by_its_id_its_directory_or_its_path(tmp_path: Path, form: str):
    """The log names its directory: that can be pasted."""
    output = left_behind(tmp_path)
    text = form.format(id=RUN_ID, output=output.root.path)
    assert RUN_ID == resume_about(context(), output, text, NOW).run_id


def test_a_run_of_another_output_is_refused(tmp_path: Path):
    """It would go on in this one."""
    with pytest.raises(ConfigError, match="is not in --output"):
        resume_about(context(), left_behind(tmp_path), f"../run-{RUN_ID}", NOW)


def test_a_run_that_is_not_there_does_not_go_on(tmp_path: Path):
    """It is most likely in another OUTPUT. The error has the path."""
    with pytest.raises(ConfigError, match=rf"{tmp_path}/run-20260301T020000Z-ffffff holds no run"):
        resume_about(context(), left_behind(tmp_path), "20260301T020000Z-ffffff", NOW)


def test_a_run_that_wrote_nothing_does_not_go_on(tmp_path: Path):
    """It has no listing. The ledgers of a run over named ledgers would be unknown."""
    output = left_behind(tmp_path)
    output.run(RUN_ID).remove("journal")
    with pytest.raises(ConfigError, match="before the ledgers were listed"):
        resume_about(context(), output, RUN_ID, NOW)


def test_a_finished_run_does_not_go_on(tmp_path: Path):
    """latest.json names the run, or the run has a summary and no journal."""
    output = left_behind(tmp_path)
    write_json(output.run(RUN_ID), "summary.json", {})
    output.publish(output.run(RUN_ID))
    with pytest.raises(ConfigError, match="is finished: auditor report"):
        resume_about(context(), output, RUN_ID, NOW)
    output.run(RUN_ID).remove("journal")
    output.root.files.delete_file(f"{output.root.path}/latest.json")
    with pytest.raises(ConfigError, match="is finished: auditor report"):
        resume_about(context(), output, RUN_ID, NOW)


def test_a_run_that_died_before_it_was_published_goes_on(tmp_path: Path):
    """Its summary is written, and latest.json still names an earlier run."""
    output = left_behind(tmp_path)
    write_json(output.run(RUN_ID), "summary.json", {})
    output.publish(output.start("20260301T010000Z-ffffff"))
    assert RUN_ID == resume_about(context(), output, RUN_ID, NOW).run_id


def test_a_run_that_a_later_one_overtook_does_not_go_on(tmp_path: Path):
    """Its results would replace newer ones. A run that finished before it does not matter."""
    output = left_behind(tmp_path)
    output.publish(output.start("20260301T010000Z-ffffff"))
    assert RUN_ID == resume_about(context(), output, RUN_ID, NOW).run_id
    output.publish(output.start("20260301T030000Z-000000"))
    with pytest.raises(ConfigError, match="a run begun later is finished"):
        resume_about(context(), output, RUN_ID, NOW)


def test_a_run_killed_while_it_wrote_its_first_entry_does_not_go_on(tmp_path: Path):
    """The journal has the beginning of a temporary file, and no stage."""
    output = left_behind(tmp_path)
    journal = output.run(RUN_ID) / "journal"
    text = journal.read_text("000000.json") or ""
    journal.remove_file("000000.json")
    journal.write_text(".000000.json.tmp", text[:20])
    with pytest.raises(ConfigError, match="before the ledgers were listed"):
        resume_about(context(), output, RUN_ID, NOW)


def test_a_run_whose_journal_lost_its_beginning_does_not_go_on(tmp_path: Path):
    """The journal must begin with the listing: otherwise nothing is known of the run."""
    output = left_behind(tmp_path)
    journal = output.run(RUN_ID) / "journal"
    journal.write_text("000002.json", journal.read_text("000000.json") or "")
    with pytest.raises(ConfigError, match=r"has a gap: .* start a new run"):
        resume_about(context(), output, RUN_ID, NOW)
    journal.remove_file("000002.json")
    journal.write_text("000000.json", entry("look 1: over"))
    with pytest.raises(ConfigError, match="before the ledgers were listed"):
        resume_about(context(), output, RUN_ID, NOW)


@pytest.mark.parametrize("at", ["yesterday", "2026-03-01T02:00:00.000"])
def test_a_run_that_does_not_say_when_it_began_does_not_go_on(tmp_path: Path, at: str):
    """Its start is not a time, or has no time zone."""
    with pytest.raises(ConfigError, match=r"is damaged .* start a new run"):
        resume_about(context(), left_behind(tmp_path, started_at=at), RUN_ID, NOW)


@pytest.mark.parametrize("text", ["", "{", "{}", "[]"])
def test_a_damaged_run_does_not_go_on(tmp_path: Path, text: str):
    """There is an error for any content of run.json."""
    output = left_behind(tmp_path)
    output.run(RUN_ID).write_text("run.json", text)
    with pytest.raises(ConfigError, match="start a new run"):
        resume_about(context(), output, RUN_ID, NOW)


def test_a_run_does_not_go_on_in_another_cluster(tmp_path: Path):
    """A cluster that is reached by another of its hosts is still the same."""
    about = resume_about(context(), left_behind(tmp_path), RUN_ID, NOW)
    same_cluster(
        about,
        replace(
            FACTS, metadata_service_uri="zk://other/ledgers", hosts=("other:2181",), root="/other"
        ),
    )
    with pytest.raises(ConfigError, match=f"another cluster than that of run {RUN_ID}"):
        same_cluster(about, replace(FACTS, instance_id="another"))
