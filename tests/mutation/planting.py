"""Plant a mutant: swap the code of one function in the running process."""

from __future__ import annotations

import ast
import importlib
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from types import FunctionType
from typing import Any

Identity = tuple[str, str, str, str]
"""File, function, the changed lines before and after. It has no line number, which an edit
elsewhere would shift.
"""


@dataclass(frozen=True)
class Mutant:
    """A mutant. `function` is the `co_qualname`; `source` is the changed function, without
    decorators and indentation.
    """

    file: str
    function: str
    before: str
    after: str
    source: str

    @property
    def identity(self) -> Identity:
        return self.file, self.function, self.before, self.after


def function_of(file: str, name: str) -> FunctionType | None:
    """Return the function that the running program calls by this name; None if it is not found."""
    module = importlib.import_module(file.removesuffix(".py").replace("/", "."))
    found: Any = module
    for part in name.split("."):
        found = vars(found).get(part)
        for inner in ("fget", "__func__", "func", "__wrapped__"):
            found = (
                getattr(found, inner, found)
                if not isinstance(found, FunctionType | type)
                else found
            )
        found = (
            inspect.unwrap(found) if isinstance(found, FunctionType) else found
        )  # for example, what contextmanager wraps
    return found if isinstance(found, FunctionType) else None


def planted(mutant: Mutant) -> Callable[[], None] | None:
    """Return a context manager that swaps in the mutant's code; None if that is impossible (another
    closure).
    """
    function = function_of(mutant.file, mutant.function)
    if function is None:
        return None
    changed = _compiled(mutant, function)
    if changed.__code__.co_freevars != function.__code__.co_freevars:
        return None

    def plant() -> None:
        function.__code__ = changed.__code__
        function.__defaults__ = changed.__defaults__
        function.__kwdefaults__ = changed.__kwdefaults__

    return plant


def _compiled(mutant: Mutant, function: FunctionType) -> FunctionType:
    """Return the changed function, in a scope with the names that the original closes over:
    `__class__` if it calls super().
    """
    (changed,) = ast.parse(mutant.source).body
    closed_over = function.__code__.co_freevars
    assert isinstance(changed, ast.FunctionDef | ast.AsyncFunctionDef)
    if closed_over:  # a mutant without its super() still closes over `__class__`
        changed.body[:0] = ast.parse(f"if False:\n    {', '.join(closed_over)}").body
    changed.name = "mutant_of_it"  # a function that calls itself would close over its own name
    tree = ast.parse(
        f"from __future__ import annotations\ndef around({', '.join(closed_over)}):\n    return"
        f" {changed.name}"
    )
    around = tree.body[1]
    assert isinstance(around, ast.FunctionDef)
    around.body.insert(0, changed)
    scratch: dict[str, Any] = {}
    exec(compile(tree, f"<a mutant of {mutant.file}>", "exec"), function.__globals__, scratch)
    made = scratch["around"](*closed_over)
    assert isinstance(made, FunctionType)
    return made
