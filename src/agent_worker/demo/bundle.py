"""The bundled project: a team that reviews a change. Light: `demo` says where it is before it loads the rest."""

from __future__ import annotations

import tempfile
from importlib import resources
from pathlib import Path


def lay_out() -> Path:
    """Write the project into a new temporary directory."""
    root = Path(tempfile.mkdtemp(prefix="agent-worker-demo-"))
    with resources.as_file(resources.files("agent_worker.demo") / "project") as source:
        for file in sorted(source.rglob("*")):
            if file.is_file():
                target = root / file.relative_to(source)
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(file.read_bytes())
    return root
