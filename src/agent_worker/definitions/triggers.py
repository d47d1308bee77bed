"""`triggers:` of a workflow: which webhooks start it or are said in it, and what of them becomes its params."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from agent_worker.core.later import pattern
from agent_worker.definitions.block import Block, Broken, entries, wrong
from agent_worker.definitions.fields import Line, Name, Text, Whole
from agent_worker.definitions.problems import did_you_mean

_PATH = pattern(r"[A-Za-z0-9_-]{1,100}(?:\.[A-Za-z0-9_-]{1,100}){0,15}")
_SECRET = pattern(r"\$[A-Za-z_][A-Za-z0-9_]{0,127}")
MOST_AN_HOUR = 1000


def _path(text: str) -> str:
    if not _PATH.fullmatch(text):
        raise wrong("is not a place in a webhook's JSON", "keys with dots between them, such as pull_request.number")
    return text


def _secret(text: str) -> str:
    if not _SECRET.fullmatch(text):  # and never show what was written: it may be the secret
        raise wrong("must name an environment variable, never contain the secret itself", "such as $GITHUB_SECRET")
    return text


def text_of(value: Any) -> str | None:
    """A plain value of JSON or YAML as text; None for anything else."""
    match value:
        case bool():
            return "true" if value else "false"
        case str() | int() | float():
            return str(value)
    return None


def _wanted(value: Any) -> tuple[str, ...]:
    texts = [text_of(each) for each in (value if isinstance(value, list | tuple) else [value])]
    if not texts or None in texts:
        raise wrong("must be a value, or a list of values", "such as [opened, synchronize]")
    return tuple(each for each in texts if each is not None)


Path = Annotated[str, AfterValidator(_path)]
Wanted = Annotated[
    tuple[str, ...],
    BeforeValidator(_wanted, json_schema_input_type=str | int | bool | list[str | int | bool]),
]


class Trigger(Block):
    """A webhook, reached as /hooks/PROJECT/NAME, and what it does here."""

    secret: Annotated[str, AfterValidator(_secret)] = Field(
        description="the variable that holds the secret it is signed with, with a $; `key set` stores it",
        examples=["$GITHUB_SECRET"],
    )
    signed: Literal["github", "gitlab", "generic"] = Field(
        "github",
        description="how: as GitHub, Gitea and Forgejo do it, as GitLab does, or by the Standard Webhooks headers",
        examples=["generic"],
    )
    events: tuple[Line, ...] = Field(
        (), description="only these events, as the sender names them; all by default", examples=[["pull_request"]]
    )
    when: dict[Path, Wanted] = Field(
        default_factory=dict,
        description="only if its JSON has one of these values there",
        examples=[{"action": ["opened", "synchronize"]}],
    )
    params: dict[Name, Path] = Field(
        default_factory=dict,
        description="each param of the workflow, and where its value is in the JSON",
        examples=[{"number": "pull_request.number"}],
    )
    group: Line | None = Field(
        None,
        description="one instance at a time per group, which is also its tag; of those waiting only the newest starts",
        examples=["pr-${{ params.number }}"],
    )
    send: Text | None = Field(
        None,
        description="posted in the running instance (of the group, else main) instead of starting one",
        examples=["@alice the build is ${{ params.state }}"],
    )
    per_hour: Annotated[Whole, Field(le=MOST_AN_HOUR)] = Field(
        60, description="at most this many in an hour; more are refused", examples=[10]
    )

    @property
    def variable(self) -> str:
        """The variable that holds the secret."""
        return self.secret.removeprefix("$")


def trigger_rules(written: Mapping[str, Any]) -> Iterator[Broken]:
    """Check that the triggers of a workflow hand over what it takes, and that something is said."""
    declared = {str(param.get("name")): param for _, param in entries(written.get("params"))}
    for name, trigger in entries(written.get("triggers")):
        params = trigger.get("params")
        given = params if isinstance(params, dict) else {}
        if trigger.get("send") is not None:
            continue  # it has params of its own, for what it says
        if not written.get("kickoff"):
            yield Broken(("triggers", name), "says nothing", "add a kickoff: to the workflow, or send: here")
        for param in given:
            if param not in declared:
                hint = did_you_mean(str(param), list(declared)) or f"declare it: params: [{{ name: {param} }}]"
                yield Broken(("triggers", name, "params", str(param)), "the workflow has no such param", hint)
        for param, how in declared.items():
            if how.get("required") is True and param not in given:
                yield Broken(("triggers", name), f"the param {param} is required", f"params: {{ {param}: … }}")
