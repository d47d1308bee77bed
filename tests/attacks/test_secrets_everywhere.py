"""N9: a secret that is given to every operation and every tool stands nowhere on disk, and nothing shows it."""

from __future__ import annotations

import json
import types
import typing
from pathlib import Path
from typing import Any

import pytest
from tests import engine, stored
from tests.house import House, house

from agent_worker.backends.mock import calls, says
from agent_worker.core.errors import AgentWorkerError
from agent_worker.service.catalogue import OPERATIONS
from agent_worker.tools.tool import Tool

SECRET = "correct-horse-battery-staple"
SHAPED = "gh" + "p_" + "a1B2" * 9
WORDS = f"it is {SECRET} or {SHAPED}"
TEAM = """\
agents: { alice: { ref: alice }, bob: { ref: bob } }
workspace: { provider: PROVIDER, documents: STORE }
params: [{ name: how, type: string }]
kickoff: "go: ${{ params.how }}"
"""
#: Not for the disk, or they end what is tested.
APART = {"backup", "leftovers_remove", "run", "events", "demo_start", "skill_import", "remote_look", "remote_update"}
APART |= {
    "skill_look",
    "agent_delete",
    "workflow_stop",
    "workflow_finish",
    "backend_test",
    "agent_create",
    "agent_edit",
    "soul_edit",
}


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> None:
    """Under a name that says nothing: only a definition gives it away."""
    monkeypatch.setenv("MY_FAVOURITE", SECRET)


async def team(here: House, provider: str, store: str) -> None:
    written = TEAM.replace("PROVIDER", provider).replace("STORE", store)
    (here.root / ".workflows" / "duo.yaml").write_text(written)
    (here.root / ".agents" / "alice.yaml").write_text("backend: mock\nmax_steps: 60\nenv: [MY_FAVOURITE]\n")
    await here.do("workflow_start", workflow="duo", params={"how": WORDS})


def leaks(tmp: Path) -> list[str]:
    """Files that hold it, or are called by it, with the project's definitions left out: those a person wrote."""
    return [
        str(path.relative_to(tmp))
        for path in tmp.rglob("*")
        if any(
            each in path.name or (path.is_file() and each.encode() in path.read_bytes()) for each in (SECRET, SHAPED)
        )
    ]


KNOWN = {"to": "@duo", "at": "@duo", "instance": "duo", "workflow": "duo", "workspace": "duo", "agent": "alice"}
KNOWN |= {"target": "alice", "proposal": 1, "number": 1, "n": 1, "name": "alice", "kind": "decision", "tier": "working"}
KNOWN |= {
    "wakeup": "1h",
    "project": None,
    "options": ["yes", WORDS],
    "voters": ["bob"],
    "messages": [1],
    "note": "x.md",
}
KNOWN |= {"params": {"how": WORDS}, "trust": False, "ends": "stop", "file": "working", "since": None}
KNOWN |= {"action": "resume"}


def value_for(name: str, kind: Any) -> Any:
    if typing.get_origin(kind) in (typing.Union, types.UnionType):
        kind = next(each for each in typing.get_args(kind) if each is not type(None))
    if typing.get_origin(kind) is typing.Literal:
        return typing.get_args(kind)[0]
    if kind is bool or kind is int or kind is float:
        return kind(1)
    if kind is str:
        return WORDS
    return {"x": WORDS} if "dict" in str(kind) else [WORDS]


