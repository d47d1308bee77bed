"""The files of agents as the database keeps them for several hosts. The one writer of table `personal_file`.

Nothing of it with SQLite: there the files are the truth. What is kept is known by its hash, and whoever changes it says
which hash it had: of two who change it at once, one is told. How it comes to files and back: agents/personal_files.py.
"""

from __future__ import annotations

from agent_worker.core.events import PersonalFileChanged
from agent_worker.database.database import Row, Transaction
from agent_worker.files.copies import SHORT
from agent_worker.files.swap import content_hash
from agent_worker.work import inbox

MOST_EARLIER = 64  #: texts of one file that are recognised when an old copy turns up


def versions(tx: Transaction, agent: str) -> dict[str, str]:
    """The hash of each text, by path; '' for one that is gone."""
    rows = tx.all("select path, hash from personal_file where project = :project and agent = :agent", agent=agent)
    return {row["path"]: row["hash"] for row in rows}


def earlier(tx: Transaction, agent: str, path: str) -> list[str]:
    """How the hashes of earlier texts begin, the oldest first."""
    row = _row(tx, agent, path)
    return row["earlier"].split() if row else []


def text(tx: Transaction, agent: str, path: str) -> tuple[str, str]:
    """A text and its hash; '' twice when it is gone."""
    row = _row(tx, agent, path)
    return (row["text"], row["hash"]) if row else ("", "")


def put(tx: Transaction, agent: str, path: str, text: str | None, *, seen: str, now: int) -> str | None:
    """Keep a text, or that it is gone, in place of what was `seen`; its hash. None when that is no longer there."""
    before = _row(tx, agent, path)
    if (before["hash"] if before else "") != seen or not _is_there(tx, agent):
        return None
    kept = "" if text is None else tx.redact(text)
    hash = "" if text is None else content_hash(kept)
    if hash == seen:
        return hash
    known = before["earlier"].split() if before else []
    earlier = [each for each in known if each != seen[:SHORT]] + ([seen[:SHORT]] if seen else [])
    tx.run(
        """insert into personal_file(project, agent, path, hash, earlier, at, text)
           values (:project, :agent, :path, :hash, :earlier, :now, :kept)
           on conflict (project, agent, path) do update
              set hash = excluded.hash, earlier = excluded.earlier, at = excluded.at, text = excluded.text""",
        agent=agent,
        path=path,
        hash=hash,
        earlier=" ".join(earlier[-MOST_EARLIER:]),
        now=now,
        kept=kept,
    )
    tx.tell(PersonalFileChanged(agent=agent, path=path))
    return hash


def put_beside(tx: Transaction, agent: str, path: str, text: str, *, beside: str, who: str, now: int) -> str:
    """Keep a text that was written while `beside` was changed on another host, and tell the person."""
    row = _row(tx, agent, path)
    hash = put(tx, agent, path, text, seen=row["hash"] if row else "", now=now)
    told = f"{beside} of {who} was changed on two hosts at once; the other version is {path}, in the same folder"
    inbox.ask(tx, "conflict", agent=agent, ref=f"{agent}/{path}", text=told, now=now)
    return hash or ""


def owners(tx: Transaction) -> list[str]:
    """The agents of which something is kept."""
    return [row["agent"] for row in tx.all("select distinct agent from personal_file where project = :project")]


def is_run_elsewhere(tx: Transaction, agent: str, host: str) -> bool:
    """Whether another host runs the agent now."""
    row = tx.one(
        """select 1 as one from agent a join host h on h.id = a.owner
            where a.project = :project and a.id = :agent and a.owner <> :host""",
        agent=agent,
        host=host,
    )
    return row is not None


def forget(tx: Transaction, agent: str) -> None:
    tx.run("delete from personal_file where project = :project and agent = :agent", agent=agent)


def _is_there(tx: Transaction, agent: str) -> bool:
    """Whether the agent still exists: another host may have deleted it."""
    return tx.one("select 1 as one from agent where project = :project and id = :agent", agent=agent) is not None


def _row(tx: Transaction, agent: str, path: str) -> Row | None:
    return tx.one(
        "select * from personal_file where project = :project and agent = :agent and path = :path",
        agent=agent,
        path=path,
    )
