"""The fake server itself: what the tests of the model API do not reach."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

import pytest
from tests.fakes.model_server import PROTOCOLS, Fault, ModelServer, Step

TOOL = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
OFFERS = {
    "/v1/messages": {"tools": [{"name": "speak", "input_schema": TOOL}]},
    "/v1/chat/completions": {"tools": [{"type": "function", "function": {"name": "speak", "parameters": TOOL}}]},
    "/v1/responses": {"tools": [{"type": "function", "name": "speak", "parameters": TOOL}]},
    "/v1beta/models/fake:generateContent": {
        "tools": [{"functionDeclarations": [{"name": "speak", "parametersJsonSchema": TOOL}]}]
    },
}


async def post(port: int, path: str, body: object) -> tuple[int, str]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    raw = json.dumps(body).encode()
    head = f"POST {path} HTTP/1.1\r\nhost: x\r\nx-api-key: k\r\ncontent-length: {len(raw)}\r\n\r\n"
    writer.write(head.encode() + raw)
    writer.write_eof()
    answer = (await reader.read()).decode()
    writer.close()
    await writer.wait_closed()
    return int(answer.split()[1]), answer.split("\r\n\r\n", 1)[1]


@pytest.mark.parametrize("path", PROTOCOLS)
async def test_it_also_answers_in_one_piece(path: str) -> None:
    async with ModelServer() as server:
        status, body = await post(server.port, f"/m/ok{path}", {"model": "m"})
    assert status == 200
    assert "All is well." in body


@pytest.mark.parametrize("path", PROTOCOLS)
async def test_it_asks_for_a_tool_that_was_offered_with_arguments_that_fit(path: str) -> None:
    async with ModelServer() as server:
        _, body = await post(server.port, f"/m/tools{path}", {"model": "m", **OFFERS[path]})
    assert "speak" in body
    assert "hello" in body


async def test_it_records_what_it_was_sent() -> None:
    async with ModelServer() as server:
        await post(server.port, "/m/ok/v1/messages?beta=true", {"model": "m"})
    [request] = server.requests
    assert (request.path, request.headers["x-api-key"], request.body) == (
        "/m/ok/v1/messages?beta=true",
        "k",
        {"model": "m"},
    )


async def play(script: list[Step], requests: int) -> None:
    async with ModelServer() as server:
        server.script(script)
        for _ in range(requests):
            await post(server.port, "/m/script/v1/messages", {})


async def test_it_complains_about_a_script_that_was_too_short() -> None:
    with pytest.raises(AssertionError, match="too short"):
        await play(["one"], requests=2)


async def test_it_complains_about_a_script_that_was_not_played_out() -> None:
    with pytest.raises(AssertionError, match="1 steps of the script were not played"):
        await play(["one", Fault("500")], requests=1)


async def test_it_runs_alone() -> None:
    root = Path(__file__).parents[2]
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.fakes.model_server", "--port", "0", cwd=root, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    await process.stdout.readline()
    where = (await process.stdout.readline()).decode()
    port = int(where.split("127.0.0.1:")[1].split("/")[0])
    assert (await post(port, "/m/401/v1/messages", {}))[0] == 401
    process.terminate()
    await process.wait()
