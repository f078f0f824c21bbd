"""The mutants of a module: one small change each, made by mutmut's operators, with an identity that
survives edits.

A mutant never touches a file. It is the changed source of one function; `planting.planted` swaps
the code of the function for it, in this process.

Two sorts are left out, because no test should be written for them. One is text for people: strings
and f-strings with a blank, messages of exceptions and assertions. The other is assertions, zip's
`strict` among them: they state what must hold and never fail.
"""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Iterable, Iterator
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any

import libcst as cst
from libcst.metadata import MetadataWrapper
from mutmut.mutation import file_mutation
from mutmut.mutation.mutators import mutation_operators, operator_arg_removal, operator_string
from mutmut.mutation.pragma_handling import IgnoredCode
from planting import Mutant

DECIDING_WITNESSES = ("owner",)
"""Modules of `witness` that decide something. The others only write sentences and commands; their
tests compare whole texts.
"""


class _Visitor(file_mutation.MutationVisitor):
    """Collects changes. mutmut leaves out decorated functions because it decorates them itself;
    here only their code is swapped.
    """

    def _skip_node_and_children(self, node: cst.CSTNode) -> bool:
        if isinstance(node, cst.Raise | cst.Assert) or _is_strict(node):
            return True
        if isinstance(node, cst.FormattedString) and _is_sentence(node):
            return True
        if isinstance(node, cst.FunctionDef) and node.decorators:
            return False
        return super()._skip_node_and_children(node)


def _is_strict(node: cst.CSTNode) -> bool:
    """Return whether this is zip's `strict`, which states what must hold, like an assertion."""
    return isinstance(node, cst.Arg) and node.keyword is not None and node.keyword.value == "strict"


def _is_sentence(node: cst.CSTNode) -> bool:
    """Return whether a string is for people: it has a blank, which a key or a name of the wire does
    not have.
    """
    if isinstance(node, cst.SimpleString):
        return " " in node.value
    if isinstance(node, cst.FormattedString):
        return any(
            isinstance(part, cst.FormattedStringText) and " " in part.value for part in node.parts
        )
    return isinstance(node, cst.ConcatenatedString)


def _string(node: cst.BaseString) -> Iterator[cst.BaseString]:
    """Return one other string instead of mutmut's three: a test that notices this one also notices
    upper and lower case.
    """
    if not _is_sentence(node):
        yield from list(operator_string(node))[:1]


def _argument(node: cst.Call) -> Iterator[cst.Call]:
    """Yield the call with None for each argument, and without it; nothing for sentences."""
    for changed in operator_arg_removal(node):
        kept = {id(one) for one in changed.args}
        if not any(
            _is_sentence(one.value) or _is_strict(one) for one in node.args if id(one) not in kept
        ):
            yield changed


_OPERATORS = [
    (kind, {operator_string: _string, operator_arg_removal: _argument}.get(operator, operator))
    for kind, operator in mutation_operators
]


def mutants_of(file: str, text: str) -> list[Mutant]:
    """Return all mutants of one module, in the order of its text. Code that runs at import has
    none.
    """
    wrapper = MetadataWrapper(cst.parse_module(text))
    visitor = _Visitor(_OPERATORS, IgnoredCode(set(), set(), set()))
    module = wrapper.visit(visitor)
    names = dict(_functions(module.body, ""))
    found: list[Mutant] = []
    originals: dict[str, str] = {}
    for mutation in visitor.mutations:
        function = mutation.contained_by_top_level_function
        if not isinstance(function, cst.FunctionDef) or function not in names:
            continue
        name = names[function]
        bare = function.with_changes(decorators=[], leading_lines=[])
        before = originals.setdefault(name, _text(module, bare))
        after = _text(
            module, file_mutation.deep_replace(bare, mutation.original_node, mutation.mutated_node)
        )
        if after != before and _is_code(after):
            found.append(Mutant(file, name, *_difference(before, after), after))
    return found


def _is_code(text: str) -> bool:
    """Return whether Python reads it: mutmut drops brackets together with what they hold."""
    try:
        ast.parse(text)
    except SyntaxError:
        return False
    return True


def _functions(body: Iterable[Any], prefix: str) -> Iterator[tuple[cst.FunctionDef, str]]:
    for one in body:
        if isinstance(one, cst.FunctionDef):
            yield one, prefix + one.name.value
        elif isinstance(one, cst.ClassDef):
            yield from _functions(one.body.body, f"{prefix}{one.name.value}.")


def _text(module: cst.Module, node: Any) -> str:
    return textwrap.dedent(module.code_for_node(node))


def _difference(before: str, after: str) -> tuple[str, str]:
    """Return the lines that differ, without their indentation."""
    old, new = before.splitlines(), after.splitlines()
    changed = [
        one
        for one in SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
        if one[0] != "equal"
    ]
    return (
        "\n".join(line.strip() for _, low, high, _, _ in changed for line in old[low:high]),
        "\n".join(line.strip() for _, _, _, low, high in changed for line in new[low:high]),
    )


def is_wording(path: Path) -> bool:
    """Return whether a module only makes sentences."""
    return path.match("witness/*.py") and path.stem not in DECIDING_WITNESSES
