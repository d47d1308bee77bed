"""An agent as its file describes it (docs/reference/files.md). `AgentSettings` is what inline members share with it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar, Literal, get_args

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Discriminator, Field, JsonValue, Tag, model_validator

from agent_worker.definitions.block import Block, Broken, only_one_of, wrong
from agent_worker.definitions.fields import (
    Duration,
    Flag,
    InsidePath,
    Label,
    Line,
    ModelName,
    Money,
    Name,
    Text,
    Url,
    Variable,
    Whole,
    inside_path,
)
from agent_worker.definitions.paths import plain
from agent_worker.definitions.schedule import Schedule
from agent_worker.definitions.script import ScriptEntry

BackendName = Literal["sdk", "claude", "codex", "cursor", "opencode", "gemini", "acp", "mock"]
_BACKENDS = frozenset(get_args(BackendName))
_PROGRAMS = _BACKENDS - {"sdk", "mock"}
Access = Literal["read", "edit", "full"]
Isolation = Literal["worktree", "none"]

_KEY_REFERENCE = re.compile(r"\$[A-Za-z_][A-Za-z0-9_]{0,127}")
_TOOL = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,127}")
_FUNCTION = re.compile(r"[^\x00-\x1f:~]{1,500}\.py:[A-Za-z_][A-Za-z0-9_]{0,127}")


def split_model(text: str) -> tuple[str | None, str]:
    """`provider/model` or `provider:model` → both; a bare model has no provider."""
    found = re.search(r"[/:]", text)
    return (text[: found.start()], text[found.end() :]) if found else (None, text)


def _key_reference(text: str) -> str:
    if not _KEY_REFERENCE.fullmatch(text):  # and never show what was written: it may be the secret
        raise wrong("must refer to an environment variable, never hold the key itself", "such as $MY_KEY")
    return text


def _tool(text: str) -> str:
    if _TOOL.fullmatch(text):
        return text
    path, _, function = text.rpartition(":")
    reference = f"./{inside_path(path)}:{function}"
    if not _FUNCTION.fullmatch(reference):
        raise wrong("is not a tool", "a tool's name, or ./path/in/project.py:function")
    return reference


def _named(value: Any) -> Any:
    return {"name": value} if isinstance(value, str) else value


def on_or_off(settings: str) -> Discriminator:
    """Chooses between `false` and a block by what was written."""
    return Discriminator(lambda value: "<off>" if value is False else settings)


class ProviderSettings(Block):
    """Who serves the model: a known name, or an endpoint of one's own."""

    name: Name
    base_url: Url | None = None
    api_key: Annotated[str, AfterValidator(_key_reference)] | None = None

    @property
    def key_variable(self) -> str | None:
        """The environment variable that holds the key."""
        return self.api_key and self.api_key.removeprefix("$")


class PromptSettings(Block):
    """Who the agent is told to be. Once loaded, `system` holds the text, wherever it was written."""

    misplaced: ClassVar[Mapping[str, str]] = {"append": "is only for a member with `ref`"}

    system: Text | None = None
    system_file: Line | None = None  #: relative to the file that names it, inside the project

    @classmethod
    def rules(cls, written: Mapping[str, Any]) -> Iterator[Broken]:
        if not only_one_of(written, "system", "system_file"):
            yield Broken((), "needs exactly one of system, system_file")


class Soul(Block):
    """An open record: these keys have a form, others are kept as they are."""

    model_config = ConfigDict(extra="allow")

    role: str | None = None
    expertise: tuple[str, ...] = ()
    style: str | None = None
    principles: tuple[str, ...] = ()

    def record(self) -> dict[str, Any]:
        """Everything that was written, in the order of the file."""
        return self.model_dump(mode="json", exclude_unset=True)


class PersonalContext(Block):
    dir: InsidePath | None = None  #: None is .agents/<name>/
    thin_thread: Annotated[int, Field(strict=True, ge=0, le=1000)] = 10
    store: Literal["files", "database"] = "files"


class MemorySettings(Block):
    budget: Annotated[int, Field(strict=True, ge=0, le=1_000_000)] = 2000  #: tokens in the prompt
    auto_load: tuple[Label, ...] = ("core",)  #: files that are always in the prompt
    search: tuple[Label, ...] = ("working",)  #: files, or tiers, of which what fits the work is brought into the prompt


class AutoMemory(Block):
    """What is drawn from a run after it; `model` None is the cheap default."""

    model: ModelName | None = None


class ToolSettings(Block):
    name: Annotated[str, AfterValidator(_tool)]
    approve: Flag = False  #: a person must say yes to each call
    network: Flag = False  #: of bash: may reach the network from its sandbox
    unsafe: Flag = False  #: of bash: without any sandbox


class McpServer(Block):
    url: Url | None = None
    command: Annotated[tuple[Text, ...], Field(min_length=1)] | None = None

    @classmethod
    def rules(cls, written: Mapping[str, Any]) -> Iterator[Broken]:
        if not only_one_of(written, "url", "command"):
            yield Broken((), "needs exactly one of url, command")


