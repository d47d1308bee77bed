"""Who an agent is, as a person looks at it and decides about it: versions, proposals, drift."""

from __future__ import annotations

import asyncio
from dataclasses import field
from typing import Any, Literal

from agent_worker.agents.observing import evolution_of
from agent_worker.core.errors import NotFound
from agent_worker.core.later import dataclass
from agent_worker.identity import drift, past_work, proposals
from agent_worker.identity.drift import WeekKept
from agent_worker.identity.evolution import Evolution
from agent_worker.identity.proposals import SoulProposal
from agent_worker.identity.soul import CurrentSoul, SoulVersion
from agent_worker.memory.judging import kept_answers
from agent_worker.service.messages import agent_id
from agent_worker.service.operation import operation
from agent_worker.service.service import Service


@dataclass(frozen=True, slots=True)
class ProposedChange:
    """A change of a soul that was proposed, with what it rests on."""

    id: str
    diff: str
    risk: str  #: addition | change | removal
    by: str  #: guard | agent | user
    evidence: list[dict[str, str]]
    at: str
    expires: str
    state: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class SoulShown:
    """The soul that holds now."""

    text: str  #: as YAML
    soul: dict[str, Any]
    version: int
    evolution: str  #: propose | auto | disabled
    problems: list[str]  #: mistakes in its files: the last good version is used
    proposals: list[ProposedChange]  #: that wait for a person


@dataclass(frozen=True, slots=True)
class VersionShown:
    number: int
    at: str
    by: str  #: definition | user | guard | agent
    reason: str
    diff: str  #: against the version before
    evidence: list[dict[str, str]] = field(default_factory=list)
    text: str = ""  #: the whole soul; only where one version was asked for


@dataclass(frozen=True, slots=True)
class PrincipleShown:
    principle: str
    probe: str  #: how it is measured; '' when it is not
    kept: int  #: of the last answers
    of: int
    share: float | None
    fell: bool
    weeks: list[WeekKept]


@dataclass(frozen=True, slots=True)
class DriftShown:
    """How an agent kept to its soul."""

    principles: list[PrincipleShown]
    changed: float  #: share of the soul that is new, or went, within 30 days; 0 for a single change


@dataclass(frozen=True, slots=True)
class SoulVerdict:
    proposal: str
    state: str
    version: int  #: of the soul, afterwards
    told: str  #: in words


@operation("GET", "/agents/{name}/soul")
async def soul_show(service: Service, name: str, project: str | None = None) -> SoulShown:
    """Who an agent is now, and the changes that wait for you."""
    evolution = await _evolution(service, name, project)
    return await _shown(evolution, await evolution.settled())


@operation("PUT", "/agents/{name}/soul")
async def soul_edit(service: Service, name: str, text: str, was: str, project: str | None = None) -> SoulShown:
    """Replace an agent's soul, written as YAML, if it is still what it `was`. The old one is kept as a version."""
    evolution = await _evolution(service, name, project)
    await evolution.edit(service.runtime.database.redact(text), was=was)
    return await _shown(evolution, await evolution.settled())


@operation("GET", "/agents/{name}/soul/versions")
async def soul_log(service: Service, name: str, project: str | None = None) -> list[VersionShown]:
    """Every version of an agent's soul, oldest first."""
    found = await (await _evolution(service, name, project)).settled()
    if not found.versions:
        return [VersionShown(1, "", "definition", "as the definition says", "")]
    return [_version(each) for each in found.versions]


@operation("GET", "/agents/{name}/soul/versions/{number}")
async def soul_version(service: Service, name: str, number: int, project: str | None = None) -> VersionShown:
    """One version of an agent's soul: what it changed, why, who did it, and the whole text."""
    found = await (await _evolution(service, name, project)).settled()
    if not found.versions and number == 1:
        return VersionShown(1, "", "definition", "as the definition says", "", text=found.text)
    version = next((each for each in found.versions if each.number == number), None)
    if version is None:
        raise NotFound(f"there is no version {number} of this soul", hint=f"agent-worker agent soul {name} log")
    return _version(version, whole=True)


