"""A process that the nursery makes is as `python -m` would have made it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.shells import nursery

TELLS = """
import json, os, sys
asked = sys.stdin.read()
known = {name: os.environ[name] for name in ("PATH", "A_WORD") if name in os.environ}
streams = [(each.encoding, each.errors, each.isatty()) for each in (sys.stdin, sys.stdout, sys.stderr)]
leads = os.getsid(0) == os.getpid()
told = [sys.argv, sorted(known.items()), os.getcwd(), asked, streams, sys.path[0], __name__, leads]
print(json.dumps(told), len(os.listdir("/proc/self/fd")))
print("to those who read errors", file=sys.stderr)
"""
ENDS = {
    "by itself": "",
    "with a code": "raise SystemExit(7)",
    "with a sentence": "raise SystemExit('it is enough')",
    "by an error": "import pathlib\npathlib.Path('nowhere').read_text()",
    "by a signal": "import os, signal\nos.kill(os.getpid(), signal.SIGTERM)",
    "with something to do at the end": "import atexit\natexit.register(print, 'goodbye')",
    "with a thread": "import threading\nthreading.Timer(0.05, print, ['late']).start()",
}


def both(folder: Path, source: str, *arguments: str, stdin: str = "") -> list[subprocess.CompletedProcess[str]]:
    env = {"PATH": os.environ["PATH"], "A_WORD": "wörd"}
    (folder / "program.py").write_text(source)
    fresh = subprocess.run(
        [sys.executable, "-m", "program", *arguments],
        cwd=folder,
        env=env,
        input=stdin,
        capture_output=True,
        text=True,
        start_new_session=True,
    )
    return [fresh, nursery.run("program", *arguments, cwd=folder, env=env, stdin=stdin)]


def test_it_has_its_arguments_its_variables_its_place_and_its_descriptors(tmp_path: Path) -> None:
    fresh, forked = both(tmp_path, TELLS, "--one", "two ü", stdin="a line\n")
    assert fresh.returncode == forked.returncode == 0, forked.stderr
    assert json.loads(forked.stdout.rpartition(" ")[0]) == json.loads(fresh.stdout.rpartition(" ")[0])
    assert forked.stdout == fresh.stdout
    assert forked.stderr == fresh.stderr


@pytest.mark.parametrize("how", ENDS)
def test_it_ends_as_another_does(tmp_path: Path, how: str) -> None:
    fresh, forked = both(tmp_path, ENDS[how])
    assert (forked.returncode, forked.stdout) == (fresh.returncode, fresh.stdout)
    assert forked.stderr.splitlines()[-1:] == fresh.stderr.splitlines()[-1:]
