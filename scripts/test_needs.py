"""Install what some tests need from elsewhere, where that is possible: bubblewrap and Chromium by apt, programs by npm.

Where it is not (no root, no apt, no npm), nothing happens, and the tests that need it skip and say so.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

TOOLS = Path(__file__).parent.parent / ".tools"
#: npm package → version. Pinned: npm would pick an older one where Node is too old for its installer.
PROGRAMS = {
    "@modelcontextprotocol/inspector-cli": "0.15.0",
    "@anthropic-ai/claude-code": "2.1.325",
    "@openai/codex": "0.166.0",
    "opencode-ai": "1.18.33",
    "@google/gemini-cli": "0.61.0",
}
PACKAGES = {"bwrap": "bubblewrap", "chromium": "chromium"}  # command → Debian package


def main() -> None:
    system_packages()
    programs()


def programs() -> None:
    wanted = [f"{name}@{version}" for name, version in PROGRAMS.items() if _installed(name) != version]
    if not wanted:
        return
    npm = shutil.which("npm")
    command = ["install", "--prefix", str(TOOLS), "--no-audit", "--no-fund", "--loglevel=error", *wanted]
    if npm is None or subprocess.run([npm, *command], check=False, stdout=subprocess.DEVNULL).returncode:
        print(f"not installed, some tests will skip: {', '.join(wanted)}", file=sys.stderr)


def _installed(name: str) -> str:
    try:
        described = (TOOLS / "node_modules" / name / "package.json").read_text()
    except OSError:
        return ""
    return str(json.loads(described)["version"])


def system_packages() -> None:
    missing = [package for command, package in PACKAGES.items() if shutil.which(command) is None]
    if not missing:
        return
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        print(f"not installed, some tests will skip: {', '.join(missing)}", file=sys.stderr)
        return
    _apt("update")
    if _apt("install", "-y", *missing) != 0:
        print(f"could not install {', '.join(missing)}; some tests will skip", file=sys.stderr)


def _apt(*arguments: str) -> int:
    env = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    return subprocess.run(["apt-get", "-qq", *arguments], check=False, stdout=subprocess.DEVNULL, env=env).returncode


if __name__ == "__main__":
    main()
