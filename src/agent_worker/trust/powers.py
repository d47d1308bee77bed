"""Everything in a project that can execute something or receive a secret, each as a line that says so.

A power is told apart by its digest: the exact words of the definition and the exact content of the files it names.
Plain words (prompts, kickoffs, souls) are none, nor is what runs in our sandbox without network. Of a command every
file is covered that it can be seen to run (command_reach.py); one that can run others says so. A limit above the
default is a power too, of a kind that forbids nothing: until it is approved a lower one holds. Whether a power is
approved is not asked here.
"""

from __future__ import annotations

import ast
import os
import shlex
import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field
from pathlib import Path, PurePosixPath
from typing import Any, Literal

from agent_worker.core.address import canonical
from agent_worker.core.control_files import is_there
from agent_worker.core.later import dataclass
from agent_worker.core.remote import Fetched
from agent_worker.definitions.agent import AgentDefinition
from agent_worker.definitions.agent_blocks import McpServer, ProviderSettings, ToolSettings
from agent_worker.definitions.project_files import ProjectFiles
from agent_worker.definitions.triggers import Trigger
from agent_worker.definitions.workflow import RefMember, SetupStep, WorkflowDefinition
from agent_worker.trust.allowances import Allowance, of_agent, of_project, of_workflow
from agent_worker.trust.command_knowledge import Reach
from agent_worker.trust.command_reach import reach_of_program, reach_of_shell
from agent_worker.trust.contents import Content, digest_of, file_content, folder_content, leads_out
from agent_worker.trust.preview import in_ascii, one_line, revealed

Kind = Literal[
    "source",
    "limits",
    "keys",
    "setup",
    "check",
    "trigger",
    "variables",
    "environment",
    "endpoint",
    "mcp",
    "python",
    "shell",
    "skills",
    "program",
    "settings",
]

_PARSING = threading.Lock()
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

_OWN_RULES = frozenset({"acp", "hermes"})  # they ask about some of what they do, or about nothing
_MAY = {
    "read": "reads files and changes none",
    "edit": "reads and changes files",
    "full": "runs any command and changes any file with all your rights, without asking,",
}
ANY_FILE = "this can run any file of the project"
_LISTED = 12  # files in a line
_LOADERS = frozenset({"importlib", "runpy", "__import__", "exec", "eval", "compile", "site", "zipimport", "pkgutil"})


@dataclass(frozen=True, slots=True)
class Power:
    """One thing the project would do with the user's rights."""

    kind: Kind
    who: str  #: an agent, `helper@review` for an inline one, or a workflow
    name: str  #: which of its kind
    what: str  #: one line for a person, hidden characters written out
    content: str = field(repr=False)  #: exactly what is approved, as text; the source of a Python tool
    digest: str
    files: tuple[tuple[str, str], ...] = field(default=(), repr=False)  #: path and digest of each that is covered
    any_file: bool = False  #: it can run files of the project that are not covered
    allowance: Allowance | None = None  #: a limit above its default, which forbids nothing while it waits

    @property
    def forbids(self) -> bool:
        """Whether something is refused until it is approved. A limit stays lower, and a key is not used, until then."""
        return self.kind not in ("limits", "keys")

    @property
    def key(self) -> tuple[str, str, str]:
        """The name of a power, by which one that was changed is known for the same."""
        return self.kind, self.who, self.name


def powers_of(
    project: ProjectFiles, workflow: WorkflowDefinition | None = None, fetched: Fetched | None = None
) -> tuple[Power, ...]:
    """The powers of one workflow and its members; without one, of everything in the project.

    Every word of a fetched workflow needs a yes: somebody else may change it.
    """
    found: list[Power] = []
    if workflow is not None and fetched is not None:
        found.append(_source(workflow, fetched))
    if workflow is None:
        for agent in project.agents.values():
            found += powers_of_agent(agent, project.root)
    found += _raised([of_project(project)])
    for each in project.workflows.values() if workflow is None else (workflow,):
        found += _of_workflow(each, project)
    return tuple(dict.fromkeys(found))


def powers_of_agent(agent: AgentDefinition, root: Path, *, who: str = "") -> tuple[Power, ...]:
    """All powers of an agent. `who` is for an inline agent, which has no name of its own in the project."""
    return (*_of_agent(agent, who or agent.name, root), *_raised([of_agent(agent, who)]))


def _raised(allowances: Iterable[Allowance]) -> Iterator[Power]:
    for each in allowances:
        if each.is_raised:
            what = f"{each.of} may use {each.told(each.value)} instead of {each.told(each.default)}"
            digest = digest_of("limits", each.of, each.name, each.told(each.value))
            yield Power("limits", each.of, each.name, revealed(what), what, digest, allowance=each)


