"""The ways in which a tired engineer could break us, and the test that must notice each.

`scripts/deliberate_bugs.py` makes them one by one in a copy of the tree; `test_bugs.py` checks that this table still
fits the source; `breaking.py` says what an entry means. A bug that no test notices is a missing test, and that is why
this table exists: whoever writes a comment with a second clause ("but not", "first", "only") adds an entry for it.
"""

from __future__ import annotations

from tests.faults.breaking import Bug, Edit, Inside


def bug(name: str, row: str, proof: str, *edits: Edit | Inside) -> Bug:
    return Bug(name, row, proof, edits)


BUGS = (
    # --- what is stored, and when it is answered
    bug(
        "the answer and its acknowledgement are two writes",
        "Q2",
        "test_D1_accepted_messages_survive_kill_9_at[finish.after_commit-1]",
        Edit("finish", 'inbox.close(tx, job.run, "acked")\n_end(tx, job, "done", text=text, now=now)', ""),
        Edit(
            "Loop._steps",
            'failpoint("finish.after_commit")',
            """
            failpoint("finish.after_commit")

            def acknowledge(tx, *, now):
                endings.hold_run(tx, job)
                endings.inbox.close(tx, job.run, "acked")
                endings._end(tx, job, "done", text=reply.text.strip(), now=now)

            await self._write(acknowledge)
            """,
        ),
    ),
    bug(
        "a write is answered before its commit",
        "D3",
        "test_D3_a_failing_write_or_sync_leaves_no_half_effect_and_no_false_success",
        Edit(
            "_make",
            "job.result = job.change(transaction)",
            "job.result = job.change(transaction)\nself._loop.call_soon_threadsafe(job.answer.set_result, job.result)",
        ),
    ),
    bug(
        "others are told before the commit",
        "D3",
        "test_D3_a_failing_write_or_sync_leaves_no_half_effect_and_no_false_success",
        Edit(
            "_make",
            "job.told = tuple(told)",
            "for event in told:\n    self._loop.call_soon_threadsafe(self._bus.publish, event)",
        ),
    ),
    bug(
        "commits are not synced (`synchronous = normal`)",
        "D2",
        "test_D2_what_was_accepted_is_there_after_a_power_cut",
        Inside("connect", "full", "normal"),
    ),
    bug(
        "a failed sync is tried again and believed",
        "D5",
        "test_D3_a_failing_write_or_sync_leaves_no_half_effect_and_no_false_success",
        Edit("_judge", "isinstance(error, apsw.FullError)", "True"),
    ),
    bug(
        "the directory is not synced after a rename",
        "D6",
        "test_d6_the_order_is_write_sync_rename_sync_of_the_directory",
        Edit("Root.replace", "folder.sync()", "None"),
    ),
    bug(
        "a record is appended without repairing the end of the file",
        "D7",
        "test_D7_a_log_cut_at_any_byte_of_its_last_record_is_whole_again_after_a_start",
        Edit("append_records", "_repair(root, relative, file)", 'b""'),
    ),
    # --- work and its limits
    bug(
        "a loop ends its work without proving its fence",
        "Q10",
        "test_a_loop_whose_agent_was_claimed_by_another_host_can_write_nothing",
        Edit("finish", "hold_run(tx, job)", "None"),
    ),
    bug(
        "a tool acts without asking whether its run is over",
        "Q10",
        "test_Q10_a_late_tool_call_of_a_cancelled_run_is_refused",
        Edit("RunHands._perform", "hold_run(tx, self._job)", "None"),
    ),
    bug(
        "an attempt is counted when its run ends",
        "Q3",
        "test_Q3_only_the_message_that_kills_is_to_blame",
        Inside("begin_run", "run = :run, attempts = attempts + 1 where", "run = :run where"),
        Edit(
            "close_run",
            "now",
            "now if state == 'lost' else "
            "(now, tx.run('update instruction set attempts = attempts + 1 where run = :run', run=run))[0]",
        ),
    ),
    bug(
        "limits are not looked at before work begins",
        "L4",
        "test_L4_money_per_project_and_day_stops_the_next_agent_too",
        Edit("begin", '_limit(tx, first, me["project"], terms.limits, now=now)', "None"),
    ),
    bug(
        "what fails is tried again for ever",
        "Q8",
        "test_Q8_each_class_is_tried_as_often_as_it_should_be",
        Edit("after", "failures + 1 < tries", "tries > 1"),
    ),
    bug(
        "a team is closed without a look for queued work",
        "Q9",
        "test_Q9_nothing_that_arrives_in_the_last_moment_is_lost",
        Edit("close_if_quiet", "_under_way(tx, room)", "False"),
    ),
    bug(
        "a vote that is cast again is counted again",
        "M12",
        "test_M12_a_vote_cast_twice_counts_once",
        Inside(
            "put_vote",
            "values (:proposal, :workspace, :voter, :choice, :reason, :now)",
            "values (:proposal, :workspace, :voter || coalesce((select max(at) from vote"
            " where proposal = :proposal and voter = :voter), ''), :choice, :reason, :now)",
        ),
        Edit(
            "_cast",
            "{voter: votes[voter] for voter in rules.voters if votes.get(voter) in rules.options}",
            "{voter: choice for voter, choice in votes.items() if choice in rules.options}",
        ),
    ),
    # --- who may
    bug(
        "any name of the host is taken",
        "W1",
        "test_W1_a_rebound_name_is_refused",
        Edit("Guardpost", "host not in hosts", "host is None"),
    ),
    bug(
        "an origin that begins like ours is ours",
        "W5",
        "test_W3_W4_W5_W6_another_origin_is_refused_with_a_valid_token",
        Edit(
            "Guardpost",
            'headers.only("origin") != f"http://{host}"',
            'not (headers.only("origin") or "").startswith(f"http://{host}")',
        ),
    ),
    bug(
        "the beginning of the token is enough",
        "U4",
        "test_U4_wrong_tokens_are_refused_however_many_and_the_right_one_still_works",
        Edit(
            "Tokens",
            "hmac.compare_digest(_digest(token), _digest(self._admin))",
            "token and self._admin.startswith(token)",
        ),
    ),
    bug(
        "the token of a run outlives the run",
        "M7",
        "test_M7_the_token_ends_with_the_run",
        Edit("Tokens", "Ended | Retrying", "Retrying"),
    ),
    # --- what comes from outside
    bug(
        "a path is compared by its beginning instead of walked beneath its root",
        "F5",
        "test_F5_nor_does_a_link_lead_to_such_a_sibling",
        Edit(
            "Root._found",
            """
            *parents, name = _names_of_file(relative)
            with self._walk(relative, parents) as folder:
                yield folder, folder.actual(name)
            """,
            """
            here = self.path.joinpath(*self.within)
            there = Path(os.path.realpath(here / relative))
            if not str(there).startswith(str(here)):
                raise Refused(f"{shown(relative)} is outside")
            with _explained(relative), Folder.at(there.parent) as folder:
                yield folder, there.name
            """,
        ),
    ),
    bug(
        "links are followed",
        "F3",
        "test_F3_a_link_leads_nowhere",
        Edit("_FILE", "os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY", "os.O_NONBLOCK | os.O_NOCTTY"),
        Edit(
            "Folder.status",
            "os.stat(name, dir_fd=self.descriptor, follow_symlinks=False)",
            "os.stat(name, dir_fd=self.descriptor)",
        ),
    ),
    bug(
        "what is looked for is not quoted",
        "D7p",
        "test_D7p_any_text_is_a_query",
        Edit("Term.__str__", """f'{self.columns}"{self.phrase}"'""", 'f"{self.columns}{self.said}"'),
    ),
    bug(
        "a mention is found inside of code",
        "A10",
        "test_A10_code_quotes_urls_and_addresses_call_on_nobody",
        Edit("_own_words", 'own = _blank(own, _code_spans(own, paragraphs), " ")', ""),
    ),
    bug(
        "what a tool is called with is stored with its secrets",
        "N5",
        "test_N5_a_secret_that_is_said_called_printed_or_failed_with_is_written_nowhere",
        Edit(
            "PLAIN",
            '{"work": ID, "id": KEY, "run": ID, "state": ONE_OF}',
            '{"arguments": KEY, "work": ID, "id": KEY, "run": ID, "state": ONE_OF}',
        ),
    ),
    bug(
        "text is shown as it comes, piece by piece",
        "N5",
        "test_N5_a_secret_that_is_said_called_printed_or_failed_with_is_written_nowhere",
        Edit("RunHands.say", "self._utter(self._saying.add(text))", "self._utter(text)"),
    ),
    bug(
        "the Guard answers with what is private, too",
        "A1",
        "test_A1_A4_the_guard_answers_with_what_is_shared_and_nothing_else",
        Edit(
            "shareable",
            "entry.visibility in OPEN and not entry.label and not repeats(entry.value, entries)",
            "True",
        ),
    ),
    bug(
        "a skill that was read may fill core memory",
        "G10s",
        "test_G10s_a_skill_does_not_get_into_core_memory_or_the_soul",
        Edit("_not_from_others", "if desk.outside: ...", ""),
    ),
    bug(
        "the end of the audit is not looked at",
        "A13",
        "test_A13_tampering_with_the_audit_is_told_loudly",
        Edit("flaw", '(last["n"], last["seal"]) != (count, seal)', "last is None"),
    ),
    bug(
        "HTML in what somebody wrote is HTML",
        "X1",
        "test_X1_html_that_somebody_wrote_is_shown_as_text",
        Edit(
            "_parser",
            '{"breaks": True, "highlight": _coloured}',
            '{"html": True, "breaks": True, "highlight": _coloured}',
        ),
    ),
    bug(
        "what Markdown makes is not cleaned behind it",
        "X1",
        "test_X1_what_the_parser_would_let_through_is_cleaned_behind_it",
        Edit("prose", "clean", "Html"),
    ),
    # --- loops, and the places they share
    bug(
        "a program takes a run's place before it has its turn",
        "I2",
        "test_I2_programs_that_wait_for_their_turn_keep_no_place_from_others",
        Edit(
            "Slots.one",
            "async with self._programs if worker.is_program else contextlib.nullcontext(), self._runs: ...",
            "async with self._runs, self._programs if worker.is_program else contextlib.nullcontext(): ...",
        ),
    ),
    bug(
        "two that want to run alone wait for each other",
        "Q3",
        "test_Q3_two_that_want_to_run_alone_do_so_one_after_the_other",
        Edit("Slots.all", "await held.enter_async_context(self._one_for_all)", ""),
    ),
    bug(
        "a loop forgets what arrived while it looked",
        "Q6",
        "test_Q6_what_arrives_while_a_loop_looks_is_not_slept_through",
        Edit("Loop.work", "self._arrived.clear()", ""),
        Edit("Loop.work", "await self._arrived.wait()", "self._arrived.clear()\nawait self._arrived.wait()"),
    ),
    bug(
        "the last try of a suspect is made beside others",
        "Q3",
        "test_Q3_a_message_that_kills_its_worker_is_dead_after_three_deaths_and_stops_nobody",
        Edit("Loop._next", "async with self._floor.slots.all(): ...", "if True: ..."),
    ),
    bug(
        "a gate that closed while a loop waited for its place is not looked at",
        "L5",
        "test_L5_fifty_agents_on_one_key_come_through_a_storm_without_making_it_worse",
        Edit("Loop._may_call", "not credential or self._floor.limiter.still_open(credential)", "True"),
    ),
    bug(
        "work begins although the disk is full",
        "D4",
        "test_G6_below_the_limit_no_run_begins_and_all_work_is_done_when_there_is_space_again",
        Edit("Loop._take_and_do", 'self._floor.space.look().state == "stopped"', "False"),
    ),
    bug(
        "a lesson from work that read from outside is believed",
        "A6",
        "test_A6_what_is_learned_from_work_that_read_from_outside_is_held_back",
        Edit(
            "Loop._learn",
            "bool(hands.outside) or any(item.hop for item in job.taken)",
            "any(item.hop for item in job.taken)",
        ),
    ),
    bug(
        "a lesson from work that an agent asked for is believed",
        "A6",
        "test_A6_so_is_what_is_learned_from_work_that_another_agent_asked_for",
        Edit("Loop._learn", "bool(hands.outside) or any(item.hop for item in job.taken)", "bool(hands.outside)"),
    ),
    bug(
        "what learning costs is not paid",
        "L4",
        "test_what_learning_costs_is_charged_to_the_same_request",
        Edit("Loop._learn", "if lesson: ...", ""),
    ),
    bug(
        "steps of what is continued use up the new allowance",
        "Q5",
        "test_after_max_steps_a_direct_message_continues_with_a_new_allowance",
        Edit("Loop._prepare", "job.done_before + worker.definition.max_steps", "worker.definition.max_steps"),
    ),
    bug(
        "waiting at a gate is waited out for ever",
        "Q8",
        "test_being_overloaded_for_minutes_does_not_use_up_tries",
        Edit("Loop._failed", "if not counts: ...", ""),
    ),
    bug(
        "a tool of others takes the name of one of ours",
        "M16",
        "test_a_server_cannot_take_the_place_of_a_tool_of_ours",
        Edit("_tools", "(*others, *worker.tools)", "(*worker.tools, *others)"),
    ),
    bug(
        "tools of a workspace are there in direct messages",
        "I4",
        "test_in_a_direct_message_there_are_no_tools_of_a_team",
        Edit("_tools", "t.personal or job.workspace", "True"),
    ),
    # --- what hands store and show
    bug(
        "a tool's result is cut before it is redacted",
        "N5",
        "test_N5_a_secret_that_stands_where_a_result_is_cut_is_not_shown_by_half",
        Edit(
            "RunHands._write_down", "_capped(self._pen.redact(result.text))", "self._pen.redact(_capped(result.text))"
        ),
    ),
    bug(
        "what is shown of a call is cut before it is redacted",
        "N5",
        "test_N5_a_secret_that_stands_where_what_is_shown_is_cut_is_not_shown_by_half",
        Edit("RunHands._shown", "self._pen.redact(text[: 4 * SHOWN])[:SHOWN]", "self._pen.redact(text[:SHOWN])"),
    ),
    bug(
        "a call is shown before the words that led to it",
        "O2",
        "test_O2_what_is_said_before_a_call_is_shown_before_it",
        Edit("RunHands._show", "self.finish_saying()", ""),
    ),
    bug(
        "a program's own tools do not count as outside",
        "A6",
        "test_A6_what_a_programs_own_tools_read_is_from_outside",
        Edit("RunHands.show", "self._outside = self._outside or call.tool", ""),
    ),
    bug(
        "what an earlier run read from outside is forgotten",
        "A5",
        "test_A6_what_an_earlier_run_of_the_same_work_read_is_from_outside_too",
        Edit(
            "RunHands.__init__",
            'next((name for step in job.past for name in self._foreign(step.reply)), "")',
            '""',
        ),
    ),
    bug(
        "calls that change files are made side by side",
        "O2",
        "test_tools_that_say_so_are_used_in_the_order_asked",
        Edit("RunHands.call", "tool is not None and tool.in_turn", "False"),
    ),
    bug(
        "a broken tool ends the work",
        "I2",
        "test_a_tool_that_breaks_is_told_to_the_model_and_ends_no_work",
        Edit("RunHands._make", 'log.exception("tool %s failed", call.tool)', "raise"),
    ),
    bug(
        "a no with a reason is a yes",
        "B7",
        "test_anything_but_a_yes_is_a_no_and_told_with_its_reason",
        Edit("RunHands._leave_to", "answer.text == attention.YES", "answer.text != attention.NO"),
    ),
    bug(
        "a call whose outcome is unknown is made again",
        "Q5",
        "test_Q5_a_call_with_an_unknown_outcome_is_made_again_only_if_its_tool_may_be_repeated",
        Edit("RunHands._start", "None if tool.repeatable else self._write_down(tx, place, call, UNKNOWN)", "None"),
    ),
    bug(
        "a call that may be repeated is not",
        "Q5",
        "test_Q5_a_call_with_an_unknown_outcome_is_made_again_only_if_its_tool_may_be_repeated",
        Edit("RunHands._start", "tool.repeatable", "False"),
    ),
    bug(
        "a stored tool acts again when its call is made again",
        "Q2",
        "test_Q2_a_stored_tool_that_is_called_again_under_the_same_id_does_nothing_more",
        Edit("RunHands._perform", "if known := _done(tx, place): ...", ""),
    ),
    bug(
        "a call waits for nobody although one before it waits for a person",
        "O2",
        "test_what_was_asked_after_a_call_that_waits_for_a_person_waits_too",
        Edit("Turn.comes", "if turn.rests: ...", ""),
    ),
    bug(
        "a call that changes nothing overtakes one that does",
        "O2",
        "test_calls_that_change_nothing_are_made_side_by_side_and_the_others_in_turn",
        Edit("Turns.take", "alone or turn.alone", "alone"),
    ),
    # --- how runs begin and end
    bug(
        "an agent that has posted is heard twice",
        "Q2",
        "test_a_run_that_posted_keeps_its_final_text_to_itself",
        Edit("_answer_in_room", 'not run["posted"]', "True"),
    ),
    bug(
        "what was posted before a run was pushed aside is posted again",
        "Q2",
        "test_what_the_answer_rule_says_does_not_depend_on_being_pushed_aside",
        Inside(
            "produced_by", "where instruction = :instruction", "where instruction = :instruction and state = 'running'"
        ),
    ),
    bug(
        "the answer stands before its question",
        "O2",
        "test_O2_what_an_agent_was_asked_stands_before_what_it_answered",
        Edit(
            "_keep_thread",
            "routing.hear(tx, job.run, now=now)\nif text: ...",
            "if text: ...\nrouting.hear(tx, job.run, now=now)",
        ),
    ),
    bug(
        "waiting for a provider uses up runs",
        "L5",
        "test_L5_fifty_agents_on_one_key_come_through_a_storm_without_making_it_worse",
        Edit("retry_later", "if not counts: ...", ""),
    ),
    bug(
        "an answer that was faster than the question's run is slept through",
        "Q1",
        "test_an_answer_that_comes_before_the_work_is_laid_aside_is_not_lost",
        Edit("suspend", "attention.waits_for(tx, job.lead.work)", "True"),
    ),
    bug(
        "an agent does not see that it failed",
        "Q8",
        "test_Q8_a_failure_is_told_once_in_the_channel_and_waits_for_a_person",
        Edit(
            "give_up",
            'threads.say(tx, job.fence.agent, job.workspace, who="system", text=reason, '
            'sort="failure", run=job.run, now=now)',
            "",
        ),
    ),
    bug(
        "work waits for a time that only a clock set back has put off",
        "R8",
        "test_R8_a_clock_set_back_between_two_looks_does_not_hold_up_a_retry",
        Edit(
            "begin",
            'now < first["not_before"] <= now + round(LONGEST_WAIT * 1e6)',
            'now < first["not_before"]',
        ),
    ),
    # --- gates and tries
    bug(
        "refusals of long ago still make waits longer",
        "L5",
        "test_L5_after_a_success_waits_without_advice_are_short_again",
        Edit("Limiter.succeeded", "gate.refusals = 0", ""),
    ),
    bug(
        "a second refusal that asks for more is not heard",
        "L5",
        "test_L5_a_second_refusal_that_asks_for_more_closes_the_gate_for_longer",
        Edit("Limiter.refused", "max(gate.until, now + retry_after)", "gate.until"),
    ),
    # --- votes
    bug(
        "a role is given where only half must vote",
        "M12",
        "test_M20_an_agent_that_asks_for_a_role_chooses_neither_voters_nor_fallback",
        Edit("_check_power", "2 * quorum <= len(electorate)", "2 * quorum < len(electorate)"),
    ),
    # --- files that follow the database
    bug(
        "a log is not looked at again after a failed write",
        "D7",
        "test_D7_a_log_that_was_written_in_part_is_looked_at_again",
        Edit("Mirror._follow", "self._written.pop(target, None)", ""),
    ),
    # --- what an agent owns
    bug(
        "memory is moved by deleting it first",
        "D3",
        "test_D3_what_cannot_be_archived_is_not_forgotten",
        Edit(
            "_move",
            "_edit(root, file, free, _record(known))\nif known.file != file: ...",
            "if known.file != file: ...\n_edit(root, file, free, _record(known))",
        ),
    ),
    bug(
        "what becomes core memory is deleted first",
        "D3",
        "test_D3_what_cannot_become_core_stays_where_it_is",
        Edit(
            "write",
            "_edit(root, CORE if made_core else known.file, entry.key, _record(entry))\nif made_core: ...",
            "if made_core: ...\n_edit(root, CORE if made_core else known.file, entry.key, _record(entry))",
        ),
    ),
    bug(
        "what is released is deleted first",
        "D3",
        "test_D3_what_cannot_be_released_stays_held_back",
        Edit(
            "release",
            '_edit(root, WORKING, key, _record(replace(held, label="")))\n_edit(root, QUARANTINE, key, None)',
            '_edit(root, QUARANTINE, key, None)\n_edit(root, WORKING, key, _record(replace(held, label="")))',
        ),
    ),
    bug(
        "a note that is held back is deleted first",
        "D3",
        "test_D3_a_note_that_cannot_be_put_away_stays_where_it_is",
        Edit(
            "hold_back",
            'root.replace(f"{FOLDER}/{QUARANTINE}/{name}", text)\nroot.remove(f"{FOLDER}/{name}")',
            'root.remove(f"{FOLDER}/{name}")\nroot.replace(f"{FOLDER}/{QUARANTINE}/{name}", text)',
        ),
    ),
    bug(
        "a note that was changed meanwhile is written over",
        "D8",
        "test_D8_a_note_that_was_changed_meanwhile_is_not_written_over",
        Edit("edit", "read(root, name) != was", "False"),
    ),
)
