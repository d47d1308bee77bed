"""What a change or a query sees of the database: rows by name, and no secret in what is written."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import apsw

from agent_worker.core.events import Event
from agent_worker.core.redaction import SHORTEST, redacted
from agent_worker.database.columns import plan_of
from agent_worker.database.database import Row, Soon

Redact = Callable[[str], str]


class StoredTransaction:
    """What transactions of SQLite and PostgreSQL have in common: all but how a statement is run."""

    def __init__(self, redact: Redact = str, here: str = "") -> None:
        self._redact = redact
        self.here = here  #: this host, which statements know as `:here`
        self.told: list[Event] = []
        self._looked: dict[int, tuple[str, str]] = {}  # texts of this change, as they were and without secrets

    def of(self, project: str) -> ProjectTransaction:
        return ProjectTransaction(self, project)

    def run(self, sql: str, **values: object) -> None:
        self.send(sql, values)

    def changed(self, sql: str, **values: object) -> int:
        return self.counted(sql, values)

    def one(self, sql: str, **values: object) -> Row | None:
        rows = self.rows(sql, values)
        return rows[0] if rows else None

    def all(self, sql: str, **values: object) -> list[Row]:
        return self.rows(sql, values)

    def one_soon(self, sql: str, **values: object) -> Soon[Row | None]:
        return _first(self.rows_soon(sql, values))

    def all_soon(self, sql: str, **values: object) -> Soon[list[Row]]:
        return self.rows_soon(sql, values)

    def send(self, sql: str, values: dict[str, Any]) -> object:
        raise NotImplementedError

    def counted(self, sql: str, values: dict[str, Any]) -> int:
        raise NotImplementedError

    def rows(self, sql: str, values: dict[str, Any]) -> list[Row]:
        raise NotImplementedError

    def rows_soon(self, sql: str, values: dict[str, Any]) -> Soon[list[Row]]:
        found = self.rows(sql, values)
        return lambda: found

    def redact(self, text: str) -> str:
        if "\0" in text:  # no text of PostgreSQL holds it, so none here does: as people see it elsewhere
            text = text.replace("\0", "␀")
        if len(text) < SHORTEST:
            return text
        if known := self._looked.get(id(text)):  # whoever asked before storing it stores the same
            return known[1]
        return self._remembered(text, self._redact(text))

    def _remembered(self, text: str, hidden: str) -> str:
        self._looked[id(text)] = (text, hidden)  # which holds it: its id is nobody else's meanwhile
        self._looked[id(hidden)] = (hidden, hidden)
        return hidden

    def tell(self, event: Event) -> None:
        self.told.append(event)

    def begin_change(self) -> None:
        self.told = []
        self._looked.clear()

    def redact_json(self, text: str) -> str:
        """Redact JSON string by string: what only looks like a secret across two strings stays whole."""
        if known := self._looked.get(id(text)):
            return known[1]
        if (hidden := self._redact(text)) != text:
            with suppress(ValueError, RecursionError):  # it was none
                hidden = json.dumps(redacted(json.loads(text), self._redact), ensure_ascii=False)
        return self._remembered(text, hidden)

    def _hidden(self, sql: str, values: dict[str, object]) -> dict[str, object]:
        """Secrets are taken out here, by the columns they would end in, where nobody can forget to."""
        values["here"] = self.here
        plan = plan_of(sql)
        if not plan.texts and not plan.json:  # as of all that is read
            return values
        for name in plan.texts:
            if isinstance(value := values.get(name), str):
                values[name] = self.redact(value)
        for name in plan.json:
            if isinstance(value := values.get(name), str):
                values[name] = self.redact_json(value)
        return values


def _first(rows: Soon[list[Row]]) -> Soon[Row | None]:
    return lambda: next(iter(rows()), None)


class SqliteTransaction(StoredTransaction):
    def __init__(self, connection: apsw.Connection, redact: Redact = str) -> None:
        super().__init__(redact)
        self.connection = connection
        self._names: dict[str, tuple[str, ...]] = {}

    def send(self, sql: str, values: dict[str, Any]) -> object:
        return self.connection.execute(sql, self._hidden(sql, values))

    def counted(self, sql: str, values: dict[str, Any]) -> int:
        before = self.connection.total_changes()
        self.connection.execute(sql, self._hidden(sql, values))
        return self.connection.total_changes() - before

    def rows(self, sql: str, values: dict[str, Any]) -> list[Row]:
        try:
            return self._rows(sql, values)
        except UnicodeDecodeError as error:
            raise apsw.CorruptError(f"a text is not UTF-8: {error}") from None

    def _rows(self, sql: str, values: dict[str, object]) -> list[Row]:
        cursor = self.connection.execute(sql, self._hidden(sql, values))
        names = self._names.get(sql)
        if names is None:
            try:
                names = tuple(name for name, _ in cursor.get_description())
            except apsw.ExecutionCompleteError:  # no row, no columns to name
                return []
            self._names[sql] = names
        return [dict(zip(names, row, strict=True)) for row in cursor]


class ProjectTransaction:
    """The same transaction, about the rows of one project: its statements know it as `:project`."""

    __slots__ = ("_whole", "project")

    def __init__(self, whole: StoredTransaction, project: str) -> None:
        self._whole = whole
        self.project = project

    def run(self, sql: str, **values: object) -> None:
        values["project"] = self.project
        self._whole.send(sql, values)

    def changed(self, sql: str, **values: object) -> int:
        values["project"] = self.project
        return self._whole.counted(sql, values)

    def one(self, sql: str, **values: object) -> Row | None:
        values["project"] = self.project
        rows = self._whole.rows(sql, values)
        return rows[0] if rows else None

    def all(self, sql: str, **values: object) -> list[Row]:
        values["project"] = self.project
        return self._whole.rows(sql, values)

    def one_soon(self, sql: str, **values: object) -> Soon[Row | None]:
        values["project"] = self.project
        return _first(self._whole.rows_soon(sql, values))

    def all_soon(self, sql: str, **values: object) -> Soon[list[Row]]:
        values["project"] = self.project
        return self._whole.rows_soon(sql, values)

    def redact(self, text: str) -> str:
        return self._whole.redact(text)

    def redact_json(self, text: str) -> str:
        return self._whole.redact_json(text)

    def tell(self, event: Event) -> None:
        object.__setattr__(event, "project", self.project)  # nobody else has seen it yet
        self._whole.tell(event)
