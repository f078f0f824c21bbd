"""The metadata service URI: BookKeeper's form, Pulsar's form, and a helpful refusal of the rest."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from auditor.errors import ConfigError
from auditor.wire import service_uri
from auditor.wire.znode_paths import LedgerLayout


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("zk://h:2181/ledgers", None),
        ("zk+null://h:2181/ledgers", None),
        ("zk+flat://h:2181/ledgers", LedgerLayout.FLAT),
        ("zk+hierarchical://h:2181/ledgers", LedgerLayout.HIERARCHICAL),
        ("zk+longhierarchical://h:2181/ledgers", LedgerLayout.LONG_HIERARCHICAL),
        ("ZK+Hierarchical://h:2181/ledgers", LedgerLayout.HIERARCHICAL),
    ],
)
def test_the_scheme_may_name_a_layout(text: str, hint: str | None) -> None:
    """Each suffix is a hint; none, and `null`, leave it to the LAYOUT znode."""
    parsed = service_uri.parse(text)
    assert (hint, ("h:2181",), ("/ledgers",), "") == (
        parsed.layout_hint,
        parsed.hosts,
        parsed.roots,
        parsed.chroot,
    )


@pytest.mark.parametrize(
    ("authority", "hosts"),
    [
        ("h", ("h:2181",)),
        ("h:2281", ("h:2281",)),
        ("a:1,b:2;c", ("a:1", "b:2", "c:2181")),
        (
            "zk-0.zk.svc.cluster.local;10.0.0.1:65535",
            ("zk-0.zk.svc.cluster.local:2181", "10.0.0.1:65535"),
        ),
        ("[::1]:2182", ("[::1]:2182",)),
        ("[2001:db8::1],[fe80::1%eth0]:1", ("[2001:db8::1]:2181", "[fe80::1%eth0]:1")),
        ("a:1, b:2", ("a:1", "b:2")),
    ],
)
def test_hosts_are_separated_by_semicolon_or_comma(authority: str, hosts: tuple[str, ...]) -> None:
    """Both separators, mixed too; the port is 2181 unless given; IPv6 stands in brackets."""
    assert hosts == service_uri.parse(f"zk://{authority}/ledgers").hosts
    assert hosts == service_uri.parse(f"metadata-store:zk:{authority}").hosts


@pytest.mark.parametrize(
    ("path", "root"),
    [
        ("/ledgers", "/ledgers"),
        ("/a/b/ledgers", "/a/b/ledgers"),
        ("/ledgers/", "/ledgers"),
        ("/my%20root", "/my root"),
        ("/L-1_x", "/L-1_x"),
        ("/X/", "/X"),
    ],
)
def test_the_path_is_root_itself(path: str, root: str) -> None:
    """In BookKeeper's form the path is no chroot: it is where the ledgers are."""
    assert (root,) == service_uri.parse(f"zk://h{path}").roots


@pytest.mark.parametrize(
    ("text", "roots", "chroot"),
    [
        ("metadata-store:zk:h:2181", ("/ledgers",), ""),
        ("metadata-store:zk:h:2181/", ("/ledgers",), ""),
        ("metadata-store:zk:h:2181/x", ("/x/ledgers", "/ledgers"), "/x"),
        ("metadata-store:zk:h:2181/x/y/", ("/x/y/ledgers", "/ledgers"), "/x/y"),
        ("metadata-store:zk:h:2181/X", ("/X/ledgers", "/ledgers"), "/X"),
        ("metadata-store:zk://h:2181/x", ("/x/ledgers", "/ledgers"), "/x"),
        ("metadata-store:zk:my-zk-1:2281/ledgers", ("/ledgers/ledgers", "/ledgers"), "/ledgers"),
    ],
)
def test_pulsars_path_is_a_chroot(text: str, roots: tuple[str, ...], chroot: str) -> None:
    """In Pulsar's form ROOT is /ledgers inside the path, and /ledgers itself is tried after it."""
    parsed = service_uri.parse(text)
    assert (roots, chroot, None) == (parsed.roots, parsed.chroot, parsed.layout_hint)


