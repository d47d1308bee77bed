"""Links by which the person answers from elsewhere: made for what is told, and what one of them opens.

None of this is an operation: a link is no token, and opens one item for one answer.
"""

from __future__ import annotations

from collections.abc import Sequence

from agent_worker.database.database import ProjectDatabase, Row, Transaction
from agent_worker.service.inbox import Action, Item, PersonsReply, act, open_item
from agent_worker.service.service import Service
from agent_worker.work import answer_links

#: What may be answered so. A yes is for once: more than that is said where one sees all of it.
KINDS = frozenset({"question", "approval", "vote", "veto", "failure", "dead"})


async def make_links(service: Service, rows: Sequence[Row]) -> dict[str, str]:
    """A new link for each of these rows of the outbox that can be answered; none where nobody could reach us."""
    url, links = service.runtime.registry.settings.public_url, {}
    for row in rows if url else ():
        if row["kind"] not in KINDS:
            continue
        secret, digest = answer_links.new_secret()
        database = service.runtime.database.of(row["project"])
        await database.write(answer_links.add, row["item"], answer_links.content_of(row), digest, now=service.now())
        links[str(row["item"])] = f"{url}/answer#{secret}"  # after the #: no server and no log on the way sees it
    return links


async def linked_item(service: Service, secret: str) -> Item:
    """What a link is for. Raises DeadLink."""
    return await (await _database(service, secret)).read(_look, answer_links.digest_of(secret), now=service.now())


async def answer_by_link(service: Service, secret: str, action: Action, text: str = "") -> str:
    """Answer what a link is for; it is used up in the same transaction. Raises DeadLink."""
    database = await _database(service, secret)
    told = await database.write(_answer, answer_links.digest_of(secret), action, text, now=service.now())
    if service.runtime.loader.ticker:
        service.runtime.loader.ticker.look_again()
    return told


async def _database(service: Service, secret: str) -> ProjectDatabase:
    project = await service.runtime.database.read(answer_links.project_of, answer_links.digest_of(secret))
    if project is None:
        raise answer_links.unknown()
    return service.runtime.database.of(project)


def _look(tx: Transaction, digest: str, *, now: int) -> Item:
    return open_item(tx, answer_links.item_of(tx, digest, now=now))


def _answer(tx: Transaction, digest: str, action: Action, text: str, *, now: int) -> str:
    item = _look(tx, digest, now=now)
    other = item.kind == "question" and text not in item.options
    told = act(tx, item.id, action, PersonsReply(text, other=other), now=now)
    answer_links.use(tx, digest, now=now)
    return told
