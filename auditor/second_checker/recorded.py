"""Read the placement policy that a ledger's writer recorded in the custom metadata."""

from __future__ import annotations

import json
from collections.abc import Mapping

from auditor.model.ledger import LedgerMetadata

BYTES_MAX = 16_384
"""Longest record that is parsed."""
CHARS_MAX = 200
"""Characters of the policy that are shown."""


def read_recorded(metadata: LedgerMetadata) -> str:
    """Return the recorded policy class with its isolation groups, or what is wrong with the record.

    Return "" if nothing is recorded.
    """
    values = [
        value for key, value in metadata.custom_metadata if key == "EnsemblePlacementPolicyConfig"
    ]
    if not values:
        return ""
    if len(values[0]) > BYTES_MAX:
        return f"a policy of {len(values[0])} bytes, too long to be read"
    try:
        config = json.loads(str(values[0], "utf-8"))
    except (ValueError, RecursionError):
        return "a policy that cannot be read: not JSON"
    if not isinstance(config, Mapping):
        return "a policy that cannot be read: not a JSON object"
    text = (
        str(config["policyClass"]).split(".")[-1]
        if config.get("policyClass")
        else "a policy without a class"
    )
    properties = config.get("properties")
    if isinstance(properties, Mapping):
        primary, secondary = (
            _groups(properties.get(f"{name}ookieGroups"))
            for name in ("isolationB", "secondaryIsolationB")
        )
        said = [f"isolation groups {primary}"] * bool(primary) + [f"secondary {secondary}"] * bool(
            secondary
        )
        text = " with ".join([text, *(["; ".join(said)] if said else [])])
    shown = "".join(one if one.isprintable() else "?" for one in text[:CHARS_MAX])
    return shown if len(text) <= CHARS_MAX else f"{shown}…"


def _groups(value: object) -> str:
    """Return the groups, separated by commas; "" if none is named."""
    parts = value.split(",") if isinstance(value, str) else value
    if not isinstance(parts, list):
        return ""
    return ", ".join(filter(None, (str(part).strip() for part in parts)))
