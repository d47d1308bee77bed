"""Each command is really run by a shell after a file of the project was changed: what ran, the approval had to cover.

The tables of test_reach.py say what we believe of a command. Here the shell says what it does.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.patience import PATIENCE

from agent_worker.trust.command_reach import reach_of_shell

HARMLESS = "#!/bin/sh\n:\n"
EVIL = "#!/bin/sh\nPATH=/usr/bin:/bin touch evil\n"
NUMBER = "a[$(touch evil)]"  # what bash takes for an expression


@dataclass(frozen=True)
class Case:
    command: str
    changed: str = "x"  #: the file that somebody changes after the approval, or makes
    text: str = EVIL
    files: tuple[tuple[str, str], ...] = ()  #: that the project also has
    shell: str = "sh"
    before: str | None = HARMLESS  #: what was in the file; None: it was not there


def in_bash(command: str, changed: str = "x", text: str = EVIL, before: str | None = HARMLESS) -> Case:
    return Case(command, changed, text, shell="bash", before=before)


def script(command: str, text: str) -> Case:
    return Case(command, files=(("s.sh", text),))


MADE_ON_THE_WAY = [
    Case("cp x ./run && ./run"),
    Case("cat x > ./run; sh ./run"),
    Case("cat x > ./run; sh < ./run"),
    Case("cat x | tee ./run; sh ./run"),
    Case("mkdir -p g && sed s/q/r/ x > g/run && sh g/run"),
    Case("mkdir -p g && cat x > g/run && cd g && sh ./run; mv evil .."),
    Case("mkdir -p g && cp x g/run && . g/run"),
    Case("ln -sf x ./z; ./z"),
    Case("cat x > ./z1; chmod +x z1; ./z?"),
    Case("sort -uo y x; sh ./y", text="touch evil\n", files=(("y", HARMLESS),)),
]
ARGUMENTS = [
    script("sh s.sh test", 'run() { "$@"; }\nrun ./x\n'),
    script("sh s.sh ls", 'run() { "$1"; }\nrun ./x\n'),
    script("sh s.sh ls ./x", 'shift\n"$1"\n'),
    script("sh s.sh A=1 ./x", 'env "$@"\n'),
    script("sh s.sh 5 ./x", 'timeout "$@"\n'),
    script("./s.sh", "#!/bin/sh ./x\n:\n"),
    script("./s.sh", "#!/usr/bin/env -S sh -c ./x\n:\n"),
]
VARIABLES = [
    Case('export "PATH=$PWD:$PATH"; ls', "ls", before=None),
    Case("for PATH in .; do ls; done", "ls", before=None),
    Case("read PATH <<E\n.\nE\nls", "ls", before=None),
    Case("unset PATH; ls", "ls", before=None),
    Case('n=$(cat x); export "$n"; ls', "x", "PATH=.", files=(("ls", EVIL),), before="A=1"),
    Case('y=ls; export "y=./x"; $y'),
    Case("y=; : ${y:=x}; sh ./$y"),
    Case("o=-name; o=-exec; find . -maxdepth 0 $o ./x \\;"),
    Case("a=: b=: c=: d=: e=:; for i in 1 2 3 4 5 6 7; do $a; a=$b; b=$c; c=$d; d=$e; e=./x; done"),
    in_bash("printf -v PATH .; ls", "ls", before=None),
    in_bash('y=ls; declare "y=./x"; $y'),
    in_bash("declare -n r=y; y=ls; r=./x; $y"),
    Case("REPLY=ls; read < x; $REPLY", text="./y\n", files=(("y", EVIL),), shell="bash", before="ls\n"),
    in_bash("a=(./x y); $a"),
    in_bash("y='$(./x)'; echo \"${y@P}\""),
    in_bash("y='a[$(./x)]'; echo ${!y}"),
]
EXPRESSIONS = [
    in_bash(command, text=NUMBER, before="1")
    for command in (
        "n=$(cat x); echo $((n + 1))",
        "read n < x; echo $((n + 1))",
        "echo $(( $(cat x) + 1 ))",
        "n=$(cat x); [[ $n -gt 1 ]]",
        "n=$(cat x); ((n++))",
        "n=$(cat x); for ((i = 0; i < n; i++)); do :; done",
        "n=$(cat x); y=abc; echo ${y:n}",
        "n=$(cat x); a=(1 2); echo ${a[$n]}",
        'n=$(cat x); test -v "$n"',
        'n=$(cat x); printf -v "$n" y',
    )
]
TEXTS = [
    Case("cat <<E\n`./x`\nE"),
    Case("sh <<E\n\\`./x\\`\nE"),
    Case('echo "`echo \\"\\`./x\\`\\"`"'),
    Case("./\\\nx"),
    Case("sh -xs a < x", files=(("a", HARMLESS),)),
    Case("sh < x -s"),
    Case("env > log ./x"),
    Case("timeout 2> log 5 > log ./x"),
    Case("{ env > log sh -c ./x; } > log"),
    Case("env <<E sh ./x\nE\n"),
    Case("echo ./x | xargs --replace=cat sh -c cat"),
    Case("/proc/self/cwd/ls", "ls"),
    in_bash("~+/ls", "ls"),
    in_bash("for f in ./[^s]; do sh $f; done"),
]
#: A file's name takes the place of a pattern, and is an option: `--expression=1esh x` makes sed run `sh x`.
NAMES = [
    Case("sed -n 1p *", "--expression=1esh x", "", files=(("x", EVIL), ("a", "1\n")), before=None),
    Case("ls | xargs sed -n 1p", "--expression=1esh${IFS}x", "", files=(("x", EVIL), ("a", "1\n")), before=None),
]
MANY = [
    Case(
        "for d in p/*/; do (cd $d && ./b); done",
        "p/079/b",
        "#!/bin/sh\ntouch ../../evil\n",
        files=tuple((f"p/{number:03}/b", HARMLESS) for number in range(80)),
    ),
    Case("for f in p/*; do sh $f; done", "p/299", files=tuple((f"p/{number:03}", HARMLESS) for number in range(300))),
]
CASES = [*MADE_ON_THE_WAY, *ARGUMENTS, *VARIABLES, *EXPRESSIONS, *TEXTS, *NAMES, *MANY]


def put(root: Path, name: str, text: str) -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


def approved(command: str, root: Path) -> tuple[bool, dict[str, str]]:
    """What an approval of this command covers: any file, and those with their content."""
    found = reach_of_shell(command, root)
    return bool(found.anything), {file: (root / file).read_text() for file in found.files}


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.shell}: {case.command}"[:60])
def test_Y22_what_a_shell_really_runs_was_covered(tmp_path: Path, case: Case) -> None:
    if shutil.which(case.shell) is None:
        pytest.skip(f"there is no {case.shell}")
    for name, text in case.files:
        put(tmp_path, name, text)
    if case.before is not None:
        put(tmp_path, case.changed, case.before)
    can_run_any_file, before = approved(case.command, tmp_path)
    put(tmp_path, case.changed, case.text)
    is_noticed = approved(case.command, tmp_path)[1] != before
    env = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}
    subprocess.run(
        [case.shell, "-c", case.command],
        cwd=tmp_path,
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=PATIENCE,
    )
    ran = (tmp_path / "evil").exists()
    assert can_run_any_file or is_noticed or not ran


def test_Y22_a_program_in_a_folder_of_the_project_that_is_in_path_is_covered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path, ".venv/bin/tool", HARMLESS)
    monkeypatch.setenv("PATH", f"{tmp_path}/.venv/bin{os.pathsep}{os.environ['PATH']}")
    assert reach_of_shell("ls", tmp_path).files == ()
    put(tmp_path, ".venv/bin/ls", EVIL)
    assert reach_of_shell("ls", tmp_path).files == (".venv/bin/ls",)
