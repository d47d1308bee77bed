"""Everything in a project that can execute something or receive a secret, each as a line that says so (SPEC §18.3).

A power is told apart by its digest: the exact words of the definition and the exact content of the files it names.
Plain words (prompts, kickoffs, souls) are none, nor is what runs in our sandbox without network. A command's own
files are covered where it names them; what they in turn call is not. Whether a power is approved is not asked here.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, Literal

from agent_worker.address import canonical
from agent_worker.definitions.agent import AgentDefinition, McpServer, Provider, Tool
from agent_worker.definitions.paths import Outside, beneath
from agent_worker.definitions.project import Project
from agent_worker.definitions.remote import Fetched
from agent_worker.definitions.workflow import RefMember, WorkflowDefinition
from agent_worker.trust.contents import Content, digest_of, file_content, folder_content
from agent_worker.trust.shown import in_ascii, one_line, revealed

Kind = Literal[
    "source", "setup", "variables", "environment", "endpoint", "mcp", "python", "shell", "skills", "program", "settings"
]

#: What the programs read from a project by themselves and obey: hooks, servers, addresses, permissions, plugins.
SETTINGS: dict[str, tuple[str, ...]] = {
    "claude": (".mcp.json", ".claude/settings.json", ".claude/settings.local.json"),
    "codex": (".codex/config.toml", ".codex/hooks.json"),
    "cursor": (".cursor/mcp.json", ".cursor/cli.json", ".cursor/hooks.json"),
    "gemini": (".gemini/settings.json", ".gemini/.env", ".gemini/extensions", ".gemini/policies"),
    "opencode": (
        "opencode.json",
        "opencode.jsonc",
        *(f".opencode/{name}" for name in ("opencode.json", "opencode.jsonc", "plugin", "plugins", "tool", "tools")),
    ),
}
SETTINGS["acp"] = tuple(name for names in SETTINGS.values() for name in names)  # it may be any of them
_DEAF = frozenset({"claude", "codex"})  # started so that they read none of it: tests/backends/programs proves it

_MAY = {
    "read": "reads files and changes none",
    "edit": "reads and changes files",
    "full": "runs any command and changes any file with all your rights, without asking,",
}
_SHELL_WORD = re.compile(r"[^\s;&|<>()$`\"'=]{1,1000}")
_SCRIPTS = {".sh", ".bash", ".zsh", ".py", ".js", ".mjs", ".cjs", ".ts", ".rb", ".pl", ".php", ".lua"}


@dataclass(frozen=True, slots=True)
class Power:
    """One thing the project would do with the user's rights."""

    kind: Kind
    who: str  #: an agent, `helper@review` for an inline one, or a workflow
    name: str  #: which of its kind
    what: str  #: one line for a person, hidden characters written out
    content: str = field(repr=False)  #: exactly what is approved, as text; the source of a Python tool
    digest: str

    @property
    def key(self) -> tuple[str, str, str]:
        """Under which a changed power is the same power."""
        return self.kind, self.who, self.name


def powers_of(
    project: Project, workflow: WorkflowDefinition | None = None, fetched: Fetched | None = None
) -> tuple[Power, ...]:
    """Of one workflow and its members; without one, of everything in the project.

    Of one that was fetched every word needs a yes: somebody else may change them.
    """
    found: list[Power] = []
    if workflow is not None and fetched is not None:
        found.append(_source(workflow, fetched))
    if workflow is None:
        for agent in project.agents.values():
            found += powers_of_agent(agent, project.root)
    for each in project.workflows.values() if workflow is None else (workflow,):
        found += _of_workflow(each, project)
    return tuple(dict.fromkeys(found))


def powers_of_agent(agent: AgentDefinition, root: Path, *, who: str = "") -> tuple[Power, ...]:
    """`who` is for an inline agent, which has no name of its own in the project."""
    return tuple(_of_agent(agent, who or agent.name, root))


def _of_workflow(workflow: WorkflowDefinition, project: Project) -> Iterator[Power]:
    if workflow.setup:
        yield _setup(workflow, project.root)
    if workflow.env:
        names = ", ".join(f"${name}" for name in workflow.env)
        yield _power("variables", workflow.name, "env", f"{workflow.name} puts {names} into prompts", names)
    for name, member in workflow.agents.items():
        if not isinstance(member, RefMember):
            who = f"{name}@{workflow.name}"
            yield from powers_of_agent(member.as_agent(name), project.root, who=who)
        elif (known := canonical(member.ref, project.agents)) is not None:
            yield from powers_of_agent(member.applied_to(project.agents[known]), project.root)


def _source(workflow: WorkflowDefinition, fetched: Fetched) -> Power:
    content = folder_content(fetched.root, ".")
    what = f"{workflow.name} comes from {in_ascii(fetched.remote.unversioned)} at commit {fetched.commit}"
    return _power("source", workflow.name, fetched.remote.unversioned, what, content, fetched.commit)


def _setup(workflow: WorkflowDefinition, root: Path) -> Power:
    """All commands are one power: in another order they would do something else."""
    commands = [step.shell for step in workflow.setup]
    listed = "".join(f"$ {step.shell}\n{f'  → {step.output}' if step.output else ''}\n" for step in workflow.setup)
    words = (word for command in commands for word in _SHELL_WORD.findall(command))
    content = _with_files(listed, _named_files(words, root, (root,), only_scripts=True))
    what = f"set-up of {workflow.name} runs: {one_line('  then  '.join(commands))}"
    return _power("setup", workflow.name, "setup", what, content, [step.model_dump() for step in workflow.setup])


