"""kazoo's log, threads and sockets: with our TLS, and with exceptions as one line in our log."""

from __future__ import annotations

import logging
import ssl
import threading
from collections.abc import Callable
from typing import Any, Final

from kazoo.handlers.threading import SequentialThreadingHandler

from auditor.errors import LocalFault
from auditor.local_faults import exhaustion

PROBLEM_CHARS_MAX: Final = 300
"""Maximum length of kazoo's error text in a line of the log, in characters."""

_LOG = logging.getLogger("auditor.zookeeper")


class KazooLog(logging.Logger):
    """kazoo's log, kept apart from ours: at DEBUG it prints each reply, with ledger passwords.

    Only the last warning is kept, for the error that says that no connection could be made.
    """

    last_problem = ""

    def __init__(self) -> None:
        super().__init__("auditor.zookeeper.kazoo", logging.WARNING)

    def handle(self, record: logging.LogRecord) -> None:
        self.last_problem = record.getMessage()


class KazooThreads(SequentialThreadingHandler):  # type: ignore[misc]  # kazoo has no types
    """kazoo's threads. A thread that ends on an exception writes one line to our log.

    Python would print a traceback. Replies out of order are such a case. The thread's connection is
    lost, and those who wait for it notice by themselves. With `context` connections have TLS;
    kazoo's own would trust the system's CAs too, and needs passwords of keys in its options.

    kazoo takes a lack of descriptors for a server that does not answer, and tries for ever:
    `local_fault` is the fault of this host by which the last connection attempt failed, or None."""

    def __init__(self, context: ssl.SSLContext | None = None) -> None:
        super().__init__()
        self._context = context
        self.local_fault: LocalFault | None = None

    def spawn(self, func: Callable[..., object], *args: Any, **kwargs: Any) -> threading.Thread:
        def log_failure() -> None:
            try:
                func(*args, **kwargs)
            except Exception as error:  # kazoo raises anything when a server breaks the protocol.
                self.local_fault = exhaustion(error) or self.local_fault
                what = " ".join(f"{type(error).__name__}: {error}".split())[:PROBLEM_CHARS_MAX]
                _LOG.warning("the connection to ZooKeeper broke down (%s)", what)

        return super().spawn(log_failure)  # type: ignore[no-any-return]

    def create_connection(self, *args: Any, **options: Any) -> Any:
        """Return a connected socket, with TLS if there is a context. Raises OSError."""
        try:
            plain = super().create_connection(*args, **options)
        except Exception as error:  # kazoo raises anything
            self.local_fault = exhaustion(error)
            raise
        self.local_fault = None
        if self._context is None:
            return plain
        plain.settimeout(options.get("timeout"))
        try:
            return self._context.wrap_socket(plain, server_hostname=options.get("hostname"))
        except BaseException:
            plain.close()
            raise

    def select(self, *args: Any, **options: Any) -> Any:
        """Wait for sockets, but not if TLS has decrypted bytes that were not read yet.

        A server may put several replies into one TLS record. kazoo reads the first and would wait
        for the network although the others are here."""
        waiting = [one for one in args[0] if isinstance(one, ssl.SSLSocket) and one.pending() > 0]
        return (waiting, [], []) if waiting else super().select(*args, **options)
