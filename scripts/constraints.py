"""Write the versions of all libraries that a release was tested with: constraints.txt, and the same for uv.

`pip install -c constraints.txt agent-worker` takes exactly these, and so does `uv run` in a checkout, through
`constraint-dependencies` in pyproject.toml. Both come from one resolution, of the newest versions that pyproject.toml
allows; run the tests afterwards.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent
HEAD = "# Made by `uv run poe constraints`: what this was tested with. pip install -c constraints.txt agent-worker\n"
_PIN = re.compile(r"[A-Za-z0-9._-]+==[^\s;]+( ; .+)?")
_FOR_UV = re.compile(r"(?ms)^constraint-dependencies = \[\n.*?^\]\n")


def main() -> None:
    pyproject = ROOT / "pyproject.toml"
    found = pins(resolved(for_uv(pyproject.read_text(), [])))
    (ROOT / "constraints.txt").write_text(HEAD + "".join(f"{pin}\n" for pin in found))
    pyproject.write_text(for_uv(pyproject.read_text(), found))


def resolved(pyproject: str) -> str:
    """What uv would install for this project, written as requirements. Resolved elsewhere: our own lock stays."""
    with tempfile.TemporaryDirectory() as place:
        (Path(place) / "pyproject.toml").write_text(pyproject)
        command = ["uv", "export", "--project", place, "--no-dev", "--all-extras", "--no-emit-project"]
        command += ["--no-hashes", "--no-annotate", "--no-header", "--quiet"]
        return subprocess.run(command, cwd=place, check=True, capture_output=True, text=True).stdout


def pins(exported: str) -> list[str]:
    """The lines that name a version. Whatever else there is, an address of an index for example, is an error."""
    lines = [line.strip() for line in exported.splitlines() if line.strip() and not line.startswith("#")]
    strange = [line for line in lines if not _PIN.fullmatch(line) or "://" in line]
    if strange:
        raise ValueError(f"not a version of a library: {strange}")
    return sorted(lines)


def for_uv(pyproject: str, found: list[str]) -> str:
    """pyproject.toml with these as constraints for uv."""
    listed = "".join(f'  "{pin}",\n' for pin in found)
    written, count = _FOR_UV.subn(lambda _: f"constraint-dependencies = [\n{listed}]\n", pyproject)
    if count != 1:
        raise ValueError("pyproject.toml has no list constraint-dependencies")
    tomllib.loads(written)
    return written


if __name__ == "__main__":
    main()
