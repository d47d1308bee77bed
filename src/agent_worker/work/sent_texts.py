"""What models were sent: sections of prompts and definitions of tools, each text kept once however often it is sent.

The one writer of tables `sent_text` and `sent_use`. A run knows its texts by their ids; who else was sent the same is
kept beside the text, so that it goes with the last of them. Kept for some days: agents/prompt_texts.py says how many.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable
from dataclasses import replace

from agent_worker.core.later import dataclass
from agent_worker.database.database import Row, Transaction

MARK = "[[mark]]"  #: stands in a text for the mark of its run, which differs from run to run


@dataclass(frozen=True, slots=True)
class SentIds:
    """The ids of the texts that a run was sent."""

    sections: tuple[str, ...] = ()  #: in the order of its manifest
    marked: tuple[bool, ...] = ()  #: of these, in which `MARK` stands for its mark
    tools: str = ""
    mark: str = ""
    lesson: tuple[str, ...] = ()  #: the model that learned from it; ids of what it was told, asked, and answered

    def with_section(self, at: int, until: int, id: str) -> SentIds:
        """These ids with one section, which has no mark, instead of those from `at` to before `until`."""
        sections, marked = self.sections, self.marked
        return replace(
            self,
            sections=(*sections[:at], id, *sections[until:]),
            marked=(*marked[:at], False, *marked[until:]),
        )

    def dump(self) -> str:
        return json.dumps([self.mark, self.tools, self.sections, self.marked, self.lesson])

    @classmethod
    def load(cls, record: str) -> SentIds:
        if not record:
            return cls()
        mark, tools, sections, marked, lesson = json.loads(record)
        return cls(tuple(sections), tuple(marked), tools, mark, tuple(lesson))


def keep(tx: Transaction, text: str, *, agent: str, workspace: str | None, now: int, is_json: bool = False) -> str:
    """Keep a text, without secrets, and note who is sent it; its id. What is there already is not stored again."""
    whole = text.encode(errors="replace").decode()  # halves of characters cannot be stored
    kept = tx.redact_json(whole) if is_json else tx.redact(whole)
    id = hashlib.sha256(kept.encode()).hexdigest()[:32]
    tx.run(
        """insert into sent_text(project, id, size, text) values (:project, :id, :size, :text)
           on conflict (project, id) do nothing""",
        id=id,
        size=len(kept),
        text=kept,
    )
    tx.run(
        """insert into sent_use(project, workspace, agent, text, at)
           values (:project, :workspace, :agent, :id, :now)
           on conflict (project, workspace, agent, text) do update set at = excluded.at""",
        workspace=workspace or "",
        agent=agent,
        id=id,
        now=now,
    )
    return id


def read(tx: Transaction, ids: Iterable[str]) -> dict[str, str]:
    """The texts of these ids, as far as they are still kept."""
    sql = "select id, text from sent_text where project = :project and id = :id"
    return {row["id"]: row["text"] for id in set(ids) if (row := tx.one(sql, id=id))}


def forget(tx: Transaction, agent: str) -> None:
    """Forget what an agent that is gone was sent, unless others were sent the same."""
    _let_go(tx, tx.all("delete from sent_use where project = :project and agent = :agent returning text", agent=agent))


def forget_workspace(tx: Transaction, workspace: str) -> None:
    """Forget what was sent in a workspace, unless the same was sent elsewhere."""
    gone = tx.all(
        "delete from sent_use where project = :project and workspace = :workspace returning text", workspace=workspace
    )
    _let_go(tx, gone)


def forget_before(tx: Transaction, before: int, *, most: int) -> int:
    """Forget what was last sent before this time, the oldest first and no more than so many; how many it were."""
    rows = tx.all(
        """select workspace, agent, text from sent_use where project = :project and at < :before
            order by at limit :most""",
        before=before,
        most=most,
    )
    for row in rows:
        tx.run(
            """delete from sent_use
                where project = :project and workspace = :workspace and agent = :agent and text = :text""",
            **row,
        )
    _let_go(tx, rows)
    return len(rows)


def size_before(tx: Transaction, before: int) -> int:
    """How many characters `forget_before` would remove in the end: those of texts that were not sent since."""
    row = tx.one(
        """select coalesce(sum(t.size), 0) as n from sent_text t
            where t.project = :project
              and t.id in (select o.text from sent_use o where o.project = :project and o.at < :before)
              and not exists (select 1 from sent_use u
                               where u.project = :project and u.text = t.id and u.at >= :before)""",
        before=before,
    )
    return int(row["n"]) if row else 0


def _let_go(tx: Transaction, rows: Collection[Row]) -> None:
    for id in {row["text"] for row in rows}:
        tx.run(
            """delete from sent_text
                where project = :project and id = :id
                  and not exists (select 1 from sent_use u where u.project = :project and u.text = :id)""",
            id=id,
        )
