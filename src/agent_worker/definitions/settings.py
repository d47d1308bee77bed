"""Settings: what is a matter of choice, each with its default and what it does.

The user's are in `settings.yaml` in the daemon's home; a project's stand under `settings:` in `moniro.yaml`. A project
chooses freely how its own teams work, and may only lower what costs something: see `tightened`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field

from agent_worker.core.disk_space import STOP, STOP_BELOW, WARN, WARN_BELOW, read_size
from agent_worker.core.errors import BadInput, Problem
from agent_worker.definitions.block import Block, wrong
from agent_worker.definitions.fields import Duration, Url, Whole, parse_duration
from agent_worker.definitions.problems import validate
from agent_worker.definitions.source import read_source

FILE = "settings.yaml"  #: in the home

# Defaults, in seconds, that others need before anybody has read a file.
QUIET_MOMENT = 0.2
WAITS_AT_MOST = 900.0
PROMPTS_KEPT = 30 * 86400.0

LONGEST_WAIT = "AGENT_WORKER_LONGEST_WAIT"

#: Variables of the daemon's environment that count more than its file.
VARIABLES = {
    "longest_wait": LONGEST_WAIT,
    "keep_prompts": "AGENT_WORKER_KEEP_PROMPTS",
    "warn_free": WARN,
    "stop_free": STOP,
}

_OF_THE_HOME = f"is up to the user, not a project: it belongs in {FILE} of the home"

#: What must be in the folder of a sentence encoder; of the vocabularies one.
ENCODER_WEIGHTS, ENCODER_CONFIG = "model.safetensors", "config.json"
ENCODER_VOCABULARIES = ("tokenizer.json", "vocab.txt")
AN_ENCODER = "the folder of a sentence encoder, such as ~/models/all-MiniLM-L6-v2"

Scope = Literal["project", "lower", "home"]  #: a project may choose it · may lower it · has no say


def _size(value: Any) -> int:
    try:
        return read_size("size", str(value)) if isinstance(value, str | int) and not isinstance(value, bool) else -1
    except BadInput:
        raise wrong("must be a size", "a number and a unit, such as 500MB, 1GB or 4KiB") from None


def _kept(value: Any) -> float:
    if value in (0, "0"):
        return 0.0
    if (seconds := parse_duration(value)) < 86400:
        raise wrong("must be a day or more, or 0", "such as 30d")
    return seconds


def _time_of_day(value: Any) -> int:
    """Seconds after midnight; -1 for never."""
    if value is False or value == "off":
        return -1
    hour, _, minute = value.partition(":") if isinstance(value, str) else ("", "", "")
    if not (hour.isdecimal() and minute.isdecimal() and int(hour) < 24 and int(minute) < 60 and len(minute) == 2):
        raise wrong("must be a time of day, or off", 'such as "03:30", in quotes: YAML reads 3:30 as a number')
    return int(hour) * 3600 + int(minute) * 60


TimeOfDay = Annotated[int, BeforeValidator(_time_of_day, json_schema_input_type=str | bool)]
Kept = Annotated[float, BeforeValidator(_kept, json_schema_input_type=str | int)]
Size = Annotated[int, BeforeValidator(_size, json_schema_input_type=str | int)]


class ProjectSettings(Block):
    """What a project may say.

    Of `tries`, `longest_wait` and `keep_archive` the lower of this and the user's holds.
    """

    misplaced: ClassVar[Mapping[str, str]] = dict.fromkeys(
        (
            "runs_at_once",
            "programs_at_once",
            "keep_leftovers",
            "keep_prompts",
            "keep_backups",
            "warn_free",
            "stop_free",
            "semantic",
            "rounds_at",
            "public_url",
            "public_port",
        ),
        _OF_THE_HOME,
    )

    ageing: Duration = Field(
        300.0,
        description="work that has been queued this long goes before all other work",
        examples=["10m"],
        json_schema_extra={"default": "5m"},
    )
    preemptions: Whole = Field(3, description="work that was pushed aside this often moves up one lane", examples=[5])
    quiet_moment: Duration = Field(
        0.2,
        description="a team that has had nothing to do for this long is quiet: `run` ends",
        examples=["2s"],
        json_schema_extra={"default": "200ms"},
    )
    smart_send: Annotated[Size, Field(ge=1024, le=256 * 1024)] = Field(
        4 * 1024,
        description="a longer message is stored as a resource, and only its beginning is sent",
        examples=["8KiB"],
        json_schema_extra={"default": "4KiB"},
    )
    tries: Annotated[Whole, Field(le=10)] = Field(
        3, description="how often, in all, a model is asked if it fails in a way that may pass", examples=[2]
    )
    longest_wait: Duration = Field(
        900.0,
        description="work that has waited this long for its model fails",
        examples=["1h"],
        json_schema_extra={"default": "15m"},
    )
    keep_archive: Duration = Field(
        86400.0,
        description="how long an instance without `bind` is kept after the next one has taken its place",
        examples=["7d"],
        json_schema_extra={"default": "1d"},
    )


def missing_in(folder: Path) -> str:
    """Why a folder holds no sentence encoder, as a sentence goes on with it; '' if it may hold one."""
    if not folder.is_dir():
        return "is not a folder"
    for name in (ENCODER_WEIGHTS, ENCODER_CONFIG):
        if not (folder / name).is_file():
            return f"has no {name}"
    if not any((folder / name).is_file() for name in ENCODER_VOCABULARIES):
        return f"has neither {' nor '.join(ENCODER_VOCABULARIES)}"
    return ""


def _encoder(value: Any) -> Path:
    if not isinstance(value, str) or not value.strip() or "\0" in value:
        raise wrong("must be a folder", AN_ENCODER)
    if not value.startswith(("/", "~/")):
        raise wrong("must be a path from the root of the disk, or from ~", AN_ENCODER)
    return Path(value).expanduser()


def _public(value: str) -> str:
    """`https://host` or `https://host:port`: as a request for it names its host."""
    parts = urlsplit(value)
    if parts.scheme not in ("http", "https") or parts.path not in ("", "/") or parts.query or parts.fragment:
        raise wrong("must be an address without a path", "such as https://agents.example.org")
    return f"{parts.scheme}://{parts.netloc.lower()}"


class Semantic(Block):
    """How what was said is found by its meaning, where the extra `semantic` is installed."""

    model: Annotated[Path, BeforeValidator(_encoder, json_schema_input_type=str)] | None = Field(
        None, description="the folder of a sentence encoder", examples=["~/models/all-MiniLM-L6-v2"]
    )


class Settings(ProjectSettings):
    """What the user may say, for all projects."""

    misplaced: ClassVar[Mapping[str, str]] = {}

    runs_at_once: Annotated[Whole, Field(le=1000)] = Field(
        8, description="runs of all projects at the same time", examples=[4]
    )
    programs_at_once: Annotated[Whole, Field(le=1000)] = Field(
        4, description="coding programs, of those runs, at the same time", examples=[2]
    )
    keep_leftovers: Duration = Field(
        30 * 86400.0,
        description="older sessions of programs, backups and databases set aside are removed by `gc`",
        examples=["90d"],
        json_schema_extra={"default": "30d"},
    )
    keep_prompts: Kept = Field(
        30 * 86400.0,
        description="how long you can see what models were sent, a day or more; 0 keeps none of it",
        examples=["7d"],
        json_schema_extra={"default": "30d"},
    )
    rounds_at: TimeOfDay = Field(
        3 * 3600,
        description="when agents' memory is tidied each night, in this machine's time; off: only by command",
        examples=["04:30"],
        json_schema_extra={"default": "03:00"},
    )
    keep_backups: Whole = Field(
        3, description="this many of the newest backups stay, however old they are", examples=[10]
    )
    warn_free: Annotated[Size, Field(ge=0)] = Field(
        WARN_BELOW,
        description="below this much free disk space you are warned; 0: never",
        examples=["5GB"],
        json_schema_extra={"default": "1GB"},
    )
    stop_free: Annotated[Size, Field(ge=0)] = Field(
        STOP_BELOW,
        description="below this much free disk space no new run starts; 0: never",
        examples=["1GB"],
        json_schema_extra={"default": "200MB"},
    )
    semantic: Semantic = Field(
        Semantic.model_construct(model=None),
        description="the model for search by meaning: { model: FOLDER } of a sentence encoder; a light one by default",
        examples=[{"model": "~/models/all-MiniLM-L6-v2"}],
    )
    public_url: Annotated[Url, AfterValidator(_public)] | None = Field(
        None,
        description="how others reach this machine, through your tunnel or proxy to `public_port`: "
        "webhooks and answer links. Nothing else is served there",
        examples=["https://agents.example.org"],
    )
    public_port: Annotated[int, Field(strict=True, ge=0, lt=65536)] = Field(
        5098,
        description="where that tunnel or proxy leads to, on 127.0.0.1; 0 is any free port, named in the log",
        examples=[8080],
    )


_LOWER = frozenset({"tries", "longest_wait", "keep_archive"})


def scope_of(name: str) -> Scope:
    if name in _LOWER:
        return "lower"
    return "project" if name in ProjectSettings.model_fields else "home"


def tightened(home: Settings, project: ProjectSettings) -> Settings:
    """The settings that hold in a project: its own where it may choose, the lower of both where it may only lower."""
    written = {name: getattr(project, name) for name in project.model_fields_set}
    held = {name: min(value, getattr(home, name)) if name in _LOWER else value for name, value in written.items()}
    return home.model_copy(update=held)


def read_settings(home: Path) -> Settings:
    """What the user's file says; defaults when there is none. Raises DefinitionError."""
    file = home / FILE
    return validate(Settings, read_source(file), defaults={}) if os.path.lexists(file) else Settings()


