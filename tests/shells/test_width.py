"""On a terminal of any width words are kept whole, and what does not fit stands beneath its beginning."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest
from tests.shells.served import served
from tests.shells.terminal import Terminal

from agent_worker.cli.console import Console
from agent_worker.cli.output import waits
from agent_worker.cli.prose import wrapped
from agent_worker.cli.table import table_lines
from agent_worker.cli.wrapping import cells, hanging

LONG = "Look at everything that was changed since yesterday, tell what could break, and say who should mend it by when."
COMMANDS = (
    "ls",
    "status",
    "runs",
    "explain",
    "agent info alice",
    "settings",
    "providers",
    "inbox",
    "doctor",
    "peek @review",
    "doc read @review plan.md",
)


@pytest.fixture(scope="module")
def terminal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Terminal]:
    with served(tmp_path_factory.mktemp("width")) as daemon:
        terminal = Terminal(daemon)
        written = {"backend": "mock", "prompt": {"system": LONG}}
        (daemon.project / ".agents" / "alice.yaml").write_text(json.dumps(written))
        terminal.says("start", "review")
        terminal.says("ask", "alice", LONG)
        terminal.says("doc", "write", "@review", "plan.md", f"# Plan\n\n- {LONG}\n")
        terminal.says("proposal", "create", "@review", LONG, "--option", "yes", "--option", "no", "--voter", "user")
        yield terminal


@pytest.mark.parametrize("columns", [60, 120])
def test_no_line_is_too_wide_and_no_word_is_cut(terminal: Terminal, columns: int) -> None:
    for command in COMMANDS:
        seen = terminal.shows(*command.split(), columns=columns)
        wide = [line for line in seen.splitlines() if cells(line) > columns and not _is_left_whole(line)]
        assert wide == [], f"{command}\n{seen}"
        if command not in ("ls", "status", "runs"):  # whose times go on
            there = set(re.findall(r"[\w-]{4,}", terminal.run(*command.split()).stdout))
            assert set(re.findall(r"[\w-]{4,}", seen)) <= there, command


def _is_left_whole(line: str) -> bool:
    """A path or a command that is copied as it stands."""
    words = line.split()
    return words[0] == "agent-worker" or cells(words[-1]) > 40


def test_what_is_said_about_something_stays_beside_it() -> None:
    said = "  watch it:    every message as it comes, and who is at work, until you press Ctrl-C"
    assert hanging(said, 40) == [
        "  watch it:    every message as it",
        "               comes, and who is at",
        "               work, until you press",
        "               Ctrl-C",
    ]
    assert hanging("error: there is no agent alice in this project", 30) == [
        "error: there is no agent alice",
        "  in this project",
    ]


def test_a_command_and_a_word_that_no_line_holds_are_left_to_the_terminal() -> None:
    command = "  hint: agent-worker inbox answer 12 'use the one that we have'"
    assert hanging(command, 30) == [command]
    path = f"  the channel  /{'x' * 60}"
    assert hanging(path, 40) == [path]
    listed = "agent-worker agent list (agents here: alice, bob and carol)"
    assert all(cells(line) <= 40 for line in hanging(listed, 40))


def test_colours_take_no_room() -> None:
    assert hanging("\x1b[36malice\x1b[0m is here", 13) == ["\x1b[36malice\x1b[0m is here"]


def test_a_column_in_which_nothing_stands_is_left_out_and_wide_characters_are_aligned() -> None:
    rows = [("日本", "", "a"), ("x", "", "b")]
    assert table_lines(("name", "label", "what"), rows, 40) == ["name  what", "日本  a", "x     b"]


def test_a_title_stands_only_above_what_fits() -> None:
    rows = [("openai", "api.openai.com"), ("ollama", "127.0.0.1")]
    assert table_lines(("provider", "host"), rows, 20) == [
        "provider  host",
        "openai",
        "    host:",
        "    api.openai.com",
        "ollama    127.0.0.1",
    ]


def test_a_command_within_a_sentence_stays_in_one_line() -> None:
    command = "agent-worker inbox approve 4"
    for columns in (40, 60, 120):
        lines = hanging(
            f"alice carries on as soon as you have allowed what she asked for: {command} (or deny)", columns
        )
        assert sum(command in line for line in lines) == 1, lines
        assert all(cells(line) <= columns for line in lines)
    row = ["alice", f"the key that it needs is not set in this place: {command} (since 13:11)"]
    assert sum(command in line for line in table_lines(("agent", ""), [row], 50)) == 1
    told = wrapped(f"its answer will be there when you look for it: {command}", 50)
    assert told[-1] == command


def test_a_command_that_no_line_can_hold_is_broken_between_its_words() -> None:
    lines = hanging(f"to see all of it: agent-worker peek {'very-' * 9}long --follow --count 100", 60)
    assert len(lines) > 1
    assert all("\ue000" not in line for line in lines)


def test_of_a_long_question_the_command_that_answers_it_is_seen_on_a_narrow_terminal() -> None:
    asked = {"since": 0, "until": None, "command": "agent-worker inbox approve 7 (or deny)"}
    row = ("gus", "waits for you", "mock", "0", "0.00 USD", "UX", waits(f"gus asks: {LONG}", asked))
    titles = ("agent", "state", "backend", "queued", "today", "label", "")
    heading, *lines = table_lines(titles, [row], 40)
    assert cells(heading) <= 40
    assert any("agent-worker inbox approve 7" in line for line in lines), lines


def test_no_title_is_wider_than_the_terminal() -> None:
    lines = table_lines(("workflow", "state", "messages", "members"), [("@t", "waits for you", "1", "gus")], 40)
    assert lines == ["workflow  state          messages", "@t        waits for you  1", "    members: gus"]


def test_what_is_told_while_something_is_followed_is_wrapped_beneath_its_beginning(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "61")
    console = Console()
    console.is_live = True
    console.tell(LONG)
    first, *more = capsys.readouterr().out.splitlines()
    assert more, first
    assert all(line.startswith("  ") for line in more)
