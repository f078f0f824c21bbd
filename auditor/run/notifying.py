"""Tell an operator's command what a published run found that is news (--notify), and record that
somebody was told: otherwise the next run tells it again.

The command gets one JSON document on stdin. It has a bounded time, a bounded part of what it prints
goes into the log, and whatever becomes of it, the run's outcome and exit code stay.
"""

from __future__ import annotations

import json
import os
import selectors
import shlex
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from tempfile import TemporaryFile
from typing import IO, Any

from auditor.after.history import ANNOUNCED, findings_to_act_on
from auditor.clock import rfc3339, utc_now
from auditor.config import ENVIRONMENT_PREFIX
from auditor.context import Context
from auditor.errors import OutputError
from auditor.evidence.run_directory import write_json
from auditor.model.codec import encode
from auditor.model.finding import Severity
from auditor.model.finding_record import FindingRecord
from auditor.report.layout import printable
from auditor.run.publishing import Results
from auditor.stop import Interrupted, StopRequest

NOTIFY_TIME_MAX_S = 60.0
"""How long the command may take, in seconds: time for a mail server or a web hook. Then it and its
children are killed."""
NOTIFIED_FINDINGS_MAX = 100
"""The document has at most this many findings, the worst first, some 600 kB."""
NOTIFY_OUTPUT_BYTES_MAX = 4_096
"""At most this many bytes of what the command prints are logged. The rest is read and dropped."""
_WAIT_S = 0.1
"""Between two looks whether the command has ended or the run is to stop, in seconds."""


class _Failed(Exception):
    """The command did not do its work. The text is the end of a sentence about it."""

    def __init__(self, sentence: str, output: bytes = b"") -> None:
        super().__init__(sentence)
        self.output = output


def notify(context: Context, results: Results, cluster: str) -> None:
    """Run the command of --notify if the run found news, and record that it succeeded. Logs how it
    ended, and raises nothing of its failure.

    A run of named ledgers is not told: a person waits for it. `cluster` is the label of the
    metrics.
    """
    command, news = context.settings.notify, _news_of(results)
    if command is None:
        return
    if not news:
        context.logger.debug("nothing_to_notify")
        return
    document = json.dumps(document_of(results, cluster, news)) + "\n"
    try:
        output = _run_command(command, document, context.stop)
    except _Failed as error:
        context.logger.error(
            "notify_failed", problem=str(error), output=_shown(error.output), findings=len(news)
        )
    else:
        context.logger.info("notified", findings=len(news), output=_shown(output))
        _record(context, results, "notify")


def record_end(context: Context, results: Results) -> None:
    """Record that the run ends by itself: without --notify, its exit code tells the news."""
    if context.settings.notify is None and _news_of(results):
        _record(context, results, "exit_code")


def _news_of(results: Results) -> list[FindingRecord]:
    """Return the news of a published run."""
    return [] if results.summary.is_partial else findings_to_act_on(results.findings)


def _record(context: Context, results: Results, by: str) -> None:
    """Write ANNOUNCED. A failure is logged: the next run tells the same news."""
    try:
        write_json(results.directory, ANNOUNCED, {"by": by, "at": rfc3339(utc_now())})
    except OutputError as error:
        context.logger.warning("announcement_not_recorded", problem=str(error))


def document_of(results: Results, cluster: str, news: Sequence[FindingRecord]) -> dict[str, Any]:
    """Return what the command is sent (docs/names.md, "What --notify sends")."""
    summary = results.summary
    return {
        "run_id": summary.run_id,
        "directory": results.directory.address,
        "cluster": cluster,
        "metadata_service_uri": summary.cluster.metadata_service_uri,
        "started_at": summary.started_at,
        "finished_at": summary.finished_at,
        "outcome": summary.outcome,
        "exit_code": summary.exit_code,
        "ledgers": encode(summary.ledgers),
        "since": encode(summary.changes.since) if summary.changes else None,
        "findings_total": len(news),
        "critical": sum(finding.severity is Severity.CRITICAL for finding in news),
        "findings": [finding.fields for finding in news[:NOTIFIED_FINDINGS_MAX]],
    }


def environment(own: Mapping[str, str]) -> dict[str, str]:
    """Return the environment for the command: that of the run, without variables of the auditor.

    Passwords and addresses with passwords are given in those.
    """
    return {name: value for name, value in own.items() if not name.startswith(ENVIRONMENT_PREFIX)}


def _run_command(command: str, document: str, stop: StopRequest) -> bytes:
    """Run a command without a shell, with the document on stdin, and return what it printed.

    The document is in a file without a name: a command that does not read it holds nobody up.
    Raises _Failed.
    """
    with TemporaryFile() as stdin:
        stdin.write(document.encode())
        stdin.seek(0)
        try:
            process = subprocess.Popen(  # noqa: S603 - the operator's own command
                shlex.split(command),
                stdin=stdin,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env=environment(os.environ),
                start_new_session=True,
            )
        except (OSError, ValueError, IndexError) as error:
            raise _Failed(f"cannot be run: {error}") from None
        output = bytearray()
        assert process.stdout is not None
        try:
            _await(process, process.stdout, output, stop)
        except BaseException:
            _kill_group(process)
            raise
        finally:
            process.stdout.close()
    if process.returncode != 0:
        raise _Failed(f"exited with {process.returncode}", bytes(output))
    return bytes(output)


def _await(
    process: subprocess.Popen[bytes], stdout: IO[bytes], output: bytearray, stop: StopRequest
) -> None:
    """Return when the process has ended. Keeps the beginning of what it prints in `output`.

    What a child of it prints later is not waited for. Raises _Failed if it takes too long, or if
    the run is to stop: that no longer changes how the run ends.
    """
    until = time.monotonic() + NOTIFY_TIME_MAX_S
    is_open = True
    with selectors.DefaultSelector() as selector:
        selector.register(stdout, selectors.EVENT_READ)
        while True:
            has_ended = process.poll() is not None
            if is_open and selector.select(0 if has_ended else _WAIT_S):
                piece = os.read(stdout.fileno(), NOTIFY_OUTPUT_BYTES_MAX)
                output += piece[: NOTIFY_OUTPUT_BYTES_MAX - len(output)]
                is_open = bool(piece)
            elif has_ended:
                return
            elif not is_open:
                time.sleep(_WAIT_S)
            try:
                stop.check()
            except Interrupted as signal_came:
                raise _Failed(f"was killed, because {signal_came} came", bytes(output)) from None
            if time.monotonic() > until:
                raise _Failed(
                    f"took longer than {NOTIFY_TIME_MAX_S:g} s and was killed", bytes(output)
                )


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    """Kill the process and its children, which have a process group of their own."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _shown(output: bytes) -> str:
    """Return what the command printed as one printable line, cut."""
    text = " ".join(output.decode(errors="replace").split())
    return printable(text, NOTIFY_OUTPUT_BYTES_MAX)
