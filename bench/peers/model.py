"""The model of the comparison, in a process of its own so that its CPU is nobody's: `python -m bench.peers.model`.

Speaks chat completions and answers at once. It adds: as often as the text says it asks for the tool `add` with the
sum so far, and notices when what comes back is not the sum. It counts turns: `turn 3 of 20` is answered with
`turn 4 of 20`. Prints its address, then one line of JSON about what it saw for every line it is sent, and forgets.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
import time
from dataclasses import dataclass, field

from tests.fakes.model_protocols import Answer, Ask, Json
from tests.fakes.model_server import ModelServer

STEPS = re.compile(r"steps: (\d+)")
TURN = re.compile(r"turn (\d+) of (\d+)")
SUM = re.compile(r"-?\d+")
NAMES = ("pong", "ping")


@dataclass(slots=True)
class Counting:
    """A mind that adds and counts, and keeps an account of what it was asked."""

    calls: int = 0
    first: float = 0.0  #: monotonic, which all processes of a machine share
    wrong: list[str] = field(default_factory=list)

    def __call__(self, body: Json) -> Answer:
        self.first = self.first or time.monotonic()
        self.calls += 1
        texts = [_text(message) for message in body["messages"]]
        turns = [match for text in texts for match in TURN.findall(text)]
        if turns:
            return self._next_turn(max(int(turn) for turn, _ in turns) + 1, int(turns[0][1]))
        asked = [int(number) for text in texts for number in STEPS.findall(text)]
        if not asked:
            self.wrong.append(f"a request without a task: {texts}")
            return Answer("What shall I do?")
        sums = [text for text, message in zip(texts, body["messages"], strict=True) if message["role"] == "tool"]
        return self._next_step(asked[-1], sums)

    def report(self) -> str:
        told = json.dumps({"calls": self.calls, "first": self.first, "wrong": self.wrong[:3]})
        self.calls, self.first, self.wrong = 0, 0.0, []
        return told

    def _next_turn(self, turn: int, last: int) -> Answer:
        if turn == last:
            return Answer(f"turn {turn} of {last}")
        return Answer(f"@{NAMES[(turn + 1) % 2]} turn {turn} of {last}")

    def _next_step(self, steps: int, sums: list[str]) -> Answer:
        done = len(sums)
        found = SUM.search(sums[-1]) if sums else None
        if sums and (not found or int(found[0]) != done):
            self.wrong.append(f"the tool should have said {done}: {sums[-1]}")
        if done >= steps:
            return Answer(f"The sum is {done}.")
        return Answer(calls=(Ask("add", {"a": done, "b": 1}, f"call_{self.calls}"),))


def _text(message: Json) -> str:
    content = message.get("content") or ""
    return content if isinstance(content, str) else "\n".join(part.get("text", "") for part in content)


async def serve() -> None:
    mind = Counting()
    async with ModelServer(mind=mind) as server:
        print(server.url("think", "/v1"), flush=True)
        while await asyncio.to_thread(sys.stdin.readline):
            server.requests.clear()
            print(mind.report(), flush=True)


if __name__ == "__main__":
    asyncio.run(serve())
