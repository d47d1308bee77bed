"""The parser of the shell's language, and a process that tries it first where it might take long.

What is wrong in a text costs the parser the more, the more there is of it: 24 kB of `*|` take it seconds, 256 kB
minutes, and in Python everybody else waits meanwhile. So a text that is not short is parsed by a process that has a
second of computing time, and here only if that was enough.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from functools import cache, lru_cache
from typing import TYPE_CHECKING

from agent_worker.processes.environment import safe_environment

if TYPE_CHECKING:
    from tree_sitter import Parser, Tree

SHORT = 1024  #: bytes: at its worst such a text takes some hundredths of a second
SECONDS = 1  #: of computing; a script of 256 kB takes a hundredth of that
PATIENCE = 30.0  #: seconds that it may take, however busy the machine is
COMMAND = (sys.executable, "-P", "-m", "agent_worker.trust.shell_parser")  # -P: nothing is imported from where we are
_TRIED = 64  # texts


def parsed(source: bytes) -> Tree | None:
    """The tree of a text; None if it would take too long."""
    return _parser().parse(source) if len(source) <= SHORT or _is_quick(source) else None


@lru_cache(maxsize=_TRIED)
def _is_quick(source: bytes) -> bool:
    environment = {**safe_environment(()), **{k: v for k, v in os.environ.items() if k.startswith("PYTHON")}}
    try:
        tried = subprocess.run(
            COMMAND,
            input=source,
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=PATIENCE,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return tried.returncode == 0  # else the system has ended it, or it could not even begin


@cache
def _parser() -> Parser:
    """The parser of bash, whose grammar holds that of sh. Imported when first needed: most projects have no command."""
    import tree_sitter
    import tree_sitter_bash

    return tree_sitter.Parser(tree_sitter.Language(tree_sitter_bash.language()))


def main() -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
    _parser().parse(sys.stdin.buffer.read())


if __name__ == "__main__":
    main()
