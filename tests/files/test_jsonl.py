"""Files of records: rows D7, E5, G4 and the outbox failpoints."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.faults.report import few
from tests.patience import PATIENCE

from agent_worker.core.errors import BadInput, Refused
from agent_worker.files.jsonl import (
    LINE_LIMIT,
    Reading,
    Record,
    append_records,
    iterate,
    last_record,
    read_all,
    read_last,
)
from agent_worker.files.root import Root

FIRST: Record = {"seq": 1, "text": "first"}
SECOND: Record = {"seq": 2, "text": 'zweite Zeile: Größe 会议 🎉 \n\t\u2028 \\ " \0 ' + "x" * 80}
THIRD: Record = {"seq": 3, "text": "third"}


@pytest.fixture
def root(tmp_path: Path) -> Root:
    return Root(tmp_path)


def line(record: Record) -> bytes:
    return json.dumps(record, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def test_records_come_back_in_order_and_from_both_ends(root: Root) -> None:
    append_records(root, "a/x.jsonl", [FIRST, SECOND])
    append_records(root, "a/x.jsonl", [THIRD])
    append_records(root, "a/x.jsonl", [])
    assert read_all(root, "a/x.jsonl") == Reading((FIRST, SECOND, THIRD), 0)
    assert read_last(root, "a/x.jsonl", 2) == Reading((SECOND, THIRD), 0)
    assert last_record(root, "a/x.jsonl") == THIRD
    assert root.read_bytes("a/x.jsonl") == line(FIRST) + line(SECOND) + line(THIRD)


def test_no_file_and_an_empty_file_hold_no_record(root: Root) -> None:
    for _ in range(2):
        assert last_record(root, "x.jsonl") is None
        assert read_last(root, "x.jsonl", 10) == read_all(root, "x.jsonl") == Reading((), 0)
        root.replace("x.jsonl", "")


def test_e5_d7_every_cut_point_of_the_last_record_is_survived(root: Root) -> None:
    whole = line(FIRST) + line(SECOND)
    start = len(line(FIRST))
    for cut in range(start, len(whole) + 1):
        name = f"{cut}.jsonl"
        (root.path / name).write_bytes(whole[:cut])
        stored = (FIRST, SECOND) if cut >= len(whole) - 1 else (FIRST,)
        assert last_record(root, name) == stored[-1]
        append_records(root, name, [THIRD])
        assert read_all(root, name) == Reading((*stored, THIRD), 0)
        assert read_last(root, name, 9).records == (*stored, THIRD)
        if start < cut < len(whole) - 1:
            assert root.read_bytes(name + ".corrupt") == whole[start:cut] + b"\n"
        else:
            assert not root.exists(name + ".corrupt")


@pytest.mark.parametrize("zeros", [1, 4096, 200_000])
def test_d7_zeros_at_the_end_are_moved_aside(root: Root, zeros: int) -> None:
    for name, tail in (("bare", b""), ("torn", b'{"seq":2,"te'), ("ended", b'{"seq":2,\0"te')):
        end = b"\n" if name == "ended" else b""
        (root.path / name).write_bytes(line(FIRST) + tail + b"\0" * zeros + end)
        assert last_record(root, name) == FIRST
        append_records(root, name, [THIRD])
        assert root.read_bytes(name) == line(FIRST) + line(THIRD)
        assert root.read_bytes(name + ".corrupt").startswith(tail)


def test_d7_zeros_in_the_middle_cost_no_whole_record(root: Root) -> None:
    zeros = b"\0" * 5000
    (root.path / "x").write_bytes(line(FIRST) + zeros + line(SECOND) + b'{"seq"' + zeros + b"}\n" + line(THIRD))
    assert read_all(root, "x") == Reading((FIRST, SECOND, THIRD), 1)
    assert read_last(root, "x", 3) == Reading((FIRST, SECOND, THIRD), 1)
    (root.path / "y").write_bytes(line(FIRST) + zeros + line(SECOND))
    append_records(root, "y", [THIRD])
    assert read_all(root, "y") == Reading((FIRST, SECOND, THIRD), 0)


@pytest.mark.parametrize(
    "bad",
    [
        b"\xff\xfe\xfa",
        b'{"text":"\xc3"}',
        b"12",
        b"[]",
        b'"text"',
        b"# a person's remark",
        b'{"seq":2}{"seq":3}',
        b"[" * 100_000,
        b'{"n":' + b"9" * 5000 + b"}",
    ],
    ids=lambda bad: ascii(bad[:12]),
)
def test_d7_a_line_that_is_no_record_is_skipped_and_counted(root: Root, bad: bytes) -> None:
    (root.path / "x").write_bytes(line(FIRST) + bad + b"\n\n \r\n" + line(SECOND) + bad + b"\n")
    assert last_record(root, "x") == SECOND
    append_records(root, "x", [THIRD])
    assert read_all(root, "x") == Reading((FIRST, SECOND, THIRD), 2)
    assert list(iterate(root, "x")) == [FIRST, None, SECOND, None, THIRD]
    assert read_last(root, "x", 2) == Reading((SECOND, THIRD), 1)
    assert not root.exists("x.corrupt")  # a finished line harms nobody and may be a person's


def test_a_windows_editor_does_no_harm(root: Root) -> None:
    (root.path / "x").write_bytes(b"\xef\xbb\xbf" + (line(FIRST) + line(SECOND)).replace(b"\n", b"\r\n"))
    append_records(root, "x", [THIRD])
    assert read_all(root, "x") == Reading((FIRST, SECOND, THIRD), 0)


@settings(max_examples=few(200), suppress_health_check=list(HealthCheck))
@given(st.data())
def test_d7_random_damage_costs_only_the_records_it_touches(root: Root, data: st.DataObject) -> None:
    records: list[Record] = [{"seq": n, "text": "é" * (n % 7)} for n in range(8)]
    lines = [line(record) for record in records]
    whole = b"".join(lines)
    start = data.draw(st.integers(0, len(whole) - 1))
    end = data.draw(st.integers(start + 1, min(len(whole), start + 40)))
    noise = data.draw(st.binary(max_size=20) | st.just(b"\0" * 30))
    (root.path / "x").write_bytes(whole[:start] + noise + whole[end:])
    append_records(root, "x", [THIRD | {"seq": 99}])
    found = read_all(root, "x")
    assert found.records[-1]["seq"] == 99
    assert read_last(root, "x", 1).records == found.records[-1:]
    position = 0
    for record, text in zip(records, lines, strict=True):
        if position + len(text) <= start or position > end:
            assert record in found.records
        position += len(text)


def test_d7_a_line_of_50_mb_is_skipped_without_filling_the_memory(root: Root) -> None:
    huge = b'{"text":"' + b"x" * 50_000_000
    (root.path / "x").write_bytes(line(FIRST) + huge + b'"}\n' + line(SECOND) + huge)
    tracemalloc.start()
    try:
        assert last_record(root, "x") == SECOND
        assert read_last(root, "x", 2) == Reading((FIRST, SECOND), 2)
        append_records(root, "x", [THIRD])
        assert read_all(root, "x") == Reading((FIRST, SECOND, THIRD), 1)
        assert tracemalloc.get_traced_memory()[1] < 6 * LINE_LIMIT
    finally:
        tracemalloc.stop()
    assert (root.path / "x.corrupt").stat().st_size == len(huge) + 1


def test_g4_the_last_ten_of_a_gigabyte_come_at_once(root: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    messages: list[Record] = [{"seq": n, "text": "m" * 2000} for n in range(100)]
    with (root.path / "x").open("wb") as file:
        file.seek(1_000_000_000)  # a hole: what lies before the end is never looked at
        file.write(b"\n" + b"".join(map(line, messages)))
    bytes_read = 0

    def counted(descriptor: int, length: int, offset: int) -> bytes:
        nonlocal bytes_read
        bytes_read += length
        return pread(descriptor, length, offset)

    pread = os.pread
    monkeypatch.setattr(os, "pread", counted)
    for _ in range(5):
        assert read_last(root, "x", 10).records == tuple(messages[-10:])
    assert last_record(root, "x") == messages[-1]
    append_records(root, "x", [THIRD])
    assert bytes_read < 1_000_000


def test_records_that_could_not_be_read_back_are_refused_before_anything_is_written(root: Root) -> None:
    for bad in ({"n": float("nan")}, {"text": "x" * LINE_LIMIT}):
        with pytest.raises(BadInput):
            append_records(root, "x", [FIRST, bad])
    assert not root.exists("x")
    half = {"text": "\ud83d"}
    append_records(root, "x", [half])
    assert last_record(root, "x") == half


def test_f3_links_and_hard_links_are_refused(root: Root, tmp_path: Path) -> None:
    (tmp_path / "target").write_bytes(b"")
    (tmp_path / "link").symlink_to(tmp_path / "target")
    os.link(tmp_path / "target", tmp_path / "hard")
    for name in ("link", "hard"):
        with pytest.raises(Refused):
            append_records(root, name, [FIRST])
    (tmp_path / "torn.corrupt").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "torn").write_bytes(b'{"se')
    with pytest.raises(Refused):
        append_records(root, "torn", [FIRST])
    assert (tmp_path / "torn").read_bytes() == b'{"se'
    assert not (tmp_path / "elsewhere").exists()


def test_many_threads_append_and_nothing_is_lost(root: Root) -> None:
    def write(writer: int) -> None:
        for number in range(20):
            append_records(root, "x", [{"writer": writer, "number": number}, {"pad": "x" * 5000}])

    threads = [threading.Thread(target=write, args=(writer,)) for writer in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = read_all(root, "x")
    assert found.skipped == 0
    for writer in range(8):
        numbers = [record["number"] for record in found.records if record.get("writer") == writer]
        assert numbers == list(range(20))


def test_d8_an_append_to_a_file_that_was_just_replaced_is_made_again(root: Root) -> None:
    root.replace("x", "old\n")
    calls = []

    def write(descriptor: int) -> None:
        calls.append(descriptor)
        if len(calls) == 1:
            root.replace("x", "edited\n")
        os.write(descriptor, b"ours\n")

    root.extend("x", write)
    assert root.read_text("x") == "edited\nours\n"
    with pytest.raises(Refused, match="keeps being replaced"):
        root.extend("x", lambda _: root.replace("x", "edited\n") and None)


APPEND = """
import sys
from pathlib import Path
from agent_worker.files.root import Root
from agent_worker.files.jsonl import append_records, last_record
root = Root(Path(sys.argv[1]))
done = (last_record(root, "x") or {"seq": 0})["seq"]
for seq in range(done + 1, 6):
    append_records(root, "x", [{"seq": seq, "text": "é" * 100}])
"""


def run(root: Root, failpoints: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"AGENT_WORKER_FAILPOINTS": failpoints}
    command = [sys.executable, "-c", APPEND, str(root.path)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=PATIENCE)


@pytest.mark.parametrize(("point", "stored"), [("before_append", 2), ("after_append", 3), ("after_fsync", 3)])
def test_d7_an_outbox_killed_anywhere_goes_on_without_loss_or_repeat(root: Root, point: str, stored: int) -> None:
    assert run(root, f"outbox.{point}=kill:3").returncode == -signal.SIGKILL
    assert len(read_all(root, "x").records) == stored
    assert run(root, "").returncode == 0
    assert [record["seq"] for record in read_all(root, "x").records] == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("fault", ["before_append=enospc:3", "after_append=eio:3"])
def test_d7_an_append_that_failed_is_taken_back(root: Root, fault: str) -> None:
    assert "OSError" in run(root, f"outbox.{fault}").stderr
    assert [record["seq"] for record in read_all(root, "x").records] == [1, 2]
