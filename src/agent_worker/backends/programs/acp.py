"""Any program that speaks the Agent Client Protocol: one process and one prompt per run, over its standard streams.

The protocol says nothing of accounts, isolation and what an error means: a `Speaker` per program does (opencode.py,
gemini.py), and `PlainAcp` here is for all others. What a program asks leave for is answered by its agent's `access`.
Above: one_shot.py. Below: acp_talk.py, which knows the library.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import aclosing
from pathlib import Path
from typing import Any, Protocol

from agent_worker.backends.backend import Usage
from agent_worker.backends.programs.acp_prompt import AcpPrompt, Words
from agent_worker.backends.programs.failures import by_status
from agent_worker.backends.programs.json_fields import amount, block, count
from agent_worker.backends.programs.one_shot import ProgramJob, told_of_run
from agent_worker.backends.programs.program import Program
from agent_worker.backends.programs.runner import Clocks, Launch
from agent_worker.backends.programs.signals import Signal
from agent_worker.core.control_files import is_there
from agent_worker.core.errors import BackendFailure, Crashed, Overloaded, Permanent, Transient
from agent_worker.core.late_imports import taking_turns
from agent_worker.trust.powers import SETTINGS

_LOGIN_NEEDED = -32000
_NOT_UNDERSTOOD = range(-32702, -32599)  # the protocol's own errors; an internal one is -32603
_INTERNAL = -32603


class Speaker(Protocol):
    """What one program needs to be started, and how to read it."""

    farewell: float  #: seconds it may take to end by itself when its input ends

    def launch(self, job: ProgramJob) -> Launch:
        """How to start the program. The prompt in it is what the program is told in the session."""
        ...

    def words(self, job: ProgramJob) -> Words: ...


class Acp:
    """Drives a program over the Agent Client Protocol; a `Cli` for one_shot.py."""

    def __init__(self, speaker: Speaker) -> None:
        self._speaker = speaker

    async def run(self, job: ProgramJob, clocks: Clocks) -> AsyncGenerator[Signal]:
        launch = await asyncio.to_thread(self._speaker.launch, job)  # it writes files
        converse = await asyncio.to_thread(_converse)
        talk = AcpPrompt(job, told_of_run(launch, job), self._speaker.words(job), clocks, self._speaker.farewell)
        async with aclosing(converse(talk)) as signals:
            async for signal in signals:
                yield signal


def _converse() -> Callable[[AcpPrompt], AsyncGenerator[Signal]]:
    with taking_turns:
        from agent_worker.backends.programs.acp_talk import converse  # takes a second: this runs in a thread

    return converse


# --- what a program may do


def refuse_foreign_settings(program: Program) -> None:
    """Refuse a project with settings that the program would obey whatever it is told, unless the agent has full access.

    With full access they add nothing to what the agent may do, and the user has approved them. Otherwise an agent that
    edits files, or whoever wrote the project, could give the program any right.
    """
    if program.access == "full":
        return
    here = Path(os.path.abspath(program.cwd))
    for folder in (here, *(each for each in here.parents if each.is_relative_to(os.path.abspath(program.root)))):
        for name in SETTINGS[program.backend]:
            if is_there(folder / name):
                raise Permanent(
                    f"{program.backend} obeys the project's {name}, whatever it says",
                    hint="remove that, or write access: full into the agent's definition",
                )


# --- a program of which we know nothing


class PlainAcp:
    farewell = 2.0

    def launch(self, job: ProgramJob) -> Launch:
        program = job.program
        name, *arguments = program.command
        binary = name if os.sep in name else program.binary(name, install="install it, or give its full path")
        # The protocol has no place for who the agent is.
        prompt = job.prompt if job.session.id else f"{job.system}\n\n{job.prompt}"
        return Launch((binary, *arguments), program.cwd, program.environment(), prompt, (job.entry.token,))

    def words(self, job: ProgramJob) -> PlainWords:
        return PlainWords(job)


class PlainWords:
    def __init__(self, job: ProgramJob) -> None:
        self.job = job

    def overheard(self, line: str) -> Iterable[Signal] | None:
        return None

    def failure(self, code: int, message: str, data: Mapping[str, Any]) -> BackendFailure:
        name = self.job.program.backend
        told = f"{name}: {message}"[:500]
        if 400 <= code < 600:
            return by_status(name, code, message)
        if code == _LOGIN_NEEDED:
            return Permanent(told, hint=f"log in with {name} itself, or give it a key")
        match data.get("errorKind"):
            case "rate_limit" | "overloaded":
                return Overloaded(told)
            case "server_error" | "timeout":
                return Transient(told)
            case "invalid_request" | "authentication_failed" | "billing_error":
                return Permanent(told)
        return Permanent(told) if code in _NOT_UNDERSTOOD and code != _INTERNAL else Crashed(told)

    def spent(self, answer: Mapping[str, Any], update: Mapping[str, Any]) -> Usage:
        used, cost = block(answer, "usage"), block(update, "cost")
        cached = count(used, "cachedReadTokens")
        total = amount(cost, "amount") if cost.get("currency") == "USD" else None
        usd = None if total is None else max(0.0, total - self.job.session.charged)  # it is that of the session
        return Usage(count(used, "inputTokens") + cached, cached, count(used, "outputTokens"), usd)
