"""A disk for SQLite that fails at the n-th operation: full or broken, once or from then on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import apsw

NAME = "broken"
Operation = Literal["write", "sync", "truncate", "read"]


@dataclass
class Plan:
    """When to fail, and how. `at` 0 never does and only counts."""

    at: int = 0
    error: type[apsw.Error] = apsw.IOError
    sticky: bool = False
    operations: tuple[Operation, ...] = ("write", "sync", "truncate")
    passed: int = 0
    struck: bool = False

    def pass_by(self, operation: Operation) -> None:
        if operation not in self.operations:
            return
        self.passed += 1
        if self.at and (self.passed == self.at or (self.sticky and self.passed > self.at)):
            self.struck = True
            raise self.error(f"{operation} {self.passed} fails")


class BrokenDisk(apsw.VFS):
    def __init__(self) -> None:
        self.plan = Plan()
        super().__init__(NAME, "")

    def xOpen(self, name: apsw.URIFilename | str | None, flags: list[int]) -> BrokenFile:
        return BrokenFile(self, name, flags)


class BrokenFile(apsw.VFSFile):
    def __init__(self, disk: BrokenDisk, name: Any, flags: list[int]) -> None:
        super().__init__("", name, flags)
        self._disk = disk

    def xWrite(self, data: bytes, offset: int) -> None:
        self._disk.plan.pass_by("write")
        super().xWrite(data, offset)

    def xSync(self, flags: int) -> None:
        self._disk.plan.pass_by("sync")
        super().xSync(flags)

    def xTruncate(self, size: int) -> None:
        self._disk.plan.pass_by("truncate")
        super().xTruncate(size)

    def xRead(self, amount: int, offset: int) -> bytes:
        self._disk.plan.pass_by("read")
        return super().xRead(amount, offset)
