"""The bugs that `make mutants` plants in the product, one at a time, and the tests that must catch
each.

To add one, write a row here, run `python tests/mutants/run.py 'words of its name'`, and put the
output of `python tests/mutants/run.py --table` into docs/testing.md. If `old` no longer occurs in
the product because the code changed, plant the same bug in the present code.
"""

from __future__ import annotations

from typing import NamedTuple

PRODUCT = "auditor"

SCHEDULE, COVERAGE, CODEC, RECHECK, ACCOUNTING = (
    "schedule",
    "coverage",
    "codec",
    "recheck",
    "accounting",
)
SECOND, FACTS, COLUMNS, LOGIN = "second checker", "facts", "columns", "login"
GROUPS = (SCHEDULE, COVERAGE, CODEC, RECHECK, ACCOUNTING, SECOND, FACTS, COLUMNS, LOGIN)


class Mutant(NamedTuple):
    """A bug: in `file` (below PRODUCT) `old`, which occurs there once, becomes `new`. Each of
    `tests` must fail then.

    `name` is the defect of a product with the bug. `tests` are pytest's node ids, without
    parameters.
    """

    name: str
    group: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]


MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "a position's window begins one entry early",
        SCHEDULE,
        "first_checker/schedule.py",
        "start = (position - write_quorum + 1 - first) % ensemble_size",
        "start = (position - write_quorum - first) % ensemble_size",
        (
            "tests/unit/first_checker/test_first_checker_schedule.py::test_a_window_holds_what_the_definition_says",
        ),
    ),
    Mutant(
        "entries are counted from the start of the segment",
        SCHEDULE,
        "first_checker/schedule.py",
        "start = (position - write_quorum + 1 - first) % ensemble_size",
        "start = (position - write_quorum + 1) % ensemble_size",
        (
            "tests/unit/first_checker/test_first_checker_schedule.py::test_expected_groups_of_any_length_hold_what_the_window_holds",
        ),
    ),
    Mutant(
        "a window that wraps round loses its first part",
        SCHEDULE,
        "first_checker/schedule.py",
        "((0, overhang), (start, write_quorum - overhang))",
        "((start, write_quorum - overhang),)",
        (
            "tests/unit/first_checker/test_first_checker_schedule.py::test_a_window_holds_what_the_definition_says",
        ),
    ),
    Mutant(
        "a segment reaches into the next one",
        SCHEDULE,
        "first_checker/schedule.py",
        "min(least_behind - 1, ",
        "min(least_behind, ",
        (
            "tests/unit/first_checker/test_first_checker_schedule.py::test_extents_of_metadata_that_makes_sense",
        ),
    ),
    Mutant(
        "a healthy list lacks the entry at its end",
        SCHEDULE,
        "first_checker/schedule.py",
        "tail = min(last - tail_start + 1, write_quorum)",
        "tail = min(last - tail_start, write_quorum)",
        (
            "tests/unit/first_checker/test_first_checker_schedule.py::test_expected_groups_are_the_canonical_form",
        ),
    ),
    Mutant(
        "only bookies that hold a whole stripe are asked",
        SCHEDULE,
        "first_checker/schedule.py",
        "if length >= size or expected_entries(extent, at, size, quorum):",
        "if length >= size:",
        (
            "tests/unit/first_checker/test_first_checker_schedule.py::test_each_bookie_with_an_entry_or_at_the_end_is_asked_once",
        ),
    ),
    Mutant(
        "a bookie that stands twice is asked for one of its windows",
        SCHEDULE,
        "first_checker/schedule.py",
        "for position in at for run in",
        "for position in at[:1] for run in",
        (
            "tests/unit/first_checker/test_first_checker_schedule.py::test_a_bookie_at_two_positions_should_hold_both_windows",
        ),
    ),
    Mutant(
        "a piece cut in the middle is turned the wrong way",
        SCHEDULE,
        "first_checker/pieces.py",
        "begin = (offset - turn) % piece.period",
        "begin = (offset + turn) % piece.period",
        (
            "tests/unit/first_checker/test_first_checker_entry_set.py::test_a_hole_in_a_stripe_of_a_billion_is_found_at_once",
        ),
    ),
    Mutant(
        "two stripes repeat with the longer of their periods",
        SCHEDULE,
        "first_checker/pieces.py",
        "common = lcm(a.period, b.period)",
        "common = max(a.period, b.period)",
        (
            "tests/unit/first_checker/test_first_checker_entry_set.py::test_every_operation_agrees_with_plain_sets",
        ),
    ),
    Mutant(
        "the entry behind a run is in the set",
        SCHEDULE,
        "first_checker/entry_set.py",
        "return any(offset <= within < offset + size for",
        "return any(offset <= within <= offset + size for",
        (
            "tests/unit/first_checker/test_first_checker_entry_set.py::test_every_operation_agrees_with_plain_sets",
        ),
    ),
    Mutant(
        "whoever has a list is healthy",
        COVERAGE,
        "first_checker/coverage.py",
        "answer is None or answer.status is not AnswerStatus.HELD or answer.groups != groups",
        "answer is None or answer.status is not AnswerStatus.HELD",
        (
            "tests/unit/first_checker/test_first_checker_coverage.py::test_the_healthy_path_believes_nothing_but_equality",
        ),
    ),
    Mutant(
        "a bookie that stands twice is two copies",
        COVERAGE,
        "first_checker/coverage.py",
        "for position in at if len(at) > 1 else ():",
        "for position in at if len(at) > 2 else ():",
        (
            "tests/unit/first_checker/test_first_checker_coverage.py::test_a_bookie_twice_in_a_write_set_holds_one_copy",
        ),
    ),
    Mutant(
        "a list may speak of any number of runs",
        COVERAGE,
        "first_checker/sources.py",
        "and foreign_runs(answer.groups, metadata.ensemble_size) <= runs_max",
        "and runs_max > 0",
        (
            "tests/unit/first_checker/test_first_checker_sources.py::test_a_list_foreign_to_striping_and_endless_is_invalid",
        ),
    ),
    Mutant(
        "silence is absence",
        COVERAGE,
        "first_checker/shares.py",
        "if self.is_gone else (EMPTY, wants)",
        "if self.is_gone else (wants, EMPTY)",
        (
            "tests/unit/first_checker/test_first_checker_coverage.py::test_no_valid_answer_is_unknown_never_absent",
        ),
    ),
    Mutant(
        "what a list lacks is absent before anything was read",
        COVERAGE,
        "first_checker/shares.py",
        "rest_is_absent=honest and bool(confirmed),",
        "rest_is_absent=honest,",
        (
            "tests/unit/first_checker/test_first_checker_coverage.py::test_what_a_list_lacks_is_unknown_until_it_was_read",
        ),
    ),
    Mutant(
        "a read that failed confirms the rest",
        COVERAGE,
        "first_checker/shares.py",
        "honest = has_only_tail and not failed",
        "honest = has_only_tail",
        (
            "tests/unit/first_checker/test_first_checker_coverage.py::test_a_read_that_failed_leaves_what_was_not_read_unknown",
        ),
    ),
    Mutant(
        "the tail defect is not known",
        COVERAGE,
        "first_checker/shares.py",
        " and highest % TAIL_PAGE_ENTRIES == 0",
        " and highest % TAIL_PAGE_ENTRIES == TAIL_PAGE_ENTRIES",
        (
            "tests/unit/first_checker/test_first_checker_coverage.py::test_the_known_tail_defect_says_nothing_about_the_rest",
        ),
    ),
    Mutant(
        "the worst entry is read on one bookie only",
        COVERAGE,
        "first_checker/confirmation.py",
        "        for bookie in one.bookies:\n",
        "        for bookie in one.bookies[:1]:\n",
        (
            "tests/unit/first_checker/test_first_checker_confirmation.py::test_a_missing_entry_is_read_on_every_bookie_that_lacks_it_and_no_other",
        ),
    ),
    Mutant(
        "one read more than allowed is asked of a bookie",
        COVERAGE,
        "first_checker/confirmation.py",
        "self.spent[bookie] < allowed",
        "self.spent[bookie] <= allowed",
        (
            "tests/unit/first_checker/test_first_checker_confirmation.py::test_reads_on_one_bookie_are_bounded",
        ),
    ),
    Mutant(
        "the last entry of a loss is not read",
        COVERAGE,
        "first_checker/confirmation.py",
        "(*first_run, lacking.last(), *spread)",
        "(*first_run, *spread)",
        (
            "tests/unit/first_checker/test_first_checker_confirmation.py::test_the_last_entry_that_a_bookie_lacks_is_read_there_whatever_others_lack",
        ),
    ),
    Mutant(
        "a bookie is judged before all its probes were made",
        COVERAGE,
        "first_checker/probing.py",
        "if not mine.keys() >= set(planned.all):",
        "if not mine:",
        (
            "tests/unit/first_checker/test_first_checker_probing.py::test_before_its_probes_are_made_a_bookie_is_unknown",
        ),
    ),
    Mutant(
        "each run of a series reads what the first one read",
        COVERAGE,
        "first_checker/sweep.py",
        "found = found << 1 | turn & 1",
        "found = found << 1 | turn & 0",
        (
            "tests/unit/first_checker/test_first_checker_sweep.py::test_as_many_turns_as_the_step_read_every_entry",
        ),
    ),
    Mutant(
        "what runs promise together is added up",
        COVERAGE,
        "first_checker/sweep.py",
        "return 1.0 - float(np.maximum(gaps - length, 0).sum()) / circle",
        "return min(1.0, sum(length / draw.step for draw in different))",
        (
            "tests/unit/first_checker/test_first_checker_sweep.py::test_runs_together_hit_as_often_as_promised",
        ),
    ),
    Mutant(
        "an unknown ledger is believed although a later look read an entry",
        COVERAGE,
        "first_checker/probing.py",
        "said = {read.status for read in answered if read.look == newest}",
        "said = {read.status for read in answered if read.look <= newest}",
        (
            "tests/unit/first_checker/test_first_checker_probing.py::test_the_newest_look_decides_what_enoledger_speaks_of",
        ),
    ),
    Mutant(
        "a bookie that does not know the ledger is read for more of it",
        COVERAGE,
        "first_checker/stranded.py",
        "return status in _ANSWERED and status is not ReadStatus.NO_LEDGER",
        "return status in _ANSWERED",
        (
            "tests/unit/first_checker/test_first_checker_stranded.py::test_who_does_not_know_the_ledger_is_not_read_again",
        ),
    ),
    Mutant(
        "one entry found elsewhere speaks for all",
        COVERAGE,
        "first_checker/entries.py",
        "search.entries_unnamed == search.entries",
        "search.entries_unnamed > 0",
        (
            "tests/unit/first_checker/test_first_checker_entries.py::test_a_holder_that_a_segment_names_is_distinguished",
        ),
    ),
    Mutant(
        "too few copies for the ack quorum count one late",
        COVERAGE,
        "first_checker/entries.py",
        "losses.beyond(write - ack + 1)",
        "losses.beyond(write - ack + 2)",
        (
            "tests/unit/first_checker/test_first_checker_ledger.py::test_the_kind_is_what_is_proven_even_if_every_silent_bookie_holds_a_copy",
        ),
    ),
    Mutant(
        "the worst entry disregards unknown copies",
        COVERAGE,
        "first_checker/worst.py",
        "        narrowed = candidates & level\n",
        "        narrowed = EntrySet()\n",
        (
            "tests/unit/first_checker/test_first_checker_worst.py::test_the_worst_entry_is_the_one_counting_finds",
        ),
    ),
    Mutant(
        "a mark at its grace is beyond it",
        COVERAGE,
        "first_checker/underreplication.py",
        "age_ms(mark, now_ms) > grace_ms",
        "age_ms(mark, now_ms) >= grace_ms",
        (
            "tests/unit/first_checker/test_first_checker_underreplication.py::test_exactly_at_its_grace_a_mark_is_acceptable",
        ),
    ),
    Mutant(
        "a mark excuses losses for ever",
        COVERAGE,
        "first_checker/ledger.py",
        "mark is not None and not is_beyond_grace(",
        "mark is not None and is_beyond_grace(",
        (
            "tests/unit/first_checker/test_first_checker_ledger.py::test_beyond_grace_a_mark_excuses_nothing",
        ),
    ),
    Mutant(
        "what is unknown counts as sound",
        COVERAGE,
        "first_checker/ledger.py",
        "standing = Standing.INDETERMINATE",
        "standing = Standing.SOUND",
        (
            "tests/unit/first_checker/test_first_checker_ledger.py::test_all_replicas_unreachable_is_unknown_never_sound",
        ),
    ),
    Mutant(
        "runs that touch are not merged",
        CODEC,
        "wire/entry_availability.py",
        "            if first == open_first + open_size:\n",
        "            if first < open_first + open_size:\n",
        ("tests/unit/wire/test_wire_entry_availability.py::test_runs_that_touch_are_one_run",),
    ),
    Mutant(
        "a list of a newer version is read as version 0",
        CODEC,
        "wire/entry_availability.py",
        "    if version != 0:\n",
        "    if version < 0:\n",
        (
            "tests/unit/wire/test_wire_entry_availability.py::test_a_list_that_breaks_a_rule_is_rejected_with_a_sentence",
        ),
    ),
    Mutant(
        "a periodic group loses its last run",
        CODEC,
        "wire/entry_availability.py",
        "going_last, open_first = last - period, last",
        "going_last, open_first = last - 2 * period, last - period",
        (
            "tests/unit/wire/test_wire_entry_availability.py::test_a_billion_entries_in_one_group_cost_no_more_than_a_small_one",
        ),
    ),
    Mutant(
        "a frame too large is skipped one byte short",
        CODEC,
        "wire/bookie_connection.py",
        "span = length if head else _FOR_EVER",
        "span = length - 1 if head else _FOR_EVER",
        (
            "tests/unit/wire/test_wire_frame_reader.py::test_an_oversized_frame_is_named_as_soon_as_it_can_be_and_skipped",
        ),
    ),
    Mutant(
        "the status of a list is only looked for outside it",
        CODEC,
        "wire/frames.py",
        "Response(11, txn_id, status or listed.status,",
        "Response(11, txn_id, status,",
        ("tests/unit/wire/test_wire_frames.py::test_the_outer_status_counts_unless_it_is_eok",),
    ),
    Mutant(
        "an answer without a status is EOK",
        CODEC,
        "wire/frames.py",
        "    if not message.IsInitialized():\n",
        "    if not message.header.IsInitialized():\n",
        ("tests/unit/wire/test_wire_frames.py::test_what_is_no_answer_is_a_breach",),
    ),
    Mutant(
        "a read asks for the entry behind",
        CODEC,
        "wire/frames.py",
        '        _ledger(ledger_id) + b"\\x10" + varint(entry_id),',
        '        _ledger(ledger_id) + b"\\x10" + varint(entry_id + 1),',
        (
            "tests/unit/wire/test_wire_frames.py::test_requests_are_byte_for_byte_what_a_real_client_sends",
        ),
    ),
    Mutant(
        "an answer about another ledger is taken",
        CODEC,
        "wire/bookie_connection.py",
        "(ledger_id != asked_ledger_id or entry_id != asked_entry_id)",
        "(ledger_id != asked_ledger_id and entry_id != asked_entry_id)",
        (
            "tests/unit/wire/test_wire_bookie_connection.py::test_an_answer_to_something_else_is_a_breach",
        ),
    ),
    Mutant(
        "without an ack quorum one copy is enough",
        CODEC,
        "wire/ledger_metadata.py",
        "else message.quorumSize",
        "else 1",
        (
            "tests/unit/wire/test_wire_ledger_metadata.py::test_an_absent_ack_quorum_is_the_write_quorum",
        ),
    ),
    Mutant(
        "a ledger with a password and no digest type has none",
        CODEC,
        "wire/ledger_metadata.py",
        'return DigestType.CRC32 if message.HasField("password") else None',
        "return None",
        (
            "tests/unit/wire/test_wire_ledger_metadata.py::test_a_password_without_a_digest_type_means_crc32",
        ),
    ),
    Mutant(
        "a message that breaks off is read as far as it goes",
        CODEC,
        "wire/ledger_metadata.py",
        "    if start + length > len(data):\n",
        "    if start > len(data):\n",
        ("tests/unit/wire/test_wire_ledger_metadata.py::test_a_truncated_message_is_malformed",),
    ),
    Mutant(
        "a ledger in recovery is closed at entry -102",
        CODEC,
        "wire/ledger_metadata.py",
        "LedgerState.IN_RECOVERY if entry_id == IN_RECOVERY_ENTRY_ID else LedgerState.CLOSED",
        "LedgerState.CLOSED",
        (
            "tests/unit/wire/test_wire_ledger_metadata.py::test_format_1_takes_minus_102_for_recovery",
        ),
    ),
    Mutant(
        "an error quotes the line that has the password",
        CODEC,
        "wire/protobuf_forms.py",
        "return _where(text, start, error.GetLine() or 1, error.GetColumn() or 1)",
        "return MalformedMetadata(str(error), start)",
        (
            "tests/unit/wire/test_wire_ledger_metadata.py::test_a_broken_password_line_is_not_quoted",
        ),
    ),
    Mutant(
        "the digest covers the payload alone",
        CODEC,
        "wire/digest.py",
        "covered = body[:HEADER_BYTES] + body[HEADER_BYTES + digest_bytes :]",
        "covered = body[HEADER_BYTES + digest_bytes :]",
        ("tests/unit/wire/test_wire_digest.py::test_digests_of_real_entries_are_right",),
    ),
    Mutant(
        "any entry of the ledger will do",
        CODEC,
        "wire/digest.py",
        "_IDS.unpack_from(body) != (ledger_id, entry_id)",
        "_IDS.unpack_from(body)[0] != ledger_id",
        ("tests/unit/wire/test_wire_digest.py::test_wrong_ids_are_found_whatever_the_digest",),
    ),
    Mutant(
        "a mark without a time of its own is from 1970",
        CODEC,
        "wire/underreplication_mark.py",
        'changed_ms=message.ctime if message.HasField("ctime") else None',
        "changed_ms=message.ctime",
        ("tests/unit/wire/test_wire_underreplication_mark.py::test_decodes_each_shape_of_mark",),
    ),
    Mutant(
        "the long tree begins one ledger late",
        CODEC,
        "wire/znode_paths.py",
        "LONG_ID_MIN = 2**31 - 1",
        "LONG_ID_MIN = 2**31",
        ("tests/unit/wire/test_wire_znode_paths.py::test_the_table_of_paths",),
    ),
    Mutant(
        "marks lie by decimal digits",
        CODEC,
        "wire/znode_paths.py",
        'h = f"{ledger_id:016x}"',
        'h = f"{ledger_id:016d}"',
        ("tests/unit/wire/test_wire_znode_paths.py::test_the_table_of_marks",),
    ),
    Mutant(
        "a ledger in the wrong place is a ledger",
        CODEC,
        "wire/znode_paths.py",
        "if ledger_id <= LEDGER_ID_MAX and ledger_path(layout, ledger_id) == path",
        "if ledger_id <= LEDGER_ID_MAX",
        (
            "tests/unit/wire/test_wire_znode_paths.py::test_the_children_of_a_level_are_distinguished",
        ),
    ),
    Mutant(
        "the auditor is elected by the name of its vote",
        CODEC,
        "wire/znode_paths.py",
        "return [name for _, name in sorted(votes)]",
        "return sorted(name for _, name in votes)",
        ("tests/unit/wire/test_wire_znode_paths.py::test_votes_are_ordered_by_number",),
    ),
    Mutant(
        "metadata that changed counts as the same",
        RECHECK,
        "first_checker/recheck.py",
        "return one.status is other.status and one.stamp == other.stamp",
        "return one.status is other.status",
        (
            "tests/unit/first_checker/test_first_checker_recheck.py::test_another_incarnation_of_a_ledger_is_a_change",
            "tests/unit/first_checker/test_first_checker_recheck.py::test_what_was_seen_counts_from_the_last_change_on",
        ),
    ),
    Mutant(
        "one look is enough",
        RECHECK,
        "first_checker/recheck.py",
        "ASKED_LOOKS_OF_A_SUSPECT = 2",
        "ASKED_LOOKS_OF_A_SUSPECT = 1",
        ("tests/unit/first_checker/test_first_checker_recheck.py::test_what_becomes_of_a_story",),
    ),
    Mutant(
        "one look more than allowed is taken",
        RECHECK,
        "first_checker/recheck.py",
        "len(looks) > looks_max + CLOSING_LOOKS:",
        "len(looks) > looks_max + CLOSING_LOOKS + 1:",
        (
            "tests/unit/first_checker/test_first_checker_recheck.py::test_what_the_looks_so_far_demand",
        ),
    ),
    Mutant(
        "a mark seen once is a mark seen twice",
        RECHECK,
        "first_checker/recheck.py",
        "len(looks) > 1 and looks[-2].record.mark is not None and looks[-1]",
        "len(looks) > 1 and looks[-1]",
        (
            "tests/unit/first_checker/test_first_checker_recheck.py::test_what_the_looks_so_far_demand",
        ),
    ),
    Mutant(
        "a ledger that is gone at the first look is believed",
        RECHECK,
        "first_checker/recheck.py",
        "(\n        newest.status is RecordStatus.GONE and len(looks) > 1\n    )",
        "newest.status is RecordStatus.GONE",
        ("tests/unit/first_checker/test_first_checker_recheck.py::test_what_becomes_of_a_story",),
    ),
    Mutant(
        "the metadata is not read again behind the answers",
        RECHECK,
        "first_checker/recheck.py",
        "    if newest.answers:\n        second_opinion",
        "    if newest.answers and asked < ASKED_LOOKS_OF_A_SUSPECT:\n        second_opinion",
        (
            "tests/unit/first_checker/test_first_checker_recheck.py::test_only_a_second_opinion_waits",
        ),
    ),
    Mutant(
        "the second opinion does not wait",
        RECHECK,
        "first_checker/recheck.py",
        "return Instruction(Next.LOOK_AGAIN, wait=second_opinion)",
        "return Instruction(Next.LOOK_AGAIN)",
        (
            "tests/unit/first_checker/test_first_checker_recheck.py::test_only_a_second_opinion_waits",
        ),
    ),
    Mutant(
        "a ledger that keeps changing is waited for again and again",
        RECHECK,
        "first_checker/recheck.py",
        "if wanted.wait and len(looks) > WAITED_LOOKS_MAX:",
        "if wanted.wait and len(looks) > looks_max:",
        (
            "tests/unit/first_checker/test_first_checker_recheck.py::test_a_ledger_that_keeps_changing_is_waited_for_twice_at_most",
        ),
    ),
    Mutant(
        "a wrong digest read once is corruption",
        RECHECK,
        "judging/newest_state.py",
        "CORRUPT_READS_MIN = 2",
        "CORRUPT_READS_MIN = 1",
        (
            "tests/unit/judging/test_judging_newest_state.py::test_a_wrong_digest_accuses_when_two_looks_read_it_and_none_read_it_otherwise_since",
        ),
    ),
    Mutant(
        "a mark beyond grace hides what silence may hide",
        RECHECK,
        "judging/settle.py",
        "if suspicion is Suspicion.MARKED and",
        "if suspicion is Suspicion.NONE and",
        (
            "tests/unit/judging/test_judging_settle.py::test_a_marked_ledger_with_a_bookie_that_did_not_answer_is_asked_about_again",
        ),
    ),
    Mutant(
        "a later failure takes back a conclusive answer",
        RECHECK,
        "judging/newest_state.py",
        "says_something\n                or answers",
        "answer.status\n                or answers",
        (
            "tests/unit/judging/test_judging_newest_state.py::test_the_newest_conclusive_word_of_each_bookie_counts",
        ),
    ),
    Mutant(
        "a list outlives the bookie that is gone",
        RECHECK,
        "judging/newest_state.py",
        "says_something = answer.status in conclusive or answer.is_gone",
        "says_something = answer.status in conclusive",
        (
            "tests/unit/judging/test_judging_newest_state.py::test_what_a_bookie_listed_is_lost_when_it_is_gone_at_a_later_look",
        ),
    ),
    Mutant(
        "a remark is made on one look",
        RECHECK,
        "judging/settle.py",
        "if verdict.standing is Standing.VIOLATED or state.is_stable:",
        "if state.looks:",
        (
            "tests/unit/judging/test_judging_settle.py::test_a_remark_that_no_longer_holds_at_the_second_look_is_dropped",
        ),
    ),
    Mutant(
        "what the checkers differ on is committed",
        RECHECK,
        "judging/settle.py",
        "    if not differ:",
        "    if not differ or terms:",
        (
            "tests/unit/judging/test_judging_settle.py::test_what_the_checkers_differ_on_is_withheld",
        ),
    ),
    Mutant(
        "maintenance is waited for",
        RECHECK,
        "judging/settle.py",
        "if unknowns <= _FIXED_UNKNOWNS or verdict.only_maintenance:",
        "if unknowns <= _FIXED_UNKNOWNS:",
        (
            "tests/unit/judging/test_judging_settle.py::test_what_only_maintenance_kept_from_being_judged_is_not_looked_at_again",
        ),
    ),
    Mutant(
        "the suspects of all shards are looked at with each",
        RECHECK,
        "suspects/remaining.py",
        'keep = _is_within(shard) & (pc.field("todo")',
        'keep = (pc.field("todo")',
        ("tests/unit/suspects/test_suspects_remaining.py::test_open_are_those_of_the_shard_alone",),
    ),
    Mutant(
        "children that judge are forked in any thread",
        RECHECK,
        "suspects/by_size.py",
        "return self.suspects_max > 0 and current_thread() is main_thread()",
        "return self.suspects_max > 0",
        (
            "tests/unit/suspects/test_suspects_by_size.py::test_spark_does_the_stages_of_other_threads_than_the_main_one",
        ),
    ),
    Mutant(
        "the driver asks about what was listed, not about what was read",
        ACCOUNTING,
        "suspects/in_process.py",
        "            self.suspects.recorded_ledgers(shard)",
        "            self.suspects.listed_ledgers(shard)",
        (
            "tests/unit/suspects/test_suspects_in_process_stages.py::test_the_first_look_asks_about_every_ledger_of_the_shard",
        ),
    ),
    Mutant(
        "reads are sent to bookies that did not answer",
        RECHECK,
        "judging/settle.py",
        "return answer is not None and (\n"
        "        answer.status in READABLE_ANSWERS or answer.status is "
        "AnswerStatus.FAILED\n"
        "    )",
        "return answer is not None",
        (
            "tests/unit/judging/test_judging_settle.py::test_reads_go_only_to_bookies_that_answered_at_this_look",
        ),
    ),
    Mutant(
        "a ledger on which judging raises ends the run",
        RECHECK,
        "judging/guard.py",
        "        except (Exception, SystemExit) as error:  # a ledger may cause anything",
        "        except (KeyError, SystemExit) as error:  # whatever",
        (
            "tests/unit/judging/test_judging_judged_rows.py::test_a_ledger_on_which_judging_raises_is_set_aside",
        ),
    ),
    Mutant(
        "a ledger that was not asked for is left waiting for its lists",
        RECHECK,
        "spark/verdicts.py",
        "if self.were_asked and step.todo is Todo.LISTS:",
        "if not self.were_asked and step.todo is Todo.LISTS:",
        (
            "tests/unit/judging/test_judging_asking.py::test_a_ledger_that_was_not_asked_for_is_set_aside",
        ),
    ),
    Mutant(
        "a ledger judged twice adds up",
        ACCOUNTING,
        "summary/ledgers.py",
        "(rows[row_counts > 1], ",
        "(rows[row_counts > 2], ",
        (
            "tests/unit/summary/test_summary_ledgers.py::test_a_dropped_row_is_not_hidden_by_a_doubled_one",
        ),
    ),
    Mutant(
        "a ledger that was never judged adds up",
        ACCOUNTING,
        "summary/ledgers.py",
        'np.setdiff1d(ids, rows, assume_unique=True), "listed and never',
        'np.setdiff1d(rows, ids, assume_unique=True), "listed and never',
        (
            "tests/unit/summary/test_summary_ledgers.py::test_what_does_not_add_up_is_reported_with_the_ledger",
        ),
    ),
    Mutant(
        "what could not be judged goes before a finding",
        ACCOUNTING,
        "summary/outcome.py",
        "        return 1\n",
        "        return 3 if incomplete else 1\n",
        (
            "tests/unit/summary/test_summary_run_summary.py::test_a_finding_decides_the_code_before_an_incomplete_run",
        ),
    ),
    Mutant(
        "only critical findings are a violation",
        ACCOUNTING,
        "summary/outcome.py",
        ">= Severity.WARNING for one in findings",
        "> Severity.WARNING for one in findings",
        ("tests/unit/summary/test_summary_run_summary.py::test_the_outcome_ignores_fail_on",),
    ),
    Mutant(
        "a fault of ours is the outcome of its findings",
        ACCOUNTING,
        "summary/outcome.py",
        "    if fault:\n        return OUTCOME_FAULT\n",
        "",
        (
            "tests/unit/summary/test_summary_run_summary.py::test_a_fault_of_the_auditor_decides_before_all_else",
        ),
    ),
    Mutant(
        "one look makes a ledger unmarked",
        ACCOUNTING,
        "summary/cluster/bookies.py",
        "LEDGER_LOOKS_MIN = 2",
        "LEDGER_LOOKS_MIN = 1",
        (
            "tests/unit/summary/cluster/test_summary_bookies.py::test_a_ledger_counts_if_it_needed_the_bookie_at_two_looks_and_still_does",
        ),
    ),
    Mutant(
        "marked ledgers are unmarked too",
        ACCOUNTING,
        "summary/cluster/bookies.py",
        '~pc.field("marked_any") & (',
        "(",
        (
            "tests/unit/summary/cluster/test_summary_bookies.py::test_a_ledger_counts_by_its_marks_at_the_first_and_the_last_look",
        ),
    ),
    Mutant(
        "a ledger that names the bookie no longer counts",
        ACCOUNTING,
        "summary/cluster/bookies.py",
        '(pc.field("status_last") == RecordStatus.FOUND.value) & still',
        'pc.field("status_last") == RecordStatus.FOUND.value',
        (
            "tests/unit/summary/cluster/test_summary_bookies.py::test_a_ledger_counts_if_it_needed_the_bookie_at_two_looks_and_still_does",
        ),
    ),
    Mutant(
        "a bookie that was back is gone since before",
        ACCOUNTING,
        "summary/absences.py",
        "if bookie in registered\n                    else before",
        "if False\n                    else before",
        (
            "tests/unit/summary/test_summary_absences.py::test_the_time_goes_on_over_runs_until_the_bookie_registers",
        ),
    ),
    Mutant(
        "a read that brought the entry is no answer",
        ACCOUNTING,
        "summary/cluster/refusal_counts.py",
        "pa.concat_tables([lists.select(REQUESTED.names), mine.select(REQUESTED.names)]",
        "lists.select(REQUESTED.names",
        (
            "tests/unit/summary/cluster/test_summary_refusal_counts.py::test_a_bookie_with_one_read_that_ended_otherwise_does_not_fail",
        ),
    ),
    Mutant(
        "a bookie is lost while its ledgers are being marked",
        ACCOUNTING,
        "first_checker/reachability.py",
        "if missed.marked_last > missed.marked_first:",
        "if False:",
        (
            "tests/unit/first_checker/test_first_checker_reachability.py::test_while_the_cluster_is_marking_nobody_is_accused",
        ),
    ),
    Mutant(
        "a bookie is lost during an upgrade",
        ACCOUNTING,
        "first_checker/reachability.py",
        "if has_cookie and facts.replication_disabled:",
        "if False:",
        (
            "tests/unit/first_checker/test_first_checker_reachability.py::test_while_replication_is_disabled_a_bookie_with_a_cookie_is_not_accused",
        ),
    ),
    Mutant(
        "two bookies that hold it are one new name",
        ACCOUNTING,
        "first_checker/renaming.py",
        "return holders[0] if len(holders) == 1 else None",
        "return holders[0] if holders else None",
        (
            "tests/unit/first_checker/test_first_checker_renaming.py::test_two_that_hold_it_are_no_new_name",
        ),
    ),
    Mutant(
        "any loss is most of a ledger",
        ACCOUNTING,
        "summary/cluster/content.py",
        'pc.greater(pc.multiply(lacks["absent"], 2), lacks["expected"])',
        'pc.greater(pc.multiply(lacks["absent"], 20), lacks["expected"])',
        (
            "tests/unit/summary/cluster/test_summary_content.py::test_most_of_a_ledger_is_more_than_half",
        ),
    ),
    Mutant(
        "the first word counts, not the last",
        ACCOUNTING,
        "summary/last_words.py",
        'rows.sort_by("look")',
        'rows.sort_by([("look", "descending")])',
        ("tests/unit/summary/cluster/test_summary_content.py::test_the_last_word_counts",),
    ),
    Mutant(
        "a finding that got worse is not new",
        ACCOUNTING,
        "summary/previous_run.py",
        '(found["id"], found["kind"]) not in self.findings\n',
        'found["id"] not in {one for one, _ in self.findings}\n',
        ("tests/unit/summary/test_summary_previous_run.py::test_a_finding_that_got_worse_is_new",),
    ),
    Mutant(
        "ledgers that a mark excuses are covered",
        ACCOUNTING,
        "summary/run_summary.py",
        "pc.sum(pc.or_(unknown, marked))",
        "pc.sum(unknown)",
        (
            "tests/unit/summary/test_summary_run_summary.py::test_coverage_counts_what_could_be_judged",
        ),
    ),
    Mutant(
        "ledgers that were named and are not there are passed over",
        ACCOUNTING,
        "summary/run_summary.py",
        "if run.not_there or run.listing_was_short:",
        "if run.listing_was_short:",
        (
            "tests/unit/summary/test_summary_run_summary.py::test_ledgers_that_were_named_and_are_not_there_leave_the_run_incomplete",
        ),
    ),
    Mutant(
        "what is still speculative is reported",
        ACCOUNTING,
        "judging/verdict_rows.py",
        "reported = verdict.findings if step.todo is Todo.NOTHING else ()",
        "reported = verdict.findings",
        (
            "tests/unit/judging/test_judging_verdict_rows.py::test_findings_are_reported_of_a_verdict_that_stands",
        ),
    ),
    Mutant(
        "nobody accounts for the ledgers",
        ACCOUNTING,
        "run/conclusion.py",
        'run.read_table("evidence/listing", LISTING)["ledger_id"]',
        'verdicts.table(["ledger_id"])["ledger_id"]',
        ("tests/unit/run/test_run_conclusion.py::test_ledgers_and_verdicts_must_add_up",),
    ),
    Mutant(
        "a finding is new in every run that has it",
        ACCOUNTING,
        "summary/previous_run.py",
        '(found["id"], found["kind"]) not in self.findings\n',
        'found["id"] not in self.findings\n',
        ("tests/unit/commands/test_commands_publishing.py::test_sums_go_on_from_run_to_run",),
    ),
    Mutant(
        "requests that failed are those of the newest run alone",
        ACCOUNTING,
        "summary/previous_run.py",
        'before.get("failed", 0) + failed[name]',
        "failed[name]",
        ("tests/unit/commands/test_commands_publishing.py::test_sums_go_on_from_run_to_run",),
    ),
    Mutant(
        "metrics leave before latest.json names their run",
        ACCOUNTING,
        "commands/run.py",
        "publish(context, state.output, results, state.lock)\n"
        "    state.is_over = True\n"
        '    with keep_outcome(context, "send the metrics"):\n'
        "        send_metrics(context, results, state.cluster)",
        "send_metrics(context, results, state.cluster)\n"
        "    publish(context, state.output, results, state.lock)",
        (
            "tests/unit/commands/test_commands_run_faults.py::test_no_step_after_publishing_changes_the_code",
        ),
    ),
    Mutant(
        "entries are counted from the start of the stretch",
        SECOND,
        "second_checker/schedule.py",
        "[entry % len(self.ensemble)]",
        "[(entry - self.first) % len(self.ensemble)]",
        (
            "tests/unit/second_checker/test_second_checker_opinion.py::test_an_entry_is_written_to_the_positions_from_its_own_id_on",
        ),
    ),
    Mutant(
        "a stretch reaches into the next one",
        SECOND,
        "second_checker/schedule.py",
        "lowest_yet_above[place + 1] - 1",
        "lowest_yet_above[place + 1]",
        (
            "tests/unit/second_checker/test_second_checker_opinion.py::test_entries_are_judged_where_their_end_is_clear",
        ),
    ),
    Mutant(
        "the worst entry is the last",
        SECOND,
        "second_checker/copies.py",
        "Worst(fewest, confirmed, block.low + lowest_of(entries), block.stretch)",
        "Worst(fewest, confirmed, block.low + entries.bit_length() - 1, block.stretch)",
        (
            "tests/unit/second_checker/test_second_checker_findings.py::test_of_entries_equally_lost_the_lowest_is_the_worst",
        ),
    ),
    Mutant(
        "a read that was refused is absence",
        SECOND,
        "second_checker/holdings.py",
        "NOT_THERE = (ReadStatus.NO_ENTRY, ReadStatus.NO_LEDGER)",
        "NOT_THERE = (ReadStatus.NO_ENTRY, ReadStatus.NO_LEDGER, ReadStatus.REFUSED)",
        (
            "tests/unit/second_checker/test_second_checker_opinion.py::test_what_was_read_goes_before_what_was_listed",
        ),
    ),
    Mutant(
        "any entry may be left out of an honest list",
        SECOND,
        "second_checker/holdings.py",
        "entry == highest and entry % PAGE == 0 and has_ledger",
        "entry == highest and has_ledger",
        (
            "tests/unit/second_checker/test_second_checker_findings.py::test_only_the_first_entry_of_a_page_may_be_left_out_of_an_honest_list",
        ),
    ),
    Mutant(
        "a long period is cut short in a block",
        SECOND,
        "second_checker/holdings.py",
        "step, min(group.end, high) - start + 1)",
        "step, min(group.end, high) - start)",
        (
            "tests/unit/second_checker/test_second_checker_opinion.py::test_a_list_is_written_out_as_its_groups_say",
        ),
    ),
    Mutant(
        "a wrong digest read once is corruption",
        SECOND,
        "second_checker/looks.py",
        "LOOKS_OF_CORRUPTION = 2",
        "LOOKS_OF_CORRUPTION = 1",
        (
            "tests/unit/second_checker/test_second_checker_newest_words.py::test_a_wrong_digest_accuses_when_two_looks_read_it",
        ),
    ),
    Mutant(
        "metadata that changed counts as the same",
        SECOND,
        "second_checker/looks.py",
        "return (one.status, one.stamp) == (other.status, other.stamp)",
        "return one.status is other.status",
        (
            "tests/unit/second_checker/test_second_checker_newest_words.py::test_what_was_heard_of_other_metadata_does_not_count",
        ),
    ),
    Mutant(
        "a later failure takes back a conclusive answer",
        SECOND,
        "second_checker/looks.py",
        "kept.status not in spoken and answer.status in spoken:",
        "kept.status not in spoken and answer.status in kept.status:",
        (
            "tests/unit/second_checker/test_second_checker_newest_words.py::test_no_failure_takes_back_an_answer",
        ),
    ),
    Mutant(
        "a list outlives the bookie that is gone",
        SECOND,
        "second_checker/looks.py",
        "was_gone.add(bookie)",
        "was_gone.discard(bookie)",
        (
            "tests/unit/second_checker/test_second_checker_newest_words.py::test_a_bookie_that_is_gone_takes_its_lists_along",
        ),
    ),
    Mutant(
        "only the younger time of a mark counts",
        SECOND,
        "second_checker/metadata.py",
        "return max(ages) > terms.underreplication_grace_ms",
        "return min(ages) > terms.underreplication_grace_ms",
        (
            "tests/unit/second_checker/test_second_checker_findings.py::test_a_mark_is_as_old_as_the_older_of_its_times",
        ),
    ),
    Mutant(
        "an ack quorum above the write quorum makes sense",
        SECOND,
        "second_checker/findings.py",
        "(ack <= write, Contradicts",
        "(True, Contradicts",
        (
            "tests/unit/second_checker/test_second_checker_findings.py::test_metadata_that_contradicts_itself_is_malformed",
        ),
    ),
    Mutant(
        "one entry found elsewhere speaks for all",
        SECOND,
        "second_checker/findings.py",
        "search.entries == search.entries_unnamed",
        "search.entries_unnamed > 0",
        (
            "tests/unit/second_checker/test_second_checker_findings.py::test_each_lost_entry_that_is_looked_for_elsewhere_must_be_found_there",
        ),
    ),
    Mutant(
        "too few copies for the ack quorum count one late",
        SECOND,
        "second_checker/findings.py",
        "tally.with_at_most(ack - 1)",
        "tally.with_at_most(ack - 2)",
        (
            "tests/unit/second_checker/test_second_checker_findings.py::test_the_kind_follows_from_the_copies_that_can_exist",
        ),
    ),
    Mutant(
        "nothing is looked at beside the points",
        SECOND,
        "second_checker/blocks.py",
        "reach = len(part.ensemble)",
        "reach = 0",
        (
            "tests/unit/second_checker/test_second_checker_blocks.py::test_a_whole_round_of_the_ensemble_is_looked_at_to_both_sides_of_a_point",
        ),
    ),
    Mutant(
        "another sample is drawn",
        SECOND,
        "second_checker/copies.py",
        'f"{key}/{highest}".encode()',
        'f"{key}-{highest}".encode()',
        (
            "tests/unit/second_checker/test_second_checker_probes.py::test_both_checkers_draw_the_same_entries",
        ),
    ),
    Mutant(
        "write sets do not wrap round",
        SECOND,
        "second_checker/placement.py",
        "sets = {at: tuple(ensemble[(at + step) % size]",
        "sets = {at: tuple(ensemble[min(at + step, size - 1)]",
        (
            "tests/unit/second_checker/test_second_checker_placement.py::test_a_write_set_needs_two_racks",
        ),
    ),
    Mutant(
        "a region may hold just the ack quorum",
        SECOND,
        "second_checker/placement.py",
        "        sum(region in chosen for region in regions) >= ack",
        "        sum(region in chosen for region in regions) > ack",
        (
            "tests/unit/second_checker/test_second_checker_placement.py::test_no_single_region_may_acknowledge_alone",
        ),
    ),
    Mutant(
        "a remark is made on one look",
        SECOND,
        "second_checker/opinion.py",
        "if len(statements.looks) < 2 and opinion",
        "if len(statements.looks) < 1 and opinion",
        (
            "tests/unit/second_checker/test_second_checker_findings.py::test_a_remark_takes_two_looks",
        ),
    ),
    Mutant(
        "the metadata need not be read behind the answers",
        SECOND,
        "second_checker/looks.py",
        "    if evidence.looks[-1].answers:\n",
        "    if not evidence.looks:\n",
        (
            "tests/unit/second_checker/test_second_checker_agreement.py::test_no_entry_is_reported_on_fewer_looks_than_it_takes",
        ),
    ),
    Mutant(
        "what bookies lack is not compared",
        SECOND,
        "second_checker/agreement.py",
        '        yield "what bookies lack", lacks, dict(second.lacks)\n',
        '        yield "what bookies lack", lacks, lacks\n',
        (
            "tests/unit/second_checker/test_second_checker_agreement.py::test_what_bookies_lack_is_compared_as_far_as_it_was_counted",
        ),
    ),
    Mutant(
        "the exempt are committed unchecked",
        SECOND,
        "second_checker/agreement.py",
        "if verdict.standing is not Standing.SOUND or verdict.findings:",
        "if verdict.standing > Standing.EXEMPT or verdict.findings:",
        (
            "tests/unit/second_checker/test_second_checker_agreement.py::test_all_but_the_sound_go_to_the_second_checker",
        ),
    ),
    Mutant(
        "a zone that could be lent a domain is crowded",
        SECOND,
        "second_checker/placement.py",
        "if len(crowded) > write_set.unplaced:",
        "if crowded:",
        (
            "tests/unit/second_checker/test_second_checker_reasons.py::test_the_clause_states_what_is_there_and_what_is_needed",
        ),
    ),
    Mutant(
        "a bookie that was not heard counts as searched",
        FACTS,
        "first_checker/stranded.py",
        "else unheard",
        "else searched",
        (
            "tests/unit/first_checker/test_first_checker_stranded.py::test_a_bookie_that_gave_no_conclusive_answer_is_unheard",
        ),
    ),
    Mutant(
        "who was not heard is left out of the search",
        FACTS,
        "first_checker/stranded.py",
        "else unheard\n        ).append(bookie)",
        "else []\n        ).append(bookie)",
        (
            "tests/unit/first_checker/test_first_checker_stranded.py::test_a_bookie_that_gave_no_conclusive_answer_is_unheard",
        ),
    ),
    Mutant(
        "a bookie that holds some of what was looked for does not count",
        FACTS,
        "first_checker/stranded.py",
        "if _Word.HELD in said:",
        "if said == {_Word.HELD}:",
        (
            "tests/unit/first_checker/test_first_checker_stranded.py::test_an_entry_is_found_where_some_bookie_holds_it",
        ),
    ),
    Mutant(
        "a corrupt copy elsewhere is no copy at all",
        FACTS,
        "first_checker/stranded.py",
        "if read.status is ReadStatus.PRESENT else _Word.CORRUPT",
        "if read.status is ReadStatus.PRESENT else _Word.ABSENT",
        (
            "tests/unit/first_checker/test_first_checker_stranded.py::test_a_copy_with_a_wrong_digest_or_wrong_ids_is_distinguished",
        ),
    ),
    Mutant(
        "entries that were looked for are left",
        FACTS,
        "first_checker/stranded.py",
        "self.lost.count() - len(entries))",
        "self.lost.count())",
        (
            "tests/unit/first_checker/test_first_checker_entries.py::test_entries_only_elsewhere_are_all_counted_and_the_search_says_how_far_it_went",
        ),
    ),
    Mutant(
        "an entry found on two bookies counts twice",
        FACTS,
        "first_checker/stranded.py",
        "held = held | (one.listed & one.scope)",
        "held = EntrySet.join((held, one.listed & one.scope))",
        (
            "tests/unit/first_checker/test_first_checker_stranded.py::test_an_entry_that_two_bookies_list_is_one_entry",
        ),
    ),
    Mutant(
        "a hole is called a tail",
        FACTS,
        "first_checker/entries.py",
        "        rest and rest.last() < share.absent.first()",
        "        rest and rest.first() < share.absent.first()",
        (
            "tests/unit/first_checker/test_first_checker_ledger.py::test_a_copy_that_is_missing_only_at_the_end_is_distinguished_from_a_hole",
        ),
    ),
    Mutant(
        "a gone bookie is left out of the facts",
        FACTS,
        "first_checker/entries.py",
        "gone=tuple(sorted(lacking & losses.seen.gone))",
        "gone=()",
        (
            "tests/unit/first_checker/test_first_checker_ledger.py::test_what_a_bookie_held_that_is_gone_is_absent_whether_the_ledger_is_marked_or_not",
        ),
    ),
    Mutant(
        "listed outside includes the write set",
        FACTS,
        "first_checker/entries.py",
        "b for b in held if b not in write_set and worst.entry_id in held[b]",
        "b for b in held if worst.entry_id in held[b]",
        (
            "tests/unit/first_checker/test_first_checker_ledger.py::test_the_worst_entry_is_named_with_its_write_set_by_absolute_ids",
        ),
    ),
    Mutant(
        "only the entries shown are counted",
        FACTS,
        "first_checker/entries.py",
        "entries_total=entries.count(),\n"
        "        missing_on=_missing_on(seen),\n"
        "        copies=copies,",
        "entries_total=sum(last - first + 1 for first, last in entries.ranges(RANGES_MAX)),\n"
        "        missing_on=_missing_on(seen),\n"
        "        copies=copies,",
        (
            "tests/unit/first_checker/test_first_checker_ledger.py::test_ranges_are_cut_and_totals_are_not",
        ),
    ),
    Mutant(
        "a mark is stale while copies are assumed",
        FACTS,
        "first_checker/underreplication.py",
        "return copies.listed + copies.read == copies.expected",
        "return copies.listed + copies.read + copies.assumed == copies.expected",
        (
            "tests/unit/first_checker/test_first_checker_underreplication.py::test_a_mark_is_not_stale_while_a_sample_stands_for_some_copies",
        ),
    ),
    Mutant(
        "an open ledger is called empty",
        FACTS,
        "first_checker/beyond_end.py",
        "metadata.state is not LedgerState.CLOSED or metadata.last_entry_id != -1",
        "metadata.last_entry_id != -1",
        (
            "tests/unit/first_checker/test_first_checker_ledger.py::test_an_open_ledger_is_never_called_empty",
        ),
    ),
    Mutant(
        "a bookie that is gone shows that a ledger is empty",
        FACTS,
        "first_checker/beyond_end.py",
        "            if bookie in seen.held:\n                continue",
        "            if bookie in seen.held or bookie in seen.gone:\n                continue",
        (
            "tests/unit/first_checker/test_first_checker_beyond_end.py::test_bookies_that_are_gone_show_of_no_ledger_that_it_is_empty",
        ),
    ),
    Mutant(
        "that no copy is in reach is never said",
        FACTS,
        "first_checker/underreplication.py",
        "if len(levels([*one.surplus, *out_of_reach])) >= metadata.write_quorum:",
        "if len(levels([*one.surplus, *out_of_reach])) > metadata.write_quorum:",
        (
            "tests/unit/first_checker/test_first_checker_underreplication.py::test_each_reason_for_a_mark_to_stand_is_reported_alone",
        ),
    ),
    Mutant(
        "a copy that is assumed was read",
        FACTS,
        "first_checker/coverage.py",
        "assumed += held.count() - seen",
        "read += held.count() - seen",
        (
            "tests/unit/first_checker/test_first_checker_underreplication.py::test_a_mark_is_not_stale_while_a_sample_stands_for_some_copies",
        ),
    ),
    Mutant(
        "a header that names the end proves that entries were cut off",
        FACTS,
        "first_checker/beyond_end.py",
        "header.last_confirmed > max(-1, self.facts.last_entry_id)",
        "header.last_confirmed >= max(-1, self.facts.last_entry_id)",
        (
            "tests/unit/first_checker/test_first_checker_beyond_end.py::test_what_bookies_hold_above_the_end_is_found_with_what_headers_prove",
        ),
    ),
    Mutant(
        "a ledger that is there again is missing",
        FACTS,
        "first_checker/references.py",
        "seen.again.status is not RecordStatus.GONE or not (lost or newest)",
        "not (lost or newest)",
        (
            "tests/unit/summary/references/test_summary_reference_findings.py::test_what_two_looks_do_not_show_is_unknown",
        ),
    ),
    Mutant(
        "what long-term storage has can be lost",
        FACTS,
        "first_checker/topic_uses.py",
        "return not self.is_elsewhere and self.entries != 0",
        "return self.entries != 0",
        (
            "tests/unit/summary/references/test_summary_reference_findings.py::test_an_absence_that_is_not_a_loss_is_not_a_finding",
        ),
    ),
    Mutant(
        "the newest ledger of a topic in use is missing like any other",
        FACTS,
        "first_checker/topic_uses.py",
        "is_newest=is_newest and ledger.entries is None",
        "is_newest=False",
        (
            "tests/unit/first_checker/test_first_checker_references.py::test_a_newest_ledger_without_a_record_is_a_finding_of_its_own",
        ),
    ),
    Mutant(
        "a ledger that lacks its last entry alone is whole",
        FACTS,
        "summary/references/reference_tables.py",
        "(ends + 1 < entries[at])",
        "(ends + 2 < entries[at])",
        (
            "tests/unit/summary/references/test_summary_reference_findings.py::test_a_ledger_that_ends_before_what_the_topic_recorded_is_truncated",
        ),
    ),
    Mutant(
        "an orphan is decided where its namespace was not read",
        FACTS,
        "first_checker/orphans.py",
        "if namespace in self.doubtful:",
        "if namespace in self.doubtful and not self.namespaces:",
        (
            "tests/unit/summary/references/test_summary_reference_findings.py::test_a_doubt_counts_against_an_orphan",
        ),
    ),
    Mutant(
        "a young ledger is an orphan",
        FACTS,
        "first_checker/orphans.py",
        "return now_ms - created_ms(record) > orphan_age_ms",
        "return now_ms - created_ms(record) >= orphan_age_ms",
        (
            "tests/unit/summary/references/test_summary_reference_findings.py::test_a_doubt_counts_against_an_orphan",
        ),
    ),
    Mutant(
        "by columns, whoever answers has a whole list",
        COLUMNS,
        "judging/healthy_ledgers.py",
        "return lists == expected",
        "return lists.keys() == expected.keys()",
        (
            "tests/unit/judging/test_judging_healthy_ledgers.py::test_a_ledger_with_anything_else_to_it_is_not_found",
            "tests/unit/judging/test_judging_healthy_ledgers.py::test_a_ledger_is_found_when_each_copy_is_listed_and_only_then",
        ),
    ),
    Mutant(
        "by columns, who is not heard holds all",
        COLUMNS,
        "judging/healthy_ledgers.py",
        "return lists == expected",
        "return all(expected[bookie] == groups for bookie, groups in lists.items())",
        (
            "tests/unit/judging/test_judging_healthy_ledgers.py::test_a_ledger_with_anything_else_to_it_is_not_found",
        ),
    ),
    Mutant(
        "by columns, an answer is a list whatever its status",
        COLUMNS,
        "judging/healthy_ledgers.py",
        "_all_true(is_plain, pc.equal(status, AnswerStatus.HELD.value))",
        "is_plain",
        (
            "tests/unit/judging/test_judging_healthy_ledgers.py::test_a_ledger_with_anything_else_to_it_is_not_found",
        ),
    ),
    Mutant(
        "by columns, each bookie has the list of the first ones",
        COLUMNS,
        "judging/healthy_ledgers.py",
        "zip(bookies[start:end], groups[start:end], strict=True)",
        "zip(bookies[start:end], groups[: end - start], strict=True)",
        (
            "tests/unit/judging/test_judging_healthy_ledgers.py::test_a_ledger_is_found_when_each_copy_is_listed_and_only_then",
        ),
    ),
    Mutant(
        "by columns, a bookie that stands twice is two copies",
        COLUMNS,
        "judging/healthy_ledgers.py",
        "if not len(set(ensemble)) == len(ensemble) == ensemble_size:",
        "if not len(ensemble) == ensemble_size:",
        (
            "tests/unit/judging/test_judging_healthy_ledgers.py::test_a_ledger_with_anything_else_to_it_is_not_found",
        ),
    ),
    Mutant(
        "by columns, a mark is no reason to judge",
        COLUMNS,
        "judging/healthy_ledgers.py",
        'pc.is_null(cells["mark"])',
        'pc.is_null(cells["malformed"])',
        (
            "tests/unit/judging/test_judging_healthy_ledgers.py::test_a_ledger_with_anything_else_to_it_is_not_found",
        ),
    ),
    Mutant(
        "by columns, a wrong digest that was read is overlooked",
        COLUMNS,
        "judging/healthy_ledgers.py",
        'pc.equal(pc.struct_field(rows, "status"), ReadStatus.PRESENT.value)',
        'pc.is_valid(pc.struct_field(rows, "status"))',
        (
            "tests/unit/judging/test_judging_healthy_ledgers.py::test_a_ledger_with_anything_else_to_it_is_not_found",
        ),
    ),
    Mutant(
        "by columns, every ledger is placed well",
        COLUMNS,
        "judging/healthy_ledgers.py",
        "if not has_no_rule(terms.placement):",
        "if terms.judged_at_ms < 0:",
        (
            "tests/unit/judging/test_judging_healthy_ledgers.py::test_nothing_is_found_where_placement_is_judged",
        ),
    ),
    Mutant(
        "of what columns settle no sample is judged",
        COLUMNS,
        "spark/verdicts.py",
        "if is_in_sample(ids[number], terms):",
        "if terms.sound_sample < 0:",
        (
            "tests/unit/spark/test_spark_verdicts.py::test_of_healthy_ledgers_only_the_sample_is_judged",
            "tests/unit/spark/test_spark_verdicts.py::test_a_ledger_that_is_only_healthy_by_its_columns_is_withheld",
        ),
    ),
    Mutant(
        "what columns overlooked is reported in the sample, and the fault is not",
        COLUMNS,
        "judging/judged_rows.py",
        "        found == claimed and step.todo is Todo.NOTHING",
        "        found != claimed or step.todo is Todo.NOTHING",
        (
            "tests/unit/spark/test_spark_verdicts.py::test_a_ledger_that_is_only_healthy_by_its_columns_is_withheld",
        ),
    ),
    Mutant(
        "verdicts by columns stand in other ledgers' places",
        COLUMNS,
        "spark/verdicts.py",
        "take(np.argsort(numbers))",
        "take(np.arange(len(numbers)))",
        (
            "tests/unit/spark/test_spark_verdicts.py::test_rows_by_columns_are_those_of_ledgers_judged_one_by_one",
        ),
    ),
    Mutant(
        "who judges again trusts the columns",
        COLUMNS,
        "spark/verdicts.py",
        "return look == 1 and only is None and again_without is None",
        "return look == 1 and only is None",
        (
            "tests/unit/spark/test_spark_verdicts.py::test_columns_are_trusted_where_a_shard_is_judged_first",
        ),
    ),
    Mutant(
        "a KDC that is away is a refusal",
        LOGIN,
        "credentials/kerberos.py",
        "return KdcUnreachable(why) if is_kdc_away(status) else KerberosFailed(why)",
        "return KdcUnreachable(why) if status.minor == 0 else KerberosFailed(why)",
        (
            "tests/unit/credentials/test_credentials_kerberos.py::test_a_kdc_that_is_away_refused_nothing_and_is_asked_again",
        ),
    ),
    Mutant(
        "a bookie without a ticket for lack of a KDC is refused",
        LOGIN,
        "bookie/logins.py",
        "        if isinstance(error, KdcUnreachable):\n"
        "            return self._not_dialled(str(error))\n"
        "        if isinstance(error, KerberosFailed):",
        "        if isinstance(error, (KdcUnreachable, KerberosFailed)):",
        (
            "tests/unit/bookie/test_bookie_kerberos_login.py::test_a_bookie_is_asked_when_the_kdc_is_back",
            "tests/unit/bookie/test_bookie_kerberos_login.py::test_a_bookie_without_a_kdc_is_unreachable_and_not_refused",
        ),
    ),
    Mutant(
        "a login that the KDC refused is tried again for each bookie",
        LOGIN,
        "credentials/kerberos.py",
        "return began_s < self.at_s + kept_s",
        "return began_s < self.at_s",
        (
            "tests/unit/credentials/test_credentials_kerberos.py::test_a_login_that_the_kdc_refused_is_not_tried_again_for_a_while",
        ),
    ),
    Mutant(
        "a KDC that was away is held to be away for a minute",
        LOGIN,
        "credentials/kerberos.py",
        "kept_s = FAILURE_KEPT_S if isinstance(self.error, KerberosFailed) else 0.0",
        "kept_s = FAILURE_KEPT_S",
        (
            "tests/unit/credentials/test_credentials_kerberos.py::test_a_kdc_that_is_away_refused_nothing_and_is_asked_again",
        ),
    ),
    Mutant(
        "a bookie whose token proves nothing is believed",
        LOGIN,
        "credentials/kerberos.py",
        (
            "        except gssapi.exceptions.GSSError:\n"
            "            raise KerberosFailed(NO_PROOF.format(server=self.server)) from None"
        ),
        (
            "        except gssapi.exceptions.GSSError:\n"
            "            self.is_complete = True\n"
            '            return b""'
        ),
        (
            "tests/unit/credentials/test_credentials_kerberos.py::test_a_server_that_proves_nothing_is_not_asked",
            "tests/unit/bookie/test_bookie_kerberos_login.py::test_each_other_answer_has_its_word",
        ),
    ),
    Mutant(
        "what is offered is a security layer, and none is chosen all the same",
        LOGIN,
        "credentials/kerberos.py",
        "if len(offer) != OFFER_BYTES or not offer[0] & NO_LAYER:",
        "if len(offer) != OFFER_BYTES:",
        (
            "tests/unit/credentials/test_credentials_kerberos.py::test_a_server_that_wants_a_security_layer_is_refused",
        ),
    ),
    Mutant(
        "a security layer is chosen that nobody speaks",
        LOGIN,
        "credentials/kerberos.py",
        "choice = bytes([NO_LAYER]) + MAX_SIZE_NONE",
        "choice = bytes([NO_LAYER + 1]) + MAX_SIZE_NONE",
        (
            "tests/unit/credentials/test_credentials_kerberos.py::test_a_server_is_convinced_and_convinces_us",
            "tests/unit/bookie/test_bookie_kerberos_login.py::test_a_bookie_is_asked_once_it_accepted_our_ticket",
        ),
    ),
    Mutant(
        "a bookie that never answers our last message has admitted us",
        LOGIN,
        "bookie/logins.py",
        ("        if answer.status == Status.EUA:\n            raise BookieRefused(NOT_ALLOWED)"),
        ("        if answer.status == Status.EUA:\n            return"),
        (
            "tests/unit/bookie/test_bookie_kerberos_login.py::test_a_principal_that_is_not_admitted_is_reported_without_waiting",
        ),
    ),
    Mutant(
        "a bookie may ask for tokens without end",
        LOGIN,
        "bookie/logins.py",
        "for _ in range(ROUNDS_MAX):",
        "while link is not None:",
        (
            "tests/unit/bookie/test_bookie_kerberos_login.py::test_a_bookie_that_never_ends_the_login_is_left",
        ),
    ),
    Mutant(
        "ZooKeeper's login ends before the server proved itself",
        LOGIN,
        "zookeeper/secured_connection.py",
        (
            "                reply = self._exchange(token, xid, timeout, NOT_ACCEPTED)\n"
            "                if exchange.is_complete:"
        ),
        (
            "                reply = self._exchange(token, xid, timeout, NOT_ACCEPTED)\n"
            "                if xid:"
        ),
        (
            "tests/unit/zookeeper/test_zookeeper_kerberos_login.py::test_three_messages_log_in_at_the_server_that_is_dialled",
        ),
    ),
    Mutant(
        "a KDC that is away ends the session with ZooKeeper",
        LOGIN,
        "zookeeper/secured_connection.py",
        (
            "            raise ConnectionDropped(str(error)) from None\n"
            "        except (KerberosFailed"
        ),
        ("            raise _LoginRefused(str(error)) from None\n        except (KerberosFailed"),
        (
            "tests/unit/zookeeper/test_zookeeper_kerberos_login.py::test_a_kdc_that_is_away_is_no_refusal_and_is_asked_again",
        ),
    ),
    Mutant(
        "a wrong login is sent to ZooKeeper again and again",
        LOGIN,
        "zookeeper/secured_connection.py",
        ("        self.refusals.note(server, str(error) or WRONG_LOGIN)\n"),
        ("        self.refusals.suspect(str(error) or WRONG_LOGIN)\n"),
        (
            "tests/unit/zookeeper/test_zookeeper_kerberos_login.py::test_a_ticket_that_a_server_refuses_has_its_word",
            "tests/unit/zookeeper/test_zookeeper_secured_connection.py::test_a_login_that_every_server_refuses_ends_the_attempts",
        ),
    ),
    Mutant(
        "a bookie that was not dialled is accused of silence",
        LOGIN,
        "first_checker/reachability.py",
        ("        and not _was_not_dialled(record)\n"),
        ("        and record.look >= 0\n"),
        (
            "tests/unit/first_checker/test_first_checker_reachability.py::test_a_bookie_that_was_not_dialled_at_some_look_is_not_silent",
        ),
    ),
)
