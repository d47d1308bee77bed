"""The Guard measured with a model: over HTTP, by the judge that runs have, with judges that are played.

Whatever the judge is like, nobody is worse off with it than by rules alone; with a good one they are better off.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from typing import Any

import pytest
from tests.fakes.model_server import ModelServer

from agent_worker.agents.examination import PAIRS_AND_TRUTH
from agent_worker.definitions.guard import GuardModel
from guard.with_model import SAME, UPDATES, Case, Counted, cases, compared, measure, played

LINE = re.compile(r"(?m)^(\d+)\. known: (.*)\n {3}new: (.*)$")
TWO = re.compile(r"1: (.*)\.\n2: (.*)\.")
Errs = Callable[[int], bool]  #: in its so-manieth answer


class PlayedJudge:
    """Knows what is so of every pair, those of the examination too, and errs when it is to."""

    def __init__(self, every: list[Case], errs: Errs, wrong: str = "") -> None:
        self._truth = {frozenset((case.known[1], case.new[1])): _truth(case.kind) for case in every}
        self._truth |= {frozenset((known.value, new.value)): truth for truth, (known, new) in PAIRS_AND_TRUTH}
        self._errs, self._wrong = errs, wrong
        self.answers = self.mistakes = 0

    def __call__(self, body: dict[str, Any]) -> str:
        told = "\n".join(str(message["content"]) for message in body["messages"])
        if two := TWO.search(told):
            return "yes" if self._verdict(*two.groups()) == "same" else "no"
        return "\n".join(f"{number} {self._verdict(known, new)}" for number, known, new in LINE.findall(told))

    def _verdict(self, known: str, new: str) -> str:
        truth = next((right for pair, right in self._truth.items() if all(_ends(pair, each) for each in (known, new))))
        self.answers += 1
        if not self._errs(self.answers):
            return truth
        self.mistakes += 1
        return self._wrong or next(word for word in ("update", "same", "both") if word != truth)


def _ends(pair: frozenset[str], said: str) -> bool:
    return any(said.endswith(each) for each in pair)


def _truth(kind: str) -> str:
    return "update" if kind in UPDATES else "same" if kind in SAME else "both"


def by_rules(every: list[Case]) -> Counted:
    """What is right by rules alone, which no judge changes."""
    counted = asyncio.run(played(every, None))
    assert sum(counted.requests) == 0, "by rules nobody is asked"
    return counted


@pytest.fixture(scope="module")
def rules() -> Counted:
    return by_rules(cases())


@pytest.fixture(scope="module")
def few() -> tuple[list[Case], Counted]:
    """Some of each row, and what is right in them by rules: enough for a judge that is soon not asked any more."""
    some = cases()[::3]
    return some, by_rules(some)


async def with_judge(monkeypatch: pytest.MonkeyPatch, every: list[Case], rules: Counted, judge: PlayedJudge) -> Counted:
    """What is right with this judge: in no row less than by rules alone."""
    async with ModelServer(mind=judge) as server:
        monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-fake")
        monkeypatch.setenv("OPENAI_BASE_URL", server.url("think", "/v1"))
        with_it = await played(every, "openai-chat/fake")
        assert server.requests, "it was asked over HTTP"
        assert all(request.headers["authorization"] == "Bearer sk-of-the-fake" for request in server.requests)
    assert sum(with_it.requests) == len(server.requests)
    assert max(with_it.requests) <= 2
    assert 0 < max(with_it.tokens) <= GuardModel().budget
    assert "**no**" not in compared("openai-chat/fake", every, rules, with_it).markdown()
    return with_it


async def test_with_a_model_that_errs_in_one_answer_of_seven_more_is_right_than_by_rules_within_its_budget(
    monkeypatch: pytest.MonkeyPatch, rules: Counted
) -> None:
    judge = PlayedJudge(cases(), lambda n: n % 7 == 0)
    with_it = await with_judge(monkeypatch, cases(), rules, judge)
    assert judge.mistakes, "it did err"
    assert with_it.good.total() >= rules.good.total() + 15
    assert with_it.examined[0].startswith("may decide whether a memory repeats or replaces another")


@pytest.mark.parametrize(
    ("errs", "wrong"),
    [
        pytest.param(lambda n: n % 2 == 0, "", id="errs half of the time"),
        pytest.param(lambda n: n % 4 in (1, 2), "", id="errs in pairs"),
        pytest.param(lambda n: True, "update", id="says update to everything"),
        pytest.param(lambda n: True, "same", id="says same to everything"),
        pytest.param(lambda n: True, "whatever", id="says nothing of use"),
    ],
)
async def test_a_weak_judge_leaves_nobody_worse_off_than_rules_alone(
    monkeypatch: pytest.MonkeyPatch, few: tuple[list[Case], Counted], errs: Errs, wrong: str
) -> None:
    """Row by row: `with_judge` looks that no bar is missed."""
    some, rules = few
    judge = PlayedJudge(some, errs, wrong)
    with_it = await with_judge(monkeypatch, some, rules, judge)
    assert judge.answers < 30, "soon it is not asked any more: of a good one these take 60"
    assert with_it.good == rules.good
    assert all(told.startswith("may not decide") for told in with_it.examined)


def test_without_a_model_the_page_says_that_nothing_was_measured() -> None:
    page = measure().markdown()
    assert "Not measured with a real model" in page
    assert "|" not in page
