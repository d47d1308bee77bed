"""A workflow as its file describes it (docs/reference/files.md): members, set-up, kickoff.

What needs other files, such as whether a `ref` exists, is looked at in `checks`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, AliasChoices, BeforeValidator, Discriminator, Field, Tag

from agent_worker.core.address import canonical
from agent_worker.core.text import one
from agent_worker.definitions.agent import (
    AgentDefinition,
    AgentSettings,
    BackendName,
    Isolation,
    on_or_off,
    switched,
)
from agent_worker.definitions.agent_blocks import AgentLimits
from agent_worker.definitions.block import Block, Broken, entries, wrong
from agent_worker.definitions.fields import (
    Count,
    Flag,
    Minutes,
    ModelName,
    Money,
    Name,
    Text,
    Variable,
    Whole,
)
from agent_worker.definitions.guard import GuardSettings
from agent_worker.definitions.placeholders import BUILT_IN, OUTPUT, SPACES, is_powerful, is_secret, variable_of
from agent_worker.definitions.problems import did_you_mean
from agent_worker.definitions.schedule import Schedule, WorkflowSchedule
from agent_worker.definitions.script import ScriptEntry
from agent_worker.definitions.triggers import Trigger, trigger_rules
from agent_worker.definitions.workspace import WorkspaceSettings, workspace_rules

_OF_THE_AGENT = "belongs to the agent's own file, not to a member with `ref`"
_OVERRIDES = ("model", "backend", "max_tokens", "max_steps", "schedule", "limits", "isolate", "script")
_NO_PERSONAL_FILES = "does not belong here: an inline agent has no personal files"


class Addition(Block):
    """What a workflow adds to the prompt of a project agent."""

    misplaced: ClassVar[Mapping[str, str]] = {"system": _OF_THE_AGENT, "system_file": _OF_THE_AGENT}

    append: Text = Field(description="added to the agent's prompt", examples=["Here you keep the minutes."])


class RefMember(Block):
    """A project agent that takes part, perhaps with overrides. None leaves what the agent has."""

    misplaced: ClassVar[Mapping[str, str]] = dict.fromkeys(
        {*AgentDefinition.model_fields} - {*_OVERRIDES, "prompt"},
        _OF_THE_AGENT,
    )

    ref: Name = Field(description="an agent of the project, with everything it remembers", examples=["alice"])
    prompt: Addition | None = Field(
        None,
        description="what it is told here besides its own prompt",
        examples=[{"append": "Here you keep the minutes."}],
    )
    model: ModelName | None = Field(
        None, description="instead of the agent's own", examples=["anthropic/claude-haiku-5-5"]
    )
    backend: BackendName | None = Field(None, description="instead of the agent's own", examples=["mock"])
    max_tokens: Whole | None = Field(None, description="instead of the agent's own", examples=[4096])
    max_steps: Whole | None = Field(None, description="instead of the agent's own", examples=[40])
    schedule: Schedule | None = Field(
        None, description="when it wakes up here, while an instance runs", examples=[{"wakeup": "every 2h"}]
    )
    limits: AgentLimits | None = Field(None, description="instead of the agent's own", examples=[{"usd_per_day": 5}])
    isolate: Isolation | None = Field(None, description="instead of the agent's own", examples=["worktree"])
    script: tuple[ScriptEntry, ...] | None = Field(
        None, description="what a mock agent plays here; other agents ignore it", examples=[[{"say": "@bob hello"}]]
    )

    @property
    def append(self) -> str:
        return self.prompt.append if self.prompt else ""

    def applied_to(self, agent: AgentDefinition) -> AgentDefinition:
        """The agent as it works in this workflow. Its prompt stays; `append` is a section of its own."""
        given = {field: value for field in _OVERRIDES if (value := getattr(self, field)) is not None}
        return agent.model_copy(update=given)


class InlineMember(AgentSettings):
    """An agent that lives with the workflow instance."""

    misplaced: ClassVar[Mapping[str, str]] = {
        "name": "does not belong here: the key above is the name",
        **dict.fromkeys(("context", "memory", "auto_memory", "soul_evolution"), _NO_PERSONAL_FILES),
    }

    @classmethod
    def _about_unknown(cls, key: str) -> tuple[str, str]:
        """A member may also be one of the project's agents: they have the key `ref`."""
        return ("unknown key", near) if (near := did_you_mean(key, ["ref"])) else super()._about_unknown(key)

    def as_agent(self, name: str) -> AgentDefinition:
        fields = {field: getattr(self, field) for field in AgentSettings.model_fields}
        return AgentDefinition.model_construct(name=name, **fields, auto_memory=False)


