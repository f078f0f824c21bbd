"""The file of mutes: how it is read, what is refused, and to which findings a mute applies."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import date
from typing import Any

import pytest
from support.report_stories import changed, finding

from auditor.after.mutes import (
    MUTES_MAX,
    BadMutes,
    Mute,
    apply_mutes,
    count_muted,
    parse_mutes,
    state_of,
)
from auditor.model.codec import encode
from auditor.model.finding import Kind
from auditor.model.finding_record import FindingRecord, Muted

TODAY = date(2026, 12, 1)
FOUND = finding(Kind.ENTRY_BELOW_WRITE_QUORUM, 7, id="a7")


def mute_of(found: FindingRecord, until: date = TODAY) -> Mute:
    return Mute(found.id, until, "it is known", found.kind, "ledger 7", "run-1", state_of(found))


def test_a_file_is_read_as_it_was_written():
    """Each line is an object; blank lines are skipped."""
    mutes = [mute_of(FOUND), mute_of(changed(FOUND, id="b"), date(2027, 1, 1))]
    assert mutes == parse_mutes("\n" + "\n\n".join(one.line() for one in mutes) + "\n")
    assert [] == parse_mutes("")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"until": "soon"}, "line 2 is not a mute .*isoformat"),
        ({"until": 7}, "line 2 is not a mute"),
        ({"why": "  "}, "not empty"),
        ({"id": 7}, "must be texts"),
        ({"kind": "NO_SUCH_KIND"}, "line 2 is not a mute .*NO_SUCH_KIND"),
        ({"state": {}}, "line 2 lacks 'entries'"),
        ({"state": None}, "line 2 is not a mute"),
        ({"id": "a7"}, "line 2 mutes a7 for the second time"),
    ],
)
def test_one_bad_line_is_reported_and_nothing_is_muted(change: dict[str, Any], says: str):
    """The other lines do not count either, because nobody knows what the bad line was to mute."""
    good = mute_of(FOUND).line()
    bad = json.dumps(json.loads(good) | {"id": "other"} | change)
    with pytest.raises(BadMutes, match=says):
        parse_mutes(f"{good}\n{bad}\n")


@pytest.mark.parametrize("line", ["{", "[]", "7", '"a"', "null", "[" * 200_000])
def test_a_line_that_is_not_an_object_is_not_a_mute(line: str):
    """The error is always BadMutes, and names the line."""
    with pytest.raises(BadMutes, match="line 1"):
        parse_mutes(line)


@pytest.mark.parametrize(
    "name", ["copies_confirmed", "copies_unknown", "ensemble", "stays", "among"]
)
@pytest.mark.parametrize("value", ["1", {"a": 1}])
def test_a_state_with_values_of_a_wrong_type_is_not_a_mute(name: str, value: Any):
    """Otherwise comparing it with a finding would fail at the end of a run."""
    fields = json.loads(mute_of(FOUND).line())
    if isinstance(value, dict) and name == "stays":
        value = [value]
    with pytest.raises(BadMutes, match="line 1 is not a mute"):
        parse_mutes(json.dumps(fields | {"state": fields["state"] | {name: value}}))


def test_a_line_ends_where_a_line_of_json_ends():
    """A text may contain Unicode separators of lines unescaped."""
    line = json.dumps(
        json.loads(mute_of(FOUND).line()) | {"why": "one\u2028two"}, ensure_ascii=False
    )
    assert ["one\u2028two"] == [one.why for one in parse_mutes(line)]


def test_the_number_of_mutes_is_bounded():
    """A run reads at most MUTES_MAX of them."""
    line = json.loads(mute_of(FOUND).line())
    with pytest.raises(BadMutes, match="more than"):
        parse_mutes("\n".join(json.dumps(line | {"id": str(n)}) for n in range(MUTES_MAX + 1)))


def test_a_mute_holds_to_the_end_of_its_day():
    """It applies on the day itself. On the next day it is reported as expired."""
    mute = mute_of(FOUND)
    assert Muted("2026-12-01", "it is known") == apply_mutes([mute], [FOUND], TODAY).of(FOUND)
    over = apply_mutes([mute], [FOUND], date(2026, 12, 2))
    assert (None, [mute]) == (over.of(FOUND), over.expired)


def test_a_mute_of_a_finding_that_is_not_there_does_nothing():
    """The finding was resolved or could not be checked. The mute is neither outgrown nor
    expired.
    """
    applied = apply_mutes([mute_of(FOUND)], [], TODAY)
    assert ({}, [], []) == (applied.muted, list(applied.outgrown), list(applied.expired))


def test_two_findings_of_one_id_are_muted_apart():
    """A bookie may have two kinds under one id. A mute of one does not hide the other."""
    silent = finding(Kind.BOOKIE_SILENT_YET_REGISTERED, "b1", id="b")
    lost = finding(Kind.BOOKIE_LOST_CONTENT, "b1", id="b")
    applied = apply_mutes([mute_of(silent)], [silent, lost], TODAY)
    assert (None, True) == (applied.of(lost), applied.of(silent) is not None)
    assert ["it is BOOKIE_LOST_CONTENT now and was BOOKIE_SILENT_YET_REGISTERED"] == [
        why for _, why in applied.outgrown
    ]


def test_the_number_of_a_kind_has_only_subjects_that_are_muted_altogether():
    """A ledger with two segments that fail placement is not counted as muted while only one of them
    is.
    """
    first = finding(Kind.PLACEMENT_FAILED, 7, id="p1")
    second = changed(first, id="p2")
    other = finding(Kind.PLACEMENT_FAILED, 8, id="p3")
    mutes = [mute_of(first), mute_of(other)]
    half = encode(
        count_muted(apply_mutes(mutes, [first, second, other], TODAY), [first, second, other], None)
    )
    assert (2, {"PLACEMENT_FAILED": 1}) == (half["findings"], half["by_kind"])
    mutes.append(replace(mutes[0], id="p2"))
    whole = encode(
        count_muted(apply_mutes(mutes, [first, second, other], TODAY), [first, second, other], None)
    )
    assert (3, {"PLACEMENT_FAILED": 2}) == (whole["findings"], whole["by_kind"])


def test_a_segment_that_is_not_muted_counts_for_its_ledger_in_any_order():
    """The finding that is not muted may come before the muted one."""
    first = finding(Kind.PLACEMENT_FAILED, 7, id="p1")
    found = [changed(first, id="p2"), first]
    assert (
        {}
        == encode(count_muted(apply_mutes([mute_of(first)], found, TODAY), found, None))["by_kind"]
    )


def test_the_summary_says_which_mutes_do_not_apply_and_what_is_wrong_with_the_file():
    """Each mute is named with its subject, and with why it is outgrown or the day it expired."""
    lost = changed(FOUND, kind=Kind.ENTRY_WITHOUT_REPLICA.value)
    late = finding(Kind.LEDGER_STUCK, 8, id="a8")
    mutes = [mute_of(FOUND), mute_of(late, date(2026, 11, 30))]
    assert {
        "problem": "it is damaged",
        "findings": 0,
        "by_kind": {},
        "outgrown": [
            {
                "id": "a7",
                "on": "ledger 7",
                "why": "it is ENTRY_WITHOUT_REPLICA now and was ENTRY_BELOW_WRITE_QUORUM",
            }
        ],
        "expired": [{"id": "a8", "on": "ledger 7", "until": "2026-11-30"}],
    } == encode(count_muted(apply_mutes(mutes, [lost, late], TODAY), [lost, late], "it is damaged"))


def test_a_file_may_have_as_many_mutes_as_there_may_be():
    """MUTES_MAX itself is allowed."""
    line = json.loads(mute_of(FOUND).line())
    assert MUTES_MAX == len(
        parse_mutes("\n".join(json.dumps(line | {"id": str(n)}) for n in range(MUTES_MAX)))
    )
