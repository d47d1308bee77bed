"""Twenty-odd ways in which a tired engineer could break us, and the test that must notice each.

`scripts/deliberate_bugs.py` makes them one by one in a copy of the tree; `test_bugs.py` checks that this table still
fits the source. A bug is one or more exact pieces of text and what stands there instead; every piece must be found
once. A bug that no test notices is a missing test, and that is why this table exists.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PACKAGE = Path("src") / "agent_worker"


@dataclass(frozen=True, slots=True)
class Edit:
    file: str  #: in the package
    right: str
    wrong: str

    @property
    def path(self) -> Path:
        return PACKAGE / self.file


@dataclass(frozen=True, slots=True)
class Bug:
    name: str
    row: str  #: of the promise or attack that it breaks
    proof: str  #: the test that must turn red, as pytest calls it
    edits: tuple[Edit, ...]

    @property
    def test(self) -> tuple[str, str]:
        """File and function of the proof."""
        file, _, name = self.proof.partition("::")
        return file, name.partition("[")[0]

    def stale(self, root: Path) -> Iterator[str]:
        """What in this entry no longer fits the tree."""
        for edit in self.edits:
            found = (root / edit.path).read_text("utf-8").count(edit.right)
            if found != 1:
                yield f"{self.name}: {edit.file} holds this {found} times: {edit.right!r}"
        file, name = self.test
        if not (root / file).exists() or f"def {name}(" not in (root / file).read_text("utf-8"):
            yield f"{self.name}: there is no test {self.proof}"


def bug(name: str, row: str, proof: str, *edits: tuple[str, str, str]) -> Bug:
    return Bug(name, row, f"tests/{proof}", tuple(Edit(*edit) for edit in edits))


_FENCED = "test_a_loop_whose_agent_was_claimed_by_another_host_can_write_nothing"

BUGS = (
    # --- what is stored, and when it is answered
    bug(
        "the answer and its acknowledgement are two writes",
        "Q2",
        "faults/test_failpoints.py::test_D1_accepted_messages_survive_kill_9_at[finish.after_commit-1]",
        (
            "agents/endings.py",
            """    inbox.close(tx, job.run, "acked")
    _end(tx, job, "done", text=text, now=now)
    failpoint("finish.before_commit")
""",
            """    failpoint("finish.before_commit")


def acknowledge(tx: Transaction, job: Assignment, reply: Reply, *, now: int) -> None:
    hold_run(tx, job)
    inbox.close(tx, job.run, "acked")
    _end(tx, job, "done", text=reply.text.strip(), now=now)
""",
        ),
        (
            "agents/loop.py",
            '                        failpoint("finish.after_commit")\n',
            '                        failpoint("finish.after_commit")\n'
            "                        await self._write(endings.acknowledge, job, reply)\n",
        ),
    ),
    bug(
        "a write is answered before its commit",
        "D3",
        "faults/test_broken_disk.py::test_D3_a_failing_write_or_sync_leaves_no_half_effect_and_no_false_success",
        (
            "storage/sqlite.py",
            "        job.result = job.change(transaction)\n",
            "        job.result = job.change(transaction)\n"
            "        self._loop.call_soon_threadsafe(job.answer.set_result, job.result)\n",
        ),
    ),
    bug(
        "others are told before the commit",
        "D3",
        "faults/test_broken_disk.py::test_D3_a_failing_write_or_sync_leaves_no_half_effect_and_no_false_success",
        (
            "storage/sqlite.py",
            "        job.told = tuple(told)\n",
            "        for event in told:\n            self._loop.call_soon_threadsafe(self._bus.publish, event)\n",
        ),
    ),
    bug(
        "commits are not synced (`synchronous = normal`)",
        "D2",
        "faults/test_power_cut.py::test_D2_what_was_accepted_is_there_after_a_power_cut",
        ("storage/sqlite.py", '("synchronous", "full")', '("synchronous", "normal")'),
    ),
    bug(
        "a failed sync is tried again and believed",
        "D5",
        "faults/test_broken_disk.py::test_D3_a_failing_write_or_sync_leaves_no_half_effect_and_no_false_success",
        ("storage/sqlite.py", "        if isinstance(error, apsw.FullError):\n", "        if True:\n"),
    ),
    bug(
        "the directory is not synced after a rename",
        "D6",
        "storage/test_files.py::test_d6_the_order_is_write_sync_rename_sync_of_the_directory",
        (
            "storage/files.py",
            """                folder.rename(temporary, name)
            failpoint("replace.dirsync")
            folder.sync()
