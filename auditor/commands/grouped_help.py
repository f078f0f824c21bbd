"""`--help` of a command fits on one screen: the settings of the first hour, and examples.

`--help-all` has all settings, under the headings of docs/configuration.md.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from importlib import metadata
from itertools import islice
from typing import Any, Final

import click

from auditor.commands.completion import CompletedText
from auditor.config import CONFIG_FILE, SETTINGS

EXAMPLES: Final[Mapping[str, tuple[str, ...]]] = {
    "run": (
        "auditor run --metadata-service-uri zk+hierarchical://zk1:2181/ledgers",
        "auditor run --config auditor.toml --fail-on new --notify /etc/auditor/tell",
        "auditor run --config auditor.toml --resume latest",
        "auditor run --config auditor.toml --full --dry-run",
        (
            "auditor ledger --config auditor.toml --naming b3:3181 | auditor run --config"
            " auditor.toml --ledgers-from -"
        ),
    ),
    "ledger": (
        "auditor ledger --config auditor.toml 4711 4712",
        "auditor ledger --config auditor.toml --naming bookie-3:3181 > ids.txt",
    ),
    "topic": (
        "auditor topic --config auditor.toml persistent://acme/shop/orders",
        "auditor topic --config auditor.toml --format json acme/shop/orders",
    ),
    "demo": ("auditor demo", "auditor demo --nights 2 --keep"),
    "replay": ("auditor replay", "auditor replay audits/run-20261121T050618Z-763f50"),
    "status": ("auditor status", "auditor status /var/lib/auditor --limit 30 --format json"),
    "report": (
        "auditor report",
        "auditor report latest~1 --full",
        "auditor report audits/run-20261121T050618Z-763f50 --format json",
    ),
    "diff": ("auditor diff", "auditor diff latest~7 latest"),
    "margin": (
        "auditor margin",
        "auditor margin latest --without /rack2 --without bookie-7:3181",
        "auditor margin --now --without bookie-3:3181",
    ),
    "explain": (
        "auditor explain 4711",
        "auditor explain 9a8eab80 latest~1",
    ),
    "mute": (
        "auditor mute 9a8eab80 --until 2027-01-31 --why 'b3 is drained, OPS-4711'",
        "auditor mute --list",
        "auditor mute --remove 9a8eab80",
    ),
    "bundle": (
        "auditor bundle",
        "auditor bundle latest 9a8eab801dccec12 4711 --file b.tar.gz",
    ),
    "rehearse": (
        "auditor rehearse --config auditor.toml --zookeeper-data /backup/zk1",
        "auditor rehearse --config auditor.toml --restored-uri zk://zk9:2181/ledgers",
        "auditor rehearse --config auditor.toml --zookeeper-data /backup/zk1 --serve",
    ),
    "salvage": (
        "auditor salvage --config auditor.toml --lister-port 3182",
        "auditor salvage --config auditor.toml --lister-port 3182 --into ./salvaged",
    ),
    "topology": ("auditor topology --config auditor.toml --topology zookeeper",),
    "lister": ("auditor lister --bookkeeper-conf conf/bookkeeper.conf --listen 0.0.0.0:3182",),
    "init": (
        "auditor init --metadata-service-uri zk+hierarchical://zk1:2181/ledgers",
        "auditor init prod.toml --metadata-service-uri zk+flat://zk1:2181/ledgers",
    ),
    "config": ("AUDITOR_BOOKIE_INFLIGHT=16 auditor config --config auditor.toml --changed",),
    "doctor": ("auditor doctor --metadata-service-uri zk+hierarchical://zk1:2181/ledgers",),
}
"""Command lines to copy, by command."""
DISTRIBUTION: Final = "bookkeeper-cluster-auditor"
DOCUMENTS: Final = "docs/getting-started.md and docs/configuration.md of the project"
"""Where the documents are, if the installed package does not know an address."""
HELP_COLUMNS: Final = 80
EXAMPLES_SHOWN_MAX: Final = 3
"""`--help` shows at most this many examples, `--help-all` all of them."""
METAVAR_CHARS_MAX: Final = 10
"""A setting with longer words to choose from shows WORD."""
SHORT_HELP: Final[Mapping[str, str]] = {
    "metadata_service_uri": "Cluster, as zk+hierarchical://HOST:2181/ledgers",
    "output": "Where the runs are stored",
    "cluster": "Name of the cluster in metrics",
    "metrics_textfile": "For node_exporter; or --pushgateway URL",
    "placement_policy": "none, rack, region or zone; with --topology",
    "topology": "Where bookies are: a table, zookeeper or a script",
    "maintenance": "Bookies known to be down: IDs, or racks as /r1",
    "bookkeeper_conf": "The configuration of the bookie beside it",
    "listen": "HOST:PORT on which it serves",
    "metrics_listen": "HOST:PORT on which its metrics are served",
    "full": "The whole report instead of its first screen",
    "format": "text or json",
    "config": "TOML file with these and all other settings",
}
"""The settings of the first hour with half a line for each, in the order in which `--help` shows
those that a command has."""
_NOT_FIRST: Final[Mapping[str, frozenset[str]]] = {
    "run": frozenset({"topology", "full"}),
    "init": frozenset({"full"}),
    "demo": frozenset({"placement_policy", "topology", "maintenance", "cluster"}),
    "config": frozenset({"bookkeeper_conf", "listen", "metrics_listen", "topology", "full"}),
    "doctor": frozenset({"bookkeeper_conf", "listen", "metrics_listen", "topology", "full"}),
    "ledger": frozenset({"topology"}),
    "topic": frozenset({"topology"}),
    "rehearse": frozenset({"placement_policy", "topology", "maintenance"}),
    "salvage": frozenset({"placement_policy", "topology", "maintenance"}),
    "topology": frozenset(),
}
"""By command: those that only `--help-all` shows."""
_SECTIONS: Final = {setting.key: setting.section for setting in SETTINGS}


def documents() -> str:
    """Return where the documents are: the address that the package was built with, or the files."""
    try:
        urls = metadata.metadata(DISTRIBUTION).get_all("Project-URL") or []
    except metadata.PackageNotFoundError:
        urls = []
    found = dict(url.split(", ", 1) for url in urls if ", " in url)
    return str(found.get("Documentation", DOCUMENTS))


class GroupedCommand(click.Command):
    """A command with a short help on one screen, and a long one that has all settings.

    A shell completes its arguments by their notation.
    """

    def __init__(self, *args: Any, **attributes: Any) -> None:
        super().__init__(*args, **attributes)
        for parameter in self.params:
            if parameter.metavar and type(parameter.type) is click.types.StringParamType:
                parameter.type = CompletedText(parameter.metavar)
        self.params.append(
            click.Option(
                ["--help-all"],
                is_flag=True,
                is_eager=True,
                expose_value=False,
                callback=_print_full_help,
                help="Show all options and settings, and exit.",
            )
        )

    def get_help(self, ctx: click.Context) -> str:
        """Return what `--help` prints: at most 24 lines of 80 columns."""
        lines = [f"Usage: {ctx.command_path} {' '.join(self.collect_usage_pieces(ctx))}", ""]
        for paragraph in (self.help or "").strip().split("\n\n"):
            lines += _wrap(paragraph, "  ", "  ")
        lines.append("")
        rows = [*self._own_rows(ctx), *self._first_settings()]
        width = max(len(names) for names, _ in rows)
        for names, text in rows:
            lines += _wrap(text, f"  {names.ljust(width)}  ", " " * (width + 4))
        if examples := EXAMPLES.get(self.name or "", ())[:EXAMPLES_SHOWN_MAX]:
            lines += ["", "Examples:", *(f"  {line}" for line in examples)]
        return "\n".join((*lines, f"Documents: {documents()}"))

    def _own_rows(self, ctx: click.Context) -> Iterator[tuple[str, str]]:
        """Yield each option that is not a setting, with the first sentence of its help."""
        keys = {*_SECTIONS, CONFIG_FILE.key, "help_all"}
        for option in self.get_params(ctx):
            is_own = option.name not in keys and "--help" not in option.opts
            if isinstance(option, click.Option) and is_own:
                metavar = "" if option.is_flag else f" {option.metavar or 'TEXT'}"
                yield f"{option.opts[0]}{metavar}", _first_sentence(option.help or "")

    def _first_settings(self) -> Iterator[tuple[str, str]]:
        """Yield the settings of the first hour that the command has, and where the others are."""
        own = {parameter.name for parameter in self.params}
        left_out = _NOT_FIRST.get(self.name or "", frozenset())
        settings = {setting.key: setting for setting in (*SETTINGS, CONFIG_FILE)}
        for key, text in SHORT_HELP.items():
            if key in own - left_out:
                setting = settings[key]
                metavar = setting.metavar if len(setting.metavar) < METAVAR_CHARS_MAX else "WORD"
                default = setting.default_for(self.name) if key == "output" else None
                yield (
                    setting.flag if setting.is_flag else f"{setting.flag} {metavar}",
                    text if default is None else f"{text}; default {default}",
                )
        count = sum(name in settings for name in own)
        yield "--help-all", f"All {count} settings, with their defaults"

    def full_help(self, ctx: click.Context) -> str:
        """Return what `--help-all` prints."""
        return super().get_help(ctx)

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


def _print_full_help(ctx: click.Context, _: click.Parameter, is_given: bool) -> None:
    """Print the long help and exit, if it is asked for."""
    if is_given and not ctx.resilient_parsing:
        assert isinstance(ctx.command, GroupedCommand), ctx.command
        click.echo(ctx.command.full_help(ctx), color=ctx.color)
        ctx.exit()


def _wrap(text: str, first: str, later: str) -> list[str]:
    """Return a text in lines that fit, behind `first` and `later`."""
    return textwrap.wrap(
        " ".join(text.split()),
        HELP_COLUMNS,
        initial_indent=first,
        subsequent_indent=later,
        break_on_hyphens=False,
    )


def _first_sentence(text: str) -> str:
    """Return the first sentence of a help text, without its full stop."""
    return text.partition(".  ")[0].partition(". ")[0].removesuffix(".")


class CommandGroup(click.Group):
    """All commands, in the order in which they are used, on one screen."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the commands in the order of their registration."""
        return list(self.commands)

    def get_help(self, ctx: click.Context) -> str:
        """Return what `auditor --help` prints: at most 24 lines of 80 columns."""
        lines = [f"Usage: {ctx.command_path} COMMAND ...  ({ctx.command_path} COMMAND --help)"]
        about, codes = " ".join((self.help or "").split()).split(" Exit codes: ")
        lines += _wrap(about, "", "")
        for name, command in self.commands.items():
            lines.append(f"  {name:8}  {command.get_short_help_str(HELP_COLUMNS - 12)}")
        return "\n".join((*lines, f"Exit codes: {codes}", f"Documents: {documents()}"))


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
