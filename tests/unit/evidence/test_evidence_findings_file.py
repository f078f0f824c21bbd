"""findings.jsonl."""

import json
from dataclasses import replace

import pytest
from support import report_stories as stories

from auditor.errors import OutputError
from auditor.evidence import findings_file as jsonl
from auditor.model.finding import Kind
from auditor.model.finding_record import FIELDS, HISTORY_FIELDS, FindingHistory


def test_what_is_written_is_read_back():
    """One object a line, in order."""
    findings = [
        stories.finding(Kind.ENTRY_WITHOUT_REPLICA, 2),
        stories.finding(Kind.BOOKIE_LOST_UNNOTICED, "b:1"),
    ]
    assert findings == list(jsonl.parse(jsonl.text(findings).splitlines()))


def test_a_line_is_ascii_and_one_line():
    """Foreign text, even a lone surrogate, cannot break a line or a reader."""
    finding = stories.finding(Kind.ENTRY_WITHOUT_REPLICA, 2, owner={"name": "语\n\u2028\ud800"})
    text = jsonl.text([finding])
    assert text.isascii() and text.index("\n") == len(text) - 1
    assert finding.owner == next(jsonl.parse([text])).owner


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ('{"id":', "is not JSON"),
        ("[]\n", "lacks a field"),
        ("{}\n", "lacks a field"),
        (json.dumps(dict.fromkeys(FIELDS) | {"kind": "ENTRY_ATE_BY_GRUE"}), "does not know"),
        (" " * 10 + "x" * (jsonl.LINE_CHARS_MAX + 1), "longer than"),
    ],
)
def test_a_line_that_is_no_finding_is_named(line, reason):
    """Name and number of the line, and why."""
    good = stories.finding(Kind.ENTRY_WITHOUT_REPLICA, 2).line()
    with pytest.raises(OutputError, match=rf"f\.jsonl line 2 .*{reason}"):
        list(jsonl.parse([good, line], "f.jsonl"))


def test_a_file_of_an_earlier_version_has_no_history():
    """Its findings are read, and what they lack is null."""
    plain = replace(stories.finding(Kind.ENTRY_CORRUPT, 2), history=None)
    assert not set(HISTORY_FIELDS) & set(plain.as_json())
    (read,) = jsonl.parse([plain.line()])
    assert replace(plain, history=FindingHistory()) == read
    assert plain.as_json() | dict.fromkeys(HISTORY_FIELDS) == read.as_json()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("id", 7), ("ledger_id", "x"), ("bookie_id", 7), ("owner", 7), ("segment", {}),
        ("entries", [[1]]), ("entries_total", []), ("missing_on", [1]), ("copies", {}),
        ("facts", 7), ("witness", 7), ("looks", [{}]), ("next", [7]), ("muted", 7),
    ],
)  # fmt: skip
def test_a_field_that_no_finding_has_is_refused(name: str, value: object):
    """The line is named, and nothing is made of it."""
    fields = stories.finding(Kind.ENTRY_WITHOUT_REPLICA, 2).as_json() | {name: value}
    with pytest.raises(OutputError, match="line 1 has a field that no finding has"):
        list(jsonl.parse([json.dumps(fields)]))


def test_blank_lines_are_skipped():
    """The findings after them are read."""
    finding = stories.finding(Kind.ENTRY_WITHOUT_REPLICA, 2)
    assert [finding, finding] == list(jsonl.parse([finding.line(), "\n", finding.line()]))


def test_a_line_is_of_findings_jsonl_unless_said_otherwise():
    """The message names the file that runs write."""
    with pytest.raises(OutputError, match=r"^findings\.jsonl line 1 is not JSON"):
        list(jsonl.parse(["x"]))


def test_a_line_of_the_longest_length_is_read():
    """One character more is too many."""
    short = stories.finding(Kind.ENTRY_WITHOUT_REPLICA, 2).line()
    longest = short.ljust(jsonl.LINE_CHARS_MAX)
    assert list(jsonl.parse([short])) == list(jsonl.parse([longest]))
    with pytest.raises(OutputError, match="is longer than"):
        list(jsonl.parse([longest + " "]))


@pytest.mark.parametrize("kind", ["[]", "{}", "1", "null", '"x"'])
def test_a_kind_that_is_no_name_is_refused(kind: str):
    """Also where it cannot be looked up at all."""
    fields = ", ".join(f'"{name}": null' for name in FIELDS if name != "kind")
    with pytest.raises(OutputError, match="has the kind"):
        list(jsonl.parse([f'{{"kind": {kind}, {fields}}}']))


def test_a_line_that_is_nested_too_deeply_is_refused():
    """Python's stack ends before its brackets do."""
    with pytest.raises(OutputError, match="line 1 is not JSON"):
        list(jsonl.parse(["[" * 100_000]))
