"""Settings as a person sees them: what holds, where it comes from, what it does."""

from __future__ import annotations

import os
from typing import Literal

from agent_worker.core.later import dataclass
from agent_worker.definitions.settings import FILE, VARIABLES, ProjectSettings, Scope, Settings, scope_of, shown
from agent_worker.service.operation import operation
from agent_worker.service.service import Service


@dataclass(frozen=True, slots=True)
class Setting:
    name: str
    value: str  #: that holds here
    default: str
    source: Literal["default", "home", "environment", "project"]
    where: str  #: the file or the variable that says so
    scope: Scope  #: a project may choose it, may only lower it, or has no say (home)
    what: str
    note: str = ""  #: what a project may do about it, if it may not simply choose
    refused: str = ""  #: what the project's file says, where it may not


_NOTES: dict[Scope, str] = {
    "project": "",
    "lower": "a project may only lower it",
    "home": "a project cannot set it",
}


@operation("GET", "/settings")
async def settings_list(service: Service, project: str | None = None) -> list[Setting]:
    """Every setting: its value in a project, where that comes from, and what it does."""
    loaded = await service.project(project)
    return _found(service, service.runtime.registry.settings_of(loaded.id), loaded.project.definition.settings)


def your_settings(service: Service) -> list[Setting]:
    """What holds where no project says otherwise."""
    return _found(service, service.runtime.registry.settings, ProjectSettings())


def settings_file(service: Service) -> str:
    return str(service.runtime.home.location(FILE)) if service.runtime.home else FILE


def _found(service: Service, here: Settings, written: ProjectSettings) -> list[Setting]:
    user, home = service.runtime.registry.settings, settings_file(service)
    found = []
    for name, field in Settings.model_fields.items():
        value = getattr(here, name)
        source: Literal["default", "home", "environment", "project"] = "default"
        where = ""
        if name in written.model_fields_set and value == getattr(written, name):
            source, where = "project", "moniro.yaml"
        elif os.environ.get(VARIABLES.get(name, "")):
            source, where = "environment", VARIABLES[name]
        elif name in user.model_fields_set:
            source, where = "home", home
        refused = name in written.model_fields_set and value != getattr(written, name)
        found.append(
            Setting(
                name=name,
                value=shown(name, value),
                default=shown(name, field.default),
                source=source,
                where=where,
                scope=scope_of(name),
                what=field.description or "",
                note=_NOTES[scope_of(name)],
                refused=shown(name, getattr(written, name)) if refused else "",
            )
        )
    return found
