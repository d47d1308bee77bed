"""Children start clean, and nothing of them is left: whatever they do, and whatever happens to us."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from agent_worker.core.errors import BadInput, NotFound
from agent_worker.processes.child import Completed, run_command, start
from agent_worker.processes.descendants import kill_orphans
from agent_worker.processes.environment import safe_environment
from agent_worker.processes.streams import Ends, lines
from tests.faults.report import LONG
from tests.patience import PATIENCE, growing_limits, until

ENV = safe_environment()
MIB = 1024 * 1024


async def shell(text: str, cwd: Path, *, timeout: float = PATIENCE, stdin: bytes | None = None) -> Completed:  # noqa: ASYNC109
    return await run_command(text, cwd=cwd, env=ENV, timeout=timeout, stdin=stdin)


def is_running(pid: int) -> bool:
    with suppress(psutil.NoSuchProcess):
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    return False


def pids_in(file: Path) -> list[int]:
    return [int(word) for word in file.read_text().split()] if file.exists() else []


async def test_output_of_both_streams_and_the_exit_code_come_back(tmp_path: Path) -> None:
    assert await shell("echo out; echo err >&2; exit 3", tmp_path) == Completed(3, "out\nerr\n", 0, False)


async def test_the_exit_code_of_a_signal_is_counted_as_a_shell_does(tmp_path: Path) -> None:
    assert (await shell("kill -KILL $$", tmp_path)).exit_code == 137


async def test_B2_a_large_stdin_reaches_the_child_and_one_it_does_not_read_blocks_nobody(tmp_path: Path) -> None:
    text = b"x" * (3 * MIB)
    assert (await shell("wc -c", tmp_path, stdin=text)).output.split() == [str(len(text))]
    assert (await shell("true", tmp_path, stdin=text)).exit_code == 0


async def test_Y17_a_child_that_reads_stdin_finds_it_empty(tmp_path: Path) -> None:
    assert await shell("cat", tmp_path) == Completed(0, "", 0, False)


async def test_a_child_is_talked_to_while_it_runs_and_its_silence_blocks_nobody(tmp_path: Path) -> None:
    async with start(["cat"], cwd=tmp_path, env=ENV, stdin=subprocess.PIPE) as child:
        for word in (b"one\n", b"two\n"):
            child.stdin.write(word)
            assert await child.stdout.readline() == word
        child.stdin.close()
        assert await child.wait() == 0
    async with start(["sleep", "1000"], cwd=tmp_path, env=ENV, stdin=subprocess.PIPE) as child:
        child.stdin.write(b"x" * MIB)  # nobody reads it


async def test_B3_no_secret_of_ours_is_in_the_childs_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(30):
        monkeypatch.setenv(f"CANARY_{number}_API_KEY", "canary")
    monkeypatch.setenv("DECLARED", "yes")
    done = await run_command(["env"], cwd=tmp_path, env=safe_environment(["DECLARED"]), timeout=PATIENCE)
    assert "canary" not in done.output
    assert "DECLARED=yes" in done.output
    names = {line.partition("=")[0] for line in done.output.splitlines()}
    assert names <= {
        *("HOME", "LANG", "LANGUAGE", "LOGNAME", "SHELL", "SSL_CERT_DIR", "SSL_CERT_FILE", "TERM", "TMPDIR"),
        *("TZ", "USER", "PATH", "PWD", "DECLARED", *(name for name in names if name.startswith("LC_"))),
    }


def test_B5_the_working_directory_is_not_in_the_path() -> None:
    source = {"PATH": f"/usr/bin:.::node_modules/.bin{os.pathsep}/bin"}
    assert safe_environment(source=source)["PATH"] == "/usr/bin:/bin"


async def test_B9_no_descriptor_of_ours_is_inherited(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening, (tmp_path / "lock").open("w") as lock:
        os.set_inheritable(listening.fileno(), True)
        os.set_inheritable(lock.fileno(), True)
        done = await run_command(["/bin/ls", "-l", "/proc/self/fd"], cwd=tmp_path, env=ENV, timeout=PATIENCE)
    numbers = [line.split()[8] for line in done.output.splitlines() if "->" in line]
    assert numbers == ["0", "1", "2", "3"]  # the last is the directory that ls reads
    assert "socket" not in done.output
    assert "lock" not in done.output


async def test_the_child_does_not_inherit_that_python_ignores_broken_pipes(tmp_path: Path) -> None:
    done = await run_command(["grep", "SigIgn", "/proc/self/status"], cwd=tmp_path, env=ENV, timeout=PATIENCE)
    assert int(done.output.split()[1], 16) & (1 << (signal.SIGPIPE - 1)) == 0


async def test_I3_a_gigabyte_of_output_costs_us_its_two_ends(tmp_path: Path) -> None:
    """A fifth of it in a short run: four times what we may hold of it is as good a proof."""
    much = 1_000_000_000 if LONG else 200_000_000
    us = psutil.Process()
    before = us.memory_info().rss
    running = asyncio.create_task(shell(f"echo first; yes | head -c {much}; echo last", tmp_path))
    peak = before
    while not running.done():
        peak = max(peak, us.memory_info().rss)
        await asyncio.sleep(0.01)
    done = await running
    assert done.output.startswith("first\ny\ny\n")
    assert done.output.endswith("y\ny\nlast\n")
    assert done.cut == much + len("first\nlast\n") - MIB
    assert f"[… {done.cut:,} bytes left out …]" in done.output
    assert peak - before < 50 * MIB


def test_output_just_within_the_cap_is_whole() -> None:
    ends = Ends(10)
    for piece in (b"0123", b"45", b"6789"):
        ends.add(piece)
    assert (ends.text(), ends.cut) == ("0123456789", 0)
    ends.add(b"A")
    assert (ends.text(), ends.cut) == ("01234\n[… 1 byte left out …]\n6789A", 1)


async def test_B8_one_endless_line_is_cut_and_the_next_is_whole(tmp_path: Path) -> None:
    script = "echo first; head -c 50000000 /dev/zero | tr '\\0' x; echo; printf 'last, without end'"
    async with start(["/bin/sh", "-c", script], cwd=tmp_path, env=ENV) as child:
        got = [line async for line in lines(child.stdout, cap=1000)]
    assert got[0] == b"first"
    assert got[1] == b"x" * 1000 + "[… 49,999,000 bytes left out …]".encode()
    assert got[2:] == [b"last, without end"]


async def test_the_two_streams_can_be_read_apart(tmp_path: Path) -> None:
    script = ["/bin/sh", "-c", "echo out; echo err >&2"]
    async with start(script, cwd=tmp_path, env=ENV, stderr=subprocess.PIPE) as child:
        assert (await child.stdout.read(), await child.stderr.read()) == (b"out\n", b"err\n")
        assert await child.wait() == 0


async def test_Y17_what_sleeps_for_ever_is_stopped_at_its_limit_and_its_output_kept(tmp_path: Path) -> None:
    for limit in growing_limits(0.2):
        done = await shell("echo begun; sleep 1000", tmp_path, timeout=limit)
        assert done.timed_out
        if done.output:
            break
    assert done.output == "begun\n"


async def test_E11_R4_a_stopped_child_is_ended(tmp_path: Path) -> None:
    async with start(["/bin/sh", "-c", "kill -STOP $$; sleep 1000"], cwd=tmp_path, env=ENV) as child:
        await until(lambda: psutil.Process(child.pid).status() == psutil.STATUS_STOPPED)
        assert await child.kill_tree(grace=PATIENCE)
        assert await child.wait() == 128 + signal.SIGTERM
    assert not is_running(child.pid)


async def test_R4_a_child_that_ignores_the_request_to_end_is_killed(tmp_path: Path) -> None:
    script = "trap '' TERM; echo ready; while :; do sleep 0.1; done"
    async with start(["/bin/sh", "-c", script], cwd=tmp_path, env=ENV) as child:
        assert await child.stdout.readline() == b"ready\n"
        assert await child.kill_tree(grace=0.1)
        assert await child.wait() == 128 + signal.SIGKILL


async def test_a_child_that_tidies_up_when_asked_is_given_the_time(tmp_path: Path) -> None:
    script = "trap 'echo tidy; exit 0' TERM; echo ready; while :; do sleep 0.01; done"
    async with start(["/bin/bash", "-c", script], cwd=tmp_path, env=ENV) as child:
        assert await child.stdout.readline() == b"ready\n"
        assert await child.kill_tree(grace=PATIENCE)
        assert (await child.stdout.read()).endswith(b"tidy\n")
        assert await child.wait() == 0


async def test_R4_a_child_that_closes_its_output_but_lives_is_ended(tmp_path: Path) -> None:
    async with start(["/bin/sh", "-c", "exec >&- 2>&-; sleep 1000"], cwd=tmp_path, env=ENV) as child:
        assert await child.stdout.read() == b""
        assert is_running(child.pid)
    assert not is_running(child.pid)


async def test_R4_B10_a_grandchild_in_its_own_session_is_ended_too(tmp_path: Path) -> None:
    script = "setsid sh -c 'echo $$ > pid; exec sleep 1000' & sleep 1000"
    async with start(["/bin/sh", "-c", script], cwd=tmp_path, env=ENV) as child:
        await until(lambda: bool(pids_in(tmp_path / "pid")))
        assert await child.kill_tree()
    (pid,) = pids_in(tmp_path / "pid")
    assert not is_running(pid)


async def test_Y17_B10_a_daemon_left_behind_by_a_finished_command_is_ended(tmp_path: Path) -> None:
    script = "(setsid sh -c 'echo $$ > pid; exec sleep 1000' >/dev/null 2>&1 &); until test -s pid; do :; done"
    assert (await shell(script, tmp_path)).exit_code == 0
    (pid,) = pids_in(tmp_path / "pid")
    assert not is_running(pid)


async def test_B10_a_left_behind_process_without_mark_is_found_in_its_session(tmp_path: Path) -> None:
    script = "(env -i sh -c 'echo $$ > pid; exec sleep 1000' >/dev/null 2>&1 &); until test -s pid; do :; done"
    assert (await shell(script, tmp_path)).exit_code == 0
    (pid,) = pids_in(tmp_path / "pid")
    assert not is_running(pid)


ESCAPES = {
    "a cleared environment and a new session": "(env -i setsid sh -c 'echo $$ > pid; exec sleep 1000' &)",
    "setsid that forks": "env -i setsid -f sh -c 'echo $$ > pid; exec sleep 1000'",
    "nohup": "(env -i nohup setsid sh -c 'echo $$ > pid; exec sleep 1000' >/dev/null 2>&1 &)",
    "two forks, as daemons do": 'env -i python3 -c "import os, time\nif os.fork(): os._exit(0)\nos.setsid()\n'
    "if os.fork(): os._exit(0)\nos.chdir('/')\n"
    "open('{folder}/pid', 'w').write(str(os.getpid()))\ntime.sleep(1000)\"",
    "another name": "env -i setsid -f bash -c 'echo $$ > pid; exec -a kworker/0:1 sleep 1000'",
    "a chain of sessions": "env -i setsid -f setsid -f setsid -f sh -c 'echo $$ > pid; exec sleep 1000'",
}


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the mark is in the environment")
@pytest.mark.parametrize("escape", ESCAPES.values(), ids=ESCAPES.keys())
async def test_B10_B15_nothing_outlives_its_command_however_it_left(tmp_path: Path, escape: str) -> None:
    script = f"echo out; {escape.replace('{folder}', str(tmp_path))}; until test -s pid; do sleep 0.01; done"
    assert await shell(script, tmp_path) == Completed(0, "out\n", 0, False)
    (pid,) = pids_in(tmp_path / "pid")
    assert not is_running(pid)


async def test_B10_a_grandchild_without_session_and_mark_is_found_while_its_parent_lives(tmp_path: Path) -> None:
    script = "env -i setsid sh -c 'echo $$ > pid; exec sleep 1000' & echo ready; wait"
    async with start(["/bin/sh", "-c", script], cwd=tmp_path, env=ENV) as child:
        await until(lambda: bool(pids_in(tmp_path / "pid")))
        assert await child.kill_tree()
    (pid,) = pids_in(tmp_path / "pid")
    assert not is_running(pid)


async def test_I3_B10_a_burst_of_forks_is_gone_at_once(tmp_path: Path) -> None:
    script = "trap '' TERM; i=0; while [ $i -lt 300 ]; do sleep 1000 & i=$((i+1)); done; echo ready; wait"
    async with start(["/bin/sh", "-c", script], cwd=tmp_path, env=ENV) as child:
        assert await child.stdout.readline() == b"ready\n"
        forks = psutil.Process(child.pid).children()
        assert len(forks) == 300
        assert await child.kill_tree(grace=0.1)
    assert not [fork for fork in forks if is_running(fork.pid)]


async def test_a_cancelled_command_leaves_nothing(tmp_path: Path) -> None:
    task = asyncio.create_task(shell("echo $$ > pid; sleep 1000", tmp_path, timeout=1000))
    await until(lambda: bool(pids_in(tmp_path / "pid")))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    (pid,) = pids_in(tmp_path / "pid")
    assert not is_running(pid)


async def test_cancelling_even_the_polite_end_still_kills(tmp_path: Path) -> None:
    script = "trap '' TERM; echo $$ > pid; while :; do sleep 0.05; done"
    task = asyncio.create_task(shell(script, tmp_path, timeout=1000))
    await until(lambda: bool(pids_in(tmp_path / "pid")))
    (pid,) = pids_in(tmp_path / "pid")
    task.cancel()
    await asyncio.sleep(0)  # now it waits out the grace
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not is_running(pid)


async def test_B10_cancelling_the_polite_end_kills_also_what_went_into_a_session_of_its_own(tmp_path: Path) -> None:
    script = "trap '' TERM; (env -i setsid sh -c 'echo $$ > away; exec sleep 1000' &); echo $$ > pid; sleep 1000"
    task = asyncio.create_task(shell(script, tmp_path, timeout=1000))
    await until(lambda: bool(pids_in(tmp_path / "pid") and pids_in(tmp_path / "away")))
    (away,) = pids_in(tmp_path / "away")
    task.cancel()
    await asyncio.sleep(0)  # now it waits out the grace
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not is_running(away)


async def test_R4_a_child_nobody_listened_to_leaves_no_descriptor(tmp_path: Path) -> None:
    before = psutil.Process().num_fds()
    async with start(["yes"], cwd=tmp_path, env=ENV) as child:
        assert await child.stdout.read(1)
    await until(lambda: psutil.Process().num_fds() == before)  # a transport closes its pipe in the loop's next round


async def test_R4_descriptors_and_processes_are_back_where_they_were(tmp_path: Path) -> None:
    await shell("true", tmp_path)
    us = psutil.Process()
    before, others = us.num_fds(), set(us.children())  # other tests of this process have children, too
    await asyncio.gather(*(shell("sleep 1000 & echo x", tmp_path) for _ in range(10)))
    await asyncio.gather(*(shell("sleep 1000", tmp_path, timeout=0.05) for _ in range(5)))
    await until(lambda: us.num_fds() == before)  # a transport closes its pipe in the loop's next round
    assert set(us.children()) <= others


PARENT = """
import asyncio, os, sys
from pathlib import Path
os.defpath = sys.argv[2]
from agent_worker.processes.child import start
from agent_worker.processes.environment import safe_environment

