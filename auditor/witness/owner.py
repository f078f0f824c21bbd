"""Whose ledger it is, by the custom metadata of its writer. This answers "which topic is this?".

Pulsar writes `application`, `component` and names under `pulsar/` (LedgerMetadataUtils; metadata.md
section 9).
"""

from __future__ import annotations

from auditor.model.ledger import LedgerMetadata

TEXT_CHARS_MAX = 512
"""Longest value that is shown. Anybody may write anything there."""

_NAMES = ("pulsar/managed-ledger", "pulsar/compactedTopic", "pulsar/schemaId")


def owner_of(metadata: LedgerMetadata | None) -> dict[str, str | None] | None:
    """Return `{application, component, name}` as far as the ledger says, None if it does not."""
    if metadata is None:
        return None
    said = {key: value.decode("utf-8", "replace")[:TEXT_CHARS_MAX] for key, value in metadata.custom_metadata}
    name = next((said[key] for key in _NAMES if key in said), None)
    application, component, cursor = said.get("application"), said.get("component"), said.get("pulsar/cursor")
    if name is None and application is None and component is None:
        return None
    if name is not None and cursor is not None:
        name = f"{name} cursor {cursor}"
    return {"application": application, "component": component, "name": name}
