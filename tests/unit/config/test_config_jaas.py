"""JAAS files: what Java's own parser accepts, and the errors for anything else."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from auditor.config.jaas import FLAGS, MODULES_MAX, LoginModule, parse_jaas
from auditor.errors import ConfigError

DIGEST = "org.apache.zookeeper.server.auth.DigestLoginModule"
KRB5 = "com.sun.security.auth.module.Krb5LoginModule"
CANARY = "canary"


def parse(text: str) -> dict[str, list[tuple[str, str, dict[str, str]]]]:
    return {
        name: [(one.class_name, one.flag, dict(one.options)) for one in modules]
        for name, modules in parse_jaas(text, "a.jaas").items()
    }


def test_a_file_of_several_sections_and_modules() -> None:
    """Comments of both sorts, quotes of both sorts, words without quotes, a flag in capitals."""
    text = f"""
// the bookies
Bookie {{ {DIGEST} required user_a="b"; }};
/* and
   clients */ BookKeeper {{
    {DIGEST} Required  // trailing
        username="me" password='it''s';
    {KRB5} OPTIONAL useKeyTab=true keyTab = "/etc/a.keytab" refreshKrb5Config=false;
}};
"Empty one" {{ }};
"""
    with pytest.raises(ConfigError, match="line 7"):  # Two quotes in a row are two texts.
        parse(text)
    assert parse(text.replace("'it''s'", "'it'")) == {
        "Bookie": [(DIGEST, "required", {"user_a": "b"})],
        "BookKeeper": [
            (DIGEST, "required", {"username": "me", "password": "it"}),
            (
                KRB5,
                "optional",
                {"useKeyTab": "true", "keyTab": "/etc/a.keytab", "refreshKrb5Config": "false"},
            ),
        ],
        "Empty one": [],
    }


@pytest.mark.parametrize("text", ["", " \n\t", "// nothing", "/* nothing\n */", "//", "/**/"])
def test_a_file_may_be_empty(text: str) -> None:
    """Any section is then missing, as in Java."""
    assert parse(text) == {}


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        (r'"a\"b"', 'a"b'),
        (r'"a\\b"', "a\\b"),
        (r'"a\tb"', "a\tb"),
        (r'"a\101b"', "aAb"),
        (r'"a\4012"', "a 12"),
        (r'"a\8"', "a8"),
        (r'"a\qb"', "aqb"),
        ('"a//b/*c"', "a//b/*c"),
        ('"{};="', "{};="),
        ('"pässwörd €"', "pässwörd €"),
        ("wörd-1_$*.x", "wörd-1_$*.x"),
        ('"it\'s"', "it's"),
        ('""', ""),
    ],
)
def test_a_value_is_what_java_takes_it_for(written: str, meant: str) -> None:
    """By the rules of its StreamTokenizer."""
    assert parse(f"A {{ M required o={written}; }};") == {"A": [("M", "required", {"o": meant})]}


def test_a_later_option_replaces_an_earlier_one() -> None:
    """Java keeps options in a map. Two sections of one name are an error."""
    assert parse("A { M required o=a o=b; };") == {"A": [("M", "required", {"o": "b"})]}
    with pytest.raises(ConfigError, match="line 2 has a section with the name of an earlier one"):
        parse('A { };\n"A" { };')


@pytest.mark.parametrize(
    ("text", "line", "what"),
    [
        ("A", 1, 'the end of the file in the place of the "{"'),
        ("A {", 1, "the end of the file in the place of the class"),
        ("A { M", 1, "the end of the file in the place of the flag"),
        ("A { M required", 1, "the end of the file in the place of an option"),
        ("A { M required o", 1, 'the end of the file in the place of the "="'),
        ("A { M required o=", 1, "the end of the file in the place of the value"),
        ("A { M required; }", 1, 'the end of the file in the place of the ";" behind a section'),
        ("A { M required; };\n}", 2, "something else in the place of the name of a section"),
        (f"A {{ M {CANARY}; }};", 1, "in the place of optional, required, requisite, sufficient"),
        (f"A {{\n M required password=a\n {CANARY}; }};", 3, 'in the place of the "="'),
        (f'A {{ M required password="{CANARY}', 1, "a quote or comment without an end"),
        (f'A {{ M required password="{CANARY}\n"; }};', 1, "a quote or comment without an end"),
        (f"A {{ M required password=/{CANARY}; }};", 1, "a character not allowed here"),
        ("\n\n/* open", 3, "a quote or comment without an end"),
        (f'A {{ "{CANARY}" required; }};', 1, "in the place of the class of a login module"),
        ("A { M required {", 1, "in the place of an option"),
    ],
)
def test_an_error_names_the_line_and_none_of_its_text(text: str, line: int, what: str) -> None:
    """The text may be a password."""
    with pytest.raises(ConfigError) as raised:
        parse(text)
    said = str(raised.value)
    assert said.startswith(f"a.jaas is not a JAAS file: line {line} has ")
    assert what in said
    assert CANARY not in said


def test_the_values_of_options_are_not_shown() -> None:
    """A login module may be printed in a log."""
    assert CANARY not in repr(LoginModule("M", "required", {"password": CANARY}))


def test_the_number_of_modules_is_bounded() -> None:
    """A file has a handful."""
    module = "M required; "
    assert len(parse(f"A {{ {module * MODULES_MAX} }};")["A"]) == MODULES_MAX
    with pytest.raises(ConfigError, match=f"login module {MODULES_MAX + 1}"):
        parse(f"A {{ {module * (MODULES_MAX + 1)} }};")


def test_a_hostile_file_costs_time_linear_in_its_length() -> None:
    """Quotes, escapes and comments without an end are scanned only once."""
    for piece in ("/*", '"', "\\", '"\\', "//", "{", "a=", "/* */"):
        begun = time.process_time()
        with pytest.raises(ConfigError):
            parse(f"A {{ M required o={piece * 20_000}")
        assert time.process_time() - begun < 5, piece


WORDS = st.text("aZ0_$-.*ü", min_size=1, max_size=4)
VALUES = st.text("ab \\\"'{};=/*\t1ü€", max_size=6)
OPTIONS = st.dictionaries(WORDS, VALUES, max_size=3)
MODULES = st.lists(st.tuples(WORDS, st.sampled_from(sorted(FLAGS)), OPTIONS), max_size=2)
SPACES = st.sampled_from([" ", "\n", "\t ", " // x\n", "/* } ; */", "\r\n"])


@given(st.dictionaries(VALUES, MODULES, max_size=3), st.lists(SPACES, min_size=1, max_size=5))
def test_what_is_written_is_read(sections: dict[str, list[object]], spaces: list[str]) -> None:
    """The white space and comments between the words do not matter."""
    tokens: list[str] = []
    for name, modules in sections.items():
        tokens += [quote(name), "{"]
        for class_name, flag, options in modules:  # type: ignore[attr-defined]
            tokens += [class_name, flag.upper()]
            for option, value in options.items():
                tokens += [option, "=", quote(value)]
            tokens.append(";")
        tokens += ["}", ";"]
    text = "".join(token + spaces[at % len(spaces)] for at, token in enumerate(tokens))
    assert parse(text) == sections


def quote(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
