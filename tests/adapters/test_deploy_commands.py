"""The commands of deploy/README.md and docs/output.md are for the root of a clone: what they name
is there, and what installs files can be carried out.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import tomllib
from pathlib import Path

import pytest
from support.deployed import ROOT
from support.documented_commands import ShownLine, shown_lines

PAGES = ("deploy/README.md", "docs/output.md")
LINES = [line for line in shown_lines() if line.where.partition(":")[0] in PAGES]
COMMANDS = [part.strip() for line in LINES for part in line.text.split(" && ")]
MADE = ("environment", "./environment")
"""What commands of the page make, or what is there on another machine."""


def files_in(command: str) -> list[str]:
    """Return the words of a command that name files of the clone."""
    words = [word.partition("=")[2] or word for word in shlex.split(command, comments=True)]
    return [
        word
        for word in words
        if re.match(r"(\./)?[a-z][\w.-]*(/|\.txt$|\.toml$)", word)
        and "://" not in word
        and not word.startswith(MADE)
    ]


def test_the_pages_have_commands():
    """Otherwise the tests below would hold for none."""
    assert {line.where.partition(":")[0] for line in LINES} == set(PAGES)
    assert 10 < sum(len(files_in(command)) for command in COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_names_files_that_a_clone_has(command: str):
    """From its root."""
    missing = [
        word
        for word in files_in(command)
        if not list(ROOT.glob(word.removeprefix("./").rstrip("/")))
    ]
    assert [] == missing


def test_a_missing_file_is_noticed():
    """The check above can fail."""
    assert ["cron/x.crontab"] == files_in("install -m 0644 cron/x.crontab /etc/cron.d/x")
    assert not (ROOT / "cron").exists()


@pytest.mark.parametrize("command", [one for one in COMMANDS if re.search(r"\bpip install\b", one)])
def test_what_is_installed_is_the_clone(command: str):
    """With extras that it has: the first release is not on any index yet."""
    wanted = [word for word in shlex.split(command, comments=True) if re.match(r"\.(\[|$)", word)]
    assert 1 == len(wanted), command
    known = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = set(re.findall(r"[\w-]+", wanted[0]))
    assert extras <= set(known["optional-dependencies"])


@pytest.mark.parametrize("line", [one for one in LINES if one.words[0] == "install"])
def test_files_are_installed_as_the_page_says(line: ShownLine, tmp_path: Path):
    """Into another root, and by nobody else than who runs the test."""
    words = list(line.words)
    for flag in ("-o", "-g"):
        while flag in words:
            del words[words.index(flag) : words.index(flag) + 2]
    places = [f"{tmp_path}{word}" if word.startswith("/") else word for word in words]
    if "-D" not in words and "-d" not in words:
        Path(places[-1] if places[-1].endswith("/") else Path(places[-1]).parent).mkdir(
            parents=True
        )
    done = subprocess.run(places, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert (0, "") == (done.returncode, done.stderr)
    assert any(tmp_path.rglob("*"))
