"""One adapter for programs that speak ACP, against a program of ours that speaks it well and badly."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import psutil
import pytest
from tests.patience import PATIENCE

from agent_worker.backends.backend import Finished, PastStep, Reply, Turn, Usage
from agent_worker.backends.programs.acp import Acp, PlainAcp
from agent_worker.backends.programs.one_shot import OneShot
from agent_worker.backends.programs.program import Program, ProgramHost, ToolEndpoint
from agent_worker.backends.programs.runner import Clocks
from agent_worker.backends.programs.sessions import INTERRUPTED, LOST, Session
from agent_worker.core.errors import BackendFailure, Crashed, Exhausted, Overloaded, Permanent, Transient
from agent_worker.definitions.agent import Access
from agent_worker.tools.tool import Call, Result

AGENT = Path(__file__).parents[2] / "fakes" / "acp_agent.py"
TOKEN = "the-token-of-this-run"
PATIENT = Clocks(start=PATIENCE, first=PATIENCE, silence=PATIENCE, total=PATIENCE)


class OpenDoor:
    """Whoever comes has asked for our tools already."""

    def __init__(self, *, listed: bool = True) -> None:
        self.entry = ToolEndpoint("http://127.0.0.1:9/mcp", TOKEN)
        if listed:
            self.entry.listed.set()

    def open(self, run: str) -> ToolEndpoint:
        return self.entry


@dataclass
class Record:
    """A sink that remembers."""

    said: list[str] = field(default_factory=list)
    spoken: asyncio.Event = field(default_factory=asyncio.Event)
    shown: list[tuple[Call, Result | None]] = field(default_factory=list)
    kept: list[Reply] = field(default_factory=list)
    prefaces: list[str] = field(default_factory=list)

    def say(self, text: str) -> None:
        self.said.append(text)
        self.spoken.set()

    def show(self, call: Call, result: Result | None = None) -> None:
        self.shown.append((call, result))

    def preface(self, text: str) -> None:
        self.prefaces.append(text)

    def asking(self) -> AbstractAsyncContextManager[None]:
        return nullcontext()

    async def keep(self, step: int, reply: Reply) -> None:
        self.kept.append(reply)

    async def call(self, step: int, call: Call) -> Result:
        raise AssertionError("our tools are called over MCP")


@dataclass
class Runtime:
    """A place where the program runs."""

    folder: Path
    sink: Record = field(default_factory=Record)

    @property
    def notes(self) -> Path:
        return self.folder / "notes"

    def heard(self, method: str = "") -> list[dict[str, Any]]:
        """What the program was told."""
        if not self.notes.exists():
            return []
        told = [json.loads(line) for line in self.notes.read_text().splitlines()]
        return [each for each in told if not method or each.get("method") == method]

    def backend(
        self, behaviour: Sequence[str], *, clocks: Clocks = PATIENT, tool_access: OpenDoor | None = None, **more: Any
    ) -> OneShot:
        program_host = ProgramHost(tool_access or OpenDoor(), self.folder / "state", os.environ)
        command = (sys.executable, str(AGENT), str(self.notes), *behaviour)
        return OneShot(
            Acp(PlainAcp()),
            Program("acp", "alice", self.folder, self.folder, program_host, command=command, **more),
            clocks,
        )

    async def run(self, *behaviour: str, past: tuple[PastStep, ...] = (), prompt: str = "Go.", **more: Any) -> Finished:
        backend = self.backend(behaviour, **more)
        turn = Turn(run="r_1", system="You are Alice.", prompt=prompt, past=past)
        (outcome,) = [each async for each in backend.work(turn, self.sink)]
        assert isinstance(outcome, Finished)
        return outcome

    def processes(self) -> list[psutil.Process]:
        found = []
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                if str(self.notes) in process.cmdline():
                    found.append(process)
        return found


@pytest.fixture
def runtime(tmp_path: Path) -> Runtime:
    return Runtime(tmp_path)


async def test_its_last_words_are_the_answer_and_all_of_it_is_shown(runtime: Runtime) -> None:
    done = await runtime.run("well")
    assert done.reply.text == "All is well."
    assert runtime.sink.said == ["Let me see.", "All is ", "well."]
    (call, _), (_, result) = runtime.sink.shown
    assert (call.tool, call.arguments) == ("ls", {"command": "ls"})
    assert result == Result("a.txt")
    assert (done.reply.usage.input, done.reply.usage.cached, done.reply.usage.output) == (107, 7, 20)
    assert done.reply.usage.usd == 0.25


async def test_it_is_told_of_our_tools_and_of_nothing_else_we_could_do(runtime: Runtime) -> None:
    await runtime.run("fine")
    (greeting,) = runtime.heard("initialize")
    can = greeting["params"]["clientCapabilities"]
    assert can["fs"] == {"readTextFile": False, "writeTextFile": False}
    assert can["terminal"] is False
    (opened,) = runtime.heard("session/new")
    assert opened["params"]["cwd"] == str(runtime.folder)
    assert opened["params"]["mcpServers"] == [
        {
            "type": "http",
            "name": "team",
            "url": "http://127.0.0.1:9/mcp",
            "headers": [{"name": "Authorization", "value": f"Bearer {TOKEN}"}],
        }
    ]
    (asked,) = runtime.heard("session/prompt")
    assert asked["params"]["prompt"] == [{"type": "text", "text": "You are Alice.\n\nGo."}]


async def test_what_looks_like_a_command_of_the_program_is_text(runtime: Runtime) -> None:
    past = (PastStep(Session("acp", "s-0").kept()),)
    await runtime.run("fine", past=past, prompt="/init")
    assert not runtime.heard("session/prompt")[0]["params"]["prompt"][0]["text"].startswith("/")


async def test_its_session_is_kept_as_soon_as_it_is_known(runtime: Runtime) -> None:
    with pytest.raises(Crashed):
        await runtime.run("die")
    assert json.loads(runtime.sink.kept[0].raw)["session"] == "s-1"


async def test_it_goes_on_with_its_session_and_what_was_said_before_is_not_said_again(runtime: Runtime) -> None:
    past = (PastStep(Session("acp", "s-0").kept()),)
    done = await runtime.run("fine", past=past)
    assert done.reply.text == "Fine."
    assert runtime.sink.said == ["Fine."]
    assert [each["params"]["sessionId"] for each in runtime.heard("session/load")] == ["s-0"]
    assert INTERRUPTED in runtime.heard("session/prompt")[0]["params"]["prompt"][0]["text"]


async def test_one_that_cannot_go_on_with_a_session_begins_anew_and_is_told(runtime: Runtime) -> None:
    past = (PastStep(Session("acp", "s-0").kept()),)
    await runtime.run("forgetful", past=past)
    (asked,) = runtime.heard("session/prompt")
    assert LOST in asked["params"]["prompt"][0]["text"]


@pytest.mark.parametrize(
    ("behaviour", "failure"),
    [
        ("error 401", Permanent),
        ("error 429", Overloaded),
        ("error 500", Transient),
        ("error 503", Transient),
        ("error -32000", Permanent),
        ("error -32602", Permanent),
        ("error -32603", Crashed),
        ("error -32603 rate_limit", Overloaded),
        ("error -32603 server_error", Transient),
        ("error -32603 invalid_request", Permanent),
        ("stop max_tokens", Exhausted),
        ("stop max_turn_requests", Exhausted),
        ("stop refusal", Permanent),
        ("stop cancelled", Crashed),
        ("old", Permanent),
        ("logged-out", Permanent),
        ("die", Crashed),
        ("close", Crashed),
    ],
)
async def test_every_bad_end_is_of_a_class(runtime: Runtime, behaviour: str, failure: type[BackendFailure]) -> None:
    with pytest.raises(BackendFailure) as raised:
        await runtime.run(*behaviour.split())
    assert type(raised.value) is failure
    assert TOKEN not in raised.value.message
    assert not runtime.processes()


async def test_a_program_that_dies_is_quoted(runtime: Runtime) -> None:
    with pytest.raises(Crashed, match=r"acp ended without an answer \(exit 3\): out of cheese"):
        await runtime.run("die")


@pytest.mark.parametrize(
    ("behaviour", "clocks", "failure", "told"),
    [
        ("mute", {"start": 0.3}, Permanent, "said nothing for"),
        ("hang", {"first": 0.8}, Transient, "heard nothing from its model"),
        ("stall", {"silence": 0.3}, Transient, "went silent"),
        ("stall", {"total": 1.0}, Exhausted, "was ended after"),
    ],
)
async def test_R4_each_of_the_four_clocks_ends_it(
    runtime: Runtime, behaviour: str, clocks: dict[str, float], failure: type[BackendFailure], told: str
) -> None:
    with pytest.raises(failure, match=told):
        await runtime.run(behaviour, clocks=replace(PATIENT, **clocks))
    assert not runtime.processes()


async def test_garbage_is_neither_believed_nor_fatal(runtime: Runtime) -> None:
    done = await runtime.run("garbage")
    assert done.reply.text == "Still here."


async def test_it_gets_no_files_and_no_terminal_of_ours(runtime: Runtime) -> None:
    done = await runtime.run("files")
    assert done.reply.text == "-32601 -32601"


@pytest.mark.parametrize(
    ("access", "kind", "where", "answer"),
    [
        ("read", "ours", "", "yes"),
        ("read", "read", "", "yes"),
        ("read", "edit", "a.txt", "no"),
        ("read", "execute", "", "no"),
        ("edit", "edit", "a.txt", "yes"),
        ("edit", "edit", "../a.txt", "no"),
        ("edit", "edit", "", "no"),
        ("edit", "move", "link/a.txt", "no"),
        ("edit", "execute", "", "no"),
        ("edit", "other", "", "no"),
        ("full", "execute", "", "yes"),
        ("full", "edit", "/etc/passwd", "yes"),
    ],
)
async def test_B7_what_it_asks_leave_for_is_answered_by_its_access(
    runtime: Runtime, access: Access, kind: str, where: str, answer: str
) -> None:
    (runtime.folder / "link").symlink_to("/")
    done = await runtime.run("permission", kind, *([where] if where else []), access=access)
    assert done.reply.text == answer


async def test_a_program_that_never_asked_for_our_tools_has_failed(runtime: Runtime) -> None:
    with pytest.raises(Permanent, match="worked without our tools"):
        await runtime.run("fine", tool_access=OpenDoor(listed=False), clocks=replace(PATIENT, tools=0.2))
    assert not runtime.processes()


async def test_who_stops_the_run_stops_the_program_and_tells_it_first(runtime: Runtime) -> None:
    running = asyncio.create_task(runtime.run("cancel"))
    await runtime.sink.spoken.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert runtime.heard("session/cancel")
    assert not runtime.processes()


async def test_L4_what_a_program_told_to_have_used_is_paid_when_it_dies(runtime: Runtime) -> None:
    with pytest.raises(Crashed):
        await runtime.run("spend", "and die")
    assert runtime.sink.kept[-1].usage == Usage(usd=0.25)


async def test_L4_what_it_tells_when_it_is_stopped_is_paid_too(runtime: Runtime) -> None:
    running = asyncio.create_task(runtime.run("spend"))
    await runtime.sink.spoken.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert runtime.sink.kept[-1].usage == Usage(100, 0, 20, 0.25)
    assert not runtime.processes()


async def test_a_model_it_offers_is_chosen_and_another_one_refused(runtime: Runtime) -> None:
    await runtime.run("fine", model="small")
    (chosen,) = runtime.heard("session/set_config_option")
    assert (chosen["params"]["configId"], chosen["params"]["value"]) == ("m", "small")
    with pytest.raises(Permanent, match="does not offer the model huge") as refused:
        await runtime.run("fine", model="huge")
    assert "large" in refused.value.hint


async def test_a_program_that_is_not_there_is_named(tmp_path: Path) -> None:
    program_host = ProgramHost(OpenDoor(), tmp_path, os.environ)
    backend = OneShot(
        Acp(PlainAcp()), Program("acp", "a", tmp_path, tmp_path, program_host, command=("no-such-agent",))
    )
    with pytest.raises(Permanent, match="no-such-agent is not installed"):
        [_ async for _ in backend.work(Turn(run="r_1", system="", prompt=""), Record())]


# --- what it does by itself


async def test_a_call_is_told_once_when_it_is_known_with_what_it_is_made(tmp_path: Path) -> None:
    runtime = Runtime(tmp_path)
    assert (await runtime.run("bit-by-bit")).reply.text == "Done."
    made = Call("c1", "bash", {"command": "ls"})
    assert runtime.sink.shown == [(made, None), (made, Result("no such thing", ok=False))]


async def test_an_edit_is_told_with_what_was_written_and_where(tmp_path: Path) -> None:
    runtime = Runtime(tmp_path)
    await runtime.run("edit")
    (call, begun), (_, result) = runtime.sink.shown
    assert call.arguments == {"kind": "edit", "paths": ["a.txt", "a.txt"], "written": {"a.txt": "two"}}
    assert begun is None
    assert result == Result("")
