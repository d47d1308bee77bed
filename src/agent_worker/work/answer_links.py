"""Links by which a person answers one item of the inbox from elsewhere. The one writer of table `answer_link`.

What is kept is a digest of the secret, from which no link can be made. A link is for one item as it was told: it works
once, for some days, and not when the item was settled or asks something else by now. It may do nothing else.
"""

from __future__ import annotations

import hashlib
import json
import secrets

from agent_worker.core.errors import Refused
from agent_worker.database.database import Row, Transaction, WholeTransaction

LASTS = 3 * 24 * 3600 * 1_000_000  #: microseconds
_REMEMBERED = 30 * 24 * 3600 * 1_000_000  # after its end: who uses it then is told why it does not work


class DeadLink(Refused):
    """Raised for a link that opens nothing, or nothing any more."""

    code = "dead_link"


def new_secret() -> tuple[str, str]:
    """A secret, which goes into a link, and its digest, which is kept."""
    secret = secrets.token_urlsafe(32)
    return secret, digest_of(secret)


def digest_of(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def content_of(item: Row) -> str:
    """What an item asks, as a digest."""
    asked = [item[name] for name in ("kind", "ref", "text", "details", "digest")]
    return hashlib.sha256(json.dumps(asked).encode()).hexdigest()


def add(tx: Transaction, item: str, content: str, digest: str, *, now: int) -> None:
    tx.run("delete from answer_link where project = :project and ends_at < :before", before=now - _REMEMBERED)
    tx.run(
        """insert into answer_link(project, digest, item, content, ends_at)
           values (:project, :digest, :item, :content, :ends_at)""",
        digest=digest,
        item=item,
        content=content,
        ends_at=now + LASTS,
    )


def project_of(tx: WholeTransaction, digest: str) -> str | None:
    row = tx.one("select project from answer_link where digest = :digest", digest=digest)
    return str(row["project"]) if row else None


def item_of(tx: Transaction, digest: str, *, now: int) -> str:
    """The item that a link is for, open and as it was told. Raises DeadLink, with the reason as a sentence."""
    link = tx.one("select * from answer_link where project = :project and digest = :digest", digest=digest)
    if link is None:
        raise unknown()
    if link["used_at"] is not None:
        raise DeadLink("this link was already used: your answer was accepted then, and a link works once")
    item = tx.one("select * from inbox_item where project = :project and id = :id", id=link["item"])
    if item is None or item["state"] != "open":
        raise DeadLink("this has been settled: nobody is waiting for an answer any more")
    if link["ends_at"] <= now:
        raise DeadLink("this link is older than three days and has expired", hint="agent-worker inbox")
    if content_of(item) != link["content"]:
        raise DeadLink("the question has changed since you were told", hint="agent-worker inbox")
    return str(link["item"])


def use(tx: Transaction, digest: str, *, now: int) -> None:
    tx.run(
        "update answer_link set used_at = :now where project = :project and digest = :digest", digest=digest, now=now
    )


def unknown() -> DeadLink:
    return DeadLink("this link is unknown here")