def _kind_of_member(value: Any) -> str:
    has_ref = "ref" in value if isinstance(value, dict) else isinstance(value, RefMember)
    return "<ref>" if has_ref else "<inline>"


Member = Annotated[
    Annotated[RefMember, Tag("<ref>")] | Annotated[InlineMember, Tag("<inline>")], Discriminator(_kind_of_member)
]


def _letter(text: str) -> str:
    if not (len(text) == 1 and text.isascii() and text.isalpha()):
        raise wrong("must be one letter", "such as t")
    return text


class Param(Block):
    """One value that is given after `--` when the workflow is started."""

    name: Name = Field(description="given as --name, used as ${{ params.name }}", examples=["customer"])
    type: Literal["string", "integer", "number", "boolean"] = Field(
        "string", description="what it accepts", examples=["integer"]
    )
    short: Annotated[str, AfterValidator(_letter)] | None = Field(
        None, description="a one-letter short form: -c", examples=["c"]
    )
    required: Flag = Field(False, description="the workflow does not start without it", examples=[True])
    default: Any = Field(None, description="its default", examples=["everybody"])
    description: str = Field("", description="shown by --help", examples=["Whom to greet"])

    @classmethod
    def rules(cls, written: Mapping[str, Any]) -> Iterator[Broken]:
        default = written.get("default")
        if written.get("name") == "help":
            yield Broken(("name",), "--help and -h are taken", "choose another name")
        if written.get("short") == "h":
            yield Broken(("short",), "--help and -h are taken", "choose another letter")
        if default is None:
            return
        if written.get("required") is True:
            yield Broken(("default",), "makes no sense for a required param")
        wanted = {"string": str, "integer": int, "number": int | float, "boolean": bool}.get(
            str(written.get("type", "string")), object
        )
        if not isinstance(default, wanted) or (isinstance(default, bool) and wanted not in (bool, object)):
            kind = str(written.get("type", "string"))
            yield Broken(("default",), f"must be {one(kind)}, like the param")


def _output(name: str) -> str:
    variable = variable_of(name)
    if not OUTPUT.fullmatch(name):
        raise wrong("is not a name for an output", "letters, digits, _ and -, at most 63")
    if name in BUILT_IN or name in SPACES or variable.startswith(tuple(f"{space.upper()}_" for space in SPACES)):
        raise wrong(f"{name} would be confused with {name.partition('_')[0]}.*", "choose another name")
    if is_powerful(variable):
        raise wrong(f"would set the variable {variable} for later commands", "choose another name")
    return name


class SetupStep(Block):
    called_here: ClassVar[Mapping[str, str]] = {
        **dict.fromkeys(("run", "command", "cmd"), "shell: …"),
        **dict.fromkeys(("name", "output", "id"), "as: …"),
    }

    shell: Annotated[str, Field(min_length=1, max_length=65536)] = Field(
        description="a command, run in the project's directory; you approve it first", examples=["git diff HEAD"]
    )
    output: Annotated[str, AfterValidator(_output)] | None = Field(
        None, alias="as", description="a name for what it prints: ${{ changes }}", examples=["changes"]
    )


