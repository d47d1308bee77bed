"""Events out of bytes, however they were cut."""

from __future__ import annotations

import pytest

from agent_worker.backends.models.event_stream import EventReader

STREAM = b'event: a\ndata: {"x":\ndata: 1}\n\n: keep-alive\n\nid: 7\ndata:two\r\n\r\nretry: 5\rdata: three\r\rdata: cut'


def events(*chunks: bytes) -> list[bytes]:
    stream = EventReader()
    return [data for chunk in chunks for data in stream.feed(chunk)]


def test_an_event_is_its_lines_of_data() -> None:
    assert events(STREAM) == [b'{"x":\n1}', b"two", b"three"]


@pytest.mark.parametrize("size", [1, 2, 3, 5, 8, 13])
def test_it_does_not_matter_where_a_stream_is_cut(size: int) -> None:
    chunks = [STREAM[at : at + size] for at in range(0, len(STREAM), size)]
    assert events(*chunks) == events(STREAM)


def test_a_line_end_that_is_cut_in_two_is_one() -> None:
    assert events(b"data: a\r", b"\ndata: b\r", b"\n\r", b"\n") == [b"a\nb"]


def test_a_byte_order_mark_is_no_part_of_the_first_line() -> None:
    assert events(b"\xef\xbb\xbfdata: a\n\n") == [b"a"]


def test_what_is_cut_off_is_not_an_event() -> None:
    assert events(b"data: a\n") == []


def test_a_long_line_is_put_together_once() -> None:
    """A line of 64 MB comes in thousands of pieces: joining them at each one would take for ever."""
    piece = b"x" * 8192
    assert events(b"data: ", *[piece] * 8192, b"\n\n") == [piece * 8192]
