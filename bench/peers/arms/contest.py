"""What every arm is asked to do, and what it cost it. An arm is a program: `python with_x.py TASK`, which prints JSON.

The tasks: `import` nothing but what it needs, get the `first` answer, one agent `alone` for many steps, a `pair` that
answers each other, a `crowd` at once. The model is whoever listens at OPENAI_BASE_URL (model.py beside this folder):
it asks for the tool `add` as often as the text says, and says the sum that came of it.

Imports nothing at its top, because what this module imports would not be counted as the arm's.
"""

import sys

MODEL = "gpt-4o"
SYSTEM = "You add numbers."
STEPS, TURNS = 50, 20
AGENTS, STEPS_OF_EACH = 100, 10
LOOP_LIMIT = 60  #: for libraries that stop an agent after so many steps
PAIR = ("ping", "pong")
OPENING = f"turn 0 of {TURNS}"


def task(steps):
    return f"Add up, steps: {steps}."


async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


class Arm:
    """The work in the words of one library; each method returns the last words of every agent.

    An arm says how one agent works `alone(steps)`. The pair is up to it, or it has a `speaker(name)`, an async
    function of text to text: then the two are handed each other's words until one of them calls on nobody.
    """

    async def __aenter__(self):
        return self

    async def __aexit__(self, *_):
        pass

    async def pair(self, opening):
        speakers, text = [self.speaker(name) for name in PAIR], opening
        while "@" in text or text == opening:
            text = await speakers[0](text)
            speakers.reverse()
        return text

    async def crowd(self, agents, steps):
        import asyncio

        return await asyncio.gather(*(self.alone(steps) for _ in range(agents)))


def enter(make_arm):
    """Do what the command line says. `make_arm()` is an async context that gives an arm."""
    told = {}
    if sys.argv[1] != "import":
        import asyncio

        told = asyncio.run(_do(sys.argv[1], make_arm))
    import json

    print(json.dumps(told | {"memory": _most_memory()}), flush=True)


async def _do(what, make_arm):
    async with make_arm() as arm:
        if what == "first":
            _check([await arm.alone(0)], "sum is 0")
            return {}
        _check([await arm.alone(1)], "sum is 1")  # what is only made once is not counted in the steps
        return await _measured(*_tasks(arm)[what])


def _tasks(arm):
    return {
        "alone": (lambda: arm.alone(STEPS), 1, f"sum is {STEPS}"),
        "pair": (lambda: arm.pair(OPENING), 1, f"turn {TURNS} of {TURNS}"),
        "crowd": (lambda: arm.crowd(AGENTS, STEPS_OF_EACH), AGENTS, f"sum is {STEPS_OF_EACH}"),
    }


async def _measured(work, answers, expected):
    import time

    wall, cpu = time.perf_counter(), time.process_time()
    said = await work()
    spent = {"cpu": time.process_time() - cpu, "wall": time.perf_counter() - wall}
    said = [said] if isinstance(said, str) else said
    if len(said) != answers:
        raise SystemExit(f"{len(said)} answers instead of {answers}")
    _check(said, expected)
    return spent


def _check(said, expected):
    for text in said:
        if expected not in text:
            raise SystemExit(f"the answer should have been {expected!r}: {text!r}")


def _most_memory():
    """Bytes at the worst moment. Not ru_maxrss, which remembers the process we were forked from."""
    with open("/proc/self/status") as status:
        line = next(line for line in status if line.startswith("VmHWM"))
    return int(line.split()[1]) * 1024
