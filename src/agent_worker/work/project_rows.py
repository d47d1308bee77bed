"""Which projects there are, and where each host has its checkout. The one writer of tables `project` and `checkout`.

A project is known by an id of ours, which means nothing. Its `identity` is what two checkouts of it have in common
(agents/project_identity.py), and is looked at once: a directory that was opened stays the project that it was, whatever
happens to its remote, unless its own file says otherwise. `:here` is this host, in every statement, as its home knows
it: so that a host that is started again finds its checkouts.
"""

from __future__ import annotations

from agent_worker.core.errors import Refused
from agent_worker.core.events import TokensChanged
from agent_worker.core.ids import new_id
from agent_worker.core.later import dataclass
from agent_worker.database.database import Row, Transaction, WholeTransaction

SAID = "id:"  #: before what a project's own file says


@dataclass(frozen=True, slots=True)
class Checkout:
    """A directory with a project in it, on this host."""

    root: str
    name: str
    identity: str = ""  #: by which other checkouts of the same project are known; '' is by the directory
    node: str = ""  #: the name of this machine; '' where it is the only one

    @property
    def known_by(self) -> str:
        return self.identity or f"path:{self.root}"

    @property
    def is_said(self) -> bool:
        return self.identity.startswith(SAID)


def enrol(tx: WholeTransaction, here: Checkout, *, gone: str = "") -> str:
    """The id of the project in this directory, new or known. `gone` is where this host had it, and has it no longer."""
    known = tx.one(
        """select p.id, p.identity from checkout c join project p on p.id = c.project
            where c.host = :here and c.root = :root""",
        root=here.root,
    )
    same = tx.one("select id from project where identity = :identity", identity=here.known_by)
    id = _known(tx, here, known, same) or (_joined(tx, here, same, gone) if same else _made(tx, here, here.known_by))
    tx.run("update project set name = :name where id = :id and name <> :name", id=id, name=here.name)
    tx.run("delete from checkout where host = :here and root = :root and project <> :id", root=here.root, id=id)
    is_new = tx.one("select 1 as one from checkout where project = :id and host = :here", id=id) is None
    tx.run(
        """insert into checkout(project, host, node, root) values (:id, :here, :node, :root)
           on conflict (project, host) do update set root = excluded.root, node = excluded.node""",
        id=id,
        node=here.node,
        root=here.root,
    )
    if is_new and here.node:
        tx.of(id).tell(TokensChanged())
    return id


def _known(tx: WholeTransaction, here: Checkout, known: Row | None, same: Row | None) -> str:
    """The project that this directory was before; '' when it was none, or its own file says that it is another one."""
    if known is None:
        return ""
    if same is None and not (here.is_said and known["identity"].startswith(SAID)):
        # It can be told apart by more than before, or by something else: others join it by that from now on.
        tx.run("update project set identity = :new where id = :id", new=here.known_by, id=known["id"])
        return str(known["id"])
    return "" if here.is_said and known["identity"] != here.known_by else str(known["id"])


def _joined(tx: WholeTransaction, here: Checkout, same: Row, gone: str) -> str:
    """A project that another host knows, or this one had elsewhere. Two checkouts on one host are never made one."""
    other = tx.one("select root from checkout where project = :id and host = :here", id=same["id"])
    if other is None or other["root"] in (here.root, gone):
        return str(same["id"])
    if here.is_said:
        said = here.known_by.removeprefix(SAID)
        told = f"{here.root} and {other['root']} both say that they are the project {said}"
        raise Refused(told, hint="give one of them another id, in its moniro.yaml")
    return _made(tx, here, f"{here.known_by} {new_id('c')}")


def _made(tx: WholeTransaction, here: Checkout, identity: str) -> str:
    row = tx.one(
        """insert into project(id, identity, name) values (:id, :identity, :name)
           on conflict (identity) do update set name = excluded.name returning id""",
        id=new_id("p"),
        identity=identity,
        name=here.name,
    )
    assert row is not None
    return str(row["id"])


def had_at(tx: WholeTransaction, here: Checkout) -> str:
    """Where this host had the project of a directory that it has not seen before; '' when nowhere."""
    row = tx.one(
        """select c.root from project p join checkout c on c.project = p.id and c.host = :here
            where p.identity = :identity
              and not exists (select 1 from checkout o where o.host = :here and o.root = :root)""",
        identity=here.known_by,
        root=here.root,
    )
    return str(row["root"]) if row else ""


def ids(tx: WholeTransaction) -> list[str]:
    """The ids of all projects."""
    return [str(row["id"]) for row in tx.all("select id from project order by id")]


def name_of(tx: Transaction) -> str:
    row = tx.one("select name from project where id = :project")
    return str(row["name"]) if row else ""


def root_here(tx: Transaction) -> str:
    """The directory of the project on this host; '' when it has no checkout of it."""
    row = tx.one("select root from checkout where project = :project and host = :here")
    return str(row["root"]) if row else ""


def roots_elsewhere(tx: Transaction) -> tuple[str, list[str]]:
    """What the project is known by, and where other hosts have it."""
    rows = tx.all(
        """select distinct p.identity, c.root from project p join checkout c on c.project = p.id and c.host <> :here
            where p.id = :project order by c.root"""
    )
    return (str(rows[0]["identity"]), [str(row["root"]) for row in rows]) if rows else ("", [])


def called(tx: WholeTransaction, name: str) -> list[str]:
    """The directories on this host of projects with this name or id."""
    rows = tx.all(
        """select c.root from project p join checkout c on c.project = p.id and c.host = :here
            where p.id = :name or p.name = :name order by p.id""",
        name=name,
    )
    return [str(row["root"]) for row in rows]


def checkouts(tx: Transaction) -> list[Row]:
    """Where hosts have the project, those that are there now and others."""
    return tx.all("select host, node, root from checkout where project = :project order by node, root")


def become(tx: WholeTransaction, *, before: str, after: str, project: str | None = None) -> None:
    """Turn the checkouts of one host into those of another, unless that has the same directory already."""
    tx.run(
        """update checkout set host = :after
            where host = :before and (cast(:only as text) is null or project = :only)
              and not exists (select 1 from checkout o where o.host = :after
                                 and (o.root = checkout.root or o.project = checkout.project))""",
        before=before,
        after=after,
        only=project,
    )


def forget_host(tx: WholeTransaction) -> None:
    """Forget where this host has its projects: without a home it will not come back under the same name."""
    tx.run("delete from checkout where host = :here")
