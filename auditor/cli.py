"""Turn flags into settings, run a command and exit with its code.

Commands get their logger and their stop request from this module.
"""

from __future__ import annotations

import os
import shutil
import sys
import traceback
from collections.abc import Callable, Sequence
from typing import Any

import click

from auditor import __version__
from auditor.commands.grouped_help import GroupedCommand
from auditor.config import CONFIG_FILE, SETTINGS, Setting, parse, read_layers
from auditor.errors import ConfigError

WIDTH_WITHOUT_TERMINAL = 100
"""Columns of the report if the width of the screen is unknown."""

Command = Callable[..., Any]


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="auditor")
def cli() -> None:
    """Audit an Apache BookKeeper cluster: is every acknowledged entry where the metadata says it is,
    in as many copies as was promised? The auditor only reads: it never writes to ZooKeeper or a bookie.

    Exit codes: 0 sound, 1 findings, 2 usage error, 3 something could not be judged, 4 the auditor is
    at fault, 5 unreachable.
    """


def run_command_line() -> int:
    """Parse the command line and run the command.

    Returns the exit code if the command does not exit itself. Raises KeyboardInterrupt on Ctrl-C:
    click alone would exit with 1, the code for findings.
    """
    try:
        return int(cli.main(standalone_mode=False) or 0)
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except click.exceptions.Abort:
        raise KeyboardInterrupt from None


def _options(command: str) -> Callable[[Command], Command]:
    """Return a decorator that adds an option for each setting of a command."""

    def decorate(function: Command) -> Command:
        for setting in reversed([CONFIG_FILE, *SETTINGS]):
            if command in setting.commands:
                function = _option(setting, command)(function)
        return function

    return decorate


def _option(setting: Setting, command: str) -> Callable[[Command], Command]:
    default = setting.default_for(command)
    text = setting.help if setting.is_flag or default is None else f"{setting.help} [default: {default}]"
    if setting.is_flag:
        return click.option(f"{setting.flag}/{setting.off_flag}", setting.key, default=None, help=text)
    return click.option(setting.flag, setting.key, default=None, metavar=setting.metavar, help=text)


def _call(command: str, flags: dict[str, Any], work: Callable[[Any], int]) -> None:
    """Parse the settings, run the command and exit with its code. Every command ends here."""
    from auditor.commands.context import EXIT_FAULT, SIGNAL_EXIT_BASE, Context
    from auditor.credentials.checking import check_credentials
    from auditor.stop import Interrupted, StopRequest
    from auditor.telemetry import log
    from auditor.telemetry.progress import progress_for

    try:
        settings = parse(read_layers(flags, os.environ), command=command)
        if command != "config":  # `config` and `doctor` show what there is, good or bad.
            check_credentials(settings.bookie_limits().access, settings.zookeeper_limits(1).access)
        logger = log.setup(log_format=settings.log_format, verbose=settings.verbose, quiet=settings.quiet)
        stop = StopRequest()
        stop.install()
        progress = progress_for(quiet=settings.quiet)
        on_screen = sys.stdout.isatty()
        width = shutil.get_terminal_size((WIDTH_WITHOUT_TERMINAL, 0)).columns
        context = Context(settings, sys.stdout, logger, progress, stop, width, color=on_screen and "NO_COLOR" not in os.environ)
        try:
            code = work(context)
        finally:
            progress.close()
    except ConfigError as error:
        click.echo(f"auditor: {error}", err=True)
        sys.exit(2)
    except Interrupted as interrupted:
        click.echo(f"auditor: stopped by {interrupted}; earlier results are as they were{interrupted.advice}", err=True)
        sys.exit(SIGNAL_EXIT_BASE + interrupted.signal_number)
    except Exception as error:  # unforeseen, so our fault: its exit code must not mean a finding
        traceback.print_exc()
        click.echo(f"auditor: AUDITOR_FAULT: unforeseen {type(error).__name__}: {error}", err=True)
        sys.exit(EXIT_FAULT)
    sys.exit(code)


@cli.command(cls=GroupedCommand)
@_options("run")
def run(**flags: Any) -> None:
    """Audit every ledger of a cluster, once, as a Spark job."""

    def work(context: Any) -> int:
        from auditor.commands.run import run as command

        return command(context)

    _call("run", flags, work)


