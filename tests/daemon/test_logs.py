"""The log at its edges: a full disk, a place that cannot be rotated, words that do not fit, lines without end."""

from __future__ import annotations

import json
import logging
import os
from pathlib import Path

import pytest

from agent_worker.core.redaction import Redactor
from agent_worker.daemon.process.logs import LogFile, LogWriter, _record_output

SECRET = "correct-horse-battery-staple"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "daemon.log"


def messages(path: Path) -> list[str]:
    return [json.loads(line)["message"] for line in path.read_text().splitlines()]


def printed(path: Path, text: bytes, redact: Redactor | None = None) -> None:
    """As if a library or a child had printed this, and ended."""
    reading, writing = os.pipe()
    os.write(writing, text)
    os.close(writing)
    file = LogFile(path, limit=2**20, keep=2)
    _record_output(reading, file, redact or Redactor())
    os.close(reading)
    file.close()


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no disk that is always full")
def test_G3_a_line_that_was_cut_off_by_a_full_disk_is_not_glued_to_the_next(path: Path) -> None:
    file = LogFile(path, limit=2**20, keep=2)
    file.write(b"one\n")
    disk, full = os.dup(file.descriptor), os.open("/dev/full", os.O_WRONLY)
    os.dup2(full, file.descriptor)
    file.write(b"two\n")  # how much of it has arrived is not known
    os.dup2(disk, file.descriptor)
    file.write(b"three\n")
    file.write(b"four\n")
    assert path.read_bytes() == b"one\n\nthree\nfour\n"
    for descriptor in (disk, full):
        os.close(descriptor)
    file.close()


def test_G3_a_log_that_cannot_be_rotated_stays_within_its_share(path: Path) -> None:
    path.with_name("daemon.log.1").mkdir()  # no file can be put there
    file = LogFile(path, limit=100, keep=2)
    for n in range(50):
        file.write(b"line %03d\n" % n)
    assert 0 < path.stat().st_size <= 100
    assert path.read_bytes().endswith(b"line 049\n")
    file.close()


def test_G3_words_that_do_not_fit_are_logged_as_they_are(path: Path) -> None:
    file = LogFile(path, limit=2**20, keep=2)
    scribe = LogWriter(file, Redactor())
    scribe.emit(logging.LogRecord("x", logging.INFO, "x.py", 1, "%d of %d", ("one",), None))
    scribe.close()
    assert messages(path) == ["'%d of %d' with unfitting values"]
    file.close()


def test_G3_what_is_printed_without_a_line_end_is_logged_in_pieces(path: Path) -> None:
    printed(path, b"x" * 40_000)
    assert len(messages(path)) >= 2
    assert "".join(messages(path)) == "x" * 40_000


def test_G3_last_words_are_logged_also_without_a_line_end(path: Path) -> None:
    printed(path, b"one\n\nand then it di")
    assert messages(path) == ["one", "and then it di"]


def test_N5_what_is_printed_is_logged_without_secrets(path: Path) -> None:
    printed(path, f"the key is {SECRET}\n".encode(), Redactor([SECRET]))
    assert messages(path) == ["the key is [redacted:secret]"]