@pytest.mark.parametrize(("provider", "store"), [("file", "file"), ("sqlite", "sqlite")])
async def test_N9_no_operation_writes_a_secret_down(tmp_path: Path, known: None, provider: str, store: str) -> None:
    async with house(tmp_path, "alice", "bob") as here:
        await team(here, provider, store)
        tried, taken = 0, 0
        for name, operation in OPERATIONS.items():
            if name in APART or operation.method == "GET":
                continue
            fields = operation.signature.arguments.model_fields
            wanted = {each: KNOWN.get(each, value_for(each, field.annotation)) for each, field in fields.items()}
            wanted = {each: value for each, value in wanted.items() if value is not None and each != "project"}
            if operation.path.startswith(("/documents", "/changes")):
                wanted["name"] = "plan.md"
            for given in (wanted, {k: v for k, v in wanted.items() if fields[k].is_required()}):
                tried += 1
                try:
                    await here.do(name, **given)
                    taken += 1
                except AgentWorkerError:
                    pass
        await here.do("send", to="@duo", message=f"@bob {WORDS}", key=WORDS)
        await here.do("proposal_create", at="@duo", question=WORDS, kind="decision", options=[WORDS, "no"])
        await here.do("doc_write", at="@duo", name="other.md", text=WORDS)
        assert taken > 12, (tried, taken)
        await (await here.workspace("duo")).quiet()
        await here.runtime.log_files.flush()
        if not engine.is_postgresql():  # which makes its own backups
            await here.runtime.database.back_up(tmp_path / "copy.db")
        assert leaks(tmp_path) == []
        rows = await here.read(stored.everything)
        assert "[redacted:" in rows["workspace"][-1]["given"]
        assert "[redacted:" in json.dumps(rows["proposal"])
        assert SECRET not in json.dumps(rows)
    assert leaks(tmp_path) == []


def argument_for(tool: Tool, name: str, schema: dict[str, Any]) -> Any:
    kinds = [schema.get("type"), *(each.get("type") for each in schema.get("anyOf", []))]
    if name in KNOWN and KNOWN[name] is not None and name not in ("name", "to"):
        return KNOWN[name]
    if name == "name":
        return "plan.md"
    if "enum" in schema:
        return schema["enum"][0]
    if "integer" in kinds or "number" in kinds:
        return 1
    if "boolean" in kinds:
        return True
    return [WORDS] if "array" in kinds else WORDS


WRITERS = {"channel_send", "team_doc_create", "team_doc_append", "resource_create", "my_status_set"}
WRITERS |= {"memory_write", "note_write", "todo_add", "team_proposal_create"}


async def test_N9_no_tool_writes_a_secret_down(tmp_path: Path, known: None) -> None:
    async with house(tmp_path, "alice", "bob") as here:
        await team(here, "file", "file")
        await (await here.workspace("duo")).quiet()
        worker = here.runtime.registry.worker((await here.workspace("duo")).members["alice"])
        tools = worker.kit.get().tools
        assert len(tools) > 15
        for tool in [tool for tool in tools if tool.spec.name != "ask_user"]:  # that would wait for one
            given, needed = tool.spec.schema["properties"], tool.spec.schema.get("required", ())
            arguments = {name: argument_for(tool, name, given[name]) for name in given if name in needed}
            here.mocks["alice"].then(calls(tool.spec.name, **arguments))
        here.mocks["alice"].then(says(WORDS))
        await here.do("send", to="@duo", message="@alice do everything")
        await (await here.workspace("duo")).quiet()
        await here.runtime.log_files.flush()
        made = await here.read(stored.calls, ok=1)
        assert {row["tool"] for row in made} >= WRITERS, await here.read(stored.calls, ok=0)
        assert leaks(tmp_path) == []


async def test_N9_a_document_cannot_be_called_by_a_secret(tmp_path: Path, known: None) -> None:
    async with house(tmp_path, "alice", "bob") as here:
        await team(here, "file", "file")
        with pytest.raises(AgentWorkerError, match="cannot hold a secret"):
            await here.do("doc_write", at="@duo", name=f"{SECRET}.md", text="x")


async def test_N9_neither_an_agent_nor_an_instance_can_be_called_by_a_secret(tmp_path: Path, known: None) -> None:
    async with house(tmp_path, "alice", "bob") as here:
        await team(here, "file", "file")
        for secret in (SECRET, SHAPED):
            for lasting in (True, False):
                with pytest.raises(AgentWorkerError, match="the name of an agent cannot hold a secret"):
                    await here.do("agent_create", name=f"x-{secret}", backend="mock", lasting=lasting)
            with pytest.raises(AgentWorkerError, match="the name of an instance cannot hold a secret"):
                await here.do("workflow_start", workflow="duo", tag=secret, params={"how": "well"})
        assert leaks(tmp_path) == []


