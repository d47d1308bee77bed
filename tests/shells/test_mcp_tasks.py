"""Tasks of MCP: an instruction is one, for clients that know them, through the official client."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import mcp_types as wire
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.shared.exceptions import MCPError
from tests import engine, patience
from tests.shells.mcp_door import ADMIN, Door, Waiting, opened, text_of
from tests.shells.mcp_tasks import EXTENSION, Answered, Cancel, Created, Named, Tasks, Update, look, until
from tests.shells.served import daemon_command, kill_daemon, served
from tests.shells.test_mcp import at_work as run_of

from agent_worker.backends.backend import PastStep, Reply, StepSink, Turn
from agent_worker.backends.mock import MockModel, calls, says
from agent_worker.client.connection import connect
from agent_worker.core.errors import Permanent

WORKFLOW = """\
agents: { carol: { ref: carol } }
kickoff: "@carol go"
workspace: { provider: sqlite }
"""
ASKS = """\
backend: mock
script: [{ call: { tool: ask_user, with: { question: Which? } } }, { say: that one it is }]
"""


@pytest.fixture
async def door(tmp_path: Path) -> AsyncIterator[Door]:
    (tmp_path / ".workflows").mkdir()
    (tmp_path / ".workflows" / "check.yaml").write_text(WORKFLOW)
    (tmp_path / ".agents").mkdir()
    (tmp_path / ".agents" / "carol.yaml").write_text(ASKS)
    async with opened(tmp_path, patience=0.2) as made:
        yield made


def asked(door: Door, **more: object) -> dict[str, Any]:
    return {"project": str(door.team.loaded.project.root), "agent": "alice", "message": "hello", **more}


def at_work(door: Door, name: str = "alice") -> Waiting:
    model = Waiting("at last")
    door.team.employ(name, model)
    return model


def asks_later(door: Door) -> Waiting:
    """A model that works until it is told to, then asks the person, then says what it is."""
    first, then = Waiting(), MockModel(door.team.clock)
    then.then(calls("ask_user", question="Which?", options=["a", "b"]), says("b it is"))

    class Later:
        async def reply(self, turn: Turn, steps: Sequence[PastStep], recorder: StepSink) -> Reply:
            await first.end.wait()
            return await then.reply(turn, steps, recorder)

    door.team.employ("alice", Later())
    return first


async def cannot_be_reached(context: object, asked: object) -> wire.ElicitResult:
    raise AssertionError("answers of a task go by tasks/update")


async def begin(client: Client, tasks: Tasks, tool: str, arguments: dict[str, Any]) -> tuple[asyncio.Task[Any], str]:
    """A call that is being made, and the task it became."""
    calling = asyncio.create_task(client.call_tool(tool, arguments))
    await patience.until(lambda: tasks.seen or calling.done())
    assert tasks.seen, f"no task came of it: {calling.result()}"
    return calling, tasks.seen[0].task_id


async def test_a_call_that_takes_longer_is_a_task_whose_result_is_that_of_the_call(door: Door) -> None:
    model, tasks = at_work(door), Tasks()
    async with door.client(ADMIN, extensions=[tasks]) as client:
        assert EXTENSION in (client.server_capabilities.extensions or {})
        calling, id = await begin(client, tasks, "agent_ask", asked(door))
        working = await look(client, id)
        assert (working.status, working.result, working.ttl_ms) == ("working", None, None)
        model.end.set()
        answered = await calling
        assert not answered.is_error
        assert answered.structured_content["text"] == "at last"
        over = await look(client, id)
    assert (over.status, over.result["structuredContent"]["text"]) == ("completed", "at last")  # type: ignore[index]
    assert datetime.fromisoformat(over.created_at) <= datetime.fromisoformat(over.last_updated_at)


async def test_what_is_answered_at_once_is_no_task(door: Door) -> None:
    tasks = Tasks()
    door.team.backends["alice"].then(says("hello yourself"))
    async with door.client(ADMIN, extensions=[tasks]) as client:
        answered = await client.call_tool("agent_ask", asked(door))
    assert answered.structured_content["state"] == "done"


async def test_whoever_does_not_say_that_it_knows_tasks_is_given_a_ticket(door: Door) -> None:
    model = at_work(door)
    async with door.client(ADMIN) as client:
        ticket = (await client.call_tool("agent_ask", asked(door))).structured_content
        assert ticket["state"] == "working"
        with pytest.raises(MCPError) as refused:
            await look(client, ticket["id"])
        assert refused.value.error.code == wire.MISSING_REQUIRED_CLIENT_CAPABILITY
        assert EXTENSION in refused.value.error.data["requiredCapabilities"]["extensions"]
    model.end.set()


async def test_whoever_says_how_long_to_wait_wants_the_ticket(door: Door) -> None:
    model, tasks = at_work(door), Tasks()
    async with door.client(ADMIN, extensions=[tasks]) as client:
        ticket = (await client.call_tool("agent_ask", asked(door, seconds=0))).structured_content
        assert ticket["state"] == "working"
        waited = (await client.call_tool("work_wait", {"id": ticket["id"]})).structured_content
        assert waited["state"] == "working"
    assert not tasks.seen
    model.end.set()


async def test_a_question_is_input_that_the_task_requires_and_is_answered_by_the_client(door: Door) -> None:
    model, tasks = asks_later(door), Tasks()
    async with door.client(ADMIN, extensions=[tasks], elicitation_callback=cannot_be_reached) as client:
        calling, id = await begin(client, tasks, "agent_ask", asked(door))
        model.end.set()
        task = await until(client, id, "input_required")
        ((item, form),) = (task.input_requests or {}).items()
        assert form["method"] == "elicitation/create"
        assert "Which?" in form["params"]["message"]
        assert form["params"]["requestedSchema"]["properties"]["answer"]["enum"] == ["a", "b"]
        elsewhere = {"nobody asked this": {"action": "accept", "content": {"answer": "x"}}}
        yes = {item: {"action": "accept", "content": {"answer": "b"}}}
        for answers in (elsewhere, yes, yes):  # the last one is late, and passed over
            await client.session.send_request(
                Update(params=Answered(task_id=id, input_responses=answers)), wire.EmptyResult
            )
        answered = await calling
    assert answered.structured_content["text"] == "b it is"
    (kept,) = await door.team.asked(kind="question")
    assert (kept["state"], kept["answer"]) == ("answered", "b")


async def test_a_client_that_cannot_ask_is_told_that_the_person_is_waited_for(door: Door) -> None:
    model, tasks = asks_later(door), Tasks()
    async with door.client(ADMIN, extensions=[tasks]) as client:
        calling, id = await begin(client, tasks, "agent_ask", asked(door))
        model.end.set()
        while "agent-worker inbox" not in ((task := await look(client, id)).status_message or ""):
            pass
        assert (task.status, task.input_requests) == ("working", None)
        (item,) = await door.team.asked(kind="question")
        await client.call_tool("inbox_answer", {"item": item["id"], "action": "answer", "text": "a"})
        assert (await calling).structured_content["text"] == "b it is"


@pytest.mark.parametrize("tool", ["agent_ask", "workflow_run", "team_start"])
async def test_a_task_is_cancelled_and_with_it_all_that_came_of_it(door: Door, tool: str) -> None:
    tasks = Tasks()
    given: dict[str, Any] = {
        "agent_ask": {"agent": "carol", "message": "go"},
        "workflow_run": {"workflow": "check"},
        "team_start": {"agents": ["carol"], "message": "go"},
    }[tool]
    async with door.client(ADMIN, extensions=[tasks]) as client:
        given["project"] = str(door.team.loaded.project.root)
        calling, id = await begin(client, tasks, tool, given)
        await client.session.send_request(Cancel(params=Named(task_id=id)), wire.EmptyResult)
        assert (await until(client, id, "cancelled", "completed")).status == "cancelled"
        await client.session.send_request(Cancel(params=Named(task_id=id)), wire.EmptyResult)  # it is over: heard
        await calling
        stopped = await client.call_tool("work_wait", {"id": id})
    assert stopped.structured_content["state"] == "stopped"


async def test_work_that_failed_is_a_completed_call_with_an_error(door: Door) -> None:
    """As the extension has it: `failed` is for the protocol's own errors."""
    model, tasks = _Fails(), Tasks()
    door.team.employ("alice", model)
    async with door.client(ADMIN, extensions=[tasks]) as client:
        calling, id = await begin(client, tasks, "agent_ask", asked(door))
        model.end.set()
        answered = await calling
        assert answered.is_error
        assert "out of order" in text_of(answered)
        assert (await look(client, id)).status == "completed"


