"""Money as people and scripts are told it: what was used is told wherever it is asked for, a guess as one."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.fakes.model_protocols import Answer
from tests.fakes.model_server import ModelServer
from tests.shells.terminal import terminal_knowing

KNOWN, UNKNOWN = "anthropic/claude-haiku-5-5", "anthropic/claude-nobody-knows"
TOLD, GUESSED = Answer("Done.", usage=(100_000, 20)), Answer("Done.", usage=None)


def _sdk(model: str) -> str:
    return f"backend: sdk\nmodel: {model}\nprompt: {{ system: You are a worker. }}\n"


@pytest.mark.parametrize(
    ("model", "answer", "estimated"), [(KNOWN, TOLD, False), (UNKNOWN, TOLD, True), (KNOWN, GUESSED, True)]
)
async def test_money_that_rests_on_a_guess_is_marked_wherever_it_is_told(
    tmp_path: Path, server: ModelServer, model: str, answer: Answer, estimated: bool
) -> None:
    server.script([answer])
    environ = {"ANTHROPIC_API_KEY": "sk-x", "ANTHROPIC_BASE_URL": server.url("script")}
    async with terminal_knowing(tmp_path, {"alice": _sdk(model)}, **environ) as terminal:

        async def says(*command: str) -> str:
            return await asyncio.to_thread(terminal.says, *command)

        async def told(*command: str) -> Any:
            return await asyncio.to_thread(terminal.json, *command)

        await says("ask", "alice", "work")
        (run,) = await told("runs")
        explained, status, stats = await told("explain", run["id"]), await told("status"), await told("stats")
        alice = next(each for each in status["agents"] if each["name"] == "alice")
        used = {each["of"]: each["estimated"] for each in status["limits"] if each["unit"] == "USD"}
        assert used == {"project": estimated, "alice": estimated, "bob": False}
        assert {run["estimated"], explained["run"]["estimated"], explained["steps"][0]["estimated"]} == {estimated}
        assert (alice["estimated"], stats["estimated"]) == (estimated, estimated)
        assert ("alice" in stats["estimated_of"]) is estimated
        for command in (("runs",), ("explain", run["id"]), ("status",), ("ls",), ("stats",), ("agent", "list")):
            shown = await says(*command)
            assert " USD" in shown
            assert (" USD (estimated)" in shown) is estimated, shown
        daemon = terminal.daemon
        for page in (f"/page/run?run={run['id']}", daemon.query("/page/agent?name=alice"), "/page/home"):
            shown = (await asyncio.to_thread(daemon.ask, "GET", page)).body.decode()
            assert "$" in shown
            assert ("(estimated)" in shown) is estimated, page


async def test_a_team_made_up_on_the_spot_tells_what_it_has_used(tmp_path: Path, server: ModelServer) -> None:
    server.script([Answer("Done.", usage=(100_000, 20))])
    environ = {"ANTHROPIC_API_KEY": "sk-x", "ANTHROPIC_BASE_URL": server.url("script")}
    team = {"ann": {"model": UNKNOWN, "prompt": {"system": "You are Ann."}}}
    async with terminal_knowing(tmp_path, **environ) as terminal:
        done = await asyncio.to_thread(terminal.daemon.do, "POST", "/serve", agents=team, message="work")
    assert done["content"] == "Done."
    assert done["usage"] == {
        "input": 100_000,
        "output": 20,
        "usd": pytest.approx(100_020 * 15 / 1e6),
        "estimated": True,
    }
    assert done["summary"]["tokens"] == 100_020
