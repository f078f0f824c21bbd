"""The report's section on the metadata: whether it is as the newest earlier run stored it."""

from __future__ import annotations

from collections.abc import Iterator

from auditor.model.finding import Kind
from auditor.model.summary import MetadataComparison, Summary
from auditor.report.layout import Screen, count, of


def metadata_section(summary: Summary, screen: Screen) -> Iterator[str]:
    """Yield lines on the comparison; none if there was no earlier run. Stored runs may lack it."""
    compared = summary.metadata_compared
    if compared is None or (compared.earlier_run is None and not compared.problem):
        return
    yield screen.paint("Metadata since the run before", "bold")
    for sentence in _sentences(compared):
        yield from screen.wrap(sentence, "  ")
    yield ""


def _sentences(compared: MetadataComparison) -> Iterator[str]:
    if compared.problem:
        yield f"not compared: {compared.problem}"
        return
    yield (
        f"{of(compared.compared, 'ledger that was', 'ledgers that were')} closed in run"
        f" {compared.earlier_run} {'was' if compared.compared == 1 else 'were'} compared:"
        f" {_changed_words(compared.changed)}"
    )
    if compared.unknown:
        yield (
            f"of {of(compared.unknown, 'closed ledger that differs', 'closed ledgers that differ')}"
            " it is not known whether the metadata has changed"
        )


def _changed_words(changed: int) -> str:
    if not changed:
        return "nothing but ensembles changed"
    has = "has" if changed == 1 else "have"
    return f"{count(changed)} {has} other metadata now ({Kind.CLOSED_METADATA_CHANGED.value})"
