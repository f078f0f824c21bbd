"""`--help`: every setting of a command under its heading, once; examples that name real options."""

from __future__ import annotations

import shlex

import click
import pytest

from auditor.cli import cli
from auditor.commands.grouped_help import EXAMPLES
from auditor.config import CONFIG_FILE, SETTINGS

COMMANDS = sorted(cli.commands)


def help_of(command: str) -> str:
    """Return what `auditor COMMAND --help` prints."""
    found = cli.commands[command]
    return found.get_help(click.Context(found, info_name=f"auditor {command}"))


def options_of(command: str) -> set[str]:
    """Return the options that a command has beside its settings."""
    keys = {setting.key for setting in SETTINGS}
    own = (
        parameter
        for parameter in cli.commands[command].params
        if isinstance(parameter, click.Option)
    )
    return {flag for parameter in own if parameter.name not in keys for flag in parameter.opts}


@pytest.mark.parametrize("command", COMMANDS)
def test_each_setting_stands_under_its_heading_once(command: str) -> None:
    """The headings are the sections of docs/configuration.md, in its order."""
    text = help_of(command)
    own = "config" if command == "doctor" else command
    lines, heading, found = text.splitlines(), "", {}
    for line in lines:
        if line.endswith(":") and not line.startswith(" "):
            heading = line[:-1]
        if line.startswith("  --"):
            assert line.split()[0] not in found, line
            found[line.split()[0]] = heading
    expected = {setting.flag: setting.section for setting in SETTINGS if own in setting.commands}
    assert expected == {flag: found[flag] for flag in expected}
    headings = list(dict.fromkeys(expected.values()))
    assert headings == sorted(headings, key=[one.section for one in SETTINGS].index)


@pytest.mark.parametrize("command", COMMANDS)
def test_examples_use_options_that_the_command_has(command: str) -> None:
    """Each example is a command line of this program with flags of its command."""
    assert EXAMPLES[command]
    for line in EXAMPLES[command]:
        assert f"  {line}\n" in help_of(command) + "\n"
        for part in line.split(" | "):
            words = shlex.split(part.split(" > ")[0])
            words = words[next(place for place, word in enumerate(words) if "=" not in word) :]
            assert "auditor" == words[0]
            flags = {CONFIG_FILE.flag, *options_of(words[1])} | {
                s.flag for s in SETTINGS if words[1] in s.commands
            }
            flags |= {s.flag for s in SETTINGS} if words[1] == "doctor" else set()
            assert {word for word in words if word.startswith("--")} <= flags, line
