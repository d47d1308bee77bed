"""One prompt and what comes of it: what the daemon tells of the work becomes updates that an editor shows.

Followed until it is over, also when the daemon was started anew meanwhile. A question that the editor cannot put to the
person ends the turn in words; the work waits, and the next prompt is the answer to it.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from typing import Any, Literal

from acp import RequestError
from acp.helpers import plan_entry, text_block, tool_content, update_plan
from acp.schema import (
    AgentMessageChunk,
    AgentThoughtChunk,
    PromptResponse,
    TextContentBlock,
    ToolCallProgress,
    ToolCallStart,
    Usage,
)

from agent_worker.api.connected import ConnectedOperations
from agent_worker.core.errors import AgentWorkerError
from agent_worker.core.ids import new_id
from agent_worker.core.later import dataclass
from agent_worker.core.text import clean
from agent_worker.doors.acp.asking import ASKED, Editor, ask, in_words
from agent_worker.doors.acp.texts import refusal

_TODOS = ("todo_add", "todo_done", "todo_list")
_KINDS = {
    "read_file": "read",
    "list_files": "read",
    "search_files": "search",
    "edit_file": "edit",
    "write_file": "edit",
    "bash": "execute",
    "shell": "execute",
}
_LIMITS = ("limit", "incomplete")


@dataclass(frozen=True, slots=True)
class SessionPlace:
    """Where a session is held: with an agent, or in a team's channel."""

    session: str  #: what the editor calls it
    project: str
    at: str  #: an address
    is_team: bool


