"""Run the notebook in docs/ on a run of the demo, and keep what its cells show.

python tests/support/executed_notebook.py AUDITS writes the outputs into the notebook.
"""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import nbclient
import nbformat

PROJECT = Path(__file__).resolve().parents[2]
NOTEBOOK = PROJECT / "docs" / "notebooks" / "reading-a-run.ipynb"
SHOWN_HOME = "/home/auditor"
"""What the outputs have in place of the directory in which the notebook ran."""
WAIT_S = 120


def execute(path: Path, home: Path) -> Any:
    """Return the notebook as it is after a run in `home`, which has `audits`. Its last cell checks
    that Spark was not loaded.
    """
    notebook = nbformat.read(path, as_version=4)
    guard = nbformat.v4.new_code_cell("import sys\nassert 'pyspark' not in sys.modules")
    notebook.cells.append(guard)
    place = {"metadata": {"path": str(home)}}
    nbclient.NotebookClient(notebook, timeout=WAIT_S, resources=place).execute()
    notebook.cells.pop()
    return notebook


def outputs_of(notebook: Any) -> list[list[list[str]]]:
    """Return for each code cell what its outputs are: types of data, or the name of a stream."""
    return [
        [sorted(output.get("data", {})) or [output.get("name", "")] for output in cell.outputs]
        for cell in notebook.cells
        if cell.cell_type == "code"
    ]


def without_this_machine(notebook: Any, home: Path) -> str:
    """Return the notebook as a file, with SHOWN_HOME for `home`, and no time of any cell."""
    for cell in notebook.cells:
        cell.metadata = {}
    notebook.metadata = {"language_info": {"name": "python"}}
    text: str = nbformat.writes(notebook)
    return text.replace(str(home), SHOWN_HOME).rstrip("\n") + "\n"


def main(audits: Path) -> None:
    """Write the outputs of a run on `audits` into the notebook."""
    with TemporaryDirectory() as folder:
        home = Path(folder).resolve()
        (home / "audits").symlink_to(audits.resolve())
        notebook = execute(NOTEBOOK, home)
        NOTEBOOK.write_text(without_this_machine(notebook, home), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
