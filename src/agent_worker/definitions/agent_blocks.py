"""The blocks that the file of an agent is made of: provider, prompt, soul, context, memory, tools, servers, limits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, ConfigDict, Field

from agent_worker.core.later import pattern
from agent_worker.definitions.block import Block, Broken, only_one_of, wrong
from agent_worker.definitions.fields import (
    Flag,
    InsidePath,
    Label,
    Line,
    ModelName,
    Money,
    Name,
    Text,
    Url,
    inside_path,
)

_KEY_REFERENCE = pattern(r"\$[A-Za-z_][A-Za-z0-9_]{0,127}")
_TOOL = pattern(r"[A-Za-z_][A-Za-z0-9_.-]{0,127}")
_FUNCTION = pattern(r"[^\x00-\x1f:~]{1,500}\.py:[A-Za-z_][A-Za-z0-9_]{0,127}")


def _key_reference(text: str) -> str:
    if not _KEY_REFERENCE.fullmatch(text):  # and never show what was written: it may be the secret
        raise wrong("must name an environment variable, never contain the key itself", "such as $MY_KEY")
    return text


def _tool(text: str) -> str:
    if _TOOL.fullmatch(text):
        return text
    path, _, function = text.rpartition(":")
    reference = f"./{inside_path(path)}:{function}"
    if not _FUNCTION.fullmatch(reference):
        raise wrong("is not a tool", "a tool's name, or ./path/in/project.py:function")
    return reference


class ProviderSettings(Block):
    """Who serves the model: a known name, or an endpoint of one's own."""

    name: Name | None = Field(
        None,
        description="a provider we know, or a name for your own endpoint; by default the one that model names",
        examples=["openrouter"],
    )
    base_url: Url | None = Field(
        None,
        description="the address of an endpoint that speaks chat completions; you approve it first",
        examples=["https://llm.example/v1"],
    )
    api_key: Annotated[str, AfterValidator(_key_reference)] | None = Field(
        None, description="the variable that holds its key, with a $; never the key itself", examples=["$MY_KEY"]
    )

    @property
    def key_variable(self) -> str | None:
        """The environment variable that holds the key."""
        return self.api_key and self.api_key.removeprefix("$")


class PromptSettings(Block):
    """Who the agent is told to be. Once loaded, `system` holds the text, wherever it was written."""

    misplaced: ClassVar[Mapping[str, str]] = {"append": "is only for a member with `ref`"}
    called_here: ClassVar[Mapping[str, str]] = {
        **dict.fromkeys(("file", "path"), "system_file: …"),
        **dict.fromkeys(("text", "content", "prompt"), "system: …"),
    }

    system: Text | None = Field(
        None, description="who the agent is, in words", examples=["You are Alice. You review code."]
    )
    system_file: Line | None = Field(
        None,
        description="a file with this text, relative to the file that names it, inside the project",
        examples=["prompts/alice.md"],
    )

    @classmethod
    def rules(cls, written: Mapping[str, Any]) -> Iterator[Broken]:
        if not only_one_of(written, "system", "system_file"):
            yield Broken((), "needs exactly one of system, system_file")


class Soul(Block):
    """An open record: these keys have a form, others are kept as they are."""

    model_config = ConfigDict(extra="allow")

    role: str | None = Field(None, description="what it is in the team", examples=["lead reviewer"])
    expertise: tuple[str, ...] = Field((), description="what it knows about", examples=[["python", "sql"]])
    style: str | None = Field(None, description="how it speaks", examples=["short and kind"])
    principles: tuple[str, ...] = Field((), description="what it abides by", examples=[["measure before you judge"]])

    def record(self) -> dict[str, Any]:
        """Everything that was written, in the order of the file."""
        return self.model_dump(mode="json", exclude_unset=True) if self.model_fields_set else {}


class PersonalContext(Block):
    dir: InsidePath | None = Field(
        None,
        description="the agent's own folder, inside the project",
        examples=["people/alice"],
        json_schema_extra={"x-default": ".agents/<name>"},
    )
    thin_thread: Annotated[int, Field(strict=True, ge=0, le=1000)] = Field(
        10, description="how many of the last messages of a conversation are in its prompt", examples=[20]
    )
    store: Literal["files", "database"] | None = Field(
        None,
        description="where several machines keep its folder: in their database, or in files that all of them see",
        examples=["files"],
        json_schema_extra={"x-default": "database with PostgreSQL, else files"},
    )


class MemorySettings(Block):
    budget: Annotated[int, Field(strict=True, ge=0, le=1_000_000)] = Field(
        2000, description="how many tokens of memory a prompt may hold", examples=[4000]
    )
    auto_load: tuple[Label, ...] = Field(
        ("core",), description="files of its memory that are in every prompt", examples=[["core", "customers"]]
    )
    search: tuple[Label, ...] = Field(
        ("working",),
        description="files or tiers of its memory from which the prompt gets what fits the work",
        examples=[["decisions"]],
    )


class AutoMemory(Block):
    """What is drawn from a run after it."""

    model: ModelName | None = Field(
        None,
        description="the model that extracts what is worth remembering from a run; by default, for backend sdk, the "
        "cheapest of the same provider with a known price, else its own; others extract nothing",
        examples=["anthropic/claude-haiku-5-5"],
    )


class ToolSettings(Block):
    name: Annotated[str, AfterValidator(_tool)] = Field(
        description="a task tool, or a Python function of the project as ./file.py:function", examples=["bash"]
    )
    approve: Flag = Field(False, description="you approve each call", examples=[True])
    network: Flag = Field(False, description="for bash: its sandbox may reach the network", examples=[True])
    unsafe: Flag = Field(False, description="for bash: no sandbox; you approve it first", examples=[True])


class McpServer(Block):
    url: Url | None = Field(
        None, description="its address, over HTTP; or else command", examples=["https://mcp.example/mcp"]
    )
    command: Annotated[tuple[Text, ...], Field(min_length=1)] | None = Field(
        None,
        description="the program that runs the server, with its arguments",
        examples=[["npx", "-y", "some-server"]],
    )

    @classmethod
    def rules(cls, written: Mapping[str, Any]) -> Iterator[Broken]:
        if not only_one_of(written, "url", "command"):
            yield Broken((), "needs exactly one of url, command")


class AgentLimits(Block):
    usd_per_day: Money | None = Field(
        None,
        description="what the agent may spend in a day (UTC), or off; above the default once you approve it",
        examples=[5],
        json_schema_extra={"default": 20},
    )
