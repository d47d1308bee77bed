"""An agent as its file describes it (docs/reference/files.md). `AgentSettings` is what inline members share with it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar, Literal, get_args

from pydantic import BeforeValidator, Discriminator, Field, JsonValue, Tag, model_validator

from agent_worker.definitions.agent_blocks import (
    AgentLimits,
    AutoMemory,
    McpServer,
    MemorySettings,
    PersonalContext,
    PromptSettings,
    ProviderSettings,
    Soul,
    ToolSettings,
)
from agent_worker.definitions.block import Block, Broken
from agent_worker.definitions.fields import (
    Duration,
    Flag,
    InsidePath,
    Label,
    ModelName,
    Name,
    Text,
    Variable,
    Whole,
)
from agent_worker.definitions.paths import plain
from agent_worker.definitions.schedule import Schedule
from agent_worker.definitions.script import ScriptEntry

BackendName = Literal["sdk", "claude", "codex", "cursor", "opencode", "gemini", "hermes", "acp", "mock"]
_BACKENDS = frozenset(get_args(BackendName))
_PROGRAMS = _BACKENDS - {"sdk", "mock"}
Access = Literal["read", "edit", "full"]
_EDIT: Access = "edit"
Isolation = Literal["worktree", "none"]
#: What becomes of a change that an agent's soul seems to need: a person decides, additions are made, or nothing.
SoulEvolution = Literal["propose", "auto", "disabled"]
_STRICTEST: tuple[SoulEvolution, ...] = ("disabled", "propose", "auto")


def split_model(text: str) -> tuple[str | None, str]:
    """`provider/model` or `provider:model` → both; a bare model has no provider."""
    found = re.search(r"[/:]", text)
    return (text[: found.start()], text[found.end() :]) if found else (None, text)


def _named(value: Any) -> Any:
    return {"name": value} if isinstance(value, str) else value


def on_or_off(settings: str) -> Discriminator:
    """A discriminator that tells `false` from a block by what was written."""
    return Discriminator(lambda value: "<off>" if value is False else settings)


def switched(written: Any) -> Any:
    """What a switch stands for: `off` is false; nothing, `on` and true are a block with its defaults."""
    if written is None or written is True or written == "on":
        return {}
    return False if written == "off" else written


#: Parameters of models that are sent as written; there may be others.
MODEL_SETTINGS = frozenset({"temperature", "top_p", "top_k", "seed", "stop", "reasoning_effort"})
_FROM_US = "it is made from the conversation"
#: Fields of a request that are ours to fill in, and what to write instead.
_NO_SETTINGS = {
    **dict.fromkeys(("messages", "input", "system", "instructions", "tools", "stream", "store"), _FROM_US),
    **dict.fromkeys(("max_tokens", "max_completion_tokens", "max_output_tokens"), "write max_tokens beside model"),
    "model": "write model beside settings",
}


def _serves_nobody(written: Mapping[str, Any]) -> bool:
    """Whether an agent with an endpoint of its own says nowhere whose model it is."""
    provider, model = written.get("provider"), written.get("model")
    nameless = isinstance(provider, dict) and provider.get("name") is None
    return nameless and not (isinstance(model, str) and split_model(model)[0])


def _listed_twice(tools: Any) -> Iterator[Broken]:
    """Tools that stand in the list more than once: what one entry says of them, another may take back."""
    seen: set[str] = set()
    for index, tool in enumerate(tools if isinstance(tools, list) else ()):
        name = tool.get("name") if isinstance(tool, dict) else tool
        if isinstance(name, str) and name in seen:
            yield Broken(("tools", index), f"{name} is listed twice", "keep one of them")
        seen.add(str(name))


class AgentSettings(Block):
    further_in: ClassVar[Mapping[str, str]] = {
        **dict.fromkeys(MODEL_SETTINGS, "settings"),
        **dict.fromkeys(("role", "expertise", "style", "principles"), "soul"),
        **dict.fromkeys(("base_url", "api_key"), "provider"),
        "usd_per_day": "limits",
        "wakeup": "schedule",
    }
    called_here: ClassVar[Mapping[str, str]] = {
        **dict.fromkeys(("system", "system_message", "instructions", "instruction"), "prompt: { system: … }"),
        **dict.fromkeys(("mcp", "mcpServers"), "mcp_servers: { files: { command: [ … ] } }"),
        **dict.fromkeys(("cron", "every"), "schedule: { wakeup: … }"),
        **dict.fromkeys(("max_turns", "max_iterations", "max_iter"), "max_steps: …"),
        **dict.fromkeys(("llm", "engine"), "model: provider/model"),
        **dict.fromkeys(("goal", "backstory", "persona"), "soul: { role: … }, or prompt: { system: … }"),
    }

    model: ModelName | None = Field(
        None,
        description="provider/model (required for backend sdk); for a coding program, whatever it calls the model",
        examples=["anthropic/claude-sonnet-5-5"],
    )
    backend: BackendName = Field(
        "sdk", description="what does the work: a model API (sdk), a coding program, or mock", examples=["claude"]
    )
    provider: (
        Annotated[ProviderSettings, BeforeValidator(_named, json_schema_input_type=Name | ProviderSettings)] | None
    ) = Field(
        None,
        description="who serves the model, if its name does not say so; or your own endpoint",
        examples=[{"name": "mine", "base_url": "https://llm.example/v1", "api_key": "$MY_KEY"}],
    )
    prompt: PromptSettings | None = Field(
        None,
        description="who the agent is told to be; required, except for mock",
        examples=[{"system": "You are Alice. You review code."}],
    )
    system_prompt: Text | None = Field(
        None, description="shorthand for prompt: the text, or a .md or .txt file", examples=["prompts/alice.md"]
    )
    soul: Soul = Field(
        default_factory=Soul.model_construct,
        description="its character, which you and it may change later; other keys are kept as they are",
        examples=[{"role": "lead reviewer"}],
    )
    tools: tuple[Annotated[ToolSettings, BeforeValidator(_named, json_schema_input_type=str | ToolSettings)], ...] = (
        Field(
            (),
            description="what it may do besides talking: task tools by name, functions of the project",
            examples=[["read_file", {"name": "bash", "approve": True}]],
        )
    )
    mcp_servers: dict[Name, McpServer] = Field(
        default_factory=dict,
        description="servers whose tools it gets, each under a name; you approve them first",
        examples=[{"tickets": {"url": "https://mcp.example/mcp"}}],
    )
    skills: tuple[InsidePath, ...] = Field(
        (), description="skill folders that it may read, inside the project", examples=[[".agents/skills"]]
    )
    cwd: InsidePath = Field(".", description="where it works, inside the project", examples=["app"])
    project_instructions: Flag = Field(
        True,
        description="show it the project's AGENTS.md, and the one nearest above cwd, as somebody else's words",
        examples=[False],
    )
    env: tuple[Variable, ...] = Field(
        (),
        description="variables from the daemon's environment for its shell, servers and program; treated as secrets",
        examples=[["DATABASE_URL"]],
    )
    max_tokens: Whole | None = Field(
        None,
        description="the longest answer of its model, in tokens; by default the provider decides",
        examples=[4096],
    )
    settings: dict[str, JsonValue] = Field(
        default_factory=dict,
        description="parameters of the model, sent as written",
        examples=[{"temperature": 0.2}],
    )
    max_steps: Whole = Field(
        20, description="steps of one run; then it ends as incomplete, and continues when you say so", examples=[40]
    )
    timeout: Duration = Field(
        600.0,
        description="for a coding program: how long it may be silent before it is ended and tried again",
        examples=["20m"],
        json_schema_extra={"default": "10m"},
    )
    limits: AgentLimits = Field(
        default_factory=AgentLimits.model_construct,
        description="what it may spend, wherever it works",
        examples=[{"usd_per_day": 5}],
    )
    schedule: Schedule | None = Field(
        None, description="when it wakes up on its own", examples=[{"wakeup": "weekdays at 9", "tz": "Europe/Berlin"}]
    )
    requires: tuple[Label, ...] = Field(
        (),
        description="labels that a machine must have to run it, if several share a PostgreSQL",
        examples=[["gpu"]],
    )
    isolate: Isolation | None = Field(
        None,
        description="worktree: it works in its own copy; none: several share one on purpose",
        examples=["worktree"],
    )
    access: Access = Field(
        _EDIT,
        description="for a coding program: look, change files beneath cwd, or do whatever you may do",
        examples=["read"],
    )
    command: Annotated[tuple[Text, ...], Field(min_length=1)] | None = Field(
        None, description="for backend acp: the program and its arguments", examples=[["my-agent", "--acp"]]
    )
    script: tuple[ScriptEntry, ...] | None = Field(
        None,
        description="for mock: what it plays, entry by entry; without a script it makes up its answers",
        examples=[[{"say": "@bob is it fast enough?"}]],
    )
    character: Literal["gullible", "liar", "thief"] | None = Field(
        None, description="for mock: a character that misbehaves, to test a team against", examples=["gullible"]
    )

    @property
    def served_by(self) -> str:
        """The provider of its model, as `provider` says or else the model's own name; '' where neither does."""
        return (self.provider and self.provider.name) or split_model(self.model or "")[0] or ""

    @classmethod
    def rules(cls, written: Mapping[str, Any]) -> Iterator[Broken]:
        backend = str(written.get("backend", "sdk"))  # if there is no such backend, that is enough to know
        if backend == "sdk" and written.get("model") is None:
            yield Broken(("model",), "is required for backend sdk", "such as anthropic/claude-sonnet-5-5")
        yield from _listed_twice(written.get("tools"))
        if _serves_nobody(written):
            told = "is required where model names no provider"
            yield Broken(("provider", "name"), told, "any name of your own will do: name: mine")
        if backend == "acp" and written.get("command") is None:
            yield Broken(("command",), "is required for backend acp", "the program that speaks ACP, as a list")
        if backend in _BACKENDS - {"acp"} and written.get("command") is not None:
            yield Broken(("command",), "is only for backend acp")
        # Who writes the default has asked for nothing; who writes another word expects that it holds.
        if backend in _BACKENDS - _PROGRAMS and written.get("access", _EDIT) not in (None, _EDIT):
            yield Broken(("access",), "is only for coding programs", "tools say what an agent may do")
        if backend in _BACKENDS - {"mock"} and written.get("script") is not None:
            yield Broken(("script",), "is only for backend mock")
        if backend in _BACKENDS - {"mock"} and written.get("character") is not None:
            yield Broken(("character",), "is only for backend mock")
        if written.get("script") is not None and written.get("character") is not None:
            yield Broken(("character",), "follows no script", "keep one of them")
        if backend in _BACKENDS - {"sdk"} and written.get("settings") is not None:
            yield Broken(("settings",), "is only for backend sdk", "a program has its own settings")
        if isinstance(settings := written.get("settings"), dict):
            for key in settings.keys() & _NO_SETTINGS.keys():
                yield Broken(("settings", key), "cannot be set here", _NO_SETTINGS[key])
        prompts = [key for key in ("prompt", "system_prompt") if written.get(key) is not None]
        if len(prompts) == 2:
            yield Broken(("system_prompt",), "is another way to write prompt, which is also here", "keep one of them")
        if not prompts and backend in _BACKENDS - {"mock"}:
            yield Broken(("prompt",), "is required", "prompt: { system: You are … }")

    @model_validator(mode="after")
    def _write_out_shorthand(self) -> AgentSettings:
        if self.system_prompt is not None:
            is_file = "\n" not in self.system_prompt and plain(self.system_prompt).endswith((".md", ".txt"))
            prompt = PromptSettings(**{"system_file" if is_file else "system": self.system_prompt})
            # The value is not out of our hands yet, so freezing does not bind us.
            object.__setattr__(self, "prompt", prompt)
            object.__setattr__(self, "system_prompt", None)
        return self

    @property
    def unsafe(self) -> str:
        """What the agent may do without anything that holds it back; a person must see it."""
        if self.backend in _PROGRAMS and self.access == "full":
            return "full access"
        return "bash without sandbox" if any(tool.unsafe for tool in self.tools) else ""

    @property
    def label(self) -> str:
        """By the Rule of Two: U reads what others wrote, S reaches what is sensitive, X changes things or reaches out.

        An agent that is all three does nothing before a person has said yes: each way to it is a power
        (trust/powers.py).
        """
        names = {tool.name for tool in self.tools}
        is_program = self.backend in _PROGRAMS
        anything = bool(self.mcp_servers) or any(":" in name for name in names)  # a server, a function: who knows
        unsafe = any(tool.unsafe for tool in self.tools)
        letters = {
            "U": is_program or anything or bool(self.skills) or bool(names & {"bash", "read_file", "search_files"}),
            "S": is_program or anything or unsafe or bool(self.env),
            "X": self.edits_freely
            or anything
            or any(tool.unsafe or tool.network for tool in self.tools)
            or bool(names & {"write_file", "edit_file"}),
        }
        return "".join(letter for letter, holds in letters.items() if holds)

    @property
    def is_program(self) -> bool:
        return self.backend in _PROGRAMS

    @property
    def edits_freely(self) -> bool:
        """Whether this is a program that changes files by itself."""
        return self.is_program and self.access != "read"

    @property
    def writes(self) -> bool:
        """Whether the agent may change files of the project. Servers and functions may do anything, so they count."""
        names = {tool.name for tool in self.tools}
        return (
            self.edits_freely
            or bool(self.mcp_servers)
            or any(":" in name for name in names)
            or bool(names & {"bash", "write_file", "edit_file"})
        )

    @property
    def system(self) -> str:
        """The base system prompt; empty for a mock that was given none."""
        return (self.prompt.system if self.prompt else None) or ""


