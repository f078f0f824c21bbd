"""Parse BookKeeper's or Pulsar's metadata service URI into hosts and candidates for ROOT."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from typing import NoReturn
from urllib.parse import unquote

from auditor.errors import ConfigError

DEFAULT_PORT = 2181
PORT_MAX = 65_535
DEFAULT_ROOT = "/ledgers"
RIGHT_FORM = "zk+hierarchical://host:2181,host2:2181/ledgers"
PULSAR_FORM = "metadata-store:zk:host:2181,host2:2181"
LAYOUT_SUFFIXES = ("null", "flat", "hierarchical", "longhierarchical")

_PULSAR_PREFIX = "metadata-store:"
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]*)://(.*)", re.DOTALL)
_PULSAR_STORE = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]*):(.*)", re.DOTALL)
_WORD = re.compile(r"[A-Za-z0-9+.\-]{1,40}")
_HOST_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._\-]*[A-Za-z0-9])?")
_PORT = re.compile(r"[0-9]{1,5}")
_NOT_IN_PATH = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\uf8ff\ufff0-\uffff]")
"""Characters that ZooKeeper does not allow in a path (PathUtils.validatePath)."""


@dataclass(frozen=True, slots=True)
class ServiceUri:
    """Where the metadata is.

    `hosts` are `host:port`, IPv6 in brackets. `roots` are absolute paths for a connection without
    chroot: the first that has a LAYOUT znode is ROOT. `layout_hint` is the layout that the URI
    names; with None the LAYOUT znode decides. `text_without_secrets` is the URI as given: a URI
    with a user or password is refused. `chroot` is where Pulsar keeps its own znodes, such as
    `/bookies`; it is empty without chroot and in BookKeeper's form.
    """

    hosts: tuple[str, ...]
    roots: tuple[str, ...]
    layout_hint: str | None
    text_without_secrets: str
    chroot: str


def parse(text: str) -> ServiceUri:
    """Parse BookKeeper's or Pulsar's form of the URI.

    BookKeeper's form is `zk[+layout]://host[:port][,;host...]/root`: the path is ROOT. Pulsar's is
    `metadata-store:zk:host[:port][,host...][/chroot]`: ROOT is `/ledgers` inside the chroot. As
    installations differ, `/ledgers` itself is the second candidate. Raises `ConfigError` with the
    right form; the error never quotes what could be a user or password.
    """
    text = text.strip()
    if "@" in text:
        # First, and anywhere in the text: a password may contain any character.
        _refuse("a user or password cannot be given in it")
    if text.lower().startswith(_PULSAR_PREFIX):
        return _pulsar(text)
    match = _SCHEME.fullmatch(text)
    if match is None:
        _refuse("it does not begin with a store and ://")
    layout = _layout_of(match[1].lower())
    authority, path = _split(match[2])
    if not path:
        _refuse("the path of the ledgers is missing: BookKeeper's default is /ledgers")
    root = _path(path)
    if root == "/":
        _refuse("the path of the ledgers cannot be /: BookKeeper's default is /ledgers")
    return ServiceUri(_hosts(authority), (root,), layout, text, "")


def parse_pulsar(text: str) -> ServiceUri:
    """Parse the address of Pulsar's own metadata, as a broker's `metadataStoreUrl` has it.

    That is `zk:host:2181,host2:2181[/chroot]`, also with `metadata-store:` before it. Raises
    `ConfigError` as `parse` does.
    """
    text = text.strip()
    if "@" in text:
        _refuse("a user or password cannot be given in it", PULSAR_FORM)
    return _pulsar(text if text.lower().startswith(_PULSAR_PREFIX) else _PULSAR_PREFIX + text)


def _pulsar(text: str) -> ServiceUri:
    match = _PULSAR_STORE.fullmatch(text[len(_PULSAR_PREFIX) :])
    if match is None:
        _refuse("metadata-store: is not followed by the name of a store", PULSAR_FORM)
    store = match[1].lower()
    if store != "zk":
        _refuse(
            f"the metadata store {_quote_word(store)} is not ZooKeeper, and this auditor reads"
            " ZooKeeper only",
            PULSAR_FORM,
        )
    authority, path = _split(match[2].removeprefix("//"))
    chroot = _path(path).rstrip("/")
    roots = (chroot + DEFAULT_ROOT, DEFAULT_ROOT) if chroot else (DEFAULT_ROOT,)
    return ServiceUri(_hosts(authority), roots, None, text, chroot)


def _layout_of(scheme: str) -> str | None:
    """Return the layout hint of a scheme such as `zk+hierarchical`."""
    store, _, layout = scheme.partition("+")
    if store != "zk":
        _refuse(
            f"the metadata store {_quote_word(store)} is not ZooKeeper, and this auditor reads"
            " ZooKeeper only"
        )
    if layout == "ms":
        _refuse(
            "the layout ms keeps ledgers in another metadata store, which this auditor cannot read"
        )
    if layout == "legacyhierarchical":
        _refuse(
            "legacyhierarchical cannot be given in a URI: write zk+null, and the LAYOUT znode"
            " decides"
        )
    if scheme.endswith("+") or layout not in ("", *LAYOUT_SUFFIXES):
        _refuse(f"the layout {_quote_word(layout)} is not one of {', '.join(LAYOUT_SUFFIXES)}")
    return layout if layout not in ("", "null") else None


def _split(rest: str) -> tuple[str, str]:
    """Split what follows the scheme into hosts and path ("" for none)."""
    authority, slash, path = rest.partition("/")
    if "?" in rest or "#" in rest:
        _refuse("? and # have no meaning in it")
    return authority, slash + path


def _hosts(authority: str) -> tuple[str, ...]:
    return tuple(_host(part.strip()) for part in re.split("[;,]", authority))


def _host(text: str) -> str:
    if not text:
        _refuse("a host is missing")
    if text.startswith("["):
        name, bracket, port = text[1:].partition("]")
        if not bracket or (port and not port.startswith(":")) or not _is_ipv6(name):
            _refuse("the text in brackets is not an IPv6 address: write [2001:db8::1]:2181")
        return f"[{name}]:{_port(port)}"
    if text.count(":") > 1:
        _refuse(
            "a host has more than one colon: write an IPv6 address in brackets, [2001:db8::1]:2181"
        )
    name, colon, port = text.partition(":")
    if not _HOST_NAME.fullmatch(name):
        _refuse("a host is not a name or address")
    return f"{name}:{_port(colon + port)}"


def _port(text: str) -> int:
    """Return the port of `:port`, or DEFAULT_PORT for an empty text."""
    if not text:
        return DEFAULT_PORT
    if not _PORT.fullmatch(text, 1) or not 1 <= int(text[1:]) <= PORT_MAX:
        _refuse(f"a port is not a number from 1 to {PORT_MAX}")
    return int(text[1:])


def _is_ipv6(text: str) -> bool:
    try:
        ipaddress.IPv6Address(text)
    except ValueError:
        return False
    return True


def _path(text: str) -> str:
    """Return a ZooKeeper path without trailing slash, percent-decoded as Java does; "/" stays."""
    path = unquote(text)
    path = path.rstrip("/") or "/"
    parts = path.split("/")[1:]
    if path != "/" and any(part in ("", ".", "..") for part in parts):
        _refuse("the path has an empty, . or .. part")
    if " " in text or _NOT_IN_PATH.search(path):
        _refuse("the path has a character that ZooKeeper does not allow")
    return path


def _quote_word(word: str) -> str:
    """Return a word for an error message, quoted only if it is plainly a name."""
    return f"'{word}'" if _WORD.fullmatch(word) else "of that name"


def _refuse(reason: str, form: str = RIGHT_FORM) -> NoReturn:
    raise ConfigError(
        f"the metadata service URI cannot be used: {reason}. The right form is {form}"
    )
