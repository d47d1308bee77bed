"""The `workspace` of a workflow's file (docs/reference/files.md): where an instance keeps its channel and documents."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, AliasChoices, BeforeValidator, Field

from agent_worker.core.address import canonical
from agent_worker.core.errors import BadInput
from agent_worker.definitions.agent import switched
from agent_worker.definitions.block import Block, Broken, wrong
from agent_worker.definitions.fields import InsidePath, Line
from agent_worker.files.paths import text_names

ELECTORATE = 50  # a message calls on no more


class ChannelFile(Block):
    file: Line | None = Field(
        None, description="has no effect: the channel is written to channel.jsonl", examples=["channel.md"]
    )


def _document(name: str) -> str:
    try:
        return "/".join(text_names(name))
    except BadInput as error:
        raise wrong("is not a name for a document", error.hint) from None


class DocumentFile(Block):
    file: Annotated[Line, AfterValidator(_document)] | None = Field(
        None, description="the document that is meant when none is named", examples=["notes.md"]
    )


class Storage(Block):
    """Where a provider keeps things: an older way to write what is under `workspace` itself."""

    dir: InsidePath | None = Field(None, description="the same as dir of the workspace", examples=["data/review"])
    db: Line | None = Field(
        None, description="has no effect: messages are in the daemon's own database", examples=["review.db"]
    )


class WorkspaceSettings(Block):
    provider: Literal["file", "sqlite", "memory"] = Field(
        "file",
        description="where channel and documents are kept: in files, in the daemon's database, or nowhere (memory)",
        examples=["sqlite"],
    )
    bind: InsidePath | None = Field(
        None, description="where channel and documents are kept across runs", examples=["data/review"]
    )
    dir: InsidePath | None = Field(
        None,
        description="where an instance without bind has its files",
        examples=["out/review"],
        json_schema_extra={"x-default": ".workspace/<workflow>/<tag>"},
    )
    documents: Literal["file", "sqlite"] | None = Field(
        None, description="where documents are, if not where provider says", examples=["sqlite"]
    )
    document_owner: str | None = Field(
        None,
        validation_alias=AliasChoices("document_owner", "documentOwner"),
        description="the only member who writes documents, or elect; by default all of them do",
        examples=["alice", "elect"],
    )
    channel: Annotated[ChannelFile, BeforeValidator(switched, json_schema_input_type=ChannelFile | bool | None)] = (
        Field(default_factory=ChannelFile.model_construct, description="there is always one", examples=[True])
    )
    document: Annotated[DocumentFile, BeforeValidator(switched, json_schema_input_type=DocumentFile | bool | None)] = (
        Field(
            default_factory=DocumentFile.model_construct,
            description="the document that is meant by default",
            examples=[{"file": "notes.md"}],
        )
    )
    config: Storage = Field(
        default_factory=Storage.model_construct,
        description="an older way to write dir",
        examples=[{"dir": "data/review"}],
    )

    @classmethod
    def rules(cls, written: Mapping[str, Any]) -> Iterator[Broken]:
        if written.get("bind") is not None and written.get("dir") is not None:
            yield Broken(("dir",), "is for an instance without `bind`", "keep one of them")
        config = written.get("config")
        if isinstance(config, dict) and config.get("dir") is not None and {"bind", "dir"} & set(written):
            yield Broken(("config", "dir"), "is given twice: `bind` or `dir` says the same", "keep one of them")
        if written.get("bind") is not None and written.get("provider") == "memory":
            yield Broken(("bind",), "keeps nothing with provider memory", "choose provider file or sqlite")

    @property
    def directory(self) -> str | None:
        """Where the files are that are written for this workspace, if the file says so."""
        return self.bind or self.dir or self.config.dir

    @property
    def unused(self) -> Iterator[str]:
        """What is written here and changes nothing: a sentence for each."""
        if self.channel.file is not None:
            yield "channel.file: the channel is written to channel.jsonl, whatever stands here"
        if self.config.db is not None:
            yield "config.db: messages are kept in the daemon's own database, whatever stands here"

    @property
    def document_store(self) -> Literal["file", "sqlite"]:
        return self.documents or ("file" if self.provider == "file" else "sqlite")


def workspace_rules(key: str, settings: Any, members: Sequence[str]) -> Iterator[Broken]:
    """What is wrong in the `workspace` of a workflow with these members. `key` is how it is spelled."""
    if settings is False and len(members) > 1:
        yield Broken((key,), "can be false for a single agent only", "several agents need a workspace to talk in")
    for spelling in ("document_owner", "documentOwner"):
        owner = settings.get(spelling) if isinstance(settings, dict) else None
        if isinstance(owner, str) and owner != "elect" and canonical(owner, members) is None:
            yield Broken((key, spelling), f'"{owner}" is not a member', f"elect, or one of {', '.join(members)}")
        if owner == "elect" and len(members) > ELECTORATE:
            yield Broken((key, spelling), f"at most {ELECTORATE} members can elect", "name the owner")
