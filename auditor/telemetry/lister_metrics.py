"""The metrics of a lister: counted while it runs, and served over HTTP.

Like `metrics`, this module hides prometheus_client from all others.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, start_http_server

from auditor.model.scrub import ScrubPass, ScrubReport

PREFIX = "bookkeeper_lister_"
LISTED, IN_DOUBT, NOT_SERVING = "listed", "in_doubt", "not_serving"
"""Outcomes of a request for a list: a list, EIO because the index is in doubt, and EIO because the
bookie does not serve."""


_OF_FINISHED_PASS: tuple[tuple[str, str, Callable[[ScrubPass], float | None]], ...] = (
    (
        "began_timestamp_seconds",
        "When the newest finished pass over the entry logs began.",
        lambda one: one.began_at_ms / 1000,
    ),
    (
        "ended_timestamp_seconds",
        "When the newest finished pass over the entry logs ended.",
        lambda one: None if one.ended_at_ms is None else one.ended_at_ms / 1000,
    ),
    ("entries", "Entries read by the newest finished pass.", lambda one: one.entries),
    ("entries_verified", "Entries of them whose digest is right.", lambda one: one.verified),
    (
        "entries_unchecked",
        "Entries of them whose digest cannot be checked without metadata.",
        lambda one: one.unchecked,
    ),
    ("entries_failed", "Entries of them with a wrong digest.", lambda one: one.failed),
    (
        "entries_suspected",
        "Entries that the newest finished pass names for the auditor to read.",
        lambda one: one.suspected,
    ),
    (
        "logs_damaged",
        "Entry logs that the newest finished pass could not read to their end.",
        lambda one: one.damaged_logs,
    ),
)


class ListerMetrics:
    """Counters and gauges of one lister, each with the label `bookie`. Safe from any thread."""

    def __init__(self, bookie_id: str, version: str) -> None:
        self._registry = CollectorRegistry()
        self._bookie = bookie_id
        self._lists = self._counter("lists", "Requests for a list, by how they ended.", "outcome")
        self._keys = self._counter("keys", "Keys read from the indexes.")
        self._left_out = self._counter(
            "entries_left_out", "Entries left out because their entry log is missing."
        )
        self._readers_lost = self._counter(
            "readers_lost", "Reader processes that did not answer and were ended."
        )
        self._refused = self._counter(
            "connections_refused", "Connections closed because there were too many."
        )
        self._connections = self._gauge("connections", "Connections that are open.")
        self._serves = self._gauge(
            "bookie_serves", "1 if the bookie served when it was last asked."
        )
        self._view_age = self._gauge(
            "view_age_seconds", "Age of the oldest view of an index, -1 without one."
        )
        self._gauge("build_info", "Version of the lister.", "version").labels(
            bookie_id, version
        ).set(1)
        for outcome in (LISTED, IN_DOUBT, NOT_SERVING):
            self.count_lists(outcome, 0)
        for metric in (self._keys, self._left_out, self._readers_lost, self._refused):
            metric.labels(bookie_id)
        self.set_connections(0)
        self.set_serving(is_serving=False)

    def _counter(self, name: str, says: str, *labels: str) -> Counter:
        return Counter(PREFIX + name, says, ("bookie", *labels), registry=self._registry)

    def _gauge(self, name: str, says: str, *labels: str) -> Gauge:
        return Gauge(PREFIX + name, says, ("bookie", *labels), registry=self._registry)

    def count_lists(self, outcome: str, number: int) -> None:
        """Count requests for a list that ended in this outcome."""
        self._lists.labels(self._bookie, outcome).inc(number)

    def count_reading(self, keys: int, entries_left_out: int, *, was_lost: bool) -> None:
        """Count the result of one request to a reader process."""
        self._keys.labels(self._bookie).inc(keys)
        self._left_out.labels(self._bookie).inc(entries_left_out)
        self._readers_lost.labels(self._bookie).inc(was_lost)

    def count_refused_connection(self) -> None:
        """Count a refused connection above the limit."""
        self._refused.labels(self._bookie).inc()

    def set_connections(self, number: int) -> None:
        """Set how many connections are open."""
        self._connections.labels(self._bookie).set(number)

    def set_serving(self, *, is_serving: bool) -> None:
        """Set whether the bookie serves."""
        self._serves.labels(self._bookie).set(is_serving)

    def follow_view_age(self, view_age_ms: Callable[[], int | None]) -> None:
        """Ask this function for the age of the oldest view at each scrape."""

        def age_s() -> float:
            age_ms = view_age_ms()
            return -1.0 if age_ms is None else age_ms / 1000

        self._view_age.labels(self._bookie).set_function(age_s)

    def follow_scrub(self, report: Callable[[], ScrubReport | None]) -> None:
        """Ask this function for what the scrub found at each scrape.

        All gauges are -1 while there is no such pass or it cannot be read; of a pass that has begun
        and not ended, they are of the one before.
        """

        def follow(name: str, says: str, value: Callable[[ScrubReport], float | None]) -> None:
            def current() -> float:
                try:
                    found = report()
                except OSError:
                    return -1.0
                number = None if found is None else value(found)
                return -1.0 if number is None else float(number)

            self._gauge(f"scrub_{name}", says).labels(self._bookie).set_function(current)

        def of_finished(value: Callable[[ScrubPass], float | None]) -> Callable[[ScrubReport], Any]:
            return lambda found: None if found.finished is None else value(found.finished)

        for name, says, value in _OF_FINISHED_PASS:
            follow(name, says, of_finished(value))
        follow(
            "read_bytes",
            "Bytes of entry logs read by the scrub's pass that lasts.",
            lambda found: None if found.current is None else found.current.read_bytes,
        )

    def serve(self, host: str, port: int) -> tuple[int, Callable[[], None]]:
        """Serve /metrics in a thread. Return the port, and a function that ends the server.

        Raises OSError if it cannot listen there.
        """
        server, thread = start_http_server(port, host, self._registry)

        def stop() -> None:
            server.shutdown()
            server.server_close()
            thread.join()

        return int(server.server_port), stop
