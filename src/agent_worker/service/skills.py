"""Skills from elsewhere: shown with nothing hidden, then copied into the project under the name of their origin.

Only text files under a cap are taken, and nothing of a skill is run by importing it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import PurePosixPath

from agent_worker.agents.loader import LoadedProject
from agent_worker.core.errors import AgentWorkerError, NotFound, Refused, Stale
from agent_worker.core.later import dataclass
from agent_worker.core.remote import Fetched, Remote, looks_like, parse_remote
from agent_worker.files.root import Root
from agent_worker.service.operation import operation
from agent_worker.service.service import Service
from agent_worker.tools.skills import MAIN, find_skills, text_of
from agent_worker.trust.powers import Power, powers_of
from agent_worker.trust.preview import revealed

FOLDER = ".agents/skills"
_CONTROLS = (
    ".mcp.json",
    "settings.json",
    "settings.local.json",
    "hooks.json",
)  # programs obey these where they find them


@dataclass(frozen=True, slots=True)
class SkillFile:
    path: str
    text: str  #: with everything that one cannot see written out


@dataclass(frozen=True, slots=True)
class SkillOffer:
    """A skill as it would be imported."""

    name: str  #: owner/repo/skill
    source: str
    commit: str
    files: list[SkillFile]
    left_out: list[str]  #: what is not taken, each with the reason
    warnings: list[str]


@operation("POST", "/skills/look")
async def skill_look(service: Service, source: str, project: str | None = None) -> SkillOffer:
    """What is in a skill elsewhere. Looking imports nothing."""
    loaded = await service.project(project)
    fetched = await _fetched(service, source)
    return await asyncio.to_thread(_offer, fetched, loaded)


@operation("POST", "/skills/import")
async def skill_import(service: Service, source: str, commit: str, project: str | None = None) -> SkillOffer:
    """Copy a skill into the project, as it was looked at. An older one of the same name is replaced."""
    loaded = await service.project(project)
    fetched = await _fetched(service, source)
    if fetched.commit != commit:
        raise Stale(f"{source} has moved since you looked", hint=f"agent-worker skill import {source}")
    offer = await asyncio.to_thread(_offer, fetched, loaded)
    waiting = await _waiting(service, loaded)
    await asyncio.to_thread(_copy, fetched, offer, Root(loaded.project.root).beneath(FOLDER))
    # The person has seen it: those who may use the folder already may go on.
    new = [p for p in await _waiting(service, loaded) if p.kind == "skills" and p.key not in {w.key for w in waiting}]
    await asyncio.to_thread(service.runtime.gate.approve, loaded.project.root, new)
    await service.remake_kit(loaded)
    return offer


async def _fetched(service: Service, source: str) -> Fetched:
    """The skill as its source has it now. What was imported lies in the project, so nothing needs a lock."""
    remote = _skill(source)
    return await service.remotes().newest(remote, folder=remote.path)


def _skill(source: str) -> Remote:
    remote = parse_remote(source.removesuffix(f"/{MAIN}"))
    if PurePosixPath(remote.path).name.startswith("."):
        raise Refused(f"{remote.path} is not the folder of a skill", hint=f"the folder that holds its {MAIN}")
    return remote


def _offer(fetched: Fetched, loaded: LoadedProject) -> SkillOffer:
    files, left_out = [], list(fetched.left_out)
    for path in sorted(str(file.relative_to(fetched.root)) for file in fetched.root.rglob("*") if file.is_file()):
        try:
            if PurePosixPath(path).name.lower() in _CONTROLS:
                raise Refused("a program would obey it")
            files.append(SkillFile(path, revealed(text_of(Root(fetched.root), path))))
        except AgentWorkerError as error:
            left_out.append(f"{revealed(path)} ({error.message})")
    if MAIN not in [file.path for file in files]:
        raise NotFound(f"there is no {MAIN} in {fetched.remote.path}", hint="name the folder of a skill")
    name = f"{fetched.remote.namespace}/{PurePosixPath(fetched.remote.path).name}"
    known = find_skills([loaded.project.root / FOLDER])
    return SkillOffer(
        name=name,
        source=str(fetched.remote),
        commit=fetched.commit,
        files=files,
        left_out=left_out,
        warnings=[
            f"{name} looks like {one.name}, which is here already" for one in known if looks_like(name, one.name)
        ],
    )


async def _waiting(service: Service, loaded: LoadedProject) -> Iterable[Power]:
    powers = await asyncio.to_thread(powers_of, loaded.project)
    waiting = await asyncio.to_thread(service.runtime.gate.unapproved, loaded.project.root, powers)
    return [one.power for one in waiting]


def _copy(fetched: Fetched, offer: SkillOffer, folder: Root) -> None:
    if folder.exists(offer.name):
        folder.remove_tree(offer.name)
    source, target = Root(fetched.root), folder.beneath(offer.name)
    for file in offer.files:
        target.replace(file.path, source.read_bytes(file.path))
