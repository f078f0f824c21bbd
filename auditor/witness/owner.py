"""Find the owner of a ledger in its custom metadata. This answers "which topic is this?".

Pulsar writes `application`, `component` and names under `pulsar/` (LedgerMetadataUtils).
"""

from __future__ import annotations

from auditor.model.finding_record import Owner
from auditor.model.ledger import LedgerMetadata
from auditor.model.topic import Role, TopicName
from auditor.wire.topic_paths import encode_name

TEXT_CHARS_MAX = 512
"""A longer value is cut. Anybody may write anything there."""

_NAMES = (
    "pulsar/managed-ledger",
    "pulsar/compactedTopic",
    "pulsar/schemaId",
    "pulsar/delayedIndexTopic",
)


def owner_of(metadata: LedgerMetadata | None) -> Owner | None:
    """Return the owner as far as the ledger says, None if it does not."""
    if metadata is None:
        return None
    said = {
        key: value.decode("utf-8", "replace")[:TEXT_CHARS_MAX]
        for key, value in metadata.custom_metadata
    }
    name = next((said[key] for key in _NAMES if key in said), None)
    application, component, cursor = (
        said.get("application"),
        said.get("component"),
        said.get("pulsar/cursor"),
    )
    if name is None and application is None and component is None:
        return None
    if name is not None and cursor is not None:
        name = f"{name} cursor {cursor}"
    return Owner(application, component, name)


_COMPONENTS = {
    Role.DATA: "managed-ledger",
    Role.CURSOR: "managed-ledger",
    Role.SCHEMA: "schema",
    Role.COMPACTED: "compacted-ledger",
    Role.DELAYED: "delayed-index-bucket",
}


def owner_by_use(topic: TopicName, role: Role, name: str) -> Owner:
    """Return the owner of a ledger that a topic references, in the words that Pulsar itself writes.

    `name` is the subscription of a cursor.
    """
    local, namespace = encode_name(topic.local_name), [part for part in topic[:-1] if part]
    if role in (Role.COMPACTED, Role.DELAYED):
        said = str(topic)
    elif role is Role.SCHEMA:
        said = "/".join((*namespace, local))
    else:
        said = "/".join((*namespace, "persistent", local))
    if role is Role.CURSOR:
        said = f"{said} cursor {name}"
    return Owner("pulsar", _COMPONENTS[role], said[:TEXT_CHARS_MAX])
