"""The bookie's own configuration file, and the cookie that names the bookie of a directory."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.location_index import write_cookie

from auditor.errors import ConfigError, MalformedMetadata
from auditor.lister.bookie_configuration import (
    BookieConfiguration,
    configuration_of,
    parse_properties,
    read_configuration,
)
from auditor.lister.serving import COOKIE_BYTES_MAX, check_cookie, read_cookie
from auditor.model.identity import PORT_DIGITS_MAX
from auditor.wire.cookie import Cookie, parse_cookie

COOKIE = (
    '5\nbookieHost: "b1:3181"\njournalDir: "/j"\nledgerDirs: "2\\t/l1\\t/l2"\ninstanceId:'
    ' "i"\nindexDirs: "2\\t/x1\\t/x2"\n'
)


def test_a_properties_file_is_read_as_java_reads_it() -> None:
    """Comments, three separators, continued lines, and the last of two equal keys."""
    text = "# no\n! no\n\n a = 1 \nb:2\nc 3\nd=/x,\\\n   /y\nwindows=c\\\\d\na=4\nempty=\n"
    expected = {"a": "4", "b": "2", "c": "3", "d": "/x,/y", "windows": "c\\d", "empty": ""}
    assert expected == parse_properties(text)


def test_directories_id_and_address_come_from_the_file(tmp_path: Path) -> None:
    """Index directories default to the ledger directories, the id to the advertised address."""
    path = tmp_path / "bookkeeper.conf"
    path.write_text(
        "ledgerDirectories=/l1, /l2\nbookiePort=3191\nadvertisedAddress=bk-1\npassword=secret\n"
    )
    pair = (Path("/l1"), Path("/l2"))
    assert BookieConfiguration(pair, pair, "bk-1:3191", "bk-1", 3191) == read_configuration(path)


def test_the_configured_id_goes_before_the_address() -> None:
    """bookieId, as in BookKeeper."""
    found = configuration_of(
        {"bookieId": "b1", "advertisedAddress": "bk-1", "indexDirectories": "/x"}, "conf"
    )
    assert ("b1", (Path("/x"),), "bk-1", 3181) == (
        found.bookie_id,
        found.index_directories,
        found.host,
        found.port,
    )


@pytest.mark.parametrize(
    ("properties", "says"),
    [
        (
            {"ledgerStorageClass": "org.apache.bookkeeper.bookie.SortedLedgerStorage"},
            "ledgerStorageClass",
        ),
        ({"ledgerDirectories": "/a,/b", "indexDirectories": "/x"}, "do not match"),
        ({"bookiePort": "many"}, "bookiePort"),
    ],
)
def test_a_configuration_that_no_lister_can_read_is_refused(
    properties: dict[str, str], says: str
) -> None:
    """The error names the wrong key."""
    with pytest.raises(ConfigError, match=says):
        configuration_of(properties, "conf")


RELATIVE = "data/bookkeeper/ledgers"


def test_a_relative_directory_is_below_the_directory_in_which_the_bookie_was_started() -> None:
    """Without that directory it is refused."""
    properties = {"ledgerDirectories": RELATIVE}
    found = configuration_of(properties, "conf", Path("/pulsar"))
    assert (Path("/pulsar") / RELATIVE,) == found.ledger_directories == found.index_directories
    with pytest.raises(ConfigError, match="--bookie-directory"):
        configuration_of(properties, "conf")


@pytest.mark.parametrize(
    ("recorded", "started_in", "is_accepted"),
    [
        ("data/l", None, True),
        ("data/l", "", True),
        ("ata/l", None, False),
        ("other/l", None, False),
        ("data/l", "other", False),
    ],
)
def test_a_cookie_with_a_relative_directory_is_that_of_a_place_that_ends_with_it(
    tmp_path: Path, recorded: str, started_in: str | None, is_accepted: bool
) -> None:
    """If it is known where the bookie was started, the place must be below that directory."""
    place = tmp_path / "data" / "l"
    write_cookie(place, "b1", [Path(recorded)])
    base = None if started_in is None else tmp_path / started_in
    configured = BookieConfiguration((place,), (place,), "b1", working_directory=base)
    if is_accepted:
        assert (recorded,) == check_cookie(configured).ledger_directories
    else:
        with pytest.raises(ConfigError, match="records the ledger directories"):
            check_cookie(configured)


def test_relative_directories_of_one_bookie_are_below_one_directory(tmp_path: Path) -> None:
    """Otherwise one of the places belongs to another bookie."""
    places = tmp_path / "one" / "l1", tmp_path / "two" / "l2"
    for place in places:
        write_cookie(place, "b1", [Path("l1"), Path("l2")])
    with pytest.raises(ConfigError, match="records the ledger directories"):
        check_cookie(BookieConfiguration(places, places, "b1"))


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
    """Protobuf's text format writes each byte of UTF-8 beyond ASCII in octal, and some characters
    behind a backslash.
    """
    named = '/größe/a\\b/it\'s "so"/\n\r\x01'
    escaped = r"""/gr\303\266\303\237e/a\\b/it\'s \"so\"/\n\r\001"""
    for text in (escaped, escaped.replace(r"\303\266", "ö")):
        assert (named,) == parse_cookie(
            f'5\nbookieHost: "b"\nledgerDirs: "1\\t{text}"\n'
        ).ledger_directories
    assert ("/\ufffd",) == parse_cookie(
        '5\nbookieHost: "b"\nledgerDirs: "1\\t/\\377"\n'
    ).ledger_directories
    assert "b\\1" == parse_cookie('5\n  bookieHost: "b\\\\1"  \nledgerDirs: "1\\t/a"\n').bookie_id


