"""One conversation in the Agent Client Protocol: from its greeting to the answer to one prompt, as signals.

The library speaks JSON-RPC; what comes in is read leniently, as programs run ahead of the schema. We offer no files
and no terminals: a program has its own. Importing this takes a second.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import AsyncGenerator, Awaitable, Mapping
from contextlib import suppress
from importlib.metadata import version
from typing import Any, TypeVar

from acp import PROTOCOL_VERSION, RequestError
from acp.core import Connection
from acp.meta import AGENT_METHODS, CLIENT_METHODS
from acp.schema import (
    CancelNotification,
    ClientCapabilities,
    FileSystemCapabilities,
    Implementation,
    InitializeRequest,
    LoadSessionRequest,
    NewSessionRequest,
    PromptRequest,
    ResumeSessionRequest,
    SetSessionConfigOptionSelectRequest,
    TextContentBlock,
)
from pydantic import BaseModel

from agent_worker.backends.programs.acp_pipe import PipeTransport
from agent_worker.backends.programs.acp_prompt import AcpPrompt, ended, given, is_ours, may, outcome
from agent_worker.backends.programs.acp_tools import (
    PATIENCE,
    Servers,
    announces_http,
    by_a_process,
    over_http,
    wants_none,
)
from agent_worker.backends.programs.json_fields import NOTHING, block, blocks, text
from agent_worker.backends.programs.runner import (
    STDERR_CAP,
    ClockWatch,
    TooLong,
    told_by,
)
from agent_worker.backends.programs.signals import (
    Calling,
    Over,
    ProgramReturned,
    ProgramSpent,
    ProgramStarted,
    Said,
    Signal,
)
from agent_worker.core.errors import BackendFailure, BadInput, Crashed, Permanent, Refused
from agent_worker.processes.child import Child, happens, start
from agent_worker.processes.streams import Ends, lines

T = TypeVar("T")

_STDERR_LINE = 64 * 1024
_AFTER_END = 1.0  # seconds for its exit, when its output has ended
_TOLD_ITS_MODEL = ("opencode", "gemini")  # as they are started
_POLITENESS = 0.5  # seconds to tell it that we stop, and to hear that it does


async def converse(talk: AcpPrompt) -> AsyncGenerator[Signal]:
    launch = talk.launch
    try:
        running = start(launch.argv, cwd=launch.cwd, env=launch.env, stdin=subprocess.PIPE, stderr=subprocess.PIPE)
        async with running as child:
            held = _Conversation(talk, child)
            try:
                yield ProgramStarted(await held.open())
                async for signal in held.answer():
                    try:
                        yield signal
                    finally:
                        if isinstance(signal, Over):  # whoever hears the last word stops listening
                            await held.part()
            except TooLong as end:
                raise end.failure(told_by(held.noise, launch)) from None
            finally:
                await held.close()
    except (Refused, BadInput) as error:
        raise Permanent(f"{talk.name}: {error.message}", hint=error.hint) from None


class _Conversation:
    def __init__(self, talk: AcpPrompt, child: Child) -> None:
        self.noise = Ends(STDERR_CAP)
        self._talk = talk
        self._child = child
        self._watch = ClockWatch(talk.name, talk.clocks)
        self._wire = PipeTransport(child, self._watch)
        self._connection = Connection(self._asked, self._wire)
        self._signals: asyncio.Queue[Signal] = asyncio.Queue()
        self._listening = asyncio.create_task(self._overhear())
        self._session = ""
        self._answering: asyncio.Task[None] | None = None
        self._text = ""  # of the message that is being written
        self._message = ""
        self._calls: dict[str, Mapping[str, Any]] = {}  # announced, and not known yet with what they are made
        self._told: set[str] = set()  # calls that were told of, or are ours
        self._used: Mapping[str, Any] = NOTHING

    async def open(self) -> str:
        """Open a session, new or gone on with; its id."""
        return await self._in_time(self._open())

    async def answer(self) -> AsyncGenerator[Signal]:
        self._answering = asyncio.create_task(self._prompt())
        while True:
            signal = await self._in_time(self._signals.get())
            self._watch.understood(signal)
            yield signal
            if isinstance(signal, Over):
                return

    async def part(self) -> None:
        """Give the program time to save its session, after its last word."""
        await self._leave()
        await happens(self._child.exited, within=self._talk.farewell)

    async def close(self) -> None:
        """Close our ends of the pipes. The process is ended by whoever started it."""
        await self._leave()
        self._listening.cancel()
        while not self._signals.empty():
            if isinstance(signal := self._signals.get_nowait(), ProgramSpent):
                self._talk.job.late(signal.usage)
        await self._connection.close()

    async def _leave(self) -> None:
        """Say that we stop, if the program is still at work, and end its input."""
        if self._answering and not self._answering.done():
            with suppress(ConnectionError, TimeoutError):
                async with asyncio.timeout(_POLITENESS):
                    cancel = CancelNotification(session_id=self._session)
                    await self._connection.send_notification(AGENT_METHODS["session_cancel"], _plain(cancel))
                    await asyncio.wait({self._answering})
            self._answering.cancel()
        self._child.stdin.close()

    # --- what we ask

    async def _open(self) -> str:
        capabilities = block(await self._greet(), "agentCapabilities")
        entry = self._talk.job.entry
        if wants_none(capabilities):
            entry.listed.set()
            return await self._enter(capabilities, [])
        if announces_http(capabilities):
            return await self._enter(capabilities, over_http(entry))
        with suppress(Permanent):  # of a program that refuses such servers
            await self._enter(capabilities, over_http(entry))
            if await self._asks_for_tools():
                return self._session
        return await self._enter(capabilities, by_a_process(entry))

    async def _asks_for_tools(self) -> bool:
        try:
            async with asyncio.timeout(PATIENCE):
                return await self._talk.job.entry.listed.wait()
        except TimeoutError:
            return False

    async def _enter(self, capabilities: Mapping[str, Any], servers: Servers) -> str:
        known, cwd = self._talk.job.session.id, str(self._talk.launch.cwd)
        if not known:
            made = await self._ask("session_new", NewSessionRequest(cwd=cwd, mcp_servers=list(servers)))
            self._session = text(made, "sessionId")
            await self._choose_model(made)
        elif capabilities.get("loadSession"):
            await self._ask("session_load", LoadSessionRequest(session_id=known, cwd=cwd, mcp_servers=list(servers)))
            await self._wire.quiet()  # it may still be telling what was said before
        elif "resume" in block(capabilities, "sessionCapabilities"):  # not first: opencode forgets our tools then
            again = ResumeSessionRequest(session_id=known, cwd=cwd, mcp_servers=list(servers))
            await self._ask("session_resume", again)
        else:
            raise Permanent(f"{self._talk.name} cannot continue a session")
        self._session = known or self._session
        return self._session

    async def _greet(self) -> Mapping[str, Any]:
        nothing = ClientCapabilities(
            fs=FileSystemCapabilities(read_text_file=False, write_text_file=False), terminal=False
        )
        us = Implementation(name="agent-worker", version=version("agent-worker"))
        greeting = InitializeRequest(protocol_version=PROTOCOL_VERSION, client_capabilities=nothing, client_info=us)
        answer = await self._ask("initialize", greeting)
        if answer.get("protocolVersion") != PROTOCOL_VERSION:
            raise Permanent(f"{self._talk.name} does not speak version {PROTOCOL_VERSION} of the protocol")
        return answer

    async def _choose_model(self, made: Mapping[str, Any]) -> None:
        """Name the model, where the program was not told it as it was started."""
        wanted = self._talk.job.program.model
        if not wanted or self._talk.name in _TOLD_ITS_MODEL:
            return
        if wanted in (text(each, "modelId") for each in blocks(block(made, "models"), "availableModels")):
            older = {"sessionId": self._session, "modelId": wanted}  # how programs offered them before
            await self._send("session/set_model", older)
            return
        choice = next((each for each in blocks(made, "configOptions") if each.get("category") == "model"), NOTHING)
        offered = [text(each, "value") for each in blocks(choice, "options")]
        if wanted not in offered:
            raise Permanent(f"{self._talk.name} does not offer the model {wanted}", hint=f"it has: {offered}"[:300])
        await self._ask(
            "session_set_config_option",
            SetSessionConfigOptionSelectRequest(session_id=self._session, config_id=text(choice, "id"), value=wanted),
        )

    async def _prompt(self) -> None:
        said = TextContentBlock(type="text", text=self._talk.prompt)
        try:
            answer = await self._ask("session_prompt", PromptRequest(session_id=self._session, prompt=[said]))
        except BackendFailure as failure:
            self._signals.put_nowait(Over(failure=failure))
            return
        self._signals.put_nowait(ProgramSpent(self._talk.words.spent(answer, self._used)))
        self._signals.put_nowait(Over(self._text.strip(), ended(self._talk.name, text(answer, "stopReason"))))

    async def _ask(self, method: str, request: BaseModel) -> Mapping[str, Any]:
        return await self._send(AGENT_METHODS[method], _plain(request))

    async def _send(self, method: str, request: dict[str, Any]) -> Mapping[str, Any]:
        try:
            answer = await self._connection.send_request(method, request)
        except RequestError as error:
            raise self._failure(error) from None
        except ConnectionError:
            raise await self._died() from None
        return answer if isinstance(answer, dict) else NOTHING

    def _failure(self, error: RequestError) -> BackendFailure:
        code = error.code if isinstance(error.code, int) else 0
        data = error.data if isinstance(error.data, dict) else NOTHING
        return self._talk.words.failure(code, str(error), data)

    async def _died(self) -> BackendFailure:
        name = self._talk.name
        if self._wire.refused:
            return Permanent(f"{name}: {self._wire.refused.message}")
        if not await happens(self._child.exited, within=_AFTER_END):
            return Crashed(f"{name} closed its output without an answer")
        await asyncio.wait({self._listening}, timeout=_AFTER_END)
        code, told = await self._child.wait(), told_by(self.noise, self._talk.launch)
        return Crashed(f"{name} ended without an answer (exit {code}){told and f': {told}'}")

    async def _in_time(self, work: Awaitable[T]) -> T:
        """Wait for an answer unless one of the clocks runs out first; each message moves them."""
        task = asyncio.ensure_future(work)
        try:
            while not task.done():
                if not (left := self._watch.left()):
                    raise self._watch.verdict()
                await asyncio.wait({task}, timeout=left)
            return task.result()
        finally:
            task.cancel()

    # --- what it asks and tells

    async def _asked(self, method: str, params: Any, is_notification: bool) -> dict[str, Any] | None:
        told = params if isinstance(params, dict) else NOTHING
        if method == CLIENT_METHODS["session_update"] and is_notification:
            self._updated(block(told, "update"))
        elif method == CLIENT_METHODS["session_request_permission"] and not is_notification:
            return {"outcome": self._permission(told)}
        elif not is_notification:
            raise RequestError.method_not_found(str(method))
        return None

    def _permission(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        program, call = self._talk.job.program, block(asked, "toolCall")
        self._text = ""
        self._called(call, asks=True)
        yes = may(program.access, call, program.cwd)
        wanted = ("allow_once", "allow_always") if yes else ("reject_once", "reject_always")
        offered = {text(each, "kind"): text(each, "optionId") for each in reversed(blocks(asked, "options"))}
        option = next((offered[kind] for kind in wanted if kind in offered), None)
        return {"outcome": "cancelled"} if option is None else {"outcome": "selected", "optionId": option}

    def _updated(self, update: Mapping[str, Any]) -> None:
        if self._answering is None:
            return  # what was said before we asked: the history of the session
        match update.get("sessionUpdate"):
            case "agent_message_chunk":
                self._said(update)
            case "tool_call" | "tool_call_update":
                over = update.get("status") in ("completed", "failed")
                if over or update.get("sessionUpdate") == "tool_call":
                    self._text = ""  # what it says after its last call is its answer
                self._called(update)
                if over:
                    ok = update.get("status") == "completed"
                    self._signals.put_nowait(ProgramReturned(text(update, "toolCallId"), outcome(update), ok))
            case "usage_update":
                self._used = update
                if not (usage := self._talk.words.spent(NOTHING, update)).is_nothing:
                    self._signals.put_nowait(ProgramSpent(usage))

    def _called(self, call: Mapping[str, Any], *, asks: bool = False) -> None:
        """Tell of a call once, as soon as it is known with what it is made: some tell that a moment later."""
        id = text(call, "toolCallId")
        if id in self._told:
            return
        known = {**self._calls.pop(id, NOTHING), **{name: value for name, value in call.items() if value}}
        if call.get("status") == "pending" and not known.get("rawInput") and not asks:
            self._calls[id] = known
            return
        self._told.add(id)
        if not is_ours(known):
            name = text(known, "title") or text(known, "kind") or "a tool"
            self._signals.put_nowait(Calling(id, name, json.dumps(given(known), ensure_ascii=False)))

    def _said(self, update: Mapping[str, Any]) -> None:
        piece, message = text(block(update, "content"), "text"), text(update, "messageId")
        if message != self._message:
            self._text, self._message = "", message
        self._text += piece
        if piece:
            self._signals.put_nowait(Said(piece, partial=True))

    async def _overhear(self) -> None:
        async for line in lines(self._child.stderr, cap=_STDERR_LINE):
            told = self._talk.words.overheard(line.decode(errors="replace"))
            if told is None:
                self.noise.add(line + b"\n")
            for signal in told or ():
                self._signals.put_nowait(signal)


def _plain(request: BaseModel) -> dict[str, Any]:
    return request.model_dump(mode="json", by_alias=True, exclude_none=True)
