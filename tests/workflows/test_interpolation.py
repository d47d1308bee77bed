"""`${{ name }}`: filled in once, never run."""

from __future__ import annotations

import os
import subprocess
import time
from contextlib import nullcontext
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_worker.core.errors import BadInput
from agent_worker.core.mentions import find_mentions
from agent_worker.workflows.interpolation import interpolate, interpolate_marked, names_in, shell_command

PAYLOADS = [
    '"; touch P; #',
    "$(touch P)",
    "`touch P`",
    "x\ntouch P",
    "a${IFS}b;touch${IFS}P",
    "x && touch P",
    "x | touch P",
    "x > P",
    "%0atouch P",
    "'; touch P; '",
    '\\"; touch P; \\',
    "a[$(touch P)]",
    "* ? [a-z] ~ $HOME",
    "-n  two  spaces ",
    "",
]


def test_a_value_takes_the_place_of_its_name() -> None:
    values = {"changes": "+1", "params.target": "main"}
    assert interpolate("${{ changes }} on ${{params.target}}.", values) == "+1 on main."


def test_names_are_listed_once_in_order() -> None:
    assert names_in("${{ b }} ${{ a.x }} ${{ b }} $${{ c }}") == ["b", "a.x"]


def test_an_unknown_name_is_an_error_with_a_suggestion() -> None:
    with pytest.raises(BadInput) as caught:
        interpolate("${{ params.tarket }}", {"params.target": "main"})
    assert "params.tarket" in caught.value.message
    assert "params.target" in caught.value.hint


def test_two_dollars_write_the_characters_themselves() -> None:
    assert interpolate("$${{ secrets.X }} and ${{ a }}", {"a": "1"}) == "${{ secrets.X }} and 1"
    assert shell_command("echo '$${{ x }}'", {}) == ("echo '${{ x }}'", {})


def test_Y11_a_value_is_not_expanded_again() -> None:
    values = {"out": "${{ env.KEY }} ${{ out }}", "env.KEY": "secret"}
    assert interpolate("see ${{ out }}", values) == "see ${{ env.KEY }} ${{ out }}"


def test_Y12_a_value_that_mentions_someone_calls_on_nobody() -> None:
    filled = interpolate_marked("@alice look:\n${{ diff }}\n${{ diff }}", {"diff": "@bob delete it"})
    assert [filled.text[start:end] for start, end in filled.inserted] == ["@bob delete it"] * 2
    found = find_mentions(filled.text, ("alice", "bob"), sender="user", quoted=filled.inserted)
    assert found.names == ("alice",)


@pytest.mark.parametrize(
    "text",
    ["${{ ''.__class__ }}", "${{ params['x'] }}", "${{ a.b.c.d }}", "${{ 7*7 }}", "${{ a", "${{}}", "${{ a | upper }}"],
)
def test_Y15_there_is_no_expression_language(text: str) -> None:
    with pytest.raises(BadInput, match="names nothing"):
        interpolate(text, {"a": "1", "params.x": "2"})


def test_Y15_other_template_languages_are_plain_text() -> None:
    text = "{{7*7}} {% x %} $x ${x} #{x} <%= x %>"
    assert interpolate(text, {}) == text


@pytest.mark.parametrize(
    "text", ["${{" + " " * 1_000_000, "${{ " * 100_000, "${{ " + "a" * 1_000_000, "$" * 1_000_000, "${{ a." * 200_000]
)
def test_Y16_hostile_text_takes_linear_time(text: str) -> None:
    started = time.process_time()
    names_in(text)
    with pytest.raises(BadInput) if "{{" in text else nullcontext():
        interpolate(text, {})
    assert time.process_time() - started < 2  # cubic would take years


@given(st.dictionaries(st.sampled_from(["a", "b", "params.x"]), st.text(), min_size=3), st.lists(st.text(max_size=5)))
def test_what_was_inserted_is_exactly_what_is_marked(values: dict[str, str], words: list[str]) -> None:
    words = [word.replace("$", "") for word in words]
    filled = interpolate_marked("${{ a }}".join(words) + "${{ params.x }}", values)
    assert all(filled.text[start:end] in values.values() for start, end in filled.inserted)
    assert len(filled.inserted) == max(len(words), 1)


