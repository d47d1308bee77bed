"""What the pages show can be typed, and what they say of defaults is so: every command, option and file on them."""

from __future__ import annotations

import configparser
import os
import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from tests.docs.test_guide import RUN, Shell, last_run, shell
from tests.docs.test_links import ROOT
from tests.repositories import Repository

from agent_worker.cli.main import ALSO, COMMANDS, cli
from agent_worker.core.errors import DefinitionError, UnknownSchema
from agent_worker.database.migrations import migrate, versions
from agent_worker.definitions.agent import AgentSettings
from agent_worker.definitions.notifications import read_notifications
from agent_worker.definitions.project_files import load_project
from agent_worker.definitions.settings import Settings, read_settings
from agent_worker.files.root import Root
from agent_worker.identity import soul
from agent_worker.memory import memory
from agent_worker.offline.service_files import unit as service_unit
from agent_worker.work.limits import UNKNOWN_PRICE, WorkLimits

__all__ = ["shell"]

DOCS = ROOT / "docs"
#: Pages whose commands are typed by a test of their own, with more to say about each; of some, what begins so.
ELSEWHERE: dict[str, list[str]] = {
    **{page: [""] for page in ("first-team", "memory", "keeping-it-safe", "decisions", "workflows", "git", "identity")},
    "notifications": ["agent-worker notify test"],
    "talking": ["agent-worker inbox answer"],
}
#: What is typed before the commands of a page, and what is answered.
BEFORE = {
    "what-the-model-saw": "agent-worker init --backend mock",
    "page": "agent-worker init --backend mock",
    "README": "agent-worker init --backend mock",
    "talking": "agent-worker init --backend mock",
}
ANSWERS = {"key set anthropic": "sk-ant-of-the-page", "key set MY_LLM_KEY": "a-key-of-the-page"}
#: What asks a person at a terminal and refuses to guess in a pipe, with what it says there.
AT_A_TERMINAL = {
    "chat": "chat needs a terminal",
    "connect": "there is nobody here to ask",
    "trust": "nobody can be asked here",
}

#: Files of other programs, each read by a test that is named in test_every_block.py.
OF_OTHERS = {"/etc/prometheus/prometheus.yml", "extra-openai-models.yaml"}

_FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.DOTALL | re.MULTILINE)


def pages() -> list[Path]:
    own = [path for path in DOCS.rglob("*.md") if path.parent.name not in ("decisions", "figures", "reference")]
    return [ROOT / "README.md", ROOT / "SECURITY.md", *sorted(own)]


def blocks(page: Path, *languages: str) -> list[str]:
    return [text for language, text in _FENCE.findall(page.read_text("utf-8")) if language in languages]


TYPED = [page for page in pages() if blocks(page, "sh") and ELSEWHERE.get(page.stem) != [""]]


@pytest.mark.parametrize("page", TYPED, ids=lambda page: page.stem)
def test_every_command_of_the_page_works(shell: Shell, page: Path) -> None:
    prepare(shell, page)
    typed = [text for text in blocks(page, "sh") if not text.startswith(tuple(ELSEWHERE.get(page.stem, [])))]
    type_all(shell, "\n".join([BEFORE.get(page.stem, ""), *typed]))


def type_all(shell: Shell, lines: str) -> dict[str, str]:
    """Type each line; what each printed."""
    said: dict[str, str] = {}
    for line in filter(None, lines.splitlines()):
        given, words = fed(shell, line)
        command = [filled(shell, word) for word in words]
        done = shell.run(command, stdin=given or ANSWERS.get(shlex.join(command[1:]), ""))
        told = (0, 1) if command[1] == "doctor" else (0,)  # it tells what this machine lacks
        if done.returncode == 2 and command[1] in AT_A_TERMINAL:
            assert AT_A_TERMINAL[command[1]] in done.stderr, f"{line}\n{done.stdout}{done.stderr}"
        else:
            assert done.returncode in told, f"{line}\n{done.stdout}{done.stderr}"
        said[shlex.join(command[1:])] = done.stdout
    return said


def prepare(shell: Shell, page: Path) -> None:
    """The files of a page whose commands are about these files, each where its first line says."""
    if page.stem in ("keys", "webhooks"):
        for text in blocks(page, "yaml"):
            shell.write(text.partition("\n")[0].removeprefix("# "), text)
        shell.write(".agents/alice.yaml", "backend: mock\n")
        shell.write("webhook.json", '{"action": "opened", "pull_request": {"number": 7, "title": "Faster"}}')


