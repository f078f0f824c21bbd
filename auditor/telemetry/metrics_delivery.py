"""Hand the metrics of a run to node_exporter's textfile collector or to a Pushgateway."""

from __future__ import annotations

import base64
import contextlib
import errno
import os
from collections.abc import Callable
from http.client import HTTPException
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.parse import unquote, urlsplit, urlunsplit
from urllib.request import Request, build_opener

from prometheus_client.exposition import basic_auth_handler, default_handler, push_to_gateway

from auditor.config import without_credentials
from auditor.telemetry.metrics import Families, parse_families

PUSH_JOB = "bookkeeper_auditor"
PUSH_TIMEOUT_S = 10.0
READY_PATH = "/-/ready"
"""Where a Pushgateway says whether it can be pushed to."""
TRIED_BYTES = 4_096
"""How many blanks are written to test a directory: a full disk still takes an empty file."""


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


def try_textfile(path: Path) -> str | None:
    """Return why `write_textfile` could not replace `path`, None if it could. `path` stays."""
    tried = path.with_name(f".{path.name}.{os.getpid()}.tried")
    try:
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        with tried.open("wb") as file:
            file.write(b" " * TRIED_BYTES)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        return f"the metrics could not be written to {path}: {error.strerror or error}"
    finally:
        with contextlib.suppress(OSError):
            tried.unlink()
    return None


def try_pushgateway(url: str, timeout_s: float = PUSH_TIMEOUT_S) -> str | None:
    """Return why a Pushgateway could not be pushed to, None if it says that it is ready. Nothing
    is pushed.
    """
    plain = without_credentials(url)
    try:
        parts = urlsplit(url)
        plain = urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
        request = Request(f"{plain.rstrip('/')}{READY_PATH}")  # noqa: S310 - the setting takes http and https alone
        if parts.username is not None:
            pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
            coded = base64.b64encode(pair.encode()).decode("ascii")
            request.add_unredirected_header("Authorization", f"Basic {coded}")
        with build_opener().open(request, timeout=timeout_s):
            return None
    except HTTPError as error:
        error.close()
        return (
            f"the Pushgateway at {plain} does not say that it is ready: {READY_PATH} answers"
            f" {error.code} {error.reason}"
        )
    except (OSError, HTTPException, ValueError) as error:
        reason = error.reason if isinstance(error, URLError) else error
        return f"the Pushgateway at {plain} cannot be reached: {reason}"


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
