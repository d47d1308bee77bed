"""Install what some tests need from the system, where that is possible: bubblewrap, for the sandbox.

Where it is not (no root, no apt), nothing happens, and the tests that need it skip and say so.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

PACKAGES = {"bwrap": "bubblewrap"}  # command → Debian package


def main() -> None:
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