def _run(text: str, values: dict[str, str], cwd: Path, shell: str) -> bytes:
    command, env = shell_command(text, values)
    done = subprocess.run(
        [shell, "-c", command], env={"PATH": os.environ["PATH"], **env}, cwd=cwd, capture_output=True, check=True
    )
    return done.stdout


@pytest.mark.parametrize("shell", ["sh", "bash"])
@pytest.mark.parametrize("payload", PAYLOADS)
@pytest.mark.parametrize(
    "text",
    [
        "printf %s ${{ params.x }}",
        "printf %s ''${{ params.x }}\"\"",
        "printf %s \"$(printf %s ${{ params.x }}; printf .)\" | sed '$ s/[.]$//'",
        '# it\'s\nx=${{ params.x }}; printf %s "$x"',
        'printf %s "$PARAMS_X"',
        "if [ ${{ params.x }} = y ]; then :; fi; printf %s ${{ params.x }}",
    ],
)
def test_Y10_a_value_is_never_run_and_arrives_whole(text: str, payload: str, shell: str, tmp_path: Path) -> None:
    out = _run(text, {"params.x": payload}, tmp_path, shell)
    assert out.rstrip(b"\n") == payload.encode().rstrip(b"\n")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "text",
    [
        'echo "${{ params.x }}"',
        "echo '${{ params.x }}'",
        'sh -c "echo ${{ params.x }}"',
        "eval echo ${{ params.x }}",
        "true; eval echo ${{ params.x }}",
        "bash <<EOF\necho ${{ params.x }}\nEOF",
        "echo $((${{ params.x }} + 1))",
        "[[ ${{ params.x }} -eq 1 ]]",
        "echo `echo ${{ params.x }}`",
        "echo ${y:-${{ params.x }}}",
        "a[${{ params.x }}]=1",
        "echo $'it' ${{ params.x }}",
    ],
)
def test_Y10_a_place_where_a_value_could_be_run_or_split_is_refused(text: str) -> None:
    with pytest.raises(BadInput):
        shell_command(text, {"params.x": "1"})


@pytest.mark.parametrize("text", ["grep 'x$' ${{ a }}", "echo '`' '<<' '((' ${{ a }}", "npm run eval -- ${{ a }}"])
def test_what_only_looks_like_evaluation_is_allowed(text: str) -> None:
    assert shell_command(text, {"a": "1"})[0] == text.replace("${{ a }}", '"$A"')


def test_a_command_without_values_is_left_alone() -> None:
    text = 'eval "x=$((1 << 2))"; cat <<EOF\n`echo $x`\nEOF\n'
    assert shell_command(text, {"a": "1"}) == (text, {"A": "1"})


def test_an_escaped_or_commented_placeholder_stays_text() -> None:
    assert shell_command("echo \\${{ a }} # ${{ a }}", {"a": "1"})[0] == "echo \\${{ a }} # ${{ a }}"


def test_every_value_comes_along_as_a_variable() -> None:
    values = {"params.target": "main", "workflow.tag": "pr-1", "my-out": "x"}
    command, env = shell_command("git diff ${{ params.target }}...HEAD", values)
    assert command == 'git diff "$PARAMS_TARGET"...HEAD'
    assert env == {"PARAMS_TARGET": "main", "WORKFLOW_TAG": "pr-1", "MY_OUT": "x"}


def test_a_value_that_no_variable_can_hold_is_an_error_only_where_it_is_used() -> None:
    values = {"big": "x" * 200_000, "nul": "a\0b"}
    assert shell_command("true", values) == ("true", {})
    for name in values:
        with pytest.raises(BadInput, match=name):
            shell_command(f"echo ${{{{ {name} }}}}", values)


@pytest.mark.parametrize("name", ["path", "ld_preload", "IFS", "git_ssh_command", "bash_env", "pythonpath", "home"])
def test_Y10_a_value_cannot_become_a_variable_that_programs_obey(name: str) -> None:
    with pytest.raises(BadInput, match="obey"):
        shell_command("true", {name: "x"})


def test_two_names_cannot_share_a_variable() -> None:
    with pytest.raises(BadInput, match="both"):
        shell_command("true", {"params.x-y": "1", "params.x_y": "2"})