def test_the_text_is_kept() -> None:
    """What a report shows is what was given, without the space around it."""
    for text in ("zk+hierarchical://a:1;b/ledgers", "metadata-store:zk:a:1,b/x"):
        assert text == service_uri.parse(f"  {text}\n").text_without_secrets


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("etcd://h:2379/ledgers", "'etcd'"),
        ("etcd+hierarchical://h:2379/ledgers", "'etcd'"),
        ("ms://h/ledgers", "'ms'"),
        ("zk+ms://h/ledgers", "ms"),
        ("rocksdb://h/x", "'rocksdb'"),
        ("https://h/ledgers", "'https'"),
        ("metadata-store:oxia://h:6648/ns", "'oxia'"),
        ("metadata-store:etcd:http://h:2379", "'etcd'"),
        ("metadata-store:rocksdb:///var/x", "'rocksdb'"),
        ("metadata-store:memory:local", "'memory'"),
    ],
)
def test_other_stores_are_refused_by_name(text: str, named: str) -> None:
    """A store that is not ZooKeeper is named in the refusal."""
    with pytest.raises(ConfigError, match=named):
        service_uri.parse(text)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "does not begin with"),
        ("h:2181/ledgers", "does not begin with"),
        ("zk:h:2181/ledgers", "does not begin with"),
        ("zk:/h:2181/ledgers", "does not begin with"),
        ("://h/ledgers", "does not begin with"),
        ("zk+://h/ledgers", "is not one of null, flat, hierarchical, longhierarchical"),
        ("zk+hierarchial://h/ledgers", "'hierarchial' is not one of"),
        ("zk+flat+flat://h/ledgers", "'flat\\+flat' is not one of"),
        ("zk+legacyhierarchical://h/ledgers", "write zk\\+null"),
        ("zk+ms://h/ledgers", "ms keeps ledgers in another metadata store"),
        ("x" * 41 + "://h/ledgers", "the metadata store of that name is not ZooKeeper"),
        ("zk://h:2181", "path of the ledgers is missing"),
        ("zk://h:2181/", "cannot be /"),
        ("zk:///ledgers", "a host is missing"),
        ("zk://a,,b/ledgers", "a host is missing"),
        ("zk://a;/ledgers", "a host is missing"),
        ("zk://a:/ledgers", "a port is not a number"),
        ("zk://a:0/ledgers", "a port is not a number from 1 to 65535"),
        ("zk://a:65536/ledgers", "a port is not a number"),
        ("zk://a:x/ledgers", "a port is not a number"),
        ("zk://a b/ledgers", "a host is not a name"),
        ("zk://-a/ledgers", "a host is not a name"),
        ("zk://2001:db8::1/ledgers", "IPv6 address in brackets"),
        ("zk://a:1:2/ledgers", "more than one colon"),
        ("zk://[::1/ledgers", "brackets is not an IPv6 address"),
        ("zk://[::1]2181/ledgers", "brackets is not an IPv6 address"),
        ("zk://[h]:2181/ledgers", "brackets is not an IPv6 address"),
        ("zk://[::1]:/ledgers", "a port is not a number"),
        ("zk://[::1]:2]/ledgers", "a port is not a number"),
        ("zk://h//ledgers", "empty, . or .. part"),
        ("zk://h/a/../ledgers", "empty, . or .. part"),
        ("zk://h/a/./ledgers", "empty, . or .. part"),
        ("zk://h/%2e%2e/ledgers", "empty, . or .. part"),
        ("zk://h/a%00b", "character that ZooKeeper does not allow"),
        ("zk://h/%ff", "character that ZooKeeper does not allow"),
        ("zk://h/a b", "character that ZooKeeper does not allow"),
        ("zk://h/ledgers?x=1", "no meaning"),
        ("zk://h/ledgers#x", "no meaning"),
        ("metadata-store:", "name of a store"),
        ("metadata-store:zk", "name of a store"),
        ("metadata-store:zk:", "a host is missing"),
        ("metadata-store:zk:h//x", "empty, . or .. part"),
    ],
)
def test_an_error_on_nonsense_has_the_right_form(text: str, says: str) -> None:
    """A URI that cannot be used is refused with the reason, and with a form that can."""
    with pytest.raises(ConfigError, match=says) as error:
        service_uri.parse(text)
    assert service_uri.RIGHT_FORM in str(error.value) or service_uri.PULSAR_FORM in str(error.value)


@pytest.mark.parametrize("text", ["metadata-store:", "metadata-store:etcd:h:2379"])
def test_an_error_on_a_name_like_pulsars_has_pulsars_form(text: str) -> None:
    """A text that begins with `metadata-store:` gets that form, and not BookKeeper's."""
    with pytest.raises(ConfigError) as error:
        service_uri.parse(text)
    assert service_uri.PULSAR_FORM in str(error.value)


@pytest.mark.parametrize(
    "text",
    [
        "zk://user:hunter2@h:2181/ledgers",
        "zk://user:hun/ter2@h:2181/ledgers",
        "zk+nonsense://user:hunter2@h/ledgers",
        "hunter2@h",
        "metadata-store:zk:user:hunter2@h:2181",
        "metadata-store:hunter2:x@h:2181",
        "hunter2:x@h://h/ledgers",
    ],
)
def test_a_user_or_password_is_refused_and_not_quoted(text: str) -> None:
    """User-info has no meaning for ZooKeeper; the refusal shows nothing of it."""
    with pytest.raises(ConfigError, match="user or password") as error:
        service_uri.parse(text)
    assert "ter2" not in str(error.value)


@settings(deadline=None, print_blob=True)
@given(
    st.text("zk+:/[]%;,.@#? h0129-metadata_sor\x00é", max_size=40) | st.text(max_size=40),
    st.sampled_from(["", "zk://", "metadata-store:zk:"]),
)
def test_arbitrary_text_raises_only_config_error(text: str, head: str) -> None:
    """Whatever is typed: hosts with ports and absolute roots, or ConfigError."""
    try:
        parsed = service_uri.parse(head + text)
    except ConfigError:
        return
    assert parsed.hosts
    assert parsed.roots
    assert all(1 <= int(host.rpartition(":")[2]) <= 65535 for host in parsed.hosts)
    assert all(
        root.startswith("/") and not root.endswith("/") and "//" not in root
        for root in parsed.roots
    )


@pytest.mark.parametrize(
    "text",
    ["zk:h1:2182,h2/chroot", " metadata-store:zk:h1:2182,h2/chroot ", "ZK://h1:2182,h2/chroot"],
)
def test_pulsars_own_address_is_that_of_its_broker(text: str) -> None:
    """With and without the prefix that BookKeeper needs."""
    uri = service_uri.parse_pulsar(text)
    assert (("h1:2182", "h2:2181"), "/chroot") == (uri.hosts, uri.chroot)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("etcd:http://h:2379", "metadata store 'etcd' is not ZooKeeper"),
        ("zk:user:secret@h:2181", "a user or password cannot be given"),
        ("h", "not followed by the name of a store"),
    ],
)
def test_another_store_of_pulsar_is_refused_with_pulsars_form(text: str, says: str) -> None:
    """By name, and without what could be a password."""
    with pytest.raises(ConfigError, match=says) as refused:
        service_uri.parse_pulsar(text)
    assert service_uri.PULSAR_FORM in str(refused.value)
    assert "secret" not in str(refused.value)
