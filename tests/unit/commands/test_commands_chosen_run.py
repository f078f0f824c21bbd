"""Which run an argument means: an id, a directory's name, a path, or none."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path

import pytest
from support import report_stories

from auditor.after.stored_runs import StoredRuns, is_run_argument, name_of
from auditor.commands.stored_run import choose_run, choose_two_runs, whereabouts
from auditor.config import Layers, parse
from auditor.context import Context
from auditor.errors import ConfigError
from auditor.evidence.run_directory import place
from auditor.stop import StopRequest
from auditor.telemetry import log
from auditor.telemetry.progress import Silent

OLDEST, PARTIAL, OLDER, NEWEST, DEAD = (f"run-2026010{n}T030000Z-00000{n}" for n in range(1, 6))


@pytest.fixture
def output(tmp_path: Path) -> Path:
    """Return an OUTPUT with four finished runs, one of named ledgers, and one that died."""
    root = tmp_path / "audits"
    for name in (OLDEST, PARTIAL, OLDER, NEWEST, DEAD):
        (root / name).mkdir(parents=True)
        (root / name / "run.json").write_text("{}")
        if name != DEAD:
            summary = report_stories.summary(run_id=name[4:], partial=name == PARTIAL)
            (root / name / "summary.json").write_text(json.dumps(summary.as_json()))
    (root / "latest.json").write_text(json.dumps({"run": NEWEST}))
    return root


def context(output: Path) -> Context:
    settings = parse(Layers(flags={"output": str(output)}), command="report")
    return Context(
        settings, io.StringIO(), log.setup(stream=io.StringIO()), Silent(), StopRequest()
    )


@pytest.mark.parametrize("form", ["{id}", "run-{id}", "{output}/run-{id}"])
def test_a_run_is_named_by_its_id_its_directory_or_its_path(output: Path, form: str):
    """All three mean one directory."""
    run_id = OLDER.removeprefix("run-")
    text = form.format(id=run_id, output=output)
    assert str(output / OLDER) == choose_run(context(output), text)


def test_a_directory_here_is_meant_by_its_own_name(
    output: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    """So in OUTPUT itself a name needs no --output; an id is still looked for there."""
    monkeypatch.chdir(output)
    assert str(output / OLDER) == choose_run(context(tmp_path / "elsewhere"), OLDER)


def test_without_a_run_it_is_the_newest_finished_one(output: Path, tmp_path: Path):
    """It is the one that latest.json names, not one that died. Without any, a sentence says so."""
    assert str(output / NEWEST) == choose_run(context(output), None)
    with pytest.raises(ConfigError, match="has no finished run"):
        choose_run(context(tmp_path / "empty"), None)


def test_the_newest_two_whole_runs_are_compared(output: Path):
    """A run of named ledgers lies between them and is passed over; one named run is the earlier."""
    (output / PARTIAL).rename(output / "run-20260103T040000Z-000009")
    assert (str(output / OLDER), str(output / NEWEST)) == choose_two_runs(
        context(output), None, None
    )
    assert (str(output / OLDEST), str(output / NEWEST)) == choose_two_runs(
        context(output), OLDEST, None
    )


def test_one_run_alone_is_not_compared(output: Path):
    """Nothing is older than the oldest."""
    (output / "latest.json").write_text(json.dumps({"run": OLDEST}))
    with pytest.raises(ConfigError, match=f"no finished run of the whole cluster before {OLDEST}"):
        choose_two_runs(context(output), None, None)


@pytest.mark.parametrize(
    ("text", "name"),
    [("latest", NEWEST), ("latest~0", NEWEST), ("latest~1", OLDER), ("latest~2", OLDEST)],
)
def test_latest_counts_finished_runs_of_the_whole_cluster(output: Path, text: str, name: str):
    """Neither one that died nor one of named ledgers counts."""
    assert str(output / name) == choose_run(context(output), text)


def test_the_path_of_an_output_means_its_newest_run(output: Path, tmp_path: Path):
    """A path of a run stays that run, and of anything else it is refused when it is opened."""
    elsewhere = context(tmp_path / "elsewhere")
    assert str(output / NEWEST) == choose_run(elsewhere, str(output))
    assert str(output / OLDER) == choose_run(elsewhere, f"{output / OLDER}/")
    assert str(tmp_path) == choose_run(elsewhere, str(tmp_path))


@pytest.mark.parametrize("text", ["latest~3", "20250101T000000Z-000000"])
def test_an_error_says_what_is_there(output: Path, text: str):
    """It names the run that was looked for, where, and the newest runs there."""
    with pytest.raises(
        ConfigError, match=f"it has {DEAD}, {NEWEST}, {OLDER} and 2 older"
    ) as raised:
        choose_run(context(output), text)
    assert text.removeprefix("run-") in str(raised.value) and str(output) in str(raised.value)


@pytest.mark.parametrize(
    ("text", "name"), [("latest", DEAD), (DEAD, DEAD), ("{output}/" + DEAD, DEAD)]
)
def test_a_run_to_resume_is_the_newest_unfinished_one(output: Path, text: str, name: str):
    """`latest` counts unfinished runs for --resume, as the finished ones cannot be resumed."""
    runs = StoredRuns.at(str(output))
    assert output / name == Path(runs.find_unfinished(text.format(output=output)).path)


@pytest.mark.parametrize("text", ["latest~1", "elsewhere", "/tmp/" + DEAD])
def test_no_other_run_is_resumed(output: Path, text: str):
    """Only one in OUTPUT that is not finished."""
    with pytest.raises(ConfigError, match=r"not finished|is not a run|not in --output"):
        StoredRuns.at(str(output)).find_unfinished(text)


def test_a_run_that_was_never_published_is_not_the_one_before(output: Path):
    """It has a summary, and still its journal."""
    (output / OLDER / "journal").mkdir()
    (output / OLDER / "journal" / "000000.json").write_text("{}")
    assert str(output / OLDEST) == choose_run(context(output), "latest~1")
    assert OLDEST == name_of(StoredRuns.at(str(output)).before(place(str(output / NEWEST))))


def test_a_run_differs_in_form_from_a_finding_and_a_ledger(output: Path):
    """`bundle` takes ids behind its run: only a word of a run's form is one."""
    runs = (OLDER, OLDER.removeprefix("run-"), str(output / OLDER), "latest", "latest~12")
    assert all(map(is_run_argument, runs))
    others = ("7", "abcd000000000001", "b1:3181", "latest-bookie", "latest~")
    assert not any(map(is_run_argument, others))


def test_a_printed_command_has_only_the_words_that_it_needs(
    output: Path, monkeypatch: pytest.MonkeyPatch
):
    """None for the newest run where commands look by themselves; OUTPUT if they look elsewhere; the
    run's path for another run, and for a replay. What is below this directory is named from here.
    """
    newest, older = place(str(output / NEWEST)), place(str(output / OLDER))
    there = context(output)
    here = replace(there, output_by_default=str(output))
    assert ("", f"--output {output}") == (
        whereabouts(here, newest).choice,
        whereabouts(there, newest).choice,
    )
    assert str(output / OLDER) == whereabouts(here, older).choice
    monkeypatch.chdir(output.parent)
    assert f"audits/{OLDER}" == whereabouts(here, older).choice
    replayed = whereabouts(here, newest, is_replay=True)
    assert (f"audits/{NEWEST}", False, False) == (
        replayed.choice,
        replayed.is_stored,
        replayed.has_page,
    )
    (output / NEWEST / "report.html").touch()
    assert whereabouts(here, newest).page(80).startswith(f"audits/{NEWEST}/report.html (")
