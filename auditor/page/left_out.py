"""Say which parts a page does not have, and why."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from auditor.model.summary import Summary
from auditor.page.contents import PageContents
from auditor.page.margin_view import LEDGERS_MAX
from auditor.report.findings_text import BECAUSE_OF_A_BOOKIE, GROUPED, changes_words
from auditor.report.layout import of


def left_out(contents: PageContents, view: Mapping[str, Any]) -> Iterator[str]:
    """Yield what the page does not show, and why. `view` has the parts that it shows."""
    summary = contents.summary
    if not view["causes"]:
        yield (
            f"Causes: no ledger has a finding {GROUPED}, and none was left unjudged"
            f" {BECAUSE_OF_A_BOOKIE}."
            if summary.has_causes_counted
            else ("Causes: the version that wrote this run did not store any.")
        )
    if not contents.bookies and not _is_explained(contents, "Bookies"):
        yield "Bookies: the run stored none."
    if not view["topics"]:
        yield "Topics: none were looked for, or none were found."
    if not view["marks"]:
        named = "named ledger" if summary.is_partial else "ledger"
        yield (
            f"Marks: no {named} was found marked under-replicated."
            if summary.marks is not None
            else ("Marks: the version that wrote this run did not count them.")
        )
    if not view["history"] and contents.history is not None:
        yield _no_history(summary)
    if not view["margin"] and not _is_explained(contents, "Margin"):
        yield _no_margin(contents)
    if not view["changes"] and not _is_explained(contents, "Changes"):
        yield _no_changes(summary)
    yield from contents.problems


def _no_history(summary: Summary) -> str:
    if summary.is_partial:
        return "History: a run of named ledgers is not compared with others."
    return "History: no other finished run of this cluster, as old or older, is beside this one."


def _is_explained(contents: PageContents, what: str) -> bool:
    """Return whether a problem already says why this part is missing."""
    return any(problem.startswith(what) for problem in contents.problems)


def _no_margin(contents: PageContents) -> str:
    if contents.summary.ledgers.listed > LEDGERS_MAX:
        return f"Margin: not computed of more than {LEDGERS_MAX:,} ledgers. The command above does."
    if contents.margin and contents.margin.basis.unread:
        unread = of(contents.margin.basis.unread, "ledger")
        return (
            "Margin: no ledger whose metadata is understood is closed and has entries. The metadata"
            f" of {unread} could not be read or understood."
        )
    return "Margin: no ledger is closed and has entries."


def _no_changes(summary: Summary) -> str:
    if not summary.is_compared:
        return "Changes: the version that wrote this run did not compare it with an earlier one."
    if summary.changes is None:
        return "Changes: there was no earlier run of this cluster."
    return f"Changes: {changes_words(summary.changes)}."
