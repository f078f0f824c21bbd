"""The answer of a bookie of an embedded cluster to a request for its list."""

from __future__ import annotations

from support.raw_bookie import RawBookie, list_request, status_name

from auditor.sandbox.cluster import SandboxCluster


def list_of_entries(cluster: SandboxCluster, bookie: str, ledger_id: int) -> tuple[str, bytes]:
    """Return the status of the answer, and the list."""
    with RawBookie(*cluster.address(bookie)) as connection:
        answer = connection.ask(list_request(ledger_id, 1))
    return (
        status_name(answer.status),
        answer.getListOfEntriesOfLedgerResponse.availabilityOfEntriesOfLedger,
    )
