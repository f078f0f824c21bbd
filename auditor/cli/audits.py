"""The commands that audit: a cluster, single ledgers, a topic, and the demo's cluster."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from auditor.commands.arrow_alone import load_arrow_alone
from auditor.commands.calling import call, options
from auditor.commands.grouped_help import GroupedCommand


@click.command(cls=GroupedCommand)
@options("run")
def run(**flags: Any) -> None:
    """Audit every ledger of a cluster, once, as a Spark job."""

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
    """Show whether a Pulsar topic is readable from end to end, for each of its subscriptions.

    Audits every ledger that the topic, its subscriptions and its schemas reference, without Spark.
    A partitioned topic stands for all its partitions.
    """

    def work(context: Any) -> int:
        load_arrow_alone()
        from auditor.commands.topic import topic as command
        from auditor.pulsar.topic_paths import parse_topic

        return command(context, list(dict.fromkeys(map(parse_topic, topics))))

    call("topic", flags, work)


@click.command(cls=GroupedCommand)
@options("demo")
def demo(**flags: Any) -> None:
    """Audit an embedded cluster that holds an example of each kind of finding. Needs Java only."""

    def work(context: Any) -> int:
        from auditor.commands.demo import demo as command

        return command(context)

    call("demo", flags, work, is_answer_printed=lambda _: False)
