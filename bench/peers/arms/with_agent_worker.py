"""Ours, through the Python API in its ordinary durable form: SQLite in a file, every step synced before the next."""

import asyncio
import tempfile
from contextlib import asynccontextmanager
from pathlib import Path

from contest import AGENTS, LOOP_LIMIT, MODEL, PAIR, STEPS, SYSTEM, TURNS, enter, task

from agent_worker import open_project
from agent_worker.core.events import Posted

TOOL = '''
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b
'''
AGENT = f"model: openai-chat/{MODEL}\nprompt: {{ system: {SYSTEM} }}\n"
ADDS = f"tools: [./tools/sums.py:add]\nmax_steps: {LOOP_LIMIT}\n"
TALK = "agents:\n" + "".join(f"  {name}: {{ ref: {name} }}\n" for name in PAIR)


class AgentWorker:
    def __init__(self, project, folder):
        self.project = project
        self.folder = folder

    async def alone(self, steps):
        return await asked(self.project, f"adder{steps}", steps)

    async def pair(self, opening):
        team = await self.project.start("talk")
        events = team.events()
        await team.send(f"@{PAIR[0]} {opening}")
        async for event in events:
            if isinstance(event, Posted) and f"turn {TURNS} of" in event.text:
                return event.text

    async def crowd(self, agents, steps):
        names = [f"agent{n}" for n in range(agents)]
        async with open_project(self.folder / "crowd", home=self.folder / "home-of-crowd") as project:
            return await asyncio.gather(*(asked(project, name, steps) for name in names))


async def asked(project, name, steps):
    answer = await project.ask(name, task(steps))
    return answer.text


@asynccontextmanager
async def arm():
    with tempfile.TemporaryDirectory(prefix="peers-") as place:
        folder = Path(place)
        write(folder / "few", [*(f"adder{steps}" for steps in (0, 1, STEPS)), *PAIR])
        write(folder / "crowd", [f"agent{n}" for n in range(AGENTS)])
        async with open_project(folder / "few", home=folder / "home") as project:
            yield AgentWorker(project, folder)


def write(root, names):
    """What a user would have in the project."""
    for path in (".agents", ".workflows", "tools"):
        (root / path).mkdir(parents=True)
    (root / "tools/sums.py").write_text(TOOL)
    if set(PAIR) <= set(names):
        (root / ".workflows/talk.yaml").write_text(TALK)
    for name in names:
        (root / f".agents/{name}.yaml").write_text(AGENT + (ADDS if name not in PAIR else ""))


if __name__ == "__main__":
    enter(arm)
