"""Backends: which there are on this machine, and what each has shown it can do."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict

from agent_worker.backends.programs.known import KNOWN, found, version
from agent_worker.backends.programs.probe import ProbeResult, ProbeSink, probe
from agent_worker.core.clock import from_micros
from agent_worker.core.errors import BadInput, NotFound
from agent_worker.core.later import dataclass
from agent_worker.files.makers import scratch
from agent_worker.files.root import Root
from agent_worker.processes.environment import path_of_ours
from agent_worker.service.operation import operation
from agent_worker.service.service import Service
from agent_worker.service.trials import Trial

RESULTS = "tested.json"


@dataclass(frozen=True, slots=True)
class Tested:
    """What a program showed when it was tried, and which version of it that was."""

    version: str
    at: str  #: UTC
    seen: ProbeResult


@dataclass(frozen=True, slots=True)
class BackendStatus:
    name: str
    where: str  #: 'built in', the path of its program, or '' when that is not installed
    version: str
    preempts: str  #: where it can be interrupted for more urgent work: between steps, or between runs
    note: str
    tested: Tested | None = None


OTHERS = {
    each.name: each
    for each in (
        BackendStatus("sdk", "built in", "", "between steps", "any model API"),
        BackendStatus("mock", "built in", "", "between steps", "plays a script; no key, no cost"),
        BackendStatus("acp", "built in", "", "between runs", "any program that speaks ACP, by its command"),
    )
}


@operation("GET", "/backends")
async def backends(service: Service, only: str | None = None) -> list[BackendStatus]:
    """The backends, or `only` one; where their programs are, and what came of the last test of each."""
    if only is not None and only not in {*OTHERS, *KNOWN}:
        raise NotFound(f"there is no backend {only}", hint="agent-worker backends")
    tested = await asyncio.to_thread(_results, service)
    programs = await asyncio.gather(*(_status(name, tested.get(name)) for name in KNOWN if only in (None, name)))
    return [*(each for name, each in OTHERS.items() if only in (None, name)), *programs]


@operation("POST", "/backends/{name}/test")
async def backend_test(service: Service, name: str, model: str = "", project: str | None = None) -> BackendStatus:
    """Check what a program can do, with two tiny runs.

    They cost what such runs cost, which counts in what the project spends today.
    """
    if name not in KNOWN:
        raise BadInput(f"{name} is not a program that can be tested", hint=f"one of: {', '.join(KNOWN)}")
    if not (binary := _place(name)):
        raise NotFound(f"{name} is not installed", hint=KNOWN[name].install)

    @contextmanager
    def invite(guest: ProbeSink) -> Iterator[None]:
        with service.runtime.supervisor.visited(guest):
            yield

    trial = Trial(service, await service.project(project), model or name)
    with scratch("test") as place:
        backend = service.runtime.backends.to_try(name, model, place)
        try:
            seen = await probe(backend, invite, trial.charge, model=model)
        finally:
            await backend.close()
            await trial.charged()
    at = from_micros(service.now()).isoformat(timespec="seconds")
    await asyncio.to_thread(_keep, service, name, Tested(await version(binary), at, seen))
    return await _status(name, (await asyncio.to_thread(_results, service)).get(name))


async def _status(name: str, tested: Tested | None) -> BackendStatus:
    binary = _place(name)
    note = "experimental" if name == "cursor" else ""
    told = await version(binary) if binary else ""
    return BackendStatus(name, binary, told, "between runs", note or ("" if binary else KNOWN[name].install), tested)


def _place(name: str) -> str:
    return found(name, path_of_ours())


def _results(service: Service) -> dict[str, Tested]:
    root = _root(service)
    try:
        kept = json.loads(root.read_text(RESULTS)) if root else {}
        return {name: Tested(each["version"], each["at"], ProbeResult(**each["seen"])) for name, each in kept.items()}
    except (NotFound, ValueError, TypeError, KeyError):  # of an older version: to be tested again
        return {}


def _keep(service: Service, name: str, tested: Tested) -> None:
    if root := _root(service):
        kept = _results(service) | {name: tested}
        root.make_dirs()
        root.replace(RESULTS, json.dumps({each: asdict(result) for each, result in kept.items()}, indent=1))


def _root(service: Service) -> Root | None:
    place = service.runtime.programs
    return Root(place) if place else None
