"""Agents and teams in an editor: ACP's own library on the other side of our door, with the real daemon behind it."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from acp import RequestError
from acp.helpers import embedded_text_resource, image_block, resource_block, resource_link_block, text_block
from tests.doors.editors import opened
from tests.patience import PATIENCE, eventually, until
from tests.shells.served import Served, daemon_command, kill_daemon, served

from agent_worker.client.connection import connect

pytestmark = pytest.mark.anyio

ASKS = """backend: mock
script:
  - call: [{ tool: ask_user, with: { question: which colour?, options: [red, blue] } }]
  - say: so be it
"""
WONDERS = """backend: mock
script:
  - call: [{ tool: ask_user, with: { question: what is your name? } }]
  - say: nice to meet you
"""
LOOKS = """backend: mock
script:
  - call: [{ tool: todo_add, with: { text: look again } }]
  - say: all is well
"""
CAREFUL = """backend: mock
tools: [{ name: write_file, approve: true }]
script:
  - call: [{ tool: write_file, with: { path: note.txt, text: hi } }]
  - say: it is done
"""
FAILS = "backend: mock\nscript: [{ fail: permanent }]\n"
TEAM = """agents:
  alice: { ref: alice }
  bob: { ref: bob }
  careful: { ref: careful }
  denied: { ref: denied }
  cancelled: { ref: cancelled }
