"""The settings on what Pulsar's topics reference."""

from __future__ import annotations

from auditor.config.setting import WHOLE_RUNS, Setting
from auditor.config.units import DURATION, URI, one_of

_TOPICS = "Pulsar's topics"
_HOUR = 3_600_000

PULSAR_SETTINGS = (
    Setting(
        "pulsar_metadata_uri", _TOPICS, URI, None,
        "Address of Pulsar's own metadata, as metadataStoreUrl in broker.conf: "
        "zk:host:2181,host2:2181/chroot.",
        "Not set: topics are looked for beside the ledgers, in the same ZooKeeper.",
        commands=frozenset({"run", "topic", "config"}),
    ),
    Setting(
        "pulsar", _TOPICS, one_of("auto", "off"), "auto",
        "Whether a run reads what Pulsar's topics reference. auto: where topics are found, or "
        "--pulsar-metadata-uri is set. off: never.",
        "A ledger that a topic needs and that has no metadata is not listed, so nothing else "
        "finds it. Reading the references costs some reads of znodes a topic.",
        commands=WHOLE_RUNS,
    ),
    Setting(
        "orphan_age", _TOPICS, DURATION, "168h",
        "Age of a ledger of Pulsar above which it is an orphan if no topic references it (info).",
        "A broker creates a ledger and references it at once, so seconds would do. A week "
        "leaves time to see what was restored or copied by hand.",
        low=3_600_000, high=10 * 366 * 24 * _HOUR, commands=WHOLE_RUNS,
    ),
)  # fmt: skip
