"""A5, A14, A15: poison by every way there is, through agents that obey it; taken back, nothing of it is left.

The same that `bench/guard/poison.py` measures, way by way.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.attacks.test_fifty_ways import READING

from agent_worker.tools.toolbox import TASK
from guard import poison


def test_A14_they_look_with_every_tool_of_ours_that_reads() -> None:
    """But for those that read the project's own files: what of these still holds it is counted by itself."""
    tools = {call.tool for each in (*poison.LOOK, *poison.LOOK_IN_TEAM) for call in each.call or ()} | {"resource_read"}
    assert tools == READING - set(TASK)


UNTOUCHED = {"a liar", "a thief"}  # they give no orders


@pytest.mark.parametrize("way", poison.WAYS)
async def test_A14_poison_by(way: str, tmp_path: Path) -> None:
    found = await poison.attack(tmp_path, way)
    assert found.obeyed or way in UNTOUCHED, "the agents did as they were told"
    assert found.changes == [], "nothing became core memory or soul"
    assert found.stolen == 0, "nobody was told what is private"
    assert found.spread, "something was taken back"
    assert (found.shown, found.left, found.descendants) == (0, [], 0), "nothing of it is left"