@pytest.mark.parametrize(
    "text", ["", "x\n", "5\n", '5\nbookieHost: "b"\n', COOKIE.replace('"2\\t/l1', '"3\\t/l1')]
)
def test_what_is_no_cookie_is_refused(text: str) -> None:
    """Never taken for a cookie that says less."""
    with pytest.raises(MalformedMetadata):
        parse_cookie(text)


def test_the_cookies_of_all_directories_must_be_those_of_the_bookie(tmp_path: Path) -> None:
    """They must agree on its id and on its directories in their order, and be equal to each
    other.
    """
    one, two = tmp_path / "1", tmp_path / "2"
    pair = (one, two)
    for directory in pair:
        write_cookie(directory, "b1", pair)
    assert "b1" == check_cookie(BookieConfiguration(pair, pair, "b1")).bookie_id
    assert "b1" == check_cookie(BookieConfiguration(pair, pair, None)).bookie_id
    with pytest.raises(ConfigError, match="of bookie b1, configured is b2"):
        check_cookie(BookieConfiguration(pair, pair, "b2"))
    with pytest.raises(
        ConfigError,
        match=f"ledger directories {one}, {two}; configured are {two}, {one}, in this order",
    ):
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
    """Without bookieId and advertisedAddress the file leaves the host open, but not the port."""
    write_cookie(tmp_path, "b1.example:3181")
    assert (
        "b1.example:3181"
        == check_cookie(BookieConfiguration((tmp_path,), (tmp_path,), port=3181)).bookie_id
    )
    with pytest.raises(ConfigError, match="bookiePort is 3191"):
        check_cookie(BookieConfiguration((tmp_path,), (tmp_path,), port=3191))


def test_an_empty_file_is_a_bookie_with_bookkeepers_own_defaults() -> None:
    """Its id is left to the name of its host."""
    pair = (Path("/tmp/bk-data"),)
    assert BookieConfiguration(pair, pair, None, None, 3181) == configuration_of({}, "conf")
    assert (
        configuration_of(
            {"advertisedAddress": "", "bookieId": "", "ledgerDirectories": " , "}, "conf"
        ).bookie_id
        is None
    )


