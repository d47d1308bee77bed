"""`pytest --workers 6`: six forks of a process that has collected the tests run them, each a whole file at a time.

Importing and collecting the suite takes longer than most of its files, so it is done once, for all workers: a fork has
everything. Who is free takes the next file, in the order of the collection. A worker that dies has failed the test it
was at, and another does the rest of its file. What is reported is reported here, as if the tests had been run here.
"""

from __future__ import annotations

import atexit
import os
import tempfile
import traceback
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain, groupby, pairwise
from multiprocessing.connection import Connection, Pipe, wait
from typing import Any, NoReturn

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--workers", type=int, default=0, help="run the tests in so many processes")


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    if not session.config.option.workers or session.config.option.collectonly or session.testsfailed:
        return None
    Crew(session).run(session.config.option.workers)
    return True


@dataclass
class Worker:
    pid: int
    door: Connection
    mine: deque[int] = field(default_factory=deque)  #: the tests it has and has not finished, the first being run


class Crew:
    def __init__(self, session: pytest.Session) -> None:
        self._session = session
        self._hook = session.config.hook
        places = groupby(range(len(session.items)), key=lambda place: session.items[place].path)
        self._files = deque(list(places) for _, places in places)
        self._workers: list[Worker] = []
        self._numbers = 0

    def run(self, count: int) -> None:
        self._session.config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]  # one for all
        try:
            for _ in range(min(count, len(self._files))):
                self._fork()
            while self._workers:
                ready = wait([worker.door for worker in self._workers])
                for worker in [each for each in self._workers if each.door in ready]:
                    self._hear(worker)
                if self._session.shouldfail:
                    raise self._session.Failed(self._session.shouldfail)
                if self._session.shouldstop:
                    raise self._session.Interrupted(self._session.shouldstop)
        finally:
            for worker in self._workers:
                worker.door.close()  # it ends at the next thing it has to tell
            for worker in self._workers:
                os.waitpid(worker.pid, 0)

    def _fork(self) -> None:
        self._numbers += 1
        ours, theirs = Pipe()
        pid = os.fork()
        if pid == 0:
            for door in (ours, *(worker.door for worker in self._workers)):
                door.close()
            work(self._session, theirs, self._numbers)
        theirs.close()
        self._workers.append(Worker(pid, ours))

    def _hear(self, worker: Worker) -> None:
        try:
            what, told = worker.door.recv()
        except (EOFError, ConnectionResetError):
            self._buried(worker)
            return
        match what:
            case "free":
                file = self._files.popleft() if self._files else []
                worker.mine += file
                with suppress(BrokenPipeError):
                    worker.door.send(file)
            case "begun":
                self._hook.pytest_runtest_logstart(**_place(self._session.items[worker.mine[0]]))
            case "report":
                self._report(self._hook.pytest_report_from_serializable(config=self._session.config, data=told))
            case "finished":
                self._hook.pytest_runtest_logfinish(**_place(self._session.items[worker.mine.popleft()]))

    def _report(self, report: pytest.TestReport) -> None:
        self._hook.pytest_runtest_logreport(report=report)

    def _buried(self, worker: Worker) -> None:
        self._workers.remove(worker)
        worker.door.close()
        _, status = os.waitpid(worker.pid, 0)
        code = os.waitstatus_to_exitcode(status)
        if worker.mine:
            item = self._session.items[worker.mine.popleft()]
            said = f"the worker that ran this test ended with {code}"
            self._report(pytest.TestReport(item.nodeid, item.location, {}, "failed", said, "call"))
            if worker.mine:
                self._files.appendleft(list(worker.mine))
            if self._files:
                self._fork()
        elif code:
            self._session.shouldfail = f"a worker had run all of its tests, and ended with {code}"


def _place(item: pytest.Item) -> dict[str, Any]:
    return {"nodeid": item.nodeid, "location": item.location}


# --- in a worker --------------------------------------------------------------------------------------


class Teller:
    """Tells what has become of each test."""

    def __init__(self, config: pytest.Config, door: Connection) -> None:
        self._config = config
        self._door = door

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        data = self._config.hook.pytest_report_to_serializable(config=self._config, report=report)
        self._door.send(("report", data))


def work(session: pytest.Session, door: Connection, number: int) -> NoReturn:
    """Be a worker, and end."""
    code = 0
    try:
        _be_apart(session.config, number)
        session.config.pluginmanager.register(Teller(session.config, door))
        _run(session, door)
    except (BrokenPipeError, ConnectionResetError, EOFError, KeyboardInterrupt):
        pass  # nobody wants to know any more
    except BaseException:
        traceback.print_exc()
        code = 1
    with suppress(BaseException):
        session._setupstate.teardown_exact(None)  # of what was given up
    atexit._run_exitfuncs()
    os._exit(code)


def _run(session: pytest.Session, door: Connection) -> None:
    for item, following in pairwise(chain(_given(session, door), [None])):
        assert item
        door.send(("begun", None))
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        door.send(("finished", None))


def _given(session: pytest.Session, door: Connection) -> Iterator[pytest.Item]:
    while True:
        door.send(("free", None))
        file = door.recv()
        if not file:
            return
        yield from (session.items[place] for place in file)


def _be_apart(config: Any, number: int) -> None:
    """Share nothing with the process we are a fork of: not what ends with it, its screen, its files."""
    atexit._clear()
    _capture_apart(config.pluginmanager.getplugin("capturemanager")._global_capturing)
    folder = config._tmp_path_factory.getbasetemp() / f"worker-{number}"
    folder.mkdir(mode=0o700)
    config._tmp_path_factory._basetemp = folder


def _capture_apart(capturing: Any) -> None:
    """Catch output in files of our own, under the same numbers: modules may have kept the streams they were given."""
    with open(os.devnull, "wb") as nowhere:
        os.dup2(nowhere.fileno(), 1)  # nobody reports from here
        for stream in (capturing.out, capturing.err):
            if hasattr(stream, "targetfd_save"):
                with tempfile.TemporaryFile() as own:
                    os.dup2(own.fileno(), stream.tmpfile.fileno())
        if hasattr(capturing.out, "targetfd_save"):
            os.dup2(nowhere.fileno(), capturing.out.targetfd_save)
