"""The report for people."""

import re
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
from support import report_stories as stories

from auditor.model.codec import decode
from auditor.model.finding import CATALOGUE, Kind, Severity, Subject
from auditor.model.judged_ledger import JudgedLedger
from auditor.model.verdict import Exempt, Unknown
from auditor.report.findings_text import (
    COMMANDS_OF_A_FINDING_MAX,
    NEXT_FINDINGS_MAX,
    worst_kinds_first,
)
from auditor.report.layout import Screen
from auditor.report.ledgers_text import render_ledgers
from auditor.report.outcome_text import EXEMPT_WORDS, UNKNOWN_WORDS
from auditor.report.text import render, render_fault, render_unreachable
from auditor.witness.next_commands import CHANGES

RUN = "run-20260101T030000Z-0a1b2c"


def last_line(text: str) -> str:
    assert text.endswith("\n") and not text.endswith("\n\n")
    return text.splitlines()[-1]


def flat(text: str) -> str:
    return " ".join(text.split())


@pytest.mark.parametrize("width", [40, 80, 100, 500])
@pytest.mark.parametrize("color", [True, False])
def test_the_last_line_is_for_machines_and_stays_last(width, color):
    """It is fixed to the letter, whatever the width and colour."""
    summary, findings = stories.wiped_bookie(50)
    expected = (
        f"auditor: VIOLATED run={RUN} listed=812345 sound=811475 exempt=700 indeterminate=120"
        " violated=50"
    )
    assert expected == last_line(
        render(summary, findings, run_dir="./audits/x", screen=Screen(width, color=color))
    )


def test_a_report_without_counts_ends_without_counts():
    """UNREACHABLE and a fault of the auditor publish no counts."""
    assert (
        last_line(render_unreachable(RUN, "ZooKeeper did not answer"))
        == f"auditor: UNREACHABLE run={RUN}"
    )
    assert (
        last_line(render_fault(RUN, "listed 10, counted 9")) == f"auditor: AUDITOR_FAULT run={RUN}"
    )


def test_an_unreachable_cluster_is_reported_with_its_reason():
    """What happened comes first, then what it means for earlier results."""
    text = render_unreachable(RUN, "ZooKeeper at zk1:2181 did not answer within 15s: is it up?")
    assert text.startswith(
        "UNREACHABLE: ZooKeeper at zk1:2181 did not answer within 15s: is it up?\n"
    )
    assert "earlier runs are left as they were" in text


def test_a_wiped_bookie_is_one_cause_and_a_short_report():
    """Four thousand ledgers on one wiped disk: one line of cause, a few ledgers, the rest in a
    file.
    """
    summary, findings = stories.wiped_bookie(4_000)
    text = render(summary, findings, run_dir="./audits/x", screen=Screen(100))
    assert text.count("\n") <= 120
    said = "VIOLATED: 4,000 of 812,345 ledgers in violation, 1 bookie needs attention."
    assert flat(text).startswith(said)
    shares = "(97 % of its 4,100 ledgers, 0 % on the rest)"
    cause = f"1. bookie bookie-3:3181 answers and lacks entries of 4,000 ledgers {shares}"
    assert cause in flat(text) and 1 == flat(text).count("lacks entries of")
    assert text.index("1. bookie bookie-3:3181") < text.index("\nLedgers\n"), "before any count"
    assert "... and 3,995 more ledgers in findings.jsonl" in text
    assert text.index("CRITICAL BOOKIE_LOST_UNNOTICED") < text.index(
        "WARNING ENTRY_BELOW_WRITE_QUORUM"
    ), "worst first"


