"""The meaning of each reason to be exempt or unknown, and what a person can do about it."""

from __future__ import annotations

from typing import NamedTuple

from auditor.model.verdict import Exempt, Unknown

EXEMPT_WORDS: dict[Exempt, str] = {
    Exempt.DELETED: "not there when its metadata was read last",
    Exempt.MARKED_UNDERREPLICATED: "marked under-replicated",
    Exempt.IN_RECOVERY: "in recovery: its last entry is not agreed on yet",
    Exempt.OPEN: "open: its last entry is not known yet",
    Exempt.EMPTY: "closed without entries, and none was found",
}


class Reason(NamedTuple):
    """Why a ledger could not be judged, or not in full, and what a person can do about it."""

    means: str
    do: str


UNKNOWN_WORDS: dict[Unknown, Reason] = {
    Unknown.BOOKIE_SILENT: Reason(
        "a bookie that should hold entries of it gave no answer at any look",
        "see whether the bookie is up and reachable from this host, then run again",
    ),
    Unknown.BOOKIE_REFUSED: Reason(
        "a bookie answered and would not say: not authorised, an I/O error, or an unknown ledger"
        " state",
        "look at that bookie's log; where it says unauthorised, give the auditor credentials; where"
        " it says Too many open files, raise the bookie's limit on them and restart it",
    ),
    Unknown.BOOKIE_UNSUPPORTED: Reason(
        "a bookie gave no list of entries, though it answers otherwise (as with DbLedgerStorage)",
        "that a bookie cannot list is not a fault by itself; have a few entries of the ledger read"
        " instead (--probe-entries)",
    ),
    Unknown.ANSWER_TIMEOUT: Reason(
        "a bookie answered other requests, but not those about this ledger in time",
        "run again when the bookie is less busy, or raise --rpc-timeout",
    ),
    Unknown.ANSWER_INVALID: Reason(
        "a bookie's answer could not be decoded, or what it read back had a wrong id or digest",
        "read the evidence of one such ledger with `auditor ledger ID`; where a digest is wrong,"
        " check the disks of that bookie",
    ),
    Unknown.ANSWER_TOO_LARGE: Reason(
        "a bookie's list of entries exceeds the frame limit",
        "raise --frame-bytes-max",
    ),
    Unknown.ADDRESS_UNKNOWN: Reason(
        "a bookie is registered without an address that could be read",
        "look at its registration znode; a bookie newer than this auditor may register in another"
        " form",
    ),
    Unknown.METADATA_UNREADABLE: Reason(
        "its metadata could not be read, or has a format newer than ours",
        "see the ACL of its znode, or update the auditor",
    ),
    Unknown.TOPOLOGY_UNKNOWN: Reason(
        "the location of a bookie in its ensemble is not known, or it has too many write sets to"
        " look at",
        "give the auditor the locations of all bookies",
    ),
    Unknown.AUDITOR_LIMITED: Reason(
        "the auditor's own host has no way to a bookie that should hold entries of it (no route, no"
        " local port, a resolver that fails), or its clock lies behind that of ZooKeeper, which"
        " leaves the age of a mark unknown",
        "see what `auditor doctor` says of this host's network and clock, then run again",
    ),
    Unknown.UNSETTLED: Reason(
        "its metadata kept changing between looks, so no two looks that count saw the same",
        "run again when recovery or replication has come to rest",
    ),
    Unknown.POISON: Reason(
        "judging it failed, did not end, or ended its process, so it was set aside to save the"
        " rest",
        "please report this with its evidence, poison/ledger-<id> in the directory of the run: it"
        " is our fault",
    ),
    Unknown.CHECKERS_DISAGREE: Reason(
        "our two checkers differ on the same evidence, so nothing is said about it",
        "please report this with its evidence, poison/ledger-<id> in the directory of the run: it"
        " is our fault",
    ),
}
