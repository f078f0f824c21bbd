"""findings.jsonl."""

import json

import pytest
from support import report_stories as stories

from auditor.errors import OutputError
from auditor.evidence import findings_file as jsonl
from auditor.model.finding import Kind


def test_what_is_written_is_read_back():
    """One object a line, in order."""
    findings = [stories.finding(Kind.ENTRY_WITHOUT_REPLICA, 2), stories.finding(Kind.BOOKIE_LOST_UNNOTICED, "b:1")]
    assert findings == list(jsonl.parse(jsonl.lines(findings)))


def test_fields_come_in_the_order_of_the_contract():
    """Whatever order the finding was built in; further fields follow by name; absent ones are null."""
    finding = dict(reversed(stories.finding(Kind.ENTRY_WITHOUT_REPLICA, 2).items())) | {"zebra": 1, "ant": 2}
    del finding["runbook"]
    read = json.loads(jsonl.line(finding))
    assert [*jsonl.FIELDS, "ant", "zebra"] == list(read) and read["runbook"] is None


def test_a_line_is_ascii_and_one_line():
    """Foreign text, even half a character, cannot break a line or a reader."""
    finding = stories.finding(Kind.ENTRY_WITHOUT_REPLICA, 2, owner={"name": "语\n\u2028\ud800"})
    text = jsonl.line(finding)
    assert text.isascii() and text.index("\n") == len(text) - 1
    assert finding["owner"] == next(jsonl.parse([text]))["owner"]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ('{"id":', "is not JSON"),
        ("[]\n", "lacks a field"),
        ("{}\n", "lacks a field"),
        (jsonl.line({"kind": "ENTRY_ATE_BY_GRUE"}), "does not know"),
        (" " * 10 + "x" * (jsonl.LINE_CHARS_MAX + 1), "longer than"),
    ],
)
def test_a_line_that_is_no_finding_is_named(line, reason):
    """Name and number of the line, and why."""
    good = jsonl.line(stories.finding(Kind.ENTRY_WITHOUT_REPLICA, 2))
    with pytest.raises(OutputError, match=rf"f\.jsonl line 2 .*{reason}"):
        list(jsonl.parse([good, line], "f.jsonl"))
