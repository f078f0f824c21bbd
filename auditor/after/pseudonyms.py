"""Replace the names in what a run stored, to show it to strangers who can still judge it again.

A name gets the same pseudonym everywhere. The tables below say, field by field, what holds a name
and what holds a sentence: a bookie's name may also be the name of a status.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

BOOKIES: Final = frozenset(
    {"bookie_id", "ensemble", "missing_replicas", "writable", "readonly", "maintenance", "auditor",
     "holder"}
)  # fmt: skip
"""Fields whose values are bookie ids."""
TEXTS: Final = frozenset({"detail", "greeting_detail", "problem", "reason", "witness"})
"""Fields with sentences."""
FIXED: Final[Mapping[str, Any]] = {
    "metadata_service_uri": "zk://zookeeper:2181/ledgers",
    "hosts": ["zookeeper:2181"],
    "root": "/ledgers",
    "instance_id": "instance",
    "areas": [],
    "cookie_instance_id": None,
    "cookie_directories": None,
}
"""Fields that affect no verdict, and the values that replace theirs."""
_BY_BOOKIE = frozenset({"locations", "unregistered_since_ms", "missing_on", "cookie_czxids"})
"""Fields that are objects keyed by bookie."""
PULSARS_WORDS: Final = frozenset({b"pulsar", b"managed-ledger", b"schema", b"compacted-topic"})
"""Values of custom metadata that are the same in every ledger of Pulsar."""
_PORT = re.compile(r":\d{1,5}$")
_DEFAULT_SEGMENT = re.compile(r"default-(?:region|rack)|")
_ADDRESS = re.compile(
    r"(?<![\w.])(?:\d{1,3}(?:\.\d{1,3}){3}|[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)*\.[A-Za-z][\w-]+)"
    r"(?![\w])|(?<![\w:])(?:[0-9A-Fa-f]{0,4}:){2,7}[0-9A-Fa-f]{1,4}(?![\w:])"
    r"|(?<![\w.:-])[A-Za-z0-9_][\w-]*(?=:\d{2,5}(?!\w))"
)
"""An IPv4 or IPv6 address, a name with a dot whose last part begins with a letter, or a name before
a port."""


def bookie_ids_in(value: Any, where: str = "") -> Iterator[str]:
    """Yield the bookie ids that a row of evidence, or run.json, names."""
    if isinstance(value, Mapping):
        if where in _BY_BOOKIE:
            yield from value
            return
        for key, item in value.items():
            yield from bookie_ids_in(item, key)
    elif isinstance(value, list):
        for item in value:
            yield from bookie_ids_in(item, where)
    elif where in BOOKIES and value:
        yield value


@dataclass(slots=True)
class Pseudonyms:
    """The pseudonyms of one run, in the order in which names were found."""

    known: dict[str, str] = field(default_factory=dict)
    words: dict[str, str] = field(default_factory=dict)
    """Pseudonyms of values of custom metadata without a slash.

    Such a value may be any word of a sentence, and is not replaced in sentences."""
    _pattern: re.Pattern[str] | None = None

    def add_bookies(self, ids: Iterable[str]) -> None:
        """Give each bookie, and the host in its id, a pseudonym. A port stays.

        Pseudonyms sort as the ids do: a judgement that depends on their order stays the same.
        """
        for number, bookie in enumerate(sorted(set(ids)), 1):
            port = _PORT.search(bookie)
            self.known[bookie] = f"bookie-{number:04}{port[0] if port else ''}"
            if port:
                self.known.setdefault(bookie[: port.start()], f"bookie-{number:04}")
        self._pattern = None

    def add_names_of(self, value: Any, where: str = "") -> None:
        """Give a pseudonym to each name that is a value of its own in a row: hosts, custom
        metadata.
        """
        if isinstance(value, Mapping):
            for key, item in value.items():
                self.add_names_of(item, key)
        elif isinstance(value, list):
            for item in value:
                if where == "custom_metadata":
                    self._of_custom(item)
                else:
                    self.add_names_of(item, where)
        elif where == "host" and value:
            self.of_name(value, "host")

    def of_name(self, name: str, what: str) -> str:
        """Return the pseudonym of a name. A new name gets the next number: `what-0001`."""
        if name not in self.known:
            self.known[name] = f"{what}-{len(self.known) + 1:04}"
            self._pattern = None
        return self.known[name]

    def of_text(self, text: str) -> str:
        """Return a text with each known name replaced, and everything that looks like an
        address.
        """
        if self._pattern is None:
            # If one name begins with another, replace the longer one first.
            names = sorted(filter(None, self.known), reverse=True)
            anything = "|".join(map(re.escape, names)) or r"(?!)"
            self._pattern = re.compile(
                rf"(?<![\w.-])(?:{anything})(?![\w-]|\.\w)|{_ADDRESS.pattern}"
            )
        return self._pattern.sub(self._of_match, text)

    def of_row(self, value: Any, where: str = "") -> Any:
        """Return a row of evidence, or run.json, with its names replaced, field by field."""
        if where in FIXED:
            return FIXED[where]
        if isinstance(value, Mapping):
            if where in _BY_BOOKIE:
                return {self._of_bookie(k): self._of_location(v) for k, v in value.items()}
            return {key: self.of_row(item, key) for key, item in value.items()}
        if isinstance(value, list):
            if where == "custom_metadata":
                return [self._of_custom(item) for item in value]
            return [self.of_row(item, where) for item in value]
        return self._of_text_field(value, where) if isinstance(value, str) and value else value

    def _of_text_field(self, value: str, where: str) -> str:
        if where in BOOKIES:
            return self._of_bookie(value)
        if where == "host":
            return self.of_name(value, "host")
        if where == "path":  # the name of a file of a bookie is a number
            directory, _, name = value.rpartition("/")
            return f"/{self.of_name(directory, 'directory')}/{name}"
        return self.of_text(value) if where in TEXTS else value

    def _of_bookie(self, bookie: str) -> str:
        return self.of_name(bookie, "bookie")

    def _of_location(self, location: Any) -> Any:
        """Return a location with as many parts; equal parts stay equal. A time stays."""
        if not isinstance(location, str):
            return location
        return "/".join(
            part if _DEFAULT_SEGMENT.fullmatch(part) else self.of_name(part, "location")
            for part in location.split("/")
        )

    def _of_custom(self, item: Mapping[str, Any]) -> dict[str, Any]:
        value = item["value"]
        if not value or value in PULSARS_WORDS:
            return dict(item)
        text = value.decode("utf-8", "replace")
        if "/" in text:  # the name of a topic, which sentences name too
            return {**item, "value": self.of_name(text, "name").encode()}
        word = self.words.setdefault(text, f"word-{len(self.words) + 1:04}")
        return {**item, "value": word.encode()}

    def _of_match(self, match: re.Match[str]) -> str:
        found = match[0]
        if found not in self.known:  # an address, which the pattern finds anyway
            self.known[found] = f"address-{len(self.known) + 1:04}"
        return self.known[found]