class AgentDefinition(AgentSettings):
    name: Name = Field(
        description="what it is called with @",
        examples=["alice"],
        json_schema_extra={"x-default": "the file's name"},
    )
    context: PersonalContext = Field(
        default_factory=PersonalContext.model_construct,
        description="where its own files are, and how much of a conversation it sees",
        examples=[{"thin_thread": 20}],
    )
    memory: MemorySettings = Field(
        default_factory=MemorySettings.model_construct,
        description="how much of its memory it sees",
        examples=[{"budget": 4000}],
    )
    auto_memory: Annotated[
        Annotated[Literal[False], Tag("<off>")] | Annotated[AutoMemory, Tag("<AutoMemory>")],
        on_or_off("<AutoMemory>"),
        BeforeValidator(switched, json_schema_input_type=bool | None | Literal["on", "off"] | AutoMemory),
    ] = Field(
        default_factory=AutoMemory.model_construct,
        description="how it learns from its runs, in one small request each; off: never",
        examples=[{"model": "anthropic/claude-haiku-5-5"}],
    )

    soul_evolution: SoulEvolution | None = Field(
        None,
        description="what happens when its soul seems to need a change: you decide (propose, the default), "
        "additions are made (auto), or nothing (disabled)",
        examples=["auto"],
    )

    @property
    def evolution(self) -> SoulEvolution:
        return self.soul_evolution or "propose"

    def within(
        self, evolution: SoulEvolution | None, *, learns: bool = True, model: str | None = None
    ) -> AgentDefinition:
        """The agent where a workflow says how souls may change, whether members learn there by themselves, with what.

        Of two words about souls the stricter holds. The model is for those of backend sdk that name none.
        """
        said = [each for each in (self.soul_evolution, evolution) if each]
        changes: dict[str, Any] = {"soul_evolution": min(said, key=_STRICTEST.index)} if evolution else {}
        names_none = self.auto_memory and not self.auto_memory.model and self.backend == "sdk"
        if not learns:
            changes["auto_memory"] = False
        elif model and names_none:
            changes["auto_memory"] = AutoMemory(model=model)
        return self.model_copy(update=changes) if changes else self

    @property
    def personal_dir(self) -> str:
        """The folder of the agent, relative to the project."""
        return self.context.dir or f".agents/{self.name}"
