"""The settings of Hypothesis for all tests, made when a test imports it: it takes a second to load,
and most files of tests do not use it.

EXAMPLES=20 in the environment draws so many examples a test, where the test has no number of its
own.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType


def set_up_when_imported(home: Path) -> None:
    """Let Hypothesis keep its examples in `home` and set no deadline, from its import on: a busy
    machine makes no test fail.
    """
    if "hypothesis" in sys.modules:
        _set_up(home)
    else:
        sys.meta_path.insert(0, _SetsUp(home))


class _SetsUp(MetaPathFinder, Loader):
    """Leaves Hypothesis to the other finders, and sets it up behind their loader."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._loader: Loader | None = None

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name != "hypothesis":
            return None
        sys.meta_path.remove(self)
        spec = find_spec(name)
        if spec is not None:
            self._loader, spec.loader = spec.loader, self
        return spec

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader and self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        if self._loader:
            self._loader.exec_module(module)
        _set_up(self._home)


def _set_up(home: Path) -> None:
    from hypothesis import configuration, settings

    configuration.set_hypothesis_home_dir(home)
    examples = int(os.environ.get("EXAMPLES", settings().max_examples))
    settings.register_profile("untimed", parent=settings(), deadline=None, max_examples=examples)
    settings.load_profile("untimed")