def _of_workflow(workflow: WorkflowDefinition, project: ProjectFiles) -> Iterator[Power]:
    yield from _raised(of_workflow(workflow))
    if workflow.setup:
        yield _setup(workflow, project.root)
    if workflow.schedule and workflow.schedule.check:
        yield check_power(workflow.schedule.check, workflow.name, project.root)
    for name, trigger in workflow.triggers.items():
        yield trigger_power(workflow.name, name, trigger)
    if workflow.env:
        names = ", ".join(f"${name}" for name in workflow.env)
        yield _power("variables", workflow.name, "env", f"{workflow.name} puts {names} into prompts", names)
    for name, member in workflow.agents.items():
        if not isinstance(member, RefMember):
            yield from _of_agent(member.as_agent(name), f"{name}@{workflow.name}", project.root)
        elif (known := canonical(member.ref, project.agents)) is not None:
            agent = project.agents[known]
            yield from _of_agent(member.applied_to(agent), agent.name, project.root)
            yield from _raised([of_agent(agent)])


def _source(workflow: WorkflowDefinition, fetched: Fetched) -> Power:
    content = folder_content(fetched.root, ".")
    what = f"{workflow.name} comes from {in_ascii(fetched.remote.unversioned)} at commit {fetched.commit}"
    return _power("source", workflow.name, fetched.remote.unversioned, what, content, fetched.commit)


def _setup(workflow: WorkflowDefinition, root: Path) -> Power:
    """The power of a set-up. All its commands are one: in another order they would do something else."""
    commands = [step.shell for step in workflow.setup]
    listed = "".join(f"$ {step.shell}\n{f'  → {step.output}' if step.output else ''}\n" for step in workflow.setup)
    what = f"set-up of {workflow.name} runs: {one_line('  then  '.join(commands))}"
    reach = _together([reach_of_shell(command, root) for command in commands])
    terms = [step.model_dump() for step in workflow.setup]
    return _running("setup", workflow.name, "setup", what, listed, reach, root, terms)


def check_power(command: str, who: str, root: Path) -> Power:
    """The power of a command that a schedule of `who` runs to see whether there is anything to do."""
    what = f"the schedule of {who} runs, each time, to see whether there is work: {one_line(command)}"
    return _running("check", who, command, what, f"$ {command}", reach_of_shell(command, root), root, [command])


def trigger_power(workflow: str, name: str, trigger: Trigger) -> Power:
    """The power of a webhook: whoever has its secret makes a team work, and spends what that costs."""
    does = f"says something in {workflow}" if trigger.send else f"starts {workflow}"
    who = f"anyone who signs with ${trigger.variable}"
    what = f"{who} {does} by the webhook {name}, up to {trigger.per_hour} times an hour"
    return _power("trigger", workflow, name, what, trigger.model_dump_json(indent=1), trigger.model_dump())


def changed_files(power: Power, step: SetupStep, root: Path) -> list[str]:
    """The files that a step of the set-up would run, and that have changed since this power was found."""
    found, approved = _contents(reach_of_shell(step.shell, root), root), dict(power.files)
    return [path for path, content in found.items() if approved.get(path) != content.digest]


def _of_agent(agent: AgentDefinition, who: str, root: Path) -> Iterator[Power]:
    if agent.provider is not None and (agent.provider.base_url or agent.provider.api_key):
        yield _endpoint(agent.provider, who, agent.served_by)
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
    if agent.schedule and agent.schedule.check:
        yield check_power(agent.schedule.check, who, root)
    for folder in agent.skills:
        what = f"{who} follows the skills in {one_line(folder)} and may run what is in them"
        yield _power("skills", who, folder, what, folder_content(root, folder))
    if agent.backend not in ("sdk", "mock"):
        yield _program(agent, who, root)
        yield from _settings(agent, who, root)


def _endpoint(provider: ProviderSettings, who: str, name: str) -> Power:
    where = in_ascii(provider.base_url) if provider.base_url else f"the provider {name}"
    carried = f"${provider.key_variable}" if provider.api_key else "what it is told, without a key,"
    plain = ", unencrypted" if (provider.base_url or "").lower().startswith("http:") else ""
    what = f"{who} sends {carried} to {where}{plain}"
    return _power("endpoint", who, "provider", what, what, provider.model_dump())


def _python(tool: ToolSettings, who: str, root: Path) -> Power:
    source = file_content(root, tool.name.rpartition(":")[0])
    what = f"{who} may run {one_line(tool.name)} in our own process{_asking(tool)}"
    loads = _loads_others(source.text)
    return _power(
        "python", who, tool.name, what + (f"; {ANY_FILE}" if loads else ""), source, tool.approve, any_file=loads
    )


def python_tree(source: str) -> ast.Module:
    """The syntax tree of Python code. One thread parses at a time: Python 3.11 may report a false recursion error for
    two.
    """
    with _PARSING:
        return ast.parse(source)


