"""Where the daemon is, and how it proves that it is ours. Shared by the client and the daemon.

In the private home directory `daemon.json` says where the daemon listens and holds its token, `daemon.lock` says who
holds the kernel lock. Both may be stale, so what they say is a claim: a client sends a nonce and compares `proof`
before it sends anything else, and no process is signalled unless number, birth and instance agree.
Opens no connection (connection.py) and holds no lock (daemon/process/lock.py). Every command pays for this import: keep
it light.
"""

from __future__ import annotations

import hmac
import json
import os
import shlex
import stat
import sys
from contextlib import suppress
from dataclasses import asdict, field
from pathlib import Path
from typing import Any

from agent_worker.core.errors import Refused
from agent_worker.core.later import dataclass, pattern

HOME_VARIABLE = "AGENT_WORKER_HOME"
DATABASE_VARIABLE = "AGENT_WORKER_DATABASE_URL"  #: where the state is, if not in the home: a PostgreSQL
LABELS_VARIABLE = "AGENT_WORKER_LABELS"  #: what this machine has that an agent may require, of several
RUN_TOKEN = "AGENT_WORKER_RUN_TOKEN"  #: set where a program works as an agent
READY_VARIABLE = "AGENT_WORKER_READY_FD"  #: where a daemon tells whoever started it how that went
RUN_VARIABLE = "AGENT_WORKER_RUN"  #: set for what an agent starts: the run that whatever it asks of us comes from
RUN_HEADER = "X-Agent-Worker-Run"  #: the same, as a command tells it
NONCE_HEADER = "X-Agent-Worker-Nonce"
KEYS_HEADER = "X-Agent-Worker-Keys"  #: variables of model providers that a command brings from its environment
PROJECT_META = "agent-worker/project"  #: in the meta of an MCP request: the directory that its bridge runs in
NONCE = pattern(r"[0-9a-f]{64}")
FORMAT = 1
DAEMON_FILE, LOCK_FILE, LOG_FILE, DATABASE = "daemon.json", "daemon.lock", "daemon.log", "state.db"

_ELSEWHERE = f"set {HOME_VARIABLE} to another directory"
_LARGEST = 64 * 1024
_TOKEN = pattern(r"[A-Za-z0-9._~+/=-]{43,512}")  # as a header takes it; 43 characters of base64 are 256 bits
_WORD = pattern(r"[A-Za-z0-9._:%-]{1,128}")
# A pipe must not make us wait for its other end.
_UNFOLLOWED = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY


class AlreadyRunning(Refused):
    """Another daemon holds this home."""

    code = "already_running"


@dataclass(frozen=True, slots=True)
class DaemonFile:
    """What `daemon.json` claims."""

    pid: int
    host: str  #: where clients connect to, even if it listens on more addresses
    port: int
    token: str = field(repr=False)
    instance: str  #: new with every start
    started_at: str  #: UTC, for people
    born: str  #: `birth_of` the process


@dataclass(frozen=True, slots=True)
class DaemonHolder:
    """The process that wrote itself into the lock file. Says less than `DaemonFile`, but earlier."""

    pid: int
    born: str
    instance: str


def come_from() -> dict[str, str]:
    """The headers by which a command that an agent started names its run, whose limits hold for what it asks."""
    run = os.environ.get(RUN_VARIABLE, "")
    return {RUN_HEADER: run} if _WORD.fullmatch(run) else {}


def home_directory() -> Path:
    if given := os.environ.get(HOME_VARIABLE):
        if not os.path.isabs(given):  # it would be another home in each directory
            whole = os.path.abspath(os.path.expanduser(given))
            told = f"{HOME_VARIABLE} must be a full path, not {given}"
            raise Refused(told, hint=f"export {HOME_VARIABLE}={shlex.quote(whole)}")
        return Path(given)
    if os.environ.get("HOME") == "":  # it would be the root of the disk
        raise Refused("HOME is set but empty", hint=_ELSEWHERE)
    try:
        return Path.home() / ".agent-worker"
    except RuntimeError:
        raise Refused("this user has no home directory", hint=_ELSEWHERE) from None


def make_home(path: Path) -> Path:
    """The home directory, made if it is missing, and checked."""
    missing = [each for each in (path, *path.parents) if not os.path.lexists(each)]
    try:
        for directory in reversed(missing):
            with suppress(FileExistsError):  # another first command was faster
                os.mkdir(directory, 0o700)
    except OSError as error:
        raise Refused(
            f"{path} cannot be made: {error.strerror}", hint=f"set {HOME_VARIABLE} to another place"
        ) from None
    check_home(path)
    return path


def check_home(path: Path) -> None:
    """Refuse a directory that somebody else prepared, may write to, or may look into."""
    try:
        directory = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError as error:
        if path.is_symlink():
            raise Refused(f"{path} is a link, and links are not followed", hint="name its target instead") from None
        raise Refused(
            f"{path} cannot be used: {error.strerror}", hint=f"set {HOME_VARIABLE} to another place"
        ) from None
    try:
        status = os.fstat(directory)
        if status.st_uid != os.geteuid():
            raise Refused(f"{path} belongs to another user", hint=_ELSEWHERE)
        if status.st_mode & 0o022:
            raise Refused(f"others can write to {path}", hint=f"check what is in it, then: chmod 700 {path}")
        if status.st_mode & 0o077:
            os.fchmod(directory, 0o700)
    finally:
        os.close(directory)


