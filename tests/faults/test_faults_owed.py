"""The permitted verdicts on each ledger of the scene, by the silent bookies: the truth, or the part
of it that is heard.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from faults.detector import Sort, breaches
from faults.frames import Said
from faults.harm import Log
from faults.planting import exchange, harmed, held
from faults.reported import Heard, Judged, Reported, of_command
from faults.scene import ALL, BOOKIES, owed
from faults.scene import LEDGERS as SCENE


def report(**others: Judged) -> dict[str, object]:
    """Return what `auditor ledger` reports on the scene, with other verdicts for some ledgers, such
    as `of_9`.
    """
    said = {ledger: others.get(f"of_{ledger}", planted.truth) for ledger, planted in SCENE.items()}
    words = ("write_quorum", "ack_quorum", "confirmed", "unknown")
    standings = [one.standing for one in said.values()]
    return {
        "summary": {
            "ledgers": {"listed": len(said), **{word: standings.count(word) for word in standings}}
        },
        "ledgers": [
            {
                "ledger_id": ledger,
                "standing": one.standing,
                "exempt": one.exempt,
                "unknowns": list(one.unknowns),
                "assurance": one.assurance,
            }
            for ledger, one in said.items()
        ],
        "findings": [
            {
                "ledger_id": ledger,
                "kind": loss.kind,
                "entries": loss.entries,
                "missing_on": dict(loss.missing_on),
                "segment": dict(
                    zip(("first_entry_id", "last_entry_id"), loss.segment or (), strict=True)
                ),
                "copies": dict(zip(words, loss.copies or (), strict=True)),
            }
            for ledger, one in said.items()
            for loss in one.losses
        ],
    }


def of_scene(
    due: frozenset[int] = ALL,
    *,
    sampled: bool = False,
    faults: tuple[str, ...] = BOOKIES,
    **others: Judged,
) -> dict[int, Sort]:
    """Return the breaches in such a report, by ledger, with a fault on before these bookies."""
    may_be = owed(due, sampled=sampled)
    return {
        b.ledger_id: b.sort
        for b in breaches(harmed(Log(), *faults), of_command(report(**others)), may_be)
    }


def test_the_truth_about_the_scene_is_no_breach():
    """The report is in the words of the product."""
    assert {} == of_scene()


def test_each_loss_of_the_scene_is_reported_with_its_own_entries_and_bookies():
    """Made-up entries on a made-up bookie are a corruption for each of them."""
    runs = ((1_000_000, 2_000_000),)
    lossy = {ledger: planted.truth for ledger, planted in SCENE.items() if planted.truth.losses}
    for made_up in ({"entries": runs}, {"missing_on": (("b9", runs),)}):
        others = {
            f"of_{n}": replace(one, losses=(replace(one.losses[0], **made_up),))
            for n, one in lossy.items()
        }  # type: ignore[arg-type]
        assert dict.fromkeys(lossy, Sort.CORRUPTION) == of_scene(**others)


@pytest.mark.parametrize("pair", [(9, 12), (10, 17), (11, 15), (13, 14)])
def test_ledgers_of_the_same_standing_cannot_swap_their_verdicts(pair: tuple[int, int]):
    """No two losses or exemptions of the scene are alike: a swap is a reordering in one part modulo
    M, a corruption across two.
    """
    one, other = pair
    sort = Sort.REORDERING if one % 3 == other % 3 else Sort.CORRUPTION
    swapped = {f"of_{one}": SCENE[other].truth, f"of_{other}": SCENE[one].truth}
    assert dict.fromkeys(pair, sort) == of_scene(**swapped)


@pytest.mark.parametrize(
    "reason", ["poison", "checkers_disagree", "metadata_unreadable", "unsettled"]
)
def test_what_is_not_owed_is_unknown_for_what_was_not_heard_alone(reason: str):
    """A silent bookie is a reason. A fault of the auditor's own is not a valid reason, and a reason
    must be given.
    """
    silent = Judged("indeterminate", unknowns=("bookie_silent",))
    assert {} == of_scene(frozenset(), of_2=silent)
    assert {2: Sort.CORRUPTION} == of_scene(of_2=silent)
    assert {2: Sort.CORRUPTION} == of_scene(
        frozenset(), of_2=Judged("indeterminate", unknowns=(reason,))
    )
    assert {2: Sort.CORRUPTION} == of_scene(
        frozenset(), of_2=Judged("indeterminate", unknowns=("bookie_silent", reason))
    )
    assert {2: Sort.CORRUPTION} == of_scene(frozenset(), of_2=Judged("indeterminate"))


def test_a_loss_that_is_not_owed_is_reported_as_far_as_it_was_heard():
    """Ledger 11 lost both copies of entry 4. With b4 unheard one of them may exist; what is said of
    b3 must be whole.
    """
    (whole,) = SCENE[11].truth.losses
    part = replace(
        whole, kind="ENTRY_BELOW_ACK_QUORUM", missing_on=(("b3", ((4, 4),)),), copies=(2, 2, 0, 1)
    )
    silent = Judged("violated", unknowns=("bookie_silent",), losses=(part,))
    assert {} == of_scene(frozenset(), of_11=silent)
    for wrong in (
        replace(part, kind="ENTRY_WITHOUT_REPLICA"),
        replace(part, entries=((4, 5),)),
        replace(part, missing_on=(("b1", ((4, 4),)),)),
        replace(part, copies=(2, 2, 0, 0)),
    ):
        assert {11: Sort.CORRUPTION} == of_scene(
            frozenset(), of_11=replace(silent, losses=(wrong,))
        )
    assert {11: Sort.CORRUPTION} == of_scene(frozenset(), of_11=replace(silent, unknowns=()))


def test_a_sample_stands_for_what_is_not_owed_where_a_bookie_cannot_list():
    """The verdict may miss entries if it says that it rests on a sample. It may not report one that
    is present, and it does not replace a verdict that is owed.
    """
    sound = Judged("sound", assurance="probed")
    (whole,) = SCENE[12].truth.losses
    some = ((0, 1), (7, 7), (32, 32))
    part = replace(whole, entries=some, missing_on=(("b2", some),))
    shown = Judged("violated", losses=(part,), assurance="probed")
    assert {} == of_scene(frozenset(), sampled=True, of_9=sound, of_12=shown, of_1=sound)
    assert {9: Sort.CORRUPTION, 12: Sort.CORRUPTION} == of_scene(
        frozenset(), of_9=sound, of_12=shown
    )
    assert {9: Sort.CORRUPTION, 12: Sort.CORRUPTION} == of_scene(
        sampled=True, of_9=sound, of_12=shown
    )
    more = ((0, 1), (33, 33))
    for wrong in (
        replace(shown, assurance="listed"),
        replace(shown, losses=(replace(part, entries=more, missing_on=(("b2", more),)),)),
        replace(shown, losses=(replace(part, missing_on=(("b4", some),)),)),
        replace(shown, losses=(part, part)),
        Judged("sound"),
    ):
        assert {12: Sort.CORRUPTION} == of_scene(frozenset(), sampled=True, of_12=wrong)


def test_a_verdict_says_less_only_while_a_fault_is_on_before_its_bookies():
    """Ledger 8 is on b2, b3 and b4, ledger 11 on b1, b3 and b4, of which b3 and b4 lack entry 4."""
    silent = Judged("indeterminate", unknowns=("bookie_silent",))
    none = frozenset[int]()
    assert (
        {}
        == of_scene(none, faults=("b2",), of_8=silent)
        == of_scene(none, faults=("b3", "b4"), of_11=silent)
    )
    assert (
        {8: Sort.CORRUPTION}
        == of_scene(none, faults=(), of_8=silent)
        == of_scene(none, faults=("b1",), of_8=silent)
    )
    assert {11: Sort.CORRUPTION} == of_scene(none, faults=("b1", "b4"), of_11=silent), (
        "b3 was heard, and lacks it"
    )
    (whole,) = SCENE[11].truth.losses
    part = replace(
        whole, kind="ENTRY_BELOW_ACK_QUORUM", missing_on=(("b3", ((4, 4),)),), copies=(2, 2, 0, 1)
    )
    judged = Judged("violated", unknowns=("bookie_silent",), losses=(part,))
    assert {} == of_scene(none, faults=("b4",), of_11=judged)
    assert {11: Sort.CORRUPTION} == of_scene(none, faults=("b3",), of_11=judged), (
        "it is b4 that was not heard"
    )
    assert {9: Sort.CORRUPTION} == of_scene(
        none, sampled=True, faults=("b4",), of_9=Judged("sound", assurance="probed")
    )


def test_a_verdict_is_the_truth_once_its_bookies_were_heard_at_a_later_look():
    """The fault was over by then: what was missing at the first look was heard at the second."""
    partial = owed(frozenset())[1]
    silent = Judged("indeterminate", unknowns=("bookie_silent",))
    read, asked = Said("multi_read", 1, metadata_of=(1,), marks_of=(1,)), Said("list", 1, 1)
    for heals, expected in ((False, []), (True, [Sort.CORRUPTION])):
        seen = Log()
        for look in (1, 2):
            seen.add("zookeeper", 0, read, read, "passed", reply=False)
            if look == 1:
                harmed(seen, "b1").mark("pause 1", heals=heals)
        exchange(seen, "b1", asked, replace(asked, status="held", entries=held(3)))
        answers = [("b1", 1, (1,), Heard("silent")), ("b1", 2, (1,), Heard("held", held(3)))]
        said = breaches(seen, Reported(answers, [(1, silent)], in_order=True), {1: partial})
        assert expected == [breach.sort for breach in said], heals
