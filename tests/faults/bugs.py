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
            "job.result = job.change(transaction)\n"
            "self._loop.call_soon_threadsafe(job.answer.set_result, job.result)",
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
            "TEXTS",
            '{"text", "reply", "result", "reason", "arguments", "prompt", "answer", "status", "tool"}',
            '{"text", "reply", "result", "reason", "prompt", "answer", "status", "tool"}',
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
)
