"""kill -9 at any moment: what each agent was told about its calls is what happened, and the books outside agree."""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from agent_worker.definitions.source import parse_source
from tests import stored
from tests.faults.driver import Killed, Life, Nursery, Scene, wait_a_moment
from tests.faults.oracle import check
from tests.faults.report import LONG, SEED, report

KILLS = 300 if LONG else 6
KILLS_PER_HOME = 6
MEMBERS = ("alice", "bob", "carol", "dave", "erin")


def put_to_work(scene: Scene, life: Life, chance: random.Random) -> None:
    for _ in range(chance.randint(1, 3)):
        key, member = f"k{len(scene.books.sent)}", chance.choice(scene.members)
        scene.send(life, key, "@review", f"@{member} work:{key} team:{chance.randint(0, 2)}")
    scene.hear_lines(life, chance.randint(0, 150))
    wait_a_moment(chance, 0.02)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("trial", range(KILLS // KILLS_PER_HOME))
def test_D13_what_agents_are_told_is_what_happened_however_often_the_process_is_killed(
    nursery: Nursery, tmp_path: Path, trial: int
) -> None:
    with report.seeded("D13", SEED + trial) as chance:
        scene = Scene(nursery, tmp_path, MEMBERS, workflow="limits: { turns: off, usd: off }\n")
        for _ in range(KILLS_PER_HOME):
            with scene.life() as life, suppress(Killed):
                life.until("born")
                if chance.random() < 0.8:
                    life.until("ready")
                    scene.send_again(life)
                    put_to_work(scene, life, chance)
                else:
                    wait_a_moment(chance, 0.1)  # while it starts, tidies up and goes on
        scene.settle()
        scene.settle()  # the minutes follow a decision, at the latest with the next start
        told = list(told_to_agents(scene))
        wrong = [line for line in told if not is_true(scene, line)]
        report.count("D13 kills", KILLS_PER_HOME)
        report.count("D13 sends accepted", len(scene.books.accepted))
        for line in told:
            report.count(f"D13 results told: {line['tool']}")
        report.count("D13 results told wrongly", len(wrong))
        assert wrong == []
        assert told_differently(told) == {}
        check(scene)
        check_once_each(scene)


def told_to_agents(scene: Scene) -> Iterator[dict[str, Any]]:
    """Every result that an agent saw, as it saw it, in a journal that is none of ours."""
    journal = scene.home / "told.log"
    for line in journal.read_text().splitlines() if journal.exists() else ():
        yield from json.loads(line)


def is_true(scene: Scene, told: dict[str, Any]) -> bool:
    """Told as done it is there; told as not done it is not. In this team nothing is refused with reason."""
    there = happened(scene, told)
    return there if told["ok"] else not there and told["tool"] not in ("team_doc_append", "memory_write")


def happened(scene: Scene, told: dict[str, Any]) -> bool:
    given = told["arguments"]
    match told["tool"]:
        case "team_doc_append":
            document = scene.workspace / "documents" / given["name"]
            return document.exists() and document.read_text().count(given["text"].strip()) == 1
        case "memory_write":
            return remembered(scene, told["agent"]).get(given["key"]) == given["value"]
        case "team_proposal_create":
            number = re.search(r"Proposal (\d+) was made", told["text"])
            found = scene.read(stored.proposals, question=given["question"])
            return [f"{row['n']}" for row in found] == [number[1] if number else ""]
        case "team_vote":
            about = [row["id"] for row in scene.read(stored.proposals, n=given["proposal"])]
            return len([v for v in scene.read(stored.votes, voter=told["agent"]) if v["proposal"] in about]) == 1
        case "channel_send":
            number = re.search(r"Sent as #(\d+)", told["text"])
            found = scene.read(stored.messages, text=given["text"])
            return [f"{row['seq']}" for row in found] == [number[1] if number else ""]
    raise AssertionError(told)


def remembered(scene: Scene, agent: str) -> dict[str, str]:
    """As a person reads the file."""
    path = scene.project / ".agents" / agent / "memory" / "working.yaml"
    data: Any = parse_source(path.read_text(), file=path.name).data if path.exists() else {}
    return {key: entry["value"] for key, entry in (data or {}).items()}


def told_differently(told: list[dict[str, Any]]) -> dict[str, list[str]]:
    """One call has one result, in whichever life it is told."""
    known: dict[str, set[str]] = {}
    for line in told:
        if line["tool"] != "team_vote":  # the same question of several rounds
            place = json.dumps([line["agent"], line["tool"], line["arguments"]])
            known.setdefault(place, set()).add(json.dumps([line["ok"], line["text"]]))
    return {place: sorted(texts) for place, texts in known.items() if len(texts) > 1}


def check_once_each(scene: Scene) -> None:
    """Nothing doubled: lines, decisions in the minutes, votes."""
    log = scene.workspace / "documents" / "log.md"
    lines = Counter(log.read_text().splitlines() if log.exists() else ())
    assert all(count == 1 for count in lines.values()), lines
    minutes = scene.workspace / "documents" / "decisions.md"
    headings = re.findall(r"^## \d+\. (.*)$", minutes.read_text() if minutes.exists() else "", re.MULTILINE)
    asked = {row["question"] for row in scene.read(stored.proposals) if row["state"] != "open"}
    assert sorted(headings) == sorted(asked)
