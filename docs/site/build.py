"""Builds the documentation as a site that needs no server and loads nothing from elsewhere.

    python docs/site/build.py build/site

`make docs` installs what it needs and calls it. The documents stay where a code host shows them.
Here they are copied side by side, the README as the front page, and each link to a file that is
not a page becomes its name. Sphinx stops on a link or an anchor that leads nowhere, and on a page
that no navigation names.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).resolve().parents[2]
SITE = Path(__file__).resolve().parent
FRONT = "README.md"
NAVIGATION: Mapping[str, tuple[str, ...]] = {
    "Start": (
        "docs/getting-started.md",
        "docs/tonight.md",
        "docs/how-it-judges.md",
        "docs/comparison.md",
    ),
    "Operate": (
        "docs/operating.md",
        "docs/recovery.md",
        "docs/output.md",
        "docs/findings/README.md",
        "docs/auditing-pulsar.md",
        "docs/secured-clusters.md",
        "docs/topology.md",
        "docs/cost.md",
        "docs/scale.md",
        "deploy/README.md",
    ),
    "Look up": (
        "docs/configuration.md",
        "docs/versions.md",
        "docs/names.md",
        "docs/python.md",
        "docs/notebooks/reading-a-run.ipynb",
        "docs/data-sources.md",
    ),
    "Trust": (
        "docs/soundness.md",
        "docs/java-auditor.md",
        "docs/reality.md",
        "docs/testing.md",
        "SECURITY.md",
    ),
    "Take part": (
        "CONTRIBUTING.md",
        "ARCHITECTURE.md",
        "docs/decisions/README.md",
        "benchmarks/README.md",
        "CHANGELOG.md",
    ),
}
"""What stands in the navigation. The pages beside docs/findings/README.md and
docs/decisions/README.md stand below these two."""
PAGES_BESIDE = ("docs/findings/README.md", "docs/decisions/README.md")
REACHABLE = {
    '<p class="caption" role="heading">': '<p class="caption" role="heading" aria-level="2">',
    '<aside class="sidebar-drawer">': '<aside class="sidebar-drawer" aria-label="Pages">',
    '<aside class="toc-drawer': '<aside aria-label="On this page" class="toc-drawer',
    "<pre>": '<pre tabindex="0">',
    '<div class="table-wrapper': '<div tabindex="0" role="group" class="table-wrapper',
}
"""What scrolls can be reached by keyboard, and each landmark and heading says what it is."""
LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s]+)\)")


def staged(page: Path) -> Path:
    """Return where a document lies among the pages: the README is the front page."""
    return Path("index.md") if str(page) == FRONT else page.with_suffix(".md")


def notebook_text(notebook: dict[str, Any]) -> str:
    """Return the cells of a notebook as Markdown: code as blocks of Python, and what it shows."""
    shown = []
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        shown.append(source if cell["cell_type"] == "markdown" else f"```python\n{source}\n```")
        shown += map(output_text, cell.get("outputs", ()))
    return "\n\n".join(shown) + "\n"


def output_text(output: dict[str, Any]) -> str:
    """Return an output of a cell as Markdown: a drawing as it is, all else as text."""
    data = output.get("data", {})
    if "image/svg+xml" in data:
        return f"```{{raw}} html\n{''.join(data['image/svg+xml'])}\n```"
    text = "".join(output.get("text") or data["text/plain"]).rstrip()
    return f"```text\n{text}\n```"


def contents(caption: str, entries: list[str]) -> str:
    """Return a table of contents that is seen in the side bar alone."""
    listed = "\n".join(entries)
    head = f":caption: {caption}\n" if caption else ""
    return f"\n```{{toctree}}\n:hidden:\n{head}\n{listed}\n```\n"


def make_reachable(page: Path) -> None:
    """Add what the theme leaves out for those who use a keyboard or a screen reader."""
    text = page.read_text(encoding="utf-8")
    for written, meant in REACHABLE.items():
        text = text.replace(written, meant)
    page.write_text(text, encoding="utf-8")


@dataclass(frozen=True)
class Site:
    """The documents of a tree as pages. Paths of pages are relative to `project`."""

    project: Path = PROJECT
    navigation: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: NAVIGATION)

    @cached_property
    def pages(self) -> list[Path]:
        """Return every document that is a page, sorted."""
        docs = self.project / "docs"
        found = {*self.project.glob("*.md"), *docs.rglob("*.md"), *docs.rglob("*.ipynb")}
        found |= {self.project / folder / "README.md" for folder in ("deploy", "benchmarks")}
        return sorted(path.relative_to(self.project) for path in found if path.is_file())

    def page_of(self, target: Path) -> Path | None:
        """Return the page that a link to a file or folder leads to, None where it has none."""
        inside = target / "README.md" if target.is_dir() else target
        page = inside.relative_to(self.project) if inside.is_relative_to(self.project) else None
        return page if page in self.pages else None

    def title_of(self, page: Path) -> str:
        """Return the first heading of a document."""
        first, _, _ = (self.project / page).read_text(encoding="utf-8").partition("\n")
        return first.lstrip("# ")

    def link(self, page: Path, match: re.Match[str]) -> str:
        """Return a link as the page has it. What leads nowhere stays, and Sphinx says so."""
        mark, text, target = match.groups()
        file, hash_, fragment = target.partition("#")
        linked = (self.project / page.parent / file).resolve()
        if not file or re.match(r"[a-z]+:", target) or not linked.exists():
            return match[0]
        inner, up = self.page_of(linked), "../" * (len(staged(page).parts) - 1)
        if inner is not None:
            is_path = text.endswith((".md", "/"))
            shown = f"*{self.title_of(inner)}*" if is_path else text
            return f"[{shown}]({up}{staged(inner).as_posix()}{hash_}{fragment})"
        name = linked.relative_to(self.project).as_posix()
        if mark:
            return f"![{text}]({up}{name})"
        return f"`{name}`" if name.endswith(text.strip("`/ ")) else f"{text} (`{name}`)"

    def with_links(self, page: Path, text: str) -> str:
        """Return a document's text with its links as the site has them; code blocks stay."""
        pieces = re.split(r"(^ *```.*?^ *```$)", text, flags=re.MULTILINE | re.DOTALL)
        pieces[::2] = [LINK.sub(lambda found: self.link(page, found), one) for one in pieces[::2]]
        return "".join(pieces)

    def text(self, page: Path) -> str:
        """Return what Sphinx reads of a document."""
        text = (self.project / page).read_text(encoding="utf-8")
        text = notebook_text(json.loads(text)) if page.suffix == ".ipynb" else text
        text = self.with_links(page, text)
        if str(page) == FRONT:
            for caption, entries in self.navigation.items():
                text += contents(caption, [str(staged(Path(one))) for one in entries])
        if str(page) in PAGES_BESIDE:
            beside = [one for one in self.pages if one.parent == page.parent and one != page]
            text += contents("", [one.name for one in beside])
        return text

    def stage(self, folder: Path) -> None:
        """Write every page and picture into a folder."""
        pictures = self.project / "docs/pictures"
        shutil.copytree(pictures, folder / "docs/pictures")
        for page in self.pages:
            file = folder / staged(page)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(self.text(page), encoding="utf-8")

    def build(self, output: Path) -> int:
        """Build into a folder. Return Sphinx's exit code; if it is not 0, nothing is left there."""
        from sphinx.cmd.build import build_main

        source = output.with_name(f"{output.name}-pages")
        for folder in (source, output):
            shutil.rmtree(folder, ignore_errors=True)
        self.stage(source)
        options = ["-q", "-W", "--keep-going", "-b", "html", "-c", str(SITE)]
        code = build_main([*options, "-d", str(source / ".doctrees"), str(source), str(output)])
        shutil.rmtree(source)
        if code:
            shutil.rmtree(output, ignore_errors=True)
        for page in output.rglob("*.html"):
            make_reachable(page)
        return code


if __name__ == "__main__":
    sys.exit(Site().build(Path(sys.argv[1]).resolve()))
