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
from tests.docs.test_guide import Shell, shell
from tests.docs.test_links import ROOT
from tests.repositories import Repository

from agent_worker.cli.main import ALSO, COMMANDS, cli
from agent_worker.core.errors import UnknownSchema
from agent_worker.database.migrations import migrate, versions
from agent_worker.definitions.agent import AgentSettings
from agent_worker.definitions.project_files import load_project
from agent_worker.definitions.settings import Settings
from agent_worker.offline.service_files import unit as service_unit
from agent_worker.work.limits import UNKNOWN_PRICE, WorkLimits

__all__ = ["shell"]

DOCS = ROOT / "docs"
#: Pages whose commands are typed by a test of their own, with more to say about each.
ELSEWHERE = {"first-team", "memory", "keeping-it-safe", "decisions", "workflows", "git"}
#: What is typed before the commands of a page, and what is answered.
BEFORE = {"what-the-model-saw": "agent-worker init --backend mock", "page": "agent-worker init --backend mock"}
ANSWERS = {"key set anthropic": "sk-ant-of-the-page"}

_FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.DOTALL | re.MULTILINE)


def pages() -> list[Path]:
    own = [path for path in DOCS.rglob("*.md") if path.parent.name not in ("decisions", "figures", "reference")]
    return [ROOT / "README.md", ROOT / "SECURITY.md", *sorted(own)]


def blocks(page: Path, *languages: str) -> list[str]:
    return [text for language, text in _FENCE.findall(page.read_text("utf-8")) if language in languages]


TYPED = [page for page in pages() if blocks(page, "sh") and page.stem not in ELSEWHERE]


@pytest.mark.parametrize("page", TYPED, ids=lambda page: page.stem)
def test_every_command_of_the_page_works(shell: Shell, page: Path) -> None:
    lines = [BEFORE.get(page.stem, ""), *"".join(blocks(page, "sh")).splitlines()]
    for line in filter(None, lines):
        command = shlex.split(line, comments=True)
        if "i_01…" in command:  # an id that only exists once there is work
            command[command.index("i_01…")] = queued(shell)
        done = shell.run(command, stdin=ANSWERS.get(shlex.join(command[1:]), ""))
        told = (0, 1) if command[1] == "doctor" else (0,)  # it tells what this machine lacks
        assert done.returncode in told, f"{line}\n{done.stdout}{done.stderr}"


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
        for text in blocks(page, "yaml"):
            found = re.match(r"# (\S+\.yaml)\n", text)
            if page.name == "README.md":  # test_readme.py
                continue
            assert found, f"{page}: say which file this is: # .agents/alice.yaml"
            (root / found[1]).parent.mkdir(parents=True, exist_ok=True)
            (root / found[1]).write_text(text)
            seen += 1
        assert not load_project(root).problems, page
    assert seen > 10


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
    assert told in blocks(DOCS / "install.md", "")
    database.close()


def test_the_picture_of_the_terminal_shows_what_the_template_says() -> None:
    picture = (DOCS / "figures" / "terminal.svg").read_text("utf-8")
    said = " ".join(re.sub(r"<[^>]+>", " ", picture).replace("\N{NO-BREAK SPACE}", " ").split())
    for text in ("run debate -- --motion", "what speaks against it?", "which surprised us both", "0.00 USD"):
        assert text in said
    assert not re.search(r"/(?:home|root|tmp|work|Users)/", picture)
    assert len(picture) < 20_000
