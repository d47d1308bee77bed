"""Whatever is wrong with a definition and whenever it is noticed, it takes down its own agent and nobody else.

Every kind of damage is done twice: before the project is loaded, and by an edit while its agents work. `validate` does
not see most of them. Each time the neighbour answers, no operation breaks, and mending it brings the agent back.
"""

from __future__ import annotations

import os
import re
import shutil
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from tests.faults.report import LONG, report

from agent_worker.agents.backend_factory import AgentKit
from agent_worker.agents.loader import Loader
from agent_worker.compose import RuntimeSettings, open_runtime
from agent_worker.core.clock import SystemClock
from agent_worker.core.errors import AgentWorkerError, BadInput
from agent_worker.database.runtime_lock import ProjectLocks, RuntimeHolder
from agent_worker.definitions.agent import AgentDefinition
from agent_worker.files.root import Root
from agent_worker.service.catalogue import OPERATIONS
from agent_worker.service.messages import ask
from agent_worker.service.projects import status
from agent_worker.service.service import Service
from agent_worker.service.trust import trust_give
from agent_worker.service.workflows import WorkflowRequest, workflow_start
from agent_worker.tools.python_functions import python_tool

GOOD = "backend: mock\n"
TEAM = "agents:\n  alice: { ref: alice }\n  bob: { ref: bob }\nworkspace: { provider: sqlite }\n"

Damage = Callable[[Path], None]


@dataclass(frozen=True)
class Kind:
    """One way to break alice."""

    do: Damage
    told: bool = True  #: in `status`: it cannot work so. Otherwise it may be met when it works, or do no harm


def written(text: str, **files: str | bytes) -> Damage:
    """This definition of alice, with files beside it: `a__b` is a/b."""

    def do(root: Path) -> None:
        for name, content in files.items():
            path = root / name.replace("__", "/").replace("_py", ".py").replace("_jsonl", ".jsonl")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content if isinstance(content, bytes) else content.encode(errors="surrogatepass"))
        (root / ".agents/alice.yaml").write_text(f"{GOOD}{text}\n")

    return do


def python(source: str) -> Damage:
    return written("tools: [./t.py:f]", t_py=source)


def made(make: Callable[[Path], object], at: str, text: str = "") -> Damage:
    """Something else than a file or a folder in this place."""

    def do(root: Path) -> None:
        path = root / at
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_dir():
            shutil.rmtree(path)
        path.unlink(missing_ok=True)
        make(path)
        if text:
            written(text)(root)

    return do


def loop(path: Path) -> None:
    path.symlink_to(path.name)


def nowhere(path: Path) -> None:
    path.symlink_to("nowhere")


def out(path: Path) -> None:
    path.symlink_to("/etc")


def a_file(path: Path) -> None:
    path.write_text("not a folder\n")


HOME = ".agents/alice"
SPEECH = (
    '{"seq": 1, "at": "2026-01-01T00:00:00+00:00", "sender": "user", "kind": "message", "text": "x", "run": null}\n'
)

