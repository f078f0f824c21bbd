"""The placement policy that a ledger's writer recorded, as far as it is readable."""

import json
from dataclasses import replace

import pytest

from auditor.first_checker.placement import (
    KEY,
    RECORDED_BYTES_MAX,
    RECORDED_CHARS_MAX,
    recorded_policy,
)
from auditor.sandbox.cluster import ledger

ISOLATED = "org.apache.pulsar.bookie.rackawareness.IsolatedBookieEnsemblePlacementPolicy"


def recorded(value: bytes) -> str:
    plain = ledger("e3 w2 a2 0:[a b c] closed 9")
    return recorded_policy(
        replace(plain, custom_metadata=(("application", b"pulsar"), (KEY, value)))
    )


def written(**properties: object) -> bytes:
    """Return it as Pulsar's pretty printer writes it."""
    return json.dumps({"policyClass": ISOLATED, "properties": properties}, indent=2).encode()


@pytest.mark.parametrize(
    ("expected", "value"),
    [
        (
            "IsolatedBookieEnsemblePlacementPolicy with isolation groups g1, g2; secondary g3",
            written(isolationBookieGroups="g1,g2", secondaryIsolationBookieGroups="g3"),
        ),
        (
            "IsolatedBookieEnsemblePlacementPolicy with isolation groups g1, g2",
            written(isolationBookieGroups=["g1", "g2"]),
        ),
        (
            "IsolatedBookieEnsemblePlacementPolicy with secondary g3",
            written(secondaryIsolationBookieGroups="g3"),
        ),
        ("IsolatedBookieEnsemblePlacementPolicy", written(isolationBookieGroups="")),
        (
            "IsolatedBookieEnsemblePlacementPolicy",
            written(isolationBookieGroups=None, secondaryIsolationBookieGroups=7),
        ),
        ("Mine", b'{"policyClass": "Mine", "properties": null}'),
        (
            "a policy without a class with isolation groups g1",
            b'{"properties": {"isolationBookieGroups": "g1"}}',
        ),
        ("a policy without a class", b"{}"),
        ("a policy that cannot be read: not a JSON object", b"[]"),
        ("a policy that cannot be read: not JSON", b""),
        ("a policy that cannot be read: not JSON", b"\xff\xfe"),
        ("a policy that cannot be read: not JSON", b"[" * RECORDED_BYTES_MAX),
        ("a policy that cannot be read: not JSON", b'{"policyClass": ' + b"9" * 5_000 + b"}"),
        (
            f"a policy of {RECORDED_BYTES_MAX + 1} bytes, too long to be read",
            b" " * (RECORDED_BYTES_MAX + 1),
        ),
        ("My?Policy", b'{"policyClass": "My\\nPolicy"}'),
    ],
)
def test_what_was_recorded_is_reported_as_far_as_it_can_be_read(
    expected: str, value: bytes
) -> None:
    """Any text may be recorded. It is shown in words, or with the reason why it cannot be read."""
    assert expected == recorded(value)


def test_a_ledger_that_records_none_says_nothing() -> None:
    """This is every ledger that is not Pulsar's."""
    assert "" == recorded_policy(ledger("e3 w2 a2 0:[a b c] closed 9"))


def test_what_is_shown_is_bounded() -> None:
    """Five hundred groups do not fill the screen."""
    words = recorded(written(isolationBookieGroups=[f"group-{k}" for k in range(500)]))
    assert RECORDED_CHARS_MAX + 1 == len(words) and words.endswith("…")


@pytest.mark.parametrize(
    ("size", "shown"), [(RECORDED_CHARS_MAX, "x" * RECORDED_CHARS_MAX), (201, "x" * 200 + "…")]
)
def test_an_ellipsis_says_that_there_is_more(size: int, shown: str) -> None:
    """There is an ellipsis only if text was cut."""
    assert shown == recorded(b'{"policyClass": "' + b"x" * size + b'"}')
