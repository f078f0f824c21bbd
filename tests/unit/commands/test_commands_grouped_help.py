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


@pytest.mark.parametrize(
    ("line", "values"),
    [
        ("ledger -1907126707656498384 --quiet 7", {"ids": ("-1907126707656498384", "7")}),
        ("ledger --naming -bk1", {"naming": "-bk1", "ids": ()}),
        ("ledger --naming=-bk1", {"naming": "-bk1"}),
        ("topic -t --format json -u", {"topics": ("-t", "-u"), "format": "json"}),
        ("explain -bk1 --output -o RUN", {"name": "-bk1", "run_dir": "RUN", "output": "-o"}),
        ("explain RUN -host-1", {"name": "RUN", "run_dir": "-host-1"}),
        ("mute -bk1 --until 2030-01-01 --why -w", {"name": "-bk1", "why": "-w"}),
        ("mute --remove -bk1", {"remove": "-bk1", "name": None}),
        ("margin RUN --without -bk1", {"run_dir": "RUN", "without": ("-bk1",)}),
        ("bundle RUN -bk1 --plain -bk2", {"names": ("-bk1", "-bk2"), "plain": True}),
        ("bundle RUN -- --bk1 -bk2", {"names": ("--bk1", "-bk2"), "plain": False}),
        ("explain --no-quiet -- --bk1", {"name": "--bk1", "quiet": False}),
        ("diff -a -b", {"earlier": "-a", "later": "-b"}),
        ("replay -run", {"run_dir": "-run"}),
        ("report -run --html -p", {"run_dir": "-run", "page": "-p"}),
    ],
)
def test_what_begins_with_a_dash_and_is_not_an_option_is_a_value(
    line: str, values: dict[str, object]
):
    """Ids of bookies, names of marks and directories may begin so; --ids stand behind `--`."""
    name, *words = line.split()
    given = cli.commands[name].make_context(name, words).params
    assert values == {one: given[one] for one in values}


def test_an_option_of_two_dashes_that_is_unknown_is_no_value():
    """The error says how to give it as one; a misspelt option has the nearest instead."""
    for word, hint in (("--bk1", "auditor explain ... -- --bk1"), ("--quite", "--quiet")):
        with pytest.raises(click.NoSuchOption) as raised:
            cli.main(["explain", word], prog_name="auditor", standalone_mode=False)
        assert hint in raised.value.format_message()
