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
                for folder in reversed(target.relative_to(root).parents):
                    (root / folder).mkdir(mode=0o700, exist_ok=True)
                target.touch(mode=0o600)
                target.write_bytes(file.read_bytes())
    return root
