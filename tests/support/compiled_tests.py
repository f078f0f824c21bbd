"""The tests compiled before processes start that would each compile all of them.

In a fresh clone pytest rewrites the assertions of 480 modules: seven CPU seconds in each of four
processes, at the same time.
"""

from __future__ import annotations

import compileall
import os
import sys
from collections.abc import Iterable
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

from _pytest.assertion.rewrite import AssertionRewritingHook

ROOT = Path(__file__).resolve().parents[2]
PLAIN = ("auditor", "tests/support")
"""Directories of modules without assertions that pytest rewrites."""
AT_ONCE = 2
"""Processes that compile."""


def compile_all_tests() -> None:
    """Compile all modules of tests and what they import, as pytest does on their import."""
    if sys.dont_write_bytecode:
        return
    modules = sorted((ROOT / "tests").rglob("test_*.py"))
    child = os.fork()
    if child == 0:
        try:
            rewrite(modules[1::AT_ONCE])
        finally:
            os._exit(0)  # what is not compiled here, each process compiles
    for directory in PLAIN:
        compileall.compile_dir(ROOT / directory, quiet=2)
    rewrite(modules[::AT_ONCE])
    os.waitpid(child, 0)


def rewrite(modules: Iterable[Path]) -> None:
    """Let pytest compile modules and keep what it compiled, without executing them.

    Does nothing with `--assert=plain`, where Python itself compiles.
    """
    hooks = (one for one in sys.meta_path if isinstance(one, AssertionRewritingHook))
    hook = next(hooks, None)
    if hook is None:
        return
    for path in modules:
        module = _Unexecuted(path.stem)
        module.__spec__ = ModuleSpec(path.stem, hook, origin=str(path))
        try:
            hook.exec_module(module)
        except _CompiledError:
            continue
        except SyntaxError:
            continue  # whoever imports it says so


class _CompiledError(Exception):
    """A module is compiled, and about to be executed."""


class _Unexecuted(ModuleType):
    """A module whose code finds no place where it could be executed."""

    @property
    def __dict__(self) -> Any:  # type: ignore[override]
        raise _CompiledError
