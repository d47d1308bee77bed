"""Who is talked with in a session: the agents and teams of a project, as a choice that editors show.

As a configuration option, and as modes for programs that know only these. A door that was opened for one of them
offers that one.
"""

from __future__ import annotations

from collections.abc import Sequence

from acp.schema import (
    SessionConfigOptionSelect,
    SessionConfigSelectOption,
    SessionMode,
    SessionModeState,
)

from agent_worker.api.connected import ConnectedOperations
from agent_worker.core.errors import NotFound
from agent_worker.core.later import dataclass

WHO = "who"  #: the id of the option


@dataclass(frozen=True, slots=True)
class WhoChoice:
    who: str  #: `alice`, or `@review`
    about: str


async def choices(daemon: ConnectedOperations, project: str, only: str) -> list[WhoChoice]:
    """The agents and teams one can talk with. Raises NotFound where there are none."""
    agents = await daemon.call("agents_list", {"project": project})
    teams = await daemon.call("workflows_list", {"project": project})
    found = [
        *(WhoChoice(each["name"], "an agent") for each in agents if each["state"] != "broken"),
        *(WhoChoice(f"@{each['name']}", f"a team: {', '.join(each['members'])}") for each in teams),
    ]
    if only:
        found = [each for each in found if each.who.lower() == only.lower()]
    if not found:
        told = f"there is no {only} in {project}" if only else f"there is nobody to talk to in {project}"
        raise NotFound(told, hint="agent-worker ls" if only else "agent-worker init, there")
    return found


def options(offered: Sequence[WhoChoice], chosen: str) -> list[SessionConfigOptionSelect]:
    return [
        SessionConfigOptionSelect(
            type="select",
            id=WHO,
            name="Who",
            description="The agent or team that you talk to",
            category="model",  # programs have a place for that one; teams answer as a model does
            current_value=chosen,
            options=[SessionConfigSelectOption(value=c.who, name=c.who, description=c.about) for c in offered],
        )
    ]


def modes(offered: Sequence[WhoChoice], chosen: str) -> SessionModeState:
    return SessionModeState(
        current_mode_id=chosen,
        available_modes=[SessionMode(id=c.who, name=c.who, description=c.about) for c in offered],
    )
