"""An hour of mixed load on one daemon: does it lose, double, leak or leave anything behind? See README.md.

uv run python bench/soak.py [--minutes 60] [--agents 200] [--rate 10] [--write docs/figures/soak.md]

The run keeps its samples: `… --again FOLDER/samples.json --write docs/figures/soak.md` makes the page of them anew.
"""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import json
import os
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import Any
from urllib.parse import quote

from soaking.house import House, Wire
from soaking.load import Load
from soaking.page import draw, life_table, lives, page, verdict_table
from soaking.teams import Room, write_teams
from soaking.verdict import Verdict, judge
from soaking.watch import Sample, Watch, queued

STOPPED, KILLED = 0.15, 0.3  # of the time: then it is asked to stop, and killed
PATIENCE = 400  # pieces of work that may wait before the senders do
CALM = 600.0  # seconds for all work to end after the last send


class Soak:
    def __init__(self, place: Path, options: argparse.Namespace) -> None:
        self.house = House(place)
        self.samples: list[Sample] = []
        self._options = options
        self._workspaces = write_teams(place, options.agents)
        self._seconds = options.minutes * 60
        self._every = min(10.0, self._seconds / 60)
        self.load = Load(self.house, self._workspaces, rate=options.rate, seed=options.seed)

    async def run(self) -> Verdict:
        await self.house.start()
        await self._open(self._workspaces)
        self._begun = time.monotonic()
        sending = asyncio.create_task(self.load.run())
        watching = asyncio.create_task(self._watch())
        for share, number in ((STOPPED, signal.SIGTERM), (KILLED, signal.SIGKILL)):
            await self._until(share)
            await self.house.end(number)
            await self.house.start()
            await self.house.look_for_orphans()
        await self._until(1.0)
        watching.cancel()
        await self.load.end()
        await sending
        await self._calm()
        await self.house.end(signal.SIGTERM)
        await self.house.look_for_orphans()
        return await asyncio.to_thread(judge, self.house, self.load.books)

    def about(self) -> dict[str, object]:
        return {
            "agents": self._options.agents,
            "rooms": len(self._workspaces),
            "rate": self._options.rate,
            "patience": PATIENCE,
            "processors": os.cpu_count(),
            "load": round(os.getloadavg()[2]),
            "starts": ", ".join(f"{seconds:.1f}" for seconds in self.house.starts),
            "stops": ", ".join(f"{seconds:.1f}" for seconds in self.house.stops),
        }

    async def _open(self, workspaces: list[Room]) -> None:
        wire = Wire(self.house)
        for workspace in workspaces:
            project = str(workspace.project)
            await wire.ask("GET", f"/status?project={quote(project, safe='')}")
            await wire.ask("POST", "/trust", project=project)
            await wire.ask("POST", "/workflows", project=project, workflow=workspace.workflow)
        wire.close()

    async def _until(self, share: float) -> None:
        await asyncio.sleep(max(0.0, self._begun + share * self._seconds - time.monotonic()))

    async def _watch(self) -> None:
        watch = Watch(self.house, self._begun)
        while True:
            if self.house.up.is_set() and (seen := await watch.look(self.load.books.sent)):
                self.samples.append(seen)
                self.load.held = seen.queued > PATIENCE
                print(json.dumps({name: round(value, 1) for name, value in seen.record().items()}), flush=True)
            await asyncio.sleep(self._every)

    async def _calm(self) -> None:
        """Until there is nothing left to do; schedules always find something."""
        until = time.monotonic() + CALM
        quiet = 0
        while quiet < 3 and time.monotonic() < until:
            quiet = 0 if await asyncio.to_thread(queued, self.house.home) else quiet + 1
            await asyncio.sleep(0.5)


def keep(path: Path, samples: list[Sample], verdict: Verdict, about: dict[str, object]) -> None:
    kept = {"about": about, "verdict": dataclasses.asdict(verdict), "samples": [each.record() for each in samples]}
    path.write_text(json.dumps(kept))


def write(path: Path, samples: list[Sample], verdict: Verdict, about: dict[str, object]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(page(samples, verdict, about, draw(path, samples)))


def read(path: Path) -> tuple[list[Sample], Verdict, dict[str, object]]:
    kept: dict[str, Any] = json.loads(path.read_text())
    return [Sample(**each) for each in kept["samples"]], Verdict(**kept["verdict"]), kept["about"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--agents", type=int, default=200)
    parser.add_argument("--rate", type=float, default=10, help="sends a second; each causes up to three runs")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--write", type=Path, help="also write the page here, and the plot beside it")
    parser.add_argument("--again", type=Path, help="do not run: make the page of these samples")
    options = parser.parse_args()
    if options.again:
        samples, verdict, about = read(options.again)
    else:
        place = Path(tempfile.mkdtemp(prefix="soak-"))
        soak = Soak(place, options)
        verdict = asyncio.run(soak.run())
        samples, about = soak.samples, soak.about()
        keep(place / "samples.json", samples, verdict, about)
        print(f"samples and everything else: {place}")
    for life, seen in lives(samples).items():
        print(f"\nlife {life}\n{life_table(seen)}")
    print(f"\n{verdict_table(verdict)}\n{json.dumps(dataclasses.asdict(verdict), indent=1)[:6000]}")
    if options.write:
        write(options.write, samples, verdict, about)
    return 0 if verdict.clean else 1


if __name__ == "__main__":
    sys.exit(main())