@pytest.mark.parametrize("id", ["nothing", "i", "w_00000000000000000000000000", "x" * 500])
async def test_a_task_that_there_is_not_is_refused_with_a_sentence(door: Door, id: str) -> None:
    model = at_work(door)
    async with door.client(ADMIN, extensions=[Tasks()]) as client:
        await client.call_tool("agent_ask", asked(door, seconds=0))  # whose id begins with an i
        for request in (
            Cancel(params=Named(task_id=id)),
            Update(params=Answered(task_id=id, input_responses={})),
        ):
            with pytest.raises(MCPError, match="there is no") as refused:
                await client.session.send_request(request, wire.EmptyResult)
            assert refused.value.error.code == wire.INVALID_PARAMS
        with pytest.raises(MCPError, match="there is no"):
            await look(client, id)
    model.end.set()


async def test_M1_the_token_of_a_run_looks_at_nobodys_task_and_ends_none(door: Door) -> None:
    work = await door.team.dm("bob", "hello")
    async with run_of(door) as token, door.client(token, extensions=[Tasks()]) as client:
        with pytest.raises(MCPError, match="tasks are for the person"):
            await look(client, work.id)
        with pytest.raises(MCPError, match="tasks are for the person"):
            await client.session.send_request(Cancel(params=Named(task_id=work.id)), wire.EmptyResult)


