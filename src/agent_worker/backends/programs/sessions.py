"""What is remembered of a program's conversation, so that a later run of the same work goes on with it.

The session id is kept as a step of its own the moment the program says it. A call that waited for a person is kept
the same way, and its answer opens the next prompt. Knows no process and no protocol.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path

from agent_worker.backends.backend import PastStep, Reply, StepSink, Turn, Usage
from agent_worker.core.later import dataclass
from agent_worker.tools.tool import Call

INTERRUPTED = (
    "You were interrupted while you worked on this. Go on from where you were. Whatever you had begun outside this "
    "conversation (a command, an edit, a message) may or may not have happened: look before you do it again."
)
LOST = (
    "Somebody worked on this before you and was interrupted. What was begun (a command, an edit, a message) may or may "
    "not have happened: look before you do it again."
)


@dataclass(frozen=True, slots=True)
class Session:
    program: str
    id: str = ""  #: empty before the program has told it
    charged: float = 0.0  #: dollars paid for it so far: some programs count a session's costs from its beginning

    def kept(self, *, usage: Usage | None = None, call: Call | None = None) -> Reply:
        """A step, not the last one, that keeps the session to go on with."""
        usage = usage or Usage()
        raw = json.dumps({"program": self.program, "session": self.id, "usd": self.charged + (usage.usd or 0.0)})
        return Reply(calls=(call,) if call else (), usage=usage, raw=raw, more=True)


def forget_sessions(programs: Path | None, owner: str) -> None:
    """Delete what any program kept for an agent from run to run, in the folder that was the agent's."""
    for folder in programs.glob(f"*/{owner}") if programs else ():
        shutil.rmtree(folder, ignore_errors=True)


def session_of(past: Sequence[PastStep], program: str) -> Session:
    """The last session that this program told of."""
    for step in reversed(past):
        try:
            known = json.loads(step.reply.raw or "null")
        except (ValueError, RecursionError):
            continue  # of another backend
        match known:
            case {"program": str(whose), "session": str(id), "usd": int() | float() as usd} if whose == program:
                return Session(program, id, usd)
    return Session(program)


async def opening(turn: Turn, sink: StepSink, *, resumes: bool) -> str:
    """What the program is told first. Raises Suspended while a person has still not answered."""
    parts = []
    if turn.past:
        parts.append(INTERRUPTED if resumes else LOST)
        parts += await _answers(turn.past, sink)
        sink.preface("\n\n".join(parts))
    return "\n\n".join([*parts, turn.prompt])


async def _answers(past: Sequence[PastStep], sink: StepSink) -> list[str]:
    """Answers to calls that ended the last run, because a person had to be asked."""
    number, told = len(past) - 1, []
    for call in past[number].reply.calls:
        result = await sink.call(number, call)  # the same id: it is not asked again
        words = json.dumps(call.arguments, ensure_ascii=False)
        told.append(f"Your call {call.tool}({words}) has its answer:\n{result.text}")
    return told
