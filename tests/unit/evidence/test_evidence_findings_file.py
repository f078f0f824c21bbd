"""findings.jsonl."""

import json

import pytest
from support import report_stories as stories

from auditor.errors import OutputError
from auditor.evidence import findings_file as jsonl
from auditor.model.finding import Kind


def test_what_is_written_is_read_back():
    """One object a line, in order."""
    findings = [
        stories.finding(Kind.ENTRY_WITHOUT_REPLICA, 2),
        stories.finding(Kind.BOOKIE_LOST_UNNOTICED, "b:1"),
    ]
    assert findings == list(jsonl.parse(jsonl.lines(findings)))


def test_fields_come_in_the_order_of_the_contract():
    """Whatever order the finding was built in; further fields follow by name; absent ones are
    null.
    """
    finding = dict(reversed(stories.finding(Kind.ENTRY_WITHOUT_REPLICA, 2).items())) | {
        "zebra": 1,
        "ant": 2,
    }
    del finding["runbook"]
    read = json.loads(jsonl.line(finding))
    assert [*jsonl.FIELDS, *jsonl.HISTORY_FIELDS, "ant", "zebra"] == list(read) and read[
        "runbook"
    ] is None


def test_a_line_is_ascii_and_one_line():
    """Foreign text, even a lone surrogate, cannot break a line or a reader."""
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


def test_a_file_of_an_earlier_version_has_no_history():
    """Its findings are read, and what they lack is null."""
    plain = {
        name: value
        for name, value in stories.finding(Kind.ENTRY_CORRUPT, 2).items()
        if name not in jsonl.HISTORY_FIELDS
    }
    (read,) = jsonl.parse([json.dumps(plain)])
    assert plain | dict.fromkeys(jsonl.HISTORY_FIELDS) == read


def test_a_line_has_no_blanks_between_its_fields():
    """A file of many findings is as small as JSON can be."""
    assert jsonl.line({"id": "1", "entries": [1, 2]}).startswith('{"id":"1","kind":null,')
    assert '"entries":[1,2],' in jsonl.line({"entries": [1, 2]})


def test_a_number_that_json_does_not_have_is_not_written():
    """Other readers than Python's would refuse the line."""
    with pytest.raises(ValueError, match="JSON"):
        jsonl.line({"facts": {"share": float("nan")}})


def test_blank_lines_are_skipped():
    """The findings after them are read."""
    finding = stories.finding(Kind.ENTRY_WITHOUT_REPLICA, 2)
    assert [finding, finding] == list(jsonl.parse([jsonl.line(finding), "\n", jsonl.line(finding)]))


def test_a_line_is_of_findings_jsonl_unless_said_otherwise():
    """The message names the file that runs write."""
    with pytest.raises(OutputError, match=r"^findings\.jsonl line 1 is not JSON"):
        list(jsonl.parse(["x"]))


def test_a_line_of_the_longest_length_is_read():
    """One character more is too many."""
    short = jsonl.line(stories.finding(Kind.ENTRY_WITHOUT_REPLICA, 2))
    longest = short.rstrip("\n").ljust(jsonl.LINE_CHARS_MAX)
    assert list(jsonl.parse([short])) == list(jsonl.parse([longest]))
    with pytest.raises(OutputError, match="is longer than"):
        list(jsonl.parse([longest + " "]))


@pytest.mark.parametrize("kind", ["[]", "{}", "1", "null", '"x"'])
def test_a_kind_that_is_no_name_is_refused(kind: str):
    """Also where it cannot be looked up at all."""
    fields = ", ".join(f'"{name}": null' for name in jsonl.FIELDS if name != "kind")
    with pytest.raises(OutputError, match="has the kind"):
        list(jsonl.parse([f'{{"kind": {kind}, {fields}}}']))


def test_a_line_that_is_nested_too_deeply_is_refused():
    """Python's stack ends before its brackets do."""
    with pytest.raises(OutputError, match="line 1 is not JSON"):
        list(jsonl.parse(["[" * 100_000]))
