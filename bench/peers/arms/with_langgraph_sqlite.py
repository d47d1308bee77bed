"""LangGraph with its SQLite checkpointer, every step on disk before the next: the nearest it has to what we do."""

import tempfile
from contextlib import asynccontextmanager

from contest import enter
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from with_langgraph import LangGraph


@asynccontextmanager
async def arm():
    with tempfile.TemporaryDirectory(prefix="peers-") as folder:
        async with AsyncSqliteSaver.from_conn_string(f"{folder}/checkpoints.db") as checkpointer:
            await checkpointer.setup()
            yield LangGraph(checkpointer, durability="sync")


if __name__ == "__main__":
    enter(arm)
