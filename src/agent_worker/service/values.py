"""Agents and teams that a program hands over as values, and the calls that it makes for them in its own process.

They belong to a project like those in its files, with identity and folder, for as long as this process lives; a name
that a file has is refused. A program that has functions listens for calls (`values_calls`) and answers each
(`values_answer`). What happens while it does not listen: tools/program_functions.py.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import field, replace
from typing import Any

from agent_worker.agents.loader import LoadedProject
from agent_worker.core.address import canonical, check_name, check_no_secret
from agent_worker.core.errors import BadInput, NotFound, Refused
from agent_worker.core.ids import new_id
from agent_worker.core.later import dataclass
from agent_worker.core.text import one
from agent_worker.definitions.loading import agent_value, workflow_value
from agent_worker.service.open_projects import ProjectValues
from agent_worker.service.operation import Stream, StreamItem, operation
from agent_worker.service.service import Service
from agent_worker.tools.program_functions import FunctionSpec, Gone, ProgramFunctions
from agent_worker.tools.tool import Result
from agent_worker.trust.allowances import THE_PROJECT
from agent_worker.trust.powers import powers_of, powers_of_agent

GRACE = 30.0  #: seconds after which a program that should have given up a call is not waited for any longer


@dataclass(frozen=True, slots=True)
class HandedOver:
    """What a project has of programs now."""

    agents: list[str] = field(default_factory=list)
    workflows: list[str] = field(default_factory=list)


@operation("PUT", "/values")
async def values_put(
    service: Service,
    program: str,
    project: str | None = None,
    agents: dict[str, dict[str, Any]] | None = None,
    workflows: dict[str, dict[str, Any]] | None = None,
    functions: dict[str, list[FunctionSpec]] | None = None,
) -> HandedOver:
    """Agents and workflows that are in no file, each written as its file would be; and the functions of each agent.

    `program` is a name of the caller's own, by which it listens for calls of these functions.
    """
    loaded = await service.project(project)
    root, offered = loaded.project.root, service.runtime.backends.functions
    _refuse_files(service, loaded, agents or {}, workflows or {})
    made = {name: agent_value(name, written, root=root) for name, written in (agents or {}).items()}
    known = {**loaded.project.agents, **made}
    teams = {name: workflow_value(name, written, known, root=root) for name, written in (workflows or {}).items()}
    changed = [offered.offer(root, name, program, tuple(specs)) for name, specs in (functions or {}).items()]
    values = ProjectValues(made, teams)
    await asyncio.to_thread(_let_pass, service, loaded, values)
    await service.add_values(loaded, values, again=any(changed))
    return HandedOver(list(made), list(teams))


@operation("GET", "/values/{program}")
async def values_calls(service: Service, program: str) -> Stream:
    """Calls of the functions of a program, for as long as it listens: `call`, and `cancel` of one that nobody wants."""
    return ListeningProgram(service.runtime.backends.functions, program, service.closing)


@operation("POST", "/values/{program}/{call}")
async def values_answer(service: Service, program: str, call: str, text: str, ok: bool = True) -> bool:
    """The result of a call. False if nobody waits for it any more."""
    host = service.runtime.backends.functions.host(program)
    if not isinstance(host, ListeningProgram):
        raise NotFound(f"no program {program} listens here", hint=f"GET /values/{program} first")
    return host.answer(call, Result(text, ok))


def _refuse_files(service: Service, loaded: LoadedProject, agents: Iterable[str], workflows: Iterable[str]) -> None:
    project = loaded.project
    for kind, names, files in (
        ("agent", agents, {**project.agent_files, **project.broken}),
        ("workflow", workflows, project.workflow_files),
    ):
        for name in names:
            check_no_secret(check_name(name), service.runtime.database.redact, of=one(kind))
            if (taken := canonical(name, files)) is not None:
                where = files[taken].relative_to(project.root)
                told = f'use it by its name, "{taken}", or give the value another one'
                raise Refused(f"{name} is a file of this project ({where}): a value cannot have its name", hint=told)
    if quick := [name for name in agents if canonical(name, loaded.quick)]:
        raise Refused(f"there is a quick agent {quick[0]}", hint=f"agent-worker stop {quick[0]}, or another name")


def _let_pass(service: Service, loaded: LoadedProject, values: ProjectValues) -> None:
    """Approve what a program of the user's hands over, which is the user's own word; not what agents in files do.
    Blocks.
    """
    project, gate = values.beside(loaded.project), service.runtime.gate
    if gate.is_open:
        return
    own = {name: agent for name, agent in project.agents.items() if name not in project.agent_files}
    powers = [power for agent in values.agents.values() for power in powers_of_agent(agent, project.root)]
    powers += [power for team in values.workflows.values() for power in powers_of(replace(project, agents=own), team)]
    gate.let_pass(project.root, [power for power in powers if power.who != THE_PROJECT])


class ListeningProgram:
    """A program that listens: the stream of its calls, and who makes them."""

    def __init__(self, functions: ProgramFunctions, program: str, closing: asyncio.Event) -> None:
        if not program or len(program) > 100:
            raise BadInput("a program needs a name of at most 100 characters")
        self._functions = functions
        self._program = program
        self._closing = closing
        self._told: list[StreamItem] = []
        self._stirred = asyncio.Event()
        self._waiting: dict[str, asyncio.Future[Result]] = {}
        self._ending = asyncio.create_task(self._end())
        functions.arrive(program, self)

    async def __aiter__(self) -> AsyncIterator[Sequence[StreamItem]]:
        yield [StreamItem("listening", json.dumps({"event": "listening", "program": self._program}))]
        while not self._closing.is_set():
            self._stirred.clear()
            if self._told:
                told, self._told = self._told, []
                yield told
            else:
                await self._stirred.wait()

    async def close(self) -> None:
        self._functions.leave(self._program, self)
        self._ending.cancel()
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(Gone())

    async def call(self, agent: str, spec: FunctionSpec, arguments: dict[str, Any]) -> Result:
        id = new_id("c")
        waiting: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        self._waiting[id] = waiting
        self._tell("call", {"id": id, "agent": agent, "function": spec.name, "arguments": arguments})
        try:
            async with asyncio.timeout(spec.within + GRACE):
                return await waiting
        except TimeoutError:
            self._tell("cancel", {"id": id})
            raise Refused(f"{spec.name} did not finish within {spec.within:g} s") from None
        except asyncio.CancelledError:
            self._tell("cancel", {"id": id})
            raise
        finally:
            del self._waiting[id]

    def answer(self, call: str, result: Result) -> bool:
        waiting = self._waiting.get(call)
        if waiting is None or waiting.done():
            return False
        waiting.set_result(result)
        return True

    def _tell(self, kind: str, data: dict[str, Any]) -> None:
        self._told.append(StreamItem(kind, json.dumps({"event": kind} | data)))
        self._stirred.set()

    async def _end(self) -> None:
        await self._closing.wait()
        self._stirred.set()
