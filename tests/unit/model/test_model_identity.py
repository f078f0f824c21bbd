"""Which texts are bookie ids."""

import pytest

from auditor.model.identity import is_bookie_id


@pytest.mark.parametrize(
    "text",
    [
        "b1",
        "10.0.0.1:3181",
        "bookie-1.example.org:3181",
        "a_b",
        "A",
        "0",
        "a;b<c=d>e?f@g[h\\i]j^k",
        "read-only",
    ],
)
def test_what_bookkeeper_accepts_is_a_bookie_id(text: str) -> None:
    """Letters, digits, dot, dash, underscore and BookKeeper's own range from colon to
    underscore.
    """
    assert is_bookie_id(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a b",
        "a/b",
        "readonly",
        "READONLY",
        "ReadOnly",
        "a\n",
        "\u00e4",
        "a,b",
        "a+b",
        "a`b",
        "a{b}",
        " a",
    ],
)
def test_what_bookkeeper_refuses_is_not_a_bookie_id(text: str) -> None:
    """An id is not empty, has no slash, blank or line end, and is not the name of the read-only
    folder in any case.
    """
    assert not is_bookie_id(text)
