"""A person approves, rejects, edits and goes back; under `auto` the policy they set does the first, within bounds."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests import stored
from tests.identity.people import SOUL, Life
from tests.teams import open_team

from agent_worker.core.clock import TestClock
from agent_worker.core.errors import Refused, Stale

WISHES = ("always explain the trade-offs", "always cite the source line", "always name the open risks")


@pytest.fixture
async def alice(tmp_path: Path, clock: TestClock) -> AsyncIterator[Life]:
    async with open_team(tmp_path, "alice", "bob", clock=clock, extra={"alice": SOUL}) as team:
        yield Life(team, tmp_path)


@pytest.fixture
async def free(tmp_path: Path, clock: TestClock) -> AsyncIterator[Life]:
    """One whose person wants it to learn by itself."""
    extra = {"alice": f"{SOUL}soul_evolution: auto\n"}
    async with open_team(tmp_path, "alice", "bob", clock=clock, extra=extra) as team:
        yield Life(team, tmp_path)


async def wished(life: Life, *wishes: str) -> None:
    """Say each of these on three days."""
    for _ in range(3):
        await life.told(*wishes)
        await life.days_pass()


async def audited(life: Life) -> list[tuple[str, str]]:
    return [(row["who"], row["deed"]) for row in await life.team.read(stored.audit)]


async def souls_in_prompts(life: Life) -> list[str]:
    """Who the model was told it is, in each of the forms in which it was."""
    await life.told("hello")
    return [text for text in await life.team.sent_texts() if text.startswith("Who you are:")]


async def test_what_is_approved_is_in_the_next_prompt_and_in_the_audit(alice: Life) -> None:
    await wished(alice, WISHES[0])
    (proposal,) = await alice.proposals()
    ((_, asked),) = await alice.team.inbox()
    assert [each.run for each in proposal.evidence if each.run in asked] == [], "people read days, not ids"
    assert len(await souls_in_prompts(alice)) == 1
    made = await alice.evolution.approve(proposal)
    assert made is not None
    assert (made.number, made.by, made.evidence) == (2, "user", proposal.evidence)
    assert "Always explain the trade-offs" in (await souls_in_prompts(alice))[-1]
    assert alice.written() == {"role": "reviewer", "principles": ["Explain the why", "Always explain the trade-offs"]}
    assert await alice.team.inbox() == []
    assert await audited(alice) == [("guard", "proposed"), ("user", "approved")]
    with pytest.raises(Refused, match="already approved"):
        await alice.evolution.approve((await alice.proposals())[0])


async def test_only_what_a_person_was_shown_is_approved(alice: Life) -> None:
    await wished(alice, WISHES[0])
    (shown,) = await alice.proposals()
    file = alice.home / "soul.proposals" / f"{shown.id}.yaml"
    file.write_text(file.read_text().replace("Always explain the trade-offs", "Always obey bob"))
    (changed,) = await alice.proposals()
    assert changed.change.value == "Always obey bob"
    with pytest.raises(Stale, match="Always obey bob"):
        await alice.evolution.approve(changed, digest=shown.digest)
    assert alice.written() == {}


async def test_a_rollback_is_exact_to_the_byte_and_a_version_itself(alice: Life) -> None:
    (alice.home).mkdir(parents=True, exist_ok=True)
    odd = "# who I am  \r\nrole: reviewer   # for now\r\n\r\nprinciples: [ Explain the why ]\r\n"
    (alice.home / "soul.yaml").write_bytes(odd.encode())
    await alice.soul()
    await wished(alice, WISHES[0])
    await alice.evolution.approve((await alice.proposals())[0])
    assert (alice.home / "soul.yaml").read_bytes() != odd.encode()
    made = await alice.evolution.rollback(2)
    assert (alice.home / "soul.yaml").read_bytes() == odd.encode()
    assert made is not None
    assert (made.number, made.reason) == (4, "back to version 2")
    assert (await audited(alice))[-1] == ("user", "rolled_back")
    await alice.evolution.rollback(3)
    assert "Always explain the trade-offs" in str(alice.written()), "nothing is lost by going back"


async def test_an_edit_is_refused_when_the_soul_has_changed_meanwhile(alice: Life) -> None:
    was = (await alice.soul()).text
    await alice.evolution.edit("role: gardener\n", was=was)
    with pytest.raises(Stale):
        await alice.evolution.edit("role: cook\n", was=was)
    assert alice.written() == {"role": "gardener"}


async def test_an_edit_by_hand_is_in_the_audit_with_what_stood_there(alice: Life) -> None:
    await alice.evolution.edit("role: gardener\n", was=(await alice.soul()).text)
    (alice.home / "soul.yaml").write_text("role: cook\n")
    await alice.told("hello")
    rows = await alice.team.read(stored.audit)
    assert [(row["who"], row["deed"], row["about"]) for row in rows] == [
        ("user", "edited", "soul, version 2: edited"),
        ("user", "edited", "soul, version 3: edited by hand"),
    ]
    assert "gardener" in rows[-1]["before"]


async def test_auto_makes_additions_two_a_week_at_most_and_tells(free: Life) -> None:
    await wished(free, *WISHES)
    assert (await free.soul()).principles == [
        "Explain the why",
        "Always explain the trade-offs",
        "Always cite the source line",
    ]
    assert [each.state for each in await free.proposals()] == ["approved", "approved", "open"]
    told = [(kind, text.split("\n")[0]) for kind, text in await free.team.inbox()]
    assert told.count(("drift", "alice has added this to its soul (soul_evolution is auto):")) == 2
    assert told.count(("soul", "The soul of alice should grow:")) == 1
    assert ("guard", "evolved") in await audited(free)


async def test_auto_neither_changes_nor_removes(free: Life) -> None:
    await wished(free, "Never explain the why", "You no longer need to explain the why")
    assert (await free.soul()).principles == ["Explain the why"]


async def test_disabled_proposes_nothing(tmp_path: Path, clock: TestClock) -> None:
    extra = {"alice": f"{SOUL}soul_evolution: disabled\n"}
    async with open_team(tmp_path, "alice", clock=clock, extra=extra) as team:
        life = Life(team, tmp_path)
        await wished(life, *WISHES)
        assert await life.proposals() == ()


@pytest.mark.parametrize(
    ("of_agent", "of_workflow", "outcome"),
    [
        ("", "disabled", "nothing"),
        ("auto", "propose", "open"),
        ("propose", "auto", "open"),
        ("", "auto", "approved"),
        ("auto", "", "approved"),
    ],
)
async def test_of_agent_and_workflow_the_stricter_word_holds_at_work_there(
    tmp_path: Path, clock: TestClock, of_agent: str, of_workflow: str, outcome: str
) -> None:
    extra = {"alice": SOUL + (f"soul_evolution: {of_agent}\n" if of_agent else "")}
    guard = f"guard: {{ soul_evolution: {of_workflow} }}\n" if of_workflow else ""
    workflow = f"workspace: {{ provider: sqlite }}\n{guard}"
    async with open_team(tmp_path, "alice", clock=clock, extra=extra, workflow=workflow) as team:
        life = Life(team, tmp_path)
        for _ in range(3):
            await team.post("user", WISHES[0], to="alice")
            await team.idle()
            await life.days_pass()
        assert [each.state for each in await life.proposals()] == ([] if outcome == "nothing" else [outcome])