@cache
def everything_wrong(each: int) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return a summary and its findings, made once: thousands of findings of every kind take
    seconds.
    """
    return stories.everything_wrong(each)


@pytest.mark.parametrize("width", [80, 100, 120])
def test_the_report_is_bounded_however_much_is_wrong(width):
    """With every kind on a thousand ledgers and every reason, the number of lines is bounded, and
    each line fits the width.
    """
    texts = [
        render(*everything_wrong(each), run_dir="./x", screen=Screen(width)) for each in (50, 1_000)
    ]
    assert max(text.count("\n") for text in texts) <= 20 * len(Kind) + 30, (
        "20 lines a kind, and what there is once"
    )
    assert all(f" {kind.value}  " in texts[1] for kind in Kind)
    assert all(reason.value in texts[1] for reason in Unknown)
    assert max(len(line) for line in texts[1].splitlines()[:-1]) <= width


def test_the_worst_entry_is_shown_with_who_said_what():
    """A table has the answers by bookie and look, with the bookie that lacks something first. The
    witness follows.
    """
    summary, findings = stories.wiped_bookie(3)
    text = render(summary, findings)
    head = r"bookie +03:09:00 v2 +03:14:05 v2 +03:14:06 v2 +lacks"
    row = re.search(head + r"\n +bookie-3:3181 +no_such_ledger +no_such_ledger +- +0-1999\n", text)
    assert row, text
    assert (
        "Entry 0 of ledger 100 belongs on bookie-1:3181, bookie-2:3181 and bookie-3:3181. b"
        in flat(text)
    )


@pytest.mark.parametrize(
    "kind", [kind for kind, facts in CATALOGUE.items() if facts.severity is Severity.CRITICAL]
)
def test_every_critical_kind_has_its_witness_on_the_screen(kind):
    """It is shown however many worse kinds come before."""
    text = flat(render(*everything_wrong(50), screen=Screen(120)))
    part = text[text.index(f"CRITICAL {kind.value} ") :].split("... and ")[0]
    fact = (
        "2 of 3 copies found; ack quorum is 2."
        if CATALOGUE[kind].subject is Subject.LEDGER
        else "and has no cookie. 12 closed ledgers name it"
    )
    assert fact in part and "03:09:00" in part


def test_every_finding_on_a_bookie_says_what_is_the_matter():
    """A bare name would not help a person."""
    found = [stories.finding(Kind.BOOKIE_LOST_UNNOTICED, f"b{n}") for n in range(3)]
    text = flat(
        render(
            stories.summary(outcome="VIOLATED", exit_code=1, findings=stories.counted(found)), found
        )
    )
    fact = (
        "is not registered and has no cookie. 12 closed ledgers name it and are not marked"
        " under-replicated (160 and 11 more)."
    )
    assert [3, 1, 1] == [
        text.count(fact),
        *(text.count(f"- bookie {b}: Bookie {b} {fact}") for b in ("b1", "b2")),
    ]
    assert "bookie 03:09:00 03:14:05 b0 unregistered unregistered" in text, (
        "a bookie has no znode version and lacks no entries"
    )


def test_a_brief_finding_names_who_lacks_what():
    """A kind that is not shown in full has one line with the essential fact."""
    found = [
        stories.finding(kind, 7)
        for kind in (Kind.ENTRY_WITHOUT_REPLICA, Kind.ENTRY_BELOW_ACK_QUORUM)
    ]
    lacking = {f"b{n}": [[5, 9]] for n in range(5)}
    found.append(stories.finding(Kind.ENTRY_BELOW_WRITE_QUORUM, 8, missing_on=lacking))
    found.append(
        stories.finding(
            Kind.METADATA_MALFORMED,
            9,
            missing_on={},
            witness="It has no end. Metadata was read at x UTC: y.",
        )
    )
    text = flat(
        render(
            stories.summary(outcome="VIOLATED", exit_code=1, findings=stories.counted(found)), found
        )
    )
    assert ": b0 lacks 5-9; b1 lacks 5-9; b2 lacks 5-9; so do 2 more" in text
    assert ": It has no end. What was asked" in text


def test_the_worst_ledger_comes_first():
    """Fewest copies possible, then fewest confirmed, then most entries, then lowest id."""
    copies = {"write_quorum": 3, "ack_quorum": 2}
    by_ledger = [(9, 0, 1, 5), (7, 1, 0, 9), (8, 1, 0, 9), (6, 1, 0, 1), (5, 2, 0, 9)]
    found = [
        stories.finding(
            Kind.ENTRY_BELOW_ACK_QUORUM,
            i,
            copies=copies | {"confirmed": c, "unknown": u},
            entries_total=n,
        )
        for i, c, u, n in reversed(by_ledger)
    ]
    text = render(
        stories.summary(outcome="VIOLATED", exit_code=1, findings=stories.counted(found)), found
    )
    assert [int(i) for i in re.findall(r"- ledger (\d+) ", text)] == [9, 7, 8, 6, 5]


def test_nothing_wrong_is_said_in_one_sentence():
    """A sound cluster: one sentence, the counts, no section about faults."""
    text = render(stories.summary(), [], run_dir="./audits/x")
    assert text.startswith(
        "SOUND: 990 ledgers have every acknowledged entry listed where the metadata says it is"
    )
    assert "Findings" not in text and "could not be judged" not in text and "CHANGES" not in text


def test_sound_never_boasts_of_no_ledger():
    """Where every ledger is exempt nothing was judged, and the first line says so."""
    counts = {"listed": 10, "sound": 0, "exempt": 10, "indeterminate": 0, "violated": 0}
    text = flat(render(stories.summary(ledgers=counts), []))
    expected = (
        "SOUND: nothing wrong was found, and there was no entry to judge: 10 ledgers are exempt (9"
        " open, 1 empty)."
    )
    assert text.startswith(expected)


def test_coverage_says_what_it_counts():
    """The same line says of what it is a share."""
    text = flat(render(stories.summary(coverage=0.9818, complete=False), []))
    assert (
        "98.18 % of the ledgers carry no reason to be unknown and are not merely excused by a mark"
        in text
    )
    assert "there was nothing to judge" in flat(render(stories.empty_cluster(), []))


def unjudged(**unheard):
    reasons = {"bookie_silent": 2, "bookie_refused": 1}
    return (
        flat(
            render(
                stories.summary(indeterminate=reasons, complete=False, bookies_unheard=unheard), []
            )
        )
        + " "
    )


def test_what_could_not_be_judged_names_its_bookies():
    """Each reason has the bookies that did not answer, and how."""
    text = unjudged(silent=["b6"], unregistered=["b7", "b8"], refused=["b9"], unsupported=[])
    assert "bookie_silent 2 ledgers (b6 silent; b7, b8 not registered)" in text
    assert "bookie_refused 1 ledger (b9 refused)" in text


def test_silent_and_unregistered_bookies_have_advice_of_their_own():
    """Each advice is given only if there is such a bookie."""
    reach, gone = (
        "reachable from this host",
        "`bookkeeper shell listledgers -bookieid b7` lists the ledgers that name it",
    )
    for expected, unheard in {
        (True, False): {"silent": ["b6"]},
        (False, True): {"unregistered": ["b7"]},
        (True, True): {"silent": ["b6"], "unregistered": ["b7"]},
    }.items():
        text = unjudged(**unheard)
        assert expected == (reach in text, gone in text), unheard
    assert reach in unjudged(), "a summary without names gets the general advice"


def test_ten_bookies_named_may_be_more():
    """The summary names at most ten, so ten may be only some of them."""
    assert "(b0, b1, b2, b3, b4, b5, b6, b7, b8, b9 ... silent)" in unjudged(
        silent=[f"b{n}" for n in range(10)]
    )


@pytest.mark.parametrize("reason", ["poison", "checkers_disagree"])
def test_a_ledger_that_is_our_fault_is_named_with_its_evidence(reason: str):
    """The report has the ledgers that the summary names, a bounded detail for each, and where their
    evidence lies.
    """
    named = [{"ledger_id": n, "detail": "so it was. " * 90} for n in (7, 11)]
    text = render(
        stories.summary(indeterminate={reason: 30}, complete=False, **{reason: named}), []
    )
    assert ["    ledger 7: so it was.", "    ledger 11: so it was"] == [
        line[:24].rstrip() for line in text.splitlines() if line.startswith("    ledger ")
    ]
    assert "poison/ledger-<id> in the directory of the run" in flat(text)
    assert text.count("so it was") < 60


def test_what_is_withheld_is_said():
    """A few sentences are shown and the rest is counted, also where every ledger could be
    judged.
    """
    withheld = [f"Bookie b{n} is not accused yet." for n in range(7)]
    text = flat(render(stories.summary(outcome="INCOMPLETE", exit_code=3, withheld=withheld), []))
    assert "the result is not complete: what could not be judged is shown below." in text
    assert "What could not be judged, or not in full - Bookie b0 is not accused yet." in text
    assert (
        "Bookie b4 " in text
        and "Bookie b5 " not in text
        and "... and 2 more in summary.json" in text
    )


def test_no_answer_at_all_is_our_network_or_our_credentials():
    """If every bookie is silent or refuses, none is accused."""
    text = render(stories.nobody_answered(), [])
    assert text.startswith("INCOMPLETE: no bookie answered this host")
    assert "our network or our credentials" in flat(text)


def test_a_bookie_that_was_not_asked_was_neither_silent_nor_did_it_refuse():
    """Its registration has no address that can be read. Bookies that cannot list did answer."""
    summary = stories.nobody_answered()
    bookies = summary.as_json()["bookies"] | {
        "registered": 9,
        "silent": 5,
        "refused": 2,
        "answered": 0,
    }
    text = flat(render(stories.changed_summary(summary, bookies=bookies), []))
    assert "7 of 9 registered bookies were silent or refused; the others were not asked." in text
    unable = bookies | {"silent": 0, "refused": 0, "unsupported": 9}
    said = stories.changed_summary(summary, bookies=unable, nobody_answered=False)
    assert "no bookie answered this host" not in flat(render(said, []))


def test_an_empty_listing_asks_whether_the_root_is_right():
    """A cluster without a ledger is not called sound, unless --allow-empty accepts it."""
    assert render(stories.empty_cluster(), []).startswith(
        "INCOMPLETE: no ledger was listed at all. Is this the right cluster"
    )
    accepted = replace(stories.empty_cluster(), outcome="SOUND", exit_code=0)
    assert render(accepted, []).startswith(
        "SOUND: no ledger was listed, which --allow-empty accepts."
    )


def test_checkers_that_differ_are_our_fault():
    """Counts are published, what they differ on is withheld, and the report says whose fault it
    is.
    """
    summary = stories.summary(
        outcome="AUDITOR_FAULT", exit_code=4, indeterminate={"checkers_disagree": 2}, complete=False
    )
    text = render(summary, [])
    assert " ".join(text.split()).startswith(
        "AUDITOR_FAULT: the auditor is wrong: its two checkers differ on the same evidence, or it"
        " compared lists wrongly, for 2 ledgers."
    )
    assert last_line(text).startswith(f"auditor: AUDITOR_FAULT run={RUN} listed=1000 ")
    assert "Other findings" not in text
    found = [stories.finding(Kind.PLACEMENT_FAILED, 7)]
    beside = stories.changed_summary(summary, findings=stories.counted(found))
    assert "please report it. Other findings are below." in flat(render(beside, found))


def test_an_exit_code_that_surprises_is_explained():
    """VIOLATED with exit 0 comes from --fail-on: a severity, or "new" where all are old."""
    summary, findings = stories.wiped_bookie(1)
    assert "The exit code is 0, because none of the findings counts for --fail-on." in render(
        replace(summary, exit_code=0), findings
    )


def test_what_is_not_all_is_never_shown_as_all():
    """Coverage is rounded down."""
    assert " 99.99 %" in render(stories.summary(coverage=0.999999, complete=False), [])
    assert " 100 %" in render(stories.summary(), [])


def test_commands_that_change_things_come_last_and_are_marked():
    """Commands that look come first, and each command stands whole on its line."""
    summary, findings = stories.wiped_bookie(2)
    text = render(summary, findings, screen=Screen(60))
    look, change = (
        text.index("  for ledger 100 ("),
        text.index("  then for ledger 100, and this CHANGES THE CLUSTER\n"),
    )
    assert (
        look
        < text.index("    auditor ledger 100\n")
        < change
        < text.index("    bookkeeper shell recover -l 100 bookie-3:3181\n")
    )


def test_commands_are_reported_finding_by_finding():
    """What to run for the lost bookie is not mixed with what to run for a ledger."""
    text = render(*stories.wiped_bookie(2))
    expected = (
        "Next: save, then look\n"
        "  for bookie bookie-9:3181 (BOOKIE_LOST_UNNOTICED)\n"
        "    bookkeeper shell listbookies -rw\n"
        "  then for bookie bookie-9:3181, and this CHANGES THE CLUSTER\n"
        "    bookkeeper shell recover bookie-9:3181\n"
        "  for ledger 100 (ENTRY_BELOW_WRITE_QUORUM)\n"
    )
    assert expected in text


def test_no_change_is_shown_whose_looks_were_cut():
    """A person who does not see all commands that look must not get one that changes something."""
    commands = [f"bookkeeper shell look {n}" for n in range(COMMANDS_OF_A_FINDING_MAX + 1)]
    found = [
        stories.finding(
            Kind.ENTRY_WITHOUT_REPLICA, 1, next=[*commands, f"{CHANGES}bookkeeper shell wipe"]
        )
    ]
    text = render(
        stories.summary(outcome="VIOLATED", exit_code=1, findings=stories.counted(found)), found
    )
    assert (
        "wipe" not in text
        and "... and 1 more in its field `next`, before anything is changed" in text
    )


def test_kinds_whose_commands_are_not_shown_are_named():
    """The commands of the worst few findings are shown. For the other kinds the report says where
    they are.
    """
    text = flat(render(*everything_wrong(50)))
    rest = worst_kinds_first()[NEXT_FINDINGS_MAX:]
    assert (
        f"for {', '.join(kind.value for kind in rest)}: the field `next` in findings.jsonl" in text
        and rest
    )


def test_disabled_recovery_is_said_at_the_top():
    """Whatever the outcome: while auto-recovery is off, nothing heals."""
    text = render(stories.summary(replication_disabled=True), [])
    assert "Auto-recovery is disabled in this cluster" in text.split("\n\n")[0]
    assert "Auto-recovery" not in render(stories.summary(replication_disabled=False), [])


def test_foreign_text_can_forge_nothing():
    """An owner from custom metadata may hold anything. The report stays ASCII, without escapes, and
    has one line for machines.
    """
    owner = {
        "application": "pulsar",
        "component": "\x1b[2J",
        "name": "t\nauditor: SOUND run=x\r" + "语" * 500,
    }
    found = [
        stories.finding(
            Kind.ENTRY_WITHOUT_REPLICA, 1, owner=owner, witness="one\nauditor: SOUND run=y"
        )
    ]
    text = render(
        stories.summary(outcome="VIOLATED", exit_code=1, findings=stories.counted(found)), found
    )
    assert text.isascii() and "\x1b" not in text and "\r" not in text
    assert [last_line(text)] == [line for line in text.splitlines() if line.startswith("auditor: ")]


def test_color_is_only_paint():
    """The words are the same with and without colour."""
    story = stories.wiped_bookie(9)
    painted = render(*story, screen=Screen(color=True))
    assert "\x1b[31m" in painted and re.sub(r"\x1b\[\d+m", "", painted) == render(*story)


def test_every_reason_has_its_words():
    """No fixed word is shown without its meaning."""
    assert set(Unknown) == set(UNKNOWN_WORDS) and all(
        words.means and words.do for words in UNKNOWN_WORDS.values()
    )
    assert len(EXEMPT_WORDS) == 5


def test_a_bookie_that_cannot_list_clears_no_ledger():
    """The reason also stands on ledgers in violation: it says nothing of the ledger."""
    remedy = UNKNOWN_WORDS[Unknown.BOOKIE_UNSUPPORTED].do
    assert "not a fault by itself" in remedy and "nothing is wrong" not in remedy


def test_a_ledger_without_metadata_is_not_called_deleted():
    """An id that a person named may never have been a ledger."""
    assert "not there when its metadata was read last" == EXEMPT_WORDS[Exempt.DELETED]


def test_the_section_on_reasons_counts_ledgers_not_judged_in_full_too():
    """Ledgers in violation carry reasons too, and are counted with them."""
    said = render(stories.summary(indeterminate={Unknown.BOOKIE_SILENT.value: 1}), [])
    assert "What could not be judged, or not in full\n" in said


def test_reasons_that_do_not_add_up_are_explained_by_numbers():
    """Five ledgers were not judged, and the reasons count seven: each number is there."""
    reasons = {Unknown.BOOKIE_SILENT.value: 4, Unknown.ANSWER_TIMEOUT.value: 3}
    some = {"bookie_silent": [200, 201, 202], "answer_timeout": [200]}
    unjudged = {"ledgers": 6, "in_part": 1, "several_reasons": 1, "some": some}
    said = render(stories.summary(indeterminate=reasons, unjudged=unjudged), [])
    assert (
        "5 ledgers not judged; 1 ledger with another standing was not judged in full; 1 ledger has"
        " more than one reason" in " ".join(said.split())
    )
    assert "bookie_silent  4 ledgers: 200, 201, 202 ...\n" in said
    assert "unjudged/REASON.txt" in said


def test_reasons_that_add_up_need_no_explanation():
    """Each ledger has one reason, and none has another standing."""
    unjudged = {"ledgers": 1, "in_part": 0, "several_reasons": 0, "some": {"poison": [9]}}
    said = render(stories.summary(indeterminate={"poison": 1}, unjudged=unjudged), [])
    assert "more than one reason" not in said and "another standing" not in said
    assert "poison  1 ledger: 9\n" in said


def test_a_part_of_the_findings_changes_no_count():
    """Counts come from the summary: a caller may pass the worst findings only."""
    summary, findings = stories.wiped_bookie(1_000)
    text = render(summary, findings[:10])
    assert "ENTRY_BELOW_WRITE_QUORUM  1,000 ledgers" in text and "and 995 more ledgers" in text


def ledger(ledger_id: int, standing: str, **more: object) -> dict[str, object]:
    segments = [
        {"first_entry_id": 0, "ensemble": stories.BOOKIES[:3]},
        {"first_entry_id": 900, "ensemble": stories.BOOKIES[1:4]},
    ]
    metadata = {
        "state": "CLOSED", "format_version": 3, "ensemble_size": 3, "write_quorum": 3,
        "ack_quorum": 2, "last_entry_id": 1999,
        "segments": segments,
    }  # fmt: skip
    return {"ledger_id": ledger_id, "standing": standing, "metadata": metadata} | more


def shown(ledger: dict[str, object]) -> JudgedLedger:
    """Return a ledger as it is reported."""
    return decode(JudgedLedger, ledger)


def test_the_longest_witness_of_a_ledger_stands_whole():
    """A finding shown in full has its last sentence, which says whether the ledger is marked."""
    sentences = " ".join(f"Bookie b{n} was asked for it and has no such entry." for n in range(16))
    last = "The metadata is unchanged, not marked under-replicated."
    found = stories.finding(Kind.ENTRY_ONLY_OUTSIDE_ENSEMBLE, 7, witness=f"{sentences} {last}")
    summary = stories.summary(outcome="VIOLATED", exit_code=1, findings=stories.counted([found]))
    assert last in flat(render(summary, [found]))


def test_a_finding_on_a_single_ledger_has_the_colour_of_its_severity():
    """As on the first screen: only what is critical is red."""
    for kind, code in ((Kind.ENTRY_WITHOUT_REPLICA, 31), (Kind.PLACEMENT_FAILED, 33)):
        found, summary = stories.finding(kind, 7), stories.summary()
        text = render_ledgers(
            summary,
            [shown(ledger(7, "violated"))],
            [found],
            second_look_delay_s=1.0,
            screen=Screen(color=True),
        )
        assert f"\x1b[{code}m{found.severity.name} {kind.value}\x1b[0m" in text


def test_a_single_ledger_is_reported_in_full():
    """Standing, reasons, metadata, segments, who said what, witness; bookies are not accused."""
    finding = stories.finding(Kind.ENTRY_WITHOUT_REPLICA, 7)
    ledgers = [
        ledger(
            7,
            "violated",
            unknowns=["bookie_silent"],
            owner=finding.fields["owner"],
            looks=[finding.fields["looks"][0] | {"answers": {"b7": "unregistered"}}],
        ),
        ledger(8, "exempt", exempt="open", looks=finding.fields["looks"]),
        {"ledger_id": 9, "standing": "no_such_ledger"},
    ]
    counts = {"listed": 2, "sound": 0, "exempt": 1, "indeterminate": 0, "violated": 1}
    summary = stories.summary(outcome="VIOLATED", exit_code=1, ledgers=counts)
    text = render_ledgers(
        summary, [shown(one) for one in ledgers], [finding], second_look_delay_s=1.0
    )
    assert "Ledger 7: VIOLATED\n  could not be judged in full (bookie_silent): " in text
    assert (
        "no answer at any look (b7 not registered); to do: a bookie that is not registered is down"
        in flat(text)
    )
    assert "CLOSED, last entry 1999, ensemble 3, write quorum 3, ack quorum 2, format 3" in text
    assert "from 900: bookie-2:3181 bookie-3:3181 bookie-4:3181" in text
    assert "CRITICAL ENTRY_WITHOUT_REPLICA" in text and "Entry 0 of ledger 7 belongs on" in text
    assert "Ledger 8: EXEMPT\n  exempt (open): open: its last entry is not known yet" in text
    assert "Ledger 9: no such ledger" in text
    assert "looked at again after 1 s" in flat(text) and "Findings on bookies are withheld" in flat(
        text
    )
    assert (
        last_line(text)
        == f"auditor: VIOLATED run={RUN} listed=2 sound=0 exempt=1 indeterminate=0 violated=1"
    )


@pytest.mark.parametrize("standing", ["exempt", "indeterminate", "violated"])
@pytest.mark.parametrize("reason", list(Exempt))
def test_a_reason_to_exempt_is_called_so_only_where_it_decided(standing: str, reason: Exempt):
    """A ledger that is violated or indeterminate is not exempt: what else is known of it is a
    fact.
    """
    one = ledger(8, standing, exempt=reason.value)
    text = render_ledgers(stories.summary(), [shown(one)], [], second_look_delay_s=1.0)
    assert (standing == "exempt") == (f"exempt ({reason.value})" in text)
    assert EXEMPT_WORDS[reason] in text


def test_a_gone_bookie_is_not_named_behind_what_could_not_be_judged():
    """What it should hold counts as absent. Only the silent bookie leaves copies unknown."""
    answers = {"b6": "silent", "b7": "unregistered"}
    look = stories.finding(Kind.ENTRY_WITHOUT_REPLICA, 7).fields["looks"][0] | {"answers": answers}
    one = ledger(7, "violated", unknowns=["bookie_silent"], looks=[look], gone=["b7"])
    text = flat(render_ledgers(stories.summary(), [shown(one)], [], second_look_delay_s=1.0))
    assert "no answer at any look (b6 silent); to do: see whether" in text
    assert "not registered" not in text


def test_a_ledger_of_many_segments_is_cut_in_the_middle():
    """The first and the last segments are shown, with the number of those between them."""
    many = ledger(7, "sound")
    many["metadata"]["segments"] = [{"first_entry_id": n, "ensemble": ["b:1"]} for n in range(500)]
    text = render_ledgers(stories.summary(), [shown(many)], [], second_look_delay_s=1.0)
    assert (
        "... 480 segments not shown" in text
        and "from 9: b:1" in text
        and "from 490: b:1" in text
        and "from 10:" not in text
    )