async def test_N9_what_was_kept_under_a_secret_is_found_by_whoever_says_it_again(tmp_path: Path, known: None) -> None:
    async with house(tmp_path, "alice", "bob") as here:
        await team(here, "file", "file")
        await (await here.workspace("duo")).quiet()
        here.mocks["alice"].then(
            calls("memory_write", key=WORDS, value="a fact"),
            calls("memory_read", key=WORDS),
            calls("memory_forget", key=WORDS),
            calls("team_proposal_create", question="which?", options=[WORDS, "no"], vote=WORDS, fallback=WORDS),
            calls("team_vote", proposal=1, choice=WORDS),
            says("done"),
        )
        await here.do("send", to="@duo", message="@alice do it")
        await (await here.workspace("duo")).quiet()
        assert await here.read(stored.calls, ok=0) == []
        read = await here.read(stored.calls, tool="memory_read")
        assert "a fact" in read[0]["result"]
        assert leaks(tmp_path) == []


async def test_N9_options_that_differ_only_in_a_secret_are_one_option(tmp_path: Path, known: None) -> None:
    async with house(tmp_path, "alice", "bob") as here:
        await team(here, "file", "file")
        options = [f"it is {SHAPED}", f"it is {SHAPED.replace('a1', 'b2')}"]
        with pytest.raises(AgentWorkerError, match="an option is listed twice"):
            await here.do("proposal_create", at="@duo", question="which?", options=options)


@pytest.mark.sqlite("there documents are rows, and rows hold no secret: what a person wrote is a file beside it")
async def test_N9_what_a_person_wrote_into_a_document_stays_theirs(tmp_path: Path, known: None) -> None:
    """In their file, that is; what the database keeps of it is without."""
    async with house(tmp_path, "alice", "bob") as here:
        await team(here, "file", "file")
        await here.do("doc_write", at="@duo", name="plan.md", text="one\n")
        file = here.root / ".workspace" / "duo" / "main" / "documents" / "plan.md"
        file.write_text(f"one\nthe password is {SECRET}\n")
        await here.do("doc_append", at="@duo", name="plan.md", text=f"and mine is {SHAPED}\n")
        assert file.read_text() == f"one\nthe password is {SECRET}\nand mine is [redacted:github]\n"
        await here.do("doc_append", at="@duo", name="plan.md", text="the end\n")
        texts = json.dumps(await here.read(stored.documents))
        assert SECRET not in texts
        assert "the password is [redacted:secret]" in texts


async def test_N9_a_secret_in_two_halves_is_seen_when_it_is_whole(tmp_path: Path, known: None) -> None:
    async with house(tmp_path, "alice", "bob") as here:
        await team(here, "sqlite", "sqlite")
        await here.do("doc_write", at="@duo", name="plan.md", text="gh" + "p_" + "a1B2" * 4)
        assert "[redacted:" not in (await here.do("doc_read", at="@duo", name="plan.md"))["text"]
        base = (await here.do("doc_read", at="@duo", name="plan.md"))["revision"]
        await here.do("doc_write", at="@duo", name="plan.md", text=SHAPED, revision=base)
        assert (await here.do("doc_read", at="@duo", name="plan.md"))["text"] == "[redacted:github]"


async def test_N9_what_a_workflow_prints_is_no_secret(tmp_path: Path, known: None) -> None:
    async with house(tmp_path, "alice", "bob") as here:
        (here.root / ".workflows" / "duo.yaml").write_text(
            'agents: { alice: { ref: alice } }\nenv: [MY_FAVOURITE]\nkickoff: "say ${{ env.MY_FAVOURITE }}"\n'
        )
        (here.root / ".agents" / "alice.yaml").write_text("backend: mock\nenv: [MY_FAVOURITE, HOME]\n")
        await here.do("workflow_start", workflow="duo")
        assert (await here.do("read", at="@duo"))[0]["text"] == f"say {SECRET}"
