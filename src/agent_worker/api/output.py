"""A typed answer: the model is told the type, its answer is checked here, and it is asked again with what is wrong.

Checked in the process of whoever asks, because the type is there, with validators that may be code. Each question has a
key made from that of the first, so a program that was killed goes on in the middle.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, Generic, TypeVar

from agent_worker.api.results import Answer, Spending
from agent_worker.core.errors import BadInput, WrongOutput
from agent_worker.core.later import pattern
from agent_worker.core.signature import adapter_of, read_json

T = TypeVar("T")
TRIES = 3
_FENCE = pattern(r"(?s)```(?:json)?\s*(.*?)```")

#: Ask an agent a question with a key.
Ask = Callable[[str, str, str], Awaitable[Answer[str]]]


class OutputType(Generic[T]):
    def __init__(self, output: type[T]) -> None:
        try:
            self._adapter = adapter_of(output)
            self._schema = json.dumps(self._adapter.json_schema(), ensure_ascii=False)
        except Exception as error:  # whatever somebody wrote as a type, or a library makes of it
            told = str(error).partition("\n")[0]
            raise BadInput(f"output: {output!r} is not a type that an answer can have: {told}") from None

    async def asked(self, ask: Ask, agent: str, text: str, key: str) -> Answer[T]:
        """Ask until the answer is of this type. Raises WrongOutput."""
        question = f"{text}\n\nAnswer with JSON only; it must match this schema:\n{self._schema}"
        spent, wrong = Spending(), ""
        for number in range(1, TRIES + 1):
            answer = await ask(agent, question, key if number == 1 else f"{key}/{number}")
            spent = _sum(spent, answer.spent)
            again = _again(self, ask, agent, text, key)
            if answer.state != "done":
                return replace(answer, spent=spent, again=again)  # type: ignore[return-value]
            found, wrong = read_json(self._adapter, _json_in(answer.text))
            if not wrong:
                return replace(answer, output=found, spent=spent, key=key, again=again)  # type: ignore[return-value]
            question = f"That is not the JSON I asked for:\n{wrong}\n\nAnswer again, with the corrected JSON only."
        told = f"{agent} did not answer with what was asked for, {TRIES} times: {wrong}"
        await answer.refuse(told)
        raise WrongOutput(told, hint="say in the question what you want, or make the type simpler")


def _json_in(text: str) -> str:
    """What a model meant as its answer: many put it into a block of code."""
    fenced = _FENCE.search(text)
    return fenced[1] if fenced else text.strip()


def _again(output: OutputType[T], ask: Ask, agent: str, text: str, key: str) -> Callable[[], Any]:
    return lambda: output.asked(ask, agent, text, key)


def _sum(one: Spending, other: Spending) -> Spending:
    return Spending(
        one.input + other.input, one.output + other.output, one.usd + other.usd, one.estimated or other.estimated
    )