def fed(shell: Shell, line: str) -> tuple[str, list[str]]:
    """What a line pipes into its command, and the command."""
    command = shlex.split(line, comments=True)
    if command[0] != "cat":
        return "", command
    shell.write(command[1], "error: no such file\n")
    return "error: no such file\n", command[command.index("|") + 1 :]


def filled(shell: Shell, word: str) -> str:
    """An id that only exists once there is work."""
    return queued(shell) if word == "i_01…" else last_run(shell) if word in RUN else word


def queued(shell: Shell) -> str:
    """The id of work that waits in the queue of an agent."""
    for line in ("agent create ann --backend mock", "pause ann"):
        assert shell.run(["agent-worker", *line.split()]).returncode == 0
    sent = shell.run(["agent-worker", "send", "ann", "hello"])
    found = re.search(r"\bi_\w+", sent.stdout + sent.stderr)
    assert found, sent.stdout + sent.stderr
    return found[0]


def test_the_git_commands_of_the_guide_work(tmp_path: Path) -> None:
    repository = Repository.at(tmp_path / "repository", **{"a.txt": "a"})
    for line in "".join(blocks(DOCS / "guides" / "git.md", "sh")).splitlines():
        subprocess.run(shlex.split(line), cwd=repository.path, check=True, capture_output=True)


def test_every_file_on_a_page_is_valid(tmp_path: Path) -> None:
    """Written where their first lines say, beside agents of the names that they refer to."""
    seen = 0
    for page in pages():
        root = tmp_path / page.relative_to(ROOT).with_suffix("")
        (root / ".agents").mkdir(parents=True)
        for name in ("alice", "bob", "carl", "dora"):
            (root / ".agents" / f"{name}.yaml").write_text("backend: mock\n")
        for text in blocks(page, "yaml") if page.name != "README.md" else []:  # test_readme.py
            found = re.match(r"# (\S+\.ya?ml)\n", text)
            assert found, f"{page}: say which file this is: # .agents/alice.yaml"
            file = root / found[1].removeprefix("/")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
            read_back(file, root, found[1])
            seen += 1
        assert not load_project(root).problems, page
    assert seen > 20


def read_back(file: Path, root: Path, name: str) -> None:
    """Read the file as the product reads one of this name; whatever is wrong with it raises."""
    if name in OF_OTHERS or name == "moniro.yaml" or file.parent in (root / ".agents", root / ".workflows"):
        return
    match file.name:
        case "notify.yaml":
            assert read_notifications(file.parent).sinks
        case "settings.yaml":
            assert read_settings(file.parent) != Settings()
        case "soul.yaml":
            assert soul.read(file.read_text(), file=name)
        case "working.yaml":
            found = memory.load(Root(file.parent.parent))
            assert found.entries
            assert not found.problems
        case _:
            raise AssertionError(f"nobody reads {name}")


def test_a_file_that_nobody_reads_or_that_is_wrong_is_noticed(tmp_path: Path) -> None:
    for name, text in {
        "colours.yaml": "red",
        "notify.yaml": "sinks: { a: { to: ntfy } }",
        "soul.yaml": "role: [1]",
    }.items():
        (tmp_path / name).write_text(text)
        with pytest.raises((AssertionError, DefinitionError)):
            read_back(tmp_path / name, tmp_path, name)


def commands_on(page: Path) -> Iterator[str]:
    """Every command of ours that stands on a page, in a block or between backticks."""
    text = page.read_text("utf-8")
    for block in blocks(page, "", "text", "sh"):
        yield from (line for line in block.splitlines() if line.startswith("agent-worker "))
    rest = _FENCE.sub("", text)
    yield from (" ".join(each.split()) for each in re.findall(r"`(agent-worker\s[^`]+)`", rest))


def wrong_with(line: str) -> str:
    """Why a line could not be typed: no such command, no such option."""
    line = re.split(r"\s{2,}|\s#\s|\s&&\s|\s<\s", line.replace("…", "x"))[0]
    words = shlex.split(line.partition(" -- ")[0])[1:]
    command: click.Command = cli
    context = click.Context(cli, info_name="agent-worker")
    while isinstance(command, click.Group) and words and not words[0].startswith("-"):
        name = ALSO.get(words[0], words[0])
        below = command.get_command(context, name)
        if below is None:
            return f"there is no command {words[0]}" if command is cli else ""  # a name: `agent-worker agent alice …`
        command, words = below, words[1:]
    known = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
    known |= {"-h", "--help"}
    unknown = [word for word in words if re.match(r"--?[a-z]", word) and word.partition("=")[0] not in known]
    if unknown:
        return f"{command.name} has no option {unknown[0]}"
    return "" if isinstance(command, click.Group) or not words else _misread(command, words)


