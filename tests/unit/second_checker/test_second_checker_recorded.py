"""The placement that a ledger's writer recorded, as both checkers read it."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from auditor.first_checker.placement import KEY, recorded_policy
from auditor.sandbox.cluster import ledger
from auditor.second_checker.placement import BYTES_MAX, read_recorded


def recorded_json(name: object, **properties: object) -> bytes:
    return json.dumps({"policyClass": name, "properties": properties}).encode()


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (recorded_json("org.x.Isolated", isolationBookieGroups=" eu ,, us"),
        "Isolated with isolation groups eu, us"),
        (recorded_json("P", isolationBookieGroups=["a", "b"], secondaryIsolationBookieGroups="c"),
         "P with isolation groups a, b; secondary c"),
        (recorded_json("P", secondaryIsolationBookieGroups="c"), "P with secondary c"),
        (recorded_json("P", isolationBookieGroups=7), "P"),
        (recorded_json("P", isolationBookieGroups=[" a", "", 7, " "]),
         "P with isolation groups a, 7"),
        (recorded_json("P", isolationBookieGroups="a", secondaryIsolationBookieGroups=[""]),
         "P with isolation groups a"),
        (recorded_json(None), "a policy without a class"),
        (recorded_json(12), "12"),
        (recorded_json("x" * 300), "x" * 200 + "…"),
        (recorded_json("x" * 200), "x" * 200),
        (recorded_json("P").ljust(BYTES_MAX), "P"),
        (recorded_json("a\x00b"), "a?b"),
        (b'{"policyClass": "P", "properties": []}', "P"),
        (b"[]", "a policy that cannot be read: not a JSON object"),
        (b"{", "a policy that cannot be read: not JSON"),
        (b"\xff\xfe{", "a policy that cannot be read: not JSON"),
        (b" " * (BYTES_MAX + 1), f"a policy of {BYTES_MAX + 1} bytes, too long to be read"),
    ],
)  # fmt: skip
def test_both_checkers_read_a_record_alike(value: bytes, expected: str) -> None:
    """They give the class without its package, the groups, or what is wrong; bounded and
    printable.
    """
    metadata = replace(
        ledger("e3 w2 a2 0:[a b c] closed 9"),
        custom_metadata=(("other", b"x"), (KEY, value), (KEY, b"[]")),
    )
    assert expected == read_recorded(metadata) == recorded_policy(metadata)
