"""The comparison with other libraries: our own arm works, cheating is noticed, and the page can be read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from bench.peers.field import ALL, BY_HAND, OURS
from bench.peers.model import Counting
from bench.peers.page import STARTING, WORKING, page, panels
from bench.peers.race import Measures, Model, model, perform


@pytest.fixture(scope="module")
def there() -> Iterator[Model]:
    with model() as there:
        yield there


def test_our_arm_gets_its_first_answer(there: Model, tmp_path: Path) -> None:
    assert perform(OURS, "first", there, tmp_path)["first"] > 0


def test_the_loop_by_hand_makes_all_its_steps(there: Model, tmp_path: Path) -> None:
    spent = perform(BY_HAND, "alone", there, tmp_path)
    assert spent["cpu"] > 0
    assert spent["memory"] > 0


def test_the_model_asks_for_every_step_and_then_says_the_sum() -> None:
    mind, messages = Counting(), [{"role": "user", "content": "Add up, steps: 2."}]
    for sum in (1, 2):
        assert mind({"messages": messages}).calls[0].arguments == {"a": sum - 1, "b": 1}
        messages.append({"role": "tool", "content": str(sum)})
    assert mind({"messages": messages}).text == "The sum is 2."
    assert mind.wrong == []
    assert mind.calls == 3


def test_the_model_notices_a_tool_that_was_not_called() -> None:
    mind = Counting()
    mind({"messages": [{"role": "user", "content": "steps: 2"}, {"role": "tool", "content": "7"}]})
    assert mind.wrong == ["the tool should have said 1: 7"]


def measures(value: float) -> Measures:
    return {column.measure: value for column in (*STARTING, *WORKING)}


def a_round(**theirs: float) -> dict[str, Measures]:
    return {arm.name: measures(theirs.get(arm.name, 3.0 if arm != OURS else 2.0)) for arm in ALL}


def test_the_page_says_where_we_are_ahead_and_where_not() -> None:
    text = page([a_round(Agno=1.0), a_round(Agno=1.0)], "", cut_off=True, minutes=1)
    assert "| Agno | 1.0 s (0.5)" in text
    assert "- **a step, CPU**: Agno (0.50). Why: the answer, the call" in text
    assert "- a step, CPU" not in text, "the rounds agree"


def test_nobody_is_ahead_where_the_rounds_do_not_agree() -> None:
    rounds = [a_round(Agno=1.0), a_round(Agno=9.0), a_round(Agno=9.0)]
    text = page(rounds, "", cut_off=True, minutes=1)
    assert "| Agno | 9.0 s (≈ 4.5)" in text
    assert "- a step, CPU: Agno (4.50)" in text
    assert "- **a step, CPU**" not in text


def test_the_plot_has_a_bar_for_everybody() -> None:
    assert all(len(bars) == len(ALL) for bars in panels([a_round()]).values())