class WorkflowLimits(Block):
    """Limits of one instance. None leaves the default, "off" lifts the limit."""

    turns: Count | None = Field(
        None,
        description="runs that one request may lead to, or off; above the default once you approve it",
        examples=[20],
        json_schema_extra={"default": 50},
    )
    usd: Money | None = Field(
        None,
        description="what one request may cost, or off; above the default once you approve it",
        examples=[2],
        json_schema_extra={"default": 5},
    )
    minutes: Minutes | None = Field(
        None,
        description="after this many minutes it is paused, and you are asked",
        examples=[30],
        json_schema_extra={"default": "off"},
    )


def _shareable(variable: str) -> str:
    if is_secret(variable):
        raise wrong(
            f"{variable} looks like a secret, and secrets must not get into a prompt",
            "pass it to an agent through its `env`",
        )
    return variable


class WorkflowDefinition(Block):
    further_in: ClassVar[Mapping[str, str]] = {
        **dict.fromkeys(("turns", "usd", "minutes"), "limits"),
        **dict.fromkeys(("bind", "documents", "document_owner"), "workspace"),
    }
    called_here: ClassVar[Mapping[str, str]] = {
        **dict.fromkeys(("members", "team"), "agents: { … }"),
        **dict.fromkeys(("message", "prompt", "task", "start"), "kickoff: …"),
        **dict.fromkeys(("steps", "tasks", "jobs", "nodes"), "kickoff: …, and let the members call on each other"),
        **dict.fromkeys(("inputs", "parameters", "args"), "params: [ … ]"),
    }

    name: Name = Field(
        description="what it is run by", examples=["review"], json_schema_extra={"x-default": "the file's name"}
    )
    agents: Annotated[dict[Name, Member], Field(min_length=1)] = Field(
        description="the members: agents of the project by ref, or agents that live with the instance",
        examples=[{"alice": {"ref": "alice"}, "ann": {"backend": "mock"}}],
    )
    workspace: Annotated[
        Annotated[Literal[False], Tag("<off>")] | Annotated[WorkspaceSettings, Tag("<settings>")],
        on_or_off("<settings>"),
        BeforeValidator(switched, json_schema_input_type=bool | None | Literal["on", "off"] | WorkspaceSettings),
    ] = Field(
        default_factory=WorkspaceSettings.model_construct,
        validation_alias=AliasChoices("workspace", "context"),
        description="where the team talks and writes; false, for a single agent: it has no channel "
        "and no tools for one",
        examples=[{"bind": "data/review"}],
    )
    params: tuple[Param, ...] = Field(
        (),
        description="values that you give after -- when you start it",
        examples=[[{"name": "customer", "required": True}]],
    )
    setup: Annotated[tuple[SetupStep, ...], Field(max_length=20)] = Field(
        (),
        description="commands that run first, in this order",
        examples=[[{"shell": "git diff HEAD", "as": "changes"}]],
    )
    kickoff: Text | None = Field(
        None,
        description="the first message; the members it mentions begin",
        examples=["@alice please review ${{ changes }}"],
    )
    desk: Name | None = Field(
        None,
        description="the member who gets what a person says without calling on anybody; by default the coordinator, "
        "or the only member, or nobody",
        examples=["alice"],
    )
    schedule: WorkflowSchedule | None = Field(
        None, description="when it runs on its own", examples=[{"wakeup": "weekdays at 8"}]
    )
    triggers: dict[Name, Trigger] = Field(
        default_factory=dict,
        description="webhooks that start it or post to it, by the name in their address; you approve them first",
        examples=[{"github": {"secret": "$GITHUB_SECRET", "events": ["push"]}}],
    )
    env: tuple[Annotated[Variable, AfterValidator(_shareable)], ...] = Field(
        (), description="variables that may be named as ${{ env.NAME }}; no secrets", examples=[["BUILD_NUMBER"]]
    )
    guard: GuardSettings = Field(
        default_factory=GuardSettings.model_construct,
        description="what a model may decide for its members, and what they may become here",
        examples=[{"auto_store": True}],
    )
    limits: WorkflowLimits = Field(
        default_factory=WorkflowLimits.model_construct,
        description="what an instance may do and spend",
        examples=[{"turns": 20, "usd": 2}],
    )

    @property
    def has_desk(self) -> bool:
        """Whether a member is there from the start who gets messages that call on nobody."""
        return self.desk is not None or len(self.agents) == 1

    @property
    def member_schedules(self) -> dict[str, Schedule]:
        """When members wake while an instance runs, by their names in it."""
        return {name: member.schedule for name, member in self.agents.items() if member.schedule}

    @classmethod
    def rules(cls, written: Mapping[str, Any]) -> Iterator[Broken]:
        agents = written.get("agents")
        members = list(agents) if isinstance(agents, dict) else []
        yield from _twice([("agents", member) for member in members], [member.lower() for member in members])
        yield from _schedule_rules(written)
        yield from trigger_rules(written)
        desk = written.get("desk")
        if isinstance(desk, str) and members and canonical(desk, members) is None:
            yield Broken(("desk",), f'"{desk}" is not a member', f"one of {', '.join(members)}")
        for key in ("workspace", "context"):
            yield from workspace_rules(key, written.get(key), members)
        for key, field in (("params", "name"), ("params", "short"), ("setup", "as")):
            found = [(index, str(item[field])) for index, item in entries(written.get(key)) if item.get(field)]
            same = [name if field == "short" else variable_of(name) for _, name in found]
            yield from _twice([(key, index, field) for index, _ in found], same)


