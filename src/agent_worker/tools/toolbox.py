"""Which tools an agent has: those of a team, those of its own memory and history, and those its definition names."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import field, replace
from pathlib import Path

from agent_worker.core.errors import BadInput
from agent_worker.core.later import dataclass
from agent_worker.definitions.agent import AgentDefinition
from agent_worker.tools import channel, colleagues, me, person, proposals, recall, resources, soul, task, team
from agent_worker.tools.python_functions import python_tool
from agent_worker.tools.skills import skill_tools
from agent_worker.tools.tool import Tool

TEAM: tuple[Tool, ...] = (
    channel.channel_send,
    channel.channel_read,
    channel.channel_peek,
    me.my_inbox,
    me.my_inbox_ack,
    me.my_status_set,
    team.team_members,
    team.team_doc_list,
    team.team_doc_read,
    team.team_doc_create,
    team.team_doc_write,
    team.team_doc_append,
    team.team_doc_suggest,
    colleagues.ask_agent,
    proposals.team_proposal_create,
    proposals.team_vote,
    proposals.team_proposal_status,
    proposals.team_proposal_cancel,
    resources.resource_create,
    resources.resource_read,
)


TASK: dict[str, Tool] = {
    tool.name: tool for tool in (task.read_file, task.write_file, task.edit_file, task.list_files, task.search_files)
}


@dataclass(frozen=True, slots=True)
class Approved:
    """What a person approved of an agent's tools."""

    sources: Mapping[str, str] = field(default_factory=dict)  #: the text of each Python tool
    check_skills: Callable[[], None] = lambda: None  #: blocks; raises unless they are what they were


def tools_of(
    definition: AgentDefinition,
    root: Path,
    *,
    has_home: bool,
    approved: Approved | None = None,
    functions: Mapping[str, Tool] | None = None,
) -> tuple[Tool, ...]:
    """All tools of an agent: what everyone has, and what its definition names.

    `functions` are those that stay in the program which handed the agent over.
    """
    chosen = _chosen(definition, root, approved or Approved(), functions or {})
    return (*TEAM, *_own(has_home=has_home), person.ask_user, person.feedback_submit, *chosen)


def are_ours(definition: AgentDefinition) -> bool:
    """Whether all tools of an agent are our own: then nothing can be wrong with them, and no try is needed."""
    return not definition.skills and all(tool.name == "bash" or tool.name in TASK for tool in definition.tools)


def _own(*, has_home: bool) -> tuple[Tool, ...]:
    """The tools for an agent's own things. An inline agent has no files of its own, only what was said."""
    return recall.OWN + recall.HISTORY + soul.SOUL if has_home else recall.HISTORY


def _chosen(
    definition: AgentDefinition, root: Path, approved: Approved, functions: Mapping[str, Tool]
) -> Iterator[Tool]:
    for entry in definition.tools:
        if entry.name in functions:
            tool = functions[entry.name]
        elif entry.name == "bash":
            tool = task.bash_tool(unsafe=entry.unsafe, network=entry.network)
        elif entry.name in TASK:
            tool = TASK[entry.name]
        elif ":" in entry.name:
            tool = python_tool(entry.name, root=root, approved=approved.sources.get(entry.name))
        else:
            known = ", ".join(("bash", *TASK))
            raise BadInput(
                f"{definition.name}: there is no tool {entry.name}", hint=f"tools: {known}, ./file.py:function"
            )
        yield replace(tool, approve=entry.approve)
    if definition.skills:
        yield from skill_tools([root / folder for folder in definition.skills], approved.check_skills)
