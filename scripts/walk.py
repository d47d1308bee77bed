"""Which modules one message and one vote enter on their way (decision 23): `uv run python scripts/walk.py`.

Counted are distinct modules of the package in which a function is entered, in the command, in the daemon and in its
threads, with packages and what beats in the background. The message is sent by a command to a channel that an open page
shows, and nobody is mentioned; it ends when the page shows the row. The vote is an agent's, from the message that has
it asked for to the outcome. Both are done once before they are counted: what is imported for the first is no walk.
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


def watch(out: Path, module: str, arguments: list[str]) -> None:
    """Be this program, and write down which of our modules are entered, between SIGUSR1 and SIGUSR2 if they come."""
    entered: set[str] = set()

    def seen(frame: FrameType, event: str, _: object) -> None:
        name = str(frame.f_globals.get("__name__"))
        if event == "call" and name.partition(".")[0] == OURS and name not in entered and not is_import(frame):
            entered.add(name)

    def write(*_: object) -> None:
        out.write_text("\n".join(sorted(entered)))

    signal.signal(signal.SIGUSR1, lambda *_: entered.clear())
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
                daemon.do("POST", "/send", to="@review", message="@alice ask them")
                with counted(daemon, tmp) as entered:
                    assert eventually(partial(ended, daemon, number))
            told("a vote", entered)


@contextmanager
def watched_daemon(tmp: Path) -> Iterator[Served]:
    vote = {"question": "Tea?", "options": ["yes", "no"], "voters": ["bob"]}
    asks = {"call": {"tool": "team_proposal_create", "with": vote}, "slow": "1s"}  # until we watch
    votes = [{"call": {"tool": "team_vote", "with": {"proposal": number, "choice": "yes"}}} for number in (1, 2)]
    alice = script(*[asks, {"say": "asked"}, {"say": "so be it"}] * 2)
    bob = script(votes[0], {"say": "voted"}, votes[1], {"say": "voted"})
    write_project(tmp / "project", ["alice", "bob"], workflow=WORKFLOW, extra={"alice": alice, "bob": bob})
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


@contextmanager
def counted(daemon: Served, tmp: Path) -> Iterator[set[str]]:
    """The modules that are entered meanwhile, once it is over."""
    entered: set[str] = set()
    daemon.process.send_signal(signal.SIGUSR1)
    yield entered
    daemon.process.send_signal(signal.SIGUSR2)
    assert eventually((tmp / "daemon").exists)
    for out in (tmp / "daemon", tmp / "command"):
        if out.exists():
            entered |= set(out.read_text().split())
            out.unlink()


def told(what: str, entered: set[str]) -> None:
    print(f"{what}: {len(entered)}", *sorted(entered), sep="\n  ")


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["watch", out, module, *arguments]:
            watch(Path(out), module, arguments)
        case _:
            main()