@cli.command(cls=GroupedCommand)
@click.argument("ids", nargs=-1, metavar="[ID …]")
@click.option(
    "--naming",
    metavar="BOOKIE",
    help="Instead of auditing, list the ledgers whose metadata names this bookie, one id a line, as --ledgers-from reads them.",
)
@_options("ledger")
def ledger(ids: Sequence[str], naming: str | None, **flags: Any) -> None:
    """Audit single ledgers without Spark, with the same judgement, in about a second.

    With --naming, show what blocks the decommission of a bookie:

    \b
      auditor ledger --naming bookie-3:3181 > ids.txt
      auditor run --ledgers-from ids.txt
    """
    if naming is not None and ids:
        raise click.UsageError("--naming lists ledgers and takes no ID: give one or the other")
    if naming is None and not ids:
        raise click.UsageError("Missing argument 'ID', or --naming BOOKIE.")

    def work(context: Any) -> int:
        if naming is not None:
            from auditor.commands.naming import naming as list_naming

            return list_naming(context, naming)
        from auditor.commands.ledger import ledger as command
        from auditor.commands.ledger_ids import ledger_id

        return command(context, list(dict.fromkeys(ledger_id(word, "auditor ledger") for word in ids)))

    _call("ledger", flags, work)


@cli.command(cls=GroupedCommand)
@click.argument("topics", nargs=-1, required=True, metavar="TOPIC …")
@_options("topic")
def topic(topics: Sequence[str], **flags: Any) -> None:
    """Show whether a Pulsar topic is readable from end to end, for each of its subscriptions.

    Audits every ledger that the topic, its subscriptions and its schemas reference, without Spark.
    A partitioned topic stands for all its partitions.
    """

    def work(context: Any) -> int:
        from auditor.commands.topic import topic as command
        from auditor.wire.topic_paths import parse_topic

        return command(context, list(dict.fromkeys(map(parse_topic, topics))))

    _call("topic", flags, work)


@cli.command(cls=GroupedCommand)
@_options("demo")
def demo(**flags: Any) -> None:
    """Audit an embedded cluster that holds an example of each kind of finding. Needs Java only."""

    def work(context: Any) -> int:
        from auditor.commands.demo import demo as command

        return command(context)

    _call("demo", flags, work)


@cli.command(cls=GroupedCommand)
@click.argument("run_dir", metavar="RUN_DIR")
@_options("replay")
def replay(run_dir: str, **flags: Any) -> None:
    """Judge the stored evidence of a run again with this version. Needs no cluster and no Java."""

    def work(context: Any) -> int:
        from auditor.commands.replay import replay as command

        return command(context, run_dir)

    _call("replay", flags, work)


@cli.command(cls=GroupedCommand)
@click.argument("run_dir", metavar="RUN_DIR")
@_options("report")
def report(run_dir: str, **flags: Any) -> None:
    """Print the report of a stored run."""

    def work(context: Any) -> int:
        from auditor.commands.replay import report as command

        return command(context, run_dir)

    _call("report", flags, work)


@cli.command(cls=GroupedCommand)
@_options("topology")
def topology(**flags: Any) -> None:
    """Show the location of each bookie and its source. Exit 3 when a bookie has none."""

    def work(context: Any) -> int:
        from auditor.commands.topology import topology as command

        return command(context)

    _call("topology", flags, work)


@cli.command(cls=GroupedCommand)
@_options("config")
def config(**flags: Any) -> None:
    """Show the effective settings and the source of each."""

    def work(context: Any) -> int:
        from auditor.commands.doctor import show_config

        return show_config(context, read_layers(flags, os.environ))

    _call("config", flags, work)


@cli.command(cls=GroupedCommand)
@_options("config")
def doctor(**flags: Any) -> None:
    """Check Java, Spark, ZooKeeper and the bookies, and say what is missing."""

    def work(context: Any) -> int:
        from auditor.commands.doctor import doctor as command

        return command(context)

    _call("config", flags, work)


@cli.command(cls=GroupedCommand)
@_options("lister")
def lister(**flags: Any) -> None:
    """Serve the lists of a bookie that cannot list (DbLedgerStorage), from its index, beside it."""

    def work(context: Any) -> int:
        from auditor.commands.lister import lister as command

        return command(context)

    _call("lister", flags, work)