KINDS: dict[str, Kind] = {
    # where its folder is
    "folder is a file": Kind(made(a_file, "taken", "context: { dir: taken }"), told=False),
    "folder beneath a file": Kind(made(a_file, "taken", "context: { dir: taken/x }")),
    "folder is a link out": Kind(made(out, "away", "context: { dir: away }")),
    "folder is a circle": Kind(made(loop, "round", "context: { dir: round }")),
    "folder of the neighbour": Kind(written("context: { dir: .agents/bob }")),
    "folder with a device's name": Kind(written("context: { dir: con }")),
    "folder with a dot at its end": Kind(written("context: { dir: a. }")),
    "folder that hides a slash": Kind(written("context: { dir: a%2fb }")),
    "folder with backslashes": Kind(written("context: { dir: 'a\\b' }")),
    "folder with one of our names": Kind(written("context: { dir: .tmp-x }")),
    "folder too deep": Kind(written(f"context: {{ dir: {'/'.join('a' * 40)} }}")),
    "folder with a long name": Kind(written(f"context: {{ dir: {'a' * 300} }}")),
    "folder with an invisible name": Kind(written('context: { dir: "a\\u200bb" }')),
    # what is in it
    "conversations are a file": Kind(made(a_file, f"{HOME}/conversations"), told=False),
    "conversations are a circle": Kind(made(loop, f"{HOME}/conversations"), told=False),
    "a conversation is a pipe": Kind(made(os.mkfifo, f"{HOME}/conversations/2026-01-01.jsonl"), told=False),
    "a conversation is a folder": Kind(made(Path.mkdir, f"{HOME}/conversations/2026-01-01.jsonl"), told=False),
    "a conversation is noise": Kind(
        written("", **{".agents__alice__conversations__1_jsonl": os.urandom(5000)}), told=False
    ),
    "a conversation counts too far": Kind(
        written("", **{".agents__alice__conversations__1_jsonl": SPEECH.replace("1,", f"{2**70},")}), told=False
    ),
    "a conversation holds half a character": Kind(
        written("", **{".agents__alice__conversations__1_jsonl": SPEECH.replace('"x"', '"\\ud800"')}), told=False
    ),
    "a conversation is deep": Kind(
        written("", **{".agents__alice__conversations__1_jsonl": '{"seq": 1, "x": ' + "[" * 50_000 + "\n"}), told=False
    ),
    "memory is a file": Kind(made(a_file, f"{HOME}/memory"), told=False),
    "memory is noise": Kind(written("", **{".agents__alice__memory__core.yaml": os.urandom(900)}), told=False),
    "notes are a pipe": Kind(made(os.mkfifo, f"{HOME}/notes"), told=False),
    "todos are a file": Kind(made(a_file, f"{HOME}/todo"), told=False),
    "the index is a file": Kind(made(a_file, f"{HOME}/.index"), told=False),
    "the index is a folder": Kind(made(Path.mkdir, f"{HOME}/.index/recall.db"), told=False),
    "the index is noise": Kind(written("", **{".agents__alice__.index__recall.db": os.urandom(9000)}), told=False),
    "the soul is noise": Kind(written("", **{".agents__alice__soul.yaml": os.urandom(900)}), told=False),
    # tools
    "a tool that there is not": Kind(written("tools: [fly]")),
    "a missing Python file": Kind(written("tools: [./nowhere.py:f]")),
    "a Python file that is a folder": Kind(made(Path.mkdir, "t.py", "tools: [./t.py:f]")),
    "a Python file that is a pipe": Kind(made(os.mkfifo, "t.py", "tools: [./t.py:f]")),
    "Python with a syntax error": Kind(python("def f(:\n")),
    "Python with zeros": Kind(python("x = 1\0\n")),
    "Python that cannot be imported": Kind(python("import no_such_module\n")),
    "Python that exits": Kind(python("raise SystemExit(3)\n")),
    "Python that interrupts": Kind(python("raise KeyboardInterrupt\n")),
    "Python that cancels": Kind(python("import asyncio\nraise asyncio.CancelledError\n")),
    "Python that ends a generator": Kind(python("raise GeneratorExit\n")),
    "Python that stops an iteration": Kind(python("raise StopIteration\n")),
    "Python that is too deep": Kind(python("def g(): g()\ng()\n")),
    "Python without the function": Kind(python("x = 1\n")),
    "Python without a docstring": Kind(python("def f(x: str) -> str:\n    return x\n")),
    "Python with a type that is none": Kind(python('def f(x: "nothing") -> str:\n    """Does."""\n')),
    "Python with a type without a schema": Kind(python('import socket\ndef f(x: socket.socket):\n    """Does."""\n')),
    "Python whose type explodes": Kind(
        python('class T:\n    def __class_getitem__(cls, x): 1 / 0\ndef f(x: "T[int]"):\n    """Does."""\n')
    ),
    # where it works and what it reads
    "a missing place to work": Kind(written("cwd: nowhere"), told=False),
    "a file to work in": Kind(made(a_file, "taken", "cwd: taken\nskills: [taken]"), told=False),
    "a circle to work in": Kind(made(loop, "round", "cwd: round")),
    "skills that lead out": Kind(made(out, "away", "skills: [away]")),
    "a missing prompt": Kind(written("prompt: { system_file: nowhere.md }")),
    "a prompt that is a folder": Kind(made(Path.mkdir, ".agents/p.md", "prompt: { system_file: p.md }")),
    "a prompt that is a pipe": Kind(made(os.mkfifo, ".agents/p.md", "prompt: { system_file: p.md }")),
    "a prompt that is noise": Kind(written("system_prompt: p.md", **{".agents__p.md": b"\xff\xfe"})),
    # who answers
    "a provider that nobody knows": Kind(written("model: nobody/x").__call__, told=False),
    "MCP at a wrong port": Kind(written("mcp_servers: { m: { url: 'http://127.0.0.1:99999/' } }")),
    "MCP by a missing program": Kind(written("mcp_servers: { m: { command: [no-such-program] } }"), told=False),
    "MCP by an empty word": Kind(written("mcp_servers: { m: { command: [''] } }")),
    # when it wakes
    "a time before all time": Kind(written("schedule: { at: '0001-01-01T00:00:00+14:00', prompt: x }")),
    "a time after all time": Kind(written("schedule: { at: '9999-12-31T23:59:59-14:00', prompt: x }")),
    "a day that never comes": Kind(written("schedule: { wakeup: 0 0 31 2 *, prompt: x }")),
    "a zone that is a folder": Kind(written("schedule: { wakeup: 0 9 * * *, tz: Europe, prompt: x }")),
    # who it is
    "the name of the neighbour": Kind(written("name: bob")),
    "the name of the neighbour, larger": Kind(written("name: BOB")),
    "a reserved name": Kind(written("name: user")),
    "half a character in its prompt": Kind(written('system_prompt: "\\ud800"')),
    "a soul of sixty floors": Kind(written("soul: { x: " + "[" * 60 + "]" * 60 + " }"), told=False),
    "a script that is over": Kind(written("script: []"), told=False),
    # its file
    "a folder instead of its file": Kind(made(Path.mkdir, ".agents/alice.yaml")),
    "a pipe instead of its file": Kind(made(os.mkfifo, ".agents/alice.yaml")),
    "a link to nowhere instead of its file": Kind(made(nowhere, ".agents/alice.yaml")),
    "noise instead of its file": Kind(lambda root: (root / ".agents/alice.yaml").write_bytes(os.urandom(999)) and None),
}
SDK = {
    "a model of nobody": "backend: sdk\nmodel: nobody/x\nprompt: { system: Be. }\n",
    "an address that is none": (
        "backend: sdk\nmodel: openai/x\nprompt: { system: Be. }\n"
        "provider: { name: openai, base_url: 'http://[::1/v1', api_key: $K }\n"
    ),
    "a key that is not there": (
        "backend: sdk\nmodel: openai/x\nprompt: { system: Be. }\n"
        "provider: { name: openai, base_url: 'http://127.0.0.1:9/v1', api_key: $NO_SUCH_KEY }\n"
    ),
    "a program that is not there": "backend: acp\ncommand: [no-such-program]\nprompt: { system: Be. }\n",
}
for title, text in SDK.items():
    KINDS[title] = Kind(
        lambda root, text=text: (root / ".agents/alice.yaml").write_text(text) and None,  # type: ignore[misc]
        told=title == "an address that is none",
    )


