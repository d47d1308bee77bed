"""Starting a child: nothing of ours open in it, its own session, and on Linux a death together with ours."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import IO

from agent_worker.core.errors import BadInput, NotFound, Refused
from agent_worker.processes import descendants
from agent_worker.processes.sweeper import be_swept_after

# The death signal is set between fork and exec, by a program that then becomes the child. Not by a preexec_fn: that
# would fork the whole daemon (20 ms of standstill at 500 MB) and run Python between its threads' locks. util-linux has
# such a program, and takes 2 ms; whom we die from under before it has set the signal is swept at the next start.
_SETPRIV = ("--pdeathsig", "KILL", "--")
# Where there is none, 20 ms. By libc, as `import signal` would take half as long again; Python ignores two signals,
# which its child must not inherit.
_LAUNCHER = f"""\
import ctypes, os, sys
libc = ctypes.CDLL(None)
libc.prctl(1, {signal.SIGKILL:d})
if os.getppid() != int(sys.argv[1]):
    os._exit(125)
libc.signal({signal.SIGPIPE:d}, None)
libc.signal({signal.SIGXFSZ:d}, None)
try:
    os.execv(sys.argv[2], sys.argv[2:])
except OSError as error:
    os.write(2, f"{{sys.argv[2]}}: {{error.strerror}}\\n".encode())
    os._exit(126)
"""


def spawn(
    argv: Sequence[str], *, cwd: Path, env: Mapping[str, str], mark: int, stdin: bytes | int | None, stderr: int
) -> subprocess.Popen[bytes]:
    if not cwd.is_dir():
        raise NotFound(f"there is no directory {cwd} to run {argv[0]} in")
    program = _program(argv[0], cwd=cwd, path=env.get("PATH", os.defpath))
    be_swept_after()
    with _input(stdin) as source, descendants.marking(mark) as marked:
        try:
            return subprocess.Popen(
                [*_launcher(), program, *argv[1:]],
                cwd=cwd,
                env={**env, **marked},
                stdin=source,
                stdout=subprocess.PIPE,
                stderr=stderr,
                start_new_session=True,
                bufsize=0,
            )
        except ValueError as error:  # a NUL in it, or something that is no text
            raise BadInput(f"cannot run this command: {error}") from None
        except OSError as error:
            if error.errno == errno.E2BIG:
                raise BadInput("the command is too long", hint="put the text into a file") from None
            raise Refused(f"could not start {argv[0]}: {error.strerror}") from None


def _program(name: str, *, cwd: Path, path: str) -> str:
    found = shutil.which(str(cwd / name) if os.sep in name else name, path=path)
    if found is None:
        raise NotFound(f"there is no program {name!r}", hint="install it, or give its full path")
    return found


def _launcher() -> list[str]:
    if sys.platform != "linux":
        return []
    if setpriv := _setpriv():
        return [setpriv, *_SETPRIV]
    return [sys.executable, "-I", "-S", "-c", _LAUNCHER, str(os.getpid())]


@cache
def _setpriv() -> str | None:
    """The path of setpriv, only where it knows the death signal: that of busybox does not."""
    found = shutil.which("setpriv", path=os.defpath)
    if found and subprocess.run([found, *_SETPRIV, "/bin/true"], capture_output=True).returncode == 0:
        return found
    return None


@contextmanager
def _input(content: bytes | int | None) -> Iterator[int | IO[bytes]]:
    if not isinstance(content, bytes):
        yield subprocess.DEVNULL if content is None else content
        return
    # A file without a name, not a pipe: nobody has to feed it, and a child that does not read blocks nobody.
    with tempfile.TemporaryFile() as file:
        file.write(content)
        file.seek(0)
        yield file