async def test_a_task_outlives_the_daemon(tmp_path: Path) -> None:
    """The client goes on with the same bridge and the same id when the daemon was killed and started again."""
    script = "script: [{ call: { tool: ask_user, with: { question: Which? } } }, { say: that one it is }]\n"
    with served(tmp_path, alice=script) as daemon:
        daemon.ask("POST", "/mcp")
        env = {"AGENT_WORKER_HOME": str(daemon.home), "PATH": "/usr/bin:/bin"} | engine.environment(daemon.home)
        bridge = StdioServerParameters(
            command=sys.executable, args=["-m", "agent_worker.cli", "mcp"], env=env, cwd=daemon.project
        )
        tasks = Tasks(meanwhile=_killed(daemon))
        async with Client(stdio_client(bridge), extensions=[tasks]) as client:
            calling, id = await begin(client, tasks, "agent_ask", {"agent": "alice", "message": "choose"})
            while not (items := (await client.call_tool("inbox_list", {})).structured_content["result"]):
                pass
            await client.call_tool("inbox_answer", {"item": items[0]["id"], "action": "answer", "text": "b"})
            assert (await calling).structured_content["text"] == "that one it is"
            assert (await look(client, id)).status == "completed"


def _killed(daemon: Any) -> Callable[[Created], Awaitable[None]]:
    async def kill(_: Created) -> None:
        await asyncio.to_thread(kill_daemon, daemon.home, daemon.client.found)
        await asyncio.to_thread(connect, home=daemon.home, command=daemon_command())

    return kill


class _Fails(Waiting):
    async def reply(self, turn: Turn, steps: Sequence[PastStep], recorder: StepSink) -> Reply:
        await self.end.wait()
        raise Permanent("the model is out of order")