desk: alice
workspace: { provider: sqlite }
"""
NO_DESK = "agents: { alice: { ref: alice }, bob: { ref: bob } }\nworkspace: { provider: sqlite }\n"
#: A script is played once: an agent for each test that plays it.
FILES = {
    **dict.fromkeys(("asks", "chooses"), ASKS),
    **dict.fromkeys(("careful", "denied", "elsewhere", "cancelled"), CAREFUL),
    "wonders": WONDERS,
    "looks": LOOKS,
    "fails": FAILS,
}


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("acp")) as made, pytest.MonkeyPatch.context() as patch:
        patch.setenv("AGENT_WORKER_HOME", str(made.home))
        fill(made)
        yield made


def fill(made: Served) -> None:
    (made.project / ".workflows" / "review.yaml").write_text(TEAM)
    (made.project / ".workflows" / "open.yaml").write_text(NO_DESK)
    for name, definition in FILES.items():
        (made.project / ".agents" / f"{name}.yaml").write_text(definition)
    made.do("POST", "/trust")


async def test_an_editor_can_choose_among_agents_and_teams(daemon: Served) -> None:
    async with opened(daemon) as door:
        made = await door.agent.new_session(cwd=str(daemon.project), mcp_servers=[])
        assert made.config_options
        (who,) = made.config_options
        values = [option.value for option in who.options]
        assert {"alice", "bob", "@review"} <= set(values)
        assert made.modes
        assert [mode.id for mode in made.modes.available_modes] == values, "the same, for who knows only modes"
        changed = await door.agent.set_config_option(config_id="who", session_id=made.session_id, value="@review")
        assert changed
        assert changed.config_options[0].current_value == "@review"
        await door.agent.set_session_mode(session_id=made.session_id, mode_id="bob")
        assert door.editor.of("config_option_update")[-1].config_options[0].current_value == "bob"
        with pytest.raises(RequestError, match="there is no carol here"):
            await door.agent.set_session_mode(session_id=made.session_id, mode_id="carol")


async def test_a_door_for_one_offers_that_one(daemon: Served, tmp_path: Path) -> None:
    daemon = daemon.beside(tmp_path / "project")  # where nobody else has sessions
    fill(daemon)
    async with opened(daemon, "@review") as door:
        made = await door.agent.new_session(cwd=str(daemon.project), mcp_servers=[])
        assert made.config_options
        assert [option.value for option in made.config_options[0].options] == ["@review"]
        await door.prompt(made.session_id, "hello")
        listed = await door.agent.list_sessions(cwd=str(daemon.project))
        assert [each.session_id for each in listed.sessions] == [made.session_id]
    async with opened(daemon, "nobody") as door:
        with pytest.raises(RequestError, match="there is no nobody"):
            await door.agent.new_session(cwd=str(daemon.project), mcp_servers=[])


async def test_an_agent_answers_as_it_writes(daemon: Served) -> None:
    async with opened(daemon) as door:
        session = await door.begin("alice")
        answer = await door.prompt(session, "hello")
        assert answer.stop_reason == "end_turn"
        assert door.editor.said() == "I have looked at this: hello"
        assert answer.usage.total_tokens == answer.usage.input_tokens + answer.usage.output_tokens


async def test_what_was_given_along_is_in_the_message_and_pictures_are_refused(daemon: Served) -> None:
    async with opened(daemon) as door:
        session = await door.begin("alice")
        material = resource_block(embedded_text_resource("file:///notes.md", "the notes"))
        prompt = [text_block("read this:"), material, resource_link_block("a.py", "file:///a.py")]
        await door.agent.prompt(session_id=session, prompt=prompt)
        (line, _) = daemon.client.request("GET", daemon.query(f"/messages?at=@alice:{session}"))[1]
        assert line["text"] == "read this:\n\nfile:///notes.md:\n```\nthe notes\n```\n [a.py](file:///a.py)"
        with pytest.raises(RequestError, match="image is not supported here"):
            await door.agent.prompt(session_id=session, prompt=[image_block("AAAA", "image/png")])


async def test_tools_are_shown_and_todos_are_the_plan(daemon: Served) -> None:
    async with opened(daemon) as door:
        session = await door.begin("looks")
        await door.prompt(session, "look")
        (start,) = door.editor.of("tool_call")
        (end,) = door.editor.of("tool_call_update")
        assert (start.title, start.raw_input, start.tool_call_id) == (
            "todo_add",
            {"text": "look again"},
            end.tool_call_id,
        )
        assert end.status == "completed"
        assert [entry.content for entry in door.editor.of("plan")[-1].entries] == ["look again"]
        assert door.editor.said() == "all is well"


async def test_a_team_says_who_was_called_on_and_who_speaks(daemon: Served) -> None:
    async with opened(daemon) as door:
        session = await door.begin("@review")
        await door.prompt(session, "is it good?")
        assert door.editor.said("agent_thought_chunk") == "called on: alice\n", "the desk, as nobody was named"
        assert door.editor.said() == "**alice:** I have looked at this: is it good?"
        await door.prompt(session, "@bob and you?")
        assert door.editor.said("agent_thought_chunk").endswith("called on: bob\n")
        assert "**bob:** I have looked at this: bob and you?" in door.editor.said()


async def test_a_team_without_a_desk_says_that_nobody_was_called_on(daemon: Served) -> None:
    async with opened(daemon) as door:
        session = await door.begin("@open")
        with pytest.raises(RequestError, match="nobody was called on; @alice and @bob are here"):
            await door.prompt(session, "is it good?")
        assert (await door.prompt(session, "@bob is it good?")).stop_reason == "end_turn"


@pytest.mark.parametrize(("who", "chooses"), [("careful", "once"), ("denied", "deny")])
async def test_an_approval_of_any_member_is_asked_in_the_editor(daemon: Served, who: str, chooses: str) -> None:
    async with opened(daemon) as door:
        door.editor.chooses = chooses
        session = await door.begin("@review")
        answer = await door.prompt(session, f"@{who} go")
        assert answer.stop_reason == "end_turn"
        ((call, offered),) = door.editor.asked
        assert call.title == f"@{who} wants to use write_file"
        assert call.raw_input == {"path": "note.txt", "text": "hi"}
        assert list(offered) == ["once", "run", "always", "deny"]
        assert call.tool_call_id in {each.tool_call_id for each in door.editor.of("tool_call")}, "the call it shows"
        (end,) = door.editor.of("tool_call_update")
        assert end.status == ("completed" if chooses == "once" else "failed")
        assert f"**{who}:** it is done" in door.editor.said()


async def test_an_approval_that_was_given_elsewhere_is_not_waited_for(daemon: Served) -> None:
    async with opened(daemon) as door:
        door.editor.holds.clear()
        session = await door.begin("elsewhere")
        asked = asyncio.create_task(door.prompt(session, "go"))
        await until(lambda: bool(door.editor.asked))
        (item,) = [each for each in items(daemon) if each["kind"] == "approval"]
        daemon.client.request("POST", f"/inbox/{item['id']}", {"action": "approve"})
        assert (await asked).stop_reason == "end_turn"
        assert "it is done" in door.editor.said()
        door.editor.holds.set()


async def test_a_question_is_a_form_where_the_editor_has_forms(daemon: Served) -> None:
    async with opened(daemon, forms=True) as door:
        door.editor.fills = {"answer": "blue"}
        session = await door.begin("asks")
        await door.prompt(session, "go")
        ((message, form),) = door.editor.forms
        assert message == "asks asks: which colour?"
        assert form.requested_schema.properties["answer"].enum == ["red", "blue"]
        assert any("blue" in end.content[0].content.text for end in door.editor.of("tool_call_update"))
        assert "so be it" in door.editor.said()


async def test_a_question_is_a_permission_with_options_where_it_has_none(daemon: Served) -> None:
    async with opened(daemon) as door:
        door.editor.chooses = "option-1"
        session = await door.begin("chooses")
        await door.prompt(session, "go")
        ((call, offered),) = door.editor.asked
        assert call.title == "@chooses: which colour?"
        assert [option.name for option in offered.values()] == ["red", "blue", "Let it decide"]
        assert any("red" in end.content[0].content.text for end in door.editor.of("tool_call_update"))


async def test_the_next_prompt_answers_a_question_that_could_not_be_put_otherwise(daemon: Served) -> None:
    async with opened(daemon) as door:
        session = await door.begin("wonders")
        assert (await door.prompt(session, "hello")).stop_reason == "end_turn"
        assert "**wonders asks:** what is your name?" in door.editor.said()
        await door.prompt(session, "Ann")
        assert any("Ann" in end.content[0].content.text for end in door.editor.of("tool_call_update"))
        assert door.editor.said().endswith("nice to meet you")


async def test_a_prompt_is_cancelled_with_all_that_came_of_it(daemon: Served) -> None:
    async with opened(daemon) as door:
        door.editor.holds.clear()
        session = await door.begin("@review")
        asked = asyncio.create_task(door.prompt(session, "@cancelled go"))
        await until(lambda: bool(door.editor.asked))
        with pytest.raises(RequestError, match="still being answered"):
            await door.prompt(session, "and this?")
        await door.agent.cancel(session_id=session)
        door.editor.holds.set()
        assert (await asked).stop_reason == "cancelled"
        assert eventually(lambda: not daemon.client.request("GET", daemon.query("/instructions"))[1])
        assert not [each for each in items(daemon) if each["agent"] == "cancelled"], "what it asked is withdrawn"
        assert (await door.prompt(session, "@bob go on")).stop_reason == "end_turn"


async def test_work_that_fails_is_an_error_with_its_reason(daemon: Served) -> None:
    async with opened(daemon) as door:
        session = await door.begin("fails")
        with pytest.raises(RequestError, match="agent-worker explain"):
            await door.prompt(session, "go")


async def test_a_session_is_listed_loaded_and_gone_on_with_by_another_editor(daemon: Served) -> None:
    async with opened(daemon) as door:
        session = await door.begin("alice")
        await door.prompt(session, "the first thing")
        await door.agent.close_session(session_id=session)
        with pytest.raises(RequestError, match="there is no session"):
            await door.prompt(session, "closed")
    async with opened(daemon) as door:
        listed = {each.session_id: each for each in (await door.agent.list_sessions(cwd=str(daemon.project))).sessions}
        assert listed[session].title == "alice: the first thing"
        loaded = await door.agent.load_session(cwd=str(daemon.project), session_id=session, mcp_servers=[])
        assert loaded
        assert loaded.config_options
        assert loaded.config_options[0].current_value == "alice"
        assert door.editor.said("user_message_chunk") == "the first thing"
        assert door.editor.said() == "I have looked at this: the first thing\n\n"
        await door.prompt(session, "the second thing")
        lines = daemon.client.request("GET", daemon.query(f"/messages?at=@alice:{session}"))[1]
        said = [line["text"] for line in lines if line["sender"] == "user"]
        assert said == ["the first thing", "the second thing"]
    async with opened(daemon) as door:
        await door.agent.resume_session(cwd=str(daemon.project), session_id=session, mcp_servers=[])
        assert not door.editor.updates, "resumed, it is not told again"
        assert (await door.prompt(session, "the third")).stop_reason == "end_turn"


async def test_conversations_of_elsewhere_are_sessions_too(daemon: Served) -> None:
    daemon.do("POST", "/serve", agent="bob", message="said in a terminal")
    daemon.do("POST", "/workflows", workflow="review", tag="pr-1")
    daemon.do("POST", "/serve", agent="@review:pr-1", message="@bob said there")
    async with opened(daemon) as door:
        listed = [each.session_id for each in (await door.agent.list_sessions(cwd=str(daemon.project))).sessions]
        assert {"bob", "@review:pr-1"} <= set(listed)
        await door.agent.load_session(cwd=str(daemon.project), session_id="bob", mcp_servers=[])
        assert "said in a terminal" in door.editor.said("user_message_chunk")
        await door.prompt("bob", "and in an editor")
        lines = daemon.client.request("GET", daemon.query("/messages?at=bob"))[1]
        assert [line["text"] for line in lines if line["sender"] == "user"][-1] == "and in an editor"
        await door.agent.load_session(cwd=str(daemon.project), session_id="@review:pr-1", mcp_servers=[])
        await door.prompt("@review:pr-1", "@bob go on")
        assert "**bob:** I have looked at this: bob go on" in door.editor.said()
        with pytest.raises(RequestError, match="there is no session @review:pr-2"):
            await door.agent.load_session(cwd=str(daemon.project), session_id="@review:pr-2", mcp_servers=[])


async def test_a_prompt_and_its_session_survive_a_daemon_that_was_killed(tmp_path: Path, patched: Patch) -> None:
    with served(tmp_path) as daemon:
        patched(daemon)
        (daemon.project / ".agents" / "alice.yaml").write_text(ASKS + "  - say: and again\n")
        async with opened(daemon) as door:
            door.editor.holds.clear()
            session = await door.begin("alice")
            asked = asyncio.create_task(door.prompt(session, "go"))
            await until(lambda: bool(door.editor.asked))
            kill_daemon(daemon.home, daemon.client.found)
            connect(home=daemon.home, command=daemon_command(), patience=PATIENCE)
            door.editor.chooses = "option-2"
            door.editor.holds.set()
            assert (await asked).stop_reason == "end_turn"
            assert door.editor.said().endswith("so be it")
            await door.prompt(session, "again")
            assert door.editor.said().endswith("and again")


Patch = Callable[[Served], None]


@pytest.fixture
def patched(monkeypatch: pytest.MonkeyPatch) -> Patch:
    return lambda daemon: monkeypatch.setenv("AGENT_WORKER_HOME", str(daemon.home))


async def test_it_says_how_to_log_in_and_needs_nothing_for_it(daemon: Served) -> None:
    async with opened(daemon) as door:
        greeting = await door.agent.initialize(protocol_version=1)
        assert greeting.auth_methods
        (way,) = greeting.auth_methods
        assert "agent-worker key set" in (way.description or "")
        await door.agent.authenticate(method_id=way.id)
        with pytest.raises(RequestError, match="no login method other"):
            await door.agent.authenticate(method_id="other")


async def test_a_directory_with_nobody_in_it_says_what_to_do(daemon: Served, tmp_path: Path) -> None:
    async with opened(daemon) as door:
        with pytest.raises(RequestError, match="agent-worker init"):
            await door.agent.new_session(cwd=str(tmp_path), mcp_servers=[])
        with pytest.raises(RequestError, match="not a full path"):
            await door.agent.new_session(cwd="project", mcp_servers=[])


def items(daemon: Served) -> list[dict[str, str]]:
    found: list[dict[str, str]] = daemon.client.request("GET", daemon.query("/inbox"))[1]
    return found


def test_the_door_does_not_load_what_runs_agents() -> None:

    code = (
        "import sys, agent_worker.doors.acp.server\n"
        "heavy = {'apsw', 'yaml', 'starlette', 'agent_worker.service', 'agent_worker.compose'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env=dict(os.environ))


def test_the_file_for_the_registry_says_what_is_released() -> None:
    root = Path(__file__).parents[2]
    told = json.loads((root / "agent.json").read_text())
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    assert (told["id"], told["version"]) == (project["name"], project["version"])
    assert told["distribution"]["uvx"] == {"package": f"{project['name']}=={project['version']}", "args": ["acp"]}
    assert told["license"] == project["license"]
