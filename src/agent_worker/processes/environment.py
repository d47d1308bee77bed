"""What a child process may know of ours."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

_BASE = {"HOME", "LANG", "LANGUAGE", "LOGNAME", "SHELL", "TERM", "TMPDIR", "TZ", "USER"}
_CERTIFICATES = {"SSL_CERT_DIR", "SSL_CERT_FILE"}  # where they are, not what they are


def safe_environment(extra: Iterable[str] = (), source: Mapping[str, str] = os.environ) -> dict[str, str]:
    """What a child may know: a base set without secrets, and the variables its definition names."""
    wanted = _BASE | _CERTIFICATES | set(extra)
    chosen = {name: value for name, value in source.items() if name in wanted or name.startswith("LC_")}
    path = source.get("PATH", os.defpath).split(os.pathsep)
    # An empty or relative entry would run whatever lies in the working directory.
    return chosen | {"PATH": os.pathsep.join(entry for entry in path if os.path.isabs(entry))}