def wrong_model(home: Path) -> list[Problem]:
    """What is wrong with the encoder folder that the user's file names; it may be gone by now, and then the light model
    is used.
    """
    model = read_settings(home).semantic.model
    if model is None or not (lack := missing_in(model)):
        return []
    return [read_source(home / FILE).problem(("semantic", "model"), f"{model} {lack}", hint=AN_ENCODER)]


def with_environment(settings: Settings, environ: Mapping[str, str]) -> Settings:
    """The settings with what the daemon's environment says instead. Raises BadInput. `keep_prompts`:
    agents/prompt_texts.py."""
    read = {name: variable for name, variable in VARIABLES.items() if name != "keep_prompts" and environ.get(variable)}
    given = {name: _given(variable, environ[variable]) for name, variable in read.items()}
    return settings.model_copy(update=given)


def _given(variable: str, text: str) -> float:
    if variable != LONGEST_WAIT:
        return read_size(variable, text)
    try:
        seconds = parse_duration(text)
    except ValueError:
        seconds = 0.0
    if not seconds:
        raise BadInput(f"{variable}={text!r} is not a time to wait", hint=f"export {variable}=30m")
    return seconds


def shown(name: str, value: float | str | Semantic | None) -> str:
    """The value as it can be written in a file: `5m`, `4KiB`, `8`."""
    if value is None or isinstance(value, str):
        return value or ""
    if isinstance(value, Semantic):
        return f"{{ model: {value.model} }}" if value.model else "{}"
    if name == "rounds_at":
        return f"{int(value) // 3600:02}:{int(value) % 3600 // 60:02}" if value >= 0 else "off"
    kind = "size" if name in ("smart_send", "warn_free", "stop_free") else "time" if _is_time(name) else "count"
    if kind == "count" or not value:
        return f"{value:g}"
    units = _SIZES if kind == "size" else _TIMES
    unit, size = next((each for each in units if value % each[1] == 0), units[-1])
    return f"{value / size:.12g}{unit}"


_TIMES = (("d", 86400.0), ("h", 3600.0), ("m", 60.0), ("s", 1.0), ("ms", 0.001))
_SIZES = (("GB", 10**9), ("MB", 10**6), ("MiB", 1024**2), ("kB", 10**3), ("KiB", 1024), ("", 1))


def _is_time(name: str) -> bool:
    return Settings.model_fields[name].annotation is float
