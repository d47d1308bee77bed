"""What one command can take of the machine, and that the sandbox holds for a user without any rights.

Run by root, each test runs its command once as root (control groups) and once as a user who owns nothing else.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from agent_worker.core.control_files import CONTROL_NAMES
from agent_worker.processes.cgroups import PROCESSES, usable_places
from agent_worker.processes.child import Completed, run_command
from agent_worker.processes.environment import safe_environment
from agent_worker.tools.sandbox import Ceilings, Sandbox, find_sandbox, limits_that_hold
from tests.needs import needs_sandbox, skip_without
from tests.patience import PATIENCE

FOUND = find_sandbox()
pytestmark = needs_sandbox()
MIB = 1024**2
STRANGER = 64_321  # no such user, and so without any rights
SMALL = Ceilings(memory=192 * MIB, processes=40, temporary=8 * MIB, shared=4 * MIB, file=16 * MIB)

Run = Callable[[str], Awaitable[Completed]]


@pytest.fixture(params=["as we are", "without rights"])
def stranger(request: pytest.FixtureRequest) -> bool:
    if request.param == "as we are":
        return False
    if os.geteuid() != 0:
        pytest.skip("we are without rights already")
    if shutil.which("setpriv") is None:
        skip_without("setpriv")
    return True


@pytest.fixture
def project(stranger: bool) -> Iterator[Path]:
    home = Path(tempfile.mkdtemp(prefix="sandbox-"))  # pytest's own folders are closed to others
    project = home / "project"
    project.mkdir()
    if stranger:
        home.chmod(0o755)
        for path in (home, project):
            os.chown(path, STRANGER, STRANGER)
    yield project
    shutil.rmtree(home)


@pytest.fixture
def sandbox(project: Path, stranger: bool) -> Sandbox:
    assert isinstance(FOUND, Sandbox)
    return Sandbox(FOUND.program, project.parent, SMALL, () if stranger else usable_places())


@pytest.fixture
def run(sandbox: Sandbox, project: Path, stranger: bool) -> Run:
    who = ["setpriv", f"--reuid={STRANGER}", f"--regid={STRANGER}", "--clear-groups", "--"] if stranger else []

    async def run(text: str) -> Completed:
        with sandbox.around(["/bin/bash", "-c", text], cwd=project) as argv:
            env = safe_environment() | {"HOME": str(project.parent)}
            return await run_command([*who, *argv], cwd=project, env=env, timeout=PATIENCE)

    return run


def holds_processes(sandbox: Sandbox, stranger: bool) -> bool:
    return stranger or os.geteuid() != 0 or any(place.controller == PROCESSES for place in sandbox.groups)


FORKING = """
import subprocess
for _ in range(300):
    subprocess.Popen(["sleep", "1000"])
print("all 300")
"""


async def test_B14_forks_have_an_end_and_end_with_their_command(run: Run, sandbox: Sandbox, stranger: bool) -> None:
    if not holds_processes(sandbox, stranger):
        pytest.skip("for root only control groups limit processes, and there are none")
    done = await run(f"python3 -c '{FORKING}'")  # not by the shell, which tries each fork again for 15 seconds
    assert "Resource temporarily unavailable" in done.output
    assert "all 300" not in done.output
    assert (await run("echo after")).output == "after\n"  # nothing of it counts against the next one


@pytest.mark.parametrize("place", ["/tmp", "/var/tmp", "/dev/shm", "~"])
async def test_B14_temporary_space_has_an_end(run: Run, place: str) -> None:
    done = await run(f"head -c 12M /dev/zero > {place}/big; stat -c %s {place}/big")
    assert "No space left on device" in done.output
    assert int(done.output.split()[-1]) <= 8 * MIB


async def test_B14_there_is_no_other_place_in_memory_to_fill(run: Run) -> None:
    places = await run(
        "for d in / /dev /run /var /proc /sys /mnt /srv /opt; do touch $d/x 2>/dev/null && echo $d; done; true"
    )
    assert places.output == ""


async def test_B14_a_file_has_a_largest_size_and_no_core_is_written(run: Run, project: Path) -> None:
    await run("head -c 64M /dev/zero > big; ulimit -c > core-limit; true")
    assert (project / "big").stat().st_size == 16 * MIB
    assert (project / "core-limit").read_text().split()[0] == "0"


TOGETHER = """
import os
parent = os.getpid()
x = bytearray(120 * 1024 * 1024)
print("alone", flush=True)
if os.fork() == 0:
    y = bytearray(120 * 1024 * 1024)
    if os.getppid() == parent:
        print("tog" + "ether", flush=True)
else:
    os.wait()
"""
HUNGRY = "python3 -c 'x = bytearray(400 * 1024 * 1024); print(len(x))'"


async def test_B14_memory_has_an_end(run: Run) -> None:
    done = await run(f"{HUNGRY}; echo went on")
    assert str(400 * MIB) not in done.output


async def test_B14_where_there_are_groups_all_processes_together_have_an_end(
    run: Run, sandbox: Sandbox, stranger: bool
) -> None:
    if not any(place.controller == "memory" for place in sandbox.groups):
        pytest.skip("there are no control groups for memory here")
    done = await run(f"python3 -c '{TOGETHER}'")
    assert "alone" in done.output
    assert "together" not in done.output


async def test_B14_who_takes_too_much_memory_is_ended_before_others(run: Run) -> None:
    assert (await run("cat /proc/self/oom_score_adj")).output == "1000\n"


async def test_B14_what_it_joined_is_gone_afterwards(run: Run, sandbox: Sandbox) -> None:
    await run("true")
    await run("true")
    left = [path for place in sandbox.groups for path in place.parent.glob(f"agent-worker-{os.getpid()}-*")]
    assert len(left) <= 2  # at most the last one, whose dead were not counted out yet


async def test_B11_C15_it_all_holds_without_rights(run: Run, project: Path) -> None:
    names = " ".join(CONTROL_NAMES)
    done = await run(
        f"for n in {names}; do echo evil > $n; rm -rf $n; mkdir -p $n/x; mv $n y; done 2>/dev/null;"
        "touch /etc/x /usr/x 2>/dev/null && echo written; cat /etc/shadow 2>/dev/null; ls ~;"
        "grep -E 'CapEff|CapBnd|NoNewPrivs' /proc/self/status; cd /proc; echo [0-9]* | wc -w;"
        "id -u; echo x > /tmp/x; echo ok"
    )
    words = done.output.split()
    assert words[0] == "project"
    assert words[1:7] == ["CapEff:", "0" * 16, "CapBnd:", "0" * 16, "NoNewPrivs:", "1"]
    assert int(words[7]) < 8
    assert words[-1] == "ok"
    assert os.listdir(project) == []


def test_doctor_knows_which_limits_hold(sandbox: Sandbox) -> None:
    assert isinstance(FOUND, Sandbox)
    told = {limit.name: limit for limit in limits_that_hold(FOUND)}
    assert set(told) == {"memory", "processes", "temporary files"}
    assert all(limit.held for limit in told.values() if limit.name != "processes")
