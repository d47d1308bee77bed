"""Every key that people write is explained, with its default and an example, and what is said of it is true."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, get_args

import pytest
from jsonschema import Draft202012Validator
from pydantic import BaseModel, Field, TypeAdapter
from tests.docs.test_reference import reference

from agent_worker.definitions.agent import AgentDefinition
from agent_worker.definitions.block import Block
from agent_worker.definitions.fields import Duration
from agent_worker.definitions.project import ProjectDefinition
from agent_worker.definitions.schema import json_schema
from agent_worker.definitions.settings import Settings
from agent_worker.definitions.workflow import WorkflowDefinition
from agent_worker.work.limits import WorkLimits

SOURCE = Path(__file__).parent.parent.parent / "src" / "agent_worker"


def blocks_below(model: type[Block], found: dict[type[Block], None]) -> dict[type[Block], None]:
    """The model, and every mapping that may stand in it."""
    if model not in found:
        found[model] = None
        for field in model.model_fields.values():
            for each in models_in(field.annotation):
                blocks_below(each, found)
    return found


def models_in(annotation: Any) -> Iterator[type[Block]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        assert issubclass(annotation, Block)
        yield annotation
    for each in get_args(annotation):
        yield from models_in(each)


def every_block() -> list[type[Block]]:
    found: dict[type[Block], None] = {}
    for model in (AgentDefinition, WorkflowDefinition, ProjectDefinition, Settings):
        blocks_below(model, found)
    return list(found)


def unexplained(model: type[Block]) -> Iterator[str]:
    """What is missing where a key of this block is explained, or not true."""
    for name, field in model.model_fields.items():
        value = TypeAdapter[Any](Annotated[field.annotation, *field.metadata, None])
        if not field.description:
            yield f"{model.__name__}.{name} has no description"
        if not field.examples:
            yield f"{model.__name__}.{name} has no example"
        for example in field.examples or ():
            value.validate_python(example)  # an example that could not be written raises
        said = field.json_schema_extra.get("default") if isinstance(field.json_schema_extra, dict) else None
        if said and field.default and not field.is_required() and value.validate_python(said) != field.default:
            yield f"{model.__name__}.{name} says that its default is {said}"


def test_every_key_is_explained_with_its_default_and_an_example() -> None:
    assert not [problem for model in every_block() for problem in unexplained(model)]


def test_a_key_that_is_not_explained_is_noticed() -> None:
    class Sloppy(Block):
        colour: str = "red"
        rest: Duration = Field(60.0, description="how long", examples=["2m"], json_schema_extra={"default": "2m"})

    assert [*unexplained(Sloppy)] == [
        "Sloppy.colour has no description",
        "Sloppy.colour has no example",
        "Sloppy.rest says that its default is 2m",
    ]


@pytest.mark.parametrize("kind", ["agent", "workflow", "project"])
def test_an_editor_is_told_the_same_of_every_key_and_offers_nothing_that_is_wrong(kind: Any) -> None:
    """A time is written `10m`, so its default is not 600.0."""
    schema = json_schema(kind)
    for block in (schema, *(each for each in schema["$defs"].values() if "properties" in each)):
        for key, value in block["properties"].items():
            assert value.get("description"), key
            assert value.get("examples"), key
            fits = Draft202012Validator({**value, "$defs": schema["$defs"]}).validate
            for example in value["examples"]:
                fits(example)
            if "default" in value:
                fits(value["default"])
            elif key not in block.get("required", ()):
                assert "x-default" in value or value.get("type") in ("object", "array") or "$ref" in str(value), key


def test_the_defaults_of_limits_are_those_that_hold() -> None:
    limits = WorkLimits()
    agent, workflow, project = (json_schema(kind)["$defs"] for kind in ("agent", "workflow", "project"))
    assert agent["AgentLimits"]["properties"]["usd_per_day"]["default"] == limits.usd_per_agent_day
    assert project["ProjectLimits"]["properties"]["usd_per_day"]["default"] == limits.usd_per_project_day
    assert workflow["WorkflowLimits"]["properties"]["turns"]["default"] == limits.runs_per_root
    assert workflow["WorkflowLimits"]["properties"]["usd"]["default"] == limits.usd_per_root


def test_the_page_has_a_row_for_every_key() -> None:
    files, settings = reference.pages()["files.md"], reference.pages()["settings.md"]
    for model in every_block():
        page = settings if issubclass(Settings, model) and model is not Block else files
        for name in model.spellings():
            assert f"| `{name}` |" in page, f"{model.__name__}.{name}"


# --- variables of the environment ---------------------------------------------------------------------

_VARIABLE = re.compile(r"[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+")
_NO_VARIABLES = {"BASH_SOURCE", "INVALID_JSON", "NO_REPLY", "SC_PAGE_SIZE", "SC_PHYS_PAGES"}
_EXAMPLES = {"BUILD_NUMBER", "DATABASE_URL"}  # in descriptions of keys
#: What Git, coding programs, an allocator and commands of notifications are told; nobody else's value is read.
_TOLD = re.compile(
    r"GIT_|OPENCODE_|GEMINI_CLI_|NOTICE_|GEMINI_SYSTEM_MD|CLAUDE_CODE_(?!OAUTH)|DISABLE_AUTOUPDATER|API_TIMEOUT_MS"
)
_TOLD_TOO = {
    "GOOGLE_GEMINI_BASE_URL",
    "MIMALLOC_ALLOW_THP",
    "NO_BROWSER",
    "XDG_CONFIG_HOME",
    "LC_ALL",
    "UV_RUN_RECURSION_DEPTH",
}


def variables_in(source: Path) -> set[str]:
    """Every string of the source that has the shape of a variable's name."""
    trees = (ast.parse(path.read_text("utf-8")) for path in source.rglob("*.py"))
    texts = {node.value for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Constant)}
    return {text for text in texts if isinstance(text, str) and _VARIABLE.fullmatch(text)}


def test_every_variable_that_is_read_is_on_the_page_and_no_other() -> None:
    listed = set(re.findall(r"^\| `(\w+)` \|", reference.pages()["environment.md"], re.MULTILINE))
    found = {name for name in variables_in(SOURCE) - _NO_VARIABLES - _EXAMPLES - _TOLD_TOO if not _TOLD.match(name)}
    assert not found - listed, "explain them in scripts/reference.py"
    built = {"HTTPS_PROXY", "DISPLAY"}  # made from a scheme; without an underscore
    assert not listed - found - built, "nobody reads them any more"
