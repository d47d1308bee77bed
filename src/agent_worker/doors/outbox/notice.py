"""What a person is told of one item of the inbox, or of several at once; and how a sink says that it could not."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

from agent_worker.core.address import WorkspaceName
from agent_worker.core.errors import AgentWorkerError
from agent_worker.core.later import dataclass
from agent_worker.core.text import plural
from agent_worker.database.database import Row
from agent_worker.work.inbox import command_for

_LONGEST = 1000  # characters of an item


class NotSent(AgentWorkerError):
    """Raised by a sink: it may be tried again."""

    code = "not_sent"


@dataclass(frozen=True, slots=True)
class Notice:
    title: str
    text: str
    items: tuple[dict[str, Any], ...]

    @property
    def id(self) -> str:
        """An id that is the same for the same items, so that a recipient can tell if it gets them twice."""
        return hashlib.sha256("/".join(item["id"] for item in self.items).encode()).hexdigest()[:32]

    @property
    def json(self) -> str:
        return json.dumps({"id": self.id, "title": self.title, "items": self.items})


def notice_of(rows: Sequence[Row], links: Mapping[str, str]) -> Notice:
    """What is told of these rows; `links` are those by which one answers, by item."""
    items = tuple(_item(row, links.get(row["item"], "")) for row in rows)
    first = items[0]
    title = f"{first['kind']}: {first['who']}" if len(items) == 1 else f"{plural(len(items), 'thing')} for you"
    text = "\n\n".join(f"{_label(item, alone=len(items) == 1)}{item['text']}\n{_way(item)}" for item in items)
    return Notice(title, text, items)


def _item(row: Row, link: str) -> dict[str, Any]:
    where = "" if row["workflow"] is None else str(WorkspaceName(row["workflow"], row["tag"]))
    return {
        "id": row["item"],
        "number": row["n"],
        "kind": row["kind"],
        "project": row["project_name"],
        "agent": row["agent"],
        "workspace": where,
        "who": f"{row['agent'] or 'agent-worker'}{'@' + where if where else ''} in {row['project_name']}",
        "text": row["text"][:_LONGEST],
        "command": command_for(row),
        "link": link,
        "at": row["at"],
    }


def _way(item: dict[str, Any]) -> str:
    """How one answers: by the command, and by the link where there is one."""
    return f"{item['command']}\n{item['link']}" if item["link"] else str(item["command"])


def _label(item: dict[str, Any], *, alone: bool) -> str:
    return "" if alone else f"{item['kind']}: {item['who']}\n"


def given(value: str | None) -> str:
    """A value of the person's file; `$NAME` is a variable of the daemon's environment."""
    if value and value.startswith("$"):
        if (found := os.environ.get(value[1:])) is None:
            raise NotSent(f"{value} is missing in the environment of the daemon")
        return found
    return value or ""
