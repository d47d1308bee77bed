"""Five tasks in five libraries: every program here is run against a fake model, and then with what can go wrong.

`python -m bench.tasks.play LIBRARY PYTHON [TASK …]` prints one line of JSON per task. Each program runs in a new
directory, with the model at OPENAI_BASE_URL. The task `tool` runs three times more: its process dies in the tool
(`kill -9`) and is started again, the model answers 429 once, the model answers 401.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
import time
from pathlib import Path

from tests.fakes.model_protocols import Answer, Ask, Json, Refusal
from tests.fakes.model_server import REFUSALS, ModelServer, Step

HERE = Path(__file__).parent
TASKS = ("tool", "streaming", "team", "typed", "approval")
CITY = {"name": "Lisbon", "people": 545000}
SILENCE = {
    "CREWAI_DISABLE_TELEMETRY": "true",
    "CREWAI_TRACING_ENABLED": "false",
    "OTEL_SDK_DISABLED": "true",
    "LANGSMITH_TRACING": "false",
    "OPENAI_AGENTS_DISABLE_TRACING": "1",
}


class Mind:
    """Calls the tool that it is offered, once; says what the task wants to hear."""

    def __init__(self, refusals: list[Refusal]) -> None:
        self.refusals = refusals
        self.asked = 0

    def __call__(self, body: Json) -> Step:
        self.asked += 1
        if self.refusals:
            return self.refusals.pop(0)
        offered = {each["function"]["name"] for each in body.get("tools", ())}
        has_result = any(message["role"] == "tool" for message in body["messages"])
        text = json.dumps(body["messages"])
        if "final_result" in offered:
            return Answer(calls=(Ask("final_result", CITY, "c1"),))
        for name, arguments in (("add", {"a": 2, "b": 3}), ("refund", {"order": 7})):
            if name in offered and not has_result:
                return Answer(calls=(Ask(name, arguments, "c1"),))
        if "transfer_to_editor" in offered and not has_result:
            wants = next(e for e in body["tools"] if e["function"]["name"] == "transfer_to_editor")["function"]
            draft = {"draft": "bees"} if wants["parameters"].get("properties") else {}
            return Answer(calls=(Ask("transfer_to_editor", draft, "c1"),))
        return Answer(_said(text, offered))


def _said(text: str, offered: set[str]) -> str:
    if "city" in text.lower():
        return json.dumps(CITY)
    if "add" in offered:
        return "It is 5."
    if "refund" in offered:
        return "Done."
    if "editor" in text and "You are the writer" in text and "You are the editor" not in text:
        return "@editor here is the draft"
    return "Printed." if "You are the editor" in text or "editor" in text else "Hello there."


async def run(library: str, python: str, task: str, *, times: int = 1, mode: str = "", **more: str) -> Json:
    refusals = [REFUSALS[mode]] if mode == "429" else [REFUSALS[mode]] * 50 if mode else []
    mind = Mind(refusals)
    ended, begun = [], time.monotonic()
    with tempfile.TemporaryDirectory() as place:
        async with ModelServer(mind=mind) as server:
            url = server.url("think", "/v1")
            env = os.environ | SILENCE | more | {"OPENAI_BASE_URL": url, "OPENAI_API_KEY": "sk-fake-key", "HOME": place}
            env["PYTHONPATH"] = str(HERE / "given")
            if library == "openai_agents":
                env["PYTHONPATH"] += f":{HERE / 'given' / 'chat'}"
            for _ in range(times):
                program = await asyncio.create_subprocess_exec(
                    python,
                    str(HERE / library / f"{task}.py"),
                    cwd=place,
                    env=env,
                    stdin=asyncio.subprocess.PIPE,
                    stdout=asyncio.subprocess.PIPE,
                    stderr=asyncio.subprocess.PIPE,
                )
                out, err = await asyncio.wait_for(program.communicate(b"\n\n\n"), 120)
                ended.append((program.returncode, out.decode()[-300:].strip(), err.decode().strip().splitlines()[-2:]))
        called = _calls(Path(place, "calls"))
    return {
        "task": task,
        "mode": mode or ("kill" if times > 1 else ""),
        "ended": ended,
        "called": called,
        "asked": mind.asked,
        "seconds": round(time.monotonic() - begun, 1),
    }


def _calls(log: Path) -> int:
    return log.read_text().count("called") if log.exists() else 0


async def main(library: str, python: str, *only: str) -> None:
    for what in only or (*TASKS, "kill", "429", "401"):
        if what in TASKS:
            told = await run(library, python, what)
        elif what == "kill":
            told = await run(library, python, "tool", times=2, DIES="1")
        else:
            told = await run(library, python, "tool", mode=what)
        print(json.dumps(told), flush=True)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