""",
            """                folder.rename(temporary, name)
            failpoint("replace.dirsync")
""",
        ),
    ),
    bug(
        "a record is appended without repairing the end of the file",
        "D7",
        "faults/test_torn_files.py::test_D7_a_log_cut_at_any_byte_of_its_last_record_is_whole_again_after_a_start",
        ("storage/jsonl.py", "missing = _repair(root, relative, file)", 'missing = b""'),
    ),
    # --- work and its limits
    bug(
        "a loop ends its work without proving its fence",
        "Q10",
        f"agents/test_cancelling.py::{_FENCED}",
        (
            "agents/endings.py",
            "    hold_run(tx, job)\n    record_step(tx, job, step, reply, model, now=now)\n",
            "    record_step(tx, job, step, reply, model, now=now)\n",
        ),
    ),
    bug(
        "a tool acts without asking whether its run is over",
        "Q10",
        "agents/test_cancelling.py::test_Q10_a_late_tool_call_of_a_cancelled_run_is_refused",
        (
            "agents/hands.py",
            "        hold_run(tx, self._job)\n        if known := _done(tx, place):\n",
            "        if known := _done(tx, place):\n",
        ),
    ),
    bug(
        "an attempt is counted when its run ends",
        "Q3",
        "faults/test_processing.py::test_Q3_only_the_message_that_kills_is_to_blame",
        (
            "instructions.py",
            "set state = 'running', run = :run, attempts = attempts + 1 where id = :id",
            "set state = 'running', run = :run where id = :id",
        ),
        (
            "instructions.py",
            """        state=state,
        reason=reason,
        text=text,
        now=now,
    )
""",
            """        state=state,
        reason=reason,
        text=text,
        now=now,
    )
    if state != "lost":
        tx.run("update instruction set attempts = attempts + 1 where run = :run", run=run)
""",
        ),
    ),
    bug(
        "limits are not looked at before work begins",
        "L4",
        "test_limits.py::test_L4_money_per_project_and_day_stops_the_next_agent_too",
        (
            "agents/assignments.py",
            '        stop = _limit(tx, first, me["project"], terms.limits, now=now)\n',
            "        stop = None\n",
        ),
    ),
    bug(
        "what fails is tried again for ever",
        "Q8",
        "agents/test_failures.py::test_Q8_each_class_is_tried_as_often_as_it_should_be",
        ("agents/failure.py", "    if failures + 1 < tries:\n", "    if tries > 1:\n"),
    ),
    bug(
        "a team is closed without a look for queued work",
        "Q9",
        "workflows/test_quiet.py::test_Q9_nothing_that_arrives_in_the_last_moment_is_lost",
        ("workflows/quiet.py", "    if _under_way(tx, room):\n        return False\n", ""),
    ),
    bug(
        "a vote that is cast again is counted again",
        "M12",
        "attacks/test_votes.py::test_M12_a_vote_cast_twice_counts_once",
        (
            "workspaces/proposals.py",
            "           values (:proposal, :workspace, :voter, :choice, :reason, :now)\n",
            "           values (:proposal, :workspace, :voter || coalesce((select max(at) from vote\n"
            "                   where proposal = :proposal and voter = :voter), ''), :choice, :reason, :now)\n",
        ),
        (
            "workspaces/voting.py",
            "    return {voter: votes[voter] for voter in rules.voters if votes.get(voter) in rules.options}\n",
            "    return {voter: choice for voter, choice in votes.items() if choice in rules.options}\n",
        ),
    ),
    # --- who may
    bug(
        "any name of the host is taken",
        "W1",
        "attacks/test_browser.py::test_W1_a_rebound_name_is_refused",
        ("daemon/guardpost.py", "        if host not in hosts:\n", "        if host is None:\n"),
    ),
    bug(
        "an origin that begins like ours is ours",
        "W5",
        "attacks/test_browser.py::test_W3_W4_W5_W6_another_origin_is_refused_with_a_valid_token",
        (
            "daemon/guardpost.py",
            'headers.only("origin") != f"http://{host}":\n',
            'not (headers.only("origin") or "").startswith(f"http://{host}"):\n',
        ),
    ),
    bug(
        "the beginning of the token is enough",
        "U4",
        "attacks/test_local_user.py::test_U4_wrong_tokens_are_refused_however_many_and_the_right_one_still_works",
        (
            "daemon/guardpost.py",
            "        if hmac.compare_digest(_digest(token), _digest(self._admin)):\n",
            "        if token and self._admin.startswith(token):\n",
        ),
    ),
    bug(
        "the token of a run outlives the run",
        "M7",
        "attacks/test_authority.py::test_M7_the_token_ends_with_the_run",
        (
            "daemon/guardpost.py",
            "        if isinstance(event, Ended | Retrying):\n",
            "        if isinstance(event, Retrying):\n",
        ),
    ),
    # --- what comes from outside
    bug(
        "a path is compared by its beginning instead of walked beneath its root",
        "F5",
        "attacks/test_files.py::test_F5_nor_does_a_link_lead_to_such_a_sibling",
        (
            "storage/files.py",
            """        *parents, name = _names_of_file(relative)
        with self._walk(relative, parents) as folder:
            yield folder, folder.actual(name)