@operation("POST", "/agents/{name}/soul/versions/{number}")
async def soul_rollback(service: Service, name: str, number: int, project: str | None = None) -> SoulShown:
    """Give an agent an earlier version of its soul, byte for byte. The later versions are kept too."""
    evolution = await _evolution(service, name, project)
    if number == 1 and not (await evolution.settled()).versions:
        return await _shown(evolution, await evolution.settled())
    await soul_version(service, name, number, project)  # NotFound
    await evolution.rollback(number)
    return await _shown(evolution, await evolution.settled())


@operation("GET", "/agents/{name}/soul/proposals")
async def soul_proposals(service: Service, name: str, project: str | None = None) -> list[ProposedChange]:
    """Every change ever proposed for an agent's soul, and what happened to it."""
    return [_proposed(each) for each in (await (await _evolution(service, name, project)).known()).entries]


@operation("POST", "/agents/{name}/soul/proposals/{proposal}")
async def soul_decide(
    service: Service,
    name: str,
    proposal: str,
    verdict: Literal["approve", "reject"],
    reason: str = "",
    project: str | None = None,
) -> SoulVerdict:
    """Approve or reject a change to an agent's soul. What you reject is not proposed again."""
    return await decide(service, name, proposal, verdict, reason, project)


async def decide(
    service: Service,
    name: str,
    proposal: str,
    verdict: Literal["approve", "reject"],
    reason: str,
    project: str | None,
    *,
    digest: str | None = None,
) -> SoulVerdict:
    """Decide on a proposal; with `digest`, only if it still says what a person was shown."""
    evolution = await _evolution(service, name, project)
    await evolution.known()
    found = await asyncio.to_thread(proposals.named, evolution.bearer.home, proposal)
    if verdict == "reject":
        await evolution.reject(found, service.runtime.database.redact(reason))
        version = (await evolution.settled()).version
        return SoulVerdict(found.id, "rejected", version, f"{found.id} was rejected, and will not come back")
    await evolution.approve(found, digest=digest)
    version = (await evolution.settled()).version
    return SoulVerdict(
        found.id, "approved", version, f"the soul of {evolution.bearer.name} is now at version {version}"
    )


@operation("GET", "/agents/{name}/soul/drift")
async def soul_drift(service: Service, name: str, project: str | None = None) -> DriftShown:
    """How well each principle of an agent's soul was kept, week by week, and how much the soul changed lately."""
    evolution = await _evolution(service, name, project)
    found = await evolution.settled()
    look_back = {"limit": drift.LOOK_BACK, "with_tools": drift.LOOK_BACK}
    turns = await evolution.database.read(past_work.turns, evolution.bearer.agent, **look_back)
    answers = await asyncio.to_thread(kept_answers, evolution.bearer.home)
    kept = await asyncio.to_thread(drift.adherence, found, turns, answers)
    shown = [PrincipleShown(e.principle, e.probe, e.kept, e.of, e.share, e.fell, list(e.weeks)) for e in kept]
    return DriftShown(shown, drift.changed_lately(found, service.runtime.clock.now()))


async def _shown(evolution: Evolution, found: CurrentSoul) -> SoulShown:
    known = await evolution.known()
    problems = [*filter(None, [found.problem]), *known.problems]
    waiting = [_proposed(each) for each in known.open]
    return SoulShown(found.text, found.record, found.version, evolution.bearer.policy, problems, waiting)


def _version(version: SoulVersion, *, whole: bool = False) -> VersionShown:
    evidence = [each.record for each in version.evidence]
    text = version.text if whole else ""
    return VersionShown(version.number, version.at, version.by, version.reason, version.diff, evidence, text)


def _proposed(each: SoulProposal) -> ProposedChange:
    evidence = [piece.record for piece in each.evidence]
    change = each.change
    return ProposedChange(
        each.id, change.diff, change.risk, each.by, evidence, each.at, each.expires, each.state, each.reason
    )


async def _evolution(service: Service, name: str, project: str | None) -> Evolution:
    loaded = await service.project(project)
    worker = service.runtime.registry.worker(agent_id(loaded, name))
    evolution = evolution_of(worker, service.database(loaded), service.runtime.clock)
    if evolution is None:
        raise NotFound(f"{name} has no files of its own")
    await service.see_files(worker.agent)
    return evolution
