"""The teams that `init` and the page set up: files that are copied into a project, with the backend that was chosen."""

from __future__ import annotations

import re
from importlib import resources
from pathlib import Path

from agent_worker.core.preferred import PROGRAMS
from agent_worker.files.root import Root

_MOCK = "backend: mock\n"
_SCRIPT = re.compile(r"^(  \w+):\n    ref: (\w+)\n    script:.*\n(?:      .*\n)+", re.MULTILINE)  # of a template


def write_team(template: str, target: Path, backend: str, model: str | None) -> tuple[list[str], list[str]]:
    """Copy a template's files into a project, with this backend for its agents; the names of those written, and of
    those that were there already. Of these the mock agents that we wrote and nobody changed are made real."""
    with resources.as_file(resources.files("agent_worker.definitions") / "templates" / template) as source:
        return _write_new(source, target, _settings(backend, model))


def _settings(backend: str, model: str | None) -> str:
    access = "access: read   # edit lets it change files, full do anything\n" if backend in PROGRAMS else ""
    return f"backend: {backend}\n{access}" + (f"model: {model}\n" if model else "")


def _write_new(source: Path, target: Path, settings: str) -> tuple[list[str], list[str]]:
    written, kept, files = [], [], Root(target)
    for file in sorted(p for p in source.rglob("*") if p.is_file()):
        name, mock = str(file.relative_to(source)), file.read_text("utf-8")
        wanted = mock if settings == _MOCK else _SCRIPT.sub(r"\1: { ref: \2 }\n", mock).replace(_MOCK, settings)
        if files.exists(name) and not (wanted != mock and files.read_bytes(name) == mock.encode()):
            kept.append(name)
        else:
            files.replace(name, wanted)
            written.append(name)
    return written, kept
