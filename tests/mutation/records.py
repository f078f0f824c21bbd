"""The record of each module between two runs: how each of its mutants ended, and the files on which
that rests.

A record is written as soon as all mutants of its module were tried. A run that was ended therefore
continues with the next module, and a module is not tried again while nothing that could change the
outcome has changed.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import json
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple


class Record(NamedTuple):
    """`terms`: a digest of how the module was tried; `rests_on`: a digest of each file, by its path
    from the root; empty if not every mutant was tried.

    `tried`: file, function, before, after, how it ended and the test that killed it.
    """

    terms: str = ""
    rests_on: Mapping[str, str] = {}
    tried: Sequence[Sequence[str]] = ()


def read_record(cache: Path, file: str) -> Record:
    """Return the record of a module; an empty one if it was never tried."""
    path = _path(cache, file)
    return Record(*json.loads(path.read_text())) if path.exists() else Record()


def write_record(cache: Path, file: str, record: Record) -> None:
    """Replace the record of a module in one step, or not at all."""
    write_whole(_path(cache, file), json.dumps(record, indent=0))


def write_whole(path: Path, text: str) -> None:
    """Write a file in one step or not at all, also if other processes write it."""
    part = path.with_suffix(f".{os.getpid()}")
    part.write_text(text)
    part.replace(path)


def is_fresh(record: Record, terms: str, root: Path) -> bool:
    """Return whether a trial would only repeat what the record says."""
    same = (digest_of(root / file) == said for file, said in record.rests_on.items())
    return bool(record.rests_on) and record.terms == terms and all(same)


def killers_of(record: Record) -> dict[str, str]:
    """Return what killed each mutant, by its identity; nothing if one of those with the same
    identity survived.
    """
    found: dict[str, str] = {}
    for *identity, _, by in record.tried:
        name = json.dumps(identity)
        found[name] = by if found.get(name, by) else ""
    return found


def digests(root: Path, files: Iterable[Path]) -> dict[str, str]:
    """Return the digest of each file, by its path from the root."""
    return {str(file.relative_to(root)): digest_of(file) for file in sorted(set(files))}


def files_used(root: Path) -> set[Path]:
    """Return the files below the root that this process may rest on.

    These are the modules it imported, the fixtures, and all files that are not Python. No test on
    trial reads the explanations of survivors.
    """
    modules = [getattr(one, "__file__", None) for one in list(sys.modules.values())]
    imported = {Path(one) for one in modules if one and one.startswith(f"{root}/")}
    others = {
        path
        for path in root.rglob("*")
        if path.is_file()
        and path.suffix not in (".py", ".pyc", ".md", ".svg")
        and path.name != "survivors.toml"
    }
    return imported | others | set(root.glob("tests/**/conftest.py"))


@functools.cache
def digest_of(file: Path) -> str:
    """Return the digest of a file; "" if it no longer exists.

    Python skips comments, docstrings and line breaks. They change no trial and do not count here
    either.
    """
    if not file.is_file():
        return ""
    said = file.read_bytes()
    if file.suffix == ".py":
        said = ast.dump(_Skipping().visit(ast.parse(said))).encode()
    return hashlib.sha256(said).hexdigest()


class _Skipping(ast.NodeTransformer):
    """Drops strings that are statements: docstrings, also those of names."""

    def visit_Expr(self, node: ast.Expr) -> ast.Expr | None:
        constant = isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        return None if constant else node


def _path(cache: Path, file: str) -> Path:
    return cache / f"{file.replace('/', '.')}.json"
