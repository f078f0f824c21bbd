"""The command line: each command with its arguments and options.

A command's code is imported when it is called: `--help` and single ledgers stay fast.
"""

from __future__ import annotations

import click

from auditor import __version__
from auditor.cli import audits, installation, stored_runs


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="auditor")
def cli() -> None:
    """Audit an Apache BookKeeper cluster: is every acknowledged entry where the metadata says it
    is, in as many copies as was promised? The auditor only reads: it never writes to ZooKeeper or a
    bookie.

    Exit codes: 0 sound, 1 findings, 2 usage error, 3 something could not be judged, 4 the auditor
    is at fault, 5 unreachable.
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
    audits.run,
    audits.ledger,
    audits.topic,
    audits.demo,
    stored_runs.replay,
    stored_runs.report,
    stored_runs.diff,
    stored_runs.margin,
    stored_runs.explain,
    stored_runs.mute,
    stored_runs.bundle,
    installation.topology,
    installation.config,
    installation.doctor,
    installation.lister,
):
    cli.add_command(_command)
