"""What a shell completes, requested as shells request it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.shell_completion import ShellComplete
from support import report_stories

from auditor.cli import cli
from auditor.commands.completion import VARIABLE, CompletedText
from auditor.evidence import findings_file
from auditor.model.finding import Kind

PROGRAM = Path(sys.executable).with_name("auditor")
IN_BASH = """
eval "$(_AUDITOR_COMPLETE=bash_source "$1")"
COMP_WORDS=(auditor "${@:2}")
COMP_CWORD=$(( ${#COMP_WORDS[@]} - 1 ))
compopt() { printf 'compopt %s\\n' "$*"; }
_auditor_completion "$1"
printf '%s\\n' "${COMPREPLY[@]}"
"""


def completed(*words: str) -> list[tuple[str, str]]:
    """Return what completes the last of the words, each with its type."""
    items = ShellComplete(cli, {}, "auditor", VARIABLE).get_completions(list(words[:-1]), words[-1])
    return [(item.type, item.value) for item in items]


def test_commands_and_options_are_completed():
    """The beginning of a word is enough."""
    assert [("plain", "margin")] == completed("ma")
    assert ("plain", "--format") in completed("run", "--f")
    assert ("plain", "--without") in completed("margin", "--")


def test_a_setting_with_fixed_words_completes_them():
    """So does a switch with the values on and off."""
    assert [("plain", "json")] == completed("report", "--format", "j")
    assert [("plain", "on"), ("plain", "off")] == completed("run", "--bookie-tls", "")


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        (("replay", "au"), "dir"),
        (("diff", "a", "au"), "dir"),
        (("explain", "4711", "au"), "dir"),
        (("run", "--output", "au"), "dir"),
        (("run", "--config", "au"), "file"),
        (("run", "--bookie-tls-ca", "au"), "file"),
    ],
)
def test_directories_and_files_are_left_to_the_shell(words: tuple[str, ...], kind: str):
    """The shell knows which ones exist."""
    assert [(kind, "au")] == completed(*words)


NEWEST, OLDER = "20260102T030000Z-000002", "20260101T030000Z-000001"
LOSS = report_stories.finding(Kind.ENTRY_WITHOUT_REPLICA, 4711, id="aaaa0001")
EMPTIED = report_stories.finding(Kind.BOOKIE_LOST_CONTENT, "b3:3181", id="bbbb0002")


@pytest.fixture
def output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an OUTPUT with two runs; the newest has two findings, one of them muted."""
    root = tmp_path / "audits"
    for run_id in (OLDER, NEWEST):
        (root / f"run-{run_id}").mkdir(parents=True)
    run = root / f"run-{NEWEST}"
    (run / "findings.jsonl").write_text(findings_file.text([LOSS, EMPTIED]) + '{"id": "cut')
    around = {"writable": ["b1:3181"], "readonly": ["b3:3181"], "locations": {"b1:3181": "/r1"}}
    (run / "run.json").write_text(json.dumps({"terms": {"around": around}}))
    topic = {"topic": "persistent://acme/shop/orders", "kinds": ["LEDGER_TRUNCATED"]}
    (run / "topics.jsonl").write_text(json.dumps(topic) + "\n")
    mute = {"id": "aaaa0001", "kind": "ENTRY_WITHOUT_REPLICA", "on": "ledger 4711"}
    (root / "mutes.jsonl").write_text(json.dumps(mute) + "\n")
    (root / "latest.json").write_text(json.dumps({"run": run.name}))
    monkeypatch.setenv("AUDITOR_OUTPUT", str(root))
    return root


@pytest.mark.usefixtures("output")
@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("report", ""), ["latest", NEWEST, OLDER, f"run-{NEWEST}", f"run-{OLDER}"]),
        (("diff", "latest", "run-20260101"), [f"run-{OLDER}"]),
        (("explain", ""), ["aaaa0001", "bbbb0002", "4711", "b3:3181"]),
        (("explain", "b"), ["bbbb0002", "b3:3181"]),
        (("explain", "4711", NEWEST[:12]), [NEWEST]),
        (("bundle", "latest", "a"), ["aaaa0001"]),
        (("mute", "a"), ["aaaa0001"]),
        (("mute", "--remove", ""), ["aaaa0001"]),
        (("ledger", "47"), ["4711"]),
        (("ledger", "--naming", "b"), ["b1:3181", "b3:3181"]),
        (("margin", "--without", ""), ["b1:3181", "b3:3181", "/r1"]),
        (("topic", "acme/"), ["acme/shop/orders"]),
    ],
)
def test_what_the_newest_run_has_is_completed(words: tuple[str, ...], expected: list[str]):
    """Runs, findings, ledgers, bookies and topics; of another run where one is named."""
    assert [("plain", one) for one in expected] == completed(*words)


def test_the_output_of_the_command_line_counts(output: Path, monkeypatch: pytest.MonkeyPatch):
    """So does a configuration file; an output that is not there or remote completes nothing."""
    monkeypatch.delenv("AUDITOR_OUTPUT")
    file = output / "auditor.toml"
    file.write_text(f'output = "{output}"\n')
    for flags in (("--output", str(output)), ("--config", str(file))):
        assert ("plain", "aaaa0001") in completed("explain", *flags, "")
    for where in ("s3a://bucket/audits", str(output / "nothing")):
        assert [] == completed("explain", "--output", where, "")
        assert [("dir", "")] == completed("report", "--output", where, "")


def test_an_answer_needs_no_arrow(output: Path):
    """It takes longer to load than a person waits for a key."""
    script = (
        "import sys\n"
        "from click.shell_completion import ShellComplete\n"
        "from auditor.cli import cli\n"
        "complete = ShellComplete(cli, {}, 'auditor', '_AUDITOR_COMPLETE').get_completions\n"
        "assert 'aaaa0001' in [item.value for item in complete(['explain'], '')]\n"
        "assert not {'pyarrow', 'pyspark', 'pandas', 'numpy'} & set(sys.modules)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False
    )
    assert (0, "") == (done.returncode, done.stderr), output


def test_what_only_the_cluster_knows_is_not_guessed():
    """A duration and a URI are not completed."""
    assert [] == completed("run", "--rpc-timeout", "1")
    assert [] == completed("run", "--metadata-service-uri", "zk")


def test_a_word_that_completion_does_not_know_is_refused_by_the_setting_alone():
    """Otherwise one mistake would have two error texts."""
    assert "xml" == CompletedText("text|json").convert("xml", None, None)


@pytest.mark.parametrize(
    ("words", "expected"),
    [(("ma",), "margin"), (("run", "--format", "j"), "json"), (("replay", ""), "dirnames")],
)
def test_bash_completes(words: tuple[str, ...], expected: str):
    """It uses the function that the program prints."""
    done = subprocess.run(
        ["bash", "-c", IN_BASH, "bash", str(PROGRAM), *words],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (0, "") == (done.returncode, done.stderr)
    assert expected in done.stdout.split()


def test_zsh_is_answered_as_it_asks():
    """A completion is three lines for zsh: type, value, help. `docs/operating.md` has the setup."""
    asked = {**os.environ, "COMP_WORDS": "auditor ma", "COMP_CWORD": "1"}
    answers = [
        subprocess.run(
            [PROGRAM],
            env={**asked, VARIABLE: f"zsh_{what}"},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        for what in ("complete", "source")
    ]
    assert [(0, ""), (0, "")] == [(one.returncode, one.stderr) for one in answers]
    assert ["plain", "margin"] == answers[0].stdout.splitlines()[:2]
    assert "#compdef auditor" in answers[1].stdout
