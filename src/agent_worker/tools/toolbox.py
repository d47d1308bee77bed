"""Which tools an agent has by itself: those of a team, and those of its own memory and history."""

from __future__ import annotations

from agent_worker.tools import channel, me, recall, resources, team
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
    resources.resource_create,
    resources.resource_read,
)


def own_tools(*, has_home: bool) -> tuple[Tool, ...]:
    """An inline agent has no files of its own, only what was said."""
    return recall.OWN + recall.HISTORY if has_home else recall.HISTORY
