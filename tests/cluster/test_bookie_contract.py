"""The sandbox's bookies and real ones behave alike on the wire: one list of cases, run on each.

A sandbox that differs from BookKeeper would weaken every other test. The cases and their expected
values are in `support.contract_of_ledgers` and `support.contract_of_connections`; an expected value
is never taken from an implementation.
"""

from __future__ import annotations

import pytest
from support import contract_of_connections, contract_of_ledgers
from support.bookie_contract import CASES, CASES_RUN, BookieUnderTest, Case, check
from support.bookies_under_test import STORAGES, SandboxBookieUnderTest, real_bookie

IMPLEMENTATIONS = tuple(f"{maker}-{kind}" for maker in ("sandbox", "real") for kind in STORAGES)
CASE_MODULES = (contract_of_connections, contract_of_ledgers)  # importing them adds their cases
REAL = pytest.mark.real


@pytest.fixture(
    params=[
        pytest.param(name, marks=REAL if name.startswith("real") else ())
        for name in IMPLEMENTATIONS
    ]
)
def bookie(
    request: pytest.FixtureRequest, sandbox: dict[str, SandboxBookieUnderTest]
) -> BookieUnderTest:
    """Return one bookie of each implementation in turn."""
    maker, _, kind = request.param.partition("-")
    return (
        sandbox[kind]
        if maker == "sandbox"
        else real_bookie(request.getfixturevalue("shared_cluster"), kind)
    )


@pytest.mark.parametrize("subject", CASES, ids=lambda case: case.name)
def test_bookie_keeps_the_contract(subject: Case, bookie: BookieUnderTest) -> None:
    """Every bookie does on the wire what the contract's case says."""
    check(subject, bookie)


@REAL
def test_every_implementation_ran_every_case() -> None:
    """The same cases passed on each implementation, and there were some. It runs last, and counts
    what ran before it.
    """
    counts = {
        implementation: len(CASES_RUN.get(implementation, ())) for implementation in IMPLEMENTATIONS
    }
    print("contract cases per implementation:", counts)
    assert len(CASES) > 0
    assert counts == dict.fromkeys(IMPLEMENTATIONS, len(CASES)), (
        f"run the whole module, not a part of it: {counts}"
    )
