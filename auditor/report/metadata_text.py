"""The report's section on the metadata: whether it is as the newest earlier run stored it."""

from __future__ import annotations

from collections.abc import Iterator

from auditor.findings.gone_ledgers import Gone
from auditor.model.finding import Kind
from auditor.model.summary import MetadataComparison, Summary
from auditor.report.layout import Screen, count, name_some, of, printable

NAMESPACES_SHOWN_MAX = 5
"""At most this many namespaces are shown. The summary has more."""
_GONE_WORDS = {
    Gone.TRIMMED: "of topics whose list begins behind them or is empty",
    Gone.REPLACED: "not named by their topic any more",
    Gone.TOPIC_DELETED: "of deleted topics",
    Gone.OFFLOADED: "moved to long-term storage",
    Gone.REFERENCED: "still referenced by a topic",
    Gone.DROPPED: "gone from the middle or the end of a topic",
    Gone.UNEXPLAINED: "that nothing explains (gone/unexplained.txt)",
}
assert _GONE_WORDS.keys() == set(Gone), "each reason has its words"


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
    if compared.forgotten:
        yield (
            f"in earlier runs {of(compared.forgotten, 'more closed ledger', 'more closed ledgers')}"
            " differed than a run can judge: whether their metadata changed is not known, and they"
            " are compared with what they were afterwards"
        )
    if back := compared.went_back:
        yield (
            f"{of(back, 'znode of a ledger has', 'znodes of ledgers have')} a lower version than"
            f" then ({name_some(compared.some_went_back, back)}): ZooKeeper has an older state"
        )
    if returned := compared.returned:
        yield (
            f"{of(returned, 'ledger is', 'ledgers are')} listed that it did not list, although the"
            f" znode or the metadata {'is' if returned == 1 else 'of each is'} dated before it"
            f" ({name_some(compared.some_returned, returned)})"
        )
    yield from _gone_sentences(compared)


def _gone_sentences(compared: MetadataComparison) -> Iterator[str]:
    gone = sum(compared.gone.values())
    if not gone:
        return
    parts = [
        f"{count(compared.gone[why])} {words}"
        for why, words in _GONE_WORDS.items()
        if why in compared.gone
    ]
    yield f"{of(gone, 'ledger is', 'ledgers are')} not listed any more: {', '.join(parts)}"
    if named := compared.gone_namespaces[:NAMESPACES_SHOWN_MAX]:
        by = ", ".join(f"{printable(one.namespace)} {count(one.ledgers)}" for one in named)
        yield f"most of them by namespace: {by}"


def _changed_words(changed: int) -> str:
    if not changed:
        return "nothing but ensembles changed"
    has = "has" if changed == 1 else "have"
    return f"{count(changed)} {has} other metadata now ({Kind.CLOSED_METADATA_CHANGED.value})"
