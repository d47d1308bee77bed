"""Install what some tests need from elsewhere: from Debian (PostgreSQL, Chromium and others), npm and PyPI.

Where that is not possible (no root, no apt, no npm, no network) it says what is missing and ends well: the tests that
need it skip, and say so too.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

TOOLS = Path(__file__).parent.parent / ".tools"
PATIENCE = 600  #: seconds for each of apt and npm
#: npm package → version. Pinned: npm would pick an older one where Node is too old for its installer.
PROGRAMS = {
    "@modelcontextprotocol/inspector-cli": "0.15.0",
    "@modelcontextprotocol/client": "2.4.0",
    "@modelcontextprotocol/ext-tasks": "0.2.2",
    "@anthropic-ai/claude-code": "2.1.325",
    "@openai/codex": "0.166.0",
    "opencode-ai": "1.18.33",
    "@google/gemini-cli": "0.61.0",
    "acpx": "0.19.1",
    "@agentclientprotocol/sdk": "2.4.0",
    "axe-core": "4.14.0",
}
#: PyPI package → version. They live beside the project, not in it: what they need is no business of ours.
PYTHON_PROGRAMS = {"llm": "0.36"}
#: command → Debian package
PACKAGES = {
    "bwrap": "bubblewrap",
    "chromium": "chromium",
    "flock": "util-linux",
    "pg_ctlcluster": "postgresql",
    "pgbouncer": "pgbouncer",
    "setpriv": "util-linux",
    "unshare": "util-linux",
}


def main() -> None:
    for what, why in (system_packages(), programs(), python_programs()):
        if what:
            print(
                f"not installed, because {why}: {', '.join(what)}. The tests that need it will skip.", file=sys.stderr
            )


def system_packages() -> tuple[list[str], str]:
    """What is still missing, and why."""
    wanted = sorted({package for command, package in PACKAGES.items() if shutil.which(command) is None})
    if not wanted:
        return [], ""
    if shutil.which("apt-get") is None:
        return wanted, "there is no apt-get"
    if os.geteuid() != 0:
        return wanted, "only root can install packages"
    env = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    _succeeds(["apt-get", "-qq", "update"], env)
    done = _succeeds(["apt-get", "-qq", "install", "-y", *wanted], env)
    return ([], "") if done else (wanted, "apt-get could not do it")


def programs() -> tuple[list[str], str]:
    wanted = [f"{name}@{version}" for name, version in PROGRAMS.items() if installed(name) != version]
    if not wanted:
        return [], ""
    npm = shutil.which("npm")
    if npm is None:
        return wanted, "there is no npm"
    quiet = ["--no-audit", "--no-fund", "--loglevel=error", "--fetch-retries=1"]
    done = _succeeds([npm, "install", "--prefix", str(TOOLS), *quiet, *wanted], dict(os.environ))
    return ([], "") if done else (wanted, "npm could not do it")


def python_programs() -> tuple[list[str], str]:
    place = TOOLS / "python"
    known = {path.name for path in place.glob("lib/python*/site-packages/*.dist-info")}
    wanted = [f"{name}=={v}" for name, v in PYTHON_PROGRAMS.items() if f"{name}-{v}.dist-info" not in known]
    if not wanted:
        return [], ""
    uv = shutil.which("uv")
    if uv is None:
        return wanted, "there is no uv"
    env = dict(os.environ)
    made = place.exists() or _succeeds([uv, "venv", "--quiet", str(place)], env)
    done = made and _succeeds([uv, "pip", "install", "--quiet", "--python", str(place / "bin/python"), *wanted], env)
    return ([], "") if done else (wanted, "uv could not do it")


def installed(name: str) -> str:
    """The version of an npm package that is here; '' without it."""
    try:
        described = (TOOLS / "node_modules" / name / "package.json").read_text()
    except OSError:
        return ""
    return str(json.loads(described)["version"])


def _succeeds(command: list[str], env: dict[str, str]) -> bool:
    try:
        done = subprocess.run(command, check=False, stdout=subprocess.DEVNULL, env=env, timeout=PATIENCE)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


if __name__ == "__main__":
    main()
