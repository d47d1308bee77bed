"""The keys of model providers: where each comes from, and which of several counts.

In this order: what the person stored with `agent-worker key set`, the `.env` of a project that they approved, the
environment of this process, and what a client brought from its own with a request. The last is kept in memory only,
and only for providers that have no key here. Whatever becomes known is registered with the redactor first.
Which host a key may go to is decided elsewhere (providers.py), for all of them alike.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import field
from pathlib import Path
from typing import Literal

from agent_worker.core.errors import BadInput, NotFound, Refused
from agent_worker.core.later import dataclass
from agent_worker.core.provider_variables import KEY_VARIABLES, KEYS, can_use, key_variable, more_of, owner_of
from agent_worker.core.redaction import Redactor
from agent_worker.definitions.project_files import ProjectFiles
from agent_worker.files.root import Root
from agent_worker.trust.gate import Gate
from agent_worker.trust.project_keys import keys_in_env_file, power_of_keys, unread

FILE = "keys.json"
_LARGEST = 1024 * 1024
_LONGEST = 8 * 1024  # characters of a key

Source = Literal["stored", "project", "daemon", "client", "unapproved"]


@dataclass(frozen=True, slots=True)
class KeyFound:
    """A key that there is; it is never shown itself."""

    variable: str
    provider: str  #: '' for a key of nobody we know
    source: Source  #: `unapproved`: a project brings it, and it is not used yet


@dataclass(slots=True)
class KeyRing:
    environ: Mapping[str, str] = field(repr=False)
    redact: Redactor
    home: Root | None = None  #: where stored keys are kept; None: this process keeps none
    gate: Gate | None = None
    attended: bool = True  #: there is a person who can set a key
    _stored: dict[str, str] = field(default_factory=dict, repr=False)
    _projects: dict[Path, dict[str, str]] = field(default_factory=dict, repr=False)
    _unapproved: dict[Path, frozenset[str]] = field(default_factory=dict)  # names
    _unread: dict[Path, str] = field(default_factory=dict)  # why the `.env` of a project gives none
    _brought: dict[str, dict[str, str]] = field(default_factory=dict, repr=False)  # by provider

    def __post_init__(self) -> None:
        self._stored = self._read()
        self.redact.register(self._stored.values())

    @property
    def can_wait(self) -> bool:
        """Whether a key that is missing may yet come."""
        return self.attended and self.home is not None

    def of(self, root: Path | None = None) -> ProjectEnvironment:
        """The environment as agents of this project see it, now and later."""
        return ProjectEnvironment(self, root)

    def set(self, name: str, value: str) -> str:
        """Store a key under its provider's name or its own, in place of an older one. The variable. Blocks."""
        variable, value = key_variable(name), value.strip()
        if not value or len(value) > _LONGEST or not value.isprintable() or " " in value:
            raise BadInput("this is not a key", hint="one line, without spaces")
        self.redact.register([value])
        self._write(self._stored | {variable: value})
        self._brought.pop(owner_of(variable), None)  # so nothing of a client's decides where this one goes
        return variable

    def remove(self, name: str) -> str:
        """Forget a stored key. The variable it was kept under. Blocks."""
        variable = key_variable(name)
        if variable not in self._stored:
            raise NotFound(f"no key is stored under {variable}", hint="agent-worker key list")
        self._write({each: value for each, value in self._stored.items() if each != variable})
        return variable

    def bring(self, given: Mapping[str, str]) -> bool:
        """Take what a client has and we have not, until this process ends. Whether anything is new."""
        before = dict(self._brought)
        for provider in KEYS:
            names = (*KEYS[provider], *more_of(provider))
            found = {name: given[name] for name in names if given.get(name)}
            if can_use(provider, found) and not can_use(provider, {**self.environ, **self._stored}):
                self.redact.register(found[name] for name in found if name in KEY_VARIABLES)
                self._brought[provider] = found
        return self._brought != before

    def look_at(self, project: ProjectFiles) -> None:
        """Read the project's `.env`; what of it is not approved is not used. Blocks."""
        if self.gate is None or self.gate.is_open:
            return  # a program that embeds us has an environment of its own
        keys = keys_in_env_file(project)
        self._unread[project.root] = unread(project.root)
        self.redact.register(keys.values())
        waits = self.gate.unapproved(project.root, power_of_keys(project, keys))
        self._projects[project.root] = {} if waits else keys
        self._unapproved[project.root] = frozenset(keys if waits else ())

    def unread(self, root: Path | None) -> str:
        """Why the `.env` of a project gives no keys, as a sentence; empty if it does, or there is none."""
        return self._unread.get(root, "") if root else ""

    def found(self, name: str, root: Path | None) -> tuple[str, Source] | None:
        """The value that counts for a variable, and where it comes from."""
        project = self._projects.get(root, {}) if root else {}
        if value := self._stored.get(name):
            return value, "stored"
        if value := project.get(name):
            return value, "project"
        if value := self.environ.get(name):
            return value, "daemon"
        provider = owner_of(name)
        if not (value := self._brought.get(provider, {}).get(name)):
            return None
        # All that a client brought for a provider goes together, or its address would be used with another's key.
        return None if can_use(provider, {**self.environ, **project, **self._stored}) else (value, "client")

    def listing(self, root: Path | None = None) -> list[KeyFound]:
        """Every key there is for a project, in the order of providers."""
        project = self._projects.get(root, {}) if root else {}
        known = [variable for variables in KEYS.values() for variable in variables]
        waiting = self._unapproved.get(root, frozenset()) if root else frozenset()
        names = (*known, *sorted({*self._stored, *project, *waiting} - set(known)))
        used = {name: found[1] for name in names if (found := self.found(name, root))}
        waits: dict[str, Source] = {name: "unapproved" for name in names if name in waiting and name not in used}
        return [KeyFound(name, owner_of(name), (used | waits)[name]) for name in names if name in used | waits]

    def names(self, root: Path | None) -> Iterator[str]:
        brought = (name for values in self._brought.values() for name in values)
        project = self._projects.get(root, {}) if root else {}
        return iter(dict.fromkeys((*self.environ, *self._stored, *project, *brought)))

    def _read(self) -> dict[str, str]:
        if self.home is None:
            return {}
        try:
            keys = json.loads(self.home.read_bytes(FILE, limit=_LARGEST))["keys"]
            return {name: value for name, value in keys.items() if isinstance(value, str)}
        except NotFound:
            return {}
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            raise Refused(
                f"{self.home.location(FILE)} cannot be read", hint="remove it, then set the keys again"
            ) from None

    def _write(self, keys: dict[str, str]) -> None:
        if self.home is None:
            raise Refused("nothing is kept here: there is no home", hint="use the daemon")
        self.home.replace(FILE, json.dumps({"version": 1, "keys": keys}, indent=1))
        self._stored = keys


class ProjectEnvironment(Mapping[str, str]):
    """The environment of this process with the keys of a project in it, looked up anew each time."""

    def __init__(self, ring: KeyRing, root: Path | None) -> None:
        self._ring = ring
        self._root = root

    @property
    def unread(self) -> str:
        return self._ring.unread(self._root)

    def __getitem__(self, name: str) -> str:
        if found := self._ring.found(name, self._root):
            return found[0]
        return self._ring.environ[name]  # set to nothing, or not at all

    def __iter__(self) -> Iterator[str]:
        return self._ring.names(self._root)

    def __len__(self) -> int:
        return sum(1 for _ in self)
