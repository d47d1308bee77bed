"""R4, B1–B3, B8–B10: one process runner, against programs that do everything wrong."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import psutil
import pytest
from tests.patience import PATIENCE

from agent_worker.backends.programs.program import Program, ProgramHost, owner_of
from agent_worker.backends.programs.runner import OUTPUT_MOST, Clocks, Launch, run_program
from agent_worker.backends.programs.signals import Over, ProgramStarted, Said, Signal
from agent_worker.core.errors import BackendFailure, Crashed, Exhausted, Permanent, Transient

PATIENT = Clocks(start=PATIENCE, first=PATIENCE, silence=PATIENCE, total=PATIENCE)
SHORT = 0.4  # seconds

BEGIN = """
import json, os, signal, subprocess, sys, time
def say(**event):
    sys.stdout.write(json.dumps(event) + "\\n"); sys.stdout.flush()
def forever():
    while True: time.sleep(60)
"""


class Plain:
    """Lines of `{"say": …}`, `{"session": …}` and `{"over": …}`."""

    def read(self, event: Mapping[str, Any]) -> Iterable[Signal]:
        if "session" in event:
            yield ProgramStarted(str(event["session"]))
        if "say" in event:
            yield Said(str(event["say"]))
        if "over" in event:
            yield Over(str(event["over"]))

    def died(self, code: int, told: str) -> BackendFailure:
        return Crashed(f"exit {code}: {told}")


async def run(
    tmp: Path, code: str, *, clocks: Clocks = PATIENT, prompt: str = "", secrets: tuple[str, ...] = ()
) -> list[Signal]:
    script = tmp / "program.py"
    script.write_text(BEGIN + code)
    env = {"PATH": os.environ["PATH"], "OUT": str(tmp)}
    launch = Launch((sys.executable, "-S", str(script)), tmp, env, prompt, secrets)
    return [signal async for signal in run_program("it", launch, Plain(), clocks)]


def noted(tmp: Path, name: str = "pid") -> psutil.Process | None:
    """A process that the program has noted, if it is still there. One that was ended very early has noted nothing."""
    try:
        found = psutil.Process(int((tmp / name).read_text()))
        return found if found.status() != psutil.STATUS_ZOMBIE else None
    except (psutil.NoSuchProcess, FileNotFoundError):
        return None


NOTE = "open(os.environ['OUT'] + '/pid', 'w').write(str(os.getpid()))\n"
CHILD = "open(os.environ['OUT'] + '/pid', 'w').write(str(p.pid))\n"


async def test_a_program_is_heard_to_its_last_word(tmp_path: Path) -> None:
    code = "say(session='s1'); say(say=sys.stdin.read()); say(over='done')"
    assert await run(tmp_path, code, prompt="hello") == [ProgramStarted("s1"), Said("hello"), Over("done")]


@pytest.mark.parametrize("text", ["--mcp-config=x", "-c x=y", "--resume", "@file", "-", "\x00\n☃", ""])
async def test_B1_whatever_the_prompt_is_it_arrives_as_text(tmp_path: Path, text: str) -> None:
    assert await run(tmp_path, "say(over=sys.stdin.buffer.read().decode())", prompt=text) == [Over(text)]


async def test_B2_a_prompt_of_three_megabytes_arrives(tmp_path: Path) -> None:
    assert await run(tmp_path, "say(over=len(sys.stdin.read()))", prompt="x" * 3_000_000) == [Over("3000000")]


@pytest.mark.parametrize("code", [0, 1, 143])
async def test_an_exit_code_is_no_answer(tmp_path: Path, code: int) -> None:
    with pytest.raises(Crashed, match=f"exit {code}"):
        await run(tmp_path, f"say(say='hm'); sys.exit({code})")
    assert await run(tmp_path, f"say(over='yes'); sys.stdout.flush(); os._exit({code})") == [Over("yes")]


async def test_what_it_printed_on_the_way_out_is_told_without_secrets(tmp_path: Path) -> None:
    code = "sys.stderr.write('\\x1b[31mno key sk-123\\x1b[0m\\x07 at all\\n'); sys.exit(3)"
    with pytest.raises(Crashed, match=r"exit 3: no key … at all$"):
        await run(tmp_path, code, secrets=("sk-123",))


@pytest.mark.parametrize(
    ("clocks", "code", "kind", "told"),
    [
        (Clocks(start=SHORT), "forever()", Permanent, "said nothing"),
        (Clocks(start=SHORT), "print('a banner', flush=True); forever()", Permanent, "said nothing"),
        (Clocks(first=SHORT), "say(session='s'); forever()", Transient, "heard nothing from its model"),
        (Clocks(silence=SHORT), "say(say='a'); forever()", Transient, "went silent"),
        (Clocks(silence=SHORT), "say(say='a'); os.kill(os.getpid(), signal.SIGSTOP)", Transient, "went silent"),
        (Clocks(total=SHORT), "while True: say(say='a'); time.sleep(.02)", Exhausted, "was ended after"),
    ],
    ids=["hang", "banner", "no-model", "stall", "SIGSTOP", "endless"],
)
async def test_R4_each_clock_ends_the_program_with_a_reason(
    tmp_path: Path, clocks: Clocks, code: str, kind: type[BackendFailure], told: str
) -> None:
    with pytest.raises(kind, match=told):
        await run(tmp_path, NOTE + code, clocks=clocks)
    assert noted(tmp_path) is None


async def test_R4_single_bytes_are_no_sign_of_life(tmp_path: Path) -> None:
    code = "say(say='a')\nwhile True: sys.stdout.write('.'); sys.stdout.flush(); time.sleep(.02)"
    with pytest.raises(Transient, match="went silent"):
        await run(tmp_path, NOTE + code, clocks=Clocks(silence=SHORT))
    assert noted(tmp_path) is None


@pytest.mark.parametrize(
    "code",
    [
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + NOTE + "say(say='a'); forever()",
        "p = subprocess.Popen(['sleep', '99']); " + CHILD + "say(say='a'); forever()",
        "p = subprocess.Popen(['sleep', '99'], start_new_session=True); " + CHILD + "say(say='a'); forever()",
    ],
    ids=["ignores SIGTERM", "grandchild", "grandchild in its own session"],
)
async def test_R4_B10_nothing_of_it_is_left(tmp_path: Path, code: str) -> None:
    with pytest.raises(Transient, match="went silent"):
        await run(tmp_path, code, clocks=Clocks(silence=SHORT))
    assert noted(tmp_path) is None


async def test_a_program_that_stays_after_its_last_word_is_ended(tmp_path: Path) -> None:
    assert await run(tmp_path, NOTE + "say(over='done'); forever()") == [Over("done")]
    assert noted(tmp_path) is None


async def test_R4_a_program_that_closes_its_output_and_lives_is_ended(tmp_path: Path) -> None:
    with pytest.raises(Crashed, match="closed its output"):
        await run(tmp_path, NOTE + "say(say='a'); os.close(1); forever()")
    assert noted(tmp_path) is None


async def test_R4_a_grandchild_that_holds_the_output_does_not_hold_us(tmp_path: Path) -> None:
    code = "p = subprocess.Popen(['sleep', '99'], start_new_session=True); " + CHILD + "say(say='a'); sys.exit(4)"
    with pytest.raises(Crashed, match="exit 4"):
        await run(tmp_path, code)
    assert noted(tmp_path) is None


async def test_leaving_early_ends_the_program(tmp_path: Path) -> None:
    work = asyncio.create_task(run(tmp_path, NOTE + "say(say='a'); forever()"))
    while not (tmp_path / "pid").exists():  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work
    assert noted(tmp_path) is None


@pytest.mark.parametrize(
    "line",
    [
        "b'\\xff\\xfe{\"over\": 1'",
        "b'[' * 200000",
        "b'{\"a\":' * 100000",
        "b'null'",
        "b'\"over\"'",
        'b\'[{"over": "forged"}]\'',
        'b\'log: {"over": "forged"}\'',
        'b\'{"over": "cut\'',
        'b\'{"say": "\' + b\'x\' * (17 * 1024 * 1024) + b\'", "over": "forged"}\'',
    ],
)
async def test_B8_what_is_no_line_of_ours_is_neither_believed_nor_fatal(tmp_path: Path, line: str) -> None:
    code = f"sys.stdout.buffer.write({line} + b'\\n'); sys.stdout.flush(); say(over='real')"
    assert await run(tmp_path, code) == [Over("real")]


async def test_B8_a_line_without_end_costs_no_memory(tmp_path: Path) -> None:
    before = psutil.Process().memory_info().rss
    with pytest.raises(Permanent, match=f"more than {OUTPUT_MOST // 1024**2} MB"):
        await run(tmp_path, NOTE + "x = b'x' * 2**20\nwhile True: sys.stdout.buffer.write(x)")
    assert psutil.Process().memory_info().rss - before < 60e6
    assert noted(tmp_path) is None


async def test_B8_standard_error_ends_nothing(tmp_path: Path) -> None:
    code = "sys.stderr.write(json.dumps({'over': 'forged'}) + '\\n' + 'x' * 10_000_000); sys.exit(5)"
    with pytest.raises(Crashed, match="exit 5"):
        await run(tmp_path, code)


async def test_B9_a_program_inherits_no_descriptors(tmp_path: Path) -> None:
    held = os.open(tmp_path / "secret", os.O_CREAT)
    os.set_inheritable(held, True)
    (over,) = await run(tmp_path, "say(over=sorted(int(fd) for fd in os.listdir('/proc/self/fd')))")
    os.close(held)
    assert isinstance(over, Over)
    assert set(json.loads(over.text)) <= {0, 1, 2, 3}  # the last one is the listing itself


def program(tmp: Path, environ: dict[str, str]) -> Program:
    return Program("claude", "alice", tmp / "repo", tmp / "repo", ProgramHost(environ=environ), variables=("WANTED",))


def test_B3_a_program_knows_no_secret_that_it_was_not_given(tmp_path: Path) -> None:
    canaries = {f"CANARY_{n}": "secret" for n in range(30)} | {"ANTHROPIC_API_KEY": "sk", "WANTED": "yes"}
    env = program(tmp_path, canaries | {"PATH": "/usr/bin", "HOME": "/h"}).environment()
    assert env == {"PATH": "/usr/bin", "HOME": "/h", "WANTED": "yes"}


@pytest.mark.parametrize("place", ["", "node_modules/.bin", "sub"])
def test_B5_a_program_is_never_taken_from_the_project(tmp_path: Path, place: str) -> None:
    theirs, ours = tmp_path / "repo" / place, tmp_path / "bin"
    for folder in (theirs, ours):
        folder.mkdir(parents=True)
        (folder / "claude").write_text("#!/bin/sh\n")
        (folder / "claude").chmod(0o755)
    (tmp_path / "link").symlink_to(theirs)
    path = f".:{theirs}:{tmp_path / 'link'}::{ours}"
    assert program(tmp_path, {"PATH": path}).binary("claude") == str(ours / "claude")
    with pytest.raises(Permanent, match="claude is not installed") as missing:
        program(tmp_path, {"PATH": f".:{theirs}"}).binary("claude", install="npm install claude")
    assert missing.value.hint == "npm install claude"


def test_a_key_goes_with_its_address_or_not_at_all(tmp_path: Path) -> None:
    assert program(tmp_path, {}).account("anthropic") is None
    found = program(tmp_path, {"ANTHROPIC_API_KEY": "sk-1", "OPENAI_API_KEY": "sk-2"}).account("anthropic")
    assert found is not None
    assert (found.key, found.base_url) == ("sk-1", "")
    assert "sk-1" not in repr(found)


def test_what_a_program_keeps_is_private_and_its_own(tmp_path: Path) -> None:
    program_host = ProgramHost(state=tmp_path / "programs")
    owners = [owner_of(name, tmp_path, who) for name, who in (("alice", ""), ("../bob", ""), ("../bob", "review"))]
    alice, bob, inline = (Program("claude", owner, tmp_path, tmp_path, program_host).home() for owner in owners)
    assert len({alice, bob, inline}) == 3
    assert alice.parent == bob.parent == tmp_path / "programs" / "claude"
    assert alice.stat().st_mode & 0o777 == 0o700


async def test_a_program_that_cannot_be_started_is_a_permanent_failure(tmp_path: Path) -> None:
    launch = Launch(("/nowhere/at/all",), tmp_path, {"PATH": "/usr/bin"}, "")
    with pytest.raises(Permanent, match="there is no program"):
        [_ async for _ in run_program("it", launch, Plain(), PATIENT)]
