"""The part of the rules for names and sentences that a machine can check, in the product and in
tests.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.draw_texts import draw, texts_of

PROJECT = Path(__file__).resolve().parents[2]
FILES = sorted(
    file for file in (PROJECT / "auditor").rglob("*.py") if "generated" not in file.parts
)
TESTS = sorted((PROJECT / "tests").rglob("*.py"))

_NOUNS_FIRST = """
A All An As At Each Every How In It No Once One Raises Some The This What When Where Whether Which
Who Whom Why
"""
NOT_IMPERATIVE = frozenset(_NOUNS_FIRST.split())
"""First words of a docstring that says what something is, instead of what a call does."""

VAGUE_NAMES = frozenset({"told"})
"""Names that had many meanings: a value is named by what it holds."""

VAGUE_WORDS_OF_TESTS = frozenset({"told", "untold", "whence"})
"""Words that no docstring, comment or name of a test uses: it uses the field's words."""

VAGUE_WORDS = ("whence", "gone on with", "goes on with", "cut down")
"""Words that have to be read twice."""


def functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def is_property(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return any("property" in ast.unparse(one) for one in function.decorator_list)


def names_of(tree: ast.AST) -> Iterator[str]:
    """Yield every name that the code itself gives: variables, fields, parameters, functions."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name


def docstrings_and_comments(source: str) -> Iterator[str]:
    """Yield the text that explains code, constants included: a string that is a statement."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            yield str(node.value.value)
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.string


def vague_words(source: str) -> list[str]:
    """Return the vague words in names, docstrings and comments of a module of tests, sorted."""
    texts = [*names_of(ast.parse(source)), *docstrings_and_comments(source)]
    words = {word.lower() for text in texts for word in re.findall(r"[A-Za-z]+", text)}
    return sorted(words & VAGUE_WORDS_OF_TESTS)


def not_imperative(source: str) -> list[str]:
    """Return the functions of a module whose docstring does not begin with a verb."""
    found = []
    for function in functions(ast.parse(source)):
        first, _, _ = (ast.get_docstring(function) or "Return").partition(" ")
        is_word = first.rstrip(".,:;").isalpha() and first[0].isupper()
        if not is_property(function) and (not is_word or first in NOT_IMPERATIVE):
            found.append(f"{function.name}: {first}")
    return found


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(PROJECT)))
def test_a_docstring_says_first_what_a_call_returns_or_does(file: Path) -> None:
    """In the imperative (PEP 257). A property reads like a field, so its docstring is a noun."""
    assert [] == not_imperative(file.read_text())


@pytest.mark.parametrize(
    ("docstring", "found"),
    [
        ("Return the age.", []),
        ("The age in ms.", ["age: The"]),
        ("Whether it is old.", ["age: Whether"]),
        ("`x` as text.", ["age: `x`"]),
    ],
)
def test_a_docstring_that_begins_with_a_noun_is_found(docstring: str, found: list[str]) -> None:
    """The test above can fail, and leaves properties alone."""
    source = f'def age():\n    """{docstring}"""\n'
    assert found == not_imperative(source)
    assert [] == not_imperative(f"@property\n{source}")


def test_no_name_has_many_meanings() -> None:
    """Names that were used for anything are used for nothing."""
    found = {
        f"{file.relative_to(PROJECT)}: {name}"
        for file in FILES
        for name in names_of(ast.parse(file.read_text()))
        if name.strip("_").lower() in VAGUE_NAMES
    }
    assert set() == found


def test_words_that_have_to_be_read_twice_are_not_used() -> None:
    """Neither in docstrings and comments nor in messages."""
    found = {
        f"{file.relative_to(PROJECT)}: {words}"
        for file in FILES
        for words in VAGUE_WORDS
        if words in file.read_text().lower()
    }
    assert set() == found


def test_tests_use_no_vague_word() -> None:
    """Neither their names nor their docstrings and comments, nor those of what tests share."""
    found = {
        str(file.relative_to(PROJECT)): words
        for file in TESTS
        if any(word in file.read_text().lower() for word in VAGUE_WORDS_OF_TESTS)
        and (words := vague_words(file.read_text()))
    }
    assert {} == found


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("def test_a_loss_is_told(): ...", ["told"]),
        ("def shown():\n    '''Return what was\n    told.'''", ["told"]),
        ("LIMIT = 3\n'''Whence it comes.'''", ["whence"]),
        ("told = 3  # told twice", ["told"]),
        ("TOLD_MAX = 3", ["told"]),
        ("path = home / 'told'", []),
        ("def shown():\n    '''Return what was reported.'''  # to an operator", []),
    ],
)
def test_a_vague_word_of_a_test_is_found(source: str, found: list[str]) -> None:
    """The test above can fail. A string that is a value, such as a path, may have any word."""
    assert found == vague_words(source)


def test_texts_are_drawn_again_by_the_same_seed(tmp_path: Path) -> None:
    """Docstrings, comments, messages and paragraphs, each with its line."""
    (tmp_path / "code.py").write_text(
        '"""The docstring of a module."""\n'
        "LIMIT = 3\n"
        '"""The docstring of a constant."""\n'
        "# A comment that goes\n"
        "# over two lines.\n"
        'raise ValueError(f"is not a number: {LIMIT} words")\n'
    )
    (tmp_path / "page.md").write_text(
        "# A heading of five words\n\nA paragraph of five words.\n\n"
        "```sh\nan example of five words\n```\n\nAnother paragraph of five words.\n"
    )
    texts = {
        ("code.py", 1, "The docstring of a module."),
        ("code.py", 3, "The docstring of a constant."),
        ("code.py", 4, "A comment that goes over two lines."),
        ("code.py", 6, "is not a number: ... words"),
        ("page.md", 3, "A paragraph of five words."),
        ("page.md", 9, "Another paragraph of five words."),
    }
    drawn = draw([tmp_path], 60, 1)
    assert texts == {(text.path.name, text.line, text.words) for text in drawn}
    assert drawn == draw([tmp_path], 60, 1) != draw([tmp_path], 60, 2)


def test_short_texts_are_not_drawn(tmp_path: Path) -> None:
    """There is nothing to misread in a word or two."""
    file = tmp_path / "code.py"
    file.write_text('"""One word."""\n# noqa: S105\n')
    assert [] == list(texts_of(file))
