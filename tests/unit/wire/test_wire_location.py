"""Network locations as text."""

import pytest

from auditor.wire.locations import LOCATION_CHARS_MAX, depth, is_within, normalize_location


@pytest.mark.parametrize(
    ("expected", "text"),
    [
        ("/r1", "/r1"),
        ("/region/r1", "/region/r1/"),
        ("/r1", " /r1// "),
        ("/r#1", "/r#1"),
        ("/X", "/X/"),
        ("/" + "x" * (LOCATION_CHARS_MAX - 1), "/" + "x" * (LOCATION_CHARS_MAX - 1)),
        (None, ""),
        (None, "/"),
        (None, " // "),
    ],
)
def test_a_location_has_no_slash_at_its_end(expected, text):
    """Trailing slashes go, and nothing else; nothing but slashes is no location."""
    assert expected == normalize_location(text)


@pytest.mark.parametrize(
    "text", ["r1", "r1/", "/a//b", "/a b", "/a\nb", "/a\x00", "/" + "x" * LOCATION_CHARS_MAX]
)
def test_what_is_no_location_is_refused(text):
    """It begins with a slash, has no empty part, no white space, and an end."""
    with pytest.raises(ValueError, match=r"^(does not|has an|holds|is longer)"):
        normalize_location(text)


def test_depth_and_being_within():
    """Depth counts parts; /r1 is not within /r, though its text begins with it."""
    assert [1, 2] == [depth("/r1"), depth("/region/r1")]
    assert is_within("/region/r1", "/region") and is_within("/r1", "/r1")
    assert not is_within("/r1", "/r") and not is_within("/r", "/r/1")
