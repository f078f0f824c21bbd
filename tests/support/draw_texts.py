"""Draw texts at random from the product and its documents, to see whether each is understood when
it is read once.

    .venv/bin/python tests/support/draw_texts.py [--count 60] [--seed 20261128] [PATH ...]

The texts are the docstrings, comments and error messages of `auditor/`, and the paragraphs of the
documents. With paths, draw only from these files and directories.
"""

from __future__ import annotations

import argparse
import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import NamedTuple

PROJECT = Path(__file__).parents[2]
PLACES = ("auditor", "docs", "README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md")
GENERATED = "generated"

COUNT = 60
SEED = 20261128

WORDS_MIN = 4
"""Shorter comments and messages are not drawn: there is nothing to misread."""


class Text(NamedTuple):
    """A text, and where it begins."""

    path: Path
    line: int
    words: str


def texts_of(path: Path) -> Iterator[Text]:
    """Yield the texts of a Python module or of a Markdown document, in their order."""
    source = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        found = list(_paragraphs(source))
    else:
        found = sorted([*_docstrings(source), *_comments(source), *_messages(source)])
    for line, words in found:
        if len(words.split()) >= WORDS_MIN:
            yield Text(path, line, words)


def _docstrings(source: str) -> Iterator[tuple[int, str]]:
    """Yield the docstrings of modules, classes, functions, constants and fields."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Expr(value=ast.Constant(value=str(words))):
                yield node.lineno, words


def _comments(source: str) -> Iterator[tuple[int, str]]:
    """Yield the comments. Lines of comment that follow one another are one text."""
    line, words = 0, list[str]()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            if words and token.start[0] != line + len(words):
                yield line, " ".join(words)
                words = []
            line = line if words else token.start[0]
            words.append(token.string.lstrip("# "))
    if words:
        yield line, " ".join(words)


def _messages(source: str) -> Iterator[tuple[int, str]]:
    """Yield the texts of exceptions that are raised, with `...` for values."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            for argument in node.exc.args:
                words = _words_of(argument)
                if words:
                    yield node.lineno, words


def _words_of(node: ast.expr) -> str:
    match node:
        case ast.Constant(value=str(words)):
            return words
        case ast.JoinedStr(values=parts):
            return "".join(_words_of(part) or "..." for part in parts)
        case ast.BinOp(left=left, right=right):
            return _words_of(left) + _words_of(right)
    return ""


def _paragraphs(source: str) -> Iterator[tuple[int, str]]:
    """Yield the paragraphs and list items of a document, without headings, tables and code."""
    line = 1
    for block in re.split(r"(\n\s*\n)", re.sub(r"(?ms)^```.*?^```", _blank, source)):
        words = block.strip()
        if words and not words.startswith(("#", "|", "<")):
            yield line + len(block[: len(block) - len(block.lstrip())].splitlines()), words
        line += block.count("\n")


def _blank(match: re.Match[str]) -> str:
    return "\n" * match.group().count("\n")


def draw(places: Sequence[Path], count: int, seed: int) -> list[Text]:
    """Return `count` different texts below `places`, in the order in which they were drawn."""
    files = sorted(
        {
            file
            for place in places
            for file in ([place] if place.is_file() else place.rglob("*"))
            if file.suffix in (".py", ".md") and GENERATED not in file.parts
        }
    )
    texts = [text for file in files for text in texts_of(file)]
    return Random(seed).sample(texts, min(count, len(texts)))


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--count", type=int, default=COUNT)
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("places", nargs="*", type=Path, metavar="PATH")
    options = parser.parse_args(arguments)
    places = options.places or [PROJECT / place for place in PLACES]
    for number, text in enumerate(draw(places, options.count, options.seed), 1):
        path = text.path.resolve()
        shown = path.relative_to(PROJECT) if path.is_relative_to(PROJECT) else path
        print(f"{number}. {shown}:{text.line}\n{text.words}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