def _loads_others(source: str) -> bool:
    """Does this Python look as if it took more code from the project when it is loaded?"""
    try:
        nodes = list(ast.walk(python_tree(source)))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False  # nor does it run
    names = {node.id for node in nodes if isinstance(node, ast.Name)}
    names |= {alias.name.partition(".")[0] for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    froms = {(node.module or "").partition(".")[0] for node in nodes if isinstance(node, ast.ImportFrom)}
    paths = any(
        isinstance(node, ast.Attribute)
        and node.attr in ("path", "meta_path", "path_hooks")
        and isinstance(node.value, ast.Name)
        and node.value.id == "sys"
        for node in nodes
    )
    return (
        paths
        or bool((names | froms) & _LOADERS)
        or any(isinstance(node, ast.ImportFrom) and (node.level or node.module == "sys") for node in nodes)
    )


def _shell(tool: ToolSettings, who: str) -> Power:
    how = "without any sandbox, with all your rights" if tool.unsafe else "that reach the network"
    what = f"{who} may run shell commands {how}{_asking(tool)}"
    return _power("shell", who, "bash", what, what, tool.model_dump())


def _asking(tool: ToolSettings) -> str:
    return ", asking you each time" if tool.approve else ", without asking"


def _mcp(name: str, server: McpServer, agent: AgentDefinition, who: str, root: Path) -> Power:
    if server.command is None:
        what = f"{who} connects to the MCP server {name} at {in_ascii(server.url or '')}"
        return _power("mcp", who, name, what, what, server.model_dump())
    what = f"{who} starts the MCP server {name}{_in(agent)}: {one_line(shlex.join(server.command))}"
    reach = reach_of_program(server.command, root, root / agent.cwd)
    return _running("mcp", who, name, what, shlex.join(server.command), reach, root, [server.command, agent.cwd])


def _program(agent: AgentDefinition, who: str, root: Path) -> Power:
    program = f": {one_line(shlex.join(agent.command))}" if agent.command else f" {agent.backend}"
    does = _MAY[agent.access] if agent.backend not in _OWN_RULES else "reads, writes and runs by its own rules"
    what = f"{who} runs the program{program}, which {does}{_in(agent)}"
    command = agent.command or (agent.backend,)
    reach = reach_of_program(command, root, root / agent.cwd)
    terms = [agent.command, agent.cwd, agent.access]
    return _running("program", who, agent.backend, what, shlex.join(command), reach, root, terms)


def _settings(agent: AgentDefinition, who: str, root: Path) -> Iterator[Power]:
    """Settings in the directory the program starts in and above it, up to the project's."""
    here = PurePosixPath(os.path.normpath(agent.cwd))
    for folder in (here, *here.parents) if agent.backend not in _DEAF else ():
        for name in SETTINGS.get(agent.backend, ()):
            path = str(folder / name)
            if not is_there(root / path):
                continue
            content = folder_content(root, path) if (root / path).is_dir() else file_content(root, path)
            what = f"{agent.backend}, run by {who}, may do what the project's {one_line(path)} says"
            yield _power("settings", who, f"{agent.backend} {path}", what, content)


def _in(agent: AgentDefinition) -> str:
    return " in the project" if os.path.normpath(agent.cwd) == "." else f" in {one_line(agent.cwd)}"


def _running(kind: Kind, who: str, name: str, what: str, command: str, reach: Reach, root: Path, terms: Any) -> Power:
    """The power to run a command: its files are named in the line, and stand in the content in full."""
    files = _contents(reach, root)
    notes = [f"{ANY_FILE}, because of: {one_line(', '.join(reach.anything))}"] if reach.anything else []
    parts = [command, *notes, *(f"== {path}\n{content.text}" for path, content in files.items())]
    covered = tuple((path, content.digest) for path, content in files.items())
    content = Content("\n".join(parts), digest_of(command, bool(reach.anything), covered), covered)
    line = "; ".join([what, *([f"files: {_listed(files)}"] if files else []), *([ANY_FILE] if reach.anything else [])])
    return _power(kind, who, name, line, content, terms, any_file=bool(reach.anything))


def _together(reaches: Sequence[Reach]) -> Reach:
    files = sorted({file for reach in reaches for file in reach.files})
    return Reach(tuple(files), tuple(dict.fromkeys(cause for reach in reaches for cause in reach.anything)))


def _contents(reach: Reach, root: Path) -> dict[str, Content]:
    return {path: leads_out(root, path) or file_content(root, path) for path in reach.files}


def _listed(files: Iterable[str]) -> str:
    names = [one_line(name) for name in files]
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return ", ".join(names[:_LISTED]) + more


def _power(
    kind: Kind,
    who: str,
    name: str,
    what: str,
    content: Content | str,
    terms: Any = None,
    *,
    any_file: bool = False,
) -> Power:
    whole = Content(content, "") if isinstance(content, str) else content
    digest = digest_of(kind, who, name, terms, whole.text, whole.digest)
    return Power(kind, who, name, revealed(what), whole.text, digest, whole.files, any_file)
