"""Work that takes longer than a call of MCP may: tickets, progress, questions to the person, prompts, data."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.shared.exceptions import MCPError
from mcp_types import ElicitRequestParams, ElicitResult
from tests.shells.mcp_door import ADMIN, Door, Waiting, opened, text_of
from tests.shells.served import daemon_command, kill_daemon, served

from agent_worker.backends.mock import calls, says
from agent_worker.client.connection import connect

ERAS = ["auto", "legacy"]
WORKFLOW = """\
params:
  - name: change
    required: true
agents: { alice: { ref: alice }, bob: { ref: bob } }
kickoff: "@alice ${{ params.change }}"
workspace: { provider: sqlite }
"""


@pytest.fixture
async def door(tmp_path: Path) -> AsyncIterator[Door]:
    (tmp_path / ".workflows").mkdir()
    (tmp_path / ".workflows" / "check.yaml").write_text(WORKFLOW)
    async with opened(tmp_path) as made:
        yield made


def root(door: Door) -> str:
    return str(door.team.loaded.project.root)


async def ask(client: Client, tool: str, **arguments: object) -> dict[str, Any]:
    """The data of an answer, which the client has compared with the schema of the tool."""
    answer = await client.call_tool(tool, arguments)
    assert not answer.is_error, text_of(answer)
    data: dict[str, Any] = answer.structured_content
    return data


async def until_over(client: Client, ticket: dict[str, Any]) -> dict[str, Any]:
    while ticket["state"] == "working":
        ticket = await ask(client, "work_wait", id=ticket["id"], seconds=20)
    return ticket


def at_work(door: Door, name: str) -> Waiting:
    model = Waiting("at last")
    door.team.employ(name, model)
    return model


@pytest.mark.parametrize("era", ERAS)
async def test_a_late_answer_carries_an_id_by_which_it_is_waited_for(door: Door, era: str) -> None:
    model = at_work(door, "alice")
    async with door.client(ADMIN, mode=era) as client:
        asked = await ask(client, "agent_ask", project=root(door), agent="alice", message="hello", seconds=0)
        assert asked["state"] == "working"
        assert "work_wait" in asked["next"]
        assert (await ask(client, "work_wait", id=asked["id"], seconds=0))["state"] == "working"
        model.end.set()
        answered = await until_over(client, asked)
        assert (answered["id"], answered["state"], answered["next"]) == (asked["id"], "done", "")
        explained = await ask(client, "run_explain", run=answered["run"])
        assert explained["run"]["agent"] == "alice"
        # Whoever comes once more is told the same.
        assert (await ask(client, "work_wait", id=asked["id"]))["state"] == "done"


async def test_a_team_is_asked_like_an_agent_and_what_all_said_is_told(door: Door) -> None:
    door.team.backends["alice"].then(says("@bob what do you think?"))
    door.team.backends["bob"].then(says("it is fine"))
    async with door.client(ADMIN) as client:
        at = f"@{door.team.workspace.name}"
        asked = await ask(client, "agent_ask", project=root(door), agent=at, message="@alice is it?")
        answered = await until_over(client, asked)
    assert answered["text"] == "it is fine"
    assert answered["said"] == [
        {"sender": "alice", "text": "@bob what do you think?"},
        {"sender": "bob", "text": "it is fine"},
    ]


async def test_a_workflow_returns_what_its_team_said_and_wrote(door: Door) -> None:
    door.team.backends["alice"].then(calls("team_doc_create", name="report.md", text="all well"), says("@bob look"))
    door.team.backends["bob"].then(says("seen"))
    async with door.client(ADMIN) as client:
        params = {"change": "the last one"}
        ran = await ask(client, "workflow_run", project=root(door), workflow="check", params=params)
        ended = await until_over(client, ran)
        assert (ended["state"], ended["text"]) == ("done", "seen")
        assert [each["sender"] for each in ended["said"]] == ["alice", "bob"]
        assert ended["documents"] == ["report.md"]
        where = {"project": root(door), "at": ended["at"]}
        assert "report.md" in (await ask(client, "doc_list", **where))["result"]
        assert (await ask(client, "doc_read", name="report.md", **where))["text"] == "all well"


async def test_a_workflow_that_was_stopped_says_so_to_whoever_waits_for_it(door: Door) -> None:
    at_work(door, "alice")
    async with door.client(ADMIN) as client:
        params = {"change": "x"}
        ran = await ask(client, "workflow_run", project=root(door), workflow="check", params=params, seconds=0)
        await door.service.stop(await door.service.instance(door.team.loaded, ran["at"]))
        assert (await until_over(client, ran))["state"] == "stopped"


async def test_agents_are_called_together_for_one_question(door: Door) -> None:
    door.team.backends["bob"].then(says("@alice your turn"))
    door.team.backends["alice"].then(says("done by both"))
    async with door.client(ADMIN) as client:
        team = await ask(client, "team_start", project=root(door), agents=["bob", "alice"], message="go")
        ended = await until_over(client, team)
        assert [each["sender"] for each in ended["said"]] == ["bob", "alice"]
        assert ended["woke"] == ["bob"], "whom the question called on, and not whom those called on"
        for wrong in ([], ["bob", "nobody"]):
            refused = await client.call_tool("team_start", {"project": root(door), "agents": wrong, "message": "go"})
            assert refused.is_error


@pytest.mark.parametrize("era", ERAS)
async def test_whoever_asks_for_progress_is_told_what_happens(door: Door, era: str) -> None:
    model = at_work(door, "alice")
    heard: list[str | None] = []

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        heard.append(message)
        if message == "alice is at work":
            model.end.set()

    async with door.client(ADMIN, mode=era) as client:
        given = {"project": root(door), "agent": "alice", "message": "hello"}
        answer = await client.call_tool("agent_ask", given, progress_callback=hear)
        assert (await until_over(client, answer.structured_content))["state"] == "done"
    assert "alice is at work" in heard


async def test_a_question_is_put_to_the_person_by_their_client_and_the_call_goes_on(door: Door) -> None:
    door.team.backends["alice"].then(calls("ask_user", question="Which?", options=["a", "b"]), says("b it is"))
    seen: list[str] = []

    async def answer(context: object, asked: ElicitRequestParams) -> ElicitResult:
        seen.append(asked.message)
        return ElicitResult(action="accept", content={"answer": "b"})

    async with door.client(ADMIN, elicitation_callback=answer) as client:
        given = {"project": root(door), "agent": "alice", "message": "choose"}
        answered = await client.call_tool("agent_ask", given)
        assert (await until_over(client, answered.structured_content))["state"] == "done"
    assert "Which?" in seen[0]
    (item,) = await door.team.asked(kind="question")
    assert (item["state"], item["answer"]) == ("answered", "b")


async def test_a_client_that_cannot_ask_is_told_what_waits(door: Door) -> None:
    door.team.backends["alice"].then(calls("ask_user", question="Which?"), says("good"))
    async with door.client(ADMIN) as client:
        waiting = await ask(client, "agent_ask", project=root(door), agent="alice", message="choose")
        waiting = await until_over(client, waiting)
        assert waiting["state"] == "waiting"
        (item,) = waiting["waits_for"]
        assert item["question"] == "Which?"
        assert (await ask(client, "work_wait", id=waiting["id"]))["state"] == "waiting"
        await ask(client, "inbox_answer", item=item["id"], action="answer", text="that one")
        ended = await ask(client, "work_wait", id=waiting["id"])
        while ended["state"] in ("working", "waiting"):
            ended = await ask(client, "work_wait", id=waiting["id"])
        assert ended["state"] == "done"


@pytest.mark.parametrize("era", ERAS)
async def test_workflows_are_prompts_with_their_parameters(door: Door, era: str) -> None:
    async with door.client(ADMIN, mode=era) as client:
        prompts = {each.name: each for each in (await client.list_prompts()).prompts}
        arguments = {each.name: each.required for each in prompts["check"].arguments or []}
        assert arguments == {"change": True, "message": False}
        got = await client.get_prompt("check", {"change": "the last one"})
        text = str(got.messages[0].content.text)  # type: ignore[union-attr]
        assert "workflow_run" in text
        assert json.dumps({"change": "the last one"}) in text
        with pytest.raises(MCPError, match="no workflow nothing"):
            await client.get_prompt("nothing", {})
        with pytest.raises(MCPError, match="no parameter colour"):
            await client.get_prompt("check", {"colour": "red"})


async def test_every_tool_of_the_person_says_what_its_data_looks_like(door: Door) -> None:
    async with door.client(ADMIN) as client:
        for tool in (await client.list_tools()).tools:
            assert (tool.output_schema or {}).get("type") == "object", tool.name
        for tool_name in ("agents_list", "inbox_list"):
            assert isinstance((await ask(client, tool_name, project=root(door)))["result"], list)


async def test_an_answer_that_is_too_long_is_cut_and_still_what_was_promised(door: Door) -> None:
    door.team.backends["alice"].then(says("x" * 100_000))
    async with door.client(ADMIN) as client:
        answered = await until_over(
            client, await ask(client, "agent_ask", project=root(door), agent="alice", message="say much")
        )
    assert len(answered["text"]) < 60_000
    assert "more characters]" in answered["text"]


@pytest.mark.parametrize("id", ["nothing", "i_0", "w_00000000000000000000000000", "x" * 5000])
async def test_a_ticket_that_there_is_not_is_refused_with_a_sentence(door: Door, id: str) -> None:
    async with door.client(ADMIN) as client:
        refused = await client.call_tool("work_wait", {"id": id})
        assert refused.is_error
        assert "there is no work" in text_of(refused)


async def test_M1_the_token_of_a_run_waits_for_nobodys_work(door: Door) -> None:
    """An agent at work has the tools of its run: tickets and prompts are the person's."""
    from tests.shells.test_mcp import at_work as run_of

    asked = await door.team.dm("bob", "hello")
    async with run_of(door) as token, door.client(token) as client:
        refused = await client.call_tool("work_wait", {"id": asked.id})
        assert refused.is_error
        assert "there is no tool" in text_of(refused)
        assert (await client.list_prompts()).prompts == []
        with pytest.raises(MCPError):
            await client.get_prompt("check", {})


