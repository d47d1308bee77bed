"""Install what some tests need from elsewhere, where that is possible: bubblewrap by apt, the MCP Inspector by npm.

Where it is not (no root, no apt, no npm), nothing happens, and the tests that need it skip and say so.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

TOOLS = Path(__file__).parent.parent / ".tools"
INSPECTOR = "@modelcontextprotocol/inspector-cli@0.15.0"
PACKAGES = {"bwrap": "bubblewrap"}  # command → Debian package


def main() -> None:
    system_packages()
    inspector()


def inspector() -> None:
    if (TOOLS / "node_modules" / "@modelcontextprotocol" / "inspector-cli").exists():
        return
    npm = shutil.which("npm")
    command = ["install", "--prefix", str(TOOLS), "--no-audit", "--no-fund", "--loglevel=error", INSPECTOR]
    if npm is None or subprocess.run([npm, *command], check=False, stdout=subprocess.DEVNULL).returncode:
        print("the MCP Inspector could not be installed; its test will skip", file=sys.stderr)


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
