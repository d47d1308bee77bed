"""What a change or a query sees of SQLite: rows by name, and no secret in what is written."""

from __future__ import annotations

from collections.abc import Callable

import apsw

from agent_worker.events import Event
from agent_worker.storage.database import Row

Redact = Callable[[str], str]

TEXTS = frozenset(
    {"text", "reply", "result", "reason", "arguments", "prompt", "answer", "status", "tool"}
    | {"question", "options", "choice", "outcome", "fallback"}
)
"""Parameters that hold what somebody wrote. A text that is known by its hash is called `body`: whoever makes the hash
calls `redact` before."""


class SqliteTransaction:
    def __init__(self, connection: apsw.Connection, redact: Redact = str) -> None:
        self.connection = connection
        self._redact = redact
        self._names: dict[str, tuple[str, ...]] = {}
        self.told: list[Event] = []
        self.hid = False  #: a secret was taken out of what this change stores
        self._clean = ""  # what was looked through last

    def run(self, sql: str, **values: object) -> int:
        before = self.connection.total_changes()
        self.connection.execute(sql, self._hidden(values))
        return self.connection.total_changes() - before

    def one(self, sql: str, **values: object) -> Row | None:
        rows = self.all(sql, **values)
        return rows[0] if rows else None

    def all(self, sql: str, **values: object) -> list[Row]:
        try:
            return self._rows(sql, values)
        except UnicodeDecodeError as error:
            raise apsw.CorruptError(f"a text is not UTF-8: {error}") from None

    def _rows(self, sql: str, values: dict[str, object]) -> list[Row]:
        cursor = self.connection.execute(sql, self._hidden(values))
        names = self._names.get(sql)
        if names is None:
            try:
                names = tuple(name for name, _ in cursor.get_description())
            except apsw.ExecutionCompleteError:  # no row, no columns to name
                return []
            self._names[sql] = names
        return [dict(zip(names, row, strict=True)) for row in cursor]

    def redact(self, text: str) -> str:
        if text is self._clean:  # whoever asked before storing it stores the same
            return text
        if (hidden := self._redact(text)) != text:
            self.hid = True
        self._clean = hidden
        return hidden

    def tell(self, event: Event) -> None:
        self.told.append(event)

    def begin_change(self) -> None:
        self.told = []
        self.hid = False
        self._clean = ""

    def _hidden(self, values: dict[str, object]) -> dict[str, object]:
        """Secrets are taken out here, where nobody can forget to."""
        for name, value in values.items():
            if name in TEXTS and isinstance(value, str):
                values[name] = self.redact(value)
        return values
