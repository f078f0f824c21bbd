"""Names on command lines: quoted, or the command is left out."""

from __future__ import annotations

import shlex
from dataclasses import replace

import pytest
from support.findings_by_kind import finding_of
from support.hostile_names import HOSTILE, SHELL, unprintable

from auditor.model.facts import EntryLogLostFacts
from auditor.model.finding import CATALOGUE, Kind, Subject
from auditor.model.finding_record import Owner
from auditor.witness.ledger_commands import can_be_pasted, quote_word
from auditor.witness.next_commands import next_commands, sort_steps


@pytest.mark.parametrize("name", ["b1:3181", SHELL, "a b", "", "größe", "x;y", "[::1]:3181"])
def test_a_name_stays_one_word(name: str):
    """Whatever it has in it, the shell takes it as it is."""
    assert [name] == shlex.split(quote_word(name)) and can_be_pasted(f"ls {quote_word(name)}")


@pytest.mark.parametrize(
    "name", [HOSTILE, "-d", "--deleteCookie", "a\nb", "a\x1b[201~", "a\u202eb", "a\x00"]
)
def test_a_command_is_left_out_if_its_name_is_dangerous(name: str):
    """The name is an option in place of a bookie, has an escape that ends a paste, or reverses the
    order of letters.
    """
    assert not can_be_pasted(f"bookkeeper shell recover {quote_word(name)}")


def test_what_is_left_out_is_said_and_nothing_is_changed_without_it():
    """A person who cannot look at everything gets no command that changes something."""
    lost = replace(finding_of(Kind.BOOKIE_LOST_CONTENT), bookie_id="-d")
    steps = sort_steps(next_commands(lost, replication_disabled=False))
    assert [] == steps.change and steps.save
    (said,) = steps.notes
    assert said.startswith("3 of the commands are left out: a name in them would be misread by a")


@pytest.mark.parametrize("kind", list(Kind))
def test_nothing_is_said_to_be_left_out_where_all_is_shown(kind: Kind):
    """Names that a shell reads as they are cost nothing."""
    notes = sort_steps(next_commands(finding_of(kind), replication_disabled=True)).notes
    assert [] == [note for note in notes if "left out" in note]


BOOKIE_KINDS = [kind for kind in Kind if CATALOGUE[kind].subject is Subject.BOOKIE]


@pytest.mark.parametrize("name", [HOSTILE, "-d", SHELL])
@pytest.mark.parametrize("kind", list(Kind))
def test_no_command_of_any_kind_has_a_hostile_name(kind: Kind, name: str):
    """The name is in bookie ids, paths of entry logs and owners. Every command splits into words,
    and no part of the name is one of them.
    """
    finding = finding_of(kind)
    if kind in BOOKIE_KINDS:
        finding = replace(finding, bookie_id=name)
    if isinstance(finding.facts, EntryLogLostFacts):
        logs = tuple(replace(one, path=name) for one in finding.facts.some_logs)
        finding = replace(finding, facts=replace(finding.facts, some_logs=logs))
    topic = f"public/default/persistent/{name.replace('/', '')}"
    owner = Owner("pulsar", "managed-ledger", topic)
    for command in next_commands(finding, replication_disabled=True, owner=owner):
        assert [] == unprintable(command, "")
        words = shlex.split(command)
        assert "touch" not in words and "-d" not in words