async def test_a_ticket_outlives_the_daemon_and_the_bridge_finds_the_next_one(tmp_path: Path) -> None:
    """A person's AI goes on with the same bridge when the daemon was killed and started again."""
    script = "script: [{ call: { tool: ask_user, with: { question: Which? } } }, { say: that one it is }]\n"
    with served(tmp_path, alice=script) as daemon:
        daemon.ask("POST", "/mcp")
        env = {"AGENT_WORKER_HOME": str(daemon.home), "PATH": "/usr/bin:/bin"}
        bridge = StdioServerParameters(
            command=sys.executable, args=["-m", "agent_worker.cli", "mcp"], env=env, cwd=daemon.project
        )
        async with Client(stdio_client(bridge)) as client:
            waiting = await until_over(client, await ask(client, "agent_ask", agent="alice", message="choose"))
            assert waiting["state"] == "waiting"
            await asyncio.to_thread(kill_daemon, daemon.home, daemon.client.found)
            await asyncio.to_thread(connect, home=daemon.home, command=daemon_command())
            (item,) = waiting["waits_for"]
            await ask(client, "inbox_answer", item=item["id"], action="answer", text="b")
            ended = await ask(client, "work_wait", id=waiting["id"])
            while ended["state"] in ("working", "waiting"):
                ended = await ask(client, "work_wait", id=waiting["id"])
            assert ended["text"] == "that one it is"
