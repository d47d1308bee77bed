"""The MCP door, through the official client in both eras of the protocol, on a real server."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx2
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.shared.exceptions import MCPError
from mcp.shared.subscriptions import ResourceUpdated
from tests import stored
from tests.patience import PATIENCE
from tests.shells.mcp_door import ADMIN, Door, Waiting, opened, text_of

from agent_worker.agents import commands
from agent_worker.backends.mock import says
from agent_worker.core.errors import Fenced
from agent_worker.tools.tool import RunIdentity, ToolContext, tool

ERAS = ["auto", "legacy"]


@pytest.fixture
async def door(tmp_path: Path) -> AsyncIterator[Door]:
    async with opened(tmp_path) as made:
        yield made


@pytest.mark.parametrize("era", ERAS)
async def test_the_persons_ai_talks_with_agents_in_both_eras(door: Door, era: str) -> None:
    root = str(door.team.loaded.project.root)
    async with door.client(ADMIN, mode=era) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert set(tools) == {
            *(
                "agents_list",
                "agent_send",
                "agent_ask",
                "workflow_run",
                "workflow_status",
                "team_start",
                "work_wait",
                "work_stop",
            ),
            *("channel_read", "channel_send", "inbox_list", "inbox_answer", "doc_list", "doc_read", "run_explain"),
        }
        assert tools["agents_list"].annotations.read_only_hint  # type: ignore[union-attr]
        asked = await client.call_tool("agent_ask", {"project": root, "agent": "alice", "message": "hello"})
        assert json.loads(text_of(asked))["state"] == "done"
        wrong = await client.call_tool("agent_ask", {"project": root, "agent": "carol", "message": "hello"})
        assert wrong.is_error
        assert "there is no agent carol" in text_of(wrong)
        assert "alice, bob" in text_of(wrong)


async def test_an_argument_that_is_wrong_is_told_by_the_name_of_the_tool(door: Door) -> None:
    async with door.client(ADMIN) as client:
        wrong = await client.call_tool("agent_ask", {"agnet": "alice"})
    assert "there is no argument agnet (agent_ask takes: agent, message, " in text_of(wrong)


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ('[{"jsonrpc": "2.0", "id": 1, "method": "ping"}]', "one message at a time"),
        ("[" * 100_000, "too many things inside each other"),
        ("42", "a message is an object"),
        ('{"id": 1, "method": "ping"}', "a message is an object"),
        ('{"jsonrpc": "2.0", "id": 1}', "names its method"),
        ('{"jsonrpc": "2.0", "id": 1, "method": 7}', "names its method"),
        ('{"jsonrpc": "2.0", "id": {}, "method": "ping"}', "the id of a message"),
        ('{"jsonrpc": "2.0", "id": 1, "method": "ping", "params": 7}', "params must be an object"),
    ],
)
async def test_what_is_no_message_is_refused_in_a_sentence(door: Door, body: str, told: str) -> None:
    headers = {"authorization": f"Bearer {ADMIN}", "accept": "application/json, text/event-stream"}
    headers |= {"content-type": "application/json"}
    async with httpx2.AsyncClient(headers=headers, timeout=PATIENCE) as http:
        answer = await http.post(f"http://127.0.0.1:{door.port}/mcp", content=body)
    error = answer.json()["error"]
    assert (answer.status_code, error["code"], "\n" in error["message"]) == (400, -32600, False)
    assert told in error["message"]


@asynccontextmanager
async def at_work(door: Door, name: str = "alice") -> AsyncIterator[str]:
    """The token of a run that is under way, as a coding program would have it."""
    model = door.models[name] = Waiting()
    worker = door.team.runtime.registry.worker(door.team.loaded.agents[name], door.team.workspace.id)
    worker.kit.get().backend._model = model  # type: ignore[attr-defined]
    receipt = await door.team.post("user", f"@{name} work")
    (run,) = await door.team.until(bool, stored.runs, state="running", agent=worker.agent)
    identity = RunIdentity(
        agent=worker.agent,
        name=name,
        project=door.team.loaded.id,
        run=run["id"],
        root=receipt.id,
        hop=0,
        workspace=door.team.workspace.id,
    )
    try:
        yield door.tokens.issue(identity)
    finally:
        model.end.set()
        await door.team.quiet()


@pytest.mark.parametrize("era", ERAS)
async def test_an_agent_at_work_has_the_tools_of_its_run_and_acts_as_itself(door: Door, era: str) -> None:
    door.team.backends["bob"].then()
    async with at_work(door) as token, door.client(token, mode=era) as client:
        names = {tool.name for tool in (await client.list_tools()).tools}
        assert {"channel_send", "team_doc_append", "my_inbox", "memory_write"} <= names
        assert "workflow_run" not in names
        sent = await client.call_tool("channel_send", {"text": f"I am at it ({era})"})
        assert not sent.is_error
        assert text_of(sent) == "Sent as #2."
    said = await door.team.messages()
    assert [(m.sender, m.text) for m in said] == [("user", "@alice work"), ("alice", f"I am at it ({era})")]


async def test_a_program_that_asks_for_its_tools_is_known_to_have_them(door: Door) -> None:
    async with at_work(door):
        (run,) = [row["id"] for row in await door.team.runs(state="running")]
        entry = door.entries.open(run)
        async with door.client(entry.token) as client:
            assert not entry.listed.is_set()
            await client.list_tools()
        assert entry.listed.is_set()
    with pytest.raises(Fenced):
        door.entries.open(run)


async def test_what_a_program_says_twice_in_the_same_words_is_said_once(door: Door) -> None:
    """They make a call again when the stream of their model breaks, and cannot know that it was made."""
    async with at_work(door) as token, door.client(token) as client:
        notes = [await client.call_tool("note_write", {"title": "plan", "text": "the same"}) for _ in range(2)]
        assert text_of(notes[0]) == text_of(notes[1])
        await client.call_tool("channel_send", {"text": "new"})
        reads = [await client.call_tool("channel_read", {}) for _ in range(2)]
        assert "new" in text_of(reads[0])
        assert text_of(reads[1]) == "Nothing new."  # looking again is another call
    made = Counter(row["tool"] for row in await door.team.calls())
    assert made == {"channel_read": 2, "channel_send": 1, "note_write": 1}


async def test_a_program_that_names_its_calls_is_believed(door: Door) -> None:
    async with at_work(door) as token, door.client(token) as client:
        for id in ("a", "a", "b"):
            await client.call_tool("todo_add", {"text": "water the plants"}, meta={"claudecode/toolUseId": id})
    assert len(await door.team.calls()) == 2


async def test_a_call_that_takes_long_goes_on_and_its_result_is_had_by_asking_again(tmp_path: Path) -> None:
    """Programs give up on a call after half a minute."""
    async with opened(tmp_path, patience=0.2) as door:
        await is_had_by_asking_again(door)


async def is_had_by_asking_again(door: Door) -> None:
    gate, made = asyncio.Event(), []

    @tool(personal=True)
    async def slowly(context: ToolContext) -> str:
        """Takes its time."""
        made.append(context.key)
        await gate.wait()
        return "at last"

    worker = door.team.runtime.registry.worker(door.team.loaded.agents["alice"], door.team.workspace.id)
    door.team.employ("alice", tools=(*worker.kit.get().tools, slowly))
    async with at_work(door) as token, door.client(token) as client:
        assert "Call it again" in text_of(await client.call_tool("slowly", {}))
        gate.set()
        while "Call it again" in (told := text_of(await client.call_tool("slowly", {}))):
            pass
        assert told == "at last"
    assert len(made) == 1


async def test_a_question_to_the_person_lays_the_run_aside(door: Door) -> None:
    async with at_work(door):
        (run,) = [row["id"] for row in await door.team.runs(state="running")]
        entry = door.entries.open(run)
        async with door.client(entry.token) as client:
            await client.call_tool("ask_user", {"question": "Which one?"})
        assert entry.waiting.is_set()
        assert entry.unanswered is not None
        step, call = entry.unanswered
        assert (step, call.tool, call.arguments) == (0, "ask_user", {"question": "Which one?"})
        # Whoever goes on with the work makes this very call again, and gets the answer.
        (item,) = await door.team.asked(kind="question")
        await door.team.write(commands.answer, item["id"], "the blue one", now=door.team.now())
        recorder = door.team.runtime.supervisor.recorder(run)
        assert recorder is not None
        assert (await recorder.call(step, call)).text == "the blue one"


async def test_M1_M10_the_token_of_a_run_opens_nothing_else(door: Door) -> None:
    async with at_work(door) as token:
        assert (await door.post("/shutdown", token)).status_code == 403
        assert (await door.post("/send", token, to="bob", message="hi")).status_code == 403


@pytest.mark.parametrize("name", ["admin", "bob", "user"])
async def test_M2_M9_what_a_client_calls_itself_changes_nothing(door: Door, name: str) -> None:
    async with at_work(door) as token, door.client(token, name=name) as client:
        await client.call_tool("channel_send", {"text": "who am I?"})
        assert "workflow_run" not in {tool.name for tool in (await client.list_tools()).tools}
    assert (await door.team.messages())[-1].sender == "alice"


async def test_M3_a_name_in_the_address_changes_nothing(door: Door) -> None:
    async with at_work(door) as token, door.client(token, query="?agent=bob") as client:
        await client.call_tool("channel_send", {"text": "who am I?"})
    assert (await door.team.messages())[-1].sender == "alice"


@pytest.mark.parametrize("argument", ["from", "sender", "agent", "workspace", "priority", "approved", "attempt"])
async def test_M4_who_and_where_are_no_arguments(door: Door, argument: str) -> None:
    async with at_work(door) as token, door.client(token) as client:
        refused = await client.call_tool("channel_send", {"text": "hi", argument: "bob"})
        assert refused.is_error
        assert f"there is no argument {argument}" in text_of(refused)
    assert len(await door.team.messages()) == 1


async def test_M7_the_token_of_a_run_ends_with_the_run(door: Door) -> None:
    async with at_work(door) as token:
        assert (await door.post("/mcp", token, jsonrpc="2.0", id=1, method="ping")).status_code != 401
    assert (await door.post("/mcp", token, jsonrpc="2.0", id=1, method="ping")).status_code == 401


async def test_M16_a_tool_that_is_not_listed_cannot_be_called(door: Door) -> None:
    async with at_work(door) as token, door.client(token) as client:
        refused = await client.call_tool("inbox_list", {})
        assert refused.is_error
        assert "there is no tool 'inbox_list'" in text_of(refused)
    async with door.client(ADMIN) as client:
        refused = await client.call_tool("channel_peek", {})
        assert refused.is_error


async def test_M17_without_a_token_there_is_nothing(door: Door) -> None:
    for method in ("initialize", "tools/list", "server/discover"):
        assert (await door.post("/mcp", None, jsonrpc="2.0", id=1, method=method)).status_code == 401
    assert (await door.post("/mcp", "wrong", jsonrpc="2.0", id=1, method="tools/list")).status_code == 401


async def test_the_persons_ai_is_told_that_something_waits_and_not_what(door: Door) -> None:
    async with door.client(ADMIN) as client:
        (place,) = (await client.list_resources()).resources
        async with client.listen(resource_subscriptions=[place.uri]) as hints:
            door.team.backends["bob"].then(says("@user the build is red"))
            await door.team.post("user", "@bob look")
            assert await anext(aiter(hints)) == ResourceUpdated(uri="agent-worker://inbox")
        (read,) = (await client.read_resource(place.uri)).contents
        assert "the build is red" in read.text  # type: ignore[union-attr]


async def test_an_agent_at_work_is_told_of_mentions_of_itself_only_and_only_while_it_works(door: Door) -> None:
    door.team.backends["bob"].then()
    async with at_work(door) as token, door.client(token) as client:
        (place,) = (await client.list_resources()).resources
        heard = []
        async with client.listen(resource_subscriptions=[place.uri, "agent-worker://inbox/bob"]) as hints:
            await door.team.post("user", "@bob not for alice")
            await door.team.post("user", "@alice and another thing")
            heard.append(await anext(aiter(hints)))
            (read,) = (await client.read_resource(place.uri)).contents
            assert "another thing" in read.text  # type: ignore[union-attr]
            assert "not for alice" not in read.text  # type: ignore[union-attr]
            door.models["alice"].end.set()
            heard += [hint async for hint in hints]  # the stream ends with the run
    assert heard == [ResourceUpdated(uri="agent-worker://inbox")]


async def test_a_place_that_is_not_the_callers_cannot_be_read(door: Door) -> None:
    async with at_work(door) as token, door.client(token) as client:
        with pytest.raises(MCPError, match="there is no agent-worker://inbox/bob here"):
            await client.read_resource("agent-worker://inbox/bob")


@pytest.mark.parametrize("body", [{}, {"jsonrpc": "1.0"}, {"jsonrpc": "2.0", "id": 1, "method": "x" * 10_000}])
async def test_M15_what_is_no_request_is_refused_and_hurts_nobody(door: Door, body: dict[str, object]) -> None:
    answer = await door.post("/mcp", ADMIN, **body)
    assert answer.status_code < 500
    async with door.client(ADMIN) as client:
        assert (await client.list_tools()).tools


def test_the_bridge_serves_the_daemon_over_standard_input_and_output(tmp_path: Path) -> None:
    from tests.shells.served import served

    with served(tmp_path) as daemon:
        lines = [
            {
                "jsonrpc": "2.0",
                "id": 1,
                "method": "initialize",
                "params": {
                    "protocolVersion": "2025-06-18",
                    "capabilities": {},
                    "clientInfo": {"name": "t", "version": "1"},
                },
            },
            {"jsonrpc": "2.0", "method": "notifications/initialized"},
            {
                "jsonrpc": "2.0",
                "id": 2,
                "method": "tools/call",
                "params": {"name": "agent_ask", "arguments": {"agent": "alice", "message": "hello"}},
            },
        ]
        done = subprocess.run(
            [sys.executable, "-m", "agent_worker.cli", "mcp"],
            cwd=daemon.project,
            env={"AGENT_WORKER_HOME": str(daemon.home), "PATH": "/usr/bin:/bin"},
            input="".join(json.dumps(line) + "\n" for line in lines) + "not json\n",
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    by_id = {answer.get("id"): answer for answer in answers}  # in any order
    assert set(by_id) == {1, 2, None}
    assert by_id[1]["result"]["serverInfo"]["name"] == "agent-worker"
    assert by_id[2]["result"]["structuredContent"]["state"] == "done"
    assert by_id[None]["error"]["message"] == "not JSON"


@pytest.mark.parametrize("given", ["project", "${workspaceFolder}"])
def test_the_bridge_is_about_the_project_it_is_told_where_an_editor_starts_it_elsewhere(
    tmp_path: Path, given: str
) -> None:
    from tests.shells.served import served

    ask = {"name": "agent_ask", "arguments": {"agent": "alice", "message": "hello"}}
    line = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": ask}
    with served(tmp_path) as daemon:
        place = str(daemon.project) if given == "project" else given
        done = subprocess.run(
            [sys.executable, "-P", "-m", "agent_worker.cli", "mcp", "--project", place],
            cwd=tmp_path if given == "project" else daemon.project,
            env={"AGENT_WORKER_HOME": str(daemon.home), "PATH": "/usr/bin:/bin"},
            input=json.dumps(line) + "\n",
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
    assert json.loads(done.stdout)["result"]["structuredContent"]["state"] == "done", done.stderr


async def test_hints_come_through_the_bridge_while_calls_go_on(tmp_path: Path) -> None:
    from tests.shells.served import served

    with served(tmp_path, alice="script: [{ say: '@user look' }]\n") as daemon:
        daemon.ask("POST", "/mcp")  # a client that has to wait for the first answer takes us for an older server
        env = {"AGENT_WORKER_HOME": str(daemon.home), "PATH": "/usr/bin:/bin"}
        bridge = StdioServerParameters(
            command=sys.executable, args=["-m", "agent_worker.cli", "mcp"], env=env, cwd=daemon.project
        )
        uri = "agent-worker://inbox"
        async with Client(stdio_client(bridge)) as client, client.listen(resource_subscriptions=[uri]) as hints:
            ran = await client.call_tool("workflow_run", {"workflow": "review", "message": "@alice go"})
            assert not ran.is_error, text_of(ran)
            assert await anext(aiter(hints)) == ResourceUpdated(uri=uri)


async def test_a_program_without_mcp_has_the_same_tools_by_the_command_line(tmp_path: Path) -> None:
    """Without a run's token there is nothing to be had: the token alone says who is calling."""
    command = [sys.executable, "-m", "agent_worker.cli", "context", "send", "- hello"]
    env = {"PATH": "/usr/bin:/bin", "AGENT_WORKER_HOME": str(tmp_path / "home")}
    done = await asyncio.to_thread(subprocess.run, command, env=env, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 2
    assert "AGENT_WORKER_RUN_TOKEN or AGENT_WORKER_RUN_URL is not set" in done.stderr
