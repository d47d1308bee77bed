"""Tokens that let a program of somebody else in by one door, for one project. The one writer of table `door_token`.

They last until they are revoked or their time is up, also across restarts: what is stored is a digest, from which no
token can be made. `DoorTokens` is what is looked at for each request, so that none of them asks the database; hosts
that share it hear of each change.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Iterable
from typing import Literal

from agent_worker.core.errors import BadInput, NotFound
from agent_worker.core.events import TokensChanged
from agent_worker.core.ids import new_id
from agent_worker.core.later import dataclass
from agent_worker.database.database import Row, Transaction, WholeTransaction

Door = Literal["openai", "metrics"]

PREFIX = "awdoor_"  #: by which a person, and whoever looks for leaked secrets, knows one
MOST = 100  #: of one project
_LONGEST_NAME = 60


@dataclass(frozen=True, slots=True)
class DoorToken:
    """The caller that has shown a door token."""

    id: str
    name: str
    door: Door
    root: str  #: the directory of the project it is for
    opens: tuple[str, ...] = ()  #: the agents and @workflows it may reach; none named is all
    made_at: int = 0
    ends_at: int | None = None


class DoorTokens:
    """The door tokens that are valid now, by digest."""

    def __init__(self) -> None:
        self._held: dict[bytes, DoorToken] = {}

    def hold(self, digest: str, token: DoorToken) -> None:
        self._held[bytes.fromhex(digest)] = token

    def hold_only(self, tokens: Iterable[tuple[str, DoorToken]]) -> None:
        """Replace what is known by these tokens."""
        self._held = {bytes.fromhex(digest): token for digest, token in tokens}

    def drop(self, id: str) -> None:
        self._held = {digest: token for digest, token in self._held.items() if token.id != id}

    def of(self, digest: bytes, *, now: int) -> DoorToken | None:
        found = self._held.get(digest)
        return None if found is None or (found.ends_at is not None and found.ends_at <= now) else found


def new_token() -> tuple[str, str]:
    """A token, which is shown once, and its digest, which is kept."""
    token = PREFIX + secrets.token_urlsafe(32)
    return token, hashlib.sha256(token.encode()).hexdigest()


def add(
    tx: Transaction, name: str, door: Door, opens: tuple[str, ...], digest: str, *, now: int, ends_at: int | None
) -> DoorToken:
    name = name.strip()
    if not name or len(name) > _LONGEST_NAME or not name.isprintable():
        raise BadInput(f"a name has 1 to {_LONGEST_NAME} characters on one line", hint="such as: laptop")
    known = of_project(tx)
    if any(each.name == name for each in known):
        raise BadInput(f"there is already a token called {name}", hint=f"agent-worker token revoke {name}")
    if len(known) >= MOST:
        raise BadInput(f"a project has at most {MOST} tokens", hint="agent-worker token list")
    id = new_id("k")
    tx.run(
        """insert into door_token(project, id, name, door, opens, digest, made_at, ends_at)
           values (:project, :id, :name, :door, :opens, :digest, :now, :ends_at)""",
        id=id,
        name=name,
        door=door,
        opens=json.dumps(opens),
        digest=digest,
        now=now,
        ends_at=ends_at,
    )
    tx.tell(TokensChanged())
    (made,) = (each for each in of_project(tx) if each.id == id)
    return made


def of_project(tx: Transaction) -> list[DoorToken]:
    """The door tokens of a project, in the order in which they were made."""
    rows = tx.all(
        """select t.*, coalesce(c.root, '') as root from door_token t
             left join checkout c on c.project = :project and c.host = :here
            where t.project = :project order by t.made_at, t.id"""
    )
    return [_token(row) for row in rows]


def revoke(tx: Transaction, which: str) -> DoorToken:
    """End a token, known by its name, its id, or the beginning of that."""
    known = of_project(tx)
    found = [each for each in known if which in (each.name, each.id)]
    found = found or [each for each in known if which and each.id.startswith(which)]
    if not found:
        raise NotFound(f"there is no token {which}", hint="agent-worker token list")
    if len(found) > 1:
        raise BadInput(f"{which} could be any of {len(found)}", hint="agent-worker token list")
    tx.run("delete from door_token where project = :project and id = :id", id=found[0].id)
    tx.tell(TokensChanged())
    return found[0]


def all_held(tx: WholeTransaction) -> list[tuple[str, DoorToken]]:
    """The tokens of all projects that are here, each with its digest."""
    rows = tx.all("select t.*, c.root from door_token t join checkout c on c.project = t.project and c.host = :here")
    return [(row["digest"], _token(row)) for row in rows]


def _token(row: Row) -> DoorToken:
    opens = tuple(json.loads(row["opens"]))
    return DoorToken(row["id"], row["name"], row["door"], row["root"], opens, row["made_at"], row["ends_at"])
