"""The command line: each command with its arguments and options.

A command's code is imported when it is called: `--help` and single ledgers stay fast.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import click

from auditor import __version__
from auditor.commands.calling import call, load_arrow_alone, options
from auditor.commands.grouped_help import CommandGroup, GroupedCommand
from auditor.config import read_layers

LISTED_RUNS_DEFAULT = 10
LISTED_RUNS_MAX = 10_000
"""At most this many summaries are read by `auditor status`. One takes some milliseconds."""

TOGETHER_MAX = 1_000
"""At most this many bookies are proposed at once: no cluster has more."""
SALVAGED_DEFAULT = 10_000
SALVAGED_MAX = 10_000_000
"""Ledgers without metadata that are examined. Their lists are in memory at once."""


@click.command(cls=GroupedCommand)
@options("run")
def run(**flags: Any) -> None:
    """Audit every ledger of a cluster, once. A large cluster is audited with Spark."""

    def work(context: Any) -> int:
        from auditor.commands.run import run as command

        return command(context)

    call("run", flags, work, is_answer_printed=lambda settings: settings.dry_run)


@click.command(cls=GroupedCommand)
@click.argument("ids", nargs=-1, metavar="[ID …]")
@click.option(
    "--naming",
    metavar="BOOKIE",
    help=(
        "Instead of auditing, list the ledgers whose metadata names this bookie, one id a line, as"
        " --ledgers-from reads them."
    ),
)
@options("ledger")
def ledger(ids: Sequence[str], naming: str | None, **flags: Any) -> None:
    """Audit single ledgers with the same judgement, in about a second.

    With --naming, list the ledgers that block the decommission of a bookie.
    """
    if naming is not None and ids:
        raise click.UsageError("--naming lists ledgers and takes no ID: give one or the other")
    if naming is None and not ids:
        raise click.UsageError("Missing argument 'ID', or --naming BOOKIE.")

    def work(context: Any) -> int:
        if naming is not None:
            from auditor.commands.naming import naming as list_naming

            return list_naming(context, naming)
        load_arrow_alone()
        from auditor.commands.ledger import ledger as command
        from auditor.commands.ledger_ids import ledger_id

        return command(
            context, list(dict.fromkeys(ledger_id(word, "auditor ledger") for word in ids))
        )

    call("ledger", flags, work)


@click.command(cls=GroupedCommand)
@click.argument("topics", nargs=-1, required=True, metavar="TOPIC …")
@options("topic")
def topic(topics: Sequence[str], **flags: Any) -> None:
    """Show whether a Pulsar topic is readable from end to end.

    Audits every ledger that the topic, its subscriptions and its schemas reference, and answers
    for each subscription.
    A partitioned topic stands for all its partitions.
    """

    def work(context: Any) -> int:
        load_arrow_alone()
        from auditor.commands.topic import topic as command
        from auditor.pulsar.topic_paths import parse_topic

        return command(context, list(dict.fromkeys(map(parse_topic, topics))))

    call("topic", flags, work)


@click.command(cls=GroupedCommand)
@click.option(
    "--nights",
    type=click.IntRange(1, 2),
    metavar="N",
    default=1,
    show_default=True,
    help="With 2, change the cluster and audit it again: for `diff`, `mute` and the history.",
)
@click.option(
    "--keep", is_flag=True, help="Keep the cluster running until Ctrl-C, and name it to try more."
)
@options("demo")
def demo(nights: int, keep: bool, **flags: Any) -> None:
    """Audit an embedded cluster with an example of most kinds of findings. Needs only Java."""

    def work(context: Any) -> int:
        from auditor.commands.demo import demo as command

        return command(context, nights=nights, keeps=keep)

    call("demo", flags, work, is_answer_printed=lambda _: False)


@click.command(cls=GroupedCommand)
@click.argument("run_dir", metavar="[RUN]", required=False)
@options("replay")
def replay(run_dir: str | None, **flags: Any) -> None:
    """Judge the stored evidence of a run again with this version. Needs no cluster and no Java.

    RUN is a run's id, the name or path of its directory, latest, or latest~N for the Nth before; by
    default latest, the newest finished run in --output.
    """

    def work(context: Any) -> int:
        load_arrow_alone()
        from auditor.commands.replay import replay as command
        from auditor.commands.stored_run import choose_run

        return command(context, choose_run(context, run_dir))

    call("replay", flags, work)


@click.command(cls=GroupedCommand)
@click.argument("run_dir", metavar="[RUN]", required=False)
@click.option(
    "--html",
    "page",
    metavar="FILE",
    help=(
        "Also write the run's page to this file: one file that opens offline, as report.html in the"
        " run's directory."
    ),
)
@options("report")
def report(run_dir: str | None, page: str | None, **flags: Any) -> None:
    """Print the report of a stored run, by default of the newest.

    RUN is a run's id, the name or path of its directory, latest, or latest~N for the Nth before.

    Exits with the run's own code: 0 sound, 1 findings, 3 something could not be judged, 4 the
    auditor is at fault. 2: there is no such run, or it is damaged.
    """

    def work(context: Any) -> int:
        load_arrow_alone()
        from auditor.commands.report import report as command
        from auditor.commands.stored_run import choose_run

        return command(context, choose_run(context, run_dir), page)

    call("report", flags, work)


@click.command(cls=GroupedCommand)
@click.argument("directory", metavar="[OUTPUT]", required=False)
@click.option(
    "--limit",
    type=click.IntRange(1, LISTED_RUNS_MAX),
    default=LISTED_RUNS_DEFAULT,
    show_default=True,
    metavar="COUNT",
    help="List at most this many runs, the newest.",
)
@options("status")
def status(directory: str | None, limit: int, **flags: Any) -> None:
    """List the stored runs, the newest first, with outcome and age.

    Also what was new, which share of the copies was verified and how long it took. Runs that were
    killed, and runs of named ledgers, are listed too.

    OUTPUT is the directory that --output names. The exit code is that of the newest finished run of
    the whole cluster; 3 without one.
    """

    def work(context: Any) -> int:
        load_arrow_alone()
        from auditor.commands.status import status as command

        return command(context, directory, limit)

    call("status", flags, work)


@click.command(cls=GroupedCommand)
@click.argument("earlier", metavar="[RUN_A]", required=False)
@click.argument("later", metavar="[RUN_B]", required=False)
@options("diff")
def diff(earlier: str | None, later: str | None, **flags: Any) -> None:
    """Show what became of each finding from run A to run B of one cluster.

    A run is named by its id, the name or path of its directory, latest or latest~N. By default run
    B is latest, the newest finished run in --output, and run A the one of the whole cluster before
    it.

    Exit 1 when something of warning or above is new or worse, and 3 when nothing is but run B could
    not judge everything.
    """

    def work(context: Any) -> int:
        load_arrow_alone()
        from auditor.commands.diff import diff as command
        from auditor.commands.stored_run import choose_two_runs

        return command(context, *choose_two_runs(context, earlier, later))

    call("diff", flags, work)


@click.command(cls=GroupedCommand)
@click.argument("run_dir", metavar="[RUN]", required=False)
@click.option(
    "--without",
    metavar="BOOKIE|/LOCATION",
    multiple=True,
    help="Ask what losing this bookie or location would do. Repeat it for several at once.",
)
@click.option(
    "--now",
    "is_now",
    is_flag=True,
    help="Read ZooKeeper first: can they be stopped now?",
)
@click.option(
    "--for",
    "purpose",
    type=click.Choice(["restart", "decommission"]),
    metavar="PURPOSE",
    help="With --now: restart or decommission.  [default: restart]",
)
@click.option(
    "--max",
    "together_max",
    type=click.IntRange(1, TOGETHER_MAX),
    metavar="N",
    help="With --now: propose up to N bookies to stop at once.",
)
@options("margin")
def margin(
    run_dir: str | None,
    without: Sequence[str],
    is_now: bool,
    purpose: str | None,
    together_max: int | None,
    **flags: Any,
) -> None:
    """Show how many ledgers would lose copies if bookies failed.

    RUN is a run's id, its directory, latest (the default), or latest~N for the Nth before.

    With --without it is a gate. Exit 0: go. 1: an entry would have no copy. 3: that is not ruled
    out, or not known.
    """
    if (purpose or together_max) and not is_now:
        raise click.UsageError("--for and --max are about this moment: give --now too")
    if is_now and not without and not together_max:
        raise click.UsageError("--now answers for bookies: give --without BOOKIE or --max N too")

    def work(context: Any) -> int:
        load_arrow_alone()
        from auditor.after.margin_now import Purpose
        from auditor.commands.margin import margin as command
        from auditor.commands.stored_run import choose_run

        run = choose_run(context, run_dir)
        now = Purpose(purpose or "restart") if is_now else None
        return command(context, run, without, now, together_max)

    call("margin", flags, work)


@click.command(cls=GroupedCommand)
@click.argument("name", metavar="ID")
@click.argument("run_dir", metavar="[RUN]", required=False)
@options("explain")
def explain(name: str, run_dir: str | None, **flags: Any) -> None:
    """Show findings of a stored run in full: one, or all on a subject.

    ID is that of a finding or its beginning, of a ledger or of a bookie. RUN is a run's id, the
    name or path of its directory, latest, or latest~N for the Nth before; by default latest, the
    newest finished run in --output.
    """

    def work(context: Any) -> int:
        load_arrow_alone()
        from auditor.commands.explain import explain as command

        return command(context, name, run_dir)

    call("explain", flags, work)


@click.command(cls=GroupedCommand)
@click.argument("name", metavar="[ID]", required=False)
@click.argument("run_dir", metavar="[RUN]", required=False)
@click.option("--until", metavar="DATE", help="Last day of the mute (UTC), such as 2027-01-31.")
@click.option("--why", metavar="TEXT", help="Why the finding is accepted.")
@click.option("--list", "is_list", is_flag=True, help="Show the mutes instead.")
@click.option("--remove", metavar="ID", help="Remove the mute of the finding with this ID instead.")
@options("mute")
def mute(
    name: str | None,
    run_dir: str | None,
    until: str | None,
    why: str | None,
    is_list: bool,
    remove: str | None,
    **flags: Any,
) -> None:
    """Accept a finding until a day.

    It is still shown, and does not count for the exit code. The mute is a line in mutes.jsonl in
    --output, or in the file that --mutes names. It does not apply to a finding that got worse, or
    is of another kind. Without RUN the finding is one of the newest finished run.
    """
    if sum((name is not None, is_list, remove is not None)) != 1:
        raise click.UsageError("give one of: ID with --until and --why, --list, or --remove ID")

    def work(context: Any) -> int:
        load_arrow_alone()
        from auditor.commands import mute as command

        if is_list:
            return command.list_mutes(context)
        return (
            command.remove_mute(context, remove)
            if remove
            else command.mute(context, name or "", until, why, run_dir)
        )

    call("mute", flags, work, is_answer_printed=lambda _: is_list)


@click.command(cls=GroupedCommand)
@click.argument("run_dir", metavar="[RUN]", required=False)
@click.argument("names", nargs=-1, metavar="[ID …]")
@click.option("--file", metavar="FILE", help="Where to write it.  [default: in this directory]")
@click.option("--plain", is_flag=True, help="Leave the names of bookies, hosts and owners in it.")
@options("bundle")
def bundle(
    run_dir: str | None, names: Sequence[str], file: str | None, plain: bool, **flags: Any
) -> None:
    """Pack evidence of a run into one file, to report a wrong verdict.

    It is the evidence of these findings, ledgers or bookies; without an ID that of all findings.

    RUN is a run's id, the name or path of its directory, latest, or latest~N for the Nth before; by
    default latest, the newest finished run in --output.
    """

    def work(context: Any) -> int:
        load_arrow_alone()
        from auditor.after.stored_runs import is_run_argument
        from auditor.commands.bundle import bundle as command
        from auditor.commands.stored_run import choose_run

        is_named = run_dir is not None and is_run_argument(run_dir)
        run = choose_run(context, run_dir if is_named else None)
        ids = names if is_named or run_dir is None else (run_dir, *names)
        return command(context, run, ids, file, plain=plain)

    call("bundle", flags, work, is_answer_printed=lambda _: False)


@click.command(cls=GroupedCommand)
@click.option(
    "--zookeeper-data",
    "data",
    metavar="DIRECTORY",
    multiple=True,
    help=(
        "A ZooKeeper's dataDir, or one snapshot. Repeat it for the dataLogDir. An embedded"
        " ZooKeeper serves a copy; these files are only read."
    ),
)
@click.option(
    "--restored-uri",
    metavar="URI",
    help="A ZooKeeper that serves the restored metadata instead.",
)
@click.option(
    "--ids",
    metavar="DIRECTORY",
    help="New directory for the ids of each fate. Each has a file, as --ledgers-from reads it.",
)
@click.option(
    "--serve",
    "is_serving",
    is_flag=True,
    help=(
        "Only serve the copy, to audit it by other commands. Its bookies are registered there. The"
        " living ZooKeeper is not needed."
    ),
)
@options("rehearse")
def rehearse(
    data: Sequence[str], restored_uri: str | None, ids: str | None, is_serving: bool, **flags: Any
) -> None:
    """Show what a restore of ZooKeeper would do to the ledgers.

    Compares restored metadata with the living: which ledgers would be gone, cut short, open again
    or back, in bytes and by topic, and what bookies would delete. Nothing is restored.

    Exit 1: a restore changes ledgers. 3: some could not be compared. Else 0.
    """
    if bool(data) == (restored_uri is not None):
        raise click.UsageError("give --zookeeper-data DIRECTORY or --restored-uri URI")
    if is_serving and (restored_uri is not None or ids is not None):
        raise click.UsageError(
            "--serve takes --zookeeper-data, and neither --restored-uri nor --ids"
        )

    def work(context: Any) -> int:
        load_arrow_alone()
        from auditor.commands import rehearse as command

        if is_serving:
            return command.serve(context, data)
        return command.rehearse(context, data, restored_uri, ids)

    call("rehearse", flags, work, is_answer_printed=lambda _: not is_serving)


@click.command(cls=GroupedCommand)
@click.option(
    "--into",
    metavar="DIRECTORY",
    help="New directory for the proposals. They hold the password of their ledgers.",
)
@click.option(
    "--max",
    "most",
    type=click.IntRange(1, SALVAGED_MAX),
    metavar="COUNT",
    default=SALVAGED_DEFAULT,
    show_default=True,
    help="Examine this many ledgers at most, the newest.",
)
@click.option(
    "--ledger-password-file",
    "password_file",
    metavar="FILE",
    help="File with the password of the ledgers. It is empty without this, as in Pulsar.",
)
@options("salvage")
def salvage(into: str | None, most: int, password_file: str | None, **flags: Any) -> None:
    """Find ledgers that bookies hold and no metadata names.

    Listers name what their bookies hold. Proposes metadata as input for BookKeeper's own shell: as
    the newest run read it, else as the entries show it. Nothing is applied.

    Exit 1: there are such ledgers. 3: none is known, and some bookies are not. Else 0.
    """

    def work(context: Any) -> int:
        load_arrow_alone()
        from auditor.commands.salvage import salvage as command

        return command(context, most, into, password_file)

    call("salvage", flags, work)


@click.command(cls=GroupedCommand)
@options("topology")
def topology(**flags: Any) -> None:
    """Show the location of each bookie and its source. Exit 3 if a bookie has none."""

    def work(context: Any) -> int:
        from auditor.commands.topology import topology as command

        return command(context)

    call("topology", flags, work)


@click.command(cls=GroupedCommand)
@click.argument("file", metavar="[FILE]", required=False)
@options("run")
def init(file: str | None, **flags: Any) -> None:
    """Look at a cluster, and write a file with the first settings.

    FILE is auditor.toml by default, and is never overwritten.
    """

    def work(context: Any) -> int:
        from auditor.commands.init import init as command

        return command(context, file)

    call("run", flags, work)


@click.command(cls=GroupedCommand)
@click.option("--changed", is_flag=True, help="Show only what differs from the defaults.")
@options("config")
def config(changed: bool, **flags: Any) -> None:
    """Show the effective settings and the source of each."""

    def work(context: Any) -> int:
        from auditor.commands.shown_config import show_config

        return show_config(context, read_layers(flags, os.environ), is_changed=changed)

    call("config", flags, work)


@click.command(cls=GroupedCommand)
@options("config")
def doctor(**flags: Any) -> None:
    """Check all that a run needs, and say what is missing. Exit 5 if something is."""

    def work(context: Any) -> int:
        from auditor.commands.doctor import doctor as command

        return command(context)

    call("config", flags, work)


@click.command(cls=GroupedCommand)
@options("lister")
def lister(**flags: Any) -> None:
    """Serve the lists of a bookie that cannot list, beside it.

    Bookies with DbLedgerStorage, as Pulsar runs them, cannot list. It reads their index.
    """

    def work(context: Any) -> int:
        from auditor.commands.lister import lister as command

        return command(context)

    call("lister", flags, work, is_answer_printed=lambda _: False)


@click.group(
    cls=CommandGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, prog_name="auditor")
def cli() -> None:
    """Audit Apache BookKeeper: is each acknowledged entry where the metadata says, in as many
    copies as promised? It reads, and never writes to ZooKeeper or a bookie.

    Exit codes: 0 sound, 1 findings, 2 usage, 3 unknown, 4 our fault, 5 unreachable
    """


def run_command_line() -> int:
    """Run what the command line says, and return the exit code if the command does not exit itself.

    Raises KeyboardInterrupt on Ctrl-C: click alone would exit with 1, the code for findings.
    """
    try:
        return int(cli.main(standalone_mode=False) or 0)
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except click.exceptions.Abort:
        raise KeyboardInterrupt from None


for _command in (
    run,
    ledger,
    topic,
    demo,
    replay,
    status,
    report,
    diff,
    margin,
    explain,
    mute,
    bundle,
    rehearse,
    salvage,
    topology,
    init,
    config,
    doctor,
    lister,
):
    cli.add_command(_command)
