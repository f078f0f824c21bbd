"""The commands that show settings, check an installation, and serve beside a bookie."""

from __future__ import annotations

import os
from typing import Any

import click

from auditor.commands.calling import call, options
from auditor.commands.grouped_help import GroupedCommand
from auditor.config import read_layers


@click.command(cls=GroupedCommand)
@options("topology")
def topology(**flags: Any) -> None:
    """Show the location of each bookie and its source. Exit 3 when a bookie has none."""

    def work(context: Any) -> int:
        from auditor.commands.topology import topology as command

        return command(context)

    call("topology", flags, work)


@click.command(cls=GroupedCommand)
@options("config")
def config(**flags: Any) -> None:
    """Show the effective settings and the source of each."""

    def work(context: Any) -> int:
        from auditor.commands.shown_config import show_config

        return show_config(context, read_layers(flags, os.environ))

    call("config", flags, work)


@click.command(cls=GroupedCommand)
@options("config")
def doctor(**flags: Any) -> None:
    """Check Java, Spark, ZooKeeper and the bookies, and say what is missing."""

    def work(context: Any) -> int:
        from auditor.commands.doctor import doctor as command

        return command(context)

    call("config", flags, work)


@click.command(cls=GroupedCommand)
@options("lister")
def lister(**flags: Any) -> None:
    """Serve the lists of a bookie that cannot list (DbLedgerStorage), from its index, beside it."""

    def work(context: Any) -> int:
        from auditor.commands.lister import lister as command

        return command(context)

    call("lister", flags, work, is_answer_printed=lambda _: False)
