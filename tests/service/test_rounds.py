"""Rounds as a person sees them: the diff, the audit, taking one back, and that they come by night."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.house import House, house
from tests.patience import until
from tests.teams import Team, open_team

from agent_worker.backends.mock import calls, says
from agent_worker.core.clock import TestClock
from agent_worker.core.errors import AgentWorkerError, NotFound
from agent_worker.service.rounds import NightRounds, next_night
from agent_worker.service.service import Service

FRIDAY = "We deploy on Fridays after the review"
ENDED = {"freeze": {"value": "No deploys before the fair", "until": "2020-01-01", "source": "r_0"}}
TWICE = {
    "deploy-day": {"value": FRIDAY, "source": "r_1", "by": "user"},
    "deploys": {"value": f"{FRIDAY}.", "source": "r_2", "by": "agent:bob"},
}


@pytest.fixture
async def here(tmp_path: Path) -> AsyncIterator[House]:
    async with house(tmp_path, "alice", "bob") as made:
        yield made


def remember(root: Path, file: str = "working", **entries: Any) -> Path:
    path = root / ".agents" / "alice" / "memory" / f"{file}.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump(entries))
    return path


def kept(path: Path) -> dict[str, Any]:
    found = yaml.safe_load(path.read_text()) if path.exists() else None
    return found or {}


async def deeds(here: House) -> list[tuple[str, str, str]]:
    return [(each["who"], each["deed"], each["about"]) for each in (await here.do("audit_show"))["entries"]]


async def test_a_dry_run_shows_what_a_round_does_and_changes_nothing(here: House) -> None:
    working = remember(here.root, **ENDED, **TWICE)
    before = working.read_text()
    shown = await here.do("memory_rounds", name="alice", dry_run=True)
    assert (shown["id"], working.read_text(), await deeds(here)) == ("", before, [])
    made = await here.do("memory_rounds", name="alice")
    assert [(each["what"], each["before"], each["why"]) for each in made["changes"]] == [
        (each["what"], each["before"], each["why"]) for each in shown["changes"]
    ]
    assert [each["what"] for each in made["changes"]] == ["expired", "merged", "merged"]
    assert list(kept(working)) == ["deploy-day"]
    assert await deeds(here) == [("user", "tidied", "1 expired, 2 merged")]
    assert await here.flaw() == ""
    assert await here.do("memory_rounds", name="alice") == {"id": "", "changes": [], "check": []}


async def test_a_round_is_taken_back_by_its_id_and_not_made_again(here: House) -> None:
    working = remember(here.root, **ENDED, **TWICE)
    before = kept(working)
    id = (await here.do("memory_rounds", name="alice"))["id"]
    shown = await here.do("memory_revert", name="alice", source=id, show=True)
    assert len(shown["restored"]) == 3
    assert list(kept(working)) == ["deploy-day"], "it was only shown"
    taken = await here.do("memory_revert", name="alice", source=id)
    assert (sorted(taken["restored"]), taken["for_you"]) == (sorted(shown["restored"]), [])
    assert kept(working).keys() == before.keys()
    assert not (await here.do("memory_rounds", name="alice"))["changes"]


async def test_what_was_changed_since_is_named_and_stays(here: House) -> None:
    remember(here.root, **ENDED)
    id = (await here.do("memory_rounds", name="alice"))["id"]
    archive = remember(here.root, "archive", freeze="I wrote this")
    taken = await here.do("memory_revert", name="alice", source=id)
    assert (taken["restored"], taken["for_you"]) == ([], ["freeze (expired) was changed since"])
    assert kept(archive) == {"freeze": "I wrote this"}


@pytest.mark.parametrize("id", ["g_", "g_nothing", "g_' or 1=1 --"])
async def test_a_round_that_never_was_is_said_to_be_none(here: House, id: str) -> None:
    with pytest.raises(NotFound, match="no round") as error:
        await here.do("memory_revert", name="alice", source=id)
    assert "agent-worker audit" in error.value.hint


async def test_what_was_merged_with_poison_is_there_again_when_the_poison_goes(here: House) -> None:
    here.mocks["alice"].then(says("ok"))
    await here.ask("alice", "hello")
    poisoned = (await here.do("runs_list"))[0]["id"]
    heard = {"value": FRIDAY, "source": poisoned, "by": "agent:bob", "learned": "2026-01-01"}
    working = remember(here.root, deploys=heard, **{"deploy-day": {"value": FRIDAY, "source": "r_1", "by": "self"}})
    await here.do("memory_rounds", name="alice")
    assert kept(working)["deploy-day"]["source"] == ["r_1", poisoned]
    await here.do("memory_revert", name="alice", source=poisoned)
    assert kept(working)["deploy-day"] == {"value": FRIDAY, "source": "r_1"}


async def test_a_file_with_a_mistake_is_named_and_nothing_is_moved(here: House) -> None:
    working = remember(here.root, **ENDED)
    (working.parent / "archive.yaml").write_text("a: [")
    with pytest.raises(AgentWorkerError, match="archive") as error:
        await here.do("memory_rounds", name="alice")
    assert "fix the file" in error.value.hint
    assert kept(working) == ENDED


async def test_the_person_says_whether_it_still_holds(here: House) -> None:
    due = {"value": "Sam is away on Mondays", "check_after": "2020-01-01"}
    working = remember(here.root, monday=due, tuesday=due | {"value": "Ann is away on Tuesdays"})
    assert (await here.do("memory_rounds", name="alice"))["check"] == ["monday", "tuesday"]
    await here.do("memory_rounds", name="alice")
    first, second = await here.do("inbox_list")
    assert "whether this still holds: monday" in first["text"]
    await here.do("inbox_answer", item=first["id"], action="approve")
    await here.do("inbox_answer", item=second["id"], action="deny")
    assert list(kept(working)) == ["monday"]
    assert kept(working)["monday"]["check_after"] > "2026"
    assert not (await here.do("memory_rounds", name="alice"))["check"]


async def test_a_dispute_that_is_none_any_more_leaves_the_inbox(here: House) -> None:
    working = remember(here.root, **{"deploy-day": {"value": FRIDAY}})
    here.mocks["alice"].then(
        calls("memory_write", key="deploy-day", value="We deploy on Mondays after the review"), says("noted")
    )
    await here.ask("alice", "look around")
    (item,) = await here.do("inbox_list")
    assert item["kind"] == "dispute"
    left = kept(working)
    del left["deploy-day"]
    working.write_text(yaml.safe_dump(left))  # the person has settled it in the file
    assert [each["what"] for each in (await here.do("memory_rounds", name="alice"))["changes"]] == ["settled"]
    assert await here.do("inbox_list") == []
    assert list(kept(working)) == ["deploy-day"]


# --- by night -----------------------------------------------------------------------------------------


async def test_each_night_at_the_hour_of_the_settings(tmp_path: Path, clock: TestClock) -> None:
    async with open_team(tmp_path, "alice", clock=clock) as team:
        service = _watched(team)
        working = remember(tmp_path, **ENDED)
        await team.elapse(86400)
        await until(lambda: not kept(working))
        await service.close()


async def test_off_means_never(tmp_path: Path, clock: TestClock) -> None:
    async with open_team(tmp_path, "alice", clock=clock, rounds_at=-1) as team:
        service = _watched(team)
        working = remember(tmp_path, **ENDED)
        await team.elapse(2 * 86400)
        await team.still()
        assert kept(working) == ENDED
        await service.close()


def _watched(team: Team) -> Service:
    service = Service(team.runtime)
    NightRounds(service)
    return service


def test_the_next_night_is_the_next_time_that_the_clock_on_the_wall_shows_it() -> None:
    now = datetime(2026, 1, 5, 9, 0, tzinfo=UTC)
    due = next_night(now, 3 * 3600)
    assert now < due <= now + timedelta(days=1)
    assert due.astimezone().strftime("%H:%M") == "03:00"
    assert next_night(due, 3 * 3600) == due + timedelta(days=1)