def _misread(command: click.Command, words: list[str]) -> str:
    """What the command would answer to these words before it does anything: one too many, no such choice, no number."""
    try:
        command.make_context(command.name, [*words]).close()
    except click.exceptions.Exit:
        pass  # --help
    except click.MissingParameter:
        pass  # a sentence may name an option without the rest of the line
    except click.UsageError as error:
        return error.format_message()
    return ""


def test_every_command_that_a_page_names_is_there() -> None:
    found = [(page, line) for page in pages() for line in commands_on(page)]
    assert len(found) > 150
    assert not [f"{page.name}: {line}: {why}" for page, line in found if (why := wrong_with(line))]


def test_a_command_that_is_not_there_is_noticed() -> None:
    assert wrong_with("agent-worker shwo alice") == "there is no command shwo"
    assert wrong_with("agent-worker run review --loud   with a loud voice") == "run has no option --loud"
    assert not wrong_with("agent-worker run review --trust -- --name Ada")
    assert "extra argument" in wrong_with("agent-worker inbox approve 1 2 3")
    assert "'many' is not a valid integer" in wrong_with("agent-worker runs -n many")
    assert "is not one of" in wrong_with("agent-worker init --template nosuch")


def test_every_command_is_shown_somewhere_besides_the_reference() -> None:
    named = {line.split()[1] for page in pages() for line in commands_on(page)}
    assert not set(COMMANDS) - named


# --- what single pages claim ----------------------------------------------------------------------------


def test_the_page_about_limits_says_what_holds() -> None:
    page = (DOCS / "guides" / "limits.md").read_text("utf-8")
    limits = WorkLimits()
    for what, default in {
        "runs that one request leads to": limits.runs_per_root,
        "hops: how far a message is from the request that began it": limits.hops_per_root,
        "money for one request": f"{limits.usd_per_root:g} USD",
        "runs in a row that produced nothing new": limits.fruitless_runs,
        "money of one agent in a day": f"{limits.usd_per_agent_day:g} USD",
        "money of the project in a day": f"{limits.usd_per_project_day:g} USD",
        "steps of one run": AgentSettings.model_fields["max_steps"].default,
        "runs at once, coding programs at once": f"{Settings().runs_at_once}, {Settings().programs_at_once}",
    }.items():
        assert f"| {what} | {default} |" in page
    assert f"({UNKNOWN_PRICE:g} USD for a million tokens" in page


def test_the_unit_of_the_service_starts_a_command_that_is_there() -> None:
    unit = configparser.ConfigParser(interpolation=None, strict=True)
    unit.optionxform = str  # type: ignore[assignment, method-assign]
    unit.read_string(service_unit(["/usr/bin/agent-worker", "daemon", "run"], {}))
    program, *words = shlex.split(unit["Service"]["ExecStart"])
    assert os.path.basename(program) == "agent-worker"
    assert not wrong_with(f"agent-worker {' '.join(words)}")


def test_what_an_older_home_is_told_stands_on_the_page_about_installing() -> None:
    import apsw

    database = apsw.Connection(":memory:")
    migrate(database, None, [(number, sql.replace("reason", "cause")) for number, sql in versions()])
    with pytest.raises(UnknownSchema) as refused:
        migrate(database, None)
    told = f"error: {refused.value.message}\n  hint: {refused.value.hint}\n"
    assert told in blocks(DOCS / "install.md", "text")
    database.close()


def test_the_picture_of_the_terminal_shows_what_the_template_says() -> None:
    picture = (DOCS / "figures" / "terminal.svg").read_text("utf-8")
    said = " ".join(re.sub(r"<[^>]+>", " ", picture).replace("\N{NO-BREAK SPACE}", " ").split())
    for text in ("run debate -- --motion", "what speaks against it?", "which surprised us both", "0.00 USD"):
        assert text in said
    assert not re.search(r"/(?:home|root|tmp|work|Users)/", picture)
    assert len(picture) < 20_000
