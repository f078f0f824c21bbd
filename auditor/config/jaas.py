"""Parse JAAS configuration files, in which Java's clients keep their logins.

The grammar is that of Java's ConfigFile (sun.security.provider):

    SECTION { MODULE_CLASS FLAG OPTION=VALUE ...; ... };

An error names the line and what was expected there. It quotes nothing from the file, which may have
a password. The login of a BookKeeper client is taken from one section of the file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from auditor.config.operator_files import read_small_file
from auditor.errors import ConfigError

MODULES_MAX = 1_000
"""A file may have at most this many login modules."""
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

    `repr` omits the options' values: one may be a password.
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

    `name` is the file, for messages. Of equal options of a module, the last one counts. Raises
    ConfigError for text that is not such a file, or has a section twice. Time and memory are linear
    in the text.
    """
    return _Parser(text, name).parse_sections()


class _Parser:
    """Takes the tokens of a file one by one. `_next` is the first one that is not taken yet."""

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
    """Return the value of a quoted text, by the rules of Java's StreamTokenizer."""

    def plain(match: re.Match[str]) -> str:
        escape = match[1]
        return chr(int(escape, 8)) if escape[0] in "01234567" else _ESCAPED.get(escape, escape)

    return _ESCAPE.sub(plain, text)


JAAS_BYTES_MAX = 2**16
"""Largest JAAS file read, in bytes."""
DIGEST, KERBEROS = "DigestLoginModule", "Krb5LoginModule"
"""The login modules that are supported, in any package."""
PASSWORD_KEY = "bookie_sasl_password"  # noqa: S105 - the key, not the secret


def read_login(path: str, section: str) -> dict[str, str]:
    """Return our settings, by key, for the login in a section.

    They do not have the password: the value of PASSWORD_KEY only says that there is one. Raises
    ConfigError if the file cannot be read, or the login is of another kind.
    """
    module, where = _find_module(path, section)
    if module.short_name == DIGEST:
        _option(module, "password", where)
        username = _option(module, "username", where)
        return {
            "bookie_sasl": "digest-md5",
            "bookie_sasl_username": username,
            PASSWORD_KEY: "in the JAAS file",
        }
    return {"bookie_sasl": "gssapi", **_kerberos_settings(module, where)}


def read_password(path: str, section: str) -> str:
    """Return the password of the login in a section. Raises ConfigError without the password."""
    module, where = _find_module(path, section)
    if module.short_name != DIGEST:
        raise ConfigError(f"{where} has no {DIGEST}, and so no password")
    return _option(module, "password", where)


def _find_module(path: str, section: str) -> tuple[LoginModule, str]:
    """Return the only supported login module of a section, and a name of the section for
    messages.
    """
    content = read_small_file(Path(path), JAAS_BYTES_MAX, "the JAAS file")
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ConfigError(f"the JAAS file {path} is not UTF-8 text (byte {error.start})") from None
    sections = parse_jaas(text, path)
    if section not in sections:
        raise ConfigError(
            f"the JAAS file {path} has no section {section!a}: it has"
            f" {', '.join(ascii(name) for name in sections) or 'none'}; name one with"
            " --bookie-jaas-section"
        )
    where = f"the section {section!a} of {path}"
    known = [module for module in sections[section] if module.short_name in (DIGEST, KERBEROS)]
    if len(known) != 1:
        raise ConfigError(
            f"{where} has {len(known)} login modules of the classes {DIGEST} and {KERBEROS}, and"
            " exactly one is needed"
        )
    return known[0], where


def _kerberos_settings(module: LoginModule, where: str) -> dict[str, str]:
    settings = {}
    if _is_true(module, "useKeyTab"):
        settings["bookie_sasl_keytab"] = _option(module, "keyTab", where)
    elif not _is_true(module, "useTicketCache"):
        raise ConfigError(
            f"{where} has neither useKeyTab=true nor useTicketCache=true, so its login asks a"
            " person for a password: give --bookie-sasl-keytab FILE, or use a ticket cache"
        )
    elif "ticketCache" in module.options:
        settings["bookie_sasl_ticket_cache"] = _option(module, "ticketCache", where)
    if "principal" in module.options:
        settings["bookie_sasl_principal"] = _option(module, "principal", where)
    return settings


def _is_true(module: LoginModule, option: str) -> bool:
    return module.options.get(option, "").lower() == "true"


def _option(module: LoginModule, option: str, where: str) -> str:
    """Return an option that must be there. Raises ConfigError without its value."""
    value = module.options.get(option, "")
    if not value:
        raise ConfigError(f"{where} has no option {option} for its {module.short_name}")
    if "${" in value:
        raise ConfigError(
            f"{where}: the option {option} refers to a property of the JVM (${{...}}), which is not"
            " known here: write its value"
        )
    return value
