"""Fisher's exact test, one-sided: how likely chance alone hits so many of a candidate's ledgers.

Pure. scipy has it as `scipy.stats.hypergeom.sf`, but is not a dependency of ours.
"""

from __future__ import annotations

from math import exp, lgamma, log

NEGLIGIBLE = 1e-17
"""A term below this share of the sum changes no digit of a double."""


def upper_tail(hit: int, touched: int, all_hit: int, total: int) -> float:
    """Return the probability that at least `hit` of `touched` things are among `all_hit`.

    The things are drawn from `total` without replacement. The terms of the hypergeometric
    distribution fall ever faster from its mode outwards, and the sum ends after some ten standard
    deviations. That is at most 5,000 terms for 10^6 things, and some tens where one share is three
    times the other. Exact to 6 digits up to 10^7 things. A result too small for a double is 0.
    """
    assert 0 <= hit <= touched <= total and 0 <= all_hit <= total, (hit, touched, all_hit, total)
    if hit <= max(0, touched + all_hit - total):
        return 1.0
    if hit > min(touched, all_hit):
        return 0.0
    if hit * total > touched * all_hit:
        return min(1.0, _sum_from(hit, touched, all_hit, total))
    # At or below the mean the other tail is shorter: sum over the things that are not hit.
    return 1.0 - _sum_from(touched - hit + 1, touched, total - all_hit, total)


def _sum_from(hit: int, touched: int, all_hit: int, total: int) -> float:
    """Return the sum of the terms from `hit` on, where `hit` is above the mean.

    Costs one multiplication a term.
    """
    most = min(touched, all_hit)
    term = whole = 1.0
    for x in range(hit, most):
        term *= (touched - x) * (all_hit - x) / ((x + 1) * (total - touched - all_hit + x + 1))
        whole += term
        if term < NEGLIGIBLE * whole:
            break
    return exp(_log_term(hit, touched, all_hit, total) + log(whole))


def _log_term(hit: int, touched: int, all_hit: int, total: int) -> float:
    return (
        _log_choose(all_hit, hit)
        + _log_choose(total - all_hit, touched - hit)
        - _log_choose(total, touched)
    )


def _log_choose(n: int, k: int) -> float:
    return lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1)
