"""Reads server-sent events out of bytes, however they are cut into chunks. Knows no protocol and no network."""

from __future__ import annotations

from agent_worker.core.later import pattern

_LINE_END = pattern(rb"\r\n|\n|\r")
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class EventReader:
    """Collects chunks and hands out the data of each event once it is whole.

    The name of an event is not handed out: the protocols we speak repeat it inside the data, or have none. What stands
    behind the last empty line was cut off, and is never handed out.
    """

    def __init__(self) -> None:
        self._rest: list[bytes] = []  # of a line that has not ended: joined once, however long it grows
        self._data: list[bytes] = []  # of an event that has not ended
        self._begun = False

    def feed(self, chunk: bytes) -> list[bytes]:
        if b"\n" not in chunk and b"\r" not in chunk and not self._held_return:
            self._rest.append(chunk)
            return []
        text = b"".join((*self._rest, chunk))
        # A return at the very end may be half of a line end: it waits for what comes next.
        held = b"\r" if text.endswith(b"\r") else b""
        *lines, rest = _LINE_END.split(text.removesuffix(held))
        self._rest = [rest + held]
        return [data for line in lines if (data := self._line(line)) is not None]

    @property
    def _held_return(self) -> bool:
        return bool(self._rest) and self._rest[-1].endswith(b"\r")

    def _line(self, line: bytes) -> bytes | None:
        """The data of the event that this line ends; None for every other line."""
        if not self._begun:
            self._begun = True
            line = line.removeprefix(_BYTE_ORDER_MARK)
        if line:
            field, _, value = line.partition(b":")
            if field == b"data":
                self._data.append(value.removeprefix(b" "))
            return None
        data, self._data = self._data, []
        return b"\n".join(data) if data else None
