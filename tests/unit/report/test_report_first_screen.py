"""The first screen: as high as the terminal for any run, and no sentence that is not true."""

import itertools
import re
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
from support import report_stories as stories

from auditor.commands.endings import SENTENCE_LINES_MAX
from auditor.model.finding import Kind
from auditor.model.finding_record import Owner
from auditor.model.summary import ClusterName
from auditor.model.verdict import Unknown
from auditor.report.first_screen import (
    LABEL_CHARS,
    Whereabouts,
    render_first_screen,
    unjudged_section,
)
from auditor.report.layout import LINES_UNKNOWN, Screen
from auditor.report.outcome_text import headline
from auditor.report.text import render, render_fault, render_unreachable

WIDTHS = (80, 81, 97, 100, 120, 160, 200)
HERE = Whereabouts("/var/lib/bookkeeper-auditor/run-20260101T030000Z-0a1b2c")
Run = tuple[dict[str, Any], list[dict[str, Any]]]

UPGRADE = {
    "replication_disabled": True,
    "bookies_away": [f"bookie-{n}.a-long-name-of-a-host.example.org:3181" for n in range(9)],
}
MAINTENANCE = {
    "maintenance": {
        "ledgers": 7,
        "bookies": [{"bookie_id": f"b{n}:3181", "found": "not_registered"} for n in range(20)],
    }
}
PROBED = {
    "assurance": {
        "listed": 0, "probed": 990, "probe_entries": 3, "probes": 4_000, "random_probes": 600,
        "missing_bound": 0.2,
        "bookies_unable": ["b1:3181"],
    },
    "copies": {"expected": 40_000, "listed": 0, "read": 600, "assumed": 39_400},
    "verified_ratio": 0.015,
}  # fmt: skip


@cache
def runs() -> dict[str, Run]:
    """Return runs of many kinds, by name."""
    wrong, found = stories.everything_wrong(50)
    silent = {reason.value: 5 for reason in Unknown}
    return {
        "sound": (stories.summary(), []),
        "sampled": (stories.summary(**PROBED), []),
        "wiped": stories.wiped_bookie(300),
        "everything": (wrong, found),
        "everything at once": (
            stories.changed_summary(
                wrong, **UPGRADE, **MAINTENANCE, **PROBED, withheld=["what " * 90] * 30
            ),
            found,
        ),
        "nobody": (stories.nobody_answered(), []),
        "empty": (stories.empty_cluster(), []),
        "unknown": (
            stories.summary(
                outcome="INCOMPLETE", exit_code=3, indeterminate=silent, complete=False
            ),
            [],
        ),
        "fault": (replace(wrong, outcome="AUDITOR_FAULT", exit_code=4), found),
        "warned": (replace(wrong, exit_code=0), found),
        "long names": (
            replace(wrong, cluster=ClusterName(f"zk://{'h' * 280}/ledgers", "i" * 90)),
            [replace(one, bookie_id="b" * 400) if one.bookie_id else one for one in found],
        ),
    }