@pytest.fixture(autouse=True)
def short_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every look at the backends searches all of PATH, and there are hundreds of looks."""
    monkeypatch.setenv("PATH", os.defpath)


def fresh(root: Path) -> None:
    """The project as it should be."""
    for path in root.iterdir() if root.exists() else ():
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    (root / ".agents").mkdir(parents=True)
    (root / ".workflows").mkdir()
    for name in ("alice", "bob"):
        (root / f".agents/{name}.yaml").write_text(GOOD)
    (root / ".workflows/review.yaml").write_text(TEAM)


@asynccontextmanager
async def opened(root: Path) -> AsyncIterator[Service]:
    async with open_runtime(RuntimeSettings(), clock=SystemClock()) as runtime:
        service = Service(runtime)
        try:
            yield service
        finally:
            await service.close()


async def every_look(service: Service, root: Path) -> None:
    """Whatever can be looked at: an answer, or a sentence."""
    values: dict[str, Any] = {"project": str(root), "at": "alice", "name": "alice", "agent": "alice", "target": "alice"}
    for each in OPERATIONS.values():
        if each.method != "GET" or each.is_stream:
            continue
        fields = each.signature.arguments.model_fields
        given = {field: values.get(field, "1") for field in fields if field in values or fields[field].is_required()}
        said = await sentence(each.call(service, given))
        assert "should not have happened" not in said, (each.name, said)
        assert not said or fields.keys() != {"project"}, f"{each.name} does not answer for the others: {said}"


async def sentence(awaited: Awaitable[Any]) -> str:
    """What is said instead of an answer; nothing if there is one."""
    try:
        await awaited
    except AgentWorkerError as error:
        return error.message
    return ""


async def answers(service: Service, root: Path, agent: str) -> str:
    """How a question ends: `done`, another state, or what is said instead."""
    try:
        answer = await ask(service, agent, "are you there?", str(root))
    except AgentWorkerError as error:
        return error.message
    assert answer.state == "done" or answer.reason
    return answer.state if answer.state == "done" else answer.reason


@pytest.mark.parametrize("when", ["at load", "by an edit under way"])
@pytest.mark.parametrize("title", KINDS)
async def test_I7_one_bad_definition_takes_down_nobody_else(tmp_path: Path, title: str, when: str) -> None:
    root, kind = tmp_path / "p", KINDS[title]
    fresh(root)
    async with opened(root) as service:
        if when != "at load":
            assert await answers(service, root, "alice") == "done"
            assert await answers(service, root, "bob") == "done"
        kind.do(root)
        found = await status(service, str(root))
        told = [problem for problem in found.project.problems if "alice" in problem]
        assert told or not kind.told
        assert "should not have happened" not in str(found)
        assert {"alice", "bob"} <= {agent.name for agent in found.agents}
        assert await answers(service, root, "bob") == "done"
        if LONG or (list(KINDS).index(title) % 2 == 0) == (when == "at load"):  # else the other of the two looks
            await every_look(service, root)
        said = await answers(service, root, "alice")
        if told:
            shown = next(agent for agent in found.agents if agent.name == "alice")
            assert shown.reason
            assert (shown.state in ("broken", "error")) == (when == "at load")
            assert (said == "done") == (when != "at load"), said
        await service.runtime.log_files.flush()  # so that nobody writes where we tidy up
        fresh(root)
        assert await answers(service, root, "alice") == "done"
        assert not (await status(service, str(root))).project.problems
    report.count(f"I7 kinds of damage {when}")


#: Ways to break a workflow, each as its file.
FLOWS = {
    "no YAML": "agents: [",
    "nobody in it": "agents: {}\n",
    "a stranger in it": "agents:\n  carl: { ref: carl }\n",
    "a tool that there is not": "agents:\n  helper: { backend: mock, tools: [fly] }\nkickoff: '@helper hi'\n",
    "an inline program that is not there": (
        "agents:\n  helper: { backend: acp, command: [no-such-program], system_prompt: x }\nkickoff: '@helper hi'\n"
    ),
    "a place that is a file": "agents:\n  bob: { ref: bob }\nworkspace: { bind: taken }\n",
    "a place beneath a file": "agents:\n  bob: { ref: bob }\nworkspace: { dir: taken/x }\n",
    "a place with a device's name": "agents:\n  bob: { ref: bob }\nworkspace: { bind: data/nul }\n",
    "a place that is a circle": "agents:\n  bob: { ref: bob }\nworkspace: { bind: round }\n",
    "a set-up that fails": "agents:\n  bob: { ref: bob }\nsetup: [{ shell: exit 3, as: x }]\n",
    "a time after all time": (
        "agents:\n  bob: { ref: bob }\nkickoff: '@bob hi'\nschedule: { at: '9999-12-31T23:59:59-14:00' }\n"
    ),
    "the name of another": "name: review\nagents:\n  bob: { ref: bob }\n",
    "a copy without a repository": ("agents:\n  helper: { backend: mock, isolate: worktree }\nkickoff: '@helper hi'\n"),
}


@pytest.mark.parametrize("when", ["at load", "by an edit under way"])
@pytest.mark.parametrize("title", FLOWS)
async def test_I7_one_bad_workflow_takes_down_nothing_else(tmp_path: Path, title: str, when: str) -> None:
    root = tmp_path / "p"
    fresh(root)
    (root / "taken").write_text("a file\n")
    (root / "round").symlink_to("round")
    (root / ".workflows/a.yaml").write_text(TEAM)
    async with opened(root) as service:
        if when != "at load":
            await status(service, str(root))
        (root / ".workflows/a.yaml").write_text(FLOWS[title])
        with suppress(AgentWorkerError):
            await workflow_start(service, WorkflowRequest("a", str(root)))
        assert (await workflow_start(service, WorkflowRequest("review", str(root)))).name == "review"
        assert await answers(service, root, "alice") == "done"
        assert await answers(service, root, "bob") == "done"
        await every_look(service, root)
        if title != "the name of another":
            (root / ".workflows/a.yaml").write_text(TEAM)
            assert not (await status(service, str(root))).project.problems


#: Ways to break the file of the project itself.
PROJECTS = {
    "no YAML": "agents: [",
    "a list": "- alice\n",
    "noise": "\x00\x01",
    "an unknown key": "agnts: []\n",
    "a path that leads out": "agents: [../../x.yaml]\n",
    "a base that is git's": "workspace: { base: .git/x }\n",
    "a base with a device's name": "workspace: { base: nul }\n",
    "an agent that is wrong": "agents: [.agents/alice.yaml, .agents/bob.yaml, { name: carl, modl: x }]\n",
    "an agent without a name": "agents: [.agents/alice.yaml, .agents/bob.yaml, { backend: mock }]\n",
    "a file that is not there": "agents: [.agents/alice.yaml, .agents/bob.yaml, .agents/carl.yaml]\n",
    "a folder as an agent": "agents: [.agents/alice.yaml, .agents/bob.yaml, .agents]\n",
    "a workflow that is not there": "workflows: { review: .workflows/review.yaml, other: nowhere.yaml }\n",
    "a workflow with a wrong path": "workflows: { review: .workflows/review.yaml, other: /etc/x.yaml }\n",
    "a limit that is none": "limits: { usd_per_day: lots }\n",
}


@pytest.mark.parametrize("when", ["at load", "by an edit under way"])
@pytest.mark.parametrize("title", PROJECTS)
async def test_I7_a_bad_project_file_takes_down_no_agent(tmp_path: Path, title: str, when: str) -> None:
    root = tmp_path / "p"
    fresh(root)
    (root / "moniro.yaml").write_text("name: shop\nlimits: { usd_per_day: 7 }\n")
    async with opened(root) as service:
        if when != "at load":
            await status(service, str(root))
        (root / "moniro.yaml").write_text(PROJECTS[title])
        found = await status(service, str(root))
        assert found.project.problems
        if when != "at load" and "not there" not in title and "folder" not in title:
            assert found.project.name == "shop"  # the last good one
        assert await answers(service, root, "alice") == "done"
        assert await answers(service, root, "bob") == "done"
        await every_look(service, root)
        (root / "moniro.yaml").write_text("name: shop\n")
        assert not (await status(service, str(root))).project.problems


@pytest.mark.parametrize("tool", [True, False], ids=["a tool of its own", "our tools only"])
async def test_I7_what_we_did_not_foresee_is_logged_and_is_the_trouble_of_one(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, tool: bool
) -> None:
    """Whoever brings tools is tried when it is loaded; the others are made ready when they are first asked."""
    root = tmp_path / "p"
    fresh(root)
    if tool:
        python('def f(x: str) -> str:\n    """Does."""\n    return x\n')(root)
    async with open_runtime(RuntimeSettings(), clock=SystemClock()) as runtime:

        class Outfitter:
            gate = runtime.backends.gate
            held_back = runtime.backends.held_back
            keep_secret = runtime.backends.keep_secret
            keys = runtime.backends.keys
            lacks_key = runtime.backends.lacks_key

            def make_kit(self, definition: AgentDefinition, *place: Path, **how: Any) -> AgentKit:
                if definition.name == "alice":
                    raise ZeroDivisionError("a bug of ours")
                return runtime.backends.make_kit(definition, *place, **how)

        locks = ProjectLocks(RuntimeHolder(reach="", database=""))
        loader = Loader(runtime.database, runtime.clock, runtime.registry, runtime.log_files, Outfitter(), locks)
        service = Service(replace(runtime, loader=loader))
        found = await status(service, str(root))
        assert len(found.project.problems) == tool
        for problem in found.project.problems:
            assert problem.startswith(".agents/alice.yaml:")
            assert "agent-worker daemon logs" in problem
        for told in (*found.project.problems, await answers(service, root, "alice")):
            number = re.search(r"this should not have happened: (e_\w+)", told)
            assert number is not None
            assert number[1] in caplog.text
        assert "ZeroDivisionError: a bug of ours" in caplog.text
        assert await answers(service, root, "bob") == "done"
        await service.close()
        locks.close()


def test_I7_a_tool_that_never_finishes_loading_holds_up_nobody_for_ever(tmp_path: Path) -> None:
    (tmp_path / "t.py").write_text("import threading\nthreading.Event().wait()\n")
    for _ in range(2):  # nor is it begun a second time
        with pytest.raises(BadInput, match="did not finish loading"):
            python_tool("./t.py:f", root=tmp_path, patience=0.05)
    assert len([thread for thread in threading.enumerate() if thread.name == "loading t.py"]) == 1


async def test_I7_mending_what_a_definition_names_is_enough(tmp_path: Path) -> None:
    """Not the file of the agent is touched, but its tool, its prompt, the file that stood where its folder goes."""
    root = tmp_path / "p"
    fresh(root)
    (root / "prompts").mkdir()
    (root / "t.py").write_text("def f(:\n")
    (root / "taken").write_text("a file\n")
    (root / ".agents/tool.yaml").write_text(f"{GOOD}tools: [./t.py:f]\n")
    (root / ".agents/prompt.yaml").write_text(f"{GOOD}prompt: {{ system_file: ../prompts/p.md }}\n")
    (root / ".agents/folder.yaml").write_text(f"{GOOD}context: {{ dir: taken }}\n")
    async with opened(root) as service:
        assert len((await status(service, str(root))).project.problems) == 3
        for agent in ("tool", "prompt", "folder"):
            assert await answers(service, root, agent) != "done"
        (root / "t.py").write_text('def f(x: str) -> str:\n    """Does."""\n    return x\n')
        (root / "prompts/p.md").write_text("Be kind.\n")
        (root / "taken").unlink()
        for agent in ("tool", "prompt", "folder"):
            assert await answers(service, root, agent) == "done"
        (root / "prompts/p.md").write_text("Be brief.\n")
        (await status(service, str(root)))
        (loaded,) = service.projects()
        assert loaded.definition("prompt").system == "Be brief.\n"


async def test_I7_what_is_wrong_is_told_until_it_is_mended_and_no_longer(tmp_path: Path) -> None:
    """Also when agents are made ready again for another reason."""
    root = tmp_path / "p"
    fresh(root)
    async with opened(root) as service:
        assert await answers(service, root, "alice") == "done"
        written("tools: [fly]")(root)
        loaded = await service.project(str(root))
        for _ in range(3):
            await service.remake_kit(loaded)
            assert len((await status(service, str(root))).project.problems) == 1
            assert await answers(service, root, "alice") == "done"  # by its last good definition
        written("")(root)
        await service.remake_kit(await service.project(str(root)))
        assert not (await status(service, str(root))).project.problems


async def test_I7_what_was_approved_and_cannot_be_used_says_why(tmp_path: Path) -> None:
    root = tmp_path / "p"
    fresh(root)
    python("import no_such_module\n")(root)
    home = Root.private(tmp_path / "home")
    async with open_runtime(RuntimeSettings(trust=home), clock=SystemClock()) as runtime:
        service = Service(runtime)
        assert "have not approved" in await answers(service, root, "alice")
        await trust_give(service, str(root))
        assert "no_such_module" in await answers(service, root, "alice")
        assert await answers(service, root, "bob") == "done"
        await service.close()
