"""A project as its optional file describes it (docs/reference/files.md). The files it has: project_files.py."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import Discriminator, Field, Tag

from agent_worker.definitions.agent import AgentDefinition
from agent_worker.definitions.block import Block
from agent_worker.definitions.fields import InsidePath, Line, Money, Name
from agent_worker.definitions.guard import GuardModel
from agent_worker.definitions.settings import ProjectSettings


class ProjectWorkspace(Block):
    """What workflows of the project use unless they say otherwise."""

    provider: Literal["file", "sqlite", "memory"] = Field(
        "file", description="for workflows that name none", examples=["sqlite"]
    )
    base: InsidePath = Field(
        ".workspace",
        description="the folder for all instances that have no folder of their own",
        examples=["data/teams"],
    )


class ProjectLimits(Block):
    usd_per_day: Money | None = Field(
        None,
        description="what all of its agents may spend in a day (UTC), or off; above the default once you approve it",
        examples=[10],
        json_schema_extra={"default": 50},
    )


AgentEntry = Annotated[
    Annotated[InsidePath, Tag("<path>")] | Annotated[AgentDefinition, Tag("<agent>")],
    Discriminator(lambda value: "<path>" if isinstance(value, str) else "<agent>"),
]


class ProjectDefinition(Block):
    further_in: ClassVar[Mapping[str, str]] = {"usd_per_day": "limits"}

    name: Line = Field(
        description="what the project is called",
        examples=["shop"],
        json_schema_extra={"x-default": "the directory's name"},
    )
    id: Name | None = Field(
        None,
        description="if several machines share a PostgreSQL: directories with the same id are the same project",
        examples=["shop"],
        json_schema_extra={"x-default": "the Git remote and where the project is in it; without Git, machine and path"},
    )
    agents: tuple[AgentEntry, ...] | None = Field(
        None,
        description="its agents: files, or defined here",
        examples=[["people/alice.yaml", {"name": "ben", "backend": "mock"}]],
        json_schema_extra={"x-default": ".agents/*.yaml"},
    )
    workflows: dict[Name, InsidePath] | None = Field(
        None,
        description="its workflows: a name and a file each",
        examples=[{"review": "flows/review.yaml"}],
        json_schema_extra={"x-default": ".workflows/*.yaml"},
    )
    workspace: ProjectWorkspace = Field(
        default_factory=ProjectWorkspace.model_construct,
        description="what its workflows use unless they say otherwise",
        examples=[{"base": "data/teams"}],
    )
    limits: ProjectLimits = Field(
        default_factory=ProjectLimits.model_construct,
        description="what the project may spend",
        examples=[{"usd_per_day": 10}],
    )
    guard: GuardModel = Field(
        default_factory=GuardModel.model_construct,
        description="what a model may decide for its agents; a workflow that names a model overrides it",
        examples=[{"model": "anthropic/claude-haiku-5-5", "llm_curation": True}],
    )
    settings: ProjectSettings = Field(
        default_factory=ProjectSettings.model_construct,
        description="how its teams work (settings.md)",
        examples=[{"tries": 2}],
    )
