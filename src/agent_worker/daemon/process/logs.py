"""The daemon's log: JSON lines without secrets that stay within their share, and never complain about themselves."""

from __future__ import annotations

import faulthandler
import json
import logging
import os
import queue
import sys
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

from agent_worker.client import discovery
from agent_worker.core.clock import SystemClock
from agent_worker.core.errors import AgentWorkerError, Refused
from agent_worker.core.redaction import Redactor
from agent_worker.daemon.process.settings import DaemonSettings

_BACKLOG = 10_000  #: records that wait for a slow disk; more are dropped
_LONGEST = 64 * 1024  #: characters of one record
_CHUNK = 8 * 1024
#: From which level on libraries are heard.
_HEARD = {
    "httpx2": logging.WARNING,  # a line for each request, with its whole address, in which there may be a key
    "mcp": logging.WARNING,
    "uvicorn.error": logging.ERROR,  # a line for each request that is refused: any stranger could fill the log
}

log = logging.getLogger(__name__)


class LogFile:
    """A file of lines that stays within its share: when full it becomes `.1`, and the oldest goes.

    Its descriptor keeps its number, so that a crash of the interpreter can be written to it. Another is kept in
    reserve, so that it becomes `.1` also when the process has none left. Never raises and never complains: a log that
    reports its own trouble feeds on itself.
    """

    def __init__(self, path: Path, *, limit: int, keep: int) -> None:
        self.descriptor = discovery.open_private(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        self._path = path
        self._limit = limit
        self._keep = keep
        self._lock = threading.Lock()
        self._torn = False
        self._reserve = _reserved()

    def write(self, line: bytes) -> None:
        with self._lock, suppress(OSError):
            if os.fstat(self.descriptor).st_size + len(line) > self._limit:
                self._rotate()
            line = b"\n" + line if self._torn else line
            self._torn = True  # unless all of it gets through: the disk may be full in the middle
            self._torn = os.write(self.descriptor, line) != len(line)

    def close(self) -> None:
        os.close(self.descriptor)
        self._give_up_reserve()

    def _rotate(self) -> None:
        self._give_up_reserve()
        try:
            self._move_on()
        except (OSError, Refused):
            os.ftruncate(self.descriptor, 0)  # bounded is worth more than complete
        finally:
            self._reserve = _reserved()
        self._torn = False

    def _move_on(self) -> None:
        # Opened before anything is renamed: if that fails, what we write to is still where people look.
        fresh = discovery.open_private(self._fresh, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_TRUNC)
        try:
            for number in range(self._keep - 1, 0, -1):
                with suppress(FileNotFoundError):
                    os.replace(self._numbered(number - 1), self._numbered(number))
            os.replace(self._fresh, self._path)
            os.dup2(fresh, self.descriptor, inheritable=False)
        finally:
            os.close(fresh)

    def _give_up_reserve(self) -> None:
        if self._reserve is not None:
            os.close(self._reserve)
        self._reserve = None

    @property
    def _fresh(self) -> Path:
        return self._path.with_name(f"{self._path.name}.new")

    def _numbered(self, number: int) -> Path:
        return self._path.with_name(f"{self._path.name}.{number}") if number else self._path


def _reserved() -> int | None:
    try:
        return os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None


class LogWriter(logging.Handler):
    """Log records as lines of JSON, written by its own thread: a slow disk must not hold up the event loop."""

    def __init__(self, file: LogFile, redact: Redactor) -> None:
        super().__init__()
        self._file = file
        self._redact = redact
        self._waiting: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()  # may be put to in the middle of a put
        self._thread = threading.Thread(target=self._write, name="log", daemon=True)
        self._thread.start()

    def emit(self, record: logging.LogRecord) -> None:
        if self._waiting.qsize() >= _BACKLOG:
            return
        try:
            message = record.getMessage()
        except Exception:  # whoever logs may pass anything
            message = f"{record.msg!r} with unfitting values"
        extra = {"exception": "".join(traceback.format_exception(*record.exc_info))} if record.exc_info else {}
        at = datetime.fromtimestamp(record.created, UTC)
        told = {name: self._redact(text) for name, text in ({"message": message} | extra).items()}
        self._waiting.put(log_line(at, record.levelname, record.name, **told))

    def close(self) -> None:
        self._waiting.put(None)
        self._thread.join(timeout=2)
        super().close()

    def _write(self) -> None:
        while (line := self._waiting.get()) is not None:
            self._file.write(line)


@contextmanager
def logging_to(home: Path, settings: DaemonSettings, redact: Redactor) -> Iterator[LogFile]:
    """Write all that this process has to say to its log, and also why it ends."""
    file = LogFile(home / discovery.LOG_FILE, limit=settings.log_bytes, keep=settings.log_files)
    scribe, root = LogWriter(file, redact), logging.getLogger()
    root.addHandler(scribe)
    root.setLevel(logging.INFO)
    for library, level in _HEARD.items():
        logging.getLogger(library).setLevel(level)
    logging.captureWarnings(True)
    sys.unraisablehook = lambda unraisable: log.error("in %r", unraisable.object, exc_info=unraisable.exc_value)
    faulthandler.enable(file.descriptor)
    try:
        with _output_recorded(file, redact):
            yield file
    except AgentWorkerError as error:
        log.error("%s", error.message)
        raise
    except Exception:
        log.critical("the daemon failed", exc_info=True)
        raise
    finally:
        root.removeHandler(scribe)
        scribe.close()
        faulthandler.disable()
        file.close()


@contextmanager
def _output_recorded(file: LogFile, redact: Redactor) -> Iterator[None]:
    """Turn what libraries and children print into log lines, in the background, so that it stays bounded."""
    if not _is_same(2, file.descriptor):
        yield
        return
    kept = os.dup(2)
    reading, writing = os.pipe()
    _redirect(writing)
    os.close(writing)
    recorder = threading.Thread(target=_record_output, args=(reading, file, redact), name="output", daemon=True)
    recorder.start()
    try:
        yield
    finally:
        _redirect(kept)
        recorder.join(timeout=0.5)  # a child that outlives us may still hold the other end


def _redirect(target: int) -> None:
    sys.stdout.flush()
    sys.stderr.flush()
    os.dup2(target, 1)
    os.dup2(target, 2)


def _record_output(reading: int, file: LogFile, redact: Redactor) -> None:
    def record(line: bytes) -> None:
        file.write(log_line(SystemClock().now(), "INFO", "output", redact(line.decode(errors="replace"))))

    rest = b""
    while piece := os.read(reading, _CHUNK):
        *whole, rest = (rest + piece).split(b"\n")
        if len(rest) > _CHUNK:
            whole, rest = [*whole, rest], b""
        for line in filter(None, whole):
            record(line)
    if rest:  # last words rarely end with a line end
        record(rest)


def log_line(at: datetime, level: str, logger: str, message: str, **extra: str) -> bytes:
    """One record is one line: JSON escapes every line end, and all that is not ASCII."""
    record = {"at": at.isoformat(timespec="milliseconds"), "level": level, "logger": logger, "message": message}
    return json.dumps({name: value[:_LONGEST] for name, value in (record | extra).items()}).encode() + b"\n"


def _is_same(one: int, other: int) -> bool:
    with suppress(OSError):
        return os.path.samestat(os.fstat(one), os.fstat(other))
    return False
