"""Parse JAAS configuration files, in which Java's clients keep their logins. Pure.

The grammar is that of Java's ConfigFile (sun.security.provider):

    SECTION { MODULE_CLASS FLAG OPTION=VALUE ...; ... };

An error names the line and what was expected there. It quotes nothing from the file, which may have
a password.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from auditor.errors import ConfigError

MODULES_MAX = 1_000
"""Login modules accepted in one file."""
FLAGS = frozenset({"required", "requisite", "sufficient", "optional"})

_TOKEN = re.compile(
    r"""(?P<space>[\0- ]+|//[^\r\n]*|/\*.*?\*/)
    |(?P<punctuation>[{};=])
    |(?P<word>[A-Za-z0-9_$*.\-\xa0-\U0010ffff]+)
    |"(?P<double>(?:[^"\\\r\n]|\\[^\r\n])*)"
    |'(?P<single>(?:[^'\\\r\n]|\\[^\r\n])*)'""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPE = re.compile(r"\\([0-3][0-7]{0,2}|[4-7][0-7]?|.)", re.DOTALL)
_ESCAPED = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


@dataclass(frozen=True, slots=True)
class LoginModule:
    """One login module of a section: its class, its flag in lower case, and its options.

    `repr` leaves the values of the options out: one may be a password.
    """

    class_name: str
    flag: str
    options: Mapping[str, str] = field(repr=False)

    @property
    def short_name(self) -> str:
        """The name of the class without its package."""
        return self.class_name.rpartition(".")[2]


@dataclass(frozen=True, slots=True)
class _Token:
    """`kind` is word, text (quoted), the punctuation itself, or "" at the end of the file."""

    kind: str
    line: int
    value: str = field(repr=False)


def parse_jaas(text: str, name: str) -> dict[str, tuple[LoginModule, ...]]:
    """Return the login modules of each section of a JAAS file, in their order.

    `name` is the file, for messages. A later option of a module replaces an earlier one of the same
    name. Raises ConfigError for text that is not such a file, or has a section twice. Time and
    memory are linear in the text.
    """
    return _Parser(text, name).parse_sections()


class _Parser:
    """Takes the tokens of a file one by one. `_next` is the one that is not taken yet."""

    def __init__(self, text: str, name: str) -> None:
        self._name = name
        self._tokens = self._split(text)
        self._next = next(self._tokens)
        self._modules = 0

    def _split(self, text: str) -> Iterator[_Token]:
        at, line = 0, 1
        while at < len(text):
            match = _TOKEN.match(text, at)
            if match is None:
                raise self._error(line, "a character not allowed here, or a quote or comment"
                                        " without an end")  # fmt: skip
            kind, value = match.lastgroup or "", match[match.lastgroup or 0]
            if kind in ("double", "single"):
                yield _Token("text", line, _unescape(value))
            elif kind != "space":
                yield _Token(value if kind == "punctuation" else kind, line, value)
            line += match[0].count("\n")
            at = match.end()
        yield _Token("", line, "")

    def _error(self, line: int, what: str) -> ConfigError:
        return ConfigError(f"{self._name} is not a JAAS file: line {line} has {what}")

    def _take(self, expected: str, *kinds: str) -> str:
        """Return the value of the next token. Raises ConfigError if it is of no such kind."""
        token = self._next
        if token.kind not in kinds:
            where = "the end of the file" if not token.kind else "something else"
            raise self._error(token.line, f"{where} in the place of {expected}")
        if token.kind:
            self._next = next(self._tokens)
        return token.value

    def parse_sections(self) -> dict[str, tuple[LoginModule, ...]]:
        sections: dict[str, tuple[LoginModule, ...]] = {}
        while self._next.kind:
            line = self._next.line
            section = self._take("the name of a section", "word", "text")
            if section in sections:
                raise self._error(line, "a section with the name of an earlier one")
            self._take('the "{" of a section', "{")
            modules = []
            while self._next.kind != "}":
                modules.append(self._parse_module())
            self._take('the "}" of a section', "}")
            self._take('the ";" behind a section', ";")
            sections[section] = tuple(modules)
        return sections

    def _parse_module(self) -> LoginModule:
        line = self._next.line
        self._modules += 1
        if self._modules > MODULES_MAX:
            raise self._error(line, f"login module {self._modules}, and {MODULES_MAX} are accepted")
        class_name = self._take("the class of a login module", "word")
        flag_line = self._next.line
        flag = self._take("the flag of a login module", "word").lower()
        if flag not in FLAGS:
            raise self._error(
                flag_line, f"something else in the place of {', '.join(sorted(FLAGS))}"
            )
        options: dict[str, str] = {}
        while self._next.kind != ";":
            option = self._take('an option, or the ";" behind a login module', "word")
            self._take('the "=" of an option', "=")
            options[option] = self._take("the value of an option", "word", "text")
        self._take('the ";" behind a login module', ";")
        return LoginModule(class_name, flag, options)


def _unescape(text: str) -> str:
    """Return what a quoted text says, by the rules of Java's StreamTokenizer."""

    def plain(match: re.Match[str]) -> str:
        escape = match[1]
        return chr(int(escape, 8)) if escape[0] in "01234567" else _ESCAPED.get(escape, escape)

    return _ESCAPE.sub(plain, text)
