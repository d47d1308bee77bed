"""Tokens for other programs: made, listed, revoked. Only the person can; a token opens one door of one project."""

from __future__ import annotations

from dataclasses import field, fields
from typing import Annotated, Any

from pydantic import Field

from agent_worker.agents.loader import LoadedProject
from agent_worker.core.address import canonical
from agent_worker.core.later import dataclass
from agent_worker.service.addresses import no_agent
from agent_worker.service.operation import operation
from agent_worker.service.service import Service
from agent_worker.work import door_tokens
from agent_worker.work.door_tokens import Door, DoorToken

Days = Annotated[float, Field(gt=0, le=3660)]
_DAY = 24 * 3600 * 1_000_000


@dataclass(frozen=True, slots=True)
class TokenView:
    id: str
    name: str
    door: str
    opens: list[str] = field(default_factory=list)  #: agents and @workflows; none named is all
    made_at: int = 0
    ends_at: int | None = None


@dataclass(frozen=True, slots=True)
class NewToken(TokenView):
    token: str = ""  #: shown this once: only its digest is kept


@operation("POST", "/tokens")
async def token_create(
    service: Service,
    name: str,
    project: str | None = None,
    door: Door = "openai",
    opens: list[str] | None = None,
    days: Days | None = None,
) -> NewToken:
    """Make a token that lets another program talk to the agents and teams of a project, or to some of them."""
    loaded = await service.project(project)
    named = tuple(dict.fromkeys(_known(loaded, each) for each in opens or ()))
    token, digest = door_tokens.new_token()
    now = service.now()
    ends_at = None if days is None else now + int(days * _DAY)
    made = await service.write(loaded, door_tokens.add, name, door, named, digest, now=now, ends_at=ends_at)
    service.door_tokens.hold(digest, made)
    return NewToken(**_shown(made), token=token)


@operation("GET", "/tokens")
async def tokens_list(service: Service, project: str | None = None) -> list[TokenView]:
    """The tokens of a project. None of them is shown: only its name, and what it opens."""
    loaded = await service.project(project)
    return [TokenView(**_shown(each)) for each in await service.read(loaded, door_tokens.of_project)]


@operation("DELETE", "/tokens/{token}")
async def token_revoke(service: Service, token: str, project: str | None = None) -> TokenView:
    """End a token, by its name or its id: it is refused from now on."""
    loaded = await service.project(project)
    gone = await service.write(loaded, door_tokens.revoke, token)
    service.door_tokens.drop(gone.id)
    return TokenView(**_shown(gone))


async def hold_tokens(service: Service) -> None:
    """Let exactly those tokens hold that are stored; called after a start, and after a change by another host."""
    async with service.holding_tokens:  # what was read last holds
        service.door_tokens.hold_only(await service.runtime.database.read(door_tokens.all_held))


def _known(loaded: LoadedProject, name: str) -> str:
    """An agent or @workflow, spelled as its file spells it."""
    if name.startswith("@"):
        if (workflow := canonical(name[1:], loaded.project.workflows)) is None:
            raise loaded.project.no_workflow(name[1:])
        return f"@{workflow}"
    if (agent := canonical(name, loaded.agents)) is None:
        raise no_agent(name, loaded.agents)
    return agent


def _shown(token: DoorToken) -> dict[str, Any]:
    shown = {each.name: getattr(token, each.name) for each in fields(TokenView)}
    return shown | {"opens": list(token.opens)}
