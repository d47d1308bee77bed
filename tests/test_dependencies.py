"""What is imported is declared, what is declared is imported, and the versions we tested with are used."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable
from importlib.metadata import distribution, version
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from scripts.constraints import for_uv, pins

from tests.test_architecture import LIBRARIES

ROOT = Path(__file__).parent.parent
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def names(requirements: Iterable[str]) -> set[str]:
    return {plain(Requirement(each).name) for each in requirements}


def declared() -> set[str]:
    project = PYPROJECT["project"]
    return names(
        [*project["dependencies"], *(each for extra in project["optional-dependencies"].values() for each in extra)]
    )


def modules_of(name: str) -> set[str]:
    """What can be imported of a distribution."""
    listed = (distribution(name).read_text("RECORD") or "").splitlines()
    return {line.partition("/")[0].partition(",")[0].partition(".")[0] for line in listed}


def test_every_library_that_is_imported_is_declared_and_the_other_way_round() -> None:
    """Which these are is in a list, and that it is the list in tests/test_architecture.py."""
    providers = {module: name for name in declared() for module in modules_of(name)}
    imported = {plain(providers.get(library, library)) for library in LIBRARIES}
    assert imported - declared() == set(), "imported and not declared"
    assert declared() - imported == set(), "declared and not imported"


def test_whoever_installs_with_pip_or_with_uv_gets_the_same_versions() -> None:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pinned = [line for line in lines if not line.startswith("#")]
    assert pinned == PYPROJECT["tool"]["uv"]["constraint-dependencies"]
    assert declared() <= names(pinned)
    assert not [line for line in lines if "://" in line]


def test_the_tests_run_with_the_versions_that_are_written_down() -> None:
    """So the constraints are used, and the environment of this run is what we say we tested."""
    written = map(Requirement, PYPROJECT["tool"]["uv"]["constraint-dependencies"])
    here = [each for each in written if each.marker is None or each.marker.evaluate()]
    assert not [
        f"{each}, and {version(each.name)} is installed"
        for each in here
        if plain(each.name) in declared() and not each.specifier.contains(version(each.name), prereleases=True)
    ]


def test_constraints_are_versions_and_nothing_else() -> None:
    assert pins("# made by\nb==2 ; sys_platform == 'win32'\n\na==1.0\n") == ["a==1.0", "b==2 ; sys_platform == 'win32'"]
    for strange in ("--index-url https://example.org/simple", "a @ https://example.org/a.whl", "-e .", "a>=1"):
        with pytest.raises(ValueError, match="not a version"):
            pins(f"a==1\n{strange}\n")


def test_constraints_for_uv_replace_the_ones_that_are_there() -> None:
    before = '[tool.uv]\nconstraint-dependencies = [\n  "a==1",\n]\n\n[tool.x]\nlist = [\n]\n'
    after = for_uv(before, ["a==2", "b==3"])
    assert after == before.replace('  "a==1",\n', '  "a==2",\n  "b==3",\n')
    with pytest.raises(ValueError, match="no list"):
        for_uv("[tool.x]\n", [])
