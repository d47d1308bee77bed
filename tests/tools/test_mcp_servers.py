"""MCP servers become tools: over HTTP in both protocols, through pipes, and whatever a server does to us."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import psutil
import pytest

from agent_worker.backends.mock import calls, says
from agent_worker.core.clock import SystemClock, TestClock
from agent_worker.core.errors import AgentWorkerError, Permanent, Refused, Transient
from agent_worker.tools.mcp_pool import McpPool
from agent_worker.tools.mcp_server import SHOWN, McpProgram, McpRemote, Server, Times
from agent_worker.tools.tool import Result, Tool
from tests import stored
from tests.fakes.mcp_library_server import PICTURE, TEXT, Served
from tests.patience import PATIENCE, growing_limits, until
from tests.teams import open_team
from tests.test_processes import is_running, pids_in

FAKES = Path(__file__).parent.parent / "fakes"
BY_HAND = (sys.executable, str(FAKES / "mcp_by_hand.py"))
WITH_LIBRARY = (sys.executable, str(FAKES / "mcp_library_server.py"))


@asynccontextmanager
async def pool(times: Times | None = None) -> AsyncIterator[McpPool]:
    made = McpPool(SystemClock(), times)
    try:
        yield made
    finally:
        await made.close()


async def tools_of(servers: McpPool, server: Server, name: str = "docs") -> dict[str, Tool]:
    return {tool.name.removeprefix(f"{name}_"): tool for tool in await servers.tools({name: server})}


async def make(tool: Tool, **arguments: object) -> str:
    return (await returned(tool, **arguments)).text


async def returned(tool: Tool, **arguments: object) -> Result:
    result = await tool.function(None, **tool.check(arguments))
    assert isinstance(result, Result)
    return result


def by_hand(cwd: Path, *words: str, env: tuple[str, ...] = ()) -> McpProgram:
    return McpProgram((*BY_HAND, *words), cwd, env)


def quoted(command: tuple[str, ...]) -> str:
    return json.dumps(list(command))


# --- over HTTP ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("era", ["2026", "2025"])
async def test_an_agent_uses_a_server_of_its_definition(era: str, tmp_path: Path) -> None:
    async with Served(era=era) as served:
        docs = {"alice": f"mcp_servers: {{ docs: {{ url: {served.url} }} }}\n"}
        async with open_team(tmp_path, "alice", clock=SystemClock(), extra=docs, quiet_moment=0.02) as team:
            team.backends["alice"].then(
                calls("docs_echo", text="hi"), calls("docs_refuse", text="way"), calls("docs_raise"), says("done")
            )
            await team.post("user", "@alice go")
            await team.quiet()
            made = [(row["tool"], row["result"], row["ok"]) for row in await team.calls()]
            assert await team.texts() == ["@alice go", "done"]
    assert made[:2] == [("docs_echo", "echo: hi", 1), ("docs_refuse", "no way", 0)]
    assert made[2][0] == "docs_raise"
    assert made[2][2] == 0


async def test_two_agents_share_one_connection_and_no_token_of_ours_goes_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("OPENAI_API_KEY", "AGENT_WORKER_TOKEN", "MCP_TOKEN"):
        monkeypatch.setenv(name, "canary")
    async with Served() as served:
        named = {name: f"mcp_servers: {{ {name}s: {{ url: {served.url} }} }}\n" for name in ("alice", "bob")}
        async with open_team(tmp_path, "alice", "bob", clock=SystemClock(), extra=named, quiet_moment=0.02) as team:
            team.backends["alice"].then(calls("alices_echo", text="a"), says("@bob your turn"))
            team.backends["bob"].then(calls("bobs_echo", text="b"), says("done"))
            await team.post("user", "@alice go")
            await team.quiet()
            assert [row["result"] for row in await team.calls()] == ["echo: a", "echo: b"]
        assert served.greetings == 1
        assert all("canary" not in str(headers) for headers in served.requests)
        assert not any({"authorization", "cookie"} & headers.keys() for headers in served.requests)


async def test_a_tool_reads_as_its_server_wrote_it() -> None:
    async with Served(json_response=False) as served, pool() as servers:
        tools = await servers.tools({"my-docs": McpRemote(served.url)})
        assert [tool.name for tool in tools] == [f"my-docs_{n}" for n in ("echo", "refuse", "raise", "much", "picture")]
        assert (tools[0].spec.description, tools[0].spec.schema) == ("Say it again.", TEXT)
        assert [tool.repeatable for tool in tools] == [True, False, False, False, False]
        cut = f"\n[… {500_000 - SHOWN:,} characters left out …]"
        assert await make(tools[3]) == ("much " * 100_000)[:SHOWN] + cut
        picture = await returned(tools[4])
        assert picture.text == "look:\n[image, image/png, 3 bytes: not shown]\n[image, 69 bytes]"
        assert [(image.media_type, image.base64) for image in picture.images] == [("image/png", PICTURE)]


async def test_a_server_that_was_started_again_is_found_again_though_it_forgot_the_session() -> None:
    async with pool() as servers:
        async with Served(era="2025") as served:
            echo = (await tools_of(servers, McpRemote(served.url)))["echo"]
            assert await make(echo, text="1") == "echo: 1"
        with pytest.raises(Refused, match="docs: ConnectError"):
            await make(echo, text="2")
        async with Served(era="2025", port=served.port):
            with pytest.raises(Refused, match=r"docs was lost .* no longer knows our session"):
                await make(echo, text="3")
            assert await make(echo, text="4") == "echo: 4"
        async with Served(era="2025", port=served.port):
            assert await tools_of(servers, McpRemote(served.url))


async def test_a_run_whose_server_is_away_is_tried_again(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    docs = {"alice": f"mcp_servers: {{ docs: {{ url: http://127.0.0.1:{port}/mcp }} }}\n"}
    async with open_team(tmp_path, "alice", clock=SystemClock(), extra=docs, quiet_moment=0.02) as team:
        team.backends["alice"].then(calls("docs_echo", text="hi"), says("done"))
        await team.post("user", "@alice go")
        (failed,) = await team.until(bool, stored.runs, state="failed")
        where = f"MCP server docs (http://127.0.0.1:{port}/mcp)"
        assert failed["reason"].startswith(f"{where} cannot be used: ConnectError")
        async with Served(port=port):
            await team.quiet()
            assert await team.texts() == ["@alice go", "done"]


@pytest.mark.parametrize("host", ["169.254.169.254", "[::ffff:169.254.169.254]", "0.0.0.0", "2852039166", "0xA9FEA9FE"])
async def test_N1_no_server_is_looked_for_where_clouds_keep_their_secrets(host: str) -> None:
    async with pool() as servers:
        with pytest.raises(Permanent, match=r"MCP server docs .* (not a server's address|a number)"):
            await servers.tools({"docs": McpRemote(f"http://{host}/latest")})


async def answering(answer: Callable[[asyncio.StreamWriter], Awaitable[None]]) -> tuple[asyncio.Server, McpRemote]:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        try:
            await answer(writer)
        except (ConnectionError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    return server, McpRemote(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/mcp")


async def endless(writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n")
    while True:
        writer.write(b" " * 65536)
        await writer.drain()


async def dripping(writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n")
    while True:
        writer.write(b":")
        await writer.drain()
        await asyncio.sleep(0.01)


async def packed(writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-encoding: gzip\r\n\r\n\x1f\x8b")
    await writer.drain()


async def closed_door(writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 401 Unauthorized\r\ncontent-length: 7\r\n\r\nno key!")
    await writer.drain()


@pytest.mark.parametrize(
    ("answer", "limit", "why"),
    [
        (endless, PATIENCE, "larger than 8,388,608 bytes"),
        (dripping, 0.5, "did not answer within 0.5 s"),
        (packed, PATIENCE, "compressed"),
        (closed_door, PATIENCE, "it answered 401 Unauthorized"),
    ],
)
async def test_N4_an_answer_without_end_or_sense_is_a_failure_that_names_the_server(
    answer: Callable[[asyncio.StreamWriter], Awaitable[None]], limit: float, why: str
) -> None:
    server, where = await answering(answer)
    async with server, pool(Times(connect=limit)) as servers:
        with pytest.raises(Transient, match=f"MCP server docs .* cannot be used: .*{why}"):
            await servers.tools({"docs": where})


# --- through pipes ------------------------------------------------------------------------------------


async def test_an_agent_uses_a_program_of_its_definition(tmp_path: Path) -> None:
    programs = {"alice": f"mcp_servers:\n  lib: {{ command: {quoted(WITH_LIBRARY)} }}\n"}
    async with open_team(tmp_path, "alice", clock=SystemClock(), extra=programs, quiet_moment=0.02) as team:
        team.backends["alice"].then(calls("lib_echo", text="hi"), calls("lib_refuse", text="way"), says("done"))
        await team.post("user", "@alice go")
        await team.quiet()
        made = [(row["tool"], row["result"], row["ok"]) for row in await team.calls()]
    assert made == [("lib_echo", "echo: hi", 1), ("lib_refuse", "no way", 0)]


async def test_a_server_cannot_take_the_place_of_a_tool_of_ours(tmp_path: Path) -> None:
    programs = {"alice": f"mcp_servers:\n  channel: {{ command: {quoted(BY_HAND)} }}\n"}
    async with open_team(tmp_path, "alice", clock=SystemClock(), extra=programs, quiet_moment=0.02) as team:
        team.backends["alice"].then(calls("channel_send", text="to all"), says("done"))
        await team.post("user", "@alice go")
        await team.quiet()
        assert await team.texts() == ["@alice go", "to all"]


async def test_B3_a_program_sees_what_its_definition_names_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("OPENAI_API_KEY", "AGENT_WORKER_TOKEN", "GITHUB_TOKEN"):
        monkeypatch.setenv(name, "canary")
    monkeypatch.setenv("DECLARED", "yes")
    async with pool() as servers:
        tools = await tools_of(servers, by_hand(tmp_path, env=("DECLARED",)))
        seen = json.loads(await make(tools["environment"]))
    assert "canary" not in seen.values()
    assert seen["DECLARED"] == "yes"


async def test_a_crash_is_told_and_the_next_call_finds_the_server_again(tmp_path: Path) -> None:
    async with pool() as servers:
        tools = await tools_of(servers, by_hand(tmp_path))
        first = await make(tools["pid"])
        with pytest.raises(Refused, match=r"docs was lost .* exit code 3: out of cheese; what it did is unknown"):
            await make(tools["die"])
        second = await make(tools["pid"])
        os.kill(int(second), signal.SIGKILL)
        tools = await tools_of(servers, by_hand(tmp_path))
        assert len({first, second, await make(tools["pid"])}) == 3


@pytest.mark.parametrize(("tool", "why"), [("deafen", "it closed its output"), ("bequeath", "exit code 4")])
async def test_a_server_that_no_longer_answers_is_left_for_a_new_one(tool: str, why: str, tmp_path: Path) -> None:
    async with pool() as servers:
        tools = await tools_of(servers, by_hand(tmp_path))
        first = await make(tools["pid"])
        with pytest.raises(Refused, match=f"docs was lost .* {why}"):
            await make(tools[tool])
        assert await make(tools["pid"]) != first
        assert not is_running(int(first))


async def test_a_call_has_a_limit_and_the_server_stays(tmp_path: Path) -> None:
    for limit in growing_limits(0.3):
        async with pool(Times(call=limit)) as servers:
            tools = await tools_of(servers, by_hand(tmp_path))
            try:
                before = await make(tools["pid"])
                with pytest.raises(
                    Refused, match=f"docs did not answer within {limit:g} s; what the call did is unknown"
                ):
                    await make(tools["hang"])
                after = await make(tools["pid"])
            except Refused:
                continue  # this machine needs longer for any answer
        assert after == before
        return
    raise AssertionError("it answers nothing")


async def test_what_is_no_message_is_passed_over_and_what_is_too_long_ends_it(tmp_path: Path) -> None:
    async with pool() as servers:
        tools = await tools_of(servers, by_hand(tmp_path))
        assert await make(tools["babble"]) == "done"
        with pytest.raises(Refused, match="larger than 8,388,608 bytes"):
            await make(tools["huge"])
        assert await make(tools["babble"]) == "done"


@pytest.mark.parametrize(
    ("program", "limit", "error", "why"),
    [
        (("no-such-program",), PATIENCE, Permanent, "there is no program 'no-such-program'"),
        ((*BY_HAND, "silent"), 0.5, Transient, "did not answer within 0.5 s"),
        ((*BY_HAND, "broken"), PATIENCE, Transient, "exit code 1: there is no configuration"),
    ],
)
async def test_a_program_that_does_not_serve_is_named_and_gone(
    program: tuple[str, ...], limit: float, error: type[AgentWorkerError], why: str, tmp_path: Path
) -> None:
    async with pool(Times(connect=limit)) as servers:
        with pytest.raises(error, match=f"MCP server docs .* cannot be used: .*{why}"):
            await servers.tools({"docs": McpProgram(program, tmp_path)})


async def test_R4_nothing_of_a_program_is_left_when_the_pool_closes(tmp_path: Path) -> None:
    descriptors = psutil.Process().num_fds()
    async with pool() as servers:
        tools = await tools_of(servers, by_hand(tmp_path))
        pid, grandchild = int(await make(tools["pid"])), int(await make(tools["spawn"]))
        assert is_running(grandchild)
    assert not is_running(pid)
    assert not is_running(grandchild)
    await until(lambda: psutil.Process().num_fds() <= descriptors)
    with pytest.raises(Refused, match="stopping"):
        await make(tools["pid"])


async def test_a_server_nobody_uses_is_closed_and_comes_back_when_needed(tmp_path: Path) -> None:
    clock = TestClock()
    servers = McpPool(clock)
    tools = await tools_of(servers, by_hand(tmp_path))
    pid = int(await make(tools["pid"]))
    await clock.advance(minutes=9)
    assert int(await make(tools["pid"])) == pid
    await clock.advance(minutes=9)
    assert is_running(pid)
    await clock.advance(minutes=1)
    await until(lambda: not is_running(pid))
    assert int(await make(tools["pid"])) != pid
    await servers.close()


PARENT = """
import asyncio, sys
from pathlib import Path
from agent_worker.core.clock import SystemClock
from agent_worker.tools.mcp_server import McpProgram
from agent_worker.tools.mcp_pool import McpPool

async def main():
    where = Path(sys.argv[1])
    tools = await McpPool(SystemClock()).tools({"docs": McpProgram(tuple(sys.argv[2:]), where)})
    (where / "ready").touch()
    await asyncio.Event().wait()

asyncio.run(main())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a child with its parent")
async def test_R5_a_daemon_killed_outright_leaves_no_server(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", PARENT, str(tmp_path), *BY_HAND, "stubborn"]) as parent:  # noqa: ASYNC220
        await until((tmp_path / "ready").exists)
        (child,) = pids_in(tmp_path / "pid")
        assert is_running(child)
        parent.kill()
    await until(lambda: not is_running(child))


def test_the_library_is_not_imported_before_it_is_needed() -> None:
    code = "import sys, agent_worker.compose; assert not {'mcp', 'mcp_types', 'httpx2'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
