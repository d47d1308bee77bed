"""Our programs as processes of their own that begin in milliseconds: what they import is imported once for all of them.

A nursery has imported the command line and the daemon, and does nothing else. Who connects to its door says what to run
and hands over its own descriptors; a fork of the nursery becomes that process, as `python -m` would make it. The pid is
told at once, the exit code at the end. What is tested about the start of a process itself (what it imports, how much
memory it takes, which variables it reads then) needs a fresh one.

    python -P forked.py nursery FD     forks for whoever connects to this socket, until its standard input ends
    python -S forked.py be DOOR MODULE [ARGUMENT...]     stands for such a process, of `python -P -m MODULE`
"""

from __future__ import annotations

import atexit
import fcntl
import gc
import importlib
import json
import os
import runpy
import selectors
import socket
import sys
import threading
import traceback
from contextlib import suppress
from typing import Any, NoReturn

READY = "AGENT_WORKER_READY_FD"
SHORTER = "AGENT_WORKER_TEST_SHORTER"
SERVER = "AGENT_WORKER_TEST_SERVER"  # as in engine.py


class Wanted(Exception):
    """This process is a fork, and to be what is asked for."""


class Nursery:
    def __init__(self, door: int) -> None:
        self._door = socket.socket(fileno=door)
        self._watched = selectors.DefaultSelector()
        self._watched.register(self._door, selectors.EVENT_READ)
        self._watched.register(0, selectors.EVENT_READ)

    def run(self) -> None:
        """Fork for everybody who comes; in a fork this raises Wanted."""
        while True:
            for key, _ in self._watched.select():
                if key.fileobj == 0:
                    return
                if key.fileobj is self._door:
                    self._begin()
                else:
                    self._watched.unregister(key.fileobj)
                    _end(key.fd, key.data)

    def _begin(self) -> None:
        asking, _ = self._door.accept()
        order, descriptors, _, _ = socket.recv_fds(asking, 1 << 20, 16)
        pid = os.fork()
        if pid == 0:
            asking.close()
            self._close()
            raise Wanted(json.loads(order), descriptors)
        for descriptor in descriptors:
            os.close(descriptor)
        with suppress(OSError):
            asking.send(str(pid).encode())
        self._watched.register(os.pidfd_open(pid), selectors.EVENT_READ, asking)

    def _close(self) -> None:
        """What a fork has no business with."""
        for key in list(self._watched.get_map().values()):
            if key.data:
                key.data.close()
                os.close(key.fd)
        self._watched.close()
        self._door.close()


def _import_everything() -> None:
    from agent_worker.cli.main import COMMANDS

    for module in {module for module, *_ in COMMANDS.values()}:
        importlib.import_module(module)
    for module in ("agent_worker.client.connection", "agent_worker.client.connection", "agent_worker.cli.output"):
        importlib.import_module(module)
    for module in ("agent_worker.daemon.process.process", "agent_worker.daemon.http.app"):
        importlib.import_module(module)
    if SERVER in os.environ:
        importlib.import_module("agent_worker.database.postgres")
        sys.path.insert(0, os.path.dirname(os.path.dirname(__file__)))
        importlib.import_module("engine")  # of the suite
        del sys.path[0]


def _end(pidfd: int, asking: socket.socket) -> None:
    ended = os.waitid(os.P_PIDFD, pidfd, os.WEXITED)
    assert ended
    os.close(pidfd)
    code = ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status
    with suppress(OSError), asking:
        asking.send(str(code).encode())


def become(order: dict[str, Any], descriptors: list[int]) -> NoReturn:
    """What `python -m` is when it starts: with these arguments and variables, in this directory, in its own session."""
    os.setsid()
    numbers = order["descriptors"]
    out_of_the_way = [fcntl.fcntl(descriptor, fcntl.F_DUPFD, max(numbers) + 1) for descriptor in descriptors]
    for descriptor in descriptors:
        os.close(descriptor)
    for number, descriptor in zip(numbers, out_of_the_way, strict=True):
        os.dup2(descriptor, number)
        os.close(descriptor)
    server = os.environ.get(SERVER, "")
    os.environ.clear()
    os.environ.update(order["environment"])
    if server:
        os.environ.update(sys.modules["engine"].told(os.environ, server))
    wait_shorter(json.loads(os.environ.pop(SHORTER, "{}")))
    os.chdir(order["directory"])
    sys.argv = order["command"]
    sys.path[:0] = order["path"]
    try:
        runpy.run_module(order["command"][0], run_name="__main__", alter_sys=True)
        code: object = 0
    except SystemExit as exit:
        code = exit.code or 0
    except BaseException:
        traceback.print_exc()
        code = 1
    if not isinstance(code, int):
        print(code, file=sys.stderr)
        code = 1
    _leave(code)


def wait_shorter(seconds: dict[str, float]) -> None:
    """Give a fork another patience than people have: `agent_worker.a.b.NAME` → seconds."""
    for path, patience in seconds.items():
        module, _, name = path.rpartition(".")
        getattr(importlib.import_module(module), name)  # a test that names what is not there any more fails
        setattr(sys.modules[module], name, patience)


def _leave(code: int) -> NoReturn:
    """End as Python does, but for taking apart what was imported: that is all there is to a short command."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with suppress(BrokenPipeError):
            stream.flush()
    os._exit(code)


def ask(
    door: str,
    command: list[str],
    descriptors: dict[int, int],
    environment: dict[str, str],
    directory: str,
    *,
    imports_from_there: bool = False,
) -> socket.socket:
    """Have a process made, which gets descriptors of ours by these numbers. We are told its pid, then its exit code."""
    asking = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    asking.connect(door)
    order = {
        "command": command,
        "descriptors": list(descriptors),
        "environment": environment,
        "directory": directory,
        "path": [directory] if imports_from_there else [],
    }
    socket.send_fds(asking, [json.dumps(order).encode()], list(descriptors.values()))
    return asking


def be(door: str, command: list[str]) -> int:
    """Stand for such a process: it has our descriptors, and we have its exit code."""
    numbers = [0, 1, 2, *([int(os.environ[READY])] if READY in os.environ else [])]
    with ask(door, command, {number: number for number in numbers}, dict(os.environ), os.getcwd()) as asking:
        for number in numbers:
            os.close(number)  # its end is to be noticed
        asking.recv(100)
        code = int(asking.recv(100) or b"1")
    return code if code >= 0 else 128 - code


def main() -> None:
    match sys.argv[1:]:
        case ["nursery", door]:
            _import_everything()
            gc.freeze()
            try:
                Nursery(int(door)).run()
                return
            except Wanted as wanted:
                order, descriptors = wanted.args
            become(order, descriptors)
        case ["be", door, *command]:
            os._exit(be(door, command))


if __name__ == "__main__":
    main()
