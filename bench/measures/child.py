"""A measure in a process of its own: a module beside this one, run as a program that prints its costs as JSON."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path

BENCH = Path(__file__).parents[1]
TIME_LIMIT = 120


async def child(module: str, *told: object) -> dict[str, float]:
    command = (sys.executable, "-m", module, *map(str, told))
    done = await asyncio.to_thread(
        subprocess.run, command, cwd=BENCH, check=True, stdout=subprocess.PIPE, timeout=TIME_LIMIT
    )
    costs: dict[str, float] = json.loads(done.stdout)
    return costs
