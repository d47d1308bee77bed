"""`local`: the runtime in this process, and its operations called directly."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import tempfile
import weakref
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from types import TracebackType
from typing import Any

from agent_worker.api.functions import OwnFunctions
from agent_worker.api.workers import Workers
from agent_worker.core.clock import Clock
from agent_worker.core.ids import new_id
from agent_worker.core.late_imports import for_good


def local(
    project: Path | str | None = None,
    *,
    home: Path | str | None = None,
    trust: bool = False,
    clock: Clock | None = None,
) -> Workers:
    """Run agents in this process; nobody else can use the project meanwhile.

    `project` is a directory with agents and workflows in files; without it there are only those you pass in. With
    `home` everything is kept there, and continues where it was: agents without a project have their files in it too.
    Without `home` the state lives in memory. Raises InUse when another runtime works on either: then use `connect`.

    What files of the project would execute, or which secrets they would get, a person approves first
    (`agent-worker trust`); until then it is Untrusted. With `trust` the program says yes to what they say when
    it is opened, until it is closed. What your own code hands over needs no approval.

    Keys are found as the daemon finds them: those of `agent-worker key set`, an approved `.env`, the environment.
    """
    return Workers(LocalOperations(project, home, clock, trust=trust))


class LocalOperations:
    """The operations of a runtime in this process."""

    def __init__(
        self, project: Path | str | None, home: Path | str | None, clock: Clock | None, *, trust: bool
    ) -> None:
        self._asked, self._home, self._clock = project, Path(home) if home is not None else None, clock
        self._trust = trust
        self._closing = AsyncExitStack()
        self._service: Any = None
        self._operations: Any = None
        self.project = ""
        self.program = new_id("p")

    async def open(self, functions: OwnFunctions) -> None:
        with for_good():
            from agent_worker.api.runtime import OPERATIONS, LocalProject, open_service

        self._operations = OPERATIONS
        root = self._root()
        try:
            project = LocalProject(root, is_own=self._asked is None, trust=self._trust)
            opening = open_service(project, self._home, self._clock, self.program, functions.call)
            self._service = await self._closing.enter_async_context(opening)
        except BaseException:
            await self._closing.aclose()
            raise
        self.project = str(root)

    def _root(self) -> Path:
        from agent_worker.definitions.project_files import AGENTS, find_project

        if self._asked is not None:
            return find_project(Path(self._asked))
        if self._home is not None:
            self._home.mkdir(mode=0o700, parents=True, exist_ok=True)
            root = self._home.resolve()
        else:
            root = Path(tempfile.mkdtemp(prefix="agent-worker-")).resolve()
            self._closing.callback(weakref.finalize(self, _remove, root, os.getpid()))
        (root / AGENTS).mkdir(exist_ok=True)  # a project of its own, wherever it lies
        return root

    async def close(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._closing.__aexit__(kind, error, trace)

    async def call(self, operation: str, arguments: dict[str, Any]) -> Any:
        return await self._operations[operation].call(self._service, arguments)

    async def stream(self, operation: str, arguments: dict[str, Any]) -> AsyncIterator[dict[str, Any]]:
        stream = await self._operations[operation].stream(self._service, arguments)
        return _items(stream)


def _remove(place: Path, process: int) -> None:
    """Remove a directory, unless this process was only forked from the one that made it."""
    if os.getpid() == process:
        shutil.rmtree(place, ignore_errors=True)


async def _items(stream: Any) -> AsyncIterator[dict[str, Any]]:
    try:
        async for batch in stream:
            for item in batch:
                yield json.loads(item.data)
    finally:
        await asyncio.shield(stream.close())
