"""What `cluster demo` shows: a PostgreSQL on loopback, two daemons, a question, a kill -9, and the answer all the same.

Everything is in a temporary directory that goes when it is over. PostgreSQL refuses to be run by root: for root it runs
as `nobody`. Only whoever knows the password of this one run gets in.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agent_worker.client.connection import COMMAND, Client, connect
from agent_worker.client.discovery import DATABASE_VARIABLE, is_running, signal_daemon
from agent_worker.core.errors import AgentWorkerError, Refused

DEBIAN = Path("/usr/lib/postgresql")  #: where Debian puts each version; elsewhere it is found like any program
PATIENCE = 60.0  #: seconds until something that should happen never will
USER = "demo"
QUESTION = "What happens when a machine dies?"
ANSWER = "Its work goes on elsewhere, after its last step."
ALICE = f"""backend: mock
script:
  - steps: 2
    slow: 1s
  - say: {ANSWER}
    slow: 2s
"""


@dataclass(frozen=True, slots=True)
class DemoStep:
    at: float  #: seconds since the beginning
    name: str
    text: str


def play() -> Iterator[DemoStep]:
    """Play the demonstration and yield what has happened. Raises Refused where there is no PostgreSQL."""
    began = time.monotonic()

    def told(name: str, text: str) -> DemoStep:
        return DemoStep(round(time.monotonic() - began, 1), name, text)

    with tempfile.TemporaryDirectory(prefix="agent-worker-cluster-") as folder, contextlib.ExitStack() as held:
        place = Path(folder)
        place.chmod(0o711)
        url = held.enter_context(_postgres(place))
        yield told("database", "a PostgreSQL of its own runs on loopback")
        project = _project(place)
        clients = [held.enter_context(_daemon(place / name, url)) for name in ("one", "two")]
        pids = [client.found.pid for client in clients]
        yield told("daemons", f"two daemons share it: process {pids[0]} and process {pids[1]}")
        clients[0].request("POST", "/send", {"to": "alice", "message": QUESTION, "project": str(project)})
        yield told("asked", f"alice is asked by process {pids[0]}: {QUESTION}")
        victim, survivor = _who_works(clients)
        _eventually(lambda: _runs(survivor, project)[0]["steps"])
        yield told("works", f"process {victim.found.pid} runs her, and is in the middle of it: one step is done")
        os.kill(victim.found.pid, signal.SIGKILL)
        _eventually(lambda: not is_running(victim.found))
        killed = time.monotonic()
        yield told("killed", f"kill -9 {victim.found.pid}: it has no chance to clean up")
        yield from (told("waits", text) for text in _lease_ends(victim, survivor))
        yield told("buried", f"its lease is over: process {survivor.found.pid} takes over what it had")
        answer = _eventually(lambda: _done(survivor, project))
        yield told("answered", f"alice says, {time.monotonic() - killed:.1f} s after the kill: {answer['text']}")
        runs = " and ".join(f"one that is {run['state']}" for run in reversed(_runs(survivor, project)))
        yield told("runs", f"she was asked once and has answered once, in two runs: {runs}")


def _project(place: Path) -> Path:
    root = place / "project"
    (root / ".agents").mkdir(parents=True)
    (root / ".agents" / "alice.yaml").write_text(ALICE)
    return root


# --- the daemons ----------------------------------------------------------------------------------------


@contextmanager
def _daemon(home: Path, url: str) -> Iterator[Client]:
    variables = {DATABASE_VARIABLE: url, "AGENT_WORKER_PORT": "0"}
    command = ("env", *(f"{name}={value}" for name, value in variables.items()), *COMMAND)
    client = connect(home=home, command=command, patience=PATIENCE)
    try:
        yield client
    finally:
        if is_running(client.found):
            signal_daemon(home, client.found, signal.SIGTERM)
            with contextlib.suppress(Refused):
                _eventually(lambda: not is_running(client.found))


def _hosts(client: Client) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = client.request("GET", "/hosts")[1]
    return found


def _lease_ends(victim: Client, survivor: Client) -> Iterator[str]:
    """What is waited for, every two seconds, until the others count a host as dead."""
    said = None
    until = time.monotonic() + PATIENCE
    while silent := next((host for host in _hosts(survivor) if host["pid"] == victim.found.pid), None):
        if time.monotonic() > until:
            raise AgentWorkerError("the demo made no progress for a minute", hint="agent-worker doctor")
        left = max(0, round(silent["lease"]))
        if said is None:
            yield f"process {survivor.found.pid} waits until its lease is over: it may be alive, and only cut off"
        if said is None or said - left >= 2:
            yield f"its lease has {left} s left"
            said = left
        time.sleep(0.05)


def _who_works(clients: list[Client]) -> tuple[Client, Client]:
    """The daemon whose agent is at work, and the other one."""
    pid = _eventually(lambda: next((host["pid"] for host in _hosts(clients[0]) if host["working"]), None))
    victim, survivor = sorted(clients, key=lambda client: client.found.pid != pid)
    return victim, survivor


def _done(client: Client, project: Path) -> dict[str, Any] | None:
    return next((run for run in _runs(client, project) if run["state"] == "done"), None)


def _runs(client: Client, project: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = client.request("GET", f"/runs?project={project}")[1]
    return found


def _eventually(holds: Callable[[], Any]) -> Any:
    """Wait until something holds that another process brings about, which sends us no event."""
    until = time.monotonic() + PATIENCE
    while not (found := holds()):
        if time.monotonic() > until:
            raise AgentWorkerError("the demo made no progress for a minute", hint="agent-worker doctor")
        time.sleep(0.05)
    return found


# --- PostgreSQL -----------------------------------------------------------------------------------------


def _programs() -> Path:
    found = sorted(DEBIAN.glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    if found:
        return found[-1].parent
    if plain := shutil.which("initdb"):
        return Path(plain).resolve().parent
    raise Refused("PostgreSQL is not installed here", hint="apt install postgresql, or brew install postgresql")


@contextmanager
def _postgres(place: Path) -> Iterator[str]:
    """A server with an empty database, for whoever knows this URL; stopped and gone in the end."""
    programs, folder, password = _programs(), place / "postgresql", secrets.token_urlsafe(24)
    folder.mkdir(mode=0o700)
    (folder / "password").write_text(password)
    if os.geteuid() == 0:
        for each in (folder, folder / "password"):
            shutil.chown(each, "nobody", "nogroup")
    data, port = folder / "data", _free_port()
    how = ("-U", USER, "-A", "scram-sha-256", f"--pwfile={folder / 'password'}", "-E", "UTF8", "--locale=C", "-N")
    _run(folder, str(programs / "initdb"), "-D", str(data), *how)
    control = (str(programs / "pg_ctl"), "-D", str(data), "-s", "-w", "-t", str(int(PATIENCE)))
    options = f"-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories="
    _run(folder, *control, "-l", str(folder / "log"), "-o", options, "start")
    try:
        yield f"postgresql://{USER}:{password}@127.0.0.1:{port}/postgres"
    finally:
        _run(folder, *control, "-m", "immediate", "stop")


def _run(folder: Path, *command: str) -> None:
    lower: dict[str, Any] = {"user": "nobody", "group": "nogroup", "extra_groups": []} if os.geteuid() == 0 else {}
    env = {"PATH": os.environ["PATH"], "LC_ALL": "C", "HOME": str(folder)}
    log = folder.parent / "postgresql.log"  # a server keeps what it was given: nobody would see the end of a pipe
    with log.open("a+") as output:
        done = subprocess.run(command, check=False, cwd=folder, env=env, stdout=output, stderr=output, **lower)
        if done.returncode:
            output.seek(0)
            raise Refused(f"PostgreSQL could not be used: {output.read().strip()[-500:]}", hint=f"{command[0]} --help")


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])
