"""Agents that have nothing to do cost their definition and a row: no backend, no tools, no loop, no folder."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests import engine
from tests.effort import effort

from agent_worker.compose import RuntimeSettings, open_runtime
from agent_worker.core.events import Ended
from agent_worker.definitions.project_files import ProjectFiles, load_project
from agent_worker.service.messages import put_question
from agent_worker.workflows.runtime import Runtime
from agent_worker.workspaces import routing

FEW, MANY = 100, 400
AT_MOST = 1.1 * MANY / FEW  # what is linear takes four times as long; what compares all pairs takes longer


def project(root: Path, count: int) -> ProjectFiles:
    folder = root / ".agents"
    folder.mkdir(parents=True)
    for number in range(count):
        (folder / f"agent{number}.yaml").write_text("backend: mock\ntools: [read_file]\n")
    return load_project(root)


def loops() -> int:
    return sum(task.get_name().startswith("loop ") for task in asyncio.all_tasks())


def equipped(runtime: Runtime) -> list[str]:
    """Who has a backend and tools."""
    return [worker.name for worker in runtime.registry.workers() if worker.kit.made]


def test_four_times_as_many_files_take_four_times_as_long_to_read(tmp_path: Path) -> None:
    spent = {}
    for count in (FEW, MANY):
        project(tmp_path / str(count), count)
        with effort() as reading:
            load_project(tmp_path / str(count))
        spent[count] = reading.calls
    assert spent[MANY] < AT_MOST * spent[FEW]


async def test_four_times_as_many_agents_take_four_times_as_long_to_be_made_known(tmp_path: Path) -> None:
    spent = {}
    for count in (FEW, MANY):
        files = project(tmp_path / str(count), count)
        async with open_runtime() as runtime:
            with effort() as loading:
                await runtime.loader.load(files)
        spent[count] = loading.calls
    assert spent[MANY] < AT_MOST * spent[FEW]


async def test_who_has_nothing_to_do_has_no_backend_no_loop_and_no_folder(tmp_path: Path) -> None:
    files = project(tmp_path, 5)
    async with open_runtime() as runtime:
        loaded = await runtime.loader.load(files)
        await runtime.supervisor.wake_all()
        assert equipped(runtime) == []
        assert loops() == 0
        assert (await put_question(runtime, loaded, "agent3", "hello")).state == "done"
        assert equipped(runtime) == ["agent3"]
        assert loops() == 1
        await runtime.log_files.flush()
        assert [path.name for path in (tmp_path / ".agents").iterdir() if path.is_dir()] == ["agent3"]


async def test_after_a_kill_those_with_work_are_woken_and_nobody_else(tmp_path: Path) -> None:
    files, settings = project(tmp_path / "p", 20), RuntimeSettings(database=engine.state_at(tmp_path / "state.db"))
    async with open_runtime(settings) as runtime:
        loaded = await runtime.loader.load(files)
        await runtime.supervisor.stop()  # so that nobody takes it
        for name in ("agent4", "agent17"):
            write = runtime.database.of(loaded.id).write
            await write(routing.tell_agent, loaded.agents[name], "hello", now=runtime.clock.micros())
    async with open_runtime(settings) as runtime:
        loaded = await runtime.loader.load(files)
        ended: asyncio.Queue[Ended] = asyncio.Queue()
        runtime.bus.listen(ended.put_nowait, Ended)
        await runtime.supervisor.wake_all()
        assert {(await ended.get()).name for _ in range(2)} == {"agent4", "agent17"}
        assert sorted(equipped(runtime)) == ["agent17", "agent4"]
        assert loops() == 2
