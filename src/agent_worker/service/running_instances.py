"""The workflow instances that run in this process, and who waits for them to end."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from agent_worker.agents.loader import LoadedProject
from agent_worker.core.address import WorkspaceName
from agent_worker.core.errors import NotNow, Refused
from agent_worker.database import host_rows
from agent_worker.database.database import Row
from agent_worker.workflows import start as instances
from agent_worker.workflows.instance import Instance
from agent_worker.workflows.runtime import Runtime
from agent_worker.workflows.summary import Summary


class _Finishing:
    """An instance that somebody waits for: it ends by itself, or by being stopped."""

    work: asyncio.Task[Summary]

    def __init__(self, running: Instance) -> None:
        self.outcome: asyncio.Future[Summary] = asyncio.get_running_loop().create_future()
        self.begin(running)

    def begin(self, running: Instance) -> None:
        """Let it end by itself, from now on or again."""
        self.work = asyncio.create_task(running.run(keeps=True))
        self.work.add_done_callback(self._done)

    def _done(self, work: asyncio.Task[Summary]) -> None:
        if work.cancelled() or self.outcome.done():
            return
        if (error := work.exception()) is not None:
            self.outcome.set_exception(error)
        else:
            self.outcome.set_result(work.result())


class RunningInstances:
    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime
        self._running: dict[str, Instance] = {}
        self._finishing: dict[str, _Finishing] = {}
        self._stopping: set[str] = set()

    def get(self, workspace: str) -> Instance | None:
        """The running instance that has this workspace (by its id); None when it is not open here."""
        return self._running.get(workspace)

    def add(self, running: Instance) -> None:
        self._running[running.id] = running

    async def start(self, loaded: LoadedProject, wanted: instances.Start) -> Instance:
        running = await instances.start(self.runtime, loaded, wanted)
        self.add(running)
        return running

    async def finish(self, running: Instance) -> Summary:
        """Work until quiet, then end. Stopped meanwhile, it gives what came of that.

        One that a limit or a person paused waits until it is resumed or stopped.
        """
        if (begun := self._finishing.get(running.id)) is not None:
            return await asyncio.shield(begun.outcome)  # somebody else waits for it too
        finishing = self._finishing[running.id] = _Finishing(running)
        try:
            return await finishing.outcome
        except BaseException:  # nobody will end it here any more
            running.leave()
            raise
        finally:
            finishing.work.cancel()
            del self._finishing[running.id]
            self._running.pop(running.id, None)

    async def stop(self, running: Instance, *, reason: str) -> Summary:
        finishing = self._finishing.get(running.id)
        if finishing is not None:
            finishing.work.cancel()
        self._stopping.add(running.id)
        try:
            summary = await running.stop(reason=reason)
        except NotNow:  # nothing of it was stored, and it goes on
            if finishing is not None:
                finishing.begin(running)
            raise
        except BaseException:  # nobody will end it here any more
            self._running.pop(running.id, None)
            running.leave()
            raise
        finally:
            self._stopping.discard(running.id)
        self._running.pop(running.id, None)
        if finishing is not None and not finishing.outcome.done():
            finishing.outcome.set_result(summary)
        return summary

    async def ended_elsewhere(self, workspace: str, reason: str) -> None:
        """Note that an instance was stopped, if that was not our doing: then another host did it."""
        running = self._running.get(workspace)
        if running is None or workspace in self._stopping or workspace in self._finishing:
            return
        del self._running[workspace]
        await running.ended_elsewhere(reason)

    async def elsewhere(self, name: WorkspaceName, workspace: Row) -> Refused:
        """The error for whoever asks something of an instance that only its own host can do."""
        hosts = {row["id"]: row for row in await self.runtime.database.read(host_rows.listed)}
        host = hosts.get(workspace["owner"])
        where = f"on {host['node']}, process {host['pid']}" if host else "on a host that has just ended"
        return Refused(f"@{name} is run {where}: this can only be done there", hint=f"agent-worker peek @{name}")

    def leave_all(self) -> None:
        for running in self._running.values():
            running.leave()


async def at_rest(running: Instance) -> Summary:
    """The summary so far of an instance that waits at a limit, with the command that resumes it."""
    return replace(await running.so_far(), resume=f"agent-worker resume @{running.name}")
