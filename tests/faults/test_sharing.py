"""Two instances of one workflow with the same agent share nothing but what that agent itself remembers (I1)."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from agent_worker.backends.backend import PastStep, Reply, StepSink, Turn
from agent_worker.backends.tool_loop import ToolLoop
from agent_worker.core.clock import SystemClock
from agent_worker.core.events import Event
from agent_worker.tools.tool import Call
from agent_worker.work.limits import WorkLimits
from agent_worker.workflows import start as workflows
from tests.faults.report import LONG, SEED, report
from tests.teams import Team, equipped, open_team

OPERATIONS = 10_000 if LONG else 1_000
AT_ONCE = 25  # calls in one run
NO_LIMITS = WorkLimits(None, None, None, None, None, None)


@dataclass
class Place:
    """One of the two instances, and all that was ever shown in it."""

    name: str
    team: Team
    known: list[str]  #: ids of resources, of both places
    shown: list[str] = field(default_factory=list)
    n: int = 0

    @property
    def canary(self) -> str:
        self.n += 1
        return f"canary-{self.name}-{self.n}"


class Restless:
    """Uses every tool there is, with words of its place, and with names and ids of the other."""

    def __init__(self, place: Place, chance: random.Random) -> None:
        self._place, self._chance = place, chance

    async def reply(self, turn: Turn, steps: Sequence[PastStep], recorder: StepSink) -> Reply:
        place = self._place
        place.shown += [turn.system, turn.prompt]
        for step in steps:
            for result in step.results.values():
                place.shown.append(result.text)
                if result.text.startswith("Kept as resource "):
                    place.known.append(result.text.split()[3])
        if steps:
            return Reply(place.canary)
        return Reply(calls=tuple(Call(f"c{n}", *self._any()) for n in range(AT_ONCE)))

    def _any(self) -> tuple[str, dict[str, Any]]:
        place, chance = self._place, self._chance
        text, number = place.canary, chance.randrange(1, 12)
        ways: list[Callable[[], tuple[str, dict[str, Any]]]] = [
            lambda: ("channel_send", {"text": text}),
            lambda: ("channel_read", {"since": chance.choice([None, 0, number])}),
            lambda: ("channel_peek", {"limit": number}),
            lambda: ("my_inbox", {}),
            lambda: ("my_status_set", {"status": text}),
            lambda: ("team_members", {}),
            lambda: ("team_doc_list", {}),
            lambda: ("team_doc_append", {"name": chance.choice(["notes.md", "plan.md"]), "text": f"{text}\n"}),
            lambda: ("team_doc_read", {"name": chance.choice(["notes.md", "plan.md", "../plan.md"])}),
            lambda: ("team_doc_create", {"name": f"{text}.md", "text": text}),
            lambda: ("team_proposal_create", {"question": text, "voters": ["alice"], "vote": "yes"}),
            lambda: ("team_vote", {"proposal": number, "choice": "yes"}),
            lambda: ("team_proposal_status", {"proposal": number}),
            lambda: ("resource_create", {"text": text}),
            lambda: ("resource_read", {"id": chance.choice(place.known or ["0" * 64])}),
            lambda: ("history_search", {"query": "canary"}),
            lambda: ("history_read", {}),
            lambda: ("memory_recall", {"query": "canary"}),
            lambda: ("memory_write", {"key": f"k{number}", "value": "what alice learned"}),
            lambda: ("memory_read", {}),
        ]
        return chance.choice(ways)()


@pytest.mark.timeout(600)
async def test_I1_no_word_of_one_instance_is_seen_in_the_other(tmp_path: Path) -> None:
    with report.seeded("I1", SEED) as chance:
        async with open_team(tmp_path, "alice", clock=SystemClock(), tag="a") as team:
            definition = team.loaded.project.workflows["review"]
            runtime = team.runtime
            workspace = await workflows.start(runtime, team.loaded, workflows.Start(definition, tag="b"))
            known: list[str] = []
            places = (Place("a", team, known), Place("b", replace(team, workspace=workspace), known))
            for place in places:
                _listen(place)
                worker = runtime.registry.worker(team.id_of("alice"), place.team.workspace.id)
                busy = replace(equipped(worker, backend=ToolLoop(Restless(place, chance))), limits=NO_LIMITS)
                runtime.registry.add(busy, workspace=place.team.workspace.id)
            for _ in range(OPERATIONS // AT_ONCE):
                place = chance.choice(places)
                await place.team.post("user", f"@alice go on {place.canary}")
                await team.idle()
            await _check(places)
            report.counts["I1 operations"] += OPERATIONS


def _listen(place: Place) -> None:
    def hear(event: Event) -> None:
        if event.workspace == place.team.workspace.id:
            place.shown.append(json.dumps(event.as_record()))

    place.team.runtime.bus.listen(hear)


async def _check(places: tuple[Place, Place]) -> None:
    for place, other in (places, places[::-1]):
        everything = "\n".join(place.shown)
        assert f"canary-{place.name}-" in everything
        assert f"canary-{other.name}-" not in everything
        assert f"canary-{other.name}-" not in json.dumps(await place.team.texts())
    assert any("what alice learned" in text for place in places for text in place.shown), "her memory is her own"