def open_private(path: Path, flags: int) -> int:
    """A descriptor of a regular file of ours, 0600; a link is not followed. Raises Refused, or OSError."""
    try:
        file = os.open(path, flags | _UNFOLLOWED | os.O_CLOEXEC, 0o600)
    except OSError as error:
        if path.is_symlink():
            raise Refused(f"{path} is a link, and links are not followed", hint=f"rm {path}") from None
        raise error
    status = os.fstat(file)
    if stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid():
        if status.st_mode & 0o077:
            os.fchmod(file, 0o600)
        return file
    os.close(file)
    raise Refused(f"{path} is not a plain file of this user", hint=f"rm {path}")


def read_daemon(home: Path) -> DaemonFile | None:
    """What the file claims; None when it is missing, damaged, foreign, or of a version we do not know."""
    claim = _read_object(home / DAEMON_FILE)
    try:
        fields: dict[str, Any] = {name: claim[name] for name in DaemonFile.__dataclass_fields__}
        found = DaemonFile(**fields)
        valid = (
            claim["format"] == FORMAT
            and _is_number(found.pid, 2**31)
            and _is_number(found.port, 2**16)
            and all(map(_WORD.fullmatch, (found.host, found.instance, found.born)))
            and _TOKEN.fullmatch(found.token) is not None
            and isinstance(found.started_at, str)
        )
    except (KeyError, TypeError):
        return None
    return found if valid else None


def write_daemon(home: Path, found: DaemonFile) -> None:
    """Write `daemon.json`, whole or not at all; whatever stood there, even a link, is replaced and not followed."""
    temporary = home / f".{DAEMON_FILE}.{os.urandom(8).hex()}"
    file = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _UNFOLLOWED, 0o600)
    try:
        with os.fdopen(file, "wb") as writing:  # not synced: after a power cut it is stale anyway
            writing.write(json.dumps({"format": FORMAT, **asdict(found)}, indent=1).encode())
        os.replace(temporary, home / DAEMON_FILE)
    except BaseException:
        os.unlink(temporary)
        raise


def remove_daemon(home: Path, instance: str) -> None:
    """Remove `daemon.json` if it is ours, and what a daemon that died while writing left behind. For whoever holds the
    lock."""
    found = read_daemon(home)
    with suppress(FileNotFoundError):
        if found is not None and found.instance == instance:
            os.unlink(home / DAEMON_FILE)
        for leftover in home.glob(f".{DAEMON_FILE}.*"):
            leftover.unlink()


def read_holder(home: Path) -> DaemonHolder | None:
    """The process that last wrote itself into the lock file, whether it still runs or not."""
    match _read_object(home / LOCK_FILE):
        case {"pid": int(pid), "born": str(born), "instance": str(instance)} if _is_number(pid, 2**31):
            return DaemonHolder(pid, born, instance)
    return None


def write_holder(lock: int, holder: DaemonHolder) -> None:
    """Write who holds the lock into the lock file, through the descriptor that holds it."""
    os.ftruncate(lock, 0)
    os.pwrite(lock, json.dumps(asdict(holder)).encode(), 0)


def is_running(process: DaemonFile | DaemonHolder) -> bool:
    """Whether this very process runs, and not another that got its number."""
    return birth_of(process.pid) == process.born


def birth_of(pid: int) -> str | None:
    """When this process began, as the system counts it; None when it does not run, or is a zombie.

    Without `/proc` on Linux nothing can be said, so nothing counts as running and nothing is signalled.
    """
    if sys.platform != "linux":
        return _birth_by_ps(pid)
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()  # the name before it may hold anything
        with open("/proc/sys/kernel/random/boot_id") as file:
            boot = file.read().strip()
    except OSError:
        return None
    return None if fields[0] in (b"Z", b"X") else f"{boot}:{fields[19].decode()}"


def signal_daemon(home: Path, found: DaemonFile, number: int) -> bool:
    """Signal this daemon, if that process still is that daemon; whether it was."""
    if sys.platform != "linux":
        if agreed := _agrees(home, found):
            os.kill(found.pid, number)
        return agreed
    import signal

    try:
        # Held before we look: so the number cannot pass to another process between look and signal.
        process = os.pidfd_open(found.pid)
    except OSError:
        return False
    try:
        if agreed := _agrees(home, found):
            signal.pidfd_send_signal(process, number)
        return agreed
    except ProcessLookupError:
        return False
    finally:
        os.close(process)


def authority(host: str, port: int) -> str:
    """Host and port as the `Host` header says them."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def proof(token: str, *, nonce: str, port: int, instance: str) -> str:
    """What only a holder of the token can answer, and only for the port that it itself listens on."""
    words = "\n".join(("agent-worker", nonce, str(port), instance))
    return hmac.new(token.encode(), words.encode(), "sha256").hexdigest()


def is_strong(token: str) -> bool:
    """Whether a token is long enough for 256 bits, fit for a header, and not one word over and over."""
    return _TOKEN.fullmatch(token) is not None and len(set(token)) >= 16


def _agrees(home: Path, found: DaemonFile) -> bool:
    return read_holder(home) == DaemonHolder(found.pid, found.born, found.instance) and is_running(found)


def _read_object(path: Path) -> dict[str, Any]:
    """The JSON object in a plain file of ours; an empty one for anything else."""
    try:
        file = open_private(path, os.O_RDONLY)
    except (OSError, Refused):
        return {}
    with os.fdopen(file, "rb") as reading:
        content = reading.read(_LARGEST + 1)
    with suppress(ValueError, RecursionError):
        value = json.loads(content)
        return value if isinstance(value, dict) else {}
    return {}


def _is_number(value: object, below: int) -> bool:
    return type(value) is int and 0 < value < below


def _birth_by_ps(pid: int) -> str | None:
    import subprocess

    command = ["ps", "-o", "state=,lstart=", "-p", str(pid)]
    told = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "LC_ALL": "C"}, check=False)
    state, _, began = told.stdout.strip().partition(" ")
    return None if not began or state.startswith("Z") else "-".join(began.split())
