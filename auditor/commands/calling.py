"""Options from settings, and one call of a command: settings, log, signals, exit code."""

from __future__ import annotations

import os
import shutil
import sys
import traceback
from collections.abc import Callable
from dataclasses import replace
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from typing import TYPE_CHECKING, Any, NoReturn

import click

from auditor.commands.completion import CompletedText
from auditor.config import CONFIG_FILE, SETTINGS, Setting, Settings, parse, read_layers
from auditor.config.access import BookieAccess, ZooKeeperAccess
from auditor.config.secured_settings import ASK_BOOKIES, READ_ZOOKEEPER
from auditor.console import ConsoleStream, without_controls
from auditor.errors import ConfigError, LocalFault, text_of
from auditor.local_faults import exhaustion, local_fault


class _NoPandas(MetaPathFinder):
    """Says that pandas is not installed."""

    def find_spec(self, fullname: str, *_: object) -> ModuleSpec | None:
        """Raise ModuleNotFoundError for pandas, and leave other modules to other finders."""
        if fullname == "pandas":
            raise ModuleNotFoundError(fullname)
        return None


def load_arrow_alone() -> None:
    """Import Arrow, unless this process has imported it or pandas: Arrow finds no pandas, and
    allocates by jemalloc.
    """
    if {"pyarrow", "pandas"} & sys.modules.keys():
        return
    from auditor.host_limits import take_jemalloc

    finder = _NoPandas()
    sys.meta_path.insert(0, finder)
    try:
        import pyarrow

        pyarrow.array([0])  # Arrow looks for pandas once, now
        take_jemalloc()
    finally:
        sys.meta_path.remove(finder)


if TYPE_CHECKING:
    from structlog.stdlib import BoundLogger

    from auditor.report.layout import Screen

WIDTH_WITHOUT_TERMINAL = 100
"""Columns of the report if the width of the screen is not known."""

LINES_MIN = 20
"""Lines of the first screen on a terminal that is lower: what is always there needs them."""
PROMPT_LINES = 1
"""Lines of a terminal that the shell's prompt takes below the first screen."""

Command = Callable[..., Any]


def options(command: str) -> Callable[[Command], Command]:
    """Return a decorator that adds an option for each setting of a command."""

    def decorate(function: Command) -> Command:
        for setting in reversed([CONFIG_FILE, *SETTINGS]):
            if command in setting.commands:
                function = _option(setting, command)(function)
        return function

    return decorate


def _option(setting: Setting, command: str) -> Callable[[Command], Command]:
    if setting.is_flag:
        names = f"{setting.flag}/{setting.off_flag}"
        return click.option(names, setting.key, default=None, help=setting.help)
    default = setting.default_for(command)
    text = setting.help if default is None else f"{setting.help} [default: {default}]"
    kind = CompletedText(setting.metavar)
    return click.option(
        setting.flag, setting.key, default=None, metavar=setting.metavar, type=kind, help=text
    )


def check_needed_credentials(command: str, settings: Settings) -> None:
    """Raise ConfigError if a certificate, key or secret that this command needs cannot be read.

    `doctor` calls itself `config`: both show every setting, good or bad.
    """
    from auditor.credentials.checking import check_credentials

    check_credentials(*_needed_access(command, settings))


def warn_of_open_secrets(command: str, settings: Settings, logger: BoundLogger) -> None:
    """Log each file with a secret of this command that every user of the machine can read."""
    from auditor.credentials.checking import OPEN_TO_ALL_ADVICE, secrets_open_to_all

    for path in secrets_open_to_all(*_needed_access(command, settings)):
        logger.warning("secret_open_to_all", file=path, advice=OPEN_TO_ALL_ADVICE)


def warn_of_certificates(command: str, settings: Settings, logger: BoundLogger) -> None:
    """Log each certificate of ours for this command that has expired or is not valid yet."""
    from auditor.clock import utc_now
    from auditor.credentials.checking import certificates_out_of_date

    for reason in certificates_out_of_date(*_needed_access(command, settings), utc_now()):
        logger.warning("certificate_not_valid", reason=reason)


