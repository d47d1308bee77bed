"""The environment of a child process: what it may know of ours."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from agent_worker.core.control_files import OURS

#: What every child knows.
BASE = frozenset({"HOME", "LANG", "LANGUAGE", "LOGNAME", "SHELL", "TERM", "TMPDIR", "TZ", "USER"})
_CERTIFICATES = {"SSL_CERT_DIR", "SSL_CERT_FILE"}  # where they are, not what they are


def safe_environment(extra: Iterable[str] = (), source: Mapping[str, str] = os.environ) -> dict[str, str]:
    """What a child may know: a base set without secrets, and the variables its definition names."""
    wanted = BASE | _CERTIFICATES | set(extra)
    chosen = {name: source[name] for name in source if name in wanted or name.startswith("LC_")}
    return chosen | {"PATH": os.pathsep.join(search_path(source))}


def search_path(source: Mapping[str, str] = os.environ) -> list[str]:
    """Where programs are looked for. An empty or relative entry would run what lies in the working directory."""
    return [folder for folder in source.get("PATH", os.defpath).split(os.pathsep) if os.path.isabs(folder)]


def path_of_ours(source: Mapping[str, str] = os.environ) -> str:
    """PATH for what we start by ourselves (git): without folders of a project (`.venv/bin`), in which agents write."""
    seen: dict[str, bool] = {}  # most folders of a PATH lie in the same few
    return os.pathsep.join(folder for folder in search_path(source) if not _is_in_a_project(folder, seen))


def _is_in_a_project(folder: str, seen: dict[str, bool]) -> bool:
    real = Path(os.path.realpath(folder))
    return any(_is_a_project(str(above), seen) for above in (real, *real.parents))


def _is_a_project(folder: str, seen: dict[str, bool]) -> bool:
    if folder not in seen:
        seen[folder] = any(os.path.lexists(os.path.join(folder, name)) for name in OURS)
    return seen[folder]
