"""Releasing and carrying on: what the scripts decide before they build anything, and what CI calls."""

from __future__ import annotations

import tomllib
from datetime import date
from pathlib import Path
from typing import Any

import pytest
import yaml
from scripts.release import NotReleased, with_heading, with_version
from scripts.test_pythons import newest

ROOT = Path(__file__).parent.parent
PYPROJECT = '[project]\nname = "agent-worker"\nversion = "0.2.0"\n\n[tool.x]\nminversion = "9.0"\n'
CHANGELOG = "# Changelog\n\nWhat a user notices. Nothing is released yet.\n\n## Unreleased\n\n- It works.\n"
DAY = date(2026, 11, 16)


@pytest.mark.parametrize("version", ["0.2.0", "0.2.1", "0.3.0rc1", "0.10.0", "1.0.0"])
def test_a_release_has_its_version(version: str) -> None:
    assert with_version(PYPROJECT, version) == PYPROJECT.replace('"0.2.0"', f'"{version}"')


@pytest.mark.parametrize("version", ["0.1.9", "0.2.0rc1", "v0.3.0", "0.3", "", "0.3.0 ", '0.3.0"\n'])
def test_a_version_that_is_older_or_none_is_refused(version: str) -> None:
    with pytest.raises(NotReleased):
        with_version(PYPROJECT, version)


def test_the_final_version_comes_after_its_candidates() -> None:
    assert '"0.2.0"' in with_version(PYPROJECT.replace('"0.2.0"', '"0.2.0rc2"'), "0.2.0")


def test_what_was_unreleased_is_under_its_version_and_day() -> None:
    first = with_heading(CHANGELOG, "0.2.0", DAY)
    assert first == ("# Changelog\n\nWhat a user notices.\n\n## Unreleased\n\n## 0.2.0 (2026-11-16)\n\n- It works.\n")
    more = first.replace("## Unreleased\n", "## Unreleased\n\n- It works better.\n")
    assert with_heading(more, "0.3.0", DAY).endswith(
        "## Unreleased\n\n## 0.3.0 (2026-11-16)\n\n- It works better.\n\n## 0.2.0 (2026-11-16)\n\n- It works.\n"
    )


def test_a_release_of_nothing_or_the_same_again_is_refused() -> None:
    first = with_heading(CHANGELOG, "0.2.0", DAY)
    with pytest.raises(NotReleased, match="says nothing"):
        with_heading(first, "0.3.0", DAY)
    with pytest.raises(NotReleased, match=r"has 0\.2\.0 already"):
        with_heading(first.replace("## Unreleased\n", "## Unreleased\n\n- More.\n"), "0.2.0", DAY)
    with pytest.raises(NotReleased, match="says nothing"):
        with_heading("# Changelog\n", "0.2.0", DAY)


def test_our_own_files_can_be_released() -> None:
    now = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    after = tomllib.loads(with_version((ROOT / "pyproject.toml").read_text(), "99.0.0"))
    assert (after["project"]["version"], now) == ("99.0.0", now)
    assert "\n## 99.0.0 (2026-11-16)\n" in with_heading((ROOT / "CHANGELOG.md").read_text(), "99.0.0", DAY)


def python(version: str, path: str | None = "/usr/bin/python", **more: Any) -> dict[str, Any]:
    major, minor, patch = map(int, version.split("."))
    parts = {"major": major, "minor": minor, "patch": patch}
    return {"version_parts": parts, "path": path, "implementation": "cpython", "variant": "default"} | more


def test_of_each_python_we_run_on_the_newest_is_taken() -> None:
    listed = [
        python("3.13.0", "/a"),
        python("3.11.2", "/b"),
        python("3.11.10", "/c"),
        python("3.11.9", "/d"),
        python("3.10.13", "/too-old"),
        python("3.15.0", "/too-new"),
        python("3.12.1", None),
        python("3.12.2", "/pypy", implementation="pypy"),
        python("3.14.0", "/threads", variant="freethreaded"),
    ]
    assert newest(listed) == {(3, 11): "/c", (3, 13): "/a"}


def test_the_forge_runs_what_we_run() -> None:
    jobs = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text())["jobs"]
    commands = [step.get("run") for step in jobs["everything"]["steps"]]
    assert commands[-1] == ".ci/run"
    assert (ROOT / ".ci/run").stat().st_mode & 0o111


def test_the_package_names_the_pythons_that_it_is_tried_with() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    named = {each.rpartition(" ")[2] for each in project["classifiers"] if "Python :: 3." in each}
    jobs = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text())["jobs"]
    first = jobs["everything"]["container"]["image"].removeprefix("python:").partition("-")[0]
    assert named == {first, *jobs["pythons"]["strategy"]["matrix"]["python"]}
    assert project["requires-python"] == f">={first}"
