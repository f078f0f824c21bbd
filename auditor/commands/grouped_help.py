"""`--help` of a command: its settings under the headings of docs/configuration.md, and examples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any, Final

import click

from auditor.commands.completion import CompletedText
from auditor.config import SETTINGS

EXAMPLES: Final[Mapping[str, tuple[str, ...]]] = {
    "run": (
        (
            "auditor run --metadata-service-uri zk+hierarchical://zk1:2181/ledgers --output"
            " /var/lib/auditor"
        ),
        "auditor run --config auditor.toml --full",
        "auditor run --config auditor.toml --dry-run",
        "auditor run --config auditor.toml --resume 20261121T050618Z-763f50",
        (
            "auditor ledger --config auditor.toml --naming b3:3181 | auditor run --config"
            " auditor.toml --ledgers-from -"
        ),
    ),
    "ledger": (
        "auditor ledger --metadata-service-uri zk+hierarchical://zk1:2181/ledgers 4711 4712",
        "auditor ledger --config auditor.toml --naming bookie-3:3181 > ids.txt",
    ),
    "topic": (
        (
            "auditor topic --metadata-service-uri zk+hierarchical://zk1:2181/ledgers"
            " persistent://acme/shop/orders"
        ),
        "auditor topic --config auditor.toml --format json acme/shop/orders acme/shop/invoices",
    ),
    "demo": ("auditor demo --output audits/demo",),
    "replay": ("auditor replay audits/run-20261121T050618Z-763f50",),
    "status": ("auditor status", "auditor status /var/lib/auditor --limit 30 --format json"),
    "report": (
        "auditor report",
        "auditor report latest~1 --full",
        "auditor report audits/run-20261121T050618Z-763f50 --format json",
    ),
    "diff": ("auditor diff", "auditor diff latest~7 latest"),
    "margin": (
        "auditor margin",
        "auditor margin --without bookie-3:3181",
        "auditor margin 20261121T050618Z-763f50 --without /rack2 --without bookie-7:3181",
    ),
    "explain": (
        "auditor explain 4711",
        "auditor explain 9a8eab801dccec12 audits/run-20261121T050618Z-763f50",
    ),
    "mute": (
        "auditor mute 9a8eab801dccec12 --until 2027-01-31 --why 'bookie-3 is drained, OPS-4711'",
        "auditor mute --list",
        "auditor mute --remove 9a8eab801dccec12",
    ),
    "bundle": (
        "auditor bundle audits/run-20261121T050618Z-763f50",
        "auditor bundle audits/run-20261121T050618Z-763f50 9a8eab801dccec12 4711 --file b.tar.gz",
    ),
    "topology": ("auditor topology --config auditor.toml --topology zookeeper",),
    "lister": (
        (
            "auditor lister --bookkeeper-conf /opt/bookkeeper/conf/bookkeeper.conf --listen"
            " 0.0.0.0:3182"
        ),
    ),
    "config": ("AUDITOR_BOOKIE_INFLIGHT=16 auditor config --config auditor.toml",),
    "doctor": ("auditor doctor --metadata-service-uri zk+hierarchical://zk1:2181/ledgers",),
}
"""Command lines to copy, by command."""
_SECTIONS: Final = {setting.key: setting.section for setting in SETTINGS}


class GroupedCommand(click.Command):
    """A command that lists its options under headings, in the order of docs/configuration.md.

    A shell completes its arguments by their notation.
    """

    def __init__(self, *args: Any, **attributes: Any) -> None:
        super().__init__(*args, **attributes)
        for parameter in self.params:
            if isinstance(parameter, click.Argument) and parameter.metavar:
                parameter.type = CompletedText(parameter.metavar)

    def parse_args(self, context: click.Context, args: list[str]) -> list[str]:
        """Parse the words of the command line.

        A word that begins with one dash and is not an option of this command is a value: ids of
        bookies and names of marks may begin with a dash.
        """
        has_values = any(isinstance(param, click.Argument) for param in self.params)
        if not has_values or context.resilient_parsing:
            return super().parse_args(context, args)
        try:
            return super().parse_args(context, _values_last(self.get_params(context), args))
        except click.NoSuchOption as error:
            if error.possibilities:
                raise
            hint = f"To give it as a value: {context.command_path} ... -- {error.option_name}"
            raise click.NoSuchOption(
                error.option_name, f"{error.message} {hint}", ctx=context
            ) from None

    def format_options(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the command's own options first, then each section of settings."""
        sections: dict[str, list[tuple[str, str]]] = {"Options": []}
        for parameter in self.get_params(context):
            record = (
                parameter.get_help_record(context) if isinstance(parameter, click.Option) else None
            )
            if record is not None:
                sections.setdefault(_SECTIONS.get(parameter.name or "", "Options"), []).append(
                    record
                )
        for heading, records in sections.items():
            if records:
                with formatter.section(heading):
                    formatter.write_dl(records)

    def format_epilog(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples of the command."""
        lines = EXAMPLES.get(self.name or "", ())
        if lines:
            with formatter.section("Examples"):
                for line in lines:
                    formatter.write(f"{'':{formatter.current_indent}}{line}\n")


def _values_last(params: Sequence[click.Parameter], args: Sequence[str]) -> list[str]:
    """Return the same words with the options first, then `--` and the values in their order."""
    by_name = {name: param for param in params for name in (*param.opts, *param.secondary_opts)}
    options: list[str] = []
    values: list[str] = []
    words = iter(args)
    for word in words:
        if word == "--":
            values.extend(words)
        elif word.startswith("--") or word in by_name:
            options.append(word)
            option = by_name.get(word)
            if isinstance(option, click.Option) and not option.is_flag and not option.count:
                options.extend(islice(words, option.nargs))
        else:
            values.append(word)
    return [*options, "--", *values]