async def main():
    escape = "env -i setsid -f sh -c 'echo $$ > grandchild; exec sleep 1000'"
    script = f"echo $$ > child; {escape}; exec sleep 1000"
    async with start(["/bin/sh", "-c", script], cwd=Path(sys.argv[1]), env=safe_environment()):
        await asyncio.Event().wait()

asyncio.run(main())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a child with its parent")
@pytest.mark.parametrize("system", [os.defpath, "/nowhere"], ids=["setpriv", "without setpriv"])
async def test_R5_B16_a_parent_killed_outright_leaves_no_child_and_no_grandchild(tmp_path: Path, system: str) -> None:
    with subprocess.Popen([sys.executable, "-c", PARENT, str(tmp_path), system]) as parent:  # noqa: ASYNC220
        await until(lambda: bool(pids_in(tmp_path / "child") and pids_in(tmp_path / "grandchild")))
        (child,), (grandchild,) = pids_in(tmp_path / "child"), pids_in(tmp_path / "grandchild")
        kill_orphans()
        assert is_running(grandchild)  # whose parent lives is no orphan
        parent.kill()
    await until(lambda: not is_running(child))
    await until(lambda: not is_running(grandchild))


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a child with its parent")
async def test_R5_B16_what_is_left_when_the_sweeper_died_too_ends_with_the_next_start(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", PARENT, str(tmp_path), os.defpath]) as parent:  # noqa: ASYNC220
        await until(lambda: bool(pids_in(tmp_path / "grandchild")))
        (grandchild,) = pids_in(tmp_path / "grandchild")
        (sweeper,) = [
            each for each in psutil.Process(parent.pid).children() if "agent-worker-sweeper" in each.cmdline()
        ]
        sweeper.kill()
        parent.kill()
    assert is_running(grandchild)
    assert kill_orphans() >= 1
    await until(lambda: not is_running(grandchild))


ADOPTING = """
import asyncio, os, sys
from pathlib import Path
from agent_worker.processes.descendants import adopt_orphans
from agent_worker.processes.child import run_command
from agent_worker.processes.environment import safe_environment

async def main():
    adopt_orphans()
    here = Path(sys.argv[1])
    escape = "env -i prlimit --rttime=unlimited setsid -f sh -c 'echo $$ > pid; exec sleep 1000'"
    script = f"{escape}; (true &); until test -s pid; do sleep 0.01; done"
    await run_command(script, cwd=here, env=safe_environment(), timeout=100)
    (here / "ended").touch()
    sys.stdin.read()

asyncio.run(main())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has adopters")
async def test_B15_a_daemon_ends_also_what_took_off_its_mark_and_keeps_no_dead(tmp_path: Path) -> None:
    command = [sys.executable, "-c", ADOPTING, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as parent:  # noqa: ASYNC220
        await until(lambda: (tmp_path / "ended").exists())
        (pid,) = pids_in(tmp_path / "pid")
        assert not is_running(pid)
        left = [child.cmdline() for child in psutil.Process(parent.pid).children()]
        assert [line[3] for line in left] == ["agent-worker-sweeper"]


async def test_the_orphan_sweep_spares_the_children_of_the_living(tmp_path: Path) -> None:
    async with start(["sleep", "1000"], cwd=tmp_path, env=ENV) as child:
        kill_orphans()
        assert is_running(child.pid)


async def test_what_cannot_be_started_is_said_in_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="no program 'no-such-program'"):
        await run_command(["no-such-program"], cwd=tmp_path, env=ENV, timeout=PATIENCE)
    with pytest.raises(NotFound, match="no directory"):
        await run_command(["true"], cwd=tmp_path / "missing", env=ENV, timeout=PATIENCE)
    with pytest.raises(BadInput, match="null byte"):
        await run_command("echo \0", cwd=tmp_path, env=ENV, timeout=PATIENCE)
    with pytest.raises(BadInput, match="too long"):
        await run_command("x" * (4 * MIB), cwd=tmp_path, env=ENV, timeout=PATIENCE)


async def test_a_program_beside_the_work_is_run_by_its_path_only(tmp_path: Path) -> None:
    program = tmp_path / "mine"
    program.write_text("#!/bin/sh\necho here\n")
    program.chmod(0o755)
    assert (await run_command(["./mine"], cwd=tmp_path, env=ENV, timeout=PATIENCE)).output == "here\n"
    with pytest.raises(NotFound):
        await run_command(["mine"], cwd=tmp_path, env=ENV, timeout=PATIENCE)