class AcpTurn:
    def __init__(self, daemon: ConnectedOperations, editor: Editor, place: SessionPlace) -> None:
        self._daemon = daemon
        self._editor = editor
        self._place = place
        self._work = ""  # what it can be cancelled by
        self._over: asyncio.Future[PromptResponse] = asyncio.get_running_loop().create_future()
        self._following: asyncio.Task[None] | None = None
        self._asks: dict[str, asyncio.Task[None]] = {}
        self._parked: Mapping[str, Any] | None = None  # a question that the next prompt answers
        self._cancelled = False
        self._message = ""  # id of the text that is being written
        self._text = ""
        self._said = False
        self._uses = 0
        self._open: dict[tuple[str, str], dict[str, str]] = defaultdict(dict)  # calls that have not returned → our ids
        self._todos: dict[str, list[tuple[str, bool]]] = {}

    @property
    def is_over(self) -> bool:
        return self._following is None or self._following.done()

    @property
    def is_asked(self) -> bool:
        """Is a prompt being answered?"""
        return not self._over.done()

    @property
    def waits_for_words(self) -> bool:
        return self._parked is not None and not self.is_over

    async def begin(self, text: str) -> PromptResponse:
        question = {"agent": self._place.at, "message": text, "project": self._place.project, "key": new_id("k")}
        try:
            records = await self._daemon.stream("run", question)
        except BaseException:
            self._over.cancel()  # nothing was asked
            raise
        self._following = asyncio.create_task(self._follow(records))
        return await self._wait()

    async def answer(self, text: str) -> PromptResponse:
        """Take the prompt as the answer to the question that the last one ended with."""
        assert self._parked is not None
        item, self._parked = self._parked, None
        self._over = asyncio.get_running_loop().create_future()
        arguments = {"item": item["id"], "action": "answer", "text": text, "other": True}
        await self._daemon.call("inbox_answer", arguments)
        return await self._wait()

    async def cancel(self) -> None:
        """End the work, whoever does it by now."""
        self._cancelled = True
        if self._work:
            with suppress(AgentWorkerError):  # it was over
                await self._daemon.call("work_cancel", {"id": self._work, "whole": True})
        self._end(PromptResponse(stop_reason="cancelled"))

    async def close(self) -> None:
        """Stop following. The work goes on."""
        tasks = [*self._asks.values(), *([self._following] if self._following else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _wait(self) -> PromptResponse:
        answer = await asyncio.shield(self._over)
        if self._cancelled:
            await self.close()
        return answer

    # --- what happens

    async def _follow(self, records: AsyncIterator[dict[str, Any]]) -> None:
        try:
            async for record in records:
                await self._told(record)
            self._fail(RequestError(-32603, "the daemon ended (your question is kept)"))
        except AgentWorkerError as error:
            self._fail(refusal(error))
        except ConnectionError:  # the editor has left: the work goes on
            self._end(PromptResponse(stop_reason="cancelled"))
        finally:
            for task in self._asks.values():
                task.cancel()

    async def _told(self, record: Mapping[str, Any]) -> None:
        match record:
            case {"event": "begun"}:
                await self._begun(record)
            case {"event": "chunk", "text": text} if not self._place.is_team:
                await self._write(text)
            case {"event": "message", "kind": "message", "sender": sender} if self._place.is_team:
                if sender not in ("user", "system"):
                    await self._speak(sender, await self._whole(record))
            case {"event": "tool_call"}:
                await self._called(record)
            case {"event": "tool_result"}:
                await self._returned(record)
            case {"event": "step" | "retry"}:
                self._message = ""
            case {"event": "inbox", "kind": kind, "id": id} if kind in ASKED:
                self._asks[id] = asyncio.create_task(self._ask(id))
            case {"event": "settled", "id": id} if id in self._asks:
                self._asks.pop(id).cancel()  # elsewhere
            case {"event": "waiting", "what": "key", "name": name, "reason": reason}:
                await self._note(f"{name} waits: {reason}")
            case {"event": "done"}:
                await self._done(record)
            case {"event": "error"}:
                error = AgentWorkerError(record["message"], hint=record.get("hint", ""))
                self._fail(refusal(error))

    async def _begun(self, record: Mapping[str, Any]) -> None:
        self._work = record.get("work") or record.get("message") or ""
        if self._cancelled:  # before it had a name
            await self.cancel()
        if self._place.is_team and (woke := record.get("woke")):
            thought = TextContentBlock(type="text", text=f"called on: {', '.join(woke)}\n")
            await self._update(AgentThoughtChunk(session_update="agent_thought_chunk", content=thought))

    async def _done(self, record: Mapping[str, Any]) -> None:
        text, state, reason = record["text"], record["state"], " ".join(record["reason"].split())
        if text.strip() and text.strip() != self._text.strip():
            self._message = ""
            await self._write(text)
        if state != "done":
            await self._note(f"not finished: {reason or state}. See: agent-worker inbox")
        used = record["usage"]
        usage = Usage(
            input_tokens=used["input"], output_tokens=used["output"], total_tokens=used["input"] + used["output"]
        )
        stop = "max_turn_requests" if state in _LIMITS else "end_turn"
        self._end(PromptResponse(stop_reason="cancelled" if self._cancelled else stop, usage=usage))

    def _end(self, response: PromptResponse) -> None:
        if not self._over.done():
            self._over.set_result(response)

    def _fail(self, error: RequestError) -> None:
        if self._cancelled:
            self._end(PromptResponse(stop_reason="cancelled"))
        elif not self._over.done():
            self._over.set_exception(error)

    # --- words

    async def _write(self, text: str) -> None:
        begins = not self._message
        if begins:
            self._message, self._text = new_id("m"), ""
        self._text += text
        apart = "\n\n" if begins and self._said else ""
        self._said = True
        block = TextContentBlock(type="text", text=apart + clean(text))
        chunk = AgentMessageChunk(session_update="agent_message_chunk", content=block, message_id=self._message)
        await self._update(chunk)

    async def _speak(self, sender: str, text: str) -> None:
        self._message = ""
        await self._write(f"**{sender}:** {text}")
        self._text = text  # by which the end knows that it was said
        self._message = ""

    async def _note(self, text: str) -> None:
        self._message = ""
        await self._write(f"[{text}]")
        self._message = ""

    async def _whole(self, record: Mapping[str, Any]) -> str:
        """A long message of a member, with all that it says."""
        if record["resource"] is None:
            return str(record["text"])
        kept = {"at": self._place.at, "id": record["resource"], "project": self._place.project}
        with suppress(AgentWorkerError):
            return str((await self._daemon.call("resource_get", kept))["text"])
        return str(record["text"])

    # --- tools

    async def _called(self, record: Mapping[str, Any]) -> None:
        self._message = ""
        self._uses += 1
        id = f"{record['run']}-{self._uses}"
        self._open[record["run"], record["tool"]][record["call"]] = id
        who = f"{record['name']}: " if self._place.is_team else ""
        start = ToolCallStart(
            session_update="tool_call",
            tool_call_id=id,
            title=clean(f"{who}{record['tool']}"),
            kind=_KINDS.get(record["tool"], "other"),
            status="in_progress",
            raw_input=_given(record["arguments"]),
        )
        await self._update(start)

    async def _returned(self, record: Mapping[str, Any]) -> None:
        id = self._open[record["run"], record["tool"]].pop(record["call"], None)
        if id is not None:
            done = ToolCallProgress(
                session_update="tool_call_update",
                tool_call_id=id,
                status="completed" if record["ok"] else "failed",
                content=[tool_content(text_block(clean(record["text"])))],
            )
            await self._update(done)
        if record["tool"] in _TODOS:
            await self._plan(record["name"])

    async def _plan(self, agent: str) -> None:
        """Show the todos of the agents that changed or looked at theirs, as the editor's plan."""
        with suppress(AgentWorkerError):  # it has none of its own
            items = await self._daemon.call("todos_list", {"name": agent, "project": self._place.project})
            self._todos[agent] = [(item["text"], item["done"]) for item in items]
            entries = [
                plan_entry(clean(f"{who}: {text}" if self._place.is_team else text), status=_status(done))
                for who, todos in self._todos.items()
                for text, done in todos
            ]
            await self._update(update_plan(entries))

    # --- questions

    async def _ask(self, id: str) -> None:
        try:
            item = await self._daemon.call("inbox_show", {"item": id})
            calls = [*self._open.get((item["run"], item["tool"] or "ask_user"), {}).values()]
            call = calls[-1] if calls else f"inbox-{id}"
            reply = await ask(self._editor, self._place.session, item, call)
            if reply is not None:
                await self._daemon.call("inbox_answer", {"item": id} | reply)
            elif not self._cancelled:
                await self._park(item)
        except (AgentWorkerError, ConnectionError):
            pass  # answered elsewhere meanwhile, or the editor has left: it stays in the inbox

    async def _park(self, item: Mapping[str, Any]) -> None:
        self._parked = item if item["kind"] == "question" else None
        self._message = ""
        await self._write(in_words(item))
        self._message = ""
        self._end(PromptResponse(stop_reason="end_turn"))

    async def _update(self, update: Any) -> None:
        await self._editor.client.session_update(self._place.session, update)


def _given(given: Mapping[str, Any]) -> dict[str, Any]:
    return {name: clean(value) if isinstance(value, str) else value for name, value in given.items()}


def _status(done: bool) -> Literal["completed", "pending"]:
    return "completed" if done else "pending"
