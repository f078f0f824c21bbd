"""Which Python the workers of the data sources use."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest

from auditor.spark.ledger_source import SOURCES, register


class _Session:
    """A session that records with which Python each source was registered."""

    def __init__(self, master: str | None) -> None:
        self.context = SimpleNamespace(master=master, pythonExec="python3")
        self.has_context = master is not None
        self.used: list[str] = []
        self.dataSource = SimpleNamespace(register=self._register)

    @property
    def sparkContext(self) -> Any:
        if not self.has_context:
            raise RuntimeError("Spark Connect has none")
        return self.context

    def _register(self, _source: object) -> None:
        self.used.append(self.context.pythonExec)


@pytest.mark.parametrize(
    ("master", "chosen", "used"),
    [
        ("local[2]", None, sys.executable),
        ("local[2]", "/opt/python", "python3"),
        ("spark://host:7077", None, "python3"),
        (None, None, "python3"),
    ],
)
def test_workers_use_the_python_that_registers_unless_one_is_chosen(
    monkeypatch: pytest.MonkeyPatch, master: str | None, chosen: str | None, used: str
):
    """Other functions of the session keep theirs."""
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    if chosen is not None:
        monkeypatch.setenv("PYSPARK_PYTHON", chosen)
    session = _Session(master)
    register(session)  # type: ignore[arg-type]
    assert ([used] * len(SOURCES), "python3") == (session.used, session.context.pythonExec)