@pytest.mark.parametrize(
    ("storage", "is_read"),
    [
        ("org.apache.bookkeeper.bookie.storage.ldb.DbLedgerStorage", True),
        ("", True),
        ("DbLedgerStorage", False),
        ("com.example.MyDbLedgerStorage", False),
        ("org.apache.bookkeeper.bookie.InterleavedLedgerStorage", False),
    ],
)
def test_only_one_storage_has_an_index_that_can_be_read(storage: str, is_read: bool) -> None:
    """Named as a class with its package."""
    if is_read:
        assert 3181 == configuration_of({"ledgerStorageClass": storage}, "conf").port
    else:
        with pytest.raises(ConfigError, match="conf: ledgerStorageClass"):
            configuration_of({"ledgerStorageClass": storage}, "conf")


def test_what_is_wrong_is_reported_with_its_file(tmp_path: Path) -> None:
    """Whichever key it is."""
    for text, says in (
        ("bookiePort=x", "bookiePort is 'x'"),
        ("ledgerDirectories=/a,/b\nindexDirectories=/x", "2 ledger"),
    ):
        (tmp_path / "conf").write_text(text)
        with pytest.raises(ConfigError, match=f"^{tmp_path}/conf: {says}"):
            read_configuration(tmp_path / "conf")


@pytest.mark.parametrize("port", ["", "-1", "3181.0", "\u0663"])
def test_a_port_is_digits(port: str) -> None:
    """ASCII ones."""
    with pytest.raises(ConfigError, match="bookiePort"):
        configuration_of({"bookiePort": port}, "conf")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a", {"a": ""}),
        ("a\tb c", {"a": "b c"}),
        ("a = b = c", {"a": "b = c"}),
        ("a::b", {"a": ":b"}),
        ("a=b\\\\\nc=d", {"a": "b\\", "c": "d"}),
        ("a=b\\\\\\\n  c", {"a": "b\\c"}),
        ("a=b\\\n# c\\\n\n d=e", {"a": "b# c", "d": "e"}),
        ("a=b\\", {"a": "b"}),
        ("# a=b\\\nc=d", {"c": "d"}),
        ("Xa=b", {"Xa": "b"}),
        ("=b", {"": "b"}),
        ("a=b\r\nc=d\\\r\n e", {"a": "b", "c": "de"}),
        ("\n\n  \n", {}),
    ],
)
def test_lines_are_joined_and_cut_as_java_does(text: str, expected: dict[str, str]) -> None:
    """A line with an odd number of backslashes at its end continues in the next one; a comment
    never does.
    """
    assert expected == parse_properties(text)


def test_bytes_that_are_no_utf_8_are_in_nobodys_way(tmp_path: Path) -> None:
    """They may be in a comment, or in a value that no lister reads."""
    (tmp_path / "conf").write_bytes(b"# caf\xe9\nledgerDirectories=/gr\xc3\xb6\xc3\x9fe\nx=\xff\n")
    assert (Path("/gr\u00f6\u00dfe"),) == read_configuration(tmp_path / "conf").ledger_directories


def test_a_cookie_is_read_only_so_far(tmp_path: Path) -> None:
    """What makes it longer is not a cookie. The error has the reason, with the file."""
    write_cookie(tmp_path, "b1")
    path = tmp_path / "current" / "VERSION"
    whole = path.read_text()
    path.write_text(whole + "x" * (COOKIE_BYTES_MAX - len(whole) + 1))
    assert "b1" == read_cookie(tmp_path).bookie_id
    head, _, rest = whole.partition("\n")
    path.write_text(f"{head}\n{'x' * COOKIE_BYTES_MAX}\n{rest}")
    with pytest.raises(ConfigError, match=r"current/VERSION: the cookie names no bookie"):
        read_cookie(tmp_path)
    path.write_bytes(whole.encode() + b"\xff\n")
    assert "b1" == read_cookie(tmp_path).bookie_id


def test_a_cookie_without_a_cluster_has_none() -> None:
    """An empty id counts as none. Lines that are not fields are skipped."""
    text = ' 5 \nbookieHost: "b1"\nversion: 5\n  ledgerDirs: "1\\t/l"  \ninstanceId: ""\n'
    assert Cookie("b1", None, ("/l",), None) == parse_cookie(text)


