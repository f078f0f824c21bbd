"""A real Pulsar for tests: a broker on real DbLedgerStorage bookies, and Pulsar's own client and
managed ledgers.

    with RealPulsar(tmp_path) as pulsar:           # 15-20 s on two cores
        pulsar.create_namespace("shop/orders")
        topic = "persistent://shop/orders/eu"
        pulsar.produce(topic, 250)                 # 100 entries a ledger
        pulsar.subscribe(topic, "billing")         # from the first message on
        pulsar.skip(topic, "billing", 120)         # acknowledges them
        pulsar.data_ledgers(topic)                 # as Pulsar's metadata names them
        pulsar.unindex("b1", {ledger: "50"})       # removed from b1's index
        pulsar.cluster                             # the RealCluster below it, for audits

Each server is a JVM of its own, on loopback, on free ports. It ends with `stop` or with the process
that started it. Bookies flush every second, so listers list an entry within a second. `version` is
Pulsar's release. The bookies have the BookKeeper that it brings. Everything a broker writes stays
until a test removes it.
"""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from support.raw_bookie import read_request, status_name
from support.real_broker import CLUSTER, RealBroker, start_driver
from support.real_cluster import RealCluster
from support.real_jars import PULSAR_NEWEST, pulsar_jars
from support.real_processes import JavaConversation
from support.supported_versions import PULSARS

from auditor.model.identity import BookieId, EntryId, LedgerId
from auditor.model.topic import Cursor, DataLedger, SchemaVersion
from auditor.pulsar.metadata import decode_cursor, decode_managed_ledger, decode_schemas
from auditor.pulsar.topic_paths import encode_name, parse_topic, schema_path, topic_path
from auditor.sandbox import cluster

BOOKIES = 4
BOOKIE_SETTINGS: Mapping[str, object] = {"flushInterval": 1_000}
REQUEST_TIMEOUT_S = 60.0
"""How long one request to the broker or the driver may take, in seconds, on a busy machine."""
Retention = Mapping[str, int]
FOREVER: Retention = {"retentionTimeInMinutes": -1, "retentionSizeInMB": -1}
BRIEFLY_KEPT: Retention = {"retentionTimeInMinutes": 0, "retentionSizeInMB": 0}
"""Settings that keep nothing that no subscription needs."""
WAIT_S = 60.0
POLL_S = 0.1
UNINDEX_ATTEMPTS_MAX, FLUSHED_S = 3, 3.0
"""How often entries are removed again that a bookie's journal has restored, and after how long."""


class BrokerRefused(AssertionError):
    """The broker answered a request of a test with an error."""


