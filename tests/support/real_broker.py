"""A Pulsar broker and the test driver, each a JVM of its own on Pulsar's jars.

The driver (`tests/cluster/pulsar/PulsarDriver.java`) does what only Pulsar's own libraries can: it
produces and reads with the client, writes managed ledgers as brokers with other settings do, and
takes entries out of a stopped bookie's RocksDB.
"""

from __future__ import annotations

import shutil
import signal
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from support.compiled_java import compiled
from support.real_bookkeeper import LOG4J2_WARN
from support.real_jars import PULSAR_POM
from support.real_processes import (
    JavaConversation,
    JavaProcess,
    free_port,
    java_command,
)

DRIVER = PULSAR_POM.parent / "PulsarDriver.java"
CLUSTER = "test"
OPENS = (
    *(f"java.base/{name}" for name in ("java.lang", "java.nio", "java.util.zip", "sun.net")),
    *(f"java.base/{name}" for name in ("jdk.internal.misc", "jdk.internal.platform")),
    "java.management/sun.management",
    "jdk.management/com.sun.management.internal",
)
"""JVM flags of Pulsar's own start script on Java 17."""
SETTINGS: Mapping[str, object] = {
    "managedLedgerMaxEntriesPerLedger": 100,
    "managedLedgerMinLedgerRolloverTimeMinutes": 0,
    "managedLedgerDefaultEnsembleSize": 3,
    "managedLedgerDefaultWriteQuorum": 2,
    "managedLedgerDefaultAckQuorum": 2,
    "managedLedgerInfoCompressionThresholdInBytes": 0,
    "managedCursorInfoCompressionThresholdInBytes": 0,
    "defaultRetentionTimeInMinutes": -1,
    "defaultRetentionSizeInMB": -1,
    "brokerDeleteInactiveTopicsEnabled": "false",
    "systemTopicEnabled": "false",
    "topicLevelPoliciesEnabled": "false",
    "loadBalancerEnabled": "false",
    "numHttpServerThreads": 8,
    "numIOThreads": 2,
    "numOrderedExecutorThreads": 2,
    "numCacheExecutorThreadPoolSize": 2,
    "managedLedgerCacheSizeMB": 16,
    "bookkeeperClientNumWorkerThreads": 2,
    "bookkeeperClientNumIoThreads": 2,
}
"""Settings of the broker: small ledgers, nothing trimmed, only the topics of a test, few threads.
"""
START_TIMEOUT_S = 120.0
"""How long a broker may take to be ready, in seconds: many times what it takes, for a busy
machine.
"""
END_TIMEOUT_S = 120.0
"""How long a broker may take to end, in seconds."""
POLL_S = 0.1


@dataclass
class RealBroker:
    """One broker: its ports (kept over restarts), its folder, and its process while it runs."""

    directory: Path
    zookeeper_hosts: str
    port: int = field(default_factory=free_port)
    web_port: int = field(default_factory=free_port)
    process: JavaProcess | None = None

    @property
    def service_url(self) -> str:
        """The URL that a client gets."""
        return f"pulsar://127.0.0.1:{self.port}"

    @property
    def admin_url(self) -> str:
        """The root of its REST interface."""
        return f"http://127.0.0.1:{self.web_port}/admin/v2"

    def start(self, jars: Path, settings: Mapping[str, object]) -> None:
        """Start it and wait until it is ready. 4-8 s."""
        assert self.process is None or not self.process.is_running, "the broker runs already"
        self.directory.mkdir(parents=True, exist_ok=True)
        temporary = self.directory / "temporary"
        shutil.rmtree(temporary, ignore_errors=True)
        temporary.mkdir()
        config = self.directory / "broker.conf"
        config.write_text(
            "".join(
                f"{key}={value}\n"
                for key, value in {**self._addresses, **SETTINGS, **settings}.items()
            )
        )
        main, arguments = "org.apache.pulsar.PulsarBrokerStarter", ("--broker-conf", str(config))
        command = java_command(
            jars,
            main,
            *arguments,
            heap="256m",
            log4j2=LOG4J2_WARN,
            temporary=temporary,
            opens=OPENS,
        )
        self.process = JavaProcess("broker", command, self.directory / "broker.log")
        self._await_ready(self.process)

    def end(self) -> None:
        """End it in an orderly way: it closes its topics and their ledgers."""
        assert self.process is not None, "the broker was never started"
        self.process.end(signal.SIGTERM, END_TIMEOUT_S)

    def kill(self) -> None:
        """Send SIGKILL and wait; do nothing if it does not run."""
        if self.process is not None:
            self.process.kill()
        shutil.rmtree(self.directory / "temporary", ignore_errors=True)

    @property
    def _addresses(self) -> dict[str, object]:
        return {
            "clusterName": CLUSTER,
            "metadataStoreUrl": f"zk:{self.zookeeper_hosts}",
            "configurationMetadataStoreUrl": f"zk:{self.zookeeper_hosts}",
            "brokerServicePort": self.port,
            "webServicePort": self.web_port,
            "bindAddress": "127.0.0.1",
            "advertisedAddress": "127.0.0.1",
        }

    def _await_ready(self, process: JavaProcess) -> None:
        deadline = time.monotonic() + START_TIMEOUT_S
        while True:
            try:
                with urllib.request.urlopen(
                    f"{self.admin_url}/brokers/ready", timeout=START_TIMEOUT_S
                ):
                    return
            except (urllib.error.URLError, ConnectionError):
                process.assert_running()
                if time.monotonic() > deadline:
                    raise TimeoutError(
                        f"no broker after {START_TIMEOUT_S:g} s: {process.log_tail()}"
                    ) from None
                time.sleep(POLL_S)


def start_driver(jars: Path, directory: Path, broker: RealBroker) -> JavaConversation:
    """Start the driver of the tests, and compile it if that was not done before. 1-2 s, once 6
    s.
    """
    classes = compiled(jars, DRIVER)
    arguments = (broker.service_url, broker.zookeeper_hosts)
    temporary = directory / "temporary"
    temporary.mkdir(parents=True, exist_ok=True)
    command = java_command(
        jars,
        "PulsarDriver",
        *arguments,
        heap="128m",
        log4j2=LOG4J2_WARN,
        temporary=temporary,
        opens=OPENS,
        classes=classes,
    )
    driver = JavaConversation("driver", command, directory / "driver.log")
    try:
        assert driver.receive(START_TIMEOUT_S) == "ok ready"
    except BaseException:
        driver.kill()
        raise
    return driver
