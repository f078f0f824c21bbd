"""The entry point of `python -m auditor` and of the `auditor` command."""

from __future__ import annotations

import os
import signal
import sys
import traceback

from auditor import python_problem

INTERRUPTED = 128 + signal.SIGINT
"""Exit code of a command ended by Ctrl-C, as shells define it; 1 would mean findings."""
FAULT = 4
"""Exit code of an unexpected error."""

LIMITED = 5
"""Exit code if this host does not even let the command begin (EXIT_UNREACHABLE)."""


def main() -> None:
    """Run the command line and exit with its code, or with INTERRUPTED on Ctrl-C before a command.

    Exits with 2 on a Python that is too old: what is imported below needs a newer one.
    """
    if problem := python_problem(sys.version_info):
        sys.stderr.write(f"auditor: {problem}\n")
        sys.exit(2)
    from auditor.host_limits import require_room_for_libraries
    from auditor.local_faults import local_fault

    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # its threads would take memory for nothing
    try:
        from auditor.commands.completion import is_completing
        from auditor.console import code_after_printing, secure_standard_streams

        if not is_completing():
            secure_standard_streams()
        require_room_for_libraries()
        sys.exit(code_after_printing(_exit_code()))
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except Exception as error:
        fault = local_fault(error)
        if fault is None:  # Python would exit with 1, the code for findings
            traceback.print_exc()
            sys.exit(FAULT)
        sys.stderr.write(f"auditor: {fault}\n")
        sys.exit(LIMITED)


def _exit_code() -> int:
    """Run the command line, and return its exit code."""
    from auditor.cli import run_command_line

    try:
        return run_command_line()
    except SystemExit as error:
        return error.code if isinstance(error.code, int) else 0 if error.code is None else FAULT


if __name__ == "__main__":
    main()
