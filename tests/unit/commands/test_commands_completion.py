"""What a shell completes, requested as shells request it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.shell_completion import ShellComplete

from auditor.cli import cli
from auditor.commands.completion import VARIABLE, CompletedText

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


def test_what_only_the_cluster_knows_is_not_guessed():
    """A ledger id, a duration and a URI are not completed."""
    assert [] == completed("ledger", "47")
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
