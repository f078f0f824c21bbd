"""`--help` fits on one screen; `--help-all` has every setting of a command under its heading, once;
examples name real options.
"""

from __future__ import annotations

import shlex

import click
import pytest
from click.testing import CliRunner

from auditor.cli import cli
from auditor.commands.grouped_help import EXAMPLES, GroupedCommand
from auditor.config import CONFIG_FILE, SETTINGS

COMMANDS = sorted(cli.commands)


def context_of(command: str) -> click.Context:
    return click.Context(cli.commands[command], info_name=f"auditor {command}")


def help_of(command: str) -> str:
    """Return what `auditor COMMAND --help-all` prints."""
    found = cli.commands[command]
    assert isinstance(found, GroupedCommand)
    return found.full_help(context_of(command))


def short_help_of(command: str) -> str:
    """Return what `auditor COMMAND --help` prints."""
    return cli.commands[command].get_help(context_of(command))


@pytest.mark.parametrize("command", [*COMMANDS, ""])
def test_help_fits_on_one_screen(command: str):
    """24 lines of 80 columns, with examples, where all settings are, and the documents."""
    text = (
        short_help_of(command) if command else cli.get_help(click.Context(cli, info_name="auditor"))
    )
    lines = text.splitlines()
    assert 24 >= len(lines) and 80 >= max(map(len, lines)), text
    assert "..." not in text.replace("COMMAND ...", "") and lines[-1].startswith("Documents: ")
    if command:
        assert f"  {EXAMPLES[command][0]}" in lines and "--help-all" in text
    else:
        assert all(f"  {name} " in text for name in COMMANDS)


def test_the_settings_of_the_first_hour_are_in_the_help_of_a_run():
    """With them a cluster is audited each night, and somebody hears of it."""
    text = short_help_of("run")
    first = (
        *("metadata-service-uri", "output", "cluster", "metrics-textfile", "placement-policy"),
        *("maintenance", "config"),
    )
    assert [] == [name for name in first if f"  --{name} " not in text]
    assert f"All {sum('run' in one.commands for one in SETTINGS) + 1} settings" in text


def test_help_all_has_what_help_leaves_out():
    """As an option of the command, which ends it."""
    short, long = (
        CliRunner().invoke(cli, ["run", flag], prog_name="auditor")
        for flag in ("--help", "--help-all")
    )
    assert (0, 0) == (short.exit_code, long.exit_code)
    assert short_help_of("run") == short.output.rstrip("\n")
    assert "\nHow it is judged:\n" in long.output and "--sound-sample" not in short.output


def test_the_exit_codes_of_a_report_are_in_its_help():
    """They are those of the run, not of the command."""
    assert "Exits with the run's own code: 0 sound, 1 findings" in short_help_of("report")


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
    own = {"doctor": "config", "init": "run"}.get(command, command)
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
            flags |= {s.flag for s in SETTINGS} if words[1] in ("doctor", "init") else set()
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
