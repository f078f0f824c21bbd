"""Render report.html: one file that loads nothing, with a policy that forbids loading."""

from __future__ import annotations

import base64
import hashlib
from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined
from jinja2.utils import htmlsafe_json_dumps
from markupsafe import Markup

from auditor.after.page.contents import PageContents
from auditor.after.page.findings_data import findings_data
from auditor.after.page.page_view import page_view


@cache
def _environment() -> Environment:
    """Return the templates' environment. Every value that is not Markup is escaped."""
    return Environment(
        loader=PackageLoader("auditor.after.page"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def render_page(contents: PageContents) -> str:
    """Return the page. Pure; costs time and size linear in the findings, up to
    `selection.LISTED_MAX`.
    """
    style, script = _source("page.css"), _source("page.js")
    data = findings_data(
        contents.findings, contents.run_dir, contents.summary.finished_at, contents.runbooks
    )
    return _environment().get_template("page.html").render(
        **page_view(contents),
        policy=_policy(style, script),
        style=style,
        script=script,
        total=data["total"],
        listed=len(data["rows"]),
        in_full=len(data["full"]),
        kinds=data["kinds"],
        data=htmlsafe_json_dumps(data, ensure_ascii=True, separators=(",", ":")),
    )  # fmt: skip


def _source(name: str) -> Markup:
    """Return our own style sheet or script, which goes into the page unchanged."""
    loader = _environment().loader
    assert loader is not None
    return Markup(loader.get_source(_environment(), name)[0])  # noqa: S704


def _policy(style: str, script: str) -> str:
    """Return a content security policy that allows this style sheet and script, and images that
    are in the page.
    """
    allowed = "; ".join(
        f"{what}-src '{_digest(text)}'" for what, text in (("style", style), ("script", script))
    )
    return f"default-src 'none'; {allowed}; img-src data:; base-uri 'none'; form-action 'none'"


def _digest(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
