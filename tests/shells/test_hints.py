"""A hint is a command that exists and works where it is given: each is produced, then typed as it stands."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.patience import eventually
from tests.shells.served import WORKFLOW, Served, served
from tests.shells.terminal import Terminal
from tests.teams import write_project

SOURCE = Path(__file__).parents[2] / "src" / "agent_worker"
#: What can be typed after a hint was given, once its placeholders are filled in.
FILLED = {"…": "hello"}


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("hints")) as daemon:
        yield daemon


@pytest.fixture
def terminal(daemon: Served, tmp_path: Path) -> Terminal:
    """In a project of its own, with whichever daemon there is: one of the commands stops it."""
    write_project(tmp_path / "project", ["alice", "bob"], workflow=WORKFLOW)
    return Terminal(replace(daemon, project=tmp_path / "project"))


def hinted(text: str) -> list[list[str]]:
    """The commands in what was printed, as words."""
    found = re.findall(r"agent-worker ((?:[^\s`;,()]|(?<=\w)\s(?=[-@\w\"…]))+)", text)
    return [shlex.split(each.strip(" .").replace("…", "hello")) for each in found]


def test_no_hint_has_a_word_in_it_that_one_must_replace_first() -> None:
    """It names an agent, a workflow, a key that is there. `…` stands for what only the person can say."""
    wrong = [
        f"{file.relative_to(SOURCE)}: {line.strip()}"
        for file in sorted(SOURCE.rglob("*.py"))
        for line in file.read_text().splitlines()
        if re.search(r"agent-worker [a-z][^\"'`;,()]* (?!\w*_)[@<]?[A-Z]{3,}\b", line.partition("#: ")[0])
    ]
    assert wrong == []


#: What is typed with a name that is nearly right, without quotes or in a wrong order, and the line that was meant.
NEARLY = {
    "ask alcie 'how are you?'": "ask alice 'how are you?'",
    "send ALCIE hi": "send alice hi",
    "peek alcie": "peek alice",
    "agent info alcie": "agent info alice",
    "agent memory alcie set key value": "agent memory alice set key value",
    "schedule alcie set 5m": "schedule alice set 5m",
    "runs --agent alcie": "runs --agent alice",
    "stop alcie": "stop alice",
    "start reviw": "start review",
    "send alice@reviw:pr-1 hi": "send alice@review:pr-1 hi",
    "run reviw.yaml": "run review.yaml",
    "trust alcie": "trust alice",
    "token create mine --only alcie": "token create mine --only alice",
    f"ask alcie '{'very ' * 30}long'": "ask alice …",
    "send alice hi there friend": "send alice 'hi there friend'",
    "send --to alice hi there": "send --to alice 'hi there'",
    "ask alice hi there": "ask alice 'hi there'",
    "run review hi there": "run review 'hi there'",
    "inbox answer 1 my own words": "inbox answer 1 'my own words'",
    "doc append @review plan.md one two": "doc append @review plan.md 'one two'",
    "--trust ask alice hi": "ask alice hi --trust",
    "ask hi alice": "ask alice hi",
    "ask 'how are you?' alice --trust": "ask alice 'how are you?' --trust",
    "run hi review": "run review hi",
    "run hi alice": "run alice hi",
    "run review hi there --tag x -- --there": "run review 'hi there' --tag x -- --there",
    "send alice hi there --key mine": "send alice 'hi there' --key mine",
    "inbox answer 1 my own words --other": "inbox answer 1 'my own words' --other",
    "doc append plan.md @review text": "doc append @review plan.md text",
    "proposal vote 1 @review yes": "proposal vote @review 1 yes",
    "agent memory set alice key value": "agent memory alice set key value",
    "agent memory alice key set value": "agent memory alice set key value",
    "agent todo add alice look": "agent todo alice add look",
    "agent soul log alice": "agent soul alice log",
    "runs alice": "runs --agent alice",
    "export alice md": "export alice --format md",
    "export md alice": "export --format md alice",
    "settings runs_at_onc": "settings runs_at_once",
    "agent memory alice delete key": "agent memory alice forget key",
    "agent memory alice rm key": "agent memory alice forget key",
    "agent memory alice show key": "agent memory alice get key",
    "agent memory alice add key value": "agent memory alice set key value",
    "agent todo alice remove 1": "agent todo alice done 1",
    "agent notes alice read x.md": "agent notes alice x.md",
    "agent soul alice history": "agent soul alice log",
    "schedule alice rm": "schedule alice clear",
    "settings quiet": "settings quiet_moment",
    "schedule alice 5m": "schedule alice set 5m",
    "schedule 5m alice": "schedule alice set 5m",
    "runs alice@review": "runs --agent alice",
    "runs --agent alice@review": "runs --agent alice",
    "agent edit ALICE@review:pr-9 max_steps=9": "agent edit alice max_steps=9",
    "agent memory alice@review": "agent memory alice",
    "audit alice@review": "audit alice",
    "send review:pr-9 hi": "send @review:pr-9 hi",
    "peek review:pr-9": "peek @review:pr-9",
    "stop review:pr-9": "stop @review:pr-9",
    "resume review:pr-9": "resume @review:pr-9",
    "run reviw -- --n 3": "run review -- --n 3",
}


@pytest.mark.parametrize("typed", list(NEARLY))
def test_what_is_nearly_right_gives_the_line_that_was_meant(terminal: Terminal, typed: str) -> None:
    done = terminal.run(*shlex.split(typed))
    assert done.returncode == 2, done.stdout
    assert done.stderr.endswith(f"  hint: did you mean: agent-worker {NEARLY[typed]}\n"), done.stderr


@pytest.mark.parametrize("typed", ["ask @ hi", "chat @", "ask @@ hi"])
def test_what_is_no_address_is_told_as_such(terminal: Terminal, typed: str) -> None:
    done = terminal.run(*shlex.split(typed))
    assert done.returncode == 2
    assert "is not an address" in done.stderr


def test_a_channel_that_runs_is_written_to_whatever_the_order_was(terminal: Terminal) -> None:
    terminal.says("start", "review", "--background")
    told = terminal.run("send", "hi", "@review").stderr
    assert told.endswith("hint: did you mean: agent-worker send @review hi\n")


#: Typed without the workspace where only one runs, and what is answered.
OBVIOUS = {
    "proposal list": "no proposals yet\n",
    "doc list": "no documents yet\n",
    "resource list": "no resources yet\n",
    "doc append plan.md '- one step'": "plan.md is at revision",
    "doc read plan.md": "- one step",
    "proposal create 'tea?' --option yes --option no --voter user": "agent-worker proposal vote @review 1 …",
    "proposal vote 1 yes": "yes  user",
    "proposal show 1": "proposal 1  tea?",
    "pause": "review is paused\n",
    "resume": "review is running\n",
    "stop": "stopped: ",
}


def test_the_only_workspace_need_not_be_named(terminal: Terminal) -> None:
    nowhere = terminal.run("doc", "list")
    assert nowhere.stderr == "error: no workflow runs here\n  hint: agent-worker start review\n"
    terminal.says("start", "review", "--background")
    for typed, answered in OBVIOUS.items():
        assert answered in terminal.says(*shlex.split(typed)), typed


def test_where_several_run_the_line_is_offered_with_one_of_them(terminal: Terminal) -> None:
    for tag in ("one", "two"):
        terminal.says("start", "review", "--tag", tag, "--background")
    told = terminal.run("doc", "read", "plan.md").stderr
    assert told.startswith("error: which one? there are @review:")
    assert re.search(r"hint: agent-worker doc read @review:(one|two) plan.md\n$", told)


def test_a_setting_is_told_where_it_is_written(terminal: Terminal) -> None:
    for typed in ("runs_at_once=3", "runs-at-once 3", "set runs_at_once 3"):
        told = terminal.run("settings", *typed.split()).stderr
        assert told.startswith("error: a setting is written in a file: runs_at_once: 3\n  hint: write it in ")
        assert "settings.yaml, then restart the daemon: agent-worker stop --all\n" in told
    assert "runs_at_once  8" in terminal.says("settings", "runs_at_once")
    assert "or under settings: in moniro.yaml" in terminal.run("settings", "quiet_moment=3s").stderr


def test_a_name_that_is_like_no_other_gets_the_list(terminal: Terminal) -> None:
    told = terminal.run("ask", "zebedee", "hi").stderr
    assert "there is no agent zebedee in this project" in told
    assert "hint: agent-worker agent list (agents here: alice, bob)" in told


@pytest.mark.parametrize(
    "typed", ["send @nosuch hi", "peek @nosuch", "export @nope", "stop @nope", "resume @nope", "ls @nope"]
)
def test_what_does_not_exist_is_not_hinted_to_be_started(terminal: Terminal, typed: str) -> None:
    done = terminal.run(*typed.split())
    assert done.returncode == 2
    assert "there is no workflow n" in done.stderr
    assert "hint: agent-worker ls (workflows here: review)" in done.stderr
    assert "agent-worker start" not in done.stderr


def test_a_name_that_is_nearly_right_is_suggested(terminal: Terminal) -> None:
    assert "hint: did you mean: agent-worker send @review hi\n" in terminal.run("send", "@reviw", "hi").stderr


#: What is done first, what goes wrong then; its hint is typed as it stands, and works.
SITUATIONS = [
    ([], "send @review hi"),
    ([], "inbox approve 99"),
    ([], "inbox answer t_none x"),
    ([], "explain r_zzz"),
    ([], "cancel i_zzz"),
    ([], "inbox revoke zzz"),
    ([], "schedule get alice"),
    ([], "ask @review hi"),
    ([["start", "review", "--background"]], "ask @review hi"),
    ([], "backends nosuch"),
    ([], "chat alice"),
    ([], "send alice"),
    ([], "agent create alice --backend mock"),
    ([], "agent delete bob"),
    ([], "agent memory alice colour blue"),
    ([], "trust list --yes"),
    ([], "trust show alice bob"),
    pytest.param([], "restore nothing.db", marks=pytest.mark.sqlite("PostgreSQL restores its own backups")),
    ([["start", "review", "--background"]], "start review --background"),
    ([["stop", "alice"]], "ask alice hello"),
    ([["pause", "alice"]], "ask alice hello"),
    ([["new", "quick", "--backend", "mock"]], "agent delete quick --yes"),
    ([], "send @nosuch hi"),
    ([], "ask nobody hi"),
    ([], "peek nobody"),
    ([], "run nosuch"),
    ([], "run nosuch.yaml"),
    ([], "start nosuch"),
    ([], "stop nobody"),
    ([], "pause @nosuch"),
    ([], "trust nobody"),
    ([], "agent shwo alice"),
    ([], "agent info nobody"),
    ([], "agent edit nobody max_steps=9"),
    ([], "agent edit alice nosuch=9"),
    ([], "agent delete nobody --yes"),
    ([], "agent create carol --from nobody"),
    ([], "agent create carol"),
    ([], "new"),
    ([], "agent memory alice get nosuch"),
    ([], "agent memory nobody"),
    ([], "agent notes nobody"),
    ([], "agent todo alice done 99"),
    ([], "agent soul alice diff 99"),
    ([], "agent soul alice approve zzz"),
    ([], "agent revert alice"),
    ([["start", "review", "--background"]], "doc read @review nosuch.md"),
    ([["start", "review", "--background"]], "resource read @review abcdef"),
    ([["start", "review", "--background"]], "proposal show @review 99"),
    ([["start", "review", "--background"]], "proposal vote @review 99 yes"),
    ([], "export nobody"),
    ([], "clear nobody"),
    ([], "trace m_none"),
    ([], "schedule nobody set 1h"),
    ([], "key remove nosuch"),
    ([], "providers nosuch"),
    ([], "daemon stop"),
    ([], "inbox nosuch 1"),
    ([], "inbox retry 99"),
    ([], "schema nosuch"),
    ([], "init nosuch"),
    ([], "completion nosuch"),
    ([], "settings nosuch"),
    ([], "audit --agent nobody"),
    ([], "runs --agent nobody"),
    ([], "search hello --in nosuch"),
    ([], "sned alice hi"),
    ([], "ask"),
    ([], "context nosuch"),
    ([], "serve nosuch"),
    ([], "serve alice hi --timeout 3"),
    ([["start", "review", "--background"]], "stop review"),
    ([["start", "review", "--background"]], "peek review"),
    ([["start", "review", "--background"]], "agent info review"),
    ([["agent", "todo", "alice", "add", "look"]], "agent todo alice dnoe 1"),
    ([], "agent edit alice"),
    ([], "agent audit alice"),
    ([["agent", "todo", "alice", "add", "look"]], "agent todo alice done x"),
    ([], "agent memory alice forget nosuch"),
    ([], "schedule alice set"),
    ([], "run --tag"),
    ([], "agent create zed -m"),
    ([], "schema agnet"),
    ([], "ask alice ''"),
    ([], "send alice ''"),
    ([], "send ''"),
    ([], "search ''"),
    ([], "inbox 1"),
    ([], "agent soul alice approve"),
    ([], "settings nosuch=1"),
    ([["start", "review", "--background"]], "doc read nosuch.md"),
    ([["start", "review", "--background"]], "proposal show 99"),
    ([["start", "review", "--background"]], "pause @review @other"),
    ([], "chat @review"),
    ([["start", "review", "--background"]], "chat @review"),
    ([], "agent soul alice lgo"),
    ([], "hook test nosuch.json"),
    ([["start", "review", "--background"]], "resource read @review zz"),
    ([], "peek alice -n 0"),
    ([], "runs -n -1"),
    ([], "init --model antropic/claude"),
    ([["start", "review", "--background"], ["pause", "@review"]], "run review"),
    ([], "agent create carol --backend nosuch"),
    ([], "agent create carol --model gpt-4o"),
    ([], "new carol --model antropic/claude"),
    ([], "agent edit alice backend=nosuch"),
    ([], "agent edit alice tools=[nosuch]"),
    ([], "agent edit alice name=zed"),
    ([], "agent delete nobody"),
    ([], "help run"),
    ([], "schedule rm alice"),
    ([], "agent notes alice show"),
    ([], "agent soul alice set role=x"),
    ([], "stop all"),
    ([], "explain alice"),
    ([], "trace alice"),
    ([], "cancel alice"),
    ([["start", "review", "--background"]], "send @bob hello"),
    ([["start", "review", "--background"]], "ask @alice hello"),
    ([], "runs @review"),
    ([], "agent memory @review"),
    ([["start", "review:pr-9", "--background"]], "send review:pr-9 hi"),
    ([["start", "review:pr-9", "--background"]], "send pr-9 hi"),
    ([["start", "review:pr-9", "--background"]], "peek pr-9 -n 1"),
    ([["start", "review:pr-9", "--background"]], "stop pr-9"),
]


@pytest.mark.parametrize(("before", "typed"), SITUATIONS, ids=lambda value: value if isinstance(value, str) else "")
def test_a_hint_works_where_it_is_given(terminal: Terminal, before: list[list[str]], typed: str) -> None:
    for words in (["agent", "create", "bob", "--backend", "mock"], ["agent", "start", "alice"], ["stop", "@review"]):
        terminal.run(*words)
    for words in before:
        terminal.says(*words)
    refused = terminal.run(*shlex.split(typed))
    assert refused.returncode == 2, refused.stdout
    found = hinted(refused.stderr)
    assert found, refused.stderr
    words = [FILLED.get(word, word) for word in found[0 if "or a key" in refused.stderr else -1]]
    followed = terminal.run(*words, *(["--background"] if words[0] == "start" else []))
    assert followed.returncode == 0 or words[0] == "stop", f"{words}: {followed.stderr}"


def test_a_workflow_that_was_never_run_is_listed_with_the_command_that_runs_it(terminal: Terminal) -> None:
    flow = terminal.daemon.project / ".workflows" / "fresh.yaml"
    flow.write_text("agents: { ann: { backend: mock } }\nkickoff: '@ann go'\n")
    for command in ("ls", "status"):
        row = next(line for line in terminal.says(command).splitlines() if line.startswith("@fresh"))
        assert row.endswith(" agent-worker run fresh")
        assert "not started" in row
    terminal.says("run", "fresh")
    row = next(line for line in terminal.says("ls").splitlines() if line.startswith("@fresh"))
    assert "not started" not in row
    flow.unlink()


def test_whoever_writes_to_a_team_that_is_paused_is_told_that_it_waits_and_how_to_go_on(terminal: Terminal) -> None:
    terminal.run("stop", "@review")
    terminal.says("start", "review", "--background")
    terminal.says("pause", "@review")
    told = terminal.run("send", "@review", "@alice are you there?").stderr
    assert told == ("@review is paused, so this waits (paused by a person); to go on: agent-worker resume @review\n")
    terminal.says("resume", "@review")
    assert terminal.run("send", "@review", "@alice hello").stderr == ""
    terminal.says("stop", "@review")


def test_what_a_command_gives_an_agent_is_checked_as_a_file_is_and_changes_nothing(terminal: Terminal) -> None:
    file = terminal.daemon.project / ".agents" / "alice.yaml"
    before = file.read_text()
    for typed in ("agent edit alice tools=[no]", "agent edit alice model=gpt-4o backend=sdk", "new kim -m nosuch/x"):
        told = terminal.run(*typed.split()).stderr
        assert "validate" not in told, told  # it would find nothing
        assert not re.search(r":\d+:\d+:", told), told  # nor is there a line
    assert file.read_text() == before
    assert "kim" not in terminal.says("agent", "list")


def test_of_a_key_that_holds_others_it_is_said_how_one_of_them_is_set(terminal: Terminal) -> None:
    told = terminal.run("agent", "edit", "alice", "prompt=hello")
    assert "write prompt.system=…" in told.stderr
    assert terminal.says("agent", "edit", "alice", "prompt.system=hello").startswith("saved")


def test_a_workflow_that_needs_something_is_listed_and_refused_with_a_line_that_runs_it(terminal: Terminal) -> None:
    flow = terminal.daemon.project / ".workflows" / "needy.yaml"
    flow.write_text(
        """
        params:
          - { name: topic, required: true, description: What it's about }
          - { name: n, type: integer, required: true }
        agents: { ann: { backend: mock } }
        kickoff: "@ann ${{ params.topic }}"
        """
    )
    try:
        row = next(line for line in terminal.says("ls").splitlines() if line.startswith("@needy"))
        line = row[row.index("agent-worker run") :]
        assert shlex.split(line)[3:] == ["--", "--topic", "What it's about", "--n", "1"]
        assert f"  hint: {line}\n" in terminal.run("run", "needy").stderr
        assert "What it's about" in terminal.says(*shlex.split(line)[1:])
    finally:
        flow.unlink()


def test_explain_alone_is_about_the_newest_run(terminal: Terminal) -> None:
    terminal.says("ask", "alice", "what is new?")
    newest = json.loads(terminal.says("runs", "-n", "1", "--json"))[0]["id"]
    assert json.loads(terminal.says("explain", "--json"))["run"]["id"] == newest


def test_an_agent_whose_file_is_broken_is_said_to_be_with_the_line_and_can_be_deleted(terminal: Terminal) -> None:
    file = terminal.daemon.project / ".agents" / "brix.yaml"
    file.write_text("backend: mock\nmodle: x\n")
    row = next(line for line in terminal.says("ls").splitlines() if line.startswith("brix"))
    assert row.split()[1] == "broken"
    assert "line 2: modle: " in row
    assert "brix broken" in terminal.says("agent", "info", "brix")
    refused = terminal.run("ask", "brix", "hello")
    assert (refused.returncode, ".agents/brix.yaml:2:1: modle" in refused.stderr) == (2, True)
    told = terminal.says("agent", "delete", "brix", "--yes")
    assert told == "brix was deleted: only .agents/brix.yaml is gone\n"
    assert not file.exists()
    assert eventually(lambda: "brix" not in terminal.says("ls"))


def test_a_workflow_whose_file_is_broken_is_said_to_be_with_the_line_and_not_missing(terminal: Terminal) -> None:
    file = terminal.daemon.project / ".workflows" / "brox.yaml"
    file.write_text("agents:\n  alice: { reff: alice }\nkickoff: '@alice go'\n")
    try:
        for command in ("ls", "status"):
            row = next(line for line in terminal.says(command).splitlines() if line.startswith("@brox"))
            assert row.split()[1] == "broken"
            assert "line 2: agents.alice.reff: unknown key" in row
        assert json.loads(terminal.says("ls", "--json"))["broken"].keys() == {"brox"}
        for typed in (
            "run brox",
            "start brox:pr-1",
            "send @brox hi",
            "stop brox",
            "schedule brox set 1h",
            "peek brox",
            "run brox -- --n 1",
        ):
            refused = terminal.run(*typed.split())
            assert (refused.returncode, ".workflows/brox.yaml:2:" in refused.stderr) == (2, True), refused.stderr
        assert "hint: did you mean: agent-worker run brox\n" in terminal.run("run", "borx").stderr
        assert 'reff: unknown key (did you mean "ref"?)' in terminal.run("validate").stderr
    finally:
        file.unlink()


def test_an_instance_may_be_named_as_it_is_in_addresses(terminal: Terminal) -> None:
    assert terminal.says("start", "review:pr-7", "--background").startswith("review:pr-7 is running with ")
    refused = terminal.run("run", "review:pr-7", "--tag", "pr-8")
    assert "you gave two tags: pr-7 and pr-8" in refused.stderr
    terminal.says("stop", "@review:pr-7")


def test_an_item_of_the_inbox_says_what_settles_it(terminal: Terminal) -> None:
    file = terminal.daemon.project / ".agents" / "keyless.yaml"
    endpoint = "{ base_url: 'https://llm.example/v1', api_key: $MINE }"
    file.write_text(f"model: mine/x\nprompt: {{ system: hi }}\nprovider: {endpoint}\n")
    try:
        terminal.run("ask", "keyless", "hi", "--trust")
        item = next(each for each in json.loads(terminal.says("inbox", "--json")) if each["kind"] == "key")
        refused = terminal.run("inbox", "retry", str(item["number"]))
        assert "this continues once its key is set" in refused.stderr
        assert f"agent-worker inbox dismiss {item['number']}" in refused.stderr
        assert "no key was given" in terminal.run("key", "set", "MINE").stderr
        terminal.says("inbox", "dismiss", str(item["number"]))
    finally:
        file.unlink()


def test_the_log_is_json_where_json_was_asked_for(terminal: Terminal) -> None:
    lines = json.loads(terminal.says("daemon", "logs", "--json"))
    assert all(isinstance(each, dict) and each["message"] for each in lines), lines


def test_a_set_up_that_fails_shows_what_it_said_first(terminal: Terminal) -> None:
    flow = terminal.daemon.project / ".workflows" / "noisy.yaml"
    command = "echo it is this; for n in $(seq 50); do echo usage $n; done; echo the end; false"
    flow.write_text(f"agents: {{ ann: {{ backend: mock }} }}\nsetup: [{{ shell: '{command}' }}]\nkickoff: '@ann go'\n")
    done = terminal.run("run", "noisy", "--trust")
    lines = done.stderr.splitlines()
    assert lines[0].startswith("error: set-up failed (exit 1): echo it is this")
    assert lines[1:3] == ["it is this", "usage 1"]
    assert "[… 40 more lines]" in lines
    assert "the end" in lines
    assert len(lines) < 16