def _needed_access(command: str, settings: Settings) -> tuple[BookieAccess, ZooKeeperAccess]:
    """Return the credentials for the services that the command contacts."""
    bookie = settings.bookie_limits().access if command in ASK_BOOKIES else BookieAccess()
    return bookie, (
        settings.zookeeper_limits(1).access if command in READ_ZOOKEEPER else ZooKeeperAccess()
    )


def call(
    command: str,
    flags: dict[str, Any],
    work: Callable[[Any], int],
    *,
    is_answer_printed: Callable[[Settings], bool] = lambda _: True,
) -> None:
    """Parse the settings, run the command and exit with its code. Every command ends here.

    `is_answer_printed`: what the command prints is its only result. If it cannot be printed, the
    process exits with another code (`auditor.console.code_after_printing`).
    """
    from auditor.context import EXIT_FAULT, SIGNAL_EXIT_BASE, Context
    from auditor.stop import Interrupted, StopRequest
    from auditor.telemetry import log
    from auditor.telemetry.progress import progress_for

    try:
        settings = parse(read_layers(flags, os.environ, command), command=command)
        if isinstance(sys.stdout, ConsoleStream):
            sys.stdout.is_answer = is_answer_printed(settings)
        check_needed_credentials(command, settings)
        logger = log.setup(
            log_format=settings.log_format, verbose=settings.verbose, quiet=settings.quiet
        )
        warn_of_open_secrets(command, settings, logger)
        warn_of_certificates(command, settings, logger)
        stop = StopRequest()
        stop.install()
        progress = progress_for(quiet=settings.quiet)
        screen = screen_of(is_terminal=sys.stdout.isatty())
        context = Context(settings, sys.stdout, logger, progress, stop, screen, default_output())
        try:
            code = work(context)
        finally:
            progress.close()
    except ConfigError as error:
        if (fault := exhaustion(error)) is not None:
            _end_for_local_fault(fault)
        _print_error(f"auditor: {error}")
        sys.exit(2)
    except Interrupted as interrupted:
        advice = interrupted.advice
        _print_error(f"auditor: stopped by {interrupted}; earlier results are as they were{advice}")
        sys.exit(SIGNAL_EXIT_BASE + interrupted.signal_number)
    except Exception as error:  # our own fault: its exit code must not mean a finding
        if (fault := local_fault(error)) is not None:
            _end_for_local_fault(fault)
        _print_error(traceback.format_exc().rstrip())
        said = text_of(error)
        _print_error(f"auditor: AUDITOR_FAULT: unforeseen {type(error).__name__}: {said}")
        sys.exit(EXIT_FAULT)
    sys.exit(code)


def screen_of(*, is_terminal: bool) -> Screen:
    """Return the screen that stdout is, or stands for."""
    from auditor.report.layout import Screen

    width, lines = shutil.get_terminal_size((WIDTH_WITHOUT_TERMINAL, 0))
    screen = Screen(width, color=is_terminal and not os.environ.get("NO_COLOR"))
    if not is_terminal or not lines:
        return screen
    return replace(screen, height=max(LINES_MIN, lines - PROMPT_LINES))


def default_output() -> str | None:
    """Return OUTPUT as a command without flags finds it; None if such a command would fail."""
    try:
        return parse(read_layers({}, os.environ, "explain"), command="explain").output
    except ConfigError:
        return None


def _end_for_local_fault(fault: LocalFault) -> NoReturn:
    """Print what this host lacks, and exit with 5: neither the cluster nor the auditor is wrong."""
    from auditor.context import EXIT_UNREACHABLE

    _print_error(f"auditor: {fault}")
    sys.exit(EXIT_UNREACHABLE)


def _print_error(text: str) -> None:
    """Print `text` to stderr, with control characters escaped."""
    click.echo(without_controls(text), err=True)
