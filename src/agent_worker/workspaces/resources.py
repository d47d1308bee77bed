"""Large texts kept by their hash: same content, same id, stored once. The one writer of table `resource`."""

from __future__ import annotations

import hashlib

from agent_worker.core.errors import AgentWorkerError, BadInput, NotFound
from agent_worker.core.events import ResourceKept
from agent_worker.core.later import dataclass, pattern
from agent_worker.core.text import plural
from agent_worker.database.database import Transaction
from agent_worker.workspaces import workspace_rows

LIMIT = 16 * 1024 * 1024
SHORTEST = 6  # digits of an id that a person types
_ID = pattern(r"[0-9a-f]{64}")
_BEGINNING = pattern(rf"[0-9a-f]{{{SHORTEST},64}}")


@dataclass(frozen=True, slots=True)
class Resource:
    id: str
    size: int  #: bytes
    text: str
    held: bool = False  #: taken back by a person

    @property
    def head(self) -> str:
        """The first line of a resource, shortened: what a message shows of it."""
        return self.text.strip().partition("\n")[0][:120]


def store(tx: Transaction, workspace: str, text: str) -> Resource:
    """Keep a text; its id is the hash of what is kept, from which secrets are gone."""
    text = tx.redact(text)
    data = text.encode("utf-8", "surrogatepass")
    if len(data) > LIMIT:
        raise BadInput(f"a resource holds at most {LIMIT // 1024 // 1024} MiB; this is {plural(len(data), 'byte')}")
    resource = Resource(hashlib.sha256(data).hexdigest(), len(data), text)
    new = tx.changed(
        """insert into resource(project, workspace, id, size, text) values (:project, :workspace, :id, :size, :body)
           on conflict (project, workspace, id) do nothing""",
        workspace=workspace,
        id=resource.id,
        size=resource.size,
        body=text,
    )
    if new:
        tx.tell(ResourceKept(workspace=workspace, id=resource.id, size=resource.size))
    return resource


def size(tx: Transaction, workspace: str, id: str) -> int | None:
    """How many bytes a resource holds; None if there is none of that id."""
    row = tx.one(
        "select size from resource where project = :project and workspace = :workspace and id = :id",
        workspace=workspace,
        id=id,
    )
    return row["size"] if row else None


def called(tx: Transaction, workspace: str, beginning: str) -> str:
    """The id that begins so, as a person types it."""
    if not _BEGINNING.fullmatch(beginning):
        named = workspace_rows.name_of(workspace_rows.get(tx, workspace))
        raise BadInput(
            f"a resource id is hexadecimal digits, at least {SHORTEST}, not {beginning[:80]!r}",
            hint=f"agent-worker resource list @{named}",
        )
    rows = tx.all(
        """select id from resource
            where project = :project and workspace = :workspace and id >= :first and id < :last limit 2""",
        workspace=workspace,
        first=beginning,
        last=f"{beginning}g",  # the first after all that begin so
    )
    if len(rows) > 1:
        raise BadInput(f"several resources begin with {beginning}", hint="give more of its id")
    if not rows:
        raise NotFound(f"there is no resource {beginning[:12]}… here")
    return str(rows[0]["id"])


def listed(tx: Transaction, workspace: str) -> list[Resource]:
    """The resources that nobody took back, each with the beginning of its text."""
    rows = tx.all(
        """select id, size, substr(text, 1, 500) as text from resource
            where project = :project and workspace = :workspace and held = 0 order by id""",
        workspace=workspace,
    )
    return [Resource(row["id"], row["size"], row["text"]) for row in rows]


def load(tx: Transaction, workspace: str, id: str) -> Resource:
    if not _ID.fullmatch(id):
        raise BadInput(f"a resource id is 64 hexadecimal digits, not {id!r}")
    row = tx.one(
        "select * from resource where project = :project and workspace = :workspace and id = :id",
        workspace=workspace,
        id=id,
    )
    if row is None:
        raise NotFound(f"there is no resource {id[:12]}… here")
    text = str(row["text"])
    if hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest() != id:
        raise AgentWorkerError(f"resource {id[:12]}… is damaged: its content does not match its id")
    return Resource(id, row["size"], text, bool(row["held"]))


def whole_text(tx: Transaction, workspace: str, seq: int) -> str:
    """What was said at this place in the channel, also where the message itself is only its beginning."""
    row = tx.one(
        """select m.text, r.text as full_text from message m
             left join resource r on r.project = :project and r.workspace = m.workspace and r.id = m.resource
            where m.project = :project and m.workspace = :workspace and m.seq = :seq""",
        workspace=workspace,
        seq=seq,
    )
    return str(row["full_text"] or row["text"]) if row else ""


def hold_back(tx: Transaction, workspace: str, id: str) -> bool:
    """Take back a resource: no agent gets to read it, unless a message that stands still refers to it."""
    return bool(
        tx.changed(
            """update resource set held = 1
               where project = :project and workspace = :workspace and id = :id and held = 0 and not exists (
                 select 1 from message m
                 where m.project = :project and m.workspace = :workspace and m.resource = :id and m.held = 0)""",
            workspace=workspace,
            id=id,
        )
    )


def ids(tx: Transaction, workspace: str) -> list[str]:
    """Ids of the resources that nobody took back."""
    rows = tx.all(
        "select id from resource where project = :project and workspace = :workspace and held = 0", workspace=workspace
    )
    return [row["id"] for row in rows]


def forget_workspace(tx: Transaction, workspace: str) -> None:
    tx.run("delete from resource where project = :project and workspace = :workspace", workspace=workspace)
