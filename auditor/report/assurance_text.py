"""Sentences of a report on bookies that cannot list: what was read instead, and what that shows."""

from __future__ import annotations

import math
from collections.abc import Iterator

from auditor.model.summary import Assurance, Chances, Summary
from auditor.model.verdict import Unknown
from auditor.report.layout import count, of


def assurance_sentence(summary: Summary) -> str:
    """Return how many bookies cannot list, and what is known of their ledgers; "" if all can."""
    bookies, assurance = summary.bookies, summary.assurance
    unable = bookies.unsupported if bookies else len(assurance.bookies_unable)
    if not unable and not assurance.probed:
        return ""
    of_all = of(unable, "bookie")
    if bookies:
        of_all = f"{count(unable)} of {of(bookies.registered, 'bookie')}"
    head = f"{of_all} gave no list of entries (as with DbLedgerStorage): "
    if not assurance.probe_entries:
        unjudged = summary.unknown(Unknown.BOOKIE_UNSUPPORTED)
        return (
            f"{head}{of(unjudged, 'ledger is', 'ledgers are')} not judged, or not in full, on their"
            " account, because probing is off; --probe-entries 3 has a few of their entries read"
            " instead."
        )
    return head + probed_words(assurance)


def sampling_sentences(summary: Summary) -> Iterator[str]:
    """Yield the chance that consecutive lost entries were found on a bookie that cannot list.

    Yields nothing if no ledger was judged by probes. Stored runs may lack the field.
    """
    sampling = summary.sampling
    if sampling is None or not summary.assurance.probed:
        return
    alone, together = sampling.alone, sampling.together
    if alone is None:
        yield (
            "No chance can be given that a run of lost entries was found there: none was read by"
            " rank (--probe-budget)."
        )
    elif alone.of_one_entry == 1.0:
        yield (
            "Of each of these that was judged in full,"
            " every entry that such a bookie should hold was read."
        )
    else:
        yield (
            f"Of each of these that was judged in full, 1 in {count(sampling.step or 0)} of the"
            " entries that such a bookie should hold was read, other ones in each run. A run of"
            f" entries of one such ledger that one bookie lost was found with a chance of"
            f" {_chances(alone)} in this run."
        )
    if alone and alone.of_one_entry < 1.0 and together and together.runs > 1:
        yield (
            f"If it was lost before {together.since}, with {_chances(together.chances)} in the"
            f" {count(together.runs)} counted runs since then, in ledgers that did not change"
            " and that each of these runs judged so."
        )


def _chances(chances: Chances) -> str:
    """Return probabilities by number of entries as per cent, rounded down."""
    *most, last = (
        f"{_at_least(float(chance))} ({of(int(length), 'entry', 'entries')})"
        for length, chance in chances.by_length.items()
    )
    return f"{', '.join(most)} and {last}"


def _at_least(chance: float) -> str:
    return f"{math.floor(chance * 10_000 + 1e-9) / 100:.2f} %"


def probed_words(assurance: Assurance) -> str:
    """Return how many entries were read instead of listed, and a bound on what is missing.

    The reads are those of all ledgers, also of those that are not judged. The bound says how much
    may be missing although the sample did not hit it. There is none if an entry that was read is
    missing.
    """
    probed, read, drawn = assurance.probed, assurance.probes, assurance.random_probes
    if not read:
        return "no entry could be read there instead."
    at_random = f", {count(drawn)} of them drawn at random" if drawn else ""
    said = f"{of(read, 'entry was', 'entries were')} read there instead{at_random}"
    if not probed:
        return f"{said}; no ledger there was found sound or in violation."
    judged = f"{of(probed, 'ledger there was', 'ledgers there were')} found sound or in violation."
    bound = assurance.missing_bound
    if bound is not None:
        return (
            f"{said}; none missing: at most {_at_most(bound)} of what was sampled from"
            f" is missing at 95 %. {judged}"
        )
    if drawn:
        return f"{said}; some of what was read is missing, so no bound can be given. {judged}"
    return f"{said}. {judged}"


def _at_most(ratio: float) -> str:
    """Return a bound as per cent, rounded up."""
    return f"{min(100.0, math.ceil(ratio * 10_000 - 1e-9) / 100):.2f} %"
