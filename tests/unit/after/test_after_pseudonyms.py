"""Names are replaced wherever they occur, and nothing else is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from auditor.after.pseudonyms import FIXED, Pseudonyms, bookie_ids_in


def names_of(*bookies: str) -> Pseudonyms:
    names = Pseudonyms()
    names.add_bookies(bookies)
    return names


@given(st.sets(st.text(min_size=1), max_size=20))
def test_pseudonyms_of_bookies_are_one_to_one(ids: set[str]):
    """Two bookies never become one: that would hide a loss, or a duplicate."""
    names = names_of(*ids)
    assert len(ids) == len({names.known[bookie] for bookie in ids})


@given(st.sets(st.from_regex(r"[a-z.-]{1,9}:3181", fullmatch=True), max_size=20))
def test_pseudonyms_sort_as_the_ids_do(ids: set[str]):
    """A judgement that goes by the order of bookies stays the same."""
    names = names_of(*ids)
    assert sorted(ids) == sorted(ids, key=lambda bookie: names.known[bookie])


def test_a_bookie_has_one_pseudonym_in_every_field():
    """In an ensemble, as holder of a lock, in a sentence, with its port and without."""
    names = names_of("bk-a.acme.example:3181", "bk-b.acme.example:3181")
    row = {
        "bookie_id": "bk-a.acme.example:3181",
        "host": "bk-a.acme.example",
        "segments": [{"first_entry_id": 0, "ensemble": ["bk-b.acme.example:3181"]}],
        "mark": {"missing_replicas": ["bk-a.acme.example:3181"], "lock": {"holder": None}},
        "detail": "bk-b.acme.example:3181 and bk-a.acme.example are down",
    }
    assert {
        "bookie_id": "bookie-0001:3181",
        "host": "bookie-0001",
        "segments": [{"first_entry_id": 0, "ensemble": ["bookie-0002:3181"]}],
        "mark": {"missing_replicas": ["bookie-0001:3181"], "lock": {"holder": None}},
        "detail": "bookie-0002:3181 and bookie-0001 are down",
    } == names.of_row(row)


def test_a_bookie_that_is_called_like_a_status_changes_no_status():
    """Its name is replaced where names stand, not where the word means something."""
    row = {"bookie_id": "held", "status": "held", "look": 1}
    expected = {"bookie_id": "bookie-0001", "status": "held", "look": 1}
    assert expected == names_of("held").of_row(row)


def test_a_name_within_a_longer_one_is_left_alone():
    """b1 is not the beginning of b10."""
    assert "bookie-0002 is no bookie-0001; b100" == names_of("b1", "b10").of_text(
        "b10 is no b1; b100"
    )


def test_addresses_in_sentences_go_although_nobody_named_them():
    """An error of the operating system tells an address, a certificate a host."""
    sentence = (
        "Connect call failed ('10.1.2.3', 3181) to [fe80::1:2]: CN=bk.acme.example, after 1.5 s"
    )
    said = Pseudonyms().of_text(sentence)
    assert not any(name in said for name in ("10.1.2.3", "fe80", "acme"))
    assert said.startswith("Connect call failed ('address-") and said.endswith("after 1.5 s")


def test_owners_go_and_what_every_ledger_of_pulsar_has_stays():
    """The key stays, a value is a name; an equal value gets an equal pseudonym."""
    names = Pseudonyms()
    custom = [
        {"key": "component", "value": b"managed-ledger"},
        {"key": "pulsar/managed-ledger", "value": b"acme/shop/persistent/orders"},
        {"key": "application", "value": b"\xff\xfe"},
    ]
    once, again = (names.of_row({"custom_metadata": custom})["custom_metadata"] for _ in range(2))
    assert once == again
    assert ["component", "pulsar/managed-ledger", "application"] == [one["key"] for one in once]
    assert b"managed-ledger" == once[0]["value"]
    assert [b"name-0001", b"word-0001"] == [one["value"] for one in once[1:]]
    assert "for name-0001" == names.of_text("for acme/shop/persistent/orders")


def test_a_word_of_metadata_garbles_no_sentence():
    """A subscription may be called `lister`, or `1`."""
    names = Pseudonyms()
    custom = [{"key": "cursor", "value": value} for value in (b"lister", b"1")]
    kept = names.of_row({"custom_metadata": custom})["custom_metadata"]
    assert [b"word-0001", b"word-0002"] == [one["value"] for one in kept]
    assert "listed by its lister, entry 1" == names.of_text("listed by its lister, entry 1")


@pytest.mark.parametrize(
    "sentence",
    [
        "listed by its lister at bk1-admin:3182",
        "storage-host-7:3181 did not answer",
        "bk1.dc2.corp.example is gone",
        "x.bk1 and bk1.corp",
    ],
)
def test_a_host_that_nobody_named_goes_whole(sentence: str):
    """Also one without a dot, before a port, and one that begins or ends as a known one."""
    said = names_of("bk1:3181").of_text(sentence)
    assert not any(name in said for name in ("bk1", "admin", "storage", "corp", "bookie-0001."))


def test_locations_keep_their_parts_and_who_shares_one():
    """Placement needs only these; the defaults of BookKeeper are not names."""
    names = names_of("b1:1", "b2:1", "b3:1")
    around = {"b1:1": "/eu/rack-a", "b2:1": "/eu/rack-b", "b3:1": "/default-region/default-rack"}
    kept = names.of_row({"locations": around})["locations"]
    first, second, third = (kept[f"bookie-000{n}:1"] for n in (1, 2, 3))
    assert first.split("/")[1] == second.split("/")[1] and first != second
    assert 3 == len(first.split("/")) and "eu" not in first
    assert "/default-region/default-rack" == third


def test_the_cluster_and_the_directories_of_bookies_go():
    """No verdict depends on them."""
    facts = {"hosts": ["zk1:2181"], "instance_id": "i", "root": "/acme/ledgers", "layout": "flat"}
    expected = {
        **{name: FIXED[name] for name in ("hosts", "instance_id", "root")},
        "layout": "flat",
    }
    assert expected == Pseudonyms().of_row(facts)
    cookies = {"cookie_directories": {"b1": ["/mnt/acme"], "b2": None}}
    assert {"cookie_directories": None} == Pseudonyms().of_row(cookies)
    assert "/directory-0001/2f.log" == Pseudonyms().of_row({"path": "/mnt/acme/2f.log"})["path"]


def test_every_bookie_of_a_row_is_found():
    """Pseudonyms sort as the ids only if every bookie is found first."""
    row = {
        "segments": [{"ensemble": ["b1", "b2"]}],
        "mark": {"missing_replicas": ["b3"], "lock": {"holder": "b4"}},
        "terms": {"around": {"writable": ["b5"], "locations": {"b6": "/r"}, "auditor": None}},
        "unregistered_since_ms": {"b7": 1},
        "cookie_czxids": {"b8": 1},
        "status": "b9",
    }
    assert [f"b{n}" for n in range(1, 9)] == sorted(bookie_ids_in([row]))


def test_names_that_nobody_added_are_numbered_as_they_are_met():
    """Each says what it stands for."""
    row = {
        "bookie_id": "bk-a",
        "host": "zk.acme.example",
        "locations": {"bk-b": "/eu/rack-a"},
        "paths": [{"path": "/mnt/a/1.log"}, {"path": "/mnt/b/1.log"}, {"path": "/mnt/a/2.log"}],
        "detail": "10.1.2.3 and fe80::1:2 and 10.1.2.3",
    }
    assert {
        "bookie_id": "bookie-0001",
        "host": "host-0002",
        "locations": {"bookie-0003": "/location-0004/location-0005"},
        "paths": [
            {"path": "/directory-0006/1.log"},
            {"path": "/directory-0007/1.log"},
            {"path": "/directory-0006/2.log"},
        ],
        "detail": "address-0008 and address-0009 and address-0008",
    } == Pseudonyms().of_row(row)


def test_empty_fields_and_numbers_are_not_names():
    """They stay as they are, and get no pseudonym."""
    row = {"bookie_id": "", "host": None, "path": "", "detail": "", "reason": 7}
    names = Pseudonyms()
    assert row == names.of_row(row)
    names.add_names_of(row)
    assert {} == names.known


def test_names_of_a_row_are_known_before_a_sentence_names_them():
    """Hosts and topics, wherever they stand in it, and nothing else of it."""
    names = Pseudonyms()
    topic, word = b"acme/shop/persistent/orders", b"cursor-of-acme"
    names.add_names_of(
        {
            "bookies": [{"host": "bk-a", "port": 3181, "status": "held"}, {"host": None}],
            "host": ["bk-b"],
            "custom_metadata": [{"key": "k", "value": topic}, {"key": "c", "value": word}],
        }
    )
    expected = {"bk-a": "host-0001", "bk-b": "host-0002", topic.decode(): "name-0003"}
    assert expected == names.known
    assert {word.decode(): "word-0001"} == names.words
    said = names.of_text("bk-b held acme/shop/persistent/orders, bk-a none of cursor-of-acme")
    assert "host-0002 held name-0003, host-0001 none of cursor-of-acme" == said


@pytest.mark.parametrize("topics", [("a/b", "a/b/c"), ("a/b/c", "a/b")])
def test_a_name_that_begins_with_another_is_replaced_whole(topics: tuple[str, str]):
    """Whichever was met first."""
    names = Pseudonyms()
    for topic in topics:
        names.of_name(topic, "name")
    expected = f"{names.known['a/b/c']} and {names.known['a/b']}"
    assert expected == names.of_text("a/b/c and a/b")


def test_only_fields_of_bookies_name_bookies():
    """A field may be null. The keys of other objects are not bookies."""
    row = {"bookie_id": "b1", "holder": None, "counts": {"b9": "b8"}, "writable": ["b2"]}
    assert ["b1", "b2"] == sorted(bookie_ids_in([row]))
