"""The placement policy that a ledger's own writer recorded. It is shown beside a finding, never
judged.

Pulsar writes it as custom metadata, JSON `{"policyClass": NAME, "properties": {...}}`. It has the
isolation groups of a namespace (EnsemblePlacementPolicyConfig,
IsolatedBookieEnsemblePlacementPolicy). The Java auditor does not look at it either.
"""

from __future__ import annotations

import json

from auditor.model.ledger import LedgerMetadata

KEY = "EnsemblePlacementPolicyConfig"
RECORDED_BYTES_MAX = 16_384
"""A longer recorded policy is not read, in bytes. Pulsar writes a few hundred; anybody may write
anything there."""
RECORDED_CHARS_MAX = 200
"""At most this many of its characters are shown."""

_GROUPS = (
    ("isolationBookieGroups", "isolation groups"),
    ("secondaryIsolationBookieGroups", "secondary"),
)


def recorded_policy(metadata: LedgerMetadata) -> str:
    """Return the policy's class and isolation groups as text.

    "" if the ledger records none; what is wrong if the policy cannot be read. Printable, at most
    RECORDED_CHARS_MAX characters and an ellipsis. Costs one pass over the custom metadata.
    """
    written = next((value for key, value in metadata.custom_metadata if key == KEY), None)
    if written is None:
        return ""
    if len(written) > RECORDED_BYTES_MAX:
        return f"a policy of {len(written)} bytes, too long to be read"
    try:
        config = json.loads(written.decode("utf-8"))
    except (ValueError, RecursionError):
        return "a policy that cannot be read: not JSON"
    if not isinstance(config, dict):
        return "a policy that cannot be read: not a JSON object"
    name, properties = config.get("policyClass"), config.get("properties")
    said = [str(name).rpartition(".")[2] if name else "a policy without a class"]
    for key, words in _GROUPS:
        groups = _groups(properties.get(key)) if isinstance(properties, dict) else []
        if groups:
            said.append(f"{words} {', '.join(groups)}")
    return _printable(said[0] + (f" with {'; '.join(said[1:])}" if said[1:] else ""))


def _groups(value: object) -> list[str]:
    """Return the groups. Pulsar writes them as one text with commas, or as a list."""
    named: list[object] = []
    if isinstance(value, str):
        named = [*value.split(",")]
    elif isinstance(value, list):
        named = value
    return [group for one in named if (group := str(one).strip())]


def _printable(text: str) -> str:
    shown = "".join(char if char.isprintable() else "?" for char in text[:RECORDED_CHARS_MAX])
    return shown + ("…" if len(text) > RECORDED_CHARS_MAX else "")
