"""Talking with agents in a terminal, and through a pipe: what is seen, asked and answered there."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.patience import PATIENCE, eventually
from tests.shells.served import Served, kill_daemon, served
from tests.shells.terminal import Terminal

CHOICE = {"call": {"tool": "ask_user", "with": {"question": "Which **colour**?", "options": ["red", "blue"]}}}
WRITES = {"call": {"tool": "write_file", "with": {"path": "made.txt", "text": "one\ntwo"}}}
ANSWER = {"say": "# Result\n\n- it is **done**\n"}


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("conversation")) as daemon:
        yield daemon


@pytest.fixture
def terminal(daemon: Served, tmp_path: Path) -> Terminal:
    """In a project of its own: what waits there was asked by this test."""
    return Terminal(daemon.beside(tmp_path / "project"))


def agent(terminal: Terminal, name: str, *script: dict[str, Any], **more: Any) -> str:
    """An agent that does just this."""
    written = {"backend": "mock", "script": list(script)} | more
    (terminal.daemon.project / ".agents" / f"{name}.yaml").write_text(json.dumps(written))
    return name


def workflow(terminal: Terminal, name: str, written: dict[str, Any]) -> str:
    (terminal.daemon.project / ".workflows" / f"{name}.yaml").write_text(
        json.dumps({"workspace": {"provider": "sqlite"}} | written)
    )
    return name


def items(terminal: Terminal, kind: str) -> list[dict[str, Any]]:
    return [item for item in terminal.json("inbox") if item["kind"] == kind]


# --- ask ----------------------------------------------------------------------------------------------


def test_in_a_pipe_each_wait_for_the_next_try_is_told_beside_the_answer(terminal: Terminal) -> None:
    who = agent(terminal, "shaky", {"fail": "overloaded"}, {"say": "at last"})
    done = terminal.run("ask", who, "hello")
    assert done.stdout == "at last\n"
    assert done.stderr == "shaky tries again in 1 s: a failure (overloaded), as the script says\n"


def test_who_works_is_seen_and_for_how_long(terminal: Terminal) -> None:
    who = agent(terminal, "slow", {"say": "at last", "slow": "3s"})
    with terminal.on_screen("ask", who, "hello") as screen:
        screen.sees("slow is thinking… 1 s")
        assert screen.ends() == 0
    assert screen.stays == "at last\n"


def test_an_answer_is_drawn_once_and_apart_from_what_was_said_on_the_way(terminal: Terminal) -> None:
    reading = {"call": {"tool": "todo_add", "with": {"text": "read it"}}}
    who = agent(terminal, "drawer", reading, {"fail": "overloaded"}, ANSWER)
    with terminal.on_screen("ask", who, "hello", columns=60) as screen:
        assert screen.ends() == 0
    assert [line for line in screen.stays.splitlines() if line] == [
        "→ todo_add",
        "↻ again in 1 s: a failure (overloaded), as the script says",
        "Result",
        "• it is done",
    ]


def test_in_a_pipe_an_answer_is_as_it_was_written(terminal: Terminal) -> None:
    assert terminal.says("ask", agent(terminal, "plain", ANSWER), "hello") == "# Result\n\n- it is **done**\n"


def test_a_question_is_asked_in_place_and_answered_there(terminal: Terminal) -> None:
    who = agent(terminal, "asker", CHOICE, {"say": "I see"})
    with terminal.on_screen("ask", who, "paint it") as screen:
        screen.sees("asker asks: Which colour?\n  [1] red\n  [2] blue\n")
        screen.sees("asker waits for you…")
        screen.sees("your answer (1–2): ")
        screen.types("2")
        screen.sees("✓ blue")
        screen.sees("I see")
        assert screen.ends() == 0


def test_what_is_told_beside_an_answer_stands_in_a_line_of_its_own_on_a_terminal(terminal: Terminal) -> None:
    who = agent(terminal, "deaf", CHOICE, {"say": "I see"})
    with terminal.on_screen("ask", who, "paint it", keyboard=False) as screen:
        screen.sees("waiting for you: deaf asks: Which **colour**? (red / blue)")
        screen.sees("deaf waits for you…")
        told = [line for line in screen.stays.splitlines() if "waiting for you" in line]
        assert [line.partition(":")[0] for line in told] == ["waiting for you"], "nothing is glued to it"


def test_an_answer_that_is_none_of_the_options_is_meant_when_it_is_given_twice(terminal: Terminal) -> None:
    who = agent(terminal, "stern", CHOICE, {"say": "I see"})
    with terminal.on_screen("ask", who, "paint it") as screen:
        screen.sees("your answer (1–2): ")
        screen.types("green")
        screen.sees("'green' is not an option; type it again")
        screen.types("green")
        screen.sees("✓ green")
        assert screen.ends() == 0


def test_what_was_typed_before_a_question_was_seen_does_not_answer_it(terminal: Terminal) -> None:
    who = agent(terminal, "hasty", WRITES, {"say": "no?"}, tools=[{"name": "write_file", "approve": True}])
    with terminal.on_screen("ask", who, "write") as screen:
        screen.types("1")  # too early: nothing is asked yet
        screen.sees("your answer (1–4): ")
        assert items(terminal, "approval"), "it still waits"
        screen.types("4 not now")
        assert screen.ends() == 0
    assert not (terminal.daemon.project / "made.txt").exists()


def test_an_approval_holds_once_for_the_run_or_always_for_exactly_this(terminal: Terminal) -> None:
    other = {"call": {"tool": "write_file", "with": {"path": "other.txt", "text": "three"}}}
    gated = [{"name": "write_file", "approve": True}]
    who = agent(terminal, "gated", WRITES, other, {"say": "both"}, WRITES, {"say": "again"}, tools=gated)
    with terminal.on_screen("ask", who, "write") as screen:
        screen.sees("gated wants to use write_file:\n    path: made.txt\n    text:\n    one\n    two\n")
        screen.sees("your answer (1–4): ")
        screen.types("2")
        screen.sees("both")
        assert screen.ends() == 0, "the second call was not asked about"
    assert screen.stays.count("→ write_file") == 2, "each call is shown once, asked about or not"
    with terminal.on_screen("ask", who, "write") as screen:
        screen.sees("your answer (1–4): ")
        screen.types("3")
        assert screen.ends() == 0
    agent(terminal, "gated", WRITES, {"say": "not asked"}, other, {"say": "asked"}, tools=gated)
    assert terminal.says("ask", who, "write") == "not asked\n"
    (allowed,) = terminal.json("inbox", "allowed")
    assert "made.txt" in allowed["what"]
    with terminal.start("ask", who, "write the other", "--wait") as asking:
        assert eventually(lambda: items(terminal, "approval")), "another call is another matter"
        terminal.says("inbox", "approve", str(items(terminal, "approval")[0]["number"]))
        assert asking.communicate(timeout=PATIENCE)[0] == "asked\n"
    assert "you will be asked again about" in terminal.says("inbox", "revoke", allowed["digest"][:8])
    assert terminal.json("inbox", "allowed") == []


def test_in_a_pipe_one_line_names_the_command_that_answers(terminal: Terminal) -> None:
    who = agent(terminal, "piped", CHOICE, {"say": "I see"})
    asking = terminal.start("ask", who, "paint it", "--wait")
    assert asking.stderr
    line = asking.stderr.readline()
    (item,) = items(terminal, "question")
    assert line == (
        "waiting for you: piped asks: Which **colour**? (red / blue)"
        f' → agent-worker inbox answer {item["number"]} "…"\n'
    )
    terminal.says("inbox", "answer", str(item["number"]), "1")
    assert asking.communicate(timeout=PATIENCE)[0] == "I see\n"


def test_where_nobody_can_answer_it_is_said_what_it_waits_for_and_the_work_is_kept(terminal: Terminal) -> None:
    who = agent(terminal, "in-ci", CHOICE, {"say": "I see"})
    asked = terminal.run("ask", who, "paint it")
    (item,) = items(terminal, "question")
    assert (asked.returncode, asked.stdout) == (4, "")
    assert asked.stderr == (
        "waiting for you: in-ci asks: Which **colour**? (red / blue)"
        f' → agent-worker inbox answer {item["number"]} "…"\n'
        "it is kept, and continues after that; to see the result: agent-worker peek in-ci (to wait here: --wait)\n"
    )
    assert terminal.says("peek", who)[6:] == "user paint it (waiting)\n"
    terminal.says("inbox", "answer", str(item["number"]), "red")
    assert eventually(lambda: "I see" in terminal.says("peek", who))
    assert "(waiting)" not in terminal.says("peek", who)


def test_a_team_that_waits_where_nobody_can_answer_is_kept(terminal: Terminal) -> None:
    team = {"ann": {"backend": "mock", "script": [CHOICE, {"say": "I see"}]}, "ben": {"backend": "mock"}}
    name = workflow(terminal, "unattended", {"agents": team, "kickoff": "@ann begin"})
    done = terminal.run("run", name)
    (item,) = items(terminal, "question")
    assert done.returncode == 4
    assert f'→ agent-worker inbox answer {item["number"]} "…"' in done.stderr
    assert "to see the result: agent-worker peek @unattended" in done.stderr
    terminal.says("inbox", "answer", str(item["number"]), "red")
    assert eventually(lambda: "I see" in terminal.says("peek", "@unattended"))


def test_a_vote_that_is_none_of_the_options_is_asked_for_again_with_its_numbers(terminal: Terminal) -> None:
    motion = {"question": "Hash?", "options": ["yes", "no"], "voters": ["user"]}
    script = [{"call": {"tool": "team_proposal_create", "with": motion}}, {"say": "asked"}, {"say": "fine"}]
    workflow(terminal, "hashes", {"agents": {"ann": {"backend": "mock", "script": script}}, "kickoff": "@ann go"})
    with terminal.on_screen("run", "hashes") as screen:
        screen.sees("your answer (1–2): ")
        screen.types("3")
        screen.sees("'3' is not an option; please answer with a number from 1 to 2")
        screen.types("1")
        assert screen.ends() == 0


def test_a_team_that_has_only_your_vote_to_wait_for_is_kept_where_nobody_can_answer(terminal: Terminal) -> None:
    motion = {"question": "Tree?", "options": ["yes", "no"], "voters": ["user"]}
    script = [{"call": {"tool": "team_proposal_create", "with": motion}}, {"say": "asked"}]
    workflow(terminal, "votes", {"agents": {"ann": {"backend": "mock", "script": script}}, "kickoff": "@ann go"})
    done = terminal.run("run", "votes")
    assert done.returncode == 4, done.stdout
    assert re.search(r"waiting for you: .*Tree\?.* → agent-worker inbox answer \d+", done.stderr)
    (item,) = items(terminal, "vote")
    terminal.says("inbox", "answer", str(item["number"]), "yes")
    assert eventually(lambda: terminal.json("ls", "@votes")["state"] == "stopped"), "it ends once that is settled"


def test_a_question_that_is_answered_elsewhere_is_not_asked_any_longer(terminal: Terminal) -> None:
    who = agent(terminal, "patient", CHOICE, {"say": "I see"})
    with terminal.on_screen("ask", who, "paint it") as screen:
        screen.sees("your answer (1–2): ")
        terminal.says("inbox", "answer", str(items(terminal, "question")[0]["number"]), "red")
        screen.sees("answered elsewhere")
        assert screen.ends() == 0


def test_ctrl_c_says_what_goes_on(terminal: Terminal) -> None:
    who = agent(terminal, "busy", {"say": "at last", "slow": "30s"})
    with terminal.on_screen("ask", who, "hello") as screen:
        screen.sees("busy is thinking")
        screen.interrupts()
        assert screen.ends() == 130
    assert "busy carries on; its answer will be in: agent-worker peek busy" in screen.shown
    (cancel,) = [line for line in screen.shown.splitlines() if "agent-worker cancel" in line]
    assert "cancelled" in terminal.says("cancel", cancel.split()[-1])


def test_asking_ends_when_the_agent_is_stopped(terminal: Terminal) -> None:
    who = agent(terminal, "halted", CHOICE)
    asking = terminal.start("ask", who, "hello", "--wait")
    assert eventually(lambda: items(terminal, "question"))
    terminal.says("stop", who)
    out, err = asking.communicate(timeout=PATIENCE)
    assert (asking.returncode, out) == (1, "")
    assert "halted is no longer working: stopped by a person; your question is kept" in err
    assert "hint: agent-worker agent start halted" in err
    assert "halted is" in terminal.says("agent", "start", who)


def test_what_comes_through_a_pipe_is_added_to_the_message(terminal: Terminal) -> None:
    terminal.says("ask", "alice", "summarise", stdin="line one\nline two\n")
    terminal.says("ask", "alice", "hello", stdin="")
    asked = [json.loads(line) for line in terminal.says("peek", "alice", "--json").splitlines()]
    assert [line["text"] for line in asked if line["sender"] == "user"] == [
        "summarise\n\nline one\nline two\n",
        "hello",
    ]


# --- serve --------------------------------------------------------------------------------------------


def test_serve_says_that_the_work_waits_for_the_person(terminal: Terminal) -> None:
    who = agent(terminal, "served", CHOICE, {"say": "I see"})
    told = terminal.daemon.do("POST", "/serve", agent=who, message="paint it")
    assert (told["state"], told["content"]) == ("waiting", "")
    assert told["waits_for"] == [item["id"] for item in items(terminal, "question") if item["agent"] == who]
    team = workflow(terminal, "waits", {"agents": {"w": {"backend": "mock", "script": [CHOICE]}}, "kickoff": "@w go"})
    told = terminal.daemon.do("POST", "/serve", workflow=team)
    assert told["state"] == "waiting"
    assert terminal.json("status", "@waits")["state"] == "running", "the team is not stopped: it waits"
    for waiting in items(terminal, "question"):
        terminal.says("inbox", "dismiss", waiting["id"])


# --- run and start ------------------------------------------------------------------------------------


def test_a_question_of_a_team_is_answered_where_the_team_is_run(terminal: Terminal) -> None:
    team = {"ann": {"backend": "mock", "script": [CHOICE, {"say": "blue it is"}]}}
    name = workflow(terminal, "asks", {"agents": team, "kickoff": "@ann paint"})
    with terminal.on_screen("run", name) as screen:
        screen.sees("ann asks: Which colour?")
        screen.sees("your answer (1–2): ")
        screen.types("blue")
        screen.sees("blue it is")
        assert screen.ends() == 0


def test_ctrl_c_says_what_stopped(terminal: Terminal) -> None:
    slow = {"ann": {"backend": "mock", "script": [{"say": "at last", "slow": "30s"}]}}
    name = workflow(terminal, "long", {"agents": slow, "kickoff": "@ann go"})
    with terminal.on_screen("run", name) as screen:
        screen.sees("ann is thinking… 1 s")
        screen.interrupts()
        assert screen.ends() == 130
    assert "long was stopped: nobody is working there now" in screen.shown
    assert terminal.json("status", "@long")["state"] == "stopped"


TALK = [{"say": f"@{who} go on"} for who in ("ben", "ann") for _ in range(8)]
LOOP = {
    "agents": {"ann": {"backend": "mock", "script": TALK[:8]}, "ben": {"backend": "mock", "script": TALK[8:]}},
    "limits": {"turns": 4},
    "kickoff": "@ann go",
}
REACHED = "limit reached: one request has led to 4 runs"


def test_a_limit_is_lifted_or_kept_where_the_team_is_run(terminal: Terminal) -> None:
    name = workflow(terminal, "loop", LOOP)
    with terminal.on_screen("run", name) as screen:
        screen.sees("your answer (1–2): ")
        screen.types("1")
        screen.sees("✓ go on, with a new allowance")
        screen.sees("[1] go on, with a new allowance", times=2)
        screen.sees("[2] leave it paused\nyour answer", times=2)
        assert screen.shown.count(REACHED) == 2, "each time once"
        screen.types("2")
        assert screen.ends() == 3
    assert "agent-worker resume @loop" in screen.shown
    assert terminal.json("status", "@loop")["state"] == "paused"
    terminal.says("stop", "@loop")
    assert items(terminal, "limit") == [], "that is settled"


def test_a_run_that_meets_a_limit_is_kept_and_goes_on_when_it_is_told_to(terminal: Terminal) -> None:
    done = terminal.run("run", workflow(terminal, "kept", LOOP))
    assert done.returncode == 3
    assert (done.stdout + done.stderr).count(REACHED) == 1
    assert "agent-worker resume @kept" in done.stderr
    assert "is running" in terminal.says("resume", "@kept")
    assert eventually(lambda: terminal.json("status", "@kept")["state"] == "paused"), "it met the limit again"
    (item,) = items(terminal, "limit")
    assert "new allowance" in terminal.says("inbox", "retry", str(item["number"]))
    assert eventually(lambda: terminal.json("status", "@kept")["state"] == "paused")
    terminal.says("stop", "@kept")


ENDLESS = ({"call": {"tool": "todo_list", "with": {}}}, {"again": True})


@pytest.mark.parametrize("command", ["ask", "run", "serve"])
def test_whatever_meets_a_limit_ends_with_the_same_code(terminal: Terminal, command: str) -> None:
    who = agent(terminal, "endless", *ENDLESS, max_steps=2)
    assert terminal.run(command, who, "hello").returncode == 3
    assert terminal.run(command, agent(terminal, "curious", CHOICE, {"say": "ah"}), "hello").returncode == 4
    assert terminal.run(command, agent(terminal, "frail", {"fail": "permanent"}), "hello").returncode == 1


def test_that_a_member_failed_is_shown_once(terminal: Terminal) -> None:
    team = {"ann": {"backend": "mock", "script": [{"fail": "permanent"}]}}
    done = terminal.run("run", workflow(terminal, "weak", {"agents": team, "kickoff": "@ann begin"}))
    assert done.returncode == 1
    assert done.stdout.count("a failure (permanent), as the script says") == 1, done.stdout


def test_explain_says_why_a_run_failed(terminal: Terminal) -> None:
    who = agent(terminal, "frail", {"fail": "permanent"})
    told = terminal.run("ask", who, "hello").stderr
    (hint,) = [line for line in told.splitlines() if "hint: agent-worker explain" in line]
    assert "a failure (permanent), as the script says" in terminal.says("explain", hint.split()[-1])


def test_who_waits_for_what_is_cancelled_is_told_so(terminal: Terminal) -> None:
    asking = terminal.start("ask", agent(terminal, "idler", CHOICE), "hello", "--wait")
    assert eventually(lambda: items(terminal, "question"))
    (work,) = terminal.json("agent", "info", "idler")["queue"]
    terminal.says("cancel", work["id"])
    _, err = asking.communicate(timeout=PATIENCE)
    assert asking.returncode == 1
    assert "failed: it was cancelled: a person no longer wants it" in err


def test_who_waits_for_an_agent_that_is_deleted_is_not_sent_to_what_is_gone_with_it(terminal: Terminal) -> None:
    who = agent(terminal, "leaver", {"say": "at last", "slow": "60s"})
    with terminal.start("ask", who, "hello") as asking:
        assert eventually(lambda: any(one["state"] == "running" for one in terminal.json("agent", "list")))
        terminal.says("agent", "delete", who, "--yes")
        told = asking.communicate(timeout=PATIENCE)[1]
    assert told == "failed: it was cancelled: its agent was deleted\n  hint: agent-worker agent list\n"


def test_whoever_talks_to_an_agent_whose_file_is_broken_now_is_told_that_it_is_as_before(terminal: Terminal) -> None:
    who = agent(terminal, "edited", {"say": "as before"}, {"again": True})
    assert terminal.run("ask", who, "hello").stderr == ""
    file = terminal.daemon.project / ".agents" / "edited.yaml"
    file.write_text(f"{file.read_text()}\nbackend: mock\n")
    note = "edited works as before the mistake in its file: .agents/edited.yaml:"
    for command in ("ask", "send"):
        done = terminal.run(command, who, "hello")
        assert done.returncode == 0
        assert note in done.stderr
    file.unlink()


def test_a_wrong_answer_is_hinted_at_with_the_number_that_was_typed(terminal: Terminal) -> None:
    terminal.run("ask", agent(terminal, "painter", CHOICE, {"say": "ah"}), "hello")
    (item,) = items(terminal, "question")
    n = str(item["number"])
    hint = f"hint: agent-worker inbox answer {n} 1 (options: 1 red, 2 blue; your own words: --other)"
    assert hint in terminal.run("inbox", "answer", n, "green").stderr
    wrong = terminal.run("inbox", "approve", n).stderr
    assert f"hint: agent-worker inbox answer {n}; or agent-worker inbox dismiss {n}\n" in wrong
    terminal.says("inbox", "answer", n, "1")


def test_a_workflow_that_meets_a_limit_ends_with_that_code_where_it_is_served(terminal: Terminal) -> None:
    assert terminal.run("serve", workflow(terminal, "served", LOOP)).returncode == 3
    terminal.says("stop", "@served")


def test_a_paused_workflow_is_said_to_be_paused_to_whoever_runs_it(terminal: Terminal) -> None:
    name = workflow(terminal, "resting", LOOP)
    terminal.run("run", name)
    for command in ("run", "start"):
        told = terminal.run(command, name).stderr
        assert 'workflow "resting" is paused: limit reached' in told
        assert "hint: to go on: agent-worker resume @resting" in told
    terminal.says("stop", "@resting")


def test_whoever_is_called_on_in_run_or_start_and_is_not_there_is_named(terminal: Terminal) -> None:
    team = {"ann": {"backend": "mock"}, "ben": {"backend": "mock"}}
    name = workflow(terminal, "pair", {"agents": team, "kickoff": "@ann begin"})
    told = "nobody here is called zoe; the members are: @ann, @ben\n"
    assert terminal.run("run", name, "@zoe and you").stderr == told
    assert terminal.run("start", name, "@zoe and you", "--background").stderr == told
    assert terminal.run("run", name, "--tag", "other", "@ben and you").stderr == ""
    terminal.says("stop", "@pair")


def test_where_workflows_define_their_own_agents_ls_lists_them_alone(terminal: Terminal) -> None:
    for file in (terminal.daemon.project / ".agents").glob("*.yaml"):
        file.unlink()
    (terminal.daemon.project / ".workflows" / "review.yaml").unlink()
    assert terminal.says("ls").splitlines()[:1] == ["no agents yet: agent-worker init"]  # hosts that share come after
    workflow(terminal, "pair", {"agents": {"ann": {"backend": "mock"}}, "kickoff": "@ann begin"})
    for command in ("ls", "status"):
        assert "no agents yet" not in terminal.says(command)
        assert "agent-worker run pair" in terminal.says(command)


# --- chat ---------------------------------------------------------------------------------------------


def test_one_talks_with_an_agent_line_by_line(terminal: Terminal) -> None:
    who = agent(terminal, "chatty", {"say": "good morning"}, CHOICE, {"say": "blue, then"})
    terminal.says("ask", who, "hello there")
    with terminal.on_screen("chat", who) as screen:
        screen.sees("hello there")
        screen.sees("good morning")
        screen.sees("you: ")
        screen.types("/nothing")
        screen.sees("there is no /nothing")
        screen.types("/help")
        screen.sees("/quit leaves")
        screen.types("paint it")
        screen.sees("your answer (1–2): ")
        screen.types("2")
        screen.sees("blue, then")
        screen.types("/quit")
        assert screen.ends() == 0


def test_one_talks_with_a_team_and_is_told_when_nobody_was_called(terminal: Terminal) -> None:
    team = {"ann": {"backend": "mock", "script": [{"say": "here I am"}]}, "ben": {"backend": "mock"}}
    name = workflow(terminal, "room", {"agents": team})
    with terminal.on_screen("start", name) as screen:
        screen.sees("talking in @room")
        screen.types("anybody here?")
        screen.sees("nobody was called on")
        screen.sees("@ann and @ben are here")
        screen.types("@ann and you?")
        screen.sees("ann here I am")
        screen.interrupts()
        assert screen.ends() == 0
    assert "room carries on" in screen.shown
    sent = terminal.run("send", "@room", "is nobody there?")
    assert "nobody was called on; @ann and @ben are here" in sent.stderr
    terminal.says("stop", "@room")


def test_without_an_address_one_talks_with_whom_there_is_and_else_is_asked_who(terminal: Terminal) -> None:
    which = terminal.run("chat")
    assert which.stderr == "error: which one? there are alice, bob\n  hint: agent-worker chat alice\n"
    (terminal.daemon.project / ".agents" / "bob.yaml").unlink()
    with terminal.on_screen("chat") as screen:
        screen.sees("you: ")
        screen.types("hello")
        screen.sees("I have looked at this: hello")
        screen.types("/quit")
        assert screen.ends() == 0


def test_chat_needs_a_terminal(terminal: Terminal) -> None:
    done = terminal.run("chat", "alice")
    assert done.returncode == 2
    assert "agent-worker ask alice" in done.stderr


def test_a_team_that_nobody_works_in_is_not_talked_with(terminal: Terminal) -> None:
    """What one types there would be lost."""
    quiet = {"agents": {"only": {"backend": "mock", "script": [{"say": "done"}]}}, "kickoff": "@only begin"}
    name = workflow(terminal, "over", quiet)
    terminal.says("run", name)
    with terminal.on_screen("chat", f"@{name}") as screen:
        screen.sees("error: @over is not running")
        screen.sees("hint: agent-worker start over (what was said: agent-worker peek @over)")
        assert screen.ends() == 2
    told = terminal.run("stop", f"@{name}")
    assert told.stderr == "error: @over is not running: there is nothing to stop\n  hint: agent-worker ls\n"


def test_a_vote_of_members_is_told_to_people_without_what_members_type(terminal: Terminal) -> None:
    asks = {"tool": "team_proposal_create", "with": {"question": "Tea?", "options": ["yes", "no"], "voters": ["judge"]}}
    member = {"backend": "mock", "script": [{"call": asks}, {"say": "it is put to the vote"}]}
    voter = {"backend": "mock", "script": [{"say": "let me think"}]}
    name = workflow(terminal, "tea", {"agents": {"host": member, "judge": voter}, "kickoff": "@host begin"})
    terminal.says("start", name)
    assert eventually(lambda: "[PROPOSAL] 1: Tea?" in terminal.says("peek", f"@{name}"))
    seen = terminal.shows("peek", f"@{name}", columns=60)
    assert "Voters: judge" in " ".join(seen.split())
    assert "team_vote" not in seen


def test_a_long_text_is_told_to_people_with_the_command_that_prints_it(terminal: Terminal) -> None:
    member = {"backend": "mock", "script": [{"say": f"{'a long story. ' * 400}The end."}]}
    name = workflow(terminal, "tale", {"agents": {"host": member}, "kickoff": "@host begin"})
    ran = terminal.says("run", name, "--tag", "one")
    (command,) = set(re.findall(r"agent-worker (resource read @tale:one [0-9a-f]{12})\b", ran))
    assert "resource_read" not in ran
    assert terminal.says(*command.split()).endswith("The end.\n")
    terminal.says("start", f"{name}:two", "--background")
    assert eventually(lambda: "agent-worker resource read @tale:two " in terminal.says("peek", f"@{name}:two"))
    assert "resource_read" not in terminal.says("peek", f"@{name}:two")


def test_what_is_not_answered_yet_is_shown_on_a_terminal_too(terminal: Terminal) -> None:
    who = agent(terminal, "later", {"say": "never"})
    terminal.says("pause", who)
    terminal.says("send", who, "are you there?")
    assert "user are you there? (queued)" in terminal.shows("peek", who, columns=60)
    terminal.says("stop", who)


def test_work_that_a_daemon_leaves_behind_is_said_to_go_on(tmp_path: Path) -> None:
    with served(tmp_path) as daemon:
        terminal = Terminal(daemon)
        who = agent(terminal, "slow", {"say": "at last", "slow": "60s"})
        with terminal.on_screen("ask", who, "hello") as screen:
            screen.sees("slow is thinking")
            kill_daemon(daemon.home, daemon.client.found)
            screen.sees("ended before it had answered")
            assert screen.ends() == 2
        told = "it is kept, and continues once the daemon runs again; this starts it: agent-worker peek slow"
        assert told in " ".join(screen.stays.split())
