"""`auditor margin` on the directory of a run: a gate whose exit code a script can use."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from support import report_stories
from support.report_stories import unchecked

from auditor.after.history import UNCHECKED
from auditor.clock import rfc3339, utc_now
from auditor.commands.margin import margin
from auditor.config import Layers, parse
from auditor.context import Context
from auditor.errors import ConfigError
from auditor.evidence.run_directory import place
from auditor.evidence.schemas import ANSWERS, BOOKIES, CARRIED, CARRIED_TABLE, LEDGERS, VERDICTS
from auditor.model.availability import LISTER_CONTRADICTED
from auditor.model.cluster import ClusterFacts, Surroundings
from auditor.model.evidence import Terms
from auditor.model.finding import Kind
from auditor.stop import StopRequest
from auditor.summary.about import About
from auditor.telemetry import log
from auditor.telemetry.progress import Silent

LOCATIONS = {"b1": "/r1", "b2": "/r1", "b3": "/r2", "b4": "/r2/deep"}
CONTRADICTED = {"detail": LISTER_CONTRADICTED}
ENSEMBLES = {1: ["b1", "b2"], 2: ["b1", "b3"], 3: ["b3", "b4"]}


def filled(schema: pa.Schema, rows: list[dict[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist([dict.fromkeys(schema.names) | row for row in rows], schema=schema)


def stored(
    home: Path,
    age: timedelta = timedelta(hours=1),
    silent: bool = False,
    partial: bool = False,
    unread: int | None = None,
    contradicts: bool = False,
    carried: tuple[int, ...] = (),
    greeting: str = "answered",
    spoiled: str = "",
    locations: dict[str, str] = LOCATIONS,
    **changes: Any,
) -> str:
    """Write a run of three closed ledgers and an open one on four bookies, and return its
    directory. If `silent`, b4 did not answer about ledger 3. The metadata of ledger `unread` could
    not be read, or contradicts itself. The run carried over the verdicts on the ledgers `carried`,
    and b4 greeted it with `greeting`. With `spoiled`, the verdict on ledger 3 got this reason
    afterwards; if that is "answer_invalid", b4 contradicted its lister.

    `changes` replace fields of the summary.
    """
    directory = home / "run-20260101T030000Z-000001"
    directory.mkdir()
    run = place(str(directory))
    started = rfc3339(utc_now() - age)
    plain = report_stories.summary(started_at=started, run_id="the-run")
    summary = replace(plain, ledgers=replace(plain.ledgers, listed=4)).as_json()
    (directory / "summary.json").write_text(json.dumps(summary | changes))
    facts = ClusterFacts("zk://h:1/ledgers", ("h:1",), "/ledgers", "flat", None, False, None)
    terms = replace(Terms(1, 2, 3, 4), around=Surroundings(locations=locations))
    about = About("the-run", started, facts, terms, "warning", False, partial)
    (directory / "run.json").write_text(json.dumps(about.as_json()))
    quorums = {"ensemble_size": 2, "write_quorum": 2, "ack_quorum": 1}
    common = {"look": 1, "status": "found", "last_entry_id": 9, **quorums, "length_bytes": 100}
    ledgers = [
        {
            **common,
            "ledger_id": n,
            "state": "CLOSED",
            "segments": [{"first_entry_id": 0, "ensemble": ensemble}],
        }
        for n, ensemble in ENSEMBLES.items()
    ]
    ledgers.append(ledgers[0] | {"ledger_id": 4, "state": "OPEN", "last_entry_id": None})
    of_unread = {"status": "unreadable", "state": None, "last_entry_id": None, "segments": None}
    if contradicts:
        of_unread = {"write_quorum": 3}
    ledgers = [one | of_unread if one["ledger_id"] == unread else one for one in ledgers]
    run.write_table("evidence/ledgers", filled(LEDGERS, ledgers), "all")
    counts = {"copies_expected": 20, "copies_listed": 20, "copies_read": 0, "copies_assumed": 0}
    verdicts = [{"ledger_id": n, "unknowns": [], "lacks": [], **counts} for n in range(1, 5)]
    if silent:
        verdicts[2] |= {"unknowns": ["bookie_silent"], "copies_listed": 10}
    if spoiled:
        verdicts[2] |= {"unknowns": [spoiled]}
        changes |= {"indeterminate": {spoiled: 1}}
        (directory / "summary.json").write_text(json.dumps(summary | changes))
    if carried:
        rows = [{"ledger_id": n, "run_id": "before", "listed_at_ms": 1} for n in carried]
        run.write_table(CARRIED_TABLE, filled(CARRIED, rows), "carried")
    run.write_table("verdicts", filled(VERDICTS, verdicts), "all")
    answers: list[dict[str, Any]] = [
        {
            "bookie_id": b,
            "ledger_id": n,
            "look": 1,
            "status": "silent" if silent and b == "b4" else "held",
        }
        for n, ensemble in ENSEMBLES.items()
        if n not in carried
        for b in ensemble
    ]
    if spoiled == "answer_invalid":
        answers.append({"bookie_id": "b4", "look": 1, "status": "answered", **CONTRADICTED})
    run.write_table("evidence/answers", filled(ANSWERS, answers), "all")
    bookies = [
        {
            "bookie_id": b,
            "look": 1,
            "registration": "writable",
            "greeting": greeting if b == "b4" else "answered",
            "host": b,
            "total_bytes": 1_000,
            "free_bytes": 400,
        }
        for b in LOCATIONS
    ]
    run.write_table("evidence/bookies", filled(BOOKIES, bookies), "all")
    return str(directory)


def said(run_dir: str, *without: str, **flags: str) -> tuple[int, str]:
    out = io.StringIO()
    settings = parse(Layers(flags=flags), command="margin")
    context = Context(settings, out, log.setup(stream=io.StringIO()), Silent(), StopRequest())
    return margin(context, run_dir, without), out.getvalue()


def test_a_loss_of_the_last_copy_is_exit_code_1(tmp_path: Path):
    """b1 and b2 hold all copies of ledger 1, whose id is named."""
    code, text = said(stored(tmp_path), "b1", "b2")
    assert 1 == code
    assert "Without 2 bookies (b1, b2):" in text
    assert "no copy of some entry 1 ledger 1" in " ".join(text.split())
    assert (
        text.splitlines()[-1] == "auditor: MARGIN run=the-run exit=1 no_copy=1 may_have_no_copy=0"
    )


def test_a_bookie_that_may_go_is_exit_code_0(tmp_path: Path):
    """Every ledger has another copy."""
    assert 0 == said(stored(tmp_path), "b1")[0]


def test_a_loss_that_is_not_ruled_out_is_exit_code_3(tmp_path: Path):
    """Ledger 3 has its other copy on b4, which was silent."""
    code, text = said(stored(tmp_path, silent=True), "b3")
    assert 3 == code and "not ruled out for 1 more ledger 3" in " ".join(text.split())


@pytest.mark.parametrize("greeting", ["silent", "refused", "unsupported", "unregistered"])
def test_an_earlier_list_of_a_bookie_that_is_silent_now_vouches_for_no_copy(
    tmp_path: Path, greeting: str
):
    """The counts of ledger 3 are those of the run before."""
    reason = "bookie_silent" if greeting == "unregistered" else f"bookie_{greeting}"
    run = stored(tmp_path, carried=(1, 3), greeting=greeting, spoiled=reason)
    document = json.loads(said(run, "b3", format="json")[1])
    assert (3, [3]) == (document["exit_code"], document["may_have_no_copy"]["ids"])
    assert 0 == said(run, "b4")[0]


def test_earlier_lists_of_bookies_that_answer_count(tmp_path: Path):
    assert 0 == said(stored(tmp_path, carried=(1, 2, 3)), "b3")[0]


def test_what_a_bookie_cannot_list_now_is_doubtful_in_carried_ledgers_only(tmp_path: Path):
    """The verdict on the other ledger counts what was read or assumed instead."""
    run = stored(tmp_path, carried=(1,), greeting="unsupported")
    assert 0 == said(run, "b3")[0]


@pytest.mark.parametrize("carried", [(), (3,)])
def test_a_list_of_a_lister_that_its_bookie_contradicted_vouches_for_no_copy(
    tmp_path: Path, carried: tuple[int, ...]
):
    """It was counted before the bookie contradicted it."""
    run = stored(tmp_path, carried=carried, spoiled="answer_invalid")
    document = json.loads(said(run, "b3", format="json")[1])
    assert (3, [3]) == (document["exit_code"], document["may_have_no_copy"]["ids"])


def test_a_bookie_that_could_not_send_what_it_lists_vouches_for_no_copy(
    tmp_path: Path,
):
    run = stored(tmp_path)
    (Path(run) / UNCHECKED).write_text(unchecked(Kind.BOOKIE_LOST_CONTENT, "b4"))
    assert 0 == said(run, "b3")[0]
    (Path(run) / UNCHECKED).write_text(unchecked(Kind.BOOKIE_UNREADABLE_ENTRIES, "b4"))
    document = json.loads(said(run, "b3", format="json")[1])
    assert (3, [3]) == (document["exit_code"], document["may_have_no_copy"]["ids"])


def test_old_evidence_is_exit_code_3_unless_it_shows_a_loss(tmp_path: Path):
    """The text names the setting that bounds the age."""
    run = stored(tmp_path, timedelta(hours=30))
    code, text = said(run, "b1")
    assert 3 == code and "older than --evidence-age-max" in " ".join(text.split())
    assert 1 == said(run, "b1,b2")[0]
    assert 0 == said(run, "b1", evidence_age_max="31h")[0]


def test_a_location_stands_for_its_bookies_and_those_below_it(tmp_path: Path):
    """/r2 has b3, and b4 at /r2/deep: ledger 3 is lost."""
    code, text = said(stored(tmp_path), "/r2", format="json")
    document = json.loads(text)
    assert (1, ["b3", "b4"], [3]) == (code, document["bookies"], document["no_copy"]["ids"])
    assert document["ledgers"] == {"in_order": 3, "unconfirmed": 0, "others": 1, "unread": 0}


def test_the_room_on_other_bookies_is_shown(tmp_path: Path):
    """b1 holds two ledgers of 100 bytes. The three others are 95 % full at 50 free bytes."""
    run = stored(tmp_path)
    room = {"bytes_to_move": 200, "room_bytes": 1_050, "room_near_bytes": 350}
    room |= {"room_unshared_bytes": 1_050, "bookies_known": 3, "bookies_unknown": 0}
    assert room == json.loads(said(run, "b1", format="json")[1])["absorption"]
    sentence = "200 B of closed ledgers. 3 other bookies have room for 1.0 KiB, up to 95 % of each"
    assert sentence in " ".join(said(run, "b1")[1].split())


def test_without_a_question_every_bookie_and_location_is_shown(tmp_path: Path):
    """Ledgers are counted by the copies that their worst entry has."""
    code, text = said(stored(tmp_path))
    words = [line.split() for line in text.splitlines()]
    assert 0 == code
    assert ["2", "copies", "3", "ledgers"] in words and ["/r1", "1", "0", "1", "0"] in words
    assert "no closed ledger would have fewer copies than the ack quorum" in text
    left_out = "Left out because they are not closed, are deleted, or have no entry: 1 ledger."
    assert left_out in " ".join(text.split())
    assert "metadata" not in text


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("b11", "did you mean b1?"),
        ("/r9", "locations it knows: /r1, /r2, /r2/deep"),
        ("", "no closed ledger whose metadata is understood names"),
    ],
)
def test_a_name_that_nobody_knows_is_refused(tmp_path: Path, name: str, says: str):
    """A misspelt bookie must not pass the gate."""
    with pytest.raises(ConfigError) as refused:
        said(stored(tmp_path), name)
    assert says in str(refused.value)


def test_the_table_by_bookie_says_what_is_not_ruled_out(tmp_path: Path):
    """b3 holds the only sure copy of ledger 3. b4 was silent and may hold another: without b3,
    entries may be lost.
    """
    run = stored(tmp_path, silent=True)
    document = json.loads(said(run, format="json")[1])
    row = {"no_copy": 0, "may_have_no_copy": 1, "below_ack_quorum": 0, "may_be_below_ack_quorum": 1}
    assert {"b3": row} == document["bookies"]


def test_the_age_counts_from_the_start_of_the_run(tmp_path: Path):
    """What was read first is that old, however long the run took."""
    run = stored(tmp_path, timedelta(hours=30), finished_at=rfc3339(utc_now()))
    assert 3 == said(run, "b1")[0]


def test_a_run_of_the_future_is_too_old(tmp_path: Path):
    """A clock is wrong, and the age of the run is unknown."""
    code, text = said(stored(tmp_path, timedelta(hours=-1)), "b1")
    assert 3 == code and "started in the future" in " ".join(text.split())


def test_a_run_of_named_ledgers_is_never_exit_code_0(tmp_path: Path):
    """Other ledgers may be on that bookie."""
    run = stored(tmp_path, partial=True)
    assert (3, 3, 1) == (said(run, "b1")[0], said(run)[0], said(run, "b1,b2")[0])


@pytest.mark.parametrize("contradicts", [False, True])
def test_a_run_that_could_not_read_some_metadata_is_never_exit_code_0(
    tmp_path: Path, contradicts: bool
):
    """The last copy of ledger 3 may be on any bookie, also if its metadata contradicts itself. A
    sure loss of another ledger is still exit code 1.
    """
    run = stored(tmp_path, unread=3, contradicts=contradicts)
    assert (3, 3, 1) == (said(run, "b4")[0], said(run)[0], said(run, "b1,b2")[0])


def test_ledgers_without_readable_metadata_are_counted_apart(tmp_path: Path):
    """They are not said to be open or empty. The other sentences are about the ledgers that were
    read.
    """
    run = stored(tmp_path, unread=3)
    asked, cluster = (" ".join(said(run, *without)[1].split()) for without in (["b4"], []))
    unknown = (
        "on 2 closed ledgers of the cluster whose metadata is understood. The metadata of 1"
        " ledger could not be read or understood: what it would lose is not known. Left out because"
        " they are not closed, are deleted, or have no entry: 1 ledger."
    )
    assert unknown in asked and unknown in cluster
    assert "Without 1 bookie (b4), of the 2 closed ledgers whose metadata is understood:" in asked
    assert (
        "none of the 2 closed ledgers whose metadata is understood would have fewer copies than the"
        " ack quorum" in cluster
    )
    document = json.loads(said(run, format="json")[1])
    assert {"in_order": 2, "unconfirmed": 0, "others": 1, "unread": 1} == document["ledgers"]
    assert 3 == document["exit_code"]


def test_a_location_never_passes_while_bookies_have_no_location(tmp_path: Path):
    """b4 may be in that rack too."""
    run = stored(tmp_path, locations={"b1": "/r1", "b2": "/r2", "b3": "/r3"})
    code, text = said(run, "/r3")
    assert 3 == code and "The location of 1 bookie that ledgers name is not known" in " ".join(
        text.split()
    )
    assert 0 == said(run, "b3")[0]


@pytest.mark.parametrize(
    "table", ["verdicts", "evidence/ledgers", "evidence/bookies", "evidence/answers"]
)
def test_a_run_that_lost_a_table_is_refused(tmp_path: Path, table: str):
    """A lost table does not mean that there is nothing to lose."""
    run = stored(tmp_path, silent=True)
    place(run).remove(table)
    with pytest.raises(ConfigError, match=table):
        said(run, "b1")


@pytest.mark.parametrize(
    ("table", "schema"), [("verdicts", VERDICTS), ("evidence/ledgers", LEDGERS)]
)
def test_a_run_that_lost_rows_is_refused(tmp_path: Path, table: str, schema: pa.Schema):
    """A file of a table may be gone while others are there."""
    run = stored(tmp_path)
    rows = place(run).read_table(table, schema)
    place(run).write_table(table, rows.slice(0, 3), "all")
    with pytest.raises(ConfigError, match="a part of what the run stored is lost"):
        said(run, "b1")


@pytest.mark.parametrize("started_at", ["2026-01-01T03:00:00", "yesterday", None])
def test_a_start_that_is_not_a_time_is_refused(tmp_path: Path, started_at: str | None):
    """A summary may have been edited."""
    with pytest.raises(ConfigError, match="started_at is not a time with an offset"):
        said(stored(tmp_path, started_at=started_at), "b1")


def test_a_run_id_cannot_forge_the_last_line(tmp_path: Path):
    """It comes from a file that anybody may have written."""
    _, text = said(stored(tmp_path, run_id="x\nauditor: MARGIN run=x exit=0"), "b1", "b2")
    assert text.splitlines()[-1].startswith("auditor: MARGIN run=x\\n")


def test_what_is_not_a_finished_run_is_refused(tmp_path: Path):
    """Its directory has no summary."""
    with pytest.raises(ConfigError, match="not the directory of a finished run"):
        said(str(tmp_path), "b1")
