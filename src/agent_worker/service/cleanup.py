"""What can go: found by rules that spare whatever somebody may still need, shown, and removed when asked.

Nothing of a project is touched. In doubt a thing stays.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

from agent_worker.backends.programs.program import owner_of
from agent_worker.core.clock import from_micros
from agent_worker.core.errors import AgentWorkerError
from agent_worker.core.later import dataclass
from agent_worker.core.text import plural
from agent_worker.database.backup import UNFINISHED
from agent_worker.database.database import Row, WholeTransaction
from agent_worker.database.restore import SAVED
from agent_worker.definitions.project_files import load_project
from agent_worker.files.makers import abandoned
from agent_worker.service.backups import BACKUPS, home_of
from agent_worker.service.operation import operation
from agent_worker.service.service import Service
from agent_worker.work import project_rows, sent_texts

_AT_ONCE = 1000  # texts that go in one transaction: others want to write too
_SET_ASIDE = (".replaced-", ".damaged-", ".version-", SAVED)


@dataclass(frozen=True, slots=True)
class Leftover:
    path: str
    what: str
    bytes: int


def _before(service: Service) -> float:
    """The time, in seconds, before which leftovers need not be kept."""
    kept = timedelta(seconds=service.runtime.registry.settings.keep_leftovers)
    return (from_micros(service.now()) - kept).timestamp()


@operation("GET", "/leftovers")
async def leftovers(service: Service) -> list[Leftover]:
    """What nobody needs: leftovers of killed runs and deleted agents, old sessions, backups, logs, prompts."""
    texts = await _old_texts(service)
    return sorted([*await _files(service), *texts], key=lambda each: -each.bytes)


@operation("DELETE", "/leftovers")
async def leftovers_remove(service: Service) -> list[Leftover]:
    """Remove what nobody needs, and say what it was."""
    found, texts = await _files(service), await _old_texts(service)
    gone = await asyncio.to_thread(lambda: [each for each in found if _removed(Path(each.path))])
    if texts:
        await _remove_texts(service)
    return sorted([*gone, *texts], key=lambda each: -each.bytes)


async def _files(service: Service) -> list[Leftover]:
    rows = await service.runtime.database.read(_agents)
    return await asyncio.to_thread(lambda: list(_all(service, rows)))


# --- what models were sent ----------------------------------------------------------------------------


async def _old_texts(service: Service) -> list[Leftover]:
    size = await service.runtime.database.read(_size_of_texts, _oldest_text(service))
    days = plural(service.runtime.prompts_kept.days, "day")
    what = f"texts sent to models more than {days} ago, in the database"
    return [Leftover(service.runtime.database.place, what, size)] if size else []


async def _remove_texts(service: Service) -> None:
    database, before = service.runtime.database, _oldest_text(service)
    for project in await database.read(project_rows.ids):
        while await database.of(project).write(sent_texts.forget_before, before, most=_AT_ONCE) == _AT_ONCE:
            pass
    await database.shed()


def _oldest_text(service: Service) -> int:
    return service.now() - service.runtime.prompts_kept // timedelta(microseconds=1)


def _size_of_texts(tx: WholeTransaction, before: int) -> int:
    return sum(sent_texts.size_before(tx.of(project), before) for project in project_rows.ids(tx))


# --- files --------------------------------------------------------------------------------------------


def _all(service: Service, rows: list[Row]) -> Iterator[Leftover]:
    home, before = home_of(service).location(), _before(service)
    found = [(path, "left by a run that was killed") for path in abandoned()]
    found += [(path, "of an agent that is gone") for path in _of_nobody(home / "programs", rows, before)]
    gone = {path for path, _ in found}
    found += [(path, "an old session of a program") for path in _sessions(home / "programs", before, gone)]
    kept = service.runtime.registry.settings.keep_backups
    found += [(path, "an old backup") for path in _backups(home / BACKUPS, before, kept)]
    found += [(path, "an old database that was set aside") for path in _set_aside(home, before)]
    found += [(path, "an old log") for path in home.glob("daemon.log.*") if _changed(path) < before]
    return (Leftover(str(path), what, _size(path)) for path, what in found)


def _of_nobody(programs: Path, rows: list[Row], before: float) -> Iterator[Path]:
    """Folders of agents that no project has any more. Of a project that cannot be read, only
    folders unused for long.
    """
    known, unsure = _owners(rows)
    for folder in programs.glob("*/*"):
        if folder.is_symlink() or not folder.is_dir() or folder.name in known:
            continue
        if folder.name not in unsure or _last_use(folder) < before:
            yield folder


def _owners(rows: list[Row]) -> tuple[set[str], set[str]]:
    """The folders of agents that exist, and those of agents whose project cannot be read."""
    known, unsure = set(), set()
    defined = {root: _defined(Path(root)) for root in {row["root"] for row in rows}}
    for row in rows:
        inline = row["workflow"] is not None
        who = f"{row['name']}@{row['workflow']}" if inline else row["name"]
        owner, agents = owner_of(row["name"], Path(row["root"]), who), defined[row["root"]]
        if agents is None:
            unsure.add(owner)
        elif inline or row["kind"] == "ephemeral" or row["name"] in agents:
            known.add(owner)
    return known, unsure


def _defined(root: Path) -> set[str] | None:
    """Agents that a project has; None when we cannot tell."""
    try:
        project = load_project(root)
    except (AgentWorkerError, OSError):
        return None
    return set(project.agents) if root.is_dir() and not project.problems else None


def _sessions(programs: Path, before: float, gone: set[Path]) -> Iterator[Path]:
    for path in programs.glob("codex/*/sessions/**/*.jsonl"):
        if not gone & set(path.parents) and _changed(path) < before:
            yield path


def _backups(folder: Path, before: float, kept: int) -> Iterator[Path]:
    whole = sorted(folder.glob("*.db"), key=_changed, reverse=True)
    yield from (path for path in whole[kept:] if _changed(path) < before)
    yield from (path for path in folder.glob(f"*{UNFINISHED}") if _changed(path) < before)


def _set_aside(home: Path, before: float) -> Iterator[Path]:
    for path in home.glob("state.db.*"):
        if any(word in path.name for word in _SET_ASIDE) and _changed(path) < before:
            yield path


def _changed(path: Path) -> float:
    try:
        return path.lstat().st_mtime
    except OSError:
        return float("inf")  # it went away by itself


def _last_use(folder: Path) -> float:
    return max(map(_changed, (folder, *folder.rglob("*"))))


def _size(path: Path) -> int:
    total = 0
    for each in (path, *path.rglob("*")) if path.is_dir() and not path.is_symlink() else (path,):
        with suppress(OSError):
            total += each.lstat().st_size
    return total


def _removed(path: Path) -> bool:
    with suppress(OSError):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink()
    return not os.path.lexists(path)


def _agents(tx: WholeTransaction) -> list[Row]:
    return tx.all(
        """select a.name, a.kind, c.root, w.workflow from agent a
             join checkout c on c.project = a.project and c.host = :here
             left join workspace w on w.project = a.project and w.id = a.home and w.state <> 'archived'
            where a.home = '' or w.id is not null"""
    )
