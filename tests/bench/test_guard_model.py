"""The Guard measured with a model: over HTTP, by the judge that runs have, with one that is played and errs."""

from __future__ import annotations

import re
from typing import Any

import pytest
from tests.fakes.model_server import ModelServer

from agent_worker.definitions.guard import GuardModel
from guard.with_model import Case, cases, compared, measure, played

RIGHT = {"updates": "update", "again": "same", "apart": "both"}
PAIR = re.compile(r"(?m)^(\d+)\. known: (.*)\n {3}new: (.*)$")


class FallibleJudge:
    """Knows what is so of every pair, and gives every seventh answer wrong."""

    def __init__(self, every: list[Case]) -> None:
        self._truth = {(case.known[1], case.new[1]): RIGHT[case.kind] for case in every}
        self.answers = self.wrong = 0

    def __call__(self, body: dict[str, Any]) -> str:
        told = "\n".join(str(message["content"]) for message in body["messages"])
        return "\n".join(f"{number} {self._verdict(known, new)}" for number, known, new in PAIR.findall(told))

    def _verdict(self, known: str, new: str) -> str:
        truth = next((right for (old, now), right in self._truth.items() if old in known and now in new), "unsure")
        self.answers += 1
        if self.answers % 7:
            return truth
        self.wrong += 1
        return next(word for word in ("update", "same", "both") if word != truth)


async def test_with_a_model_that_errs_in_one_answer_of_seven_more_is_right_than_by_rules_within_its_budget(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    every = cases()
    judge = FallibleJudge(every)
    async with ModelServer(mind=judge) as server:
        monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-fake")
        monkeypatch.setenv("OPENAI_BASE_URL", server.url("think", "/v1"))
        rules, with_it = await played(every, None), await played(every, "openai-chat/fake")
        assert server.requests, "it was asked over HTTP"
        assert all(request.headers["authorization"] == "Bearer sk-of-the-fake" for request in server.requests)
    assert judge.wrong, "it did err"
    assert sum(rules.requests) == 0, "by rules nobody is asked"
    assert sum(with_it.requests) == len(server.requests)
    assert max(with_it.requests) <= 1
    assert 0 < max(with_it.tokens) <= GuardModel().budget
    assert with_it.good.total() > rules.good.total()
    page = compared("openai-chat/fake", every, rules, with_it).markdown()
    assert "The model was `openai-chat/fake`." in page
    assert "**no**" not in page


def test_without_a_model_the_page_says_that_nothing_was_measured() -> None:
    page = measure().markdown()
    assert "Not measured with a real model" in page
    assert "|" not in page
