"""`auditor demo` as a new user runs it: the picture of its screen in the README; and every command
that a document shows is run on its run, or the reason why it is not is known.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import nbformat
import pytest
from support.command_line import PROJECT, command, command_here, environment_of
from support.documented_commands import COMPLETION, ShownLine, shown_lines
from support.executed_notebook import SHOWN_HOME, execute, outputs_of
from support.screen_picture import draw_screen, screen_of, without_what_varies, words_of

from auditor.model.finding import Kind

LINES = shown_lines()
NOTEBOOKS = sorted((PROJECT / "docs").rglob("*.ipynb"))
PICTURE = PROJECT / "docs" / "pictures" / "first-screen.svg"
WAIT_S = 120
EXITS = {
    "margin": {1},
    "replay": {1},
    "status": {1},
    "report": {1},
    "diff": {3},
    "doctor": {0, 5},
}
"""Exit codes on the demo: it has findings, without b3 some ledgers have no copy, and the next night
could not judge every ledger either. All other commands end with 0."""
RUN_DIR = re.compile(r"\S*/run-\d{8}T\d{6}Z-[0-9a-f]{6}")


class Nights(NamedTuple):
    """Where two runs of the demo are, what the first printed, and its findings on ledgers."""

    home: Path
    stdout: str
    earlier: str
    later: str
    findings: list[dict[str, object]]


@pytest.fixture(scope="module")
def nights(tmp_path_factory: pytest.TempPathFactory) -> Nights:
    """Return a run of the demo below `audits`, and a copy of it as the next night."""
    home = tmp_path_factory.mktemp("documented")
    done = command("demo", "--output", str(home / "audits"))
    assert 1 == done.returncode, done.stderr
    (run,) = (home / "audits").glob("run-*")
    later = run.with_name("run-20991231T000000Z-000001")
    shutil.copytree(run, later)
    (later.parent / "latest.json").write_text(json.dumps({"run": later.name}), encoding="utf-8")
    lines = (run / "findings.jsonl").read_text(encoding="utf-8").splitlines()
    found = [one for one in map(json.loads, lines) if one["ledger_id"] is not None]
    return Nights(home, done.stdout, f"audits/{run.name}", f"audits/{later.name}", found)


def test_the_picture_in_the_readme_is_what_the_demo_shows(nights: Nights):
    """Today's demo has the same first screen, apart from what differs between any two runs. `make
    picture` draws it again.
    """
    screen = screen_of(nights.home / nights.earlier)
    shown = without_what_varies(screen.split())
    assert shown == without_what_varies(words_of(PICTURE.read_text(encoding="utf-8")))
    assert "VIOLATED: 19 of 264 ledgers" in shown and shown.endswith("violated=19")
    assert nights.stdout.splitlines()[-1] == screen.splitlines()[-1]
    summary = json.loads((nights.home / nights.earlier / "summary.json").read_text())
    kinds = [kind for kind, counted in summary["findings"].items() if counted["findings"]]
    shown = f"An embedded cluster with {len(kinds)} of the {len(Kind)} kinds of findings"
    assert shown in nights.stdout


def test_a_picture_has_every_word_of_its_screen():
    """This includes a word that is wrapped or coloured, or that looks like markup."""
    screen = f"\x1b[31mVIOLATED\x1b[0m: <b> & 'x'\n\n  found  {'long ' * 30}\nlast\n"
    plain = re.sub(r"\x1b\[\d+m", "", screen)
    assert plain.split() == words_of(draw_screen(screen))


def test_the_picture_needs_nothing_but_itself():
    """It names no address except that of the SVG name space, and no script."""
    text = PICTURE.read_text(encoding="utf-8")
    assert {"http://www.w3.org/2000/svg"} == set(re.findall(r"https?://[^\s\"')<]+", text))
    assert "<script" not in text


def typed(line: ShownLine, nights: Nights) -> list[str]:
    """Return the line's words after `auditor`, with the demo's names in place of the document's."""
    first, second = nights.findings[:2]
    places = iter((nights.earlier, nights.later))
    names = {
        "/var/lib/bookkeeper-auditor": "audits",
        "9a8eab801dccec12": first["id"],
        "123456": first["ledger_id"],
        "4711": first["ledger_id"],
        "4712": second["ledger_id"],
        "bookie-3:3181": "b3",
    }
    words = [next(places) if RUN_DIR.fullmatch(word) else word for word in line.words[1:]]
    return [str(names.get(word, word)) for word in words]


def test_it_is_known_what_each_line_needs():
    """A program that no rule knows fails here: each line is either run by a test, or has what it
    needs.
    """
    needs = [line.needs for line in LINES]
    assert {"run", "cluster", "poison ledger", "host", "tree"} == set(needs)
    with pytest.raises(ValueError, match="'frobnicate'"):
        _ = ShownLine("x.md:1", "frobnicate --all").needs


@pytest.mark.parametrize(
    "line",
    [line for line in LINES if line.needs == "run" and not COMPLETION.search(line.text)],
    ids=lambda line: f"{line.where} {line.words[1]}",
)
def test_a_shown_command_does_what_it_says(
    line: ShownLine, nights: Nights, monkeypatch: pytest.MonkeyPatch
):
    """It ends with the exit code of its command, prints something, and reports no fault of the
    auditor.
    """
    monkeypatch.chdir(nights.home)
    words = typed(line, nights)
    done = command_here(*words)
    assert done.returncode in EXITS.get(words[0], {0}), (words, done.stdout, done.stderr)
    assert done.stdout.strip() and "Traceback" not in done.stdout + done.stderr


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_gets_its_completion(shell: str):
    """Each line for a start-up file is shown, and what it evaluates names the program."""
    shown = [match[1] for line in LINES if (match := COMPLETION.search(line.text))]
    assert ["bash", "zsh", "fish"] == shown
    done = subprocess.run(
        [Path(sys.executable).with_name("auditor")],
        env=environment_of(_AUDITOR_COMPLETE=f"{shell}_source"),
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=False,
    )
    assert 0 == done.returncode and "_auditor_completion" in done.stdout, done.stderr


def test_what_contributors_run_exists():
    """These are targets of the Makefile, and files and folders of the tree."""
    makefile = (PROJECT / "Makefile").read_text(encoding="utf-8")
    for line in LINES:
        if line.needs != "tree":
            continue
        program, *rest = line.words
        if program == "make":
            assert re.search(rf"^{rest[0]}:", makefile, re.MULTILINE), line
        for word in rest:
            path = word.rpartition("=")[2].split("::")[0]
            assert not re.match(r"(tests|auditor|docs)/", path) or (PROJECT / path).exists(), line


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_a_notebook_shows_what_its_cells_show(path: Path):
    """It is a valid notebook with outputs and a plot, and shows nothing of the machine that ran it
    last.
    """
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    shown = outputs_of(notebook)
    assert shown and all(shown) and any("image/svg+xml" in one for cell in shown for one in cell)
    text = path.read_text(encoding="utf-8")
    paths = set(re.findall(r"(?<![\w./:])/(?:home|root|tmp|work|usr)/[^\s\"'\\\\]*", text))
    assert [] == [one for one in paths if not one.startswith(SHOWN_HOME)]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_a_notebook_runs(path: Path, nights: Nights, monkeypatch: pytest.MonkeyPatch):
    """It runs from its first cell to its last, on a run of the demo, without Spark, and finds what
    the run found.
    """
    monkeypatch.setenv("PYTHONPATH", str(PROJECT))
    notebook = execute(path, nights.home)
    assert outputs_of(nbformat.read(path, as_version=4)) == outputs_of(notebook)
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    said = "".join(
        output.get("text", "") + output.get("data", {}).get("text/plain", "") for output in outputs
    )
    assert "VIOLATED" in said and str(nights.findings[0]["id"]) in said