@pytest.mark.parametrize("dirs", ["", "0", "1", "2\\t/a", "x\\t/a", "/a"])
def test_a_list_of_directories_has_its_count(dirs: str) -> None:
    """And at least one."""
    with pytest.raises(MalformedMetadata, match="a list of directories is"):
        parse_cookie(f'5\nbookieHost: "b"\nledgerDirs: "{dirs}"\n')


def test_a_cookie_that_does_not_record_index_directories_is_not_held_against_them(
    tmp_path: Path,
) -> None:
    """Older releases. Paths are compared as paths."""
    write_cookie(tmp_path, "b1")
    path = tmp_path / "current" / "VERSION"
    lines = [line for line in path.read_text().splitlines() if not line.startswith("indexDirs")]
    path.write_text("\n".join(lines).replace(str(tmp_path), f"{tmp_path}/"))
    index = tmp_path / "index"
    (index / "current").mkdir(parents=True)
    (index / "current" / "VERSION").write_text(path.read_text())
    cookie = check_cookie(BookieConfiguration((tmp_path,), (index,), "b1"))
    assert (f"{tmp_path}/",) == cookie.ledger_directories


def test_the_port_counts_only_where_an_id_has_one(tmp_path: Path) -> None:
    """And where the file does not set the id."""
    for bookie, configured in (("b1", None), ("b1:3181", "b1:3181")):
        write_cookie(tmp_path, bookie)
        assert (
            bookie
            == check_cookie(
                BookieConfiguration((tmp_path,), (tmp_path,), configured, port=3191)
            ).bookie_id
        )


@pytest.mark.parametrize("port", ["3333181", "9" * 5_000, "65536", "-1"])
def test_a_port_that_no_bookie_has_is_refused(port: str):
    """A number is not enough, and a very long one is not converted."""
    with pytest.raises(ConfigError, match="bookiePort"):
        configuration_of({"bookiePort": port}, "conf")


@pytest.mark.parametrize(
    ("text", "port"), [("1", 1), ("65535", 65535), ("3181".zfill(PORT_DIGITS_MAX), 3181)]
)
def test_any_port_of_a_bookie_is_read(text: str, port: int) -> None:
    """Up to the highest port, and with zeros in front."""
    assert port == configuration_of({"bookiePort": text}, "conf").port


@pytest.mark.parametrize("count", ["²", "9" * 5_000, "02", ""])
def test_a_count_of_directories_that_is_no_number_is_refused(count: str):
    """As BookKeeper writes it, or not at all: other scripts have digits that Python does not
    convert.
    """
    with pytest.raises(MalformedMetadata, match="a list of directories"):
        parse_cookie(f'4\nbookieHost: "b1:3181"\nledgerDirs: "{count}\\t/a\\t/b"\n')


def test_what_a_cookie_says_is_escaped_in_errors(tmp_path: Path):
    """Any user who can write into a directory of the bookie chooses these names."""
    text = '4\nbookieHost: "b\\n\\033[2J:3181"\nledgerDirs: "1\\t/\\033[2J\\nauditor: fine"\n'
    (tmp_path / "current").mkdir()
    (tmp_path / "current" / "VERSION").write_text(text)
    for configured in (None, "b1:3181"):
        with pytest.raises(ConfigError) as refused:
            check_cookie(BookieConfiguration((tmp_path,), (tmp_path,), configured))
        assert str(refused.value).isprintable()


def test_an_error_cuts_the_directories_that_a_cookie_records(tmp_path: Path) -> None:
    """After 1,000 characters: that many name a dozen directories."""
    write_cookie(tmp_path, "b1", (Path("/" + "x" * 1_500),))
    with pytest.raises(ConfigError) as refused:
        check_cookie(BookieConfiguration((tmp_path,), (tmp_path,), "b1"))
    assert f"the ledger directories /{'x' * 996}...; configured are " in str(refused.value)