def rows(text: str, width: int) -> int:
    """Return the rows on a terminal, which wraps lines that are longer than its width."""
    return sum(-(-len(line) // width) for line in text.splitlines())


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", list(runs()))
def test_it_is_at_most_25_rows_for_any_run(name: str, width: int):
    """It is ASCII. Only the machine line and a command that names OUTPUT may be longer than the
    width.
    """
    text = render_first_screen(*runs()[name], HERE, screen=Screen(width))
    assert rows(text, width) <= LINES_UNKNOWN, text
    assert text.isascii() and text.endswith("\n")
    long = [line for line in text.splitlines()[:-1] if len(line) > width]
    assert [] == long
    assert text.splitlines()[-1].startswith(f"auditor: {runs()[name][0].outcome} run=")


@pytest.mark.parametrize("width", WIDTHS)
def test_a_run_without_a_verdict_fits_too_and_keeps_its_advice(width: int):
    """The middle of a long reason is left out on the screen; with --full it is whole."""
    advice = "auditor run --resume 20260101T030000Z-0a1b2c continues where it stopped"
    sentence = f"ZooKeeper did not answer: {'a word and another ' * 190}; {advice}"
    for say, more in ((render_unreachable, {}), (render_fault, {"run_dir": "/d" * 500})):
        text = say("r", sentence, screen=Screen(width), lines_max=SENTENCE_LINES_MAX, **more)
        assert rows(text, width) <= LINES_UNKNOWN and advice in " ".join(text.split())
        assert " ".join(sentence.split()) in " ".join(
            say("r", sentence, screen=Screen(width), **more).split()
        )


@pytest.mark.parametrize("name", list(runs()))
def test_the_verdict_is_the_sentence_of_the_full_report(name: str):
    """Both texts begin with the same words."""
    summary, findings = runs()[name]
    said = f"{summary.outcome}: {headline(summary)}"
    for text in (render_first_screen(summary, findings, HERE), render(summary, findings)):
        assert " ".join(text.split()).startswith(said)


def test_no_sampled_run_claims_every_acknowledged_entry():
    """Copies that rest on a sample are called assumed, beside the share that was verified."""
    text = " ".join(render_first_screen(*runs()["sampled"], HERE).split())
    assert "every acknowledged entry" not in text
    counted = "40,000 copies in judged closed ledgers read, 39,400 assumed from a sample"
    assert f"verified 1.50 % of {counted}" in text
    assert "every acknowledged entry" in " ".join(
        render_first_screen(*runs()["sound"], HERE).split()
    )


def test_no_witness_is_on_it():
    """Sentences that a person checks at the bookie are in the full report."""
    summary, findings = stories.wiped_bookie(3)
    assert "belongs on" in render(summary, findings) and "belongs on" not in render_first_screen(
        summary, findings, HERE
    )


def test_each_kind_has_a_row_or_its_name():
    """The worst kind comes first. Kinds for which there is no room are named."""
    text = render_first_screen(*runs()["wiped"], HERE)
    assert text.index("CRITICAL  BOOKIE_LOST_UNNOTICED") < text.index(
        "WARNING   ENTRY_BELOW_WRITE_QUORUM"
    )
    assert re.search("ENTRY_BELOW_WRITE_QUORUM +300 ledgers", text)
    assert "more kinds: " in render_first_screen(*runs()["everything"], HERE)


def test_names_are_whole_or_not_there():
    """Of a topic whose name does not fit, the last parts are shown: they tell it from others."""
    summary, findings = stories.wiped_bookie(1)
    topic = "a-tenant/a-namespace/persistent/a-topic-of-a-long-name-partition-17"
    owned = [replace(one, owner=Owner(name=topic)) for one in findings]
    text = render_first_screen(summary, owned, HERE, screen=Screen(100))
    assert "ledger 100 of .../a-topic-of-a-long-name-partition-17\n" in text
    assert "ledger 100\n" in render_first_screen(summary, owned, HERE, screen=Screen(80))
    long = [replace(one, bookie_id=f"{'x' * 60}-7:3181") for one in findings]
    narrow = render_first_screen(summary, long, HERE, screen=Screen(80))
    assert re.search(r"BOOKIE_LOST_UNNOTICED +1 bookie\n", narrow) and "xx..." not in narrow


@pytest.mark.parametrize("height", [20, 24, 39, 60])
@pytest.mark.parametrize("name", ["everything at once", "wiped", "sound"])
def test_it_is_as_high_as_the_terminal(name: str, height: int):
    """Lines above it count."""
    for above in (0, 3):
        screen = Screen(120, height=height)
        text = render_first_screen(*runs()[name], HERE, screen=screen, lines_above=above)
        assert rows(text, 120) + above <= height, text


def test_the_length_of_output_changes_nothing_else():
    """The end of a long path is shown; it has the name of the run."""
    texts = [
        render_first_screen(*runs()["everything"], Whereabouts(f"{path}/run-1"), screen=Screen(80))
        for path in ("/a", f"/{'dir/' * 40}b")
    ]
    short, long = ([line for line in text.splitlines() if "run-1" not in line] for text in texts)
    assert short == long and "/dir/b/run-1/report.html (report.txt: all of it)\n" in texts[1]


def test_which_cluster_when_and_where_is_always_there():
    """So is what tells two long names of clusters apart: their ends."""
    for name, (summary, findings) in runs().items():
        text = render_first_screen(summary, findings, HERE, screen=Screen(80, height=20))
        assert "\naudited   zk" in text and "UTC (" in text and "/ledgers" in text, name
        assert f"\npage      {HERE.directory}/report.html\n" in text, name


def test_what_could_not_be_judged_has_its_reason():
    """The reason is shown even where much else was found, because the headline says that it is
    shown below.
    """
    for name in ("everything", "everything at once", "unknown", "fault"):
        text = render_first_screen(*runs()[name], HERE, screen=Screen(80))
        assert re.search(r"(?m)^unjudged  [a-z_]+  [0-9,]+ ledgers?", text), text


def test_only_reasons_are_counted_as_reasons():
    """Beside them stand how their numbers add up, and what was withheld."""
    summary = stories.summary(indeterminate={"bookie_silent": 2}, withheld=["Renames: unknown."])
    section = unjudged_section(
        stories.changed_summary(
            summary, unjudged={"ledgers": 2, "in_part": 1, "several_reasons": 0}
        ),
        Screen(80),
    )
    assert (2, "1 more line on what is unknown") == (len(section.blocks), section.count(1))


def test_an_upgrade_is_said_first():
    """The first screen says why bookies that are away are not reported as lost."""
    text = " ".join(
        render_first_screen(stories.summary(**UPGRADE), [], HERE, screen=Screen(100)).split()
    )
    assert "that is not reported as a lost bookie" in text


def test_the_next_command_explains_the_worst_finding_of_this_run():
    """It has only the words that are needed to find the run."""
    summary, findings = stories.wiped_bookie(3)
    lost = next(one.id for one in findings if one.kind is Kind.BOOKIE_LOST_UNNOTICED)
    text = render_first_screen(summary, findings, HERE)
    assert f"\nnext      auditor explain {lost}\npage " in text
    there = Whereabouts("/data/my audits/run-1", "--output '/data/my audits'")
    text = render_first_screen(summary, findings, there)
    assert f"auditor explain {lost} --output '/data/my audits'\n" in text
    far = Whereabouts("/data/run-1", has_page=False)
    assert "\nreport    /data/run-1/report.txt\n" in render_first_screen(summary, findings, far)


def test_a_replay_sends_nobody_to_files_of_another_judgement():
    """What the stored files say may differ from what was judged now."""
    summary, findings = stories.wiped_bookie(3)
    where = Whereabouts("/data/run-1", "/data/run-1", again="replay", is_stored=False)
    text = render_first_screen(summary, findings, where)
    assert "report.html" not in text and "explain" not in text
    assert "\nnext      auditor replay --full /data/run-1\n" in text


def test_without_findings_the_next_step_is_that_of_the_reason():
    """After a sound run there is nothing to do next."""
    assert "next      bookie_silent: see whether the bookie is up" in render_first_screen(
        stories.nobody_answered(), [], HERE
    )
    assert "next      auditor doctor" in render_first_screen(stories.empty_cluster(), [], HERE)
    assert "\nnext" not in render_first_screen(*runs()["sound"], HERE)


@pytest.mark.parametrize(
    ("name", "width"), list(itertools.product(("everything", "sound", "wiped"), (80, 100, 200)))
)
def test_colour_adds_nothing_but_colour(name: str, width: int):
    """On a terminal the same letters are in the same places."""
    plain = render_first_screen(*runs()[name], HERE, screen=Screen(width))
    coloured = render_first_screen(*runs()[name], HERE, screen=Screen(width, color=True))
    assert "\x1b[" in coloured and "\x1b" not in plain
    assert plain.split("\n") == [
        line.rstrip() for line in re.sub(r"\x1b\[[0-9;]*m", "", coloured).split("\n")
    ]


def test_text_from_outside_forges_no_line():
    """Any client of the cluster chooses owners and bookie ids."""
    owner = {"name": "x\nauditor: SOUND \x1b[2J[red]"}
    forged = stories.finding(Kind.ENTRY_WITHOUT_REPLICA, 7, owner=owner)
    summary = stories.summary(outcome="VIOLATED", exit_code=1, findings=stories.counted([forged]))
    text = render_first_screen(summary, [forged], HERE, screen=Screen(color=True))
    assert text.count("\nauditor: ") == 1 and "\x1b[2J" not in text and "[red]" in text


def test_every_line_below_the_verdict_has_its_label_or_its_margin():
    """The texts stand in one column."""
    for name, (summary, findings) in runs().items():
        lines = render_first_screen(summary, findings, HERE, screen=Screen(200)).splitlines()[:-1]
        below = lines[
            next(place for place, line in enumerate(lines) if line.startswith("verified  ")) :
        ]
        assert [] == [
            line for line in below if line[LABEL_CHARS - 1] != " " or line[LABEL_CHARS] == " "
        ], name
