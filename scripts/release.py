"""Make a release: `uv run poe release 0.2.0`. Writes version and heading of the changelog, builds, and tries the wheel.

The wheel is installed into a fresh environment, with the versions of constraints.txt, and has to show its help and its
demo there. If anything fails, pyproject.toml and CHANGELOG.md are as before. Nothing is committed, tagged or uploaded:
what is left to do is printed.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from datetime import UTC, date, datetime
from pathlib import Path

ROOT = Path(__file__).parent.parent
DIST = ROOT / "dist"
UNRELEASED = "## Unreleased"
_VERSION = re.compile(r"\d+\.\d+\.\d+((a|b|rc)\d+)?")
_OF_PROJECT = re.compile(r'(?m)^version = "([^"]+)"$')


class NotReleased(Exception):
    """Why there is no release; the message is for the person who wanted one."""


def main(arguments: Sequence[str]) -> None:
    if len(arguments) != 1:
        raise NotReleased("say the version: uv run poe release 0.2.0")
    (version,) = arguments
    if not _is_clean():
        raise NotReleased("there are changes that are not committed")
    pyproject, changelog = ROOT / "pyproject.toml", ROOT / "CHANGELOG.md"
    before = {path: path.read_text() for path in (pyproject, changelog)}
    today = datetime.now(UTC).date()
    after = {
        pyproject: with_version(before[pyproject], version),
        changelog: with_heading(before[changelog], version, today),
    }
    try:
        for path, text in after.items():
            path.write_text(text)
        try_out(build(version))
    except BaseException:
        for path, text in before.items():
            path.write_text(text)
        raise
    print(f"dist/ holds {version}, and it works. What is left:")
    # Annotated: a plain tag is not pushed by --follow-tags.
    print(f"  git commit -am 'Release {version}' && git tag -a v{version} -m 'Release {version}'")
    print("  git push --follow-tags && uv publish")


def with_version(pyproject: str, version: str) -> str:
    """pyproject.toml with this version of the project."""
    if not _VERSION.fullmatch(version):
        raise NotReleased(f"{version!r} is not a version: 1.2.3, or 1.2.3rc1")
    found = _OF_PROJECT.search(pyproject)
    if found is None:
        raise NotReleased("pyproject.toml says no version")
    if _order(version) < _order(found[1]):
        raise NotReleased(f"{version} is older than {found[1]}")
    return pyproject[: found.start(1)] + version + pyproject[found.end(1) :]


def with_heading(changelog: str, version: str, day: date) -> str:
    """The changelog with what was unreleased under the version and its day, and room for what comes."""
    if f"\n## {version} " in changelog:
        raise NotReleased(f"the changelog has {version} already")
    before, found, after = changelog.partition(f"\n{UNRELEASED}\n")
    if not found or not after.partition("\n## ")[0].strip():
        raise NotReleased(f"the changelog says nothing under {UNRELEASED!r}")
    before = before.replace(" Nothing is released yet.", "")
    return f"{before}\n{UNRELEASED}\n\n## {version} ({day.isoformat()})\n{after}"


def build(version: str) -> Path:
    """The wheel, made from the source distribution, so that both are known to be whole."""
    wheel = build_into(DIST, ROOT)
    if not wheel.name.startswith(f"agent_worker-{version}-"):
        raise NotReleased(f"{wheel.name} was built, which is not {version}")
    return wheel


def build_into(target: Path, checkout: Path) -> Path:
    _run("uv", "build", "--quiet", "--clear", "--out-dir", str(target), str(checkout))
    (wheel,), (_,) = target.glob("*.whl"), target.glob("*.tar.gz")
    return wheel


def try_out(wheel: Path) -> None:
    """Install the wheel where nothing else is, and use it as a newcomer would."""
    with tempfile.TemporaryDirectory() as place:
        environment = Path(place) / "environment"
        _run("uv", "venv", "--quiet", "--no-project", str(environment))
        python = str(environment / "bin" / "python")
        _run("uv", "pip", "install", "--quiet", "--python", python, "-c", str(ROOT / "constraints.txt"), str(wheel))
        home = {"HOME": place, "AGENT_WORKER_HOME": str(Path(place) / "home")}
        for command in ("--help", "demo"):
            _run(str(environment / "bin" / "agent-worker"), command, cwd=place, **home)


def _order(version: str) -> tuple[tuple[int, ...], tuple[int, str, int]]:
    """What comes before a release (1.2.3rc1) is older than it."""
    numbers, kind, count = re.fullmatch(r"([\d.]+)(?:(a|b|rc)(\d+))?", version).groups()  # type: ignore[union-attr]
    return tuple(map(int, numbers.split("."))), (0, kind, int(count)) if kind else (1, "", 0)


def _is_clean() -> bool:
    done = subprocess.run(["git", "status", "--porcelain"], cwd=ROOT, check=True, capture_output=True, text=True)
    return not done.stdout.strip()


def _run(*command: str, cwd: str | Path = ROOT, **env: str) -> None:
    outside = {name: value for name, value in os.environ.items() if name != "VIRTUAL_ENV"}
    done = subprocess.run(command, cwd=cwd, env=outside | env, capture_output=True, text=True, timeout=600)
    if done.returncode:
        raise NotReleased(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except NotReleased as why:
        sys.exit(f"not released: {why}")
