"""`python -m auditor`, and the `auditor` command."""

from __future__ import annotations

import signal
import sys

INTERRUPTED = 128 + signal.SIGINT
"""What a shell would say of a command ended by Ctrl-C; 1 would mean findings."""


def main() -> None:
    """Run the command line and exit with its code. Ctrl-C before a command has begun counts as Ctrl-C too."""
    try:
        from auditor.cli import run_command_line
        from auditor.console import secure_standard_streams

        secure_standard_streams()
        sys.exit(run_command_line())
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


if __name__ == "__main__":
    main()
