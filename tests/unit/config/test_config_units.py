"""How settings are written."""

import pytest

from auditor.config import units


@pytest.mark.parametrize(
    ("expected_ms", "text"),
    [
        (0, "0"),
        (500, "500ms"),
        (30_000, "30s"),
        (300_000, "5m"),
        (259_200_000, "72h"),
        (604_800_000, "7d"),
        (1_500, "1.5s"),
        (0, 0),
    ],
)
def test_a_duration_is_a_number_with_its_unit(expected_ms, text):
    """Durations are whole milliseconds; only 0 may go without a unit."""
    assert expected_ms == units.parse_duration(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "5",
        30,
        1.5,
        "5 minutes",
        "-5s",
        "5M",
        "s",
        "0.0001s",
        "1h30m",
        "٣s",
        "1e3s",
        True,
        None,
        {},
    ],
)
def test_what_is_no_duration_is_refused(text):
    """A bare number, a sign, another unit, a combination: refused, never guessed."""
    with pytest.raises(ValueError, match=r"is not a"):
        units.parse_duration(text)


@pytest.mark.parametrize(
    ("expected_bytes", "text"),
    [
        (67108864, "64MiB"),
        (64, 64),
        (1610612736, "1.5GiB"),
        (200_000_000, "200MB"),
        (7, "7B"),
        (0, "0"),
    ],
)
def test_a_size_is_bytes(expected_bytes, text):
    """Binary and decimal units differ; a plain number is bytes."""
    assert expected_bytes == units.parse_size(text)


@pytest.mark.parametrize("text", ["", "64M", "64mib", "-1", "0.5", "MiB", True, [64]])
def test_what_is_no_size_is_refused(text):
    """64M could mean two sizes, and is refused."""
    with pytest.raises(ValueError, match=r"is not a"):
        units.parse_size(text)


@pytest.mark.parametrize(
    "text", ["nan", "inf", "-1", "1e3", "", "1_000", True, None, float("nan"), float("inf"), -1]
)
def test_what_is_no_rate_is_refused(text):
    """Neither infinity nor a negative rate: 0 is the way to write no limit."""
    with pytest.raises(ValueError, match=r"is not a number a second"):
        units.parse_rate(text)


@pytest.mark.parametrize(("expected", "text"), [(50, "50%"), (50, "50 %"), (50, 50), (0, "0")])
def test_a_share_is_whole_percent(expected, text):
    """It is written with the percent sign or without."""
    assert expected == units.parse_percent(text)


@pytest.mark.parametrize("text", ["", "%", "0.5", 0.5, "-1%", "50%%", True, None])
def test_what_is_no_share_is_refused(text):
    """A fraction is refused, because it could be meant as a share of one."""
    with pytest.raises(ValueError, match=r"is not a"):
        units.parse_percent(text)


@pytest.mark.parametrize(
    "raw", [[], ["a", ""], ["a,b"], [1], "a,,b", ",", "", ["a\tb"], {}, None, 1]
)
def test_what_is_no_list_is_refused(raw):
    """No empty item, no comma within one, and text only."""
    with pytest.raises(ValueError, match=r"is (empty|not)|has an empty item|cannot be printed"):
        units.parse_list(raw)


@pytest.mark.parametrize("text", ["6_4", "6.0", 6.0, "", "-1", -1, "٣", True, None])
def test_what_is_no_count_is_refused(text):
    """A count is written in digits."""
    with pytest.raises(ValueError, match=r"is not a whole number"):
        units.parse_count(text)


@pytest.mark.parametrize(
    ("unit", "written"),
    [
        (units.DURATION, "72h"),
        (units.DURATION, "1500ms"),
        (units.DURATION, "0"),
        (units.SIZE, "64MiB"),
        (units.SIZE, "100"),
        (units.RATE, "2000"),
        (units.RATE, "0.5"),
        (units.RATE, "1000000"),
        (units.COUNT, "10000000"),
        (units.SWITCH, "true"),
        (units.PERCENT, "50%"),
        (units.LIST, "racks.txt,zookeeper"),
    ],
)
def test_a_value_is_shown_as_it_could_have_been_written(unit, written):
    """Showing and parsing are each other's inverse on the shortest form."""
    assert written == unit.show(unit.parse(written))


@pytest.mark.parametrize(
    "text",
    ["host:9091", "ftp://host", "http://", "http://host:port", "http://[::1", "http://ho\nst", ""],
)
def test_what_is_no_http_url_is_refused(text):
    """A Pushgateway is named by a whole URL."""
    with pytest.raises(ValueError, match=r"is (not a URL|empty)|cannot be printed"):
        units.parse_http_url(text)


def test_credentials_are_masked():
    """The text between // and @ is never shown."""
    assert (
        units.without_credentials("push to http://joe:s3cr3t@host:9091/x failed")
        == "push to http://***@host:9091/x failed"
    )
    assert units.has_credentials("http://joe@host") and not units.has_credentials("http://host/a@b")


@pytest.mark.parametrize(("text", "expected"), [("027", 0o27), ("0077", 0o77), (" 000 ", 0)])
def test_a_mask_is_written_in_octal(text: str, expected: int):
    """umask and chmod take the same form. A mask is shown in that form too."""
    assert expected == units.parse_umask(text)
    assert text.strip()[-3:] == units.show_umask(expected)


@pytest.mark.parametrize("raw", ["27", "028", "-27", "0o27", "1777", 27, True, ""])
def test_a_mask_that_is_not_octal_is_refused(raw: object):
    """This includes a number without quotes: TOML would read 27 as decimal."""
    with pytest.raises(ValueError, match="three octal digits in quotes"):
        units.parse_umask(raw)