class RealPulsar:
    """The Pulsar of the module's description. The constructor starts everything; `stop` or the end
    of `with` stops it.
    """

    def __init__(
        self,
        workdir: Path,
        broker_settings: Mapping[str, object] | None = None,
        bookie_settings: Mapping[str, object] | None = None,
        version: str = PULSAR_NEWEST,
    ) -> None:
        self._jars = pulsar_jars(version)
        self._driver: JavaConversation | None = None
        bookies = {**BOOKIE_SETTINGS, **(bookie_settings or {})}
        self.cluster = RealCluster(
            workdir, BOOKIES, "DbLedgerStorage", bookies, version=PULSARS[version]
        )
        self._broker = RealBroker(workdir / "broker", self.cluster.zookeeper_hosts)
        try:
            self._broker.start(self._jars, broker_settings or {})
            self._admin(
                "PUT", f"clusters/{CLUSTER}", {"brokerServiceUrl": self._broker.service_url}
            )
            self._driver = start_driver(self._jars, workdir / "driver", self._broker)
        except BaseException:
            self.stop()
            raise

    def __enter__(self) -> RealPulsar:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """End every process, and wait until all have ended."""
        if self._driver is not None:
            self._driver.kill()
        self._broker.kill()
        self.cluster.stop()

    @property
    def metadata_service_uri(self) -> str:
        """The URI that an audit gets."""
        return self.cluster.metadata_service_uri

    def restart_broker(self, **settings: object) -> None:
        """Restart the broker with these settings. It closes its ledgers first. 5-10 s."""
        self._broker.end()
        self._broker.start(self._jars, settings)

    def kill_broker(self) -> None:
        """End the broker as if its host had failed, and wait until ZooKeeper has dropped its
        sessions: 10-60 s.
        """
        self._broker.kill()
        deadline = time.monotonic() + WAIT_S
        while self.cluster.zk.exists("/loadbalance/leader") is not None:
            assert time.monotonic() < deadline, "the session of the killed broker lives on"
            time.sleep(POLL_S)

    def start_broker(self, **settings: object) -> None:
        """Start the broker that was killed, with these settings. 5-10 s."""
        self._broker.start(self._jars, settings)

    # Actions of operators

    def load(self, topic: str) -> None:
        """Make the broker load a topic, by a request that only reads."""
        self._admin("GET", f"{_path(topic)}/internalStats")

    def backlog(self, topic: str, subscription: str) -> int:
        """Return the messages that a subscription has yet to acknowledge, as the broker counts."""
        said = self._admin("GET", f"{_path(topic)}/stats?getPreciseBacklog=true")
        return int(said["subscriptions"][subscription]["msgBacklog"])

    def read_schemas(self, topic: str) -> None:
        """Ask the broker for all versions of a topic's schema."""
        self._admin("GET", f"schemas/{topic.removeprefix('persistent://')}/schemas")

    def create_namespace(self, namespace: str, retention: Retention = FOREVER) -> None:
        """Create TENANT/NAMESPACE, and its tenant if necessary; one bundle."""
        tenant = namespace.partition("/")[0]
        if tenant not in self._admin("GET", "tenants"):
            self._admin("PUT", f"tenants/{tenant}", {"allowedClusters": [CLUSTER]})
        bundles = {"numBundles": 1, "boundaries": ["0x00000000", "0xffffffff"]}
        self._admin(
            "PUT",
            f"namespaces/{namespace}",
            {"replication_clusters": [CLUSTER], "bundles": bundles},
        )
        self._admin("POST", f"namespaces/{namespace}/retention", retention)

    def delete_namespace(self, namespace: str) -> None:
        """Delete a namespace without topics."""
        self._admin("DELETE", f"namespaces/{namespace}")

    def create_partitioned(self, topic: str, partitions: int) -> None:
        """Create a topic of several partitions."""
        self._admin("PUT", f"{_path(topic)}/partitions", partitions)

    def subscribe(self, topic: str, subscription: str) -> None:
        """Create a subscription at the first message."""
        self._admin(
            "PUT",
            f"{_path(topic)}/subscription/{encode_name(subscription)}",
            {"ledgerId": -1, "entryId": -1},
        )

    def skip(self, topic: str, subscription: str, messages: int) -> None:
        """Acknowledge the next messages of a subscription."""
        self._admin(
            "POST", f"{_path(topic)}/subscription/{encode_name(subscription)}/skip/{messages}"
        )

    def add_schema(self, topic: str, *fields: str) -> None:
        """Register a JSON schema with these optional text fields; a second call adds another
        version.
        """
        record = {
            "type": "record",
            "name": "Order",
            "fields": [_text_field(name) for name in fields],
        }
        schema = {"type": "JSON", "schema": json.dumps(record), "properties": {}}
        self._admin("POST", f"schemas/{topic.removeprefix('persistent://')}/schema", schema)

    def managed_ledger_info(self, topic: str) -> dict[str, Any]:
        """Return the metadata of a topic as Pulsar reads it: `ledgers`, and `cursors` with their
        `markDelete`.
        """
        said: dict[str, Any] = self._admin("GET", f"{_path(topic)}/internal-info")
        return said

    def trim(self, topic: str) -> None:
        """Let the topic's namespace keep nothing but what subscriptions need, trim the topic to one
        ledger, and let the namespace keep everything again.
        """
        namespace = "/".join(parse_topic(topic)[::2][:2])
        self._admin("POST", f"namespaces/{namespace}/retention", BRIEFLY_KEPT)
        self.trim_now(topic)
        self._admin("POST", f"namespaces/{namespace}/retention", FOREVER)

    def trim_now(self, topic: str, left: int = 1) -> None:
        """Drop the topic's ledgers that no subscription needs, and wait until Pulsar's metadata
        names only so many. Its namespace must keep nothing else.
        """
        deadline = time.monotonic() + WAIT_S
        while len(self.data_ledgers(topic)) > left:
            self._admin("POST", f"{_path(topic)}/trim")
            assert time.monotonic() < deadline, f"{topic} still has {self.data_ledgers(topic)}"
            time.sleep(POLL_S)

    def deduplicate(self, namespace: str) -> None:
        """Have the broker drop messages of a namespace that it has stored before."""
        self._admin("POST", f"namespaces/{namespace}/deduplication", True)

    def delete_topic(self, topic: str) -> None:
        """Delete a topic with its ledgers and subscriptions."""
        self._admin("DELETE", f"{_path(topic)}?force=true")

    def offload(self, topic: str) -> None:
        """Copy all ledgers but the newest to long-term storage, and wait until Pulsar's metadata
        says that the copies are complete. The broker needs an offloader.
        """
        newest = self.data_ledgers(topic)[-1].ledger_id
        last = {"ledgerId": newest, "entryId": 0, "partitionIndex": -1}
        self._admin("PUT", f"{_path(topic)}/offload", last)
        deadline = time.monotonic() + WAIT_S
        while not all(one.offloaded for one in self.data_ledgers(topic)[:-1]):
            assert time.monotonic() < deadline, self._admin("GET", f"{_path(topic)}/offload")
            time.sleep(POLL_S)

    def delete_offloaded(self, topic: str) -> None:
        """Have the broker delete from BookKeeper what is in long-term storage, and wait for it.

        The broker's setting `managedLedgerOffloadDeletionLagMs` must be 0.
        """
        deadline = time.monotonic() + WAIT_S
        while not all(one.bookkeeper_deleted for one in self.data_ledgers(topic)[:-1]):
            assert time.monotonic() < deadline, self.data_ledgers(topic)
            self._admin("POST", f"{_path(topic)}/trim")
            time.sleep(POLL_S)

    def compact(self, topic: str) -> None:
        """Compact a topic, and wait until that has ended."""
        self._admin("PUT", f"{_path(topic)}/compaction")
        deadline = time.monotonic() + WAIT_S
        while (said := self._admin("GET", f"{_path(topic)}/compaction"))["status"] != "SUCCESS":
            assert time.monotonic() < deadline and said["status"] != "ERROR", said
            time.sleep(POLL_S)

    def create_shadow(self, topic: str, source: str, partitions: int | None = None) -> None:
        """Create a shadow topic, perhaps with as many partitions as its source."""
        properties = {"PULSAR.SHADOW_SOURCE": source}
        if partitions is None:
            self._admin("PUT", _path(topic), properties)
        else:
            body = {"partitions": partitions, "properties": properties}
            kind = "application/vnd.partitioned-topic-metadata+json"
            self._admin("PUT", f"{_path(topic)}/partitions", body, kind)

    def unload(self, topic: str) -> None:
        """Make the broker unload a topic: it closes its ledgers. The next use loads it again."""
        self._admin("PUT", f"{_path(topic)}/unload")

    # Actions of clients

    def produce(self, topic: str, count: int, size_bytes: int = 100, **options: str | int) -> None:
        """Write messages, one entry each.

        Options: `name` of the producer, `keys` used in turn, `delay` of the delivery in ms.
        """
        words = "".join(f" {key}={value}" for key, value in options.items())
        self._ask(f"produce {topic} {count} {size_bytes}{words}")

    def acknowledge(self, topic: str, subscription: str, *numbers: int) -> None:
        """Acknowledge these messages one by one, counted from the subscription's position."""
        self._ask(f"acknowledge {topic} {subscription} {','.join(map(str, numbers))}")

    def read(self, topic: str, patience_ms: int = 3_000) -> tuple[int, bool]:
        """Read from the first message on; return how many arrived, and whether the end was
        reached.
        """
        count, how = self._ask(f"read {topic} {patience_ms}").split()
        return int(count), how == "end"

    def read_compacted(self, topic: str, patience_ms: int = 3_000) -> int:
        """Read the compacted topic from the first message on; return how many messages arrived."""
        return int(self._ask(f"read {topic} {patience_ms} compacted").split()[0])

    def receive(self, topic: str, subscription: str, patience_ms: int = 3_000) -> int:
        """Receive from a shared subscription until nothing arrives for a time, and acknowledge
        nothing. Return how many messages arrived.
        """
        return int(self._ask(f"receive {topic} {subscription} {patience_ms}"))

    # Ledgers that brokers write

    def manage(
        self, topic: str, compression: str, entries: int, *, offload: bool = False
    ) -> tuple[LedgerId, ...]:
        """Write a topic as a broker with this metadata compression does, 20 entries a ledger, and
        close it.

        It has a subscription `half`. With `offload` all but its newest ledger are offloaded, and
        deleted from BookKeeper at once. Returns its ledgers.
        """
        said = self._ask(
            f"manage {_managed(topic)} {compression} {entries}{' offload' if offload else ''}"
        )
        return tuple(map(int, said.split(",")))

    def strand(self, topic: str, entries: int) -> LedgerId:
        """Write a ledger of a topic that the topic's metadata never names, like a broker that dies
        before it writes the metadata.
        """
        return int(self._ask(f"strand {_managed(topic)} {entries}"))

    def data_ledgers(self, topic: str) -> tuple[DataLedger, ...]:
        """Return the ledgers that Pulsar's metadata names, oldest first."""
        return decode_managed_ledger(self.raw(topic)).ledgers

    def cursor(self, topic: str, subscription: str) -> Cursor:
        """Return a subscription as Pulsar's metadata has it."""
        data, _ = self.cluster.zk.get(
            f"{topic_path(parse_topic(topic))}/{encode_name(subscription)}"
        )
        return decode_cursor(data, subscription)

    def schemas(self, topic: str) -> tuple[SchemaVersion, ...]:
        """Return the versions of a topic's schema."""
        data, _ = self.cluster.zk.get(schema_path(parse_topic(topic)))
        return decode_schemas(data)

    def raw(self, topic: str) -> bytes:
        """Return the znode of a topic."""
        data, _ = self.cluster.zk.get(topic_path(parse_topic(topic)))
        return bytes(data)

    # Changes to bookies

    def unindex(self, bookie_id: BookieId, lost: Mapping[LedgerId, str]) -> None:
        """Stop a bookie, remove entries (`"4 7-9"` of a ledger) from its index, and start it again.
        4-8 s.

        The journal restores entries that were not flushed: then this is done again.
        """
        for _ in range(UNINDEX_ATTEMPTS_MAX):
            directory = self.cluster.end_bookie(bookie_id)
            for ledger_id, runs in lost.items():
                for first, last in cluster.holds(runs):
                    at = directory / "ledgers" / "current" / "locations"
                    self._ask(f"unindex {at} {ledger_id} {first} {last}")
            self.cluster.start_bookie(bookie_id)
            said = {
                f"entry {entry} of ledger {ledger_id}": self._read(bookie_id, ledger_id, entry)
                for ledger_id, runs in lost.items()
                for first, last in cluster.holds(runs)
                for entry in range(first, last + 1)
            }
            if {"ENOENTRY", "ENOLEDGER"}.issuperset(said.values()):
                return
            time.sleep(FLUSHED_S)
        raise AssertionError(f"{bookie_id} still has what was removed: {said}")

    def _read(self, bookie_id: BookieId, ledger_id: LedgerId, entry_id: EntryId) -> str:
        """Return what a bookie says of an entry. A read of an absent one caches nothing."""
        with self.cluster.connect(bookie_id) as connection:
            return status_name(
                connection.ask(read_request(ledger_id, entry_id, connection.next_txn_id())).status
            )

    def _ask(self, command: str) -> str:
        assert self._driver is not None
        word, _, said = self._driver.ask(command, REQUEST_TIMEOUT_S).partition(" ")
        assert word == "ok", f"{command}: {said}; {self._driver.log_tail()}"
        return said

    def _admin(
        self, method: str, path: str, body: object = None, kind: str = "application/json"
    ) -> Any:
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": kind}
        request = urllib.request.Request(
            f"{self._broker.admin_url}/{path}", data, headers, method=method
        )
        try:
            with urllib.request.urlopen(request, timeout=REQUEST_TIMEOUT_S) as response:
                said = response.read()
        except urllib.error.HTTPError as error:
            raise BrokerRefused(
                f"{method} {path}: {error.code} {error.read().decode(errors='replace')[:500]}"
            ) from None
        return json.loads(said) if said else None


def _path(topic: str) -> str:
    """Return the path of a topic in the REST interface."""
    name = parse_topic(topic)
    return f"persistent/{name.tenant}/{name.namespace}/{encode_name(name.local_name)}"


def _managed(topic: str) -> str:
    """Return the name of a topic as managed ledgers have it."""
    name = parse_topic(topic)
    return f"{name.tenant}/{name.namespace}/persistent/{encode_name(name.local_name)}"


def _text_field(name: str) -> dict[str, object]:
    return {"name": name, "type": ["null", "string"], "default": None}