def _of_agent(agent: AgentDefinition, who: str, root: Path) -> Iterator[Power]:
    if agent.provider is not None and (agent.provider.base_url or agent.provider.api_key):
        yield _endpoint(agent.provider, who)
    if agent.env:
        names = ", ".join(f"${name}" for name in agent.env)
        yield _power("environment", who, "env", f"processes of {who} are given {names}", names)
    for tool in agent.tools:
        if ".py:" in tool.name:
            yield _python(tool, who, root)
        elif tool.name == "bash" and (tool.unsafe or tool.network):
            yield _shell(tool, who)
    for name, server in agent.mcp_servers.items():
        yield _mcp(name, server, agent, who, root)
    for folder in agent.skills:
        what = f"{who} follows the skills in {one_line(folder)} and may run what is in them"
        yield _power("skills", who, folder, what, folder_content(root, folder))
    if agent.backend not in ("sdk", "mock"):
        yield _program(agent, who, root)
        yield from _settings(agent, who, root)


def _endpoint(provider: Provider, who: str) -> Power:
    where = in_ascii(provider.base_url) if provider.base_url else f"the provider {provider.name}"
    carried = f"${provider.key_variable}" if provider.api_key else "what it is told, without a key,"
    plain = ", unencrypted" if (provider.base_url or "").lower().startswith("http:") else ""
    what = f"{who} sends {carried} to {where}{plain}"
    return _power("endpoint", who, "provider", what, what, provider.model_dump())


def _python(tool: Tool, who: str, root: Path) -> Power:
    source = file_content(root, tool.name.rpartition(":")[0])
    what = f"{who} may run {one_line(tool.name)} in our own process{_asking(tool)}"
    return _power("python", who, tool.name, what, source, tool.approve)


def _shell(tool: Tool, who: str) -> Power:
    how = "without any sandbox, with all your rights" if tool.unsafe else "that reach the network"
    what = f"{who} may run shell commands {how}{_asking(tool)}"
    return _power("shell", who, "bash", what, what, tool.model_dump())


def _asking(tool: Tool) -> str:
    return ", asking you each time" if tool.approve else ", without asking"


def _mcp(name: str, server: McpServer, agent: AgentDefinition, who: str, root: Path) -> Power:
    if server.command is None:
        what = f"{who} connects to the MCP server {name} at {in_ascii(server.url or '')}"
        return _power("mcp", who, name, what, what, server.model_dump())
    what = f"{who} starts the MCP server {name}{_in(agent)}: {one_line(shlex.join(server.command))}"
    return _power("mcp", who, name, what, _command(server.command, agent, root), [server.command, agent.cwd])


def _program(agent: AgentDefinition, who: str, root: Path) -> Power:
    program = f": {one_line(shlex.join(agent.command))}" if agent.command else f" {agent.backend}"
    does = _MAY[agent.access] if agent.backend != "acp" else "reads, writes and runs by its own rules"
    what = f"{who} runs the program{program}, which {does}{_in(agent)}"
    content = _command(agent.command or (agent.backend,), agent, root)
    return _power("program", who, agent.backend, what, content, [agent.command, agent.cwd, agent.access])


def _settings(agent: AgentDefinition, who: str, root: Path) -> Iterator[Power]:
    """In the directory the program starts in and above it, up to the project's."""
    here = PurePosixPath(os.path.normpath(agent.cwd))
    for folder in (here, *here.parents) if agent.backend not in _DEAF else ():
        for name in SETTINGS.get(agent.backend, ()):
            path = str(folder / name)
            if not os.path.lexists(root / path):
                continue
            content = folder_content(root, path) if (root / path).is_dir() else file_content(root, path)
            what = f"{agent.backend}, run by {who}, may do what the project's {one_line(path)} says"
            yield _power("settings", who, f"{agent.backend} {path}", what, content)


def _in(agent: AgentDefinition) -> str:
    return " in the project" if os.path.normpath(agent.cwd) == "." else f" in {one_line(agent.cwd)}"


def _command(command: Sequence[str], agent: AgentDefinition, root: Path) -> Content:
    words = (part for word in command for part in (word, word.rpartition("=")[2]))
    return _with_files(shlex.join(command), _named_files(words, root, (root / agent.cwd, root)))


def _named_files(
    words: Iterable[str], root: Path, starts: Iterable[Path], *, only_scripts: bool = False
) -> dict[str, Content]:
    """Files of the project among the words of a command. Data that a command only reads would ask far too often."""
    found: dict[str, Content] = {}
    for word in dict.fromkeys(words):
        for start in starts:
            try:
                real = beneath(root, word, start=start)
            except Outside:
                continue
            if os.path.isfile(real) and (not only_scripts or real.suffix in _SCRIPTS or os.access(real, os.X_OK)):
                found.setdefault(word, file_content(root, word, start=start))
    return found


def _with_files(text: str, files: dict[str, Content]) -> Content:
    parts = [text, *(f"== {name}\n{content.text}" for name, content in files.items())]
    return Content("\n".join(parts), digest_of(text, [(name, content.digest) for name, content in files.items()]))


def _power(kind: Kind, who: str, name: str, what: str, content: Content | str, terms: Any = None) -> Power:
    text, digest = (content, "") if isinstance(content, str) else (content.text, content.digest)
    return Power(kind, who, name, revealed(what), text, digest_of(kind, who, name, terms, text, digest))
