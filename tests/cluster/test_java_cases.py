"""The cases of BookKeeper's own auditor (`support.java_cases`), without a cluster: how an answer is
compared with the truth, and that docs/java-auditor.md has them all.
"""

from __future__ import annotations

from pathlib import Path

from support.java_cases import CASES, LOST
from support.side_by_side import Answer, holds_truth

TABLE = Path(__file__).resolve().parents[2] / "docs" / "java-auditor.md"


def test_an_answer_of_nothing_is_rejected() -> None:
    """Silence, one accusation too many, and a check that gave up are all rejected."""
    assert holds_truth(Answer(True, {"no_replica": 1}), LOST)
    for said in (
        Answer(True, {}),
        Answer(False, {"no_replica": 1}),
        Answer(True, {"no_replica": 2}),
    ):
        assert not holds_truth(said, LOST)
    assert not holds_truth(Answer(True, {"unknown": 1}), LOST)
    assert not holds_truth(Answer(True, {"no_replica": 1, "below_ack": 1}), LOST)


def test_the_table_names_every_case() -> None:
    """docs/java-auditor.md has a row for each of J1 to J28. Each row names all its cases, or says
    why no case shows it.
    """
    rows = [
        line.split("|")[1:-1] for line in TABLE.read_text().splitlines() if line.startswith("| J")
    ]
    assert [f"J{number}" for number in range(1, 29)] == [row[0].strip() for row in rows]
    for number, *_, shown_by in rows:
        named = {
            part.strip()
            for part in shown_by.split(";")
            if not part.strip().startswith(("also ", "only ", "not shown: "))
        }
        cases = {case.name for case in CASES if number.strip() in case.name.split()}
        assert cases == named, number
        assert named or "not shown: " in shown_by or "only `test_" in shown_by
