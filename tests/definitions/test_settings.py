"""What is a matter of choice: written in one place, checked like every file, and never looser in a project."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from agent_worker.core.errors import DefinitionError
from agent_worker.definitions.project_files import load_project
from agent_worker.definitions.schema import json_schema
from agent_worker.definitions.settings import (
    ProjectSettings,
    Settings,
    read_settings,
    scope_of,
    shown,
    tightened,
    with_environment,
    wrong_model,
)


def problems(root: Path, settings: str) -> list[str]:
    (root / "moniro.yaml").write_text(f"name: p\nsettings:\n  {settings}\n")
    return [str(problem) for problem in load_project(root).problems]


def test_every_setting_has_a_default_that_can_be_written_and_says_what_it_does() -> None:
    defaults = Settings()
    for name, field in Settings.model_fields.items():
        value = shown(name, getattr(defaults, name))
        written = yaml.safe_load(value)
        assert getattr(Settings.model_validate({name: written}), name) == getattr(defaults, name)
        assert field.description


@pytest.mark.parametrize(
    ("written", "words"),
    [
        ("agein: 5m", 'moniro.yaml:3:3: settings.agein: unknown key (did you mean "ageing"?)'),
        ("ageing: soon", "moniro.yaml:3:11: settings.ageing: must be a duration"),
        ("tries: 0", "settings.tries: must be at least 1"),
        ("tries: 99", "settings.tries: must be at most 10"),
        ("smart_send: 1kB", "settings.smart_send: must be at least 1024"),
        ("smart_send: lots", "settings.smart_send: must be a size"),
        ("runs_at_once: 100", "settings.runs_at_once: is up to the user, not a project"),
    ],
)
def test_a_wrong_key_or_value_is_told_with_its_line(tmp_path: Path, written: str, words: str) -> None:
    (problem,) = problems(tmp_path, written)
    assert words in problem


def test_a_project_chooses_how_its_teams_work_and_only_lowers_what_costs_something() -> None:
    home = Settings.model_validate({"longest_wait": "10m", "tries": 2})
    wanted = {"longest_wait": "1h", "tries": 1, "quiet_moment": "1s", "smart_send": "8KiB"}
    held = tightened(home, ProjectSettings.model_validate(wanted))
    assert (held.longest_wait, held.tries, held.quiet_moment, held.smart_send) == (600, 1, 1.0, 8192)
    assert (scope_of("tries"), scope_of("ageing"), scope_of("warn_free")) == ("lower", "project", "home")


def test_the_environment_counts_more_than_the_file_of_the_home(tmp_path: Path) -> None:
    assert read_settings(tmp_path) == Settings()
    (tmp_path / "settings.yaml").write_text("longest_wait: 5m\nwarn_free: 2GB\n")
    found = with_environment(read_settings(tmp_path), {"AGENT_WORKER_LONGEST_WAIT": "7m"})
    assert (found.longest_wait, found.warn_free) == (420, 2 * 10**9)
    (tmp_path / "settings.yaml").write_text("run_at_once: 5\n")
    with pytest.raises(DefinitionError, match=r"settings\.yaml:1:1: .*did you mean"):
        read_settings(tmp_path)


def test_the_schema_of_a_project_has_its_settings_and_not_those_of_the_user() -> None:
    found = json_schema("project")["$defs"]["ProjectSettings"]["properties"]
    assert set(found) == set(ProjectSettings.model_fields)
    assert all(each["description"] for each in found.values())


@pytest.mark.parametrize(
    ("written", "words"),
    [
        ("nowhere", "is not a folder"),
        ("empty", "has no model.safetensors"),
        ("weights", "has no config.json"),
        ("config", "has neither tokenizer.json nor vocab.txt"),
    ],
)
def test_a_folder_that_holds_no_encoder_is_told_by_what_it_lacks(tmp_path: Path, written: str, words: str) -> None:
    for name, files in {
        "empty": (),
        "weights": ("model.safetensors",),
        "config": ("model.safetensors", "config.json"),
    }.items():
        (tmp_path / name).mkdir()
        for file in files:
            (tmp_path / name / file).touch()
    (tmp_path / "settings.yaml").write_text(f"semantic: {{ model: {tmp_path / written} }}\n")
    (told,) = wrong_model(tmp_path)
    assert (told.line, told.field, told.message) == (1, "semantic.model", f"{tmp_path / written} {words}")
    assert "all-MiniLM-L6-v2" in told.hint
    assert read_settings(tmp_path).semantic.model == tmp_path / written, "the daemon starts all the same"


@pytest.mark.parametrize("model", ["models/mine", "[]", "7", "''", '"a\\0b"'])
def test_a_model_that_is_no_path_is_told(tmp_path: Path, model: str) -> None:
    (tmp_path / "settings.yaml").write_text(f"semantic: {{ model: {model} }}\n")
    with pytest.raises(DefinitionError, match=r"settings.yaml:1:\d+: semantic.model: must be a "):
        read_settings(tmp_path)


def test_a_project_does_not_choose_the_model() -> None:
    assert "semantic" not in ProjectSettings.model_fields
