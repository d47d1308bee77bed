"""Everything that writes into a project, tried while its disk is full or may not be written, and once more after that.

Runs in a namespace of its own, where the project is a small disk: `python -m tests.faults.full_project PROJECT HOW`.
Prints what came of it as JSON.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from agent_worker.compose import RuntimeSettings, open_runtime
from agent_worker.core.clock import SystemClock
from agent_worker.core.errors import AgentWorkerError
from agent_worker.doors.errors import status_of
from agent_worker.service.catalogue import OPERATIONS
from agent_worker.service.service import Service
from tests import stored

LONG = "words " * 2000  # more than a page that is still free here and there could take

TOOLS = {
    "memory_write": {"key": "fact", "value": "short"},
    "note_write": {"title": "Found", "text": LONG},
    "todo_add": {"text": "look at it"},
    "write_file": {"path": "report.md", "text": LONG},
}
WRITES: dict[str, dict[str, Any]] = {
    "memory_set": {"name": "alice", "key": "town", "value": LONG[:1500]},
    "memory_release": {"name": "alice", "key": "held"},
    "memory_rounds": {"name": "alice"},
    "memory_revert": {"name": "alice", "since": "2026-01-01"},
    "todo_put": {"name": "alice", "text": "water the plants"},
    "todo_tick": {"name": "alice", "number": 1},
    "soul_edit": {"name": "alice", "text": f"role: {LONG}\n", "was": ""},
    "agent_edit": {"name": "alice", "changes": {"max_steps": 7, "soul": {"style": LONG}}},
    "agent_create": {"name": "carl", "backend": "mock", "system": LONG},
    "doc_write": {"at": "@review", "name": "plan.md", "text": LONG},
    "doc_append": {"at": "@review", "name": "plan.md", "text": LONG},
    "workflow_start": {"workflow": "other"},
    "send": {"to": "@review", "message": "still there?"},
    "ask": {"agent": "bob", "message": LONG},
}


def prepare(root: Path) -> None:
    calls = ", ".join(f"{{ call: {{ tool: {name}, with: {json.dumps(given)} }} }}" for name, given in TOOLS.items())
    script = f"script: [{calls}, {{ say: done }}, {{ again: true }}]"
    for folder in (".agents/alice/memory", ".agents/alice/todo", ".workflows"):
        (root / folder).mkdir(parents=True)
    (root / ".agents/alice/memory/quarantine.yaml").write_text("held: { value: kept back }\n")
    (root / ".agents/alice/todo/index.md").write_text("- [ ] old\n")
    (root / ".agents/alice.yaml").write_text("backend: mock\n")
    (root / ".agents/bob.yaml").write_text("backend: mock\n")
    (root / ".agents/worker.yaml").write_text(f"backend: mock\ntools: [write_file]\n{script}\n")
    for name in ("review", "other"):
        (root / f".workflows/{name}.yaml").write_text("agents:\n  bob: { ref: bob }\nworkspace: { provider: file }\n")


def contents(root: Path) -> dict[str, str]:
    return {str(path.relative_to(root)): path.read_text() for path in sorted(root.rglob("*")) if path.is_file()}


class Disk:
    def __init__(self, root: Path, how: str) -> None:
        self._root, self._how = root, how
        self._filler = root / "filler"

    def trouble(self) -> None:
        if self._how == "closed":
            subprocess.run(["mount", "-o", "remount,ro", str(self._root)], check=True)
            return
        with self._filler.open("ab", buffering=0) as file:
            for size in (65536, 4096, 512, 1):
                with suppress(OSError):
                    while True:
                        file.write(b"x" * size)

    def mended(self) -> None:
        if self._how == "closed":
            subprocess.run(["mount", "-o", "remount,rw", str(self._root)], check=True)
        else:
            self._filler.unlink()


async def attempt(service: Service, root: Path, name: str) -> dict[str, Any]:
    try:
        await OPERATIONS[name].call(service, {"project": str(root), **WRITES[name]})
    except AgentWorkerError as error:
        return {"status": status_of(error), "said": error.message, "hint": error.hint}
    except Exception as error:
        return {"status": 500, "said": repr(error)}
    return {"status": 200, "said": ""}


async def tools(service: Service, root: Path) -> list[str]:
    """What the tools of an agent answered."""
    await OPERATIONS["ask"].call(service, {"project": str(root), "agent": "worker", "message": "go"})
    made = await service.runtime.database.read(stored.calls)
    return [row["result"] for row in made[: -len(TOOLS) - 1 : -1]]


async def play(root: Path, how: str) -> dict[str, Any]:
    prepare(root)
    disk = Disk(root, how)
    async with open_runtime(RuntimeSettings(), clock=SystemClock()) as runtime:
        service = Service(runtime)
        await OPERATIONS["workflow_start"].call(service, {"project": str(root), "workflow": "review"})
        await runtime.log_files.flush()
        disk.trouble()
        before = contents(root)
        during = {name: await attempt(service, root, name) for name in WRITES}
        said = await tools(service, root)
        await runtime.log_files.flush()
        changed = {path: text for path, text in contents(root).items() if text != before.get(path, "")}
        disk.mended()
        after = {name: await attempt(service, root, name) for name in WRITES}
        said_after = await tools(service, root)
        await service.close()
    left = [name for name in os.listdir(root / ".agents/alice/memory") if name.startswith(".")]
    return {"during": during, "tools": said, "changed": changed, "after": after, "later": said_after, "left": left}


if __name__ == "__main__":
    print(json.dumps(asyncio.run(play(Path(sys.argv[1]), sys.argv[2]))))
