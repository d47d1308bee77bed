"""A command is approved together with every file it can be seen to run; one that can run others says so.

The tables are run twice: what is covered, and whether a file that is changed afterwards needs another yes.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_worker.core.clock import TestClock
from agent_worker.definitions.project_files import load_project
from agent_worker.files.root import Root
from agent_worker.trust.command_knowledge import Reach
from agent_worker.trust.command_reach import reach_of_program, reach_of_shell
from agent_worker.trust.powers import ANY_FILE, Power, powers_of
from agent_worker.trust.store import NotApproved, TrustStore, kept_in

FILES = {
    "helper": "echo helper\n",
    "env.inc": "export X=1\n",
    "a.sh": "echo a\n",
    "tools/build.sh": "#!/bin/sh\n./other.sh\n",
    "tools/other.sh": "echo other\n",
    "tools/beside.sh": '#!/bin/bash\nDIR="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"\n. "$DIR/lib.sh"\n',
    "tools/lib.sh": "echo lib\n",
    "tools/passes.sh": 'exec "$1"\n',
    "tools/odd": "#!./sh\necho\n",
    "tools/calls.sh": 'run() { "$@"; }\nrun ./a.sh\n',
    "scripts/one.sh": "echo 1\n",
    "scripts/two.sh": "echo 2\n",
    "x.py": "print(1)\n",
    "x.awk": "{print}\n",
    "x.rb": "puts 1\n",
    "pkg/__init__.py": "",
    "pkg/__main__.py": "print(1)\n",
    "Makefile": "include more.mk\nall:\n\t./scripts/one.sh\n",
    "more.mk": "more:\n\techo\n",
    "sub/Makefile": "all:\n\techo\n",
    "sub/package.json": "{}",
    "package.json": '{"scripts": {"test": "./scripts/two.sh", "lint": "./a.sh"}}',
    "pyproject.toml": "",
    "conftest.py": "",
    "justfile": "",
    "Taskfile.yml": "",
    "Rakefile": "",
    "Gemfile": "",
    "Cargo.toml": "",
    "build.rs": "",
    "CMakeLists.txt": "",
    "build.gradle": "",
    "pom.xml": "",
    "Dockerfile": "",
    "compose.yaml": "",
    "odd[1]/c.sh": "echo c\n",
    "odd[1]/Makefile": "all:\n",
    "d[1].sh": "echo d\n",
    "e\\f.sh": "echo e\n",
    "notes.md": "notes\n",
    "data.csv": "1\n",
}

#: Everything it runs is seen.
SEEN = {
    "cd tools && ./build.sh": "tools/build.sh tools/other.sh",
    "(cd tools; ./build.sh)": "tools/build.sh tools/other.sh",
    "pushd tools && ./build.sh": "tools/build.sh tools/other.sh",
    "cd ./tools/../scripts; ./one.sh": "scripts/one.sh",
    "cd tools || exit 1\n./build.sh": "tools/build.sh tools/other.sh",
    "env -C tools ./build.sh": "tools/build.sh tools/other.sh",
    'cd "$PWD/tools" && ./build.sh': "tools/build.sh tools/other.sh",
    "tools/build.sh": "tools/build.sh",
    "tools/beside.sh": "tools/beside.sh tools/lib.sh",
    "tools/passes.sh ./a.sh": "tools/passes.sh a.sh",
    "bash helper": "helper",
    "sh -x -e helper now": "helper",
    "dash -o errexit helper": "helper",
    "/bin/bash -- helper": "helper",
    "bash < helper": "helper",
    "sh -s < helper": "helper",
    ". ./env.inc": "env.inc",
    "source env.inc": "env.inc",
    "exec ./a.sh": "a.sh",
    "env A=1 ./a.sh": "a.sh",
    "A=1 ./a.sh": "a.sh",
    "nice -n 5 ./a.sh": "a.sh",
    "timeout 5 bash helper": "helper",
    "sudo -u me ./a.sh": "a.sh",
    "nohup ./a.sh &": "a.sh",
    "time -p ./a.sh": "a.sh",
    "command ./a.sh": "a.sh",
    "busybox sh helper": "helper",
    "sh -c 'cd tools && ./build.sh'": "tools/build.sh tools/other.sh",
    'bash -ec "./a.sh"': "a.sh",
    "F=./a.sh; bash $F": "a.sh",
    "F=a; ./$F.sh": "a.sh",
    "for f in scripts/*.sh; do sh $f; done": "scripts/one.sh scripts/two.sh",
    "for f in one two; do ./scripts/$f.sh; done": "scripts/one.sh scripts/two.sh",
    "./scripts/*.sh": "scripts/one.sh scripts/two.sh",
    "./scripts/on?.sh": "scripts/one.sh",
    "echo $(./a.sh)": "a.sh",
    "echo `./a.sh`": "a.sh",
    'X="$(bash helper)"': "helper",
    "bash <<E\n./a.sh\nE": "a.sh",
    "bash <<< ./a.sh": "a.sh",
    "if [ -f a.sh ]; then ./a.sh; else bash helper; fi": "a.sh helper",
    "while ! ./a.sh; do sleep 1; done": "a.sh",
    "case $1 in x) ./a.sh;; esac": "a.sh",
    "go() { ./a.sh; }; go": "a.sh",
    "trap ./a.sh EXIT": "a.sh",
    "{ ./a.sh; } 2>&1 | head -5": "a.sh",
    "./a.sh | tee log": "a.sh",
    "./a.sh > out.txt": "a.sh",
    "diff <(./a.sh) notes.md": "a.sh",
    "\"./a.sh\" && './scripts'/one.sh": "a.sh scripts/one.sh",
    "find . -name '*.md' -exec bash helper \\;": "helper",
    "ls | xargs -n 1 bash helper": "helper",
    "sh a.sh <data.csv; cat notes.md": "a.sh",
    "bash -euo pipefail helper": "helper",
    "bash -euo pipefail -c ./a.sh": "a.sh",
    "trap -- ./a.sh EXIT": "a.sh",
    "env -i -u X -- ./a.sh": "a.sh",
    "xargs -0 -n1 -P 4 ./a.sh": "a.sh",
    "tools/calls.sh test": "tools/calls.sh a.sh",
    "i=0; while [ $i -lt 3 ]; do i=$((i + 1)); ./a.sh; done": "a.sh",
    "./[[:alpha:]].sh": "a.sh",
    "cd 'odd[1]' && sh ./c*": "odd[1]/c.sh",
    "cd odd[1] && sh c.sh": "odd[1]/c.sh",
    "sh 'odd[1]'/c*": "odd[1]/c.sh",
    "sh odd\\[1\\]/c*": "odd[1]/c.sh",
    "for f in 'odd[1]'/*.sh; do sh $f; done": "odd[1]/c.sh",
    "sh ./d[1].sh": "d[1].sh",
    ". ./d[1].sh": "d[1].sh",
    "./e\\\\*": "e\\f.sh",
    "F='tools/l*'; sh $F": "tools/lib.sh",
    "F='tools/l*'; X=$F; sh $X": "tools/lib.sh",
    "export F='tools/l*'; sh $F": "tools/lib.sh",
    "for f in 'tools/l*'; do sh $f; done": "tools/lib.sh",
    "F=('tools/l*'); sh ${F[0]}": "tools/lib.sh",
    "echo ${X:-$(./a.sh)}": "a.sh",
    "cat <<E\n$(./a.sh)\nE": "a.sh",
    ">out.txt ./a.sh": "a.sh",
    "cd .. && ./project/a.sh": "a.sh",
    "bash -c 'bash \"$0\"' helper": "helper",
    "bash -c 'cd \"$1\" && ./build.sh' _ tools": "tools/build.sh tools/other.sh",
    "bash 0< helper": "helper",
    "bash -s <<'E'\n./a.sh\nE": "a.sh",
    "if true; then bash; fi < helper": "helper",
    "{ sh; } < helper": "helper",
    "export X=helper; bash $X": "helper",
    "env --chdir=tools ./build.sh": "tools/build.sh tools/other.sh",
    "bash-5.2 helper": "helper",
}

#: They run nothing of the project, whatever lies in it.
NOTHING = [
    "git diff main...HEAD",
    "git -c color.ui=false --no-pager log -5",
    "git diff --ignore-submodules HEAD 2>/dev/null || true",
    "git diff ${{ params.base }}...HEAD 2>/dev/null || cat change.diff",
    "git -c core.fsmonitor=false diff --no-ext-diff --no-textconv --ignore-submodules HEAD 2>/dev/null || true",
    "git rev-parse HEAD",
    "git describe --tags --always",
    "git diff --ignore-submodules=all HEAD",
    "cat change.diff",
    "cat inbox/*.txt",
    "grep -rn 'TODO' --include='*.py' . 2>/dev/null | head -50 || true",
    "printf 'Good morning, %s' ${{ params.name }}",
    "echo bash helper",
    "ls -l | wc -l",
    "date +%F; sort data.csv | uniq -c",
    "jq .name package.json",
    "curl -fsS https://example.com/x.json",
    "awk '{print $1}' data.csv",
    "sed -n 1,5p notes.md",
    "sed 's/a/b/g' notes.md | tr a b",
    "mkdir -p out && echo hi > out/x.txt",
    "find . -name '*.md'",
    "find . -name '*.md' | xargs cat",
    "command -v git",
    "test -f a.sh && echo yes",
]

#: They may run what cannot be seen; the files are those that can.
ANYTHING = {
    "make": "Makefile more.mk scripts/one.sh",
    "make -C sub": "sub/Makefile",
    "make -f more.mk": "more.mk",
    "npm test": "package.json scripts/two.sh",
    "npm run lint": "package.json a.sh",
    "npm --prefix sub ci": "sub/package.json",
    "cd sub && yarn build": "sub/package.json",
    "pnpm install": "package.json",
    "npx jest": "package.json",
    "bun run test": "package.json",
    "python x.py": "x.py",
    "python3.12 -u x.py data.csv": "x.py",
    "python -m pkg": "pkg/__main__.py pkg/__init__.py",
    "python pkg": "pkg/__main__.py",
    "python -m pytest": "pyproject.toml conftest.py",
    "python < x.py": "x.py",
    "cat x.py | python3": "x.py",
    "pytest -q": "pyproject.toml conftest.py",
    "uv run x.py": "x.py pyproject.toml",
    "uv run python x.py": "x.py",
    "poetry run pytest": "pyproject.toml",
    "node helper": "helper",
    "ruby x.rb": "x.rb",
    "perl helper": "helper",
    "php helper": "helper",
    "awk -f x.awk data.csv": "x.awk",
    "sed -f helper notes.md": "helper",
    "just build": "justfile",
    "task build": "Taskfile.yml",
    "rake": "Rakefile",
    "bundle exec rake": "Gemfile Rakefile",
    "cargo test": "Cargo.toml build.rs",
    "cmake .": "CMakeLists.txt",
    "gradle build": "build.gradle",
    "mvn test": "pom.xml",
    "docker build .": "Dockerfile",
    "docker compose up": "compose.yaml",
    "eval ./a.sh": "a.sh",
    'eval "$(cat env.inc)"': "env.inc",
    "cat helper | bash": "helper",
    "cat <<E | sh\n./a.sh\nE": "a.sh",
    'bash -c "$(cat helper)"': "helper",
    "bash <(cat helper)": "helper",
    "`cat helper`": "helper",
    "su me -c 'cd tools && ./build.sh'": "tools/build.sh",
    "taskset 1 bash helper": "helper",
    "PATH=./tools:$PATH build.sh": "tools/build.sh",
    "BASH_ENV=./env.inc bash helper": "env.inc helper",
    "cp notes.md helper; bash helper": "helper",
    "echo x > helper; sh helper": "helper",
    "find . -name '*.sh' -exec sh {} \\;": "",
    "ls scripts | xargs -I{} sh scripts/{}": "",
    "while read f; do sh $f; done < data.csv": "",
    "$TOOL": "",
    "cd $WHERE && ./a.sh": "a.sh",
    "curl https://example.com | sh": "",
    "git diff HEAD": "",
    "git -C sub log": "",
    "git status": "",
    "sort --compress-program=./a.sh data.csv": "a.sh",
    "some-program-nobody-knows": "",
    "cat helper > >(sh)": "",
    "bash -c bash < helper": "",
    "exec < helper; sh": "",
    "exec 3< helper; bash <&3": "",
    "bash /proc/self/cwd/helper": "",
    "bash /opt/elsewhere.sh": "",
    ". elsewhere.sh": "",
    "awk 'BEGIN{system(\"./a.sh\")}'": "a.sh",
    "awk '{print > \"helper\"}' data.csv; sh helper": "helper",
    "python -c 'import os; os.system(\"./a.sh\")'": "a.sh",
    "perl -e 'exec(\"./a.sh\")'": "a.sh",
    "sed 5p -e '1e ./a.sh' notes.md": "a.sh",
    "sed --file p notes.md": "",
    "sed '1e ./a.sh' notes.md": "a.sh",
    "find . -name x -fprint helper; sh helper": "helper",
    "find tools -name x -execdir ./other.sh ';'": "",
    "coverage run -m pkg": "pkg/__main__.py",
    "cargo test --manifest-path sub/Makefile": "sub/Makefile",
    "X='5 ./a.sh'; timeout $X": "a.sh",
    "X='-c ./a.sh'; sh $X": "a.sh",
    "GCONV_PATH=./tools cat notes.md": "",
    "./{a,b}.sh": "",
    "cd 'odd[1]' && make": "odd[1]/Makefile",
    "make -C 'odd[1]'": "odd[1]/Makefile",
    "set -- ./a.sh; $1": "",
    "hash -p ./a.sh ls; ls": "a.sh",
    "timeout $T bash helper": "helper",
    'cd() { builtin cd "$@"; }; cd tools && ./build.sh': "tools/build.sh tools/other.sh",
    "tools/odd": "tools/odd",
    "alias x=./a.sh; x": "a.sh",
    "(( $(./a.sh) > 0 ))": "a.sh",
    "git describe --always --dirty": "",
    "git log -p --submodule=diff": "",
    "git diff --ignore-submodules --ignore-submodules=none HEAD": "",
    "git diff HEAD -- x..y": "",
    "env -Z 5 ./a.sh": "a.sh",
    "sort *": "",
    "if then": "",
    "((((": "",
}


def laid_out(root: Path) -> Path:
    for name, text in FILES.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755 if path.suffix == ".sh" or path.name == "odd" else 0o644)
    return root


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return laid_out(tmp_path / "project")


@pytest.fixture(scope="module")
def untouched() -> Iterator[Path]:
    """One project for all tests that only look."""
    with tempfile.TemporaryDirectory() as folder:
        yield laid_out(Path(folder) / "project")


@pytest.mark.parametrize("command", SEEN)
def test_Y22_every_file_that_a_command_can_be_seen_to_run_is_covered(untouched: Path, command: str) -> None:
    found = reach_of_shell(command, untouched)
    assert set(SEEN[command].split()) <= set(found.files)
    assert found.anything == ()


def test_Y22_the_name_of_a_folder_is_no_pattern(tmp_path: Path) -> None:
    found = reach_of_shell("sh tools/l* && (cd odd* && sh ./c*)", laid_out(tmp_path / "project [12]"))
    assert {"tools/lib.sh", "odd[1]/c.sh"} <= set(found.files)
    assert found.anything == ()


@pytest.mark.parametrize("command", NOTHING)
def test_a_command_that_only_reads_asks_for_nothing_more(untouched: Path, command: str) -> None:
    assert reach_of_shell(command, untouched) == Reach((), ())


@pytest.mark.parametrize("command", ANYTHING)
def test_Y23_what_cannot_be_seen_can_run_any_file(untouched: Path, command: str) -> None:
    found = reach_of_shell(command, untouched)
    assert set(ANYTHING[command].split()) <= set(found.files)
    assert found.anything


@pytest.mark.parametrize(
    ("command", "files", "anything"),
    [
        (["bash", "-c", "cd tools && ./build.sh"], "tools/build.sh tools/other.sh", False),
        (["sh", "helper"], "helper", False),
        (["python", "x.py"], "x.py", True),
        (["python", "-m", "pkg"], "pkg/__main__.py", True),
        (["make", "serve"], "Makefile", True),
        (["npm", "run", "serve"], "package.json", True),
        (["uv", "run", "x.py"], "x.py", True),
        (["some-server", "--config=data.csv"], "data.csv", False),
        (["npx", "-y", "@acme/server"], "", False),
        (["uvx", "some-server"], "", False),
        (["docker", "run", "-i", "acme/server"], "", False),
        (["docker", "compose", "up"], "", True),
        (["python", "-m", "json.tool"], "", False),
    ],
)
def test_Y22_the_command_of_a_server_is_looked_at_too(
    root: Path, command: list[str], files: str, anything: bool
) -> None:
    found = reach_of_program(command, root, root)
    assert set(files.split()) <= set(found.files)
    assert bool(found.anything) is anything


def test_Y22_a_package_that_appears_in_the_project_is_another_command(root: Path) -> None:
    before = reach_of_program(["npx", "-y", "@acme/server"], root, root)
    (root / "node_modules/.bin").mkdir(parents=True)
    (root / "node_modules/.bin/server").write_text("")
    after = reach_of_program(["npx", "-y", "@acme/server"], root, root)
    assert (before.files, before.anything) == ((), ())
    assert after.files == ("node_modules/.bin/server",)
    assert after.anything


def test_Y22_a_link_is_covered_by_where_it_leads(root: Path, tmp_path: Path) -> None:
    (tmp_path / "outside.sh").write_text("echo\n")
    (root / "link.sh").symlink_to(tmp_path / "outside.sh")
    first = setup_power(root, "bash link.sh")
    (root / "link.sh").unlink()
    (root / "link.sh").symlink_to("a.sh")
    assert setup_power(root, "bash link.sh").digest != first.digest


def test_Y22_behind_a_link_the_file_is_covered_that_the_system_finds(root: Path) -> None:
    (root / "deep/er").mkdir(parents=True)
    (root / "deep/x.sh").write_text("echo\n")
    (root / "link").symlink_to("deep/er")
    assert "deep/x.sh" in reach_of_shell("bash link/../x.sh", root).files
    assert "deep/x.sh" in reach_of_shell("cd -P link/.. && bash x.sh", root).files


def test_Y22_a_script_that_runs_itself_ends(root: Path) -> None:
    (root / "a.sh").write_text("./a.sh; ./scripts/one.sh\n")
    assert reach_of_shell("./a.sh", root).files == ("a.sh", "scripts/one.sh")


def test_Y23_scripts_too_deep_to_follow_can_run_any_file(root: Path) -> None:
    for number in range(9):
        (root / f"s{number}").write_text(f"bash s{number + 1}\n")
    found = reach_of_shell("bash s0", root)
    assert "s0" in found.files
    assert found.anything


@pytest.mark.parametrize("text", ["(" * 5000 + "./a.sh" + ")" * 5000, "$(" * 3000, "echo \0", "if " * 20000, "\\", "'"])
def test_Y23_a_text_made_to_break_the_reader_can_run_any_file(root: Path, text: str) -> None:
    assert reach_of_shell(text, root).anything


# ── approved, then changed ──


def setup_power(root: Path, *commands: str) -> Power:
    steps = "".join(f"  - shell: |\n{_indented(command)}\n" for command in commands)
    flow = f"agents: {{a: {{backend: mock}}}}\nsetup:\n{steps}"
    (root / ".workflows").mkdir(exist_ok=True)
    (root / ".workflows/w.yaml").write_text(flow)
    project = load_project(root)
    assert not project.problems, project.problems
    (power,) = powers_of(project, project.workflows["w"])
    return power


def _indented(command: str) -> str:
    return "\n".join(f"      {line}" for line in command.split("\n"))


@pytest.fixture
def store(tmp_path: Path, root: Path) -> TrustStore:
    return TrustStore(kept_in(Root.private(tmp_path / "home"), root), clock=TestClock())


CHANGED = [
    (command, file)
    for command, files in {**SEEN, **ANYTHING}.items()
    for file in files.split()
    if "${{" not in command and command != "(((("
]


@pytest.mark.parametrize(("command", "file"), CHANGED)
def test_Y22_a_file_that_is_changed_after_approval_is_asked_about_by_name(
    root: Path, store: TrustStore, command: str, file: str
) -> None:
    store.approve([setup_power(root, command)])
    store.require([setup_power(root, command)])
    (root / file).write_text(FILES[file] + "\n# evil\n")
    with pytest.raises(NotApproved, match="changed: ") as caught:
        store.require([setup_power(root, command)])
    assert file in caught.value.message
    assert "agent-worker trust" in caught.value.hint


@pytest.mark.parametrize("command", ANYTHING)
def test_Y23_what_can_run_any_file_is_asked_again_once_somebody_who_writes_has_worked(
    root: Path, store: TrustStore, command: str
) -> None:
    if command in ("((((",):
        return
    power = setup_power(root, command)
    assert power.what.endswith(ANY_FILE)
    store.approve([power])
    store.require([power])
    store.worked("alice")
    with pytest.raises(NotApproved, match="since you approved it, alice has worked here"):
        store.require([power])
    store.approve([power])
    store.require([power])
    store.worked("alice")
    with pytest.raises(NotApproved):
        store.require([power])


@pytest.mark.parametrize("command", [*SEEN, *(one for one in NOTHING if "${{" not in one)])
def test_what_is_seen_in_full_stays_approved_whoever_works(root: Path, store: TrustStore, command: str) -> None:
    power = setup_power(root, command)
    assert ANY_FILE not in power.what
    store.approve([power])
    store.worked("alice")
    store.require([power])


def test_Y22_the_question_names_the_files_and_shows_them(root: Path) -> None:
    power = setup_power(root, "cd tools && ./build.sh")
    assert power.what.endswith("files: tools/build.sh, tools/other.sh")
    assert "== tools/other.sh\necho other" in power.content


def test_Y23_a_program_is_not_kept_from_working_by_its_own_work(root: Path, store: TrustStore) -> None:
    (root / ".agents").mkdir()
    agent = "backend: acp\ncommand: [python, x.py]\nprompt: {system: x}\n"
    (root / ".agents/alice.yaml").write_text(agent)
    (power,) = powers_of(load_project(root))
    assert power.any_file
    store.approve([power])
    store.worked("alice")
    store.require([power])
    store.worked("bob")
    with pytest.raises(NotApproved, match="bob has worked here"):
        store.require([power])
