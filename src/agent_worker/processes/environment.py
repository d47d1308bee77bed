"""What a child process may know of ours."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

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
