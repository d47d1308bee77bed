"""A disk for SQLite whose power can be cut: what was not synced is lost, kept or torn, as chance will have it."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import apsw

NAME = "powercut"


@dataclass
class Content:
    """One file: what the last sync has made safe, and what was done to it since."""

    safe: bytes = b""
    since: list[tuple[int, bytes | None]] = field(default_factory=list)  #: offset and data; None truncates there

    def after_cut(self, chance: random.Random) -> bytes:
        content = bytearray(self.safe)
        keep = chance.choice((0.0, 0.5, 0.9))  # of what was on its way, in no order
        for offset, data in self.since:
            if chance.random() >= keep:
                continue
            if data is None:
                del content[offset:]
                continue
            if chance.random() < 0.2:
                data = data[: chance.randrange(len(data) + 1)]  # torn
            content.extend(bytes(max(0, offset - len(content))))
            content[offset : offset + len(data)] = data
        return bytes(content)


class Disk(apsw.VFS):
    def __init__(self) -> None:
        self.files: dict[str, Content] = {}
        super().__init__(NAME, "")

    def xOpen(self, name: apsw.URIFilename | str | None, flags: list[int]) -> CutFile:
        path = Path(name.filename() if isinstance(name, apsw.URIFilename) else str(name))
        safe = path.read_bytes() if path.exists() else b""
        return CutFile(self.files.setdefault(path.name, Content(safe)), name, flags)

    def cut(self, folder: Path, chance: random.Random) -> None:
        """What would be on the disk if the power went now."""
        folder.mkdir()
        for name, content in self.files.items():
            (folder / name).write_bytes(content.after_cut(chance))


class CutFile(apsw.VFSFile):
    def __init__(self, content: Content, name: Any, flags: list[int]) -> None:
        super().__init__("", name, flags)
        self._content = content

    def xWrite(self, data: bytes, offset: int) -> None:
        super().xWrite(data, offset)
        self._content.since.append((offset, bytes(data)))

    def xTruncate(self, size: int) -> None:
        super().xTruncate(size)
        self._content.since.append((size, None))

    def xSync(self, flags: int) -> None:
        super().xSync(flags)
        self._content.safe = bytes(self.xRead(self.xFileSize(), 0))
        self._content.since.clear()
