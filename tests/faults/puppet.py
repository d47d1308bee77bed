"""A model that keeps nothing in memory: what it does follows from what it is asked and from the steps behind it.

So it may be killed at any moment and does the same again. A word in the message says what kind of work it is:

    work:k7 hops:2     talk, keep texts, hand over to the next member, for so many hops
    work:k7 steps:20   a tool loop of so many steps, one call of an outside tool in each
    work:k7 poison     kills its own process, unless there is an antidote
    work:k7 hold       goes on only when the gate is opened
    work:k7 team:2     add to a shared document, remember, propose, call on the next member, for so many hops

`k7` names the work; the name grows with each hop, so every text it produces is one of a kind.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import zlib
from collections.abc import Sequence
from pathlib import Path

from agent_worker.backends.backend import PastStep, Reply, StepSink, Turn, Usage
from agent_worker.tools.tool import Call, ToolContext, tool

_WORK = re.compile(r"work:([\w.]+)(?: (?:(hops|steps|team):(\d+)|(poison|hold|again)))?")
_PROPOSAL = re.compile(r"team_vote\(proposal=(\d+)")
_COST = Usage(input=10, output=5, usd=0.000_01)


def log_line(path: Path, line: str) -> None:
    """On the disk when this returns: the puppet may be killed in the next moment."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        os.write(descriptor, f"{line}\n".encode())
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@tool
async def outside(context: ToolContext, mark: str) -> str:
    """Have an effect that no transaction covers."""
    log_line(context.cwd / "outside.log", mark)
    return f"did {mark}"


@tool(repeatable=True)
async def outside_again(context: ToolContext, mark: str) -> str:
    """The same, and harmless when it happens twice."""
    log_line(context.cwd / "outside.log", mark)
    return f"did {mark}"


class Puppet:
    """One per agent. `journal` is where it notes each question it was asked, for the oracle.

    What its calls returned, as it was told, it notes beside that.
    """

    def __init__(self, name: str, members: Sequence[str], *, journal: Path, gate: asyncio.Event) -> None:
        self._name = name
        self._members = members
        self._journal = journal
        self._gate = gate

    async def reply(self, turn: Turn, steps: Sequence[PastStep], recorder: StepSink) -> Reply:
        asked = turn.prompt.rpartition("asks you «")[2]
        self._note_told(turn.run, steps)
        if draft := _PROPOSAL.search(asked):
            return self._vote(int(draft.group(1)), len(steps))
        found = _WORK.search(asked)
        if found is None:
            return Reply(text=f"{self._name} heard {zlib.crc32(asked.encode()):x}", usage=_COST)
        work, kind, count, word = found.group(1), found.group(2), int(found.group(3) or 0), found.group(4)
        if word == "poison" or " poison" in _inbox(turn.prompt):
            self._die(work)
        match kind or word:
            case "hold":
                log_line(self._journal, f"{work} hold")
                await self._gate.wait()
            case "steps":
                return self._march(work, count, len(steps), again="again" in asked)
            case "team":
                return self._take_part(work, count, len(steps))
        return self._chat(work, count, len(steps), {spec.name for spec in turn.tools})

    def _note_told(self, run: str, steps: Sequence[PastStep]) -> None:
        told = [
            {"agent": self._name, "run": run, "tool": call.tool, "arguments": call.arguments, "ok": result.ok}
            | {"text": result.text}
            for step in steps[-1:]
            for call in step.reply.calls
            if (result := step.results.get(call.id)) and call.tool not in ("outside", "outside_again")
        ]
        if told:
            log_line(self._journal.parent / "told.log", json.dumps(told))

    def _take_part(self, work: str, hops: int, done: int) -> Reply:
        """All that lasts: a line in a document, a memory, a proposal with a vote, and a word to the next."""
        mine = f"{work}.{self._name}"
        next_one = self._members[zlib.crc32(mine.encode()) % len(self._members)]
        append = Call("append", "team_doc_append", {"name": "log.md", "text": f"<{mine}>\n"})
        remember = Call("remember", "memory_write", {"key": mine, "value": f"fact of {mine}"})
        voters = sorted({self._name, next_one})
        propose = Call(
            "propose", "team_proposal_create", {"question": f"Keep {mine}?", "vote": "yes", "voters": voters}
        )
        send = Call("send", "channel_send", {"text": f"@{next_one} work:{mine} team:{hops - 1}"})
        plan = ((append, remember), (propose,), *([(send,)] if hops else []))
        return Reply(calls=plan[done], usage=_COST) if done < len(plan) else Reply(text=f"kept {mine}", usage=_COST)

    def _vote(self, proposal: int, done: int) -> Reply:
        if done:
            return Reply(text=f"{self._name} voted on {proposal}", usage=_COST)
        return Reply(calls=(Call("vote", "team_vote", {"proposal": proposal, "choice": "yes"}),), usage=_COST)

    def _die(self, work: str) -> None:
        if not (self._journal.parent / "antidote").exists():
            log_line(self._journal, f"{work} poison")
            os.kill(os.getpid(), signal.SIGKILL)

    def _march(self, work: str, count: int, done: int, *, again: bool) -> Reply:
        log_line(self._journal, f"{work} {done}")
        if done == count:
            return Reply(text=f"marched {work}", usage=_COST)
        name = "outside_again" if again else "outside"
        return Reply(calls=(Call("c", name, {"mark": f"{work}/{done}"}),), usage=_COST)

    def _chat(self, work: str, hops: int, done: int, tools: set[str]) -> Reply:
        """Two ways to work, chosen by the name of the work: speak at the end, or speak while working."""
        mine = f"{work}.{self._name}"
        if "channel_send" not in tools:
            return Reply(text=f"answer to {work}", usage=_COST)
        speaks_early = zlib.crc32(mine.encode()) % 2 == 0
        next_one = self._members[zlib.crc32(mine.encode()) % len(self._members)]
        hand_over = f"@{next_one} work:{mine} hops:{hops - 1}" if hops else f"finished {mine}"
        append = Call("append", "team_doc_append", {"text": f"<{mine}>\n"})
        keep = Call("keep", "resource_create", {"text": f"resource of {mine}"})
        send = Call("send", "channel_send", {"text": hand_over})
        plan = ((append, send), (keep,)) if speaks_early else ((keep,), (append,))
        if done < len(plan):
            return Reply(calls=plan[done], usage=_COST)
        return Reply(text=f"said enough about {mine}" if speaks_early else hand_over, usage=_COST)


def _inbox(prompt: str) -> str:
    return prompt.partition("your inbox «")[2].partition("«/")[0]
