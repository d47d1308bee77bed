"""Which modules one message and one vote enter on their way (decision 23): `uv run python scripts/walk.py`.

Counted are distinct modules of the package in which a function is entered, in the command, in the daemon and in its
threads, with packages and what beats in the background, in the order in which they are first entered. The message is
sent by a command to a channel that an open page shows, and nobody is mentioned; it ends when the page shows the row.
The vote is an agent's, on a question of the person, from when it is taken from the queue to the outcome. Both are done
once before they are counted: what is imported for the first is no walk.
"""

from __future__ import annotations

import os
import runpy
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import FrameType

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

if "watch" not in sys.argv:  # what is watched is to import its own only
    from tests import stored
    from tests.patience import PATIENCE, eventually
    from tests.shells.served import WORKFLOW, Served, kill_daemon
    from tests.teams import write_project
    from tests.web.browser import chromium, script, start, visit

    from agent_worker.client.connection import connect

OURS = "agent_worker"
TEA = ["yes", "no"]
TAKEN = ("agent_worker.agents.run_begin", "begin")  #: takes work from the queue: what was before is another's walk


def watch(out: Path, module: str, arguments: list[str]) -> None:
    """Be this program, and write down which of our modules are entered, between SIGUSR1 and SIGUSR2 if they come."""
    entered: dict[str, None] = {}
    taken: list[str] = []  # since we began to watch

    def seen(frame: FrameType, event: str, _: object) -> None:
        name = str(frame.f_globals.get("__name__"))
        if event != "call" or name.partition(".")[0] != OURS:
            return
        if (name, frame.f_code.co_name) == TAKEN and not taken:
            taken.append(name)
            entered.clear()
        if name not in entered and not is_import(frame):
            entered[name] = None

    def write(*_: object) -> None:
        out.write_text("\n".join(entered))

    def begin(*_: object) -> None:
        entered.clear()
        taken.clear()

    signal.signal(signal.SIGUSR1, begin)
    signal.signal(signal.SIGUSR2, write)
    sys.argv = [module, *arguments]
    threading.setprofile(seen)
    sys.setprofile(seen)
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    finally:
        sys.setprofile(None)
        if not out.exists():
            write()


def is_import(frame: FrameType | None) -> bool:
    """Whether this happens while a module is imported: that is the machine's way, not the message's."""
    while frame is not None:
        if frame.f_code.co_name == "<module>" and frame.f_globals.get("__name__") != "__main__":
            return True
        frame = frame.f_back
    return False


def watched(out: Path, module: str) -> tuple[str, ...]:
    return (sys.executable, "-P", str(Path(__file__).resolve()), "watch", str(out), module)


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="walk-") as made:
        tmp = Path(made)
        with watched_daemon(tmp) as daemon, chromium() as browser:
            start(daemon)
            with visit(browser, daemon) as guest:
                page = guest.open(guest.workspace())
                for text in ("good morning", "good evening"):
                    with counted(daemon, tmp) as entered:
                        send(daemon, tmp, text)
                        page.get_by_text(text).wait_for()
            told("a message", entered)
            for number in (1, 2):
                with counted(daemon, tmp) as entered:
                    daemon.do("POST", "/proposals", at="@review", question="Tea?", options=TEA, voters=["bob"])
                    assert eventually(partial(ended, daemon, number))
                assert eventually(partial(at_rest, daemon, number))
            told("a vote", entered)


@contextmanager
def watched_daemon(tmp: Path) -> Iterator[Served]:
    votes = [{"call": {"tool": "team_vote", "with": {"proposal": number, "choice": "yes"}}} for number in (1, 2)]
    voted = {"say": "voted", "slow": "2s"}  # until we have looked: the walk ends with the outcome
    bob = script(votes[0], voted, votes[1], voted)
    write_project(tmp / "project", ["alice", "bob"], workflow=WORKFLOW, extra={"bob": bob})
    command = ("env", "AGENT_WORKER_PORT=0", *watched(tmp / "daemon", "agent_worker.daemon.main"))
    client = connect(home=tmp / "home", command=command, patience=PATIENCE)
    try:
        yield Served(client, tmp / "home", tmp / "project")
    finally:
        kill_daemon(tmp / "home", client.found)


def send(daemon: Served, tmp: Path, text: str) -> None:
    environ = {"PATH": os.environ["PATH"], "AGENT_WORKER_HOME": str(daemon.home)}
    words = (*watched(tmp / "command", "agent_worker.cli"), "send", "@review", text)
    subprocess.run(words, cwd=daemon.project, env=environ, check=True, stdout=subprocess.DEVNULL)


def ended(daemon: Served, votes: int) -> bool:
    """Whether so many votes are over, seen from outside."""
    return len([each for each in daemon.read(stored.proposals) if each["state"] != "open"]) == votes


def at_rest(daemon: Served, runs: int) -> bool:
    return len([each for each in daemon.read(stored.runs) if each["state"] == "done"]) == runs


@contextmanager
def counted(daemon: Served, tmp: Path) -> Iterator[list[str]]:
    """The modules that are entered meanwhile, once it is over; the command's first."""
    entered: list[str] = []
    daemon.process.send_signal(signal.SIGUSR1)
    yield entered
    daemon.process.send_signal(signal.SIGUSR2)
    assert eventually((tmp / "daemon").exists)
    for out in (tmp / "command", tmp / "daemon"):
        if out.exists():
            entered += [name for name in out.read_text().split() if name not in entered]
            out.unlink()


def told(what: str, entered: list[str]) -> None:
    print(f"{what}: {len(entered)}", *entered, sep="\n  ")


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["watch", out, module, *arguments]:
            watch(Path(out), module, arguments)
        case _:
            main()