class AgentLimits(Block):
    usd_per_day: Money | None = None


_FROM_US = "it is made from the conversation"
#: Fields of a request that are ours to fill in, and what to write instead.
_NO_SETTINGS = {
    **dict.fromkeys(("messages", "input", "system", "instructions", "tools", "stream", "store"), _FROM_US),
    **dict.fromkeys(("max_tokens", "max_completion_tokens", "max_output_tokens"), "write max_tokens beside model"),
    "model": "write model beside settings",
}


class AgentSettings(Block):
    model: ModelName | None = None
    backend: BackendName = "sdk"
    provider: (
        Annotated[ProviderSettings, BeforeValidator(_named, json_schema_input_type=Name | ProviderSettings)] | None
    ) = None
    prompt: PromptSettings | None = None
    system_prompt: Text | None = Field(None, description="shorthand for prompt: the text, or a .md or .txt file")
    soul: Soul = Soul()
    tools: tuple[Annotated[ToolSettings, BeforeValidator(_named, json_schema_input_type=str | ToolSettings)], ...] = ()
    mcp_servers: dict[Name, McpServer] = Field(default_factory=dict)
    skills: tuple[InsidePath, ...] = ()
    cwd: InsidePath = "."
    env: tuple[Variable, ...] = ()
    max_tokens: Whole | None = None
    settings: dict[str, JsonValue] = Field(
        default_factory=dict, description="of the model, sent as they are written, such as temperature: 0.2"
    )
    max_steps: Whole = 20
    timeout: Duration = 600.0
    limits: AgentLimits = AgentLimits()
    schedule: Schedule | None = None
    requires: tuple[Label, ...] = ()
    isolate: Isolation | None = None  #: does it work in a copy of its own? `none` says that it shares on purpose
    access: Access = "edit"  #: of a program: look, change files beneath its cwd, or whatever the user may do
    command: Annotated[tuple[Text, ...], Field(min_length=1)] | None = None
    script: tuple[ScriptEntry, ...] | None = None  #: None lets the mock answer by itself
    character: Literal["gullible", "liar", "thief"] | None = None  #: of a mock that misbehaves, to try a team against

    @classmethod
    def rules(cls, written: Mapping[str, Any]) -> Iterator[Broken]:
        backend = str(written.get("backend", "sdk"))  # if there is no such backend, that is enough to know
        if backend == "sdk" and written.get("model") is None:
            yield Broken(("model",), "is required for backend sdk", "such as anthropic/claude-sonnet-5-5")
        if backend == "acp" and written.get("command") is None:
            yield Broken(("command",), "is required for backend acp", "the program that speaks ACP, as a list")
        if backend in _BACKENDS - {"acp"} and written.get("command") is not None:
            yield Broken(("command",), "is only for backend acp")
        if backend in _BACKENDS - _PROGRAMS and written.get("access") is not None:
            yield Broken(("access",), "is only for coding programs", "tools say what an agent may do")
        if backend in _BACKENDS - {"mock"} and written.get("script") is not None:
            yield Broken(("script",), "is only for backend mock")
        if backend in _BACKENDS - {"mock"} and written.get("character") is not None:
            yield Broken(("character",), "is only for backend mock")
        if written.get("script") is not None and written.get("character") is not None:
            yield Broken(("character",), "does as it likes, and follows no script", "keep one of them")
        if backend in _BACKENDS - {"sdk"} and written.get("settings") is not None:
            yield Broken(("settings",), "is only for backend sdk", "a program has settings of its own")
        if isinstance(settings := written.get("settings"), dict):
            for key in settings.keys() & _NO_SETTINGS.keys():
                yield Broken(("settings", key), "cannot be set here", _NO_SETTINGS[key])
        prompts = [key for key in ("prompt", "system_prompt") if written.get(key) is not None]
        if len(prompts) == 2:
            yield Broken(("system_prompt",), "stands for prompt, which is here too", "keep one of them")
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
        """What the agent may do that nothing holds it back from; a person must see it."""
        if self.backend in _PROGRAMS and self.access == "full":
            return "full access"
        return "bash without sandbox" if any(tool.unsafe for tool in self.tools) else ""

    @property
    def label(self) -> str:
        """By the Rule of Two: U reads what others wrote, S reaches what is sensitive, X changes things or reaches out.

        Whoever is all three does nothing before a person has said yes: each way to it is a power (trust/powers.py).
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
        """May it change files of the project? Who knows what a server or a function does."""
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
    name: Name
    context: PersonalContext = PersonalContext()
    memory: MemorySettings = MemorySettings()
    auto_memory: Annotated[
        Annotated[Literal[False], Tag("<off>")] | Annotated[AutoMemory, Tag("<AutoMemory>")],
        on_or_off("<AutoMemory>"),
    ] = AutoMemory()

    @property
    def personal_dir(self) -> str:
        """The folder of the agent, relative to the project."""
        return self.context.dir or f".agents/{self.name}"