""",
            """        here = self.path.joinpath(*self.within)
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
        "attacks/test_files.py::test_F3_a_link_leads_nowhere",
        (
            "storage/folder.py",
            "_FILE = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY\n",
            "_FILE = os.O_NONBLOCK | os.O_NOCTTY\n",
        ),
        (
            "storage/folder.py",
            "return os.stat(name, dir_fd=self.descriptor, follow_symlinks=False)\n        except",
            "return os.stat(name, dir_fd=self.descriptor)\n        except",
        ),
    ),
    bug(
        "what is looked for is not quoted",
        "D7p",
        "tools/test_recall.py::test_D7p_any_text_is_a_query",
        (
            "guard/words.py",
            """        return f'{self.columns}"{self.phrase}"'\n""",
            """        return f"{self.columns}{self.said}"\n""",
        ),
    ),
    bug(
        "a mention is found inside of code",
        "A10",
        "test_mentions.py::test_A10_code_quotes_urls_and_addresses_call_on_nobody",
        ("mentions.py", '    own = _blank(own, _code_spans(own, paragraphs), " ")\n', ""),
    ),
    bug(
        "what a tool is called with is stored with its secrets",
        "N5",
        "test_redaction.py::test_N5_a_secret_that_is_said_called_printed_or_failed_with_is_written_nowhere",
        (
            "storage/sqlite_transaction.py",
            '    {"text", "reply", "result", "reason", "arguments",',
            '    {"text", "reply", "result", "reason",',
        ),
    ),
    bug(
        "text is shown as it comes, piece by piece",
        "N5",
        "test_redaction.py::test_N5_a_secret_that_is_said_called_printed_or_failed_with_is_written_nowhere",
        ("agents/hands.py", "        self._utter(self._saying.add(text))\n", "        self._utter(text)\n"),
    ),
    bug(
        "the Guard answers with what is private, too",
        "A1",
        "attacks/test_words.py::test_A1_A4_the_guard_answers_with_what_is_shared_and_nothing_else",
        ("guard/ask.py", "entry.visibility in OPEN and not entry.label and not repeats(entry.value, entries)", "True"),
    ),
    bug(
        "a skill that was read may fill core memory",
        "G10s",
        "attacks/test_words.py::test_G10s_a_skill_does_not_get_into_core_memory_or_the_soul",
        ("tools/recall.py", "    if desk.outside:\n", "    if not desk:\n"),
    ),
    bug(
        "the end of the audit is not looked at",
        "A13",
        "attacks/test_words.py::test_A13_tampering_with_the_audit_is_told_loudly",
        ("guard/audit.py", '    if (last["n"], last["seal"]) != (count, seal):\n', "    if last is None:\n"),
    ),
    bug(
        "HTML in what somebody wrote is HTML",
        "X1",
        "web/test_safety.py::test_X1_html_that_somebody_wrote_is_shown_as_text",
        ("daemon/web/prose.py", '("js-default", {"breaks": True,', '("js-default", {"html": True, "breaks": True,'),
    ),
    bug(
        "what Markdown makes is not cleaned behind it",
        "X1",
        "web/test_safety.py::test_X1_what_the_parser_would_let_through_is_cleaned_behind_it",
        (
            "daemon/web/prose.py",
            '    return clean(_parser().render(text, {"mentions": {name.lower() for name in mentions}}))\n',
            '    return Html(_parser().render(text, {"mentions": {name.lower() for name in mentions}}))\n',
        ),
    ),
)
