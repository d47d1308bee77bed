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
        Edit("finish", 'deliveries.close(tx, job.run, "acked")\n_end(tx, job, "done", text=text, now=now)', ""),
        Edit(
            "RunSteps._steps",
            'failpoint("finish.after_commit")',
            """
            failpoint("finish.after_commit")

            def acknowledge(tx, *, now):
                run_end.hold_run(tx, job)
                run_end.deliveries.close(tx, job.run, "acked")
                run_end._end(tx, job, "done", text=reply.text.strip(), now=now)

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
        Edit("CallRecord.perform", "hold_run(tx, self._job)", "None"),
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
        Edit("begin", "_limit(tx, first, terms.limits, now=now)", "None"),
    ),
    bug(
        "what fails is tried again for ever",
        "Q8",
        "test_Q8_each_class_is_tried_as_often_as_it_should_be",
        Edit("after", "failures + 1 < most", "most > 1"),
    ),
    bug(
        "a team is closed without a look for queued work",
        "Q9",
        "test_Q9_nothing_that_arrives_in_the_last_moment_is_lost",
        Edit("close_if_quiet", "_under_way(tx, workspace)", "False"),
    ),
    bug(
        "a vote that is cast again is counted again",
        "M12",
        "test_M12_a_vote_cast_twice_counts_once",
        Inside(
            "put_vote",
            "values (:project, :proposal, :workspace, :voter, :choice, :reason, :now)",
            "values (:project, :proposal, :workspace, :voter || coalesce((select max(at) from vote"
            " where project = :project and proposal = :proposal and voter = :voter), ''), :choice, :reason, :now)",
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
        Edit("RequestGuard", "host not in hosts", "host is None"),
    ),
    bug(
        "an origin that begins like ours is ours",
        "W5",
        "test_W3_W4_W5_W6_another_origin_is_refused_with_a_valid_token",
        Edit(
            "RequestHeaders",
            'self.only("origin") != origin',
            'not (self.only("origin") or "").startswith(origin)',
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
        Edit(
            "Tokens.follow",
            "bus.listen(self._hear, Ended, Retrying)",
            "bus.listen(self._hear, Retrying)",
        ),
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
            '{"project": ID, "work": ID, "id": KEY, "run": ID, "state": ONE_OF, "images": BYTES}',
            '{"arguments": KEY, "project": ID, "work": ID, "id": KEY, "run": ID, "state": ONE_OF, "images": BYTES}',
        ),
    ),
    bug(
        "text is shown as it comes, piece by piece",
        "N5",
        "test_N5_a_secret_that_is_said_called_printed_or_failed_with_is_written_nowhere",
        Edit("RunRecorder.say", "self._utter(self._saying.add(text))", "self._utter(text)"),
    ),
    bug(
        "the Guard answers with what is private, too",
        "A1",
        "test_A1_A4_the_guard_answers_with_what_is_shared_and_nothing_else",
        Edit(
            "_shareable",
            "is_open(e, asker) and not e.from_outside and not e.disputes",
            "not e.from_outside and not e.disputes",
        ),
    ),
    bug(
        "a skill that was read may fill core memory",
        "G10s",
        "test_G10s_a_skill_does_not_get_into_core_memory_or_the_soul",
        Edit("_not_from_others", "if why: ...", ""),
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
        Edit("made_prose", "clean", "Html"),
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
        Edit("Loop.work", "self._admission.arrived.clear()", ""),
        Edit("Loop.work", "self._rest()", "self._rest()\nself._admission.arrived.clear()"),
    ),
    bug(
        "the last try of a suspect is made beside others",
        "Q3",
        "test_Q3_the_last_try_of_a_suspect_waits_for_those_who_run_and_lets_nobody_run_beside_it",
        Edit("Loop._next", "async with self._loop_context.slots.all(worker): ...", "if True: ..."),
    ),
    bug(
        "a gate that closed while a loop waited for its place is not looked at",
        "L5",
        "test_L5_fifty_agents_on_one_key_come_through_a_storm_without_making_it_worse",
        Edit("KeyPass.may_call", "self._given is None or self._limiter.still_open(self._given)", "True"),
    ),
    bug(
        "work begins although the disk is full",
        "D4",
        "test_G6_below_the_limit_no_run_begins_and_all_work_is_done_when_there_is_space_again",
        Edit("Loop._take_and_do", 'space.state == "stopped"', "False"),
    ),
    bug(
        "a lesson from work that read from outside is believed",
        "A6",
        "test_A6_what_is_learned_from_work_that_read_from_outside_is_held_back",
        Edit("RunSteps._learn", "bool(recorder.outside)", "False"),
    ),
    bug(
        "a lesson from work that an agent asked for is believed",
        "A6",
        "test_A6_so_is_what_is_learned_from_work_that_another_agent_asked_for",
        Edit("author", "next((who for who, _ in spoken if who.startswith(COLLEAGUE)), memory.SELF)", "memory.SELF"),
    ),
    bug(
        "what learning costs is not paid",
        "L4",
        "test_what_learning_costs_is_charged_to_the_same_request",
        Edit("RunSteps._learn", "if lesson: ...", ""),
    ),
    bug(
        "steps of what is continued use up the new allowance",
        "Q5",
        "test_after_max_steps_a_direct_message_continues_with_a_new_allowance",
        Edit("RunSteps._prepare", "job.done_before + worker.definition.max_steps", "worker.definition.max_steps"),
    ),
    bug(
        "waiting at a gate is waited out for ever",
        "Q8",
        "test_being_overloaded_for_minutes_does_not_use_up_tries",
        Edit(
            "RunSteps._failed",
            "self._admission.waited(None if self._admission.key_pass.answered else job.lead.waits_since)",
            "0.0",
        ),
    ),
    bug(
        "a tool of others takes the name of one of ours",
        "M16",
        "test_a_server_cannot_take_the_place_of_a_tool_of_ours",
        Edit("_tools", "(*others, *kit.tools)", "(*kit.tools, *others)"),
    ),
    bug(
        "tools of a workspace are there in direct messages",
        "I4",
        "test_in_a_direct_message_there_are_no_tools_of_a_team",
        Edit("_tools", "t.personal or in_team", "True"),
    ),
    # --- what a recorder stores and shows
    bug(
        "a tool's result is cut before it is redacted",
        "N5",
        "test_N5_a_secret_that_stands_where_a_result_is_cut_is_not_shown_by_half",
        Edit(
            "CallRecord._write_down",
            "capped(self._redact(result.text))",
            "self._redact(capped(result.text))",
        ),
    ),
    bug(
        "what is shown of a call is cut before it is redacted",
        "N5",
        "test_N5_a_secret_that_stands_where_what_is_shown_is_cut_is_not_shown_by_half",
        Edit(
            "CallTexts.shown",
            "self._redact(text[: 4 * SHOWN])[:SHOWN]",
            "self._redact(text[:SHOWN])",
        ),
    ),
    bug(
        "a call is shown before the words that led to it",
        "O2",
        "test_O2_what_is_said_before_a_call_is_shown_before_it",
        Edit("RunRecorder._show", "self.finish_saying()", ""),
    ),
    bug(
        "a program's own tools do not count as outside",
        "A6",
        "test_A6_what_a_programs_own_tools_read_is_from_outside",
        Edit("RunRecorder.show", "self._origin.reads_by(call.tool)", "pass"),
    ),
    bug(
        "one odd file keeps the others from their hosts",
        "F6",
        "test_what_is_in_the_way_of_one_file_keeps_no_other_from_its_host",
        Edit("Copies._could_make", "isinstance(error, StorageFault)", "True"),
    ),
    bug(
        "a hard link is taken in for all hosts",
        "F6",
        "test_what_is_no_text_or_too_large_or_linked_stays_on_its_host_and_costs_nobody_theirs",
        Edit("Copies._read", "self.root.read_text(path, limit=LARGEST, shared=False)", "self.root.read_text(path)"),
    ),
    bug(
        "what an earlier run read from outside is forgotten",
        "A5",
        "test_A6_what_an_earlier_run_of_the_same_work_read_is_from_outside_too",
        Edit("RunOrigin.__init__", "self.asks(step.reply)", "pass"),
    ),
    bug(
        "what a colleague wrote down is nobody's when it is read again",
        "A6",
        "test_A6_through_documents_and_hands_in_other_words",
        Edit("RunOrigin.note_result", "self.hear(outside_words.among(tx, result))", "pass"),
    ),
    bug(
        "what came from outside loses its label when it asks for work",
        "A6",
        "test_A6_what_is_done_for_who_read_from_outside_is_from_there",
        Edit("gather", "[*said, *there.unseen, *there.given]", "talk"),
    ),
    bug(
        "what is passed on in other words loses its label",
        "A6",
        "test_A6_through_documents_and_hands_in_other_words",
        Edit("RunOrigin.note_call", "outside_words.mark(tx, run, texts)", "pass"),
    ),
    bug(
        "calls that change files are made side by side",
        "O2",
        "test_tools_that_say_so_are_used_in_the_order_asked",
        Edit("RunRecorder.call", "tool is not None and tool.in_turn", "False"),
    ),
    bug(
        "a broken tool ends the work",
        "I2",
        "test_a_tool_that_breaks_is_told_to_the_model_and_ends_no_work",
        Edit("RunRecorder._make", 'log.exception("tool %s failed", call.tool)', "raise"),
    ),
    bug(
        "a no with a reason is a yes",
        "B7",
        "test_anything_but_a_yes_is_a_no_and_told_with_its_reason",
        Edit("RunRecorder._leave_to", "answer.text in (inbox.YES, inbox.YES_TO_ALL)", "answer.text != inbox.NO"),
    ),
    bug(
        "a call whose outcome is unknown is made again",
        "Q5",
        "test_Q5_a_call_with_an_unknown_outcome_is_made_again_only_if_its_tool_may_be_repeated",
        Edit("CallRecord.start", "None if tool.repeatable else self._write_down(tx, place, call, UNKNOWN)", "None"),
    ),
    bug(
        "a call that may be repeated is not",
        "Q5",
        "test_Q5_a_call_with_an_unknown_outcome_is_made_again_only_if_its_tool_may_be_repeated",
        Edit("CallRecord.start", "tool.repeatable", "False"),
    ),
    bug(
        "a stored tool acts again when its call is made again",
        "Q2",
        "test_Q2_a_stored_tool_that_is_called_again_under_the_same_id_does_nothing_more",
        Edit("CallRecord.perform", "if known := _done(tx, place): ...", ""),
    ),
    bug(
        "a call waits for nobody although one before it waits for a person",
        "O2",
        "test_what_was_asked_after_a_call_that_waits_for_a_person_waits_too",
        Edit("CallSlot.comes", "if turn.rests: ...", ""),
    ),
    bug(
        "a call that changes nothing overtakes one that does",
        "O2",
        "test_calls_that_change_nothing_are_made_side_by_side_and_the_others_in_turn",
        Edit("CallOrder.take", "alone or turn.alone", "alone"),
    ),
    # --- how runs begin and end
    bug(
        "an agent that has posted is heard twice",
        "Q2",
        "test_a_run_that_posted_keeps_its_final_text_to_itself",
        Edit("_answer_in_workspace", 'not run["posted"]', "True"),
    ),
    bug(
        "what was posted before a run was pushed aside is posted again",
        "Q2",
        "test_what_the_answer_rule_says_does_not_depend_on_being_pushed_aside",
        Inside("produced_by", "instruction = :instruction", "instruction = :instruction and state = 'running'"),
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
        Edit("retry_later", "_uncount(tx, job)", "None"),
    ),
    bug(
        "being pushed aside uses up runs",
        "L2",
        "test_L2_work_that_is_laid_aside_and_goes_on_is_counted_once",
        Edit("_leave", "_uncount(tx, job)", ""),
    ),
    bug(
        "an answer that was faster than the question's run is slept through",
        "Q1",
        "test_an_answer_that_comes_before_the_work_is_laid_aside_is_not_lost",
        Edit("suspend", "inbox.waits_for(tx, job.lead.work)", "True"),
    ),
    bug(
        "an agent does not see that it failed",
        "Q8",
        "test_Q8_a_failure_is_told_once_in_the_channel_and_waits_for_a_person",
        Edit(
            "give_up",
            'threads.say(tx, job.fence.agent, job.workspace, who="system", text=reason, '
            'kind="failure", run=job.run, now=now)',
            "",
        ),
    ),
    bug(
        "runs that fail are no fruitless runs",
        "L3",
        "test_L3_runs_that_fail_are_runs_that_produce_nothing",
        Edit("give_up", "member_rows.count_fruitless(tx, job.workspace, job.fence.agent, fruitful=False)", ""),
    ),
    bug(
        "work waits for a time that only a clock set back has put off",
        "R8",
        "test_R8_a_clock_set_back_between_two_looks_does_not_hold_up_a_retry",
        Edit("_not_yet", "0 < wait <= round(longest * 1e6)", "0 < wait"),
    ),
    bug(
        "one death too many is allowed before work is tried alone",
        "Q3",
        "test_Q3_work_that_died_twice_is_taken_only_by_one_who_is_alone",
        Edit("begin", "DEATHS - 1", "DEATHS"),
    ),
    bug(
        "only the first of several requests pays for a run",
        "L2",
        "test_L2_requests_that_are_answered_together_are_each_counted",
        Edit("_take", '{row["root"] for row in rows}', '{first["root"]}'),
    ),
    bug(
        "what a proposal has granted does not count",
        "L4",
        "test_a_raised_limit_counts_at_once",
        Edit("_with_granted", "allowed.with_granted(granted) if granted else allowed", "allowed"),
    ),
    bug(
        "a pause is told again by each who meets it",
        "Q8",
        "test_Q8_a_pause_that_two_meet_at_once_is_told_once",
        Edit("pause_at", "if not fresh: ...", ""),
    ),
    bug(
        "a run is stopped by the count that let it begin",
        "L4",
        "test_L4_a_run_is_not_stopped_by_the_count_that_let_it_begin",
        Edit(
            "_spent_up",
            "_with_granted(tx, job.workspace, terms.limits).money_only",
            "_with_granted(tx, job.workspace, terms.limits)",
        ),
    ),
    bug(
        "a call that had only begun counts as made",
        "Q5",
        "test_Q5_a_call_that_had_only_begun_has_no_result_for_the_next_run",
        Edit("_past", 'call["state"] == "done"', "True"),
    ),
    bug(
        "work is pushed aside by its equals",
        "O3",
        "test_O3_work_gives_way_neither_to_its_equals_nor_to_what_cannot_begin_yet",
        Edit("waiting_above", 'first["lane"] < lane', 'first["lane"] <= lane'),
    ),
    bug(
        "work is pushed aside by what cannot begin yet",
        "O3",
        "test_O3_work_gives_way_neither_to_its_equals_nor_to_what_cannot_begin_yet",
        Edit("waiting_above", 'first["not_before"] <= now', "True"),
    ),
    bug(
        "what is lifted while another works waits for its end",
        "O4",
        "test_O4_background_work_takes_over_from_newer_work_once_it_has_waited_five_minutes",
        Edit(
            "RunSteps._leaves",
            "self._admission.arrived.is_set() or job.others_wait",
            "self._admission.arrived.is_set()",
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
        "a turn that came to one who left is lost",
        "L5",
        "test_one_who_gives_up_waiting_passes_its_turn_on",
        Edit("Limiter._give_up", "self.leave(place.given)", "None"),
    ),
    bug(
        "a late refusal of the same storm prolongs it",
        "L5",
        "test_a_late_refusal_of_the_same_storm_does_not_close_the_gate_for_longer",
        Edit("Limiter.refused", "gate.until <= now", "True"),
    ),
    bug(
        "a second refusal that asks for more is not heard",
        "L5",
        "test_L5_a_second_refusal_that_asks_for_more_closes_the_gate_for_longer",
        Edit("Limiter.refused", "max(gate.until, now + retry_after)", "gate.until"),
    ),
    bug(
        "calls that were under way when the gate closed fill it",
        "L5",
        "test_L5_who_is_refused_does_not_wait_for_a_slow_neighbour",
        Edit("Limiter._close", "gate.inside = 0", ""),
        Edit("Limiter.leave", "given.storms == gate.storms", "True"),
    ),
    bug(
        "a call that was let in before the gate closed widens it",
        "L5",
        "test_L5_a_call_that_was_under_way_when_the_gate_closed_neither_fills_nor_widens_it",
        Edit("Limiter.succeeded", "given.storms != gate.storms", "False"),
    ),
    bug(
        "who comes late to a gate may be let in first",
        "L5",
        "test_L5_whoever_came_first_to_a_closed_gate_is_let_in_first",
        Edit("Limiter._let_in", "gate.line.popleft()", "gate.line.pop()"),
    ),
    bug(
        "the one after the first in line is never told that it is the first now",
        "L5",
        "test_one_who_leaves_a_closed_gate_does_not_keep_the_others_there",
        Edit("Limiter._give_up", "self._stir_first(gate)", "None"),
    ),
    bug(
        "the luck of others makes one come back sooner",
        "L5",
        "test_L5_the_success_of_one_agent_does_not_make_another_come_back_sooner",
        Edit(
            "RunSteps._failed",
            "max(wait, self._loop_context.limiter.opens_in(worker.credential))",
            "self._loop_context.limiter.opens_in(worker.credential)",
        ),
    ),
    bug(
        "after a wait all rush in at once",
        "L5",
        "test_L5_fifty_agents_on_one_key_come_through_a_storm_without_making_it_worse",
        Edit("Limiter._close", "gate.width = 1", "gate.width = 0"),
    ),
    bug(
        "after the first got through all rush in at once",
        "L5",
        "test_the_gate_opens_for_one_then_two_then_four",
        Edit("Limiter.succeeded", "gate.width * 2 if gate.width < 32 else 0", "0"),
    ),
    bug(
        "all hosts come back at the same moment",
        "L5",
        "test_L5_the_wait_is_never_shorter_than_asked_and_hosts_with_one_key_do_not_come_back_together",
        Edit("Limiter.refused", "asked * (1 + SPREAD * self._chance())", "asked"),
    ),
    bug(
        "a provider may ask for a wait without end",
        "L5",
        "test_a_wait_of_a_day_is_not_believed",
        Edit("after", "min(failure.retry_after or guess, longest)", "failure.retry_after or guess"),
    ),
    bug(
        "what is overloaded for ever is waited for, for ever",
        "Q8",
        "test_waiting_ends_after_a_quarter_of_an_hour",
        Edit("after", "waited < longest", "True"),
    ),
    bug(
        "who is never let in waits for ever",
        "Q8",
        "test_Q8_who_is_never_let_in_has_failed_after_as_long_as_the_user_says",
        Edit("Admission.come_in", "self.waited(work.since)", "0.0"),
    ),
    bug(
        "who waits for a tool keeps others with the same key from their model",
        "L5",
        "test_L5_who_waits_for_a_tool_holds_up_nobody_who_shares_its_key",
        Edit("KeyPass.one_request", "self.leave()", "None"),
    ),
    bug(
        "a run that is under way does not look at the gate",
        "L5",
        "test_L5_a_run_asks_its_model_nothing_while_the_gate_of_its_key_is_closed",
        Edit("Limiter.enter_at_once", "gate.line or not self._has_room(gate)", "False"),
    ),
    bug(
        "each try of a model that refuses is a run of its own",
        "Q8",
        "test_Q8_tries_of_a_model_that_refuses_are_one_run_and_one_wait",
        Edit("take_up", "if not known: ...", "if True:\n    return None"),
    ),
    bug(
        "each try of a model that refuses begins the wait anew",
        "Q8",
        "test_Q8_a_wait_goes_on_where_it_was_when_the_daemon_starts_again",
        Inside("put_back", "waits_since = coalesce(waits_since, :waits_since)", "waits_since = :waits_since"),
    ),
    bug(
        "a wait goes on although there was an answer in between",
        "Q8",
        "test_Q8_a_step_in_between_begins_another_wait",
        Edit("record_step", "if job.lead.waits_since: ...", ""),
    ),
    bug(
        "a run waits for ever for work that was cancelled",
        "Q10",
        "test_Q10_whoever_cancels_work_between_two_tries_is_told_that_it_had_begun",
        Inside("end_waiting", "instruction = :id and state = 'waiting'", "instruction = :id and state = 'nowhere'"),
    ),
    bug(
        "what a person tries out is charged to nobody",
        "L4",
        "test_a_good_key_is_proved_with_one_tiny_request_that_says_what_it_cost",
        Edit("charge_project", '_enter(tx, Payer("", ""), item, now=now)', "None"),
    ),
    bug(
        "what may be wrong with tools is not told before they are needed",
        "I7",
        "test_I7_what_is_wrong_is_told_until_it_is_mended_and_no_longer",
        Edit("Loader._looked_at", "worker.is_fit and not are_ours(definition)", "False"),
    ),
    bug(
        "a folder that came with a history is begun anew",
        "D7",
        "test_with_a_new_database_the_conversation_goes_on_from_the_files",
        Edit("_may_be_there", "definition.name.lower() in folders", "False"),
    ),
    bug(
        "who waits in line for nothing any more stays there",
        "Q10",
        "test_Q10_work_that_waits_for_its_model_can_be_cancelled",
        Edit("Supervisor._hear", "if agent in self._loops: ...", ""),
    ),
    bug(
        "an agent that has nothing to do is said to wait",
        "Q10",
        "test_Q10_work_that_waits_for_its_model_can_be_cancelled",
        Edit("Loop._rest", "self._loop_context.waits.end(self.fence.agent)", "None"),
    ),
    bug(
        "an empty answer is a silent success",
        "Q8",
        "test_Q8_a_second_empty_answer_to_a_direct_message_is_a_failure_and_its_reply",
        Edit("_refuse_empty", "recorder.has_acted or (reply.text.strip() and not called)", "True"),
    ),
    bug(
        "who has done its work and is silent has failed",
        "Q8",
        "test_an_empty_answer_after_tool_calls_ends_the_work_quietly",
        Edit("_refuse_empty", "recorder.has_acted or (reply.text.strip() and not called)", "reply.text.strip()"),
    ),
    bug(
        "a call that is written out as text is handed on as the answer",
        "Q8",
        "test_Q8_a_call_that_a_model_writes_as_text_is_no_answer",
        Edit("_refuse_empty", "reply.text.strip() and not called", "reply.text.strip()"),
    ),
    bug(
        "an answer that names no tool of the agent's is taken for a call",
        "Q8",
        "test_an_answer_that_speaks_of_a_call_is_an_answer",
        Edit("written_call", "written and (written[1] or written[2] in tools)", "written"),
    ),
    bug(
        "a model decides before it was examined",
        "A5",
        "test_a_model_answers_questions_of_known_answer_before_it_decides_anything",
        Edit("ModelJudge.ask", 'found is None or found.state == "passed"', 'found is None or found.state != "failed"'),
    ),
    bug(
        "a model that failed its examination is asked all the same",
        "A5",
        "test_a_weak_model_is_asked_no_more_and_the_person_is_told_once",
        Edit("ModelJudge.ask", 'found is None or found.state == "passed"', 'found is None or found.state != "open"'),
    ),
    bug(
        "a mark holds for ever",
        "A5",
        "test_a_mark_holds_for_a_month",
        Edit("standings", "now - HOLDS // timedelta(microseconds=1)", "0"),
    ),
    bug(
        "a wrong answer by which something would be lost is forgiven if enough others are right",
        "A5",
        "test_one_answer_by_which_something_would_be_lost_is_one_too_many",
        Edit("standing", "harmful > exam.most", "False"),
    ),
    bug(
        "what an empty answer has cost is not counted",
        "L4",
        "test_L4_what_an_empty_answer_has_cost_is_counted",
        Edit("_refuse_empty", "recorder.spent(reply.usage)", ""),
    ),
    bug(
        "crashes of long ago count",
        "R3",
        "test_more_than_five_crashes_in_ten_minutes_are_too_many",
        Edit("too_many", "now - at < RESTART_WINDOW", "True"),
    ),
    # --- schedules
    bug(
        "a schedule that is read again loses the time it was due",
        "R9",
        "test_R8_missed_times_are_made_up_for_once",
        Edit("keep", '(known["spec"], known["set_by"]) == (spec, timer.set_by)', "False"),
    ),
    bug(
        "a file overrules the schedule that a person has set",
        "R9",
        "test_R9_a_file_does_not_overrule_what_a_person_has_set",
        Edit("keep", 'known and known["set_by"] == "person" and timer.set_by == "file"', "False"),
    ),
    bug(
        "the default of a team wakes members who wake there by themselves already",
        "R9",
        "test_a_default_is_for_every_member_that_has_no_schedule_of_its_own_there",
        Edit(
            "give_members",
            'not tx.one("select 1 as one from schedule where project = :project and id = :id", id=id_of(agent))',
            "True",
        ),
    ),
    bug(
        "nine o'clock moves when clocks change",
        "R8",
        "test_R8_nine_o_clock_stays_nine_o_clock_when_clocks_change",
        Edit("next_due", "now.astimezone(schedule.zone)", "now"),
    ),
    bug(
        "an interval waits out a clock that was set back",
        "R8",
        "test_R8_a_clock_set_back_does_not_silence_an_interval",
        Edit("fire_due", "_mend(tx, now)", ""),
    ),
    bug(
        "an interval does not count from the last activity",
        "R9",
        "test_an_interval_is_put_off_by_activity",
        Edit(
            "_fire",
            "schedule.interval is not None and active and now < active + timedelta(seconds=schedule.interval)",
            "False",
        ),
    ),
    bug(
        "an agent is woken again for what it has not ended",
        "R9",
        "test_wake_ups_do_not_pile_up_while_nobody_can_work",
        Edit("_fire", 'row["agent"] and _waits_still(tx, row)', "False"),
    ),
    bug(
        "an activity that is yet to come puts an interval off",
        "R8",
        "test_R8_a_clock_set_back_does_not_silence_an_interval",
        Edit(
            "_active",
            'row and row["active_at"] and row["active_at"] <= micros(now)',
            'row and row["active_at"]',
        ),
    ),
    bug(
        "what is due while everything is being closed is begun",
        "R9",
        "test_a_service_that_is_closed_starts_nothing_any_more_but_the_next_one_does",
        Edit("Service.background", "self._closed", "False"),
    ),
    bug(
        "what a schedule gave to members outlives their workspace",
        "R9",
        "test_R9_a_member_is_not_woken_while_the_workspace_that_wakes_it_does_not_run",
        Edit(
            "_fire",
            """
            row["instance"] and not tx.one(
                "select 1 as one from workspace where project = :project and id = :id and state = 'running'",
                id=row["instance"],
            )
            """,
            "False",
        ),
    ),
    # --- what is learned
    bug(
        "the learner reads what others wrote",
        "A6",
        "test_A5_only_the_agents_own_words_reach_the_learner",
        Edit("transcript", "_went(result)", "result and result.text"),
    ),
    bug(
        "there is something to learn from calls that failed",
        "A6",
        "test_a_run_that_was_only_talk_teaches_nothing",
        Edit("is_worth_a_look", "result.ok", "True"),
    ),
    bug(
        "a lesson that cannot be kept fails the work",
        "Q1",
        "test_A5_core_memory_is_not_changed_by_what_is_learned",
        Edit("learn", "(AgentWorkerError, OSError)", "()"),
    ),
    bug(
        "a lesson is kept with its secrets",
        "N5",
        "test_N5_what_is_learned_is_kept_without_secrets",
        Edit("learn", "recording.redact(reply.text)", "reply.text"),
    ),
    bug(
        "a model teaches as much as it likes",
        "A6",
        "test_no_more_than_five_things_are_learned_from_one_run",
        Edit("read_answer", "found[:MOST]", "found"),
    ),
    # --- work that others move
    bug(
        "a start of the daemon starts agents that a person stopped",
        "Q10",
        "test_Q10_a_start_of_the_daemon_starts_nobody_whom_a_person_stopped",
        Inside("free_from_others", "case when state in ('running', 'error') then 'idle' else state end", "'idle'"),
    ),
    bug(
        "cancelling one ends all that were answered together",
        "Q1",
        "test_what_was_answered_together_with_the_cancelled_is_not_cancelled",
        Edit("cancel", "queue.put_back(tx, run)", 'queue.end(tx, run, "cancelled", now=now)'),
    ),
    bug(
        "a person is asked about work that was cancelled",
        "Q10",
        "test_work_that_is_cancelled_asks_no_longer",
        Edit("cancel", "inbox.drop_work(tx, work.work)", ""),
    ),
    bug(
        "one of two answers wakes the work",
        "Q1",
        "test_several_approvals_of_one_step_are_all_waited_for",
        Edit("answer", "not inbox.waits_for(tx, work)", "True"),
    ),
    bug(
        "the same work is continued twice",
        "Q2",
        "test_Q2_work_that_was_continued_is_not_continued_again",
        Edit("continue_work", "open_work.goes_on(tx, row)", "False"),
    ),
    bug(
        "what ended together with continued work is left behind",
        "Q1",
        "test_L4_what_was_taken_together_with_the_work_that_met_the_limit_goes_on_too",
        Edit("continue_work", "open_work.ended_with(tx, row)", "()"),
    ),
    bug(
        "a new allowance leaves out the hops",
        "L2",
        "test_L1_resuming_grants_the_same_again_and_goes_on",
        Edit("_continue_limited", 'row["hop"]', "0"),
    ),
    bug(
        "an agent that is started again sleeps through its queue",
        "R3",
        "test_an_agent_in_error_goes_on_when_a_person_starts_it",
        Edit("start_agent", "queue.announce(tx, agent)", ""),
    ),
    bug(
        "the allowance of a project stays used up for the agent that goes on",
        "L4",
        "test_L4_who_lets_an_agent_go_on_lifts_the_limit_of_its_project_too",
        Edit("resume_agent", 'limits.forgive(tx, "project", "", now=now)', ""),
    ),
    bug(
        "a notice is said in a workspace that is closed",
        "Q10",
        "test_Q10_in_a_workspace_that_is_closed_nobody_is_told_anything",
        Edit("notice", """workspace_rows.get(tx, workspace)["state"] == "running\"""", "True"),
    ),
    bug(
        "cancelling one run stops whatever its agent does now",
        "Q10",
        "test_Q10_cancelled_while_queued_never_runs",
        Edit(
            "Supervisor._interrupt",
            "loop and loop.run == run and agent not in self._interrupted",
            "loop and agent not in self._interrupted",
        ),
    ),
    bug(
        "a proposal that cannot be ended is tried again at once, and again",
        "R8",
        "test_a_proposal_that_cannot_be_ended_is_tried_again_every_minute",
        Edit("_look", "now + AGAIN", "now + AGAIN / 10"),
    ),
    bug(
        "what was interrupted waits behind the others",
        "R2",
        "test_R2_who_was_interrupted_comes_before_those_who_waited_longer",
        Edit("_with_work", '(-row["tried"], row["since"], row["agent"])', '(row["since"], row["agent"])'),
    ),
    bug(
        "a crash whose words cannot be stored is no crash",
        "R3",
        "test_R3_a_crash_whose_words_cannot_be_stored_is_a_crash_like_any_other",
        Edit(
            "Supervisor._recovers",
            'f"{type(error).__name__}: {error}".encode(errors="replace").decode()',
            'f"{type(error).__name__}: {error}"',
        ),
    ),
    bug(
        "a member sees what is another run's to answer",
        "Q2",
        "test_no_mention_is_answered_without_having_been_shown_however_many_wait",
        Edit(
            "_look_around",
            "deliveries.given_to_soon(tx, job.run)",
            """lambda: [
                {"id": "", "kind": "", "proposal": None, "run": None, "outside": None, **row}
                for row in deliveries.open_for(tx, agent, workspace)
            ]""",
        ),
    ),
    bug(
        "an agent reads its own words as news",
        "O1",
        "test_the_digest_tells_what_others_said_since_the_agent_last_looked",
        Edit("_in_workspace", 'm["sender"] != data.brief.name', "True"),
    ),
    bug(
        "a memory that cannot be read stops the work",
        "I5",
        "test_I5_a_memory_that_cannot_be_read_is_said_in_the_prompt",
        Edit("_remembered", "(AgentWorkerError, OSError)", "()"),
    ),
    # --- votes
    bug(
        "a role is given where only half must vote",
        "M12",
        "test_M20_an_agent_that_asks_for_a_role_chooses_neither_voters_nor_fallback",
        Edit("_check_power", "2 * quorum <= len(electorate)", "2 * quorum < len(electorate)"),
    ),
    bug(
        "a role falls to somebody because nobody voted",
        "M12",
        "test_M20_an_agent_that_asks_for_a_role_chooses_neither_voters_nor_fallback",
        Edit("_check_power", "if request.fallback: ...", ""),
    ),
    bug(
        "exactly half of the votes is a majority",
        "M12",
        "test_exactly_half_of_the_votes_is_no_majority",
        Edit("outcome", "2 * best > cast", "2 * best >= cast"),
    ),
    bug(
        "a majority is certain with half of all votes",
        "M12",
        "test_half_of_all_who_may_vote_makes_no_majority_certain",
        Edit(
            "_is_safe",
            "2 * counts[leader] > sum(counts.values()) + left",
            "2 * counts[leader] >= sum(counts.values()) + left",
        ),
    ),
    bug(
        "a plurality that can still be tied is certain",
        "M12",
        "test_a_lead_that_the_last_vote_can_tie_is_certain_only_if_it_wins_the_tie",
        Edit("_is_safe", "all(_beats(rules, votes, leader, rival) for rival in ties)", "True"),
    ),
    bug(
        "the creator's tie-break is taken as known before the creator voted",
        "M12",
        "test_who_breaks_ties_is_waited_for",
        Edit("_beats", 'rules.tie_break == "creator" and rules.creator in missing(rules, votes)', "False"),
    ),
    bug(
        "what cannot be unanimous any more stays open",
        "M12",
        "test_what_cannot_be_unanimous_any_more_is_over",
        Edit("_can_be_won", "best == cast", "True"),
    ),
    bug(
        "the same proposal is decided by another chance each time",
        "M12",
        "test_chance_decides_the_same_proposal_always_the_same_way",
        Edit("_by_priority", "random.Random(rules.seed)", "random.Random()"),
    ),
    bug(
        "agents raise their limits without the person",
        "A7",
        "test_M20_a_limit_without_the_users_vote_is_not_asked_for",
        Edit("_electorate", "_limits(request) and by != PERSON and USER not in electorate", "False"),
    ),
    bug(
        "limits are raised although the person did not approve",
        "A7",
        "test_M20_agents_cannot_vote_themselves_more_money",
        Edit(
            "_set_limits",
            "proposal.creator != USER and store.choices(tx, proposal.id).get(USER) != APPROVE",
            "False",
        ),
    ),
    bug(
        "who may name an owner is looked at when it is asked for only",
        "M13",
        "test_M13_an_owner_that_the_file_has_named_meanwhile_stays_the_owner",
        Edit("_give_role", "may_name_owner(workspace, Voter(proposal.creator))", "True"),
    ),
    bug(
        "who is gone is given a role",
        "M12",
        "test_M12_who_is_no_member_any_more_is_given_no_role",
        Edit("take_effect", 'winner not in member_rows.members_in(tx, workspace["id"])', "False"),
    ),
    bug(
        "advice takes effect",
        "M12",
        "test_advice_changes_nothing",
        Edit("take_effect", "not proposal.binding or not winner", "not winner"),
    ),
    bug(
        "another agent with a voter's name votes for it",
        "M14",
        "test_M14_another_agent_with_the_name_of_a_voter_has_no_vote",
        Edit("cast", "proposal.electorate.get(by.name) != by.agent", "by.name not in proposal.electorate"),
    ),
    bug(
        "a vote counts after the time is up",
        "M12",
        "test_M12_a_vote_that_comes_after_the_time_and_before_the_end_does_not_count",
        Edit("_still_open", "proposal.expires_at <= now", "False"),
    ),
    bug(
        "an outcome does not wait for the one who may veto it",
        "M12",
        "test_with_a_veto_the_outcome_waits_for_the_person",
        Edit(
            "end_if_certain",
            "found is None or (isinstance(found, Won) and proposal.veto and not proposal.consented)",
            "found is None",
        ),
    ),
    bug(
        "anybody cancels a proposal",
        "M12",
        "test_only_its_creator_or_a_person_cancels_it",
        Edit("cancel", "by != PERSON and proposal.creator != by.name", "False"),
    ),
    bug(
        "a voter is woken for a vote that is not needed any more",
        "Q2",
        "test_whoever_voted_or_need_not_any_more_is_not_woken_for_it",
        Edit("end", 'spare(tx, proposal, Voter(name, agent), "is decided", now=now)', "None"),
    ),
    bug(
        "the asker is not told what was decided",
        "Q8",
        "test_the_asker_is_called_on_with_the_outcome_unless_it_made_it",
        Edit("_tell", "() if knows else (asker,)", "()"),
    ),
    bug(
        "the one who decided is woken to be told",
        "Q8",
        "test_the_asker_is_called_on_with_the_outcome_unless_it_made_it",
        Edit(
            "_tell",
            "asker == by.name or asker not in member_rows.members_in(tx, proposal.workspace)",
            "asker not in member_rows.members_in(tx, proposal.workspace)",
        ),
    ),
    bug(
        "closing a workspace sets off what waited for its vote",
        "Q10",
        "test_Q10_a_team_that_is_stopped_does_not_begin_what_waited_for_a_vote",
        Edit("end", "if not closing: ...", "if True: ..."),
    ),
    bug(
        "what was cancelled is written into the minutes",
        "Q10",
        "test_whatever_is_done_in_whatever_order_each_proposal_has_one_end",
        Edit("end", 'state == "cancelled"', "False"),
    ),
    bug(
        "the time of a proposal runs out while its workspace does not run",
        "R8",
        "test_the_time_of_a_proposal_does_not_run_out_while_its_workspace_does_not_run",
        Inside("due", "p.expires_at <= :now and w.state = 'running'", "p.expires_at <= :now"),
        Inside("first_due", "p.state = 'open' and w.state = 'running'", "p.state = 'open'"),
    ),
    bug(
        "minutes that could not be written are forgotten",
        "D4",
        "test_D4_minutes_that_cannot_be_written_come_with_the_next_decision",
        Edit("file_pending", "continue", "pass"),
    ),
    bug(
        "who asks and votes is called on to vote",
        "Q2",
        "test_who_votes_in_asking_is_not_called_on",
        Edit("propose", "agent and not (own and name == by.name)", "agent"),
    ),
    # --- channel, inbox, workspace
    bug(
        "something is said in a workspace that is closed",
        "Q10",
        "test_Q10_nothing_is_said_in_a_workspace_that_is_closed",
        Inside(
            "next_seq",
            "where project = :project and id = :workspace and state = 'running' returning seq",
            "where project = :project and id = :workspace returning seq",
        ),
    ),
    bug(
        "a further line passes for somebody else's message",
        "A9",
        "test_A9_no_line_of_a_message_passes_for_a_message_of_somebody_else",
        Edit("as_line", '"\\n  ".join(text.splitlines())', '"\\n".join(text.splitlines())'),
    ),
    bug(
        "what was said long ago is a repetition",
        "L3",
        "test_L3_what_was_said_long_ago_is_no_repetition",
        Inside("said_before", "w.seq - :lately", "w.seq - 1000 * :lately"),
    ),
    bug(
        "an agent acknowledges what another run was given",
        "M11",
        "test_M11_only_what_a_run_was_given_is_acknowledged_by_it",
        Inside(
            "acknowledge",
            "agent = :agent and run = :run and seq = :seq",
            "agent = :agent and :run <> '' and seq = :seq",
        ),
    ),
    bug(
        "a workspace that was stopped is still paused when it is opened again",
        "Q1",
        "test_a_workspace_that_was_stopped_is_not_paused_when_it_is_opened_again",
        Inside("_open_again", "case when state = 'left' then paused else '' end", "paused"),
    ),
    bug(
        "a pause ends with the death of its host",
        "Q10",
        "test_Q10_a_workspace_whose_host_died_is_still_paused",
        Inside("_open_again", "case when state = 'left' then paused else '' end", "''"),
    ),
    bug(
        "an owner that the file no longer names stays the owner",
        "M13",
        "test_M13_an_owner_that_was_elected_stays_and_one_that_the_file_named_goes_with_its_name",
        Inside("_open_again", "when owner_named = 1 then ''", "when owner_named = 2 then ''"),
    ),
    bug(
        "an owner that was elected is forgotten at the next start",
        "M13",
        "test_M13_an_owner_that_was_elected_stays_and_one_that_the_file_named_goes_with_its_name",
        Inside("_open_again", "when owner_named = 1 then '' else document_owner end", "else '' end"),
    ),
    bug(
        "who was here before has seen nothing",
        "Q7",
        "test_Q7_who_was_here_before_has_seen_what_it_saw",
        Edit("replace", 'agents.get(row["name"]) != row["agent"]', "True"),
    ),
    bug(
        "who is gone keeps its role",
        "M13",
        "test_M13_who_is_gone_and_who_is_alone_holds_no_role",
        Edit("add_members", "_vacate(tx, workspace, alone=len(agents) == 1)", ""),
    ),
    bug(
        "who is alone is kept from writing",
        "M13",
        "test_M13_who_is_gone_and_who_is_alone_holds_no_role",
        Edit("add_members", "len(agents) == 1", "False"),
    ),
    bug(
        "what a workspace in memory has cost goes with it",
        "L4",
        "test_L4_what_was_spent_in_a_workspace_that_keeps_nothing_stays_spent",
        Edit(
            "erase",
            "keeper.forget_workspace(tx, workspace)",
            'tx.run("delete from ledger where run in (select id from run where workspace = :w)", w=workspace)\n'
            "keeper.forget_workspace(tx, workspace)",
        ),
    ),
    bug(
        "an older look takes back what a member has seen",
        "O1",
        "test_an_older_look_does_not_take_back_what_was_seen",
        Inside("mark_seen", "agent = :agent and seen < :seq", "agent = :agent"),
    ),
    bug(
        "a channel that came from elsewhere makes a longer one count again",
        "O1",
        "test_O1_a_channel_never_counts_back",
        Inside("begin_at", "id = :workspace and seq < :seq", "id = :workspace"),
    ),
    # --- routing, inbox, threads, steps
    bug(
        "the same key is accepted twice",
        "Q4",
        "test_Q4_what_is_sent_again_under_its_key_is_said_once",
        Edit("say", "if key and (known := accepted(tx, key)): ...", ""),
    ),
    bug(
        "the key of a kickoff is forgotten after a day",
        "Q4",
        "test_Q4_a_kickoff_is_known_for_ever_and_any_other_key_for_a_day",
        Inside("forget_keys", "and substr(key, 1, :length) <> :kickoff", "and :length > 0 and :kickoff <> ''"),
    ),
    bug(
        "a long message is kept with its secrets",
        "N5",
        "test_N5_a_secret_that_is_said_called_printed_or_failed_with_is_written_nowhere",
        Edit("_draft", "tx.redact(speech.text)", "speech.text"),
    ),
    bug(
        "continue goes back to something before the last matter",
        "Q2",
        "test_continue_means_the_last_matter_and_none_before_it",
        Inside("last_incomplete", "and i.ended_at is not null", "and i.state = 'incomplete'"),
    ),
    bug(
        "what a run was asked is heard again after each interruption",
        "O2",
        "test_O2_what_a_run_was_asked_is_heard_once_however_often_it_is_interrupted",
        Inside("hear", "state = 'running' and heard = 0 returning *", "state = 'running' returning *"),
    ),
    bug(
        "the same matter is put before the person again",
        "Q8",
        "test_Q8_the_same_matter_is_put_before_the_person_once",
        Edit("ask", "if known: ...", ""),
    ),
    bug(
        "a prompt shows talk that was taken back",
        "A12",
        "test_A12_talk_that_was_held_back_is_shown_in_no_prompt_and_stays_in_the_record",
        Inside("before", "seq < :seq and held <= :held", "seq < :seq and :held = :held"),
    ),
    bug(
        "the result of a call is replaced by a later one",
        "Q2",
        "test_Q2_the_result_of_a_call_and_the_answer_of_a_step_are_final",
        Inside("put_call", "where call.state = 'started' and excluded.state = 'done'", "where true"),
    ),
    bug(
        "a step that is kept twice becomes another one",
        "Q2",
        "test_Q2_the_result_of_a_call_and_the_answer_of_a_step_are_final",
        Inside("keep", "(project, work, n) do nothing", "(project, work, n) do update set reply = excluded.reply"),
    ),
    # --- the queue
    bug(
        "what is put twice under an id is an error",
        "R9",
        "test_putting_the_same_id_twice_queues_it_once",
        Edit(
            "put",
            'id and tx.one("select 1 as known from instruction where project = :project and id = :id", id=id)',
            "False",
        ),
    ),
    bug(
        "work of a paused workspace is taken",
        "Q10",
        "test_Q10_work_of_a_workspace_that_is_paused_or_closed_is_not_taken",
        Inside("HEAD", "(w.paused <> '' or w.state <> 'running')", "w.state <> 'running'"),
    ),
    bug(
        "mentions are tried together with one whose worker died",
        "Q3",
        "test_Q3_mentions_are_not_taken_together_with_one_whose_worker_died",
        Edit(
            "companions",
            'first["source"] != "channel" or (first["attempts"] and run_rows.lost_runs(tx, first["id"]))',
            'first["source"] != "channel"',
        ),
    ),
    bug(
        "one run answers more mentions than its prompt can show",
        "Q6",
        "test_Q6_one_run_takes_as_many_mentions_as_its_prompt_can_show_and_leaves_the_others",
        Edit("companions", "TOGETHER - 1", "10000"),
    ),
    bug(
        "being pushed aside lifts nobody",
        "O4",
        "test_O4_work_is_lifted_by_being_pushed_aside_and_by_waiting",
        Inside(
            "put_back",
            "preempted + 1 >= :up and lane > 0 then lane - 1",
            "preempted + 1 >= :up and lane > 9 then lane - 1",
        ),
    ),
    bug(
        "waiting lifts nobody",
        "O4",
        "test_O4_work_is_lifted_by_being_pushed_aside_and_by_waiting",
        Inside("AGE", "queued_at <= :aged", "queued_at <= :aged and 0"),
    ),
    bug(
        "who is done does not look whether more was queued",
        "Q1",
        "test_what_was_queued_before_a_run_began_is_done_after_it",
        Edit("finish", "open_work.any_queued(tx, job.fence.agent)", "False"),
    ),
    bug(
        "a write that may wait is made after the next one",
        "D3",
        "test_a_write_that_may_wait_is_part_of_the_next_commit_and_stands_before_it",
        Edit("WriteQueue._hand_over", "[*self._soon, *jobs]", "[*jobs, *self._soon]"),
    ),
    bug(
        "a write that may wait is forgotten when the database closes",
        "D3",
        "test_a_write_that_may_wait_is_not_lost_when_the_database_closes",
        Edit("WriteQueue._close_later", "self._hand_over()", ""),
    ),
    bug(
        "a log that cannot be written keeps others from being written with it",
        "D7",
        "test_D7_a_log_that_cannot_be_written_keeps_no_other_from_it",
        Edit("LogFiles._write", "for target, place in places.items():\n    await self._write({target: place})", ""),
    ),
    # --- files that follow the database
    bug(
        "a log is not looked at again after a failed write",
        "D7",
        "test_D7_a_log_that_was_written_in_part_is_looked_at_again",
        Edit("LogFiles._write", "self._written.pop(target, None)", ""),
    ),
    bug(
        "resources are not looked for again after a failed write",
        "G7",
        "test_G7_resources_that_could_not_be_looked_for_are_looked_for_again",
        Edit("LogFiles._write", 'self._lacking.pop(target.workspace or "", None)', ""),
    ),
    bug(
        "lines of somebody else at the end of a log hide ours",
        "D7",
        "test_D7_lines_of_somebody_else_at_the_end_of_a_log_hide_none_of_ours",
        Edit("STRANGERS", "100", "1"),
    ),
    bug(
        "a log that is watched already is believed to be where the caller says",
        "D7",
        "test_D7_a_log_that_is_watched_already_knows_better_how_far_it_goes",
        Edit("LogFiles.watch", "written is not None and target not in self._places", "written is not None"),
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
            "_edit(root, WORKING, key, _record(replace(held, by=USER)))\n_edit(root, QUARANTINE, key, None)",
            "_edit(root, QUARANTINE, key, None)\n_edit(root, WORKING, key, _record(replace(held, by=USER)))",
        ),
    ),
    bug(
        "what is released is still from outside",
        "A6",
        "test_A6_what_is_released_is_no_longer_from_outside",
        Edit("release", "_record(replace(held, by=USER))", "_record(held)"),
    ),
    bug(
        "what is released replaces what is remembered",
        "D8",
        "test_D8_what_is_released_does_not_replace_what_is_remembered",
        Edit("release", "if (known := find(root, key)) and known.value != held.value: ...", ""),
    ),
    bug(
        "an agent reads what is held back from it",
        "A6",
        "test_A6_an_agent_does_not_see_what_is_held_back_from_it",
        Edit(
            "files",
            '{name.removesuffix(".yaml") for name in filter(is_text, names)} - {QUARANTINE}',
            '{name.removesuffix(".yaml") for name in filter(is_text, names)}',
        ),
    ),
    bug(
        "core memory is changed unasked",
        "A5",
        "test_A5_core_memory_is_changed_only_by_who_asks_for_core",
        Edit("write", "if known.file == CORE != entry.file: ...", ""),
    ),
    bug(
        "what stands in core memory is hidden by the same key elsewhere",
        "A5",
        "test_A5_of_two_entries_under_one_key_the_one_in_core_memory_is_meant",
        Edit(
            "find",
            "min(found, key=lambda e: e.file != CORE, default=None)",
            "max(found, key=lambda e: e.file != CORE, default=None)",
        ),
    ),
    bug(
        "what was forgotten is found",
        "A12",
        "test_A12_what_was_forgotten_is_not_found",
        Edit("find", "e.key == key and e.file != ARCHIVE", "e.key == key"),
    ),
    bug(
        "what stood there in the middle of a poisoned run is put back, not what stood there before",
        "A14",
        "test_A14_what_stood_there_before_the_first_poisoned_run_is_put_back",
        Edit("_replaced", 'first.setdefault(row["about"], row["before"])', 'first[row["about"]] = row["before"]'),
    ),
    bug(
        "what stood there before a poisoned run replaces what a person wrote since",
        "A14",
        "test_A14_what_a_person_wrote_since_is_not_replaced_by_what_stood_there_before",
        Edit("_restored", "if memory.find(root, before.key) is not None:\n    return False", ""),
    ),
    bug(
        "whoever looked up a short code has not seen it",
        "A15",
        "test_A15_a_colleague_who_looked_up_a_short_code_has_seen_it",
        Edit("_is_telling", "len(line) >= TELLING and any(map(str.isdigit, line))", "False"),
    ),
    bug(
        "the reason that a poisoned run gave for its vote stays",
        "A14",
        "test_A14_nor_the_reason_of_a_vote_on_what_others_asked",
        Edit("_silence", "store.hold_back_reasons(tx, run.workspace, run.agent, since=run.started_at)", "None"),
    ),
    bug(
        "a todo is taken back only if it stands there letter for letter as it was given",
        "A14",
        "test_A14_nor_names_of_documents_and_todos_in_other_words_than_they_were_given[file]",
        Edit("hold_back", "texts = set(map(in_one_line, texts))", ""),
    ),
    bug(
        "a document that was taken back is still listed",
        "A14",
        "test_A14_nor_names_of_documents_and_todos_in_other_words_than_they_were_given[file]",
        Edit("_stamps_beneath", "entry.size and is_text(path)", "is_text(path)"),
    ),
    bug(
        "why a proposal was cancelled is not taken back",
        "A14",
        "test_A14_nor_why_a_proposal_was_cancelled",
        Edit("_silence", "for number in _cancelled(tx, run):\n    ...", "for number in ():\n    ..."),
    ),
    bug(
        "what is held back twice is there twice",
        "A6",
        "test_A6_what_is_held_back_again_is_there_once",
        Edit("hold_back", "any(held.value == entry.value for held in _entries(root, QUARANTINE))", "False"),
    ),
    bug(
        "what is archived under a name that is taken replaces what is there",
        "D8",
        "test_forgetting_twice_keeps_both",
        Edit("_move", "next(name for name in names if name not in there)", "known.key"),
    ),
    bug(
        "a note that is held back is deleted first",
        "D3",
        "test_D3_a_note_that_cannot_be_put_away_stays_where_it_is",
        Edit(
            "hold_back",
            'root.replace(_path(f"{QUARANTINE}/{name}"), text)\nroot.remove(_path(name))',
            'root.remove(_path(name))\nroot.replace(_path(f"{QUARANTINE}/{name}"), text)',
        ),
    ),
    bug(
        "a note that was changed meanwhile is written over",
        "D8",
        "test_D8_a_note_that_was_changed_meanwhile_is_not_written_over",
        Edit("edit", "read(root, name) != was", "False"),
    ),
    bug(
        "the same note twice is two notes",
        "Q2",
        "test_the_same_note_again_is_the_same_file_and_another_gets_a_number",
        Edit("write", "there == content", "False"),
    ),
    bug(
        "calls that an agent makes at once are each other's conflict",
        "D8",
        "test_what_an_agent_remembers_at_the_same_moment_is_all_kept",
        Edit("rewrite", "with _TURNS[hash(root.location(path)) % len(_TURNS)]: ...", "if True: ..."),
    ),
    bug(
        "what a person saved at the same moment is written over",
        "D8",
        "test_D8_an_edit_at_the_same_moment_is_not_written_over",
        Edit(
            "_rewrite",
            "root.swap(path, after, expected=None if before is None else content_hash(before))",
            "root.replace(path, after)",
        ),
    ),
    bug(
        "a todo that was done cannot be put on the list again",
        "Q2",
        "test_a_todo_that_was_done_may_be_put_on_the_list_again",
        Edit(
            "add",
            "any(todo.text == text for todo in open_items(root))",
            "any(todo.text == text for todo in load(root))",
        ),
    ),
    # --- limits
    bug(
        "one more than is allowed is allowed",
        "L4",
        "test_each_limit_is_met_at_its_default_and_says_so",
        Edit("reached", "value >= limit", "value > limit"),
    ),
    bug(
        "a model whose price nobody knows is free",
        "L4",
        "test_L4_an_unknown_price_is_estimated_from_the_tokens",
        Edit("price_of", "tokens * UNKNOWN_PRICE / 1e6, True", "0.0, True"),
    ),
    bug(
        "a day is another one on each machine",
        "R8",
        "test_R8_a_day_of_money_is_the_same_on_every_machine",
        Edit(
            "day_of",
            "from_micros(now).astimezone(UTC).date().isoformat()",
            "from_micros(now).astimezone().date().isoformat()",
        ),
    ),
    bug(
        "money of an agent's day pauses one workspace only",
        "L4",
        "test_L4_going_on_after_a_limit_of_the_agent_that_was_met_in_a_workspace",
        Edit("pause_at", 'stop.pauses == "context" and work.workspace', "work.workspace"),
    ),
    # --- the Guard
    bug(
        "what repeats something private is shared",
        "A3",
        "test_A3_what_repeats_something_private_is_private_too",
        Edit("gives_away", "value and value in plain", "value == plain"),
        Edit("gives_away", "token in spelled", "False"),
    ),
    bug(
        "a short private word keeps honest sentences back",
        "A3",
        "test_A3_a_short_private_word_keeps_no_honest_sentence_back",
        Edit("_looked_for", 'plain if len(plain) >= LONG_ENOUGH else ""', "plain"),
    ),
    bug(
        "what came from outside is shared before a person released it",
        "A6",
        "test_A6_what_came_from_outside_is_not_shared_before_a_person_has_released_it",
        Edit("_shareable", "not e.from_outside", "True"),
    ),
    bug(
        "a secret in other words is told",
        "A3",
        "test_A3_a_rare_token_of_something_private_is_not_told_in_other_words",
        Edit("gives_away", "token in spelled", "False"),
    ),
    bug(
        "what is for one colleague is told to all",
        "A1",
        "test_A1_what_is_for_one_colleague_is_told_to_that_one_only",
        Edit("is_open", "asker in entry.share_with", "entry.share_with"),
    ),
    bug(
        "an update under another key replaces core memory",
        "A5",
        "test_A5_core_memory_is_not_replaced_by_an_update_under_another_key",
        Edit("keep", "against.file == memory.CORE != claim.file", "False"),
    ),
    bug(
        "what was forgotten is shared",
        "A12",
        "test_A12_what_was_forgotten_is_not_shared",
        Edit("shareable", "entry.file != memory.ARCHIVE", "True"),
    ),
    bug(
        "an index that was changed while it was put away is believed",
        "G2",
        "test_a_single_wrong_byte_anywhere_is_noticed",
        Edit("_sealed", "_seal(path).read_text() != _checksum(path)", "False"),
    ),
    bug(
        "an index of another version is gone on with",
        "G2",
        "test_G2_an_index_of_another_version_is_read_in_again_even_if_nobody_sealed_it",
        Edit("_open_sound", 'connection.pragma("user_version") != VERSION', "False"),
    ),
    bug(
        "an index that is lost while it is filled stays half empty",
        "G2",
        "test_G2_an_index_that_is_lost_while_it_is_brought_up_to_date_lacks_nothing",
        Edit("Index.sync", "losses == self._losses", "True"),
    ),
    bug(
        "a file that is put in place of another is not read again",
        "G2",
        "test_G2_a_file_that_was_put_in_place_of_another_has_another_stamp",
        Edit("file_stamp", 'f"{found.st_ino}-{found.st_mtime_ns}-{found.st_size}"', 'f"{found.st_size}"'),
    ),
    bug(
        "sources of another kind are forgotten when some are brought up to date",
        "G2",
        "test_sources_under_another_name_are_left_alone",
        Edit("Index._sync", "name.startswith(under)", "True"),
    ),
    bug(
        "an agent looks up talk of a workspace that it does not work in",
        "A11",
        "test_A11_another_workspace_of_the_same_workflow_finds_nothing",
        Edit("_searchable", 'workspace["id"]', '"the same for all"'),
    ),
    bug(
        "a search that began before something was taken back takes it into an index again",
        "A14",
        "test_A14_a_search_that_began_before_takes_nothing_into_the_index_that_comes_after",
        Edit("Index.read", "            if self._closed:\n                raise IndexClosed(self)\n", ""),
    ),
    bug(
        "a query that names two authors is about the first",
        "D7p",
        "test_two_named_authors_are_no_reason_to_prefer_either",
        Edit("_only_author", 'named[0] if len(named) == 1 else ""', 'named[0] if named else ""'),
    ),
    bug(
        "an entry of the audit that was altered is not noticed",
        "A13",
        "test_A13_whatever_is_done_to_an_entry_is_noticed_there",
        Edit("flaw", 'row["seal"] != seal', "False"),
    ),
    bug(
        "the audit keeps secrets",
        "N5",
        "test_N5_the_audit_keeps_no_secret_and_is_whole_without_it",
        Edit("note", "tx.redact_json(done.before)", "done.before"),
    ),
    # --- the daemon's log and files
    bug(
        "a line of the log is glued to one that was cut off",
        "G3",
        "test_G3_a_line_that_was_cut_off_by_a_full_disk_is_not_glued_to_the_next",
        Edit("LogFile.write", 'b"\\n" + line if self._torn else line', "line"),
    ),
    bug(
        "a log that cannot be rotated grows",
        "G3",
        "test_G3_a_log_that_cannot_be_rotated_stays_within_its_share",
        Edit("LogFile._rotate", "os.ftruncate(self.descriptor, 0)", "None"),
    ),
    bug(
        "who logs something that does not fit is thrown out",
        "G3",
        "test_G3_words_that_do_not_fit_are_logged_as_they_are",
        Edit("LogWriter.emit", 'message = f"{record.msg!r} with unfitting values"', "raise"),
    ),
    bug(
        "what is printed without a line end fills memory",
        "G3",
        "test_G3_what_is_printed_without_a_line_end_is_logged_in_pieces",
        Edit("_record_output", "if len(rest) > _CHUNK: ...", ""),
    ),
    bug(
        "what children print is logged with its secrets",
        "N5",
        "test_N5_what_is_printed_is_logged_without_secrets",
        Edit("_record_output", 'redact(line.decode(errors="replace"))', 'line.decode(errors="replace")'),
    ),
    bug(
        "a daemon that ends removes another's file",
        "S3",
        "test_only_the_own_file_is_removed_and_what_a_crash_left",
        Edit("remove_daemon", "found is not None and found.instance == instance", "found is not None"),
    ),
    bug(
        "another process that got the number is taken for the daemon",
        "S3",
        "test_S3_a_process_that_got_the_number_is_never_signalled",
        Edit("is_running", "birth_of(process.pid) == process.born", "birth_of(process.pid) is not None"),
    ),
    bug(
        "a zombie counts as running",
        "S3",
        "test_S3_a_zombie_and_a_dead_process_do_not_run",
        Edit("birth_of", 'fields[0] in (b"Z", b"X")', "False"),
    ),
    bug(
        "a process is signalled that only the file says is ours",
        "S3",
        "test_S3_a_process_that_got_the_number_is_never_signalled",
        Edit(
            "_agrees",
            "read_holder(home) == DaemonHolder(found.pid, found.born, found.instance) and is_running(found)",
            "is_running(found)",
        ),
    ),
    bug(
        "a token of one word over and over is strong",
        "W16",
        "test_W16_weak_tokens_are_not_strong",
        Edit(
            "is_strong",
            "_TOKEN.fullmatch(token) is not None and len(set(token)) >= 16",
            "_TOKEN.fullmatch(token) is not None",
        ),
    ),
    bug(
        "the token is sent before the other end has proved itself",
        "S4",
        "test_S4_a_stranger_on_the_port_never_sees_the_token",
        Edit("_proven", '_health(wire, nonce).get("proof") != expected', "not expected"),
    ),
    bug(
        "a port that only waits to be free is held by another program",
        "S2",
        "test_S2_a_port_is_about_to_be_free_only_when_nobody_listens_on_it",
        Edit("_is_closing", "_LISTENING not in states and bool(states & _CLOSING)", "False"),
    ),
    bug(
        "a port that somebody listens on is about to be free",
        "S2",
        "test_S2_a_port_is_about_to_be_free_only_when_nobody_listens_on_it",
        Edit("_is_closing", "_LISTENING not in states and bool(states & _CLOSING)", "bool(states & _CLOSING)"),
    ),
    bug(
        "a link to the daemon's file is written through",
        "U3",
        "test_U3_a_link_in_place_of_the_file_is_replaced_and_not_followed",
        Edit(
            "write_daemon",
            "os.replace(temporary, home / DAEMON_FILE)",
            "(home / DAEMON_FILE).write_bytes(temporary.read_bytes())",
        ),
    ),
    bug(
        "a private file stays open to others",
        "U1",
        "test_U1_a_file_that_others_could_read_is_closed_to_them",
        Edit("open_private", "status.st_mode & 0o077", "False"),
    ),
    # --- doors
    bug(
        "of a header that is there twice the first counts",
        "W2",
        "test_W2_a_host_that_is_there_twice_is_none",
        Edit("RequestHeaders.only", "len(values) == 1", "values"),
    ),
    bug(
        "of two tokens the first counts",
        "U6",
        "test_U6_of_two_tokens_none_counts",
        Edit("_bearer", "len(values) == 1", "values"),
    ),
    bug(
        "strangers send as much as the person",
        "D1p",
        "test_D1p_of_a_stranger_less_is_read_than_of_the_person",
        Edit("_limit", "LARGEST_BODY if caller is not None else _LARGEST_STRANGERS_BODY", "LARGEST_BODY"),
    ),
    bug(
        "a body that is longer than it says is read to its end",
        "D1p",
        "test_D1p_a_body_that_is_longer_than_it_says_is_not_read_to_its_end",
        Edit("whole_body", "size > limit", "False"),
    ),
    bug(
        "the token of a run opens more than its tools",
        "M1",
        "test_M1_M10_the_token_of_a_run_opens_nothing_else",
        Edit("RequestGuard._judge", 'isinstance(caller, RunIdentity) and not _is_for_runs(scope["path"])', "False"),
    ),
    bug(
        "a program is given the key of its model",
        "B3",
        "test_with_a_key_a_program_keeps_its_sessions_with_us_and_knows_only_its_token",
        Edit("_lent", "job.entry.token", "model.key"),
    ),
    bug(
        "a request that nobody waits for any more goes on",
        "Q10",
        "test_a_request_ends_with_whoever_waits_for_it_before_anything_is_answered",
        Edit("HttpConnection.finish", "self.abort()", ""),
    ),
    bug(
        "what a server says unasked is kept for the next request",
        "M1",
        "test_what_comes_when_nobody_asked_is_not_taken_for_an_answer",
        Edit("HttpConnection.data_received", "return self.abort()", "return"),
    ),
    bug(
        "a connection on which more came than was asked for is used again",
        "M1",
        "test_a_connection_that_is_not_good_for_another_request_is_not_used_again",
        Edit("HttpConnection.on_message_begin", "self._is_kept = False", "pass"),
        Edit(
            "HttpConnection.on_message_complete",
            "not self.is_whole and self._parser.should_keep_alive()",
            "self._parser.should_keep_alive()",
        ),
    ),
    bug(
        "a script of any size is parsed at once",
        "X9",
        "test_a_script_too_hard_to_be_read_may_run_anything_and_a_long_one_is_read",
        Edit("parsed", "len(source) <= SHORT or _is_quick(source)", "True"),
    ),
    bug(
        "the name of a folder is read as a pattern",
        "Y22",
        "test_Y22_the_name_of_a_folder_is_no_pattern",
        Edit("Places._matching", "glob.escape(directory)", "directory"),
    ),
    bug(
        "a model nests the arguments of a call as deep as it likes",
        "M1",
        "test_as_much_as_can_be_told_is_an_object_and_no_more",
        Edit("json_object", "range(DEEPEST)", "range(100 * DEEPEST)"),
    ),
    bug(
        "a connection on which something waits to be noticed is used again",
        "M1",
        "test_a_connection_on_which_something_waits_to_be_noticed_is_not_used",
        Edit("ModelClient._idle_one", "connection.is_quiet", "True"),
    ),
    bug(
        "an answer that told why it ends is lost with its connection",
        "Q10",
        "test_an_answer_that_told_why_it_ends_is_whole_though_its_last_event_is_lost",
        Edit("ModelApi._hear", "if heard.stop is None:\n    raise", "raise"),
    ),
    bug(
        "an error is forgotten when its words do not come",
        "Q10",
        "test_the_status_says_what_went_wrong_even_when_the_rest_does_not_come",
        Edit("ModelAnswer.beginning", "suppress(ConnectionBroken, TimeoutError)", "suppress()"),
    ),
    bug(
        "of an answer that was cut only what was told at its beginning is paid",
        "Q10",
        "test_what_was_heard_of_an_answer_that_was_cut_is_guessed_where_it_was_not_told",
        Edit("usage_of", "not written or heard.stop is None", "not written"),
    ),
    bug(
        "a call is made of an answer that could not be stored",
        "Q5",
        "test_Q5_nothing_is_made_of_an_answer_that_could_not_be_stored",
        Edit("RunRecorder._reach_out", "await self._keeping", "pass"),
    ),
    bug(
        "a key with a line break in it writes headers of its own",
        "M1",
        "test_a_key_that_would_be_more_than_a_header_is_refused_and_not_told",
        Edit(
            "_head",
            "_NAME.match(name) and value.isascii() and (value.isprintable() or not value)",
            "_NAME.match(name)",
        ),
    ),
    bug(
        "a reader that takes its time is sent everything at once",
        "Q10",
        "test_a_reader_that_takes_its_time_is_not_sent_more_than_it_takes",
        Edit("HttpConnection.data_received", "self._transport.pause_reading()", ""),
    ),
    bug(
        "the server is told what the proxy asked for",
        "M1",
        "test_a_proxy_is_told_its_user_and_the_server_is_not",
        Edit("proxy_headers", "server.is_told_whole_addresses", "server.proxy"),
    ),
    bug(
        "what a program sends as another key is passed on to the provider",
        "M1",
        "test_what_else_a_program_sends_as_a_key_does_not_reach_the_provider",
        Edit("with_key", "continue  #", "pass  #"),
    ),
    bug(
        "an entry of a program outlives its run",
        "C7",
        "test_C7_an_entry_of_a_program_ends_with_its_run",
        Edit(
            "RunTokens.follow",
            "bus.listen(self._hear, Ended, Retrying)",
            "bus.listen(self._hear, Retrying)",
        ),
    ),
    bug(
        "a name in the query overrules the same in the body",
        "D3p",
        "test_D3p_a_name_is_given_once_wherever_it_stands",
        Edit("arguments", "name in given", "False"),
    ),
    bug(
        "of a name that is twice in a body the last counts",
        "D3p",
        "test_D3p_a_name_is_given_once_wherever_it_stands",
        Edit("_once", "len(found) != len(pairs)", "False"),
    ),
    bug(
        "an error is told with the secrets in it",
        "N6",
        "test_N6_an_error_is_told_without_the_secrets_in_it",
        Edit("_told", "redact(error.message)", "error.message"),
    ),
    bug(
        "a path that is less written out is tried first",
        "D8p",
        "test_what_is_written_out_is_tried_before_what_is_an_argument",
        Edit("Routes.routes", "_vagueness(each.path)", "[-n for n in _vagueness(each.path)]"),
    ),
    bug(
        "a reader that does not read keeps the daemon from ending",
        "L6",
        "test_R6_one_who_does_not_read_is_cut_off_at_the_end_and_that_is_no_error",
        Edit("EventResponse._hurry", "_cut(scope)", "None"),
    ),
    bug(
        "the same words of a program are two calls",
        "Q4",
        "test_what_a_program_says_twice_in_the_same_words_is_said_once",
        Edit("_call_id", 'f"w_{words}" if asked.name in ONCE else new_id("c")', 'new_id("c")'),
    ),
    bug(
        "a program that reads again is told what it knows",
        "Q4",
        "test_what_a_program_says_twice_in_the_same_words_is_said_once",
        Edit("_call_id", 'f"w_{words}" if asked.name in ONCE else new_id("c")', 'f"w_{words}"'),
    ),
    bug(
        "a call that is still being made is made again",
        "Q4",
        "test_a_call_that_takes_long_goes_on_and_its_result_is_had_by_asking_again",
        Edit("_call_as_agent", "key not in self._under_way", "True"),
    ),
    bug(
        "a hint tells of somebody else's inbox",
        "A11",
        "test_an_agent_at_work_is_told_of_mentions_of_itself_only_and_only_while_it_works",
        Edit("_concerns", "(event.agent, event.workspace) == (identity.agent, identity.workspace)", "True"),
    ),
    bug(
        "who listens goes on after its run",
        "C7",
        "test_C7_who_listens_for_a_run_is_told_to_stop_when_that_run_ends",
        Edit(
            "_CallerBus._ends",
            "isinstance(self._caller, RunIdentity)"
            " and isinstance(event, Ended | Retrying) and event.run == self._caller.run",
            "False",
        ),
    ),
    # --- more of the same kind
    bug(
        "a message wakes any number of members",
        "D4p",
        "test_D4p_a_message_wakes_at_most_so_many",
        Edit("say", "len(called) > RECIPIENTS", "False"),
    ),
    bug(
        "half a character is sent",
        "D3p",
        "test_D3p_what_cannot_be_sent_is_refused",
        Edit("check_size", "text.encode()", 'text.encode("utf-8", "surrogatepass")'),
    ),
    bug(
        "work waits for the questions of work whose name begins like its own",
        "Q1",
        "test_Q1_work_waits_for_its_own_questions_and_not_for_those_of_work_with_a_longer_name",
        Edit("waits_for", "len(work) + 1", "len(work)"),
        Edit("waits_for", 'f"{work}/"', "work"),
    ),
    bug(
        "a conversation that came from elsewhere makes a longer one count again",
        "O1",
        "test_O1_a_conversation_never_counts_back_and_keeps_what_it_knows",
        Inside("restore", "do update set seq = :seq where thread.seq < :seq", "do update set seq = :seq"),
    ),
    bug(
        "a message that was dealt with is delivered again",
        "Q4",
        "test_Q4_a_message_is_delivered_once_to_each",
        Inside("deliver", "do nothing", "do update set state = 'queued'"),
    ),
    bug(
        "what was dealt with is opened again",
        "Q10",
        "test_Q10_only_what_failed_is_opened_again",
        Inside("reopen", "state in ('failed', 'dead')", "state in ('acked', 'failed', 'dead')"),
    ),
    bug(
        "work that nobody will take keeps a workspace going",
        "Q9",
        "test_Q9_work_of_an_agent_that_takes_none_is_held_and_keeps_no_workspace_going",
        Inside("HELD", "a.paused <> '' or a.state = 'stopped'", "a.state = 'stopped'"),
    ),
    bug(
        "one request leads to any number of proposals",
        "M12",
        "test_M12_one_request_leads_to_so_many_proposals_and_no_more",
        Edit("_within_bounds", "root and store.made_for(tx, root) >= PER_ROOT", "False"),
    ),
    bug(
        "any number of proposals are open at once",
        "M12",
        "test_M12_proposals_are_capped",
        Edit("_within_bounds", "len(store.open_in(tx, workspace)) >= OPEN_AT_ONCE", "False"),
    ),
    bug(
        "a person who has voted must still say that it may stand",
        "M12",
        "test_a_person_who_votes_lets_the_outcome_stand",
        Edit("cast", "proposal = store.consent(tx, proposal.id)", ""),
    ),
    bug(
        "a path answers to HEAD too",
        "D8p",
        "test_D8p_a_path_answers_to_its_one_method",
        Edit("route", "made.methods = {method}", ""),
    ),
    bug(
        "an error that is not in the table has no status",
        "D8p",
        "test_D8p_an_error_without_a_status_has_that_of_the_nearest_above_it",
        Edit("status_of", "type(error).__mro__", "(type(error),)"),
    ),
    bug(
        "half a pair of characters comes in",
        "D3p",
        "test_D3p_what_cannot_be_stored_and_given_back_is_refused",
        Edit("check_texts", '"\\0" in value or _HALF_A_PAIR.search(value)', '"\\0" in value'),
    ),
    bug(
        "names are not looked at as values are",
        "D3p",
        "test_D3p_what_cannot_be_stored_and_given_back_is_refused",
        Edit("check_texts", "check_texts(name, depth + 1)", ""),
    ),
    bug(
        "who is refused is cut off while it sends",
        "L10",
        "test_L10_who_is_refused_may_finish_sending_and_so_reads_why",
        Edit(
            "refuse",
            'while (message := await receive())["type"] == "http.request" and message.get("more_body", False): ...',
            "pass",
        ),
    ),
    bug(
        "an application may let other pages in",
        "W8",
        "test_W8_W13_what_leaves_has_our_headers_and_lets_no_other_page_in",
        Edit("_safe", 'not n.lower().startswith(b"access-control-")', "True"),
    ),
    bug(
        "a token travels in an address",
        "W10",
        "test_W10_a_token_in_an_address_is_refused",
        Edit("RequestGuard._check_form", "any(name.lower() in _SECRET_NAMES for name, _ in names)", "False"),
    ),
    bug(
        "a start that failed is explained by what was logged long ago",
        "S5",
        "test_a_start_that_failed_is_explained_by_what_was_logged_since_then",
        Edit("_failed_start", "before if before <= size else 0", "0"),
    ),
    bug(
        "a code opens the page twice",
        "C5",
        "test_a_code_that_was_shown_means_nothing_any_more",
        Edit("LoginCodes.redeem", "self._until.pop(_digest(code), None)", "self._until.get(_digest(code))"),
    ),
    bug(
        "what is appended twice is there twice",
        "G2",
        "test_appending_the_same_twice_does_no_harm",
        Edit("Tables.append", "entry.position is None or entry.position > last", "True"),
    ),
    bug(
        "a query of small words finds nothing",
        "D7p",
        "test_words_that_only_ask_are_looked_for_when_there_are_no_others",
        Edit("terms_of", "telling or found", "telling"),
    ),
    bug(
        "a note that is held back is read",
        "A6",
        "test_A6_a_note_that_is_held_back_is_not_read_by_the_name_of_its_folder",
        Edit(
            "read",
            'text_of(root, _path(name)) if "/" not in name else None',
            "text_of(root, _path(name))",
        ),
    ),
    bug(
        "an agent writes into what is held back from it",
        "A6",
        "test_what_cannot_be_kept_is_refused_with_a_sentence",
        Edit(
            "_check",
            "not _FILE.fullmatch(entry.file) or entry.file in (ARCHIVE, QUARANTINE)",
            "not _FILE.fullmatch(entry.file)",
        ),
    ),
    bug(
        "a step is broken off when an agent is to stop",
        "O3",
        "test_a_new_host_goes_on_with_what_the_old_one_left",
        Edit("Supervisor._end", "loop and loop.run", "False"),
    ),
    bug(
        "a log ends in the newest of its files",
        "R8",
        "test_R8_a_clock_that_was_set_back_by_a_day_doubles_no_line",
        Edit("last_seq", "last = seq", "return seq"),
    ),
    bug(
        "a team cannot be stopped while its minutes cannot be written",
        "I5",
        "test_I5_minutes_that_cannot_be_written_do_not_keep_a_team_from_stopping",
        Edit("file_pending", "(OSError, Refused)", "OSError"),
    ),
    bug(
        "last words without a line end are lost",
        "G3",
        "test_G3_last_words_are_logged_also_without_a_line_end",
        Edit("_record_output", "if rest: ...", ""),
    ),
    # --- what you approved
    bug(
        "what can run any file stays approved, whoever has worked there since",
        "Y23",
        "test_Y23_what_can_run_any_file_is_asked_again_once_somebody_who_writes_has_worked",
        Edit(
            "Approvals.look", "self._known_as(power) in self.when and not worked", "self._known_as(power) in self.when"
        ),
    ),
    bug(
        "an agent that has worked is not written down again after a new approval",
        "Y23",
        "test_Y23_what_can_run_any_file_is_asked_again_once_somebody_who_writes_has_worked",
        Edit("TrustStore.worked", "stamp is not None and self._told.get(agent) == stamp", "agent in self._told"),
        Edit(
            "TrustStore.worked",
            "self._kept.change(lambda record: record.mark_worked(agent))",
            "self._kept.change(lambda record: record.mark_worked(agent))\nself._told[agent] = stamp",
        ),
    ),
    bug(
        "a program is kept from working by its own work",
        "Y23",
        "test_Y23_a_program_is_not_kept_from_working_by_its_own_work",
        Edit("Approvals.approve", "power.who if power.kind == 'program' else ''", "''"),
    ),
    bug(
        "a home inside the project is believed",
        "Y20",
        "test_Y20_a_home_inside_the_project_remembers_for_this_process_only",
        Edit("kept_in", "home is None or inside", "home is None"),
    ),
    bug(
        "a limit that waits for a yes forbids the run",
        "Y24",
        "test_Y24_every_limit_of_every_file_waits_until_it_is_approved_and_is_lowered_at_once",
        Edit("TrustStore.require", "power.forbids", "True"),
    ),
    bug(
        "a limit that was lowered may be raised again to what it was",
        "Y24",
        "test_Y24_every_limit_of_every_file_waits_until_it_is_approved_and_is_lowered_at_once",
        Edit("Approvals.settle", "self.limits[_limit(each)] = repr(holds)", "pass"),
    ),
    bug(
        "a limit that was taken out of a file stays approved",
        "Y24",
        "test_Y24_what_was_taken_out_of_a_file_is_asked_about_when_it_comes_back",
        Edit("Approvals.settle", "self.limits.pop(_limit(each), None)", "None"),
    ),
    bug(
        "a key in a file is kept with what was approved",
        "N5",
        "test_N5_a_key_in_a_file_is_neither_shown_nor_kept_and_a_change_of_it_is_a_change",
        Edit(
            "_text",
            "masked(power.what if power.content == power.what else f'{power.what}\\n\\n{power.content}')",
            "power.what if power.content == power.what else f'{power.what}\\n\\n{power.content}'",
        ),
    ),
    bug(
        "a change that cannot be shown is shown as nothing",
        "Y19",
        "test_Y19_a_change_too_far_back_to_be_kept_is_still_a_change",
        Edit(
            "Unapproved.shown",
            "difference(self.before, _kept(self.power)) or unseen",
            "difference(self.before, _kept(self.power))",
        ),
    ),
    bug(
        "when texts grow too many, those of the project approved last may go",
        "Y19",
        "test_when_texts_grow_too_many_those_not_approved_longest_go_and_the_approvals_stay",
        Edit(
            "InFile.change",
            "everything.pop(self._project, Approvals())",
            "everything.get(self._project, Approvals())",
        ),
    ),
    bug(
        "a link that is turned to an equal file is the same file",
        "Y19",
        "test_Y19_a_link_that_is_turned_elsewhere_is_another_power_even_with_equal_content",
        Edit("file_content", "digest_of(real, found.digest)", "digest_of(found.digest)"),
    ),
    bug(
        "files are not looked at again between two steps of a set-up",
        "Y22",
        "test_Y22_a_file_changed_between_two_steps_does_not_run",
        Edit("Gate.still_approved", "self.require(root, [power])", "None"),
        Edit("Gate.still_approved", "changed_files(power, step, root)", "[]"),
    ),
    bug(
        "a variable stands only for the value it was given last",
        "Y22",
        "test_Y22_every_file_that_a_command_can_be_seen_to_run_is_covered",
        Edit("Scope.assign", "self.variables.get(name, Word())", "Word()"),
    ),
    bug(
        "behind a link `..` leads where a reader thinks",
        "Y22",
        "test_Y22_behind_a_link_the_file_is_covered_that_the_system_finds",
        Edit("_ways", "(os.path.normpath(path), os.path.realpath(path))", "(os.path.normpath(path),)"),
    ),
    # --- what is rendered by the process that answers
    bug(
        "a text of any size is rendered at once",
        "X9",
        "test_X9_only_what_is_small_and_plain_in_every_way_is_drawn_at_once[characters]",
        Edit("is_light", "len(text) > LIGHT", "False"),
    ),
    bug(
        "a text of any number of lines is rendered at once",
        "X9",
        "test_X9_only_what_is_small_and_plain_in_every_way_is_drawn_at_once[lines]",
        Edit("is_light", "lines <= LINES", "True"),
    ),
    bug(
        "a text full of signs is rendered at once",
        "X9",
        "test_X9_only_what_is_small_and_plain_in_every_way_is_drawn_at_once[signs]",
        Edit("is_light", "signs <= FEW", "True"),
    ),
    bug(
        "columns of tables are no signs",
        "X9",
        "test_X9_only_what_is_small_and_plain_in_every_way_is_drawn_at_once[columns]",
        Inside("_MEANINGFUL", "<>|&", "<>&"),
    ),
    bug(
        "numbers of lists are no signs",
        "X9",
        "test_X9_only_what_is_small_and_plain_in_every_way_is_drawn_at_once[numbers of lists]",
        Edit("is_light", "len(_NUMBERED.findall(text))", "0"),
    ),
    bug(
        "few signs on many lines are rendered at once",
        "X9",
        "test_X9_only_what_is_small_and_plain_in_every_way_is_drawn_at_once[signs for each line]",
        Edit("is_light", "signs * lines <= LOOKS", "True"),
    ),
    bug(
        "code is coloured at once",
        "X9",
        "test_X9_only_what_is_small_and_plain_in_every_way_is_drawn_at_once[code]",
        Edit("is_light", "'```' in text", "False"),
    ),
    bug(
        "code between waves is coloured at once",
        "X9",
        "test_X9_only_what_is_small_and_plain_in_every_way_is_drawn_at_once[code between waves]",
        Edit("is_light", "'~~~' in text", "False"),
    ),
    bug(
        "texts that cannot be rendered are remembered without end",
        "X9",
        "test_X9_of_those_that_cannot_be_drawn_only_so_many_are_remembered",
        Edit("Rendering._keep", "self._size += ENTRY + len(html or '')", "self._size += len(html or '')"),
    ),
    bug(
        "a refused request writes a line into the log",
        "L12",
        "test_L12_whoever_is_refused_is_told_so_and_writes_nothing_into_the_log",
        Edit("_HEARD", "logging.ERROR", "logging.INFO"),
    ),
    bug(
        "a key in which chance put no digit is no key",
        "N10",
        "test_N10_of_keys_in_which_chance_put_no_digit_hardly_one_is_left_standing",
        Edit("_is_suspect", "not _has_one(_DIGITS, text) and not _is_mixed(text)", "not _has_one(_DIGITS, text)"),
    ),
    # --- what two hosts do at once
    *(
        bug(name, "H8", proof, Inside("_LOCK", "for update", ""))
        for name, proof in {
            "two hosts count the last votes at once": "test_the_last_two_votes_at_once_end_the_proposal",
            "two hosts raise limits at once": "test_of_two_limits_that_are_raised_at_once_both_hold",
            "a host ends a workspace as quiet while another writes to it": "test_a_message_that_comes_while_a_workspace"
            "_ends_as_quiet_is_refused_or_keeps_it_open",
            "a host stores an answer while another lets the work wait for it": "test_work_that_is_answered_while_it"
            "_begins_to_wait_does_not_wait_for_ever",
        }.items()
    ),
    # These hold without the lock too: so that goes, and with it what else guards them.
    *(
        bug(name, "H8", proof, Inside("_LOCK", "for update", ""), *edits)
        for name, proof, *edits in (
            (
                "who enrols an agent that another host has just enrolled gets an id of its own",
                "test_the_same_agent_enrolled_twice_is_one",
                Inside("enrol", "returning id", "returning :id as id"),
            ),
            (
                "a key that another host has just accepted is passed over",
                "test_the_same_key_sent_twice_is_one_message_with_one_receipt",
                Inside("accept", ":ref, :at)", ":ref, :at) on conflict do nothing"),
            ),
            (
                "a place in a queue is read before it is written",
                "test_places_in_a_queue_are_given_once_each",
                Inside(
                    "next_place",
                    "set ordered = ordered + 1",
                    "set ordered = (select a.ordered from agent a where a.project = :project and a.id = :agent) + 1",
                ),
            ),
            (
                "two hosts put one question before the person, with numbers of their own",
                "test_one_question_is_put_before_the_person_once",
                Edit("ask", "_next(tx)", "hash(id) % 10**9"),
            ),
            (
                "what a run adds to a count is added to what it had seen",
                "test_of_what_is_counted_nothing_is_lost",
                Inside(
                    "_add",
                    "set runs = tally.runs + :runs",
                    """set runs = coalesce((select t.runs from tally t where t.project = :project
                         and t.scope = :scope and t.key = :key and t.day = :day), 0) + :runs""",
                ),
            ),
            (
                "an entry of the audit whose number another host has just used is passed over",
                "test_the_audit_of_two_writers_is_one_chain",
                Inside("note", ":at, :seal)", ":at, :seal) on conflict do nothing"),
            ),
            (
                "a workspace that another host has just opened is passed over",
                "test_the_same_workspace_opened_twice_is_one",
                Inside("_create", "'left', :now)", "'left', :now) on conflict do nothing"),
            ),
            (
                "work that was cancelled meanwhile is begun all the same",
                "test_work_that_is_cancelled_while_it_is_taken_does_not_begin",
                Inside("begin_run", "and state = 'queued'", ""),
            ),
            (
                "a fence that another host has replaced is good",
                "test_of_two_who_claim_an_agent_only_the_last_may_write",
                Inside("holds", "and owner = :owner and epoch = :epoch", ""),
            ),
            (
                "a document is written on whatever is there",
                "test_of_two_who_write_a_document_that_both_have_read_one_is_told_of_the_other",
                Edit("revise", "(last['n'] if last else 0) != seen.n", "False"),
                Edit("revise", "seen.n + 1", "(last['n'] if last else 0) + 1"),
            ),
        )
    ),
    bug(
        "two hosts wake an agent for one time of its schedule",
        "H8",
        "test_two_hosts_that_look_at_one_schedule_wake_its_agent_once",
        Inside("PostgresDatabase._begin", "for update", ""),
        Edit("_queue", "queue.put(tx, order, now=micros(now), id=id)", "queue.put(tx, order, now=micros(now))"),
    ),
    bug(
        "two hosts open a workspace that was left",
        "H8",
        "test_a_workspace_that_was_left_is_taken_up_by_one_host",
        Inside("take_up", "coalesce(owner, :host) = :host or", "1 = 1 or"),
    ),
    bug(
        "two hosts start what a schedule marks as due",
        "H8",
        "test_what_a_schedule_marks_as_due_is_started_by_one_host",
        Inside("take", "host in ('', :host) or", "1 = 1 or"),
    ),
    bug(
        "a commit that a crash has lost is taken for made",
        "H5",
        "test_H5_a_server_that_crashes_in_a_commit_takes_no_other_commit_for_it",
        Edit("PostgresDatabase._was_committed", "row['number'] == self._tried", "row['number'] >= 0"),
    ),
    bug(
        "what other hosts told before us is not heard when it cannot be read at once",
        "H5",
        "test_what_others_told_is_heard_later_when_it_cannot_be_read_at_once",
        Edit("EventFeed.missing", "self._ahead.update(own)", "self.told = before"),
    ),
    bug(
        "a look of two moments is one without a transaction",
        "H8",
        "test_a_look_that_takes_a_second_trip_this_time_sees_one_moment_all_the_same",
        Edit("PostgresTransaction._go", "raise SecondTrip", "pass"),
    ),
    bug(
        "a look without a transaction may write",
        "H8",
        "test_a_look_that_writes_this_time_cannot",
        Inside("READ", "'default_transaction_read_only', 'on'", "'default_transaction_read_only', 'off'"),
    ),
    bug(
        "a host that could not take part in a team never does",
        "H4",
        "test_H4_a_host_that_could_not_take_part_in_a_team_does_when_the_server_is_back",
        Edit(
            "SharedWork._join_row",
            "raise",
            "log.warning('%s is not worked on here', workspace['id'])",
        ),
    ),
    bug(
        "files of agents are brought once or never",
        "H4",
        "test_H4_the_files_of_agents_are_brought_though_the_server_was_away_when_a_project_was_opened",
        Edit(
            "SharedWork._join_all",
            "self._later(personal.bring_all, loaded.id)",
            "self._service.background(personal.bring_all(loaded.id))",
        ),
    ),
    bug(
        "what is undone of a start is undone a second time",
        "H4",
        "test_H4_a_team_that_was_being_started_when_the_server_went_away_can_be_started_when_it_is_back",
        Edit("Undoings.finish", "await self._once(undo)", "pass"),
    ),
    bug(
        "what an agent says on another host is not in the logs of this one",
        "H8",
        "test_what_an_agent_says_on_one_host_is_in_the_logs_of_all",
        Edit("LogFiles.__init__", "[Ended] if shared else []", "[]"),
    ),
    bug(
        "what was said last in a team that another host ends is not in the logs of this one",
        "H8",
        "test_what_was_said_last_in_a_team_is_in_the_logs_of_all",
        Edit("SharedWork._ended", "await self._service.runtime.log_files.flush()", ""),
    ),
    bug(
        "a host runs an agent whose folder it does not see",
        "H1",
        "test_a_host_that_does_not_see_the_folder_that_others_see_leaves_the_agent_to_them_and_says_so",
        Edit("is_seen", "kept and not alone", "kept and alone"),
    ),
    bug(
        "that an agent is let go of counts as activity",
        "R9",
        "test_an_agent_that_was_let_go_of_for_want_of_work_was_not_active",
        Edit("abandon", "if held: ...", "if True: ..."),
    ),
)
