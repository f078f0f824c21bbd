"""The bookie's own configuration file, and the cookie by which its directories say whose they are."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.location_index import write_cookie

from auditor.errors import ConfigError
from auditor.lister.bookie_configuration import BookieConfiguration, configuration_of, parse_properties, read_configuration
from auditor.lister.cookie import check_cookie, parse_cookie

COOKIE = (
    '5\nbookieHost: "b1:3181"\njournalDir: "/j"\nledgerDirs: "2\\t/l1\\t/l2"\ninstanceId: "i"\nindexDirs: "2\\t/x1\\t/x2"\n'
)


def test_a_properties_file_is_read_as_java_reads_it() -> None:
    """Comments, three separators, continued lines, and the last of two equal keys."""
    text = "# no\n! no\n\n a = 1 \nb:2\nc 3\nd=/x,\\\n   /y\nwindows=c\\\\d\na=4\nempty=\n"
    expected = {"a": "4", "b": "2", "c": "3", "d": "/x,/y", "windows": "c\\d", "empty": ""}
    assert expected == parse_properties(text)


def test_directories_id_and_address_come_from_the_file(tmp_path: Path) -> None:
    """Index directories default to the ledger directories, the id to the advertised address."""
    path = tmp_path / "bookkeeper.conf"
    path.write_text("ledgerDirectories=/l1, /l2\nbookiePort=3191\nadvertisedAddress=bk-1\npassword=secret\n")
    pair = (Path("/l1"), Path("/l2"))
    assert BookieConfiguration(pair, pair, "bk-1:3191", "bk-1", 3191) == read_configuration(path)


def test_the_configured_id_goes_before_the_address() -> None:
    """bookieId, as in BookKeeper."""
    found = configuration_of({"bookieId": "b1", "advertisedAddress": "bk-1", "indexDirectories": "/x"}, "conf")
    assert ("b1", (Path("/x"),), "bk-1", 3181) == (found.bookie_id, found.index_directories, found.host, found.port)


@pytest.mark.parametrize(
    ("properties", "says"),
    [
        ({"ledgerStorageClass": "org.apache.bookkeeper.bookie.SortedLedgerStorage"}, "ledgerStorageClass"),
        ({"ledgerDirectories": "/a,/b", "indexDirectories": "/x"}, "do not match"),
        ({"bookiePort": "many"}, "bookiePort"),
    ],
)
def test_a_configuration_that_no_lister_can_read_is_refused(properties: dict[str, str], says: str) -> None:
    """With the key that is wrong."""
    with pytest.raises(ConfigError, match=says):
        configuration_of(properties, "conf")


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    """By its name."""
    with pytest.raises(ConfigError, match=r"nothing\.conf"):
        read_configuration(tmp_path / "nothing.conf")


def test_a_cookie_names_bookie_cluster_and_directories() -> None:
    """As BookKeeper 4.14 to 4.17 write it; a release without index directories has none."""
    cookie = parse_cookie(COOKIE)
    assert ("b1:3181", "i", ("/l1", "/l2"), ("/x1", "/x2")) == (
        cookie.bookie_id,
        cookie.instance_id,
        cookie.ledger_directories,
        cookie.index_directories,
    )
    assert parse_cookie(COOKIE[: COOKIE.index("indexDirs")]).index_directories is None


def test_names_in_a_cookie_are_read_as_they_were_before_they_were_escaped() -> None:
    """Protobuf's text format writes each byte of UTF-8 beyond ASCII in octal, and some characters behind a backslash."""
    named = '/größe/a\\b/it\'s "so"/\n\r\x01'
    escaped = r"""/gr\303\266\303\237e/a\\b/it\'s \"so\"/\n\r\001"""
    for told in (escaped, escaped.replace(r"\303\266", "ö")):
        assert (named,) == parse_cookie(f'5\nbookieHost: "b"\nledgerDirs: "1\\t{told}"\n').ledger_directories
    assert "b\\1" == parse_cookie('5\n  bookieHost: "b\\\\1"  \nledgerDirs: "1\\t/a"\n').bookie_id


@pytest.mark.parametrize("text", ["", "x\n", "5\n", '5\nbookieHost: "b"\n', COOKIE.replace('"2\\t/l1', '"3\\t/l1')])
def test_what_is_no_cookie_is_refused(text: str) -> None:
    """Never taken for a cookie that says less."""
    with pytest.raises(ConfigError):
        parse_cookie(text)


def test_the_cookies_of_all_directories_must_be_those_of_the_bookie(tmp_path: Path) -> None:
    """Its id, its directories in their order, and one cookie in all of them."""
    one, two = tmp_path / "1", tmp_path / "2"
    pair = (one, two)
    for directory in pair:
        write_cookie(directory, "b1", pair)
    assert "b1" == check_cookie(BookieConfiguration(pair, pair, "b1")).bookie_id
    assert "b1" == check_cookie(BookieConfiguration(pair, pair, None)).bookie_id
    with pytest.raises(ConfigError, match="of bookie b1, configured is b2"):
        check_cookie(BookieConfiguration(pair, pair, "b2"))
    with pytest.raises(ConfigError, match="ledger directories"):
        check_cookie(BookieConfiguration((two, one), pair, "b1"))
    with pytest.raises(ConfigError, match="index directories"):
        check_cookie(BookieConfiguration(pair, (two, one), "b1"))
    with pytest.raises(ConfigError, match="ledger directories"):
        check_cookie(BookieConfiguration((one,), (one,), "b1"))
    write_cookie(two, "b3", pair)
    with pytest.raises(ConfigError, match="differ"):
        check_cookie(BookieConfiguration(pair, pair, "b1"))
    (two / "current" / "VERSION").unlink()
    with pytest.raises(ConfigError, match="cannot be read"):
        check_cookie(BookieConfiguration(pair, pair, "b1"))


def test_a_cookie_of_another_port_is_refused(tmp_path: Path) -> None:
    """Without bookieId and advertisedAddress the file leaves the host open, and not the port."""
    write_cookie(tmp_path, "b1.example:3181")
    assert "b1.example:3181" == check_cookie(BookieConfiguration((tmp_path,), (tmp_path,), port=3181)).bookie_id
    with pytest.raises(ConfigError, match="bookiePort is 3191"):
        check_cookie(BookieConfiguration((tmp_path,), (tmp_path,), port=3191))
