"""When the person is told: not by night, together where that is wanted, again while it is open. By the test's clock."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from tests import stored
from tests.doors.test_outbox import receiver, wants
from tests.patience import PATIENCE, until
from tests.teams import Team, open_team

from agent_worker.core.clock import TestClock
from agent_worker.core.ids import new_id
from agent_worker.database.database import Row
from agent_worker.doors.outbox.sender import OutboxSender
from agent_worker.files.root import Root
from agent_worker.service.service import Service
from agent_worker.work import inbox


@dataclass
class Told:
    team: Team
    got: list[tuple[dict[str, str], bytes]]

    async def ask(self, text: str) -> str:
        """Something waits for the person, and where it is told has been decided."""
        id: str = await self.team.write(inbox.ask, "feedback", ref=new_id("x"), text=text, now=self.team.now())
        await self.stored(lambda rows: not any(row["sink"] == "" for row in rows))
        return id

    async def stored(self, holds: Callable[[list[Row]], bool]) -> None:
        """Until it holds of what is still to be told: nobody hears of what the sender notes."""
        async with asyncio.timeout(PATIENCE):
            while not holds(await self.team.read(stored.outbox)):  # noqa: ASYNC110 — as in tests/patience.py
                await asyncio.sleep(0.01)

    async def elapse(self, **time: float) -> None:
        await self.team.elapse(timedelta(**time).total_seconds())

    async def until_told(self, times: int) -> None:
        await until(lambda: len(self.got) >= times)

    @property
    def texts(self) -> list[list[str]]:
        return [[item["text"] for item in json.loads(body)["items"]] for _, body in self.got]


@asynccontextmanager
async def told(tmp_path: Path, *answers: int, **how: Any) -> AsyncIterator[Told]:
    clock = TestClock()
    with receiver(*answers) as (url, got):
        wants(tmp_path / "home", chat={"to": "webhook", "url": url} | how)
        async with open_team(tmp_path / "p", "alice", clock=clock, trust=Root.private(tmp_path / "home")) as team:
            service = Service(team.runtime)
            OutboxSender(service)
            yield Told(team, got)
            await service.close()


def around_now(hours: float) -> str:
    """Quiet hours on this machine's wall that began an hour ago and end in so many."""
    now = TestClock().now().astimezone()
    begin, end = now - timedelta(hours=1), now + timedelta(hours=hours)
    return f"{begin:%H:%M}-{end:%H:%M}"


async def test_in_quiet_hours_nothing_is_told_and_at_their_end_it_is(tmp_path: Path) -> None:
    async with told(tmp_path, quiet=around_now(2)) as here:
        await here.ask("by night")
        await here.elapse(minutes=118)
        assert here.got == []
        await here.elapse(minutes=2)
        await here.until_told(1)
        assert here.texts == [["by night"]]


async def test_what_comes_in_the_time_of_a_digest_is_told_as_one(tmp_path: Path) -> None:
    async with told(tmp_path, digest="15m") as here:
        await here.ask("one")
        await here.ask("two")
        assert here.got == []
        await here.elapse(minutes=15)
        await here.until_told(1)
        await here.stored(lambda rows: not rows)
        assert here.texts == [["one", "two"]]


async def test_what_stays_open_is_told_again_and_what_was_settled_is_not(tmp_path: Path) -> None:
    async with told(tmp_path, again="4h") as here:
        id = await here.ask("still there")
        await here.until_told(1)
        await here.stored(lambda rows: rows[0]["due_at"] > here.team.now())
        await here.elapse(hours=4, seconds=1)
        await here.until_told(2)
        await here.team.write(inbox.close, id, state="dismissed")
        await here.stored(lambda rows: not rows)
        await here.elapse(hours=9)
        assert here.texts == [["still there"]] * 2


async def test_what_failed_is_tried_again_later_and_under_the_same_id(tmp_path: Path) -> None:
    async with told(tmp_path, 503, 503) as here:
        await here.ask("hello")
        for seconds, times in ((10, 1), (40, 2)):
            await here.until_told(times)
            await here.stored(lambda rows, n=times: rows[0]["tries"] == n)  # type: ignore[misc]
            await here.elapse(seconds=seconds - 1)
            assert len(here.got) == times
            await here.elapse(seconds=1.5)
        await here.until_told(3)
        await here.stored(lambda rows: not rows)
        assert len({json.loads(body)["id"] for _, body in here.got}) == 1