def alone(agent: str) -> WorkflowDefinition:
    """A workflow of one agent that no file describes: what is said in a session with it is kept, also when it ended."""
    settings = WorkspaceSettings(provider="sqlite", bind=f".workspace/{agent}")
    return WorkflowDefinition(name=agent, agents={agent: RefMember(ref=agent)}, workspace=settings)


def together(name: str, agents: Sequence[str]) -> WorkflowDefinition:
    """A workflow of these agents that no file describes. The first of them answers whoever calls on nobody."""
    members: dict[str, RefMember | InlineMember] = {agent: RefMember(ref=agent) for agent in agents}
    return WorkflowDefinition(name=name, agents=members, desk=agents[0], workspace=WorkspaceSettings(provider="sqlite"))


def with_model(workflow: WorkflowDefinition, agents: Mapping[str, AgentDefinition], model: str) -> WorkflowDefinition:
    """The workflow with this model for all who call one, or play one. Programs keep theirs."""
    members: dict[str, RefMember | InlineMember] = {}
    for name, member in workflow.agents.items():
        known = canonical(member.ref, agents) if isinstance(member, RefMember) else None
        backend = member.backend or (agents[known].backend if known else "sdk")
        changes = {"model": model, "backend": "sdk"} if backend in ("mock", "sdk") else {}
        members[name] = member.model_copy(update=changes)
    return workflow.model_copy(update={"agents": members})


def _schedule_rules(written: Mapping[str, Any]) -> Iterator[Broken]:
    """Check that a workflow with a schedule can start by itself: nobody will be there to give what is missing."""
    schedule = written.get("schedule")
    if not isinstance(schedule, dict):
        return
    if not written.get("kickoff") and not schedule.get("prompt"):
        yield Broken(("schedule",), "says nothing", "add a prompt: here, or a kickoff:")
    params = schedule.get("params")
    given = params if isinstance(params, dict) else {}
    declared = {str(param.get("name")): param for _, param in entries(written.get("params"))}
    for name, param in declared.items():
        if param.get("required") is True and name not in given:
            yield Broken(("schedule",), f"the param {name} is required", f"params: {{ {name}: … }}")
    for name in given:
        if name not in declared:
            yield Broken(("schedule", "params", name), "the workflow has no such param")


def _twice(paths: Sequence[tuple[str | int, ...]], names: Sequence[str]) -> Iterator[Broken]:
    seen: set[str] = set()
    for path, name in zip(paths, names, strict=True):
        if name in seen:
            yield Broken(path, "this name appears twice", "upper and lower case are the same name")
        seen.add(name)
