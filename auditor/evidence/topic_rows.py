"""Convert the references of Pulsar's topics to rows."""

from __future__ import annotations

from collections.abc import Iterator

from auditor.evidence.reference_rows import data_cells
from auditor.evidence.rows import Row
from auditor.model.topic import Role, TopicRecord, references


def topic_rows(record: TopicRecord) -> Iterator[Row]:
    """Yield the rows of TOPICS of one topic: data ledgers, other ledgers, problems.

    Ledgers that were deleted in BookKeeper on purpose have a row too.
    """
    head = (str(record.topic), record.read_at_ms)
    for one in record.managed_ledger.ledgers if record.managed_ledger else ():
        yield (*head, Role.DATA.value, None, *data_cells(one), None)
    for reference in references(record):
        if reference.role is not Role.DATA:
            yield (
                *head,
                reference.role.value,
                reference.name or None,
                reference.ledger_id,
                *(None,) * 6,
            )
    for problem in record.problems:
        yield (*head, *(None,) * 8, problem)
