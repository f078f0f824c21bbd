"""Hand the metrics of a run to node_exporter's textfile collector or to a Pushgateway."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from http.client import HTTPException
from pathlib import Path
from urllib.parse import unquote, urlsplit, urlunsplit

from prometheus_client.exposition import basic_auth_handler, default_handler, push_to_gateway

from auditor.config import without_credentials
from auditor.telemetry.metrics import Families, parse_families

PUSH_JOB = "bookkeeper_auditor"
PUSH_TIMEOUT_S = 10.0


def write_textfile(path: Path, text: str) -> str | None:
    """Write `text` to `path` atomically, with mode 0644 for node_exporter.

    Returns None, or a sentence for the log if that failed: a run must not fail because of it.
    """
    # The collector reads *.prom only, so the unfinished file must not end in it.
    unfinished = path.with_name(f".{path.name}.{os.getpid()}.unfinished")
    try:
        with unfinished.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        unfinished.chmod(0o644)
        unfinished.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            unfinished.unlink()
        return f"the metrics could not be written to {path}: {error.strerror or error}"
    return None


def push(url: str, text: str, cluster: str, timeout_s: float = PUSH_TIMEOUT_S) -> str | None:
    """Replace the cluster's group on a Pushgateway with `text`.

    Returns None, or a sentence for the log if that failed: a run must not fail because of it. The
    group is only the cluster: a run id or host would leave series behind for ever. Credentials in
    `url` go into the Authorization header and never into a message.
    """
    plain = without_credentials(url)
    try:
        parts = urlsplit(url)
        plain = urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
        send = default_handler
        if parts.username is not None:
            send = _authorise(unquote(parts.username), unquote(parts.password or ""))
        families = Families(parse_families(text))
        push_to_gateway(plain, PUSH_JOB, families, {"cluster": cluster}, timeout_s, send)
    except (OSError, HTTPException, ValueError) as error:
        return f"the metrics could not be pushed to {plain}: {error}"
    return None


def _authorise(user: str, password: str) -> Callable[..., Callable[[], None]]:
    def send(
        url: str, method: str, timeout: float | None, headers: list[tuple[str, str]], data: bytes
    ) -> Callable[[], None]:
        return basic_auth_handler(url, method, timeout, headers, data, user, password)

    return send
