"""When a folder is looked at, and how often."""

from __future__ import annotations

import asyncio

from tests.patience import until

from agent_worker.files.copy_watch import CopyWatch
from agent_worker.testing import TestClock


async def test_what_changes_while_a_folder_is_looked_at_is_looked_at_once_more_afterwards() -> None:
    begun, may_end = list[str](), asyncio.Event()

    async def look(id: str) -> None:
        begun.append(id)
        await may_end.wait()

    watch = CopyWatch(TestClock(), look, lambda: [], lambda id: None)
    try:
        for _ in range(5):
            watch.soon("a")
            await until(lambda: begun)
        watch.soon("b")
        await until(lambda: begun == ["a", "b"])
        may_end.set()
        await until(lambda: len(begun) == 3)
        assert begun == ["a", "b", "a"]
        watch.soon("a")
        await until(lambda: begun == ["a", "b", "a", "a"])
    finally:
        await watch.close()
