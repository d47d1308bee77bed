"""The pages of figures are what their scripts write: head, table, a verdict for every target, and no place of ours."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import everything
from curves.curve import Curve, Topic
from measures import plot
from measures.figure import Figure, table

ROOT = Path(__file__).parent.parent.parent
FIGURES = ROOT / "docs" / "figures"

WRITTEN = [page for page in everything.PAGES if page.file.exists()]
names = pytest.mark.parametrize("page", WRITTEN, ids=lambda page: page.name)


def rows_of(text: str) -> list[dict[str, str]]:
    """Every row of every table, by the heads of its columns."""
    rows: list[dict[str, str]] = []
    head: list[str] = []
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")] if line.startswith("|") else []
        if not cells:
            head = []
        elif not head:
            head = cells
        elif not set("".join(cells)) <= set("-: "):
            rows.append(dict(zip(head, cells, strict=True)))
    return rows


def test_the_first_page_lists_all_pages() -> None:
    assert (FIGURES / "README.md").read_text("utf-8") == everything.index(), "run: uv run poe bench --only …"


def test_every_page_is_written_by_a_script_that_is_there() -> None:
    for page in everything.PAGES:
        script = page.script[-1].replace(".", "/") if page.script[0] == "-m" else page.script[0]
        assert any((ROOT / path).exists() for path in (script, f"{script}.py", f"{script}/__main__.py")), page.name
    known = {page.file.name for page in everything.PAGES} | {"README.md"}
    assert {file.name for file in FIGURES.glob("*.md")} <= known, "name it in bench/everything.py"


@names
def test_a_page_says_what_it_is_and_by_what_it_is_written(page: everything.Page) -> None:
    text = page.file.read_text("utf-8")
    assert text.startswith("# ")
    assert " ".join(page.script) in text
    assert f"--write docs/figures/{page.file.name}" in text or f"uv run poe {page.name}" in text
    assert rows_of(text)


@names
def test_every_target_is_met_or_said_to_be_missed(page: everything.Page) -> None:
    for row in rows_of(page.file.read_text("utf-8")):
        if row.get("target"):
            assert row["met"] in ("yes", "**no**"), row


@names
def test_a_page_shows_only_pictures_that_are_there_and_names_no_place(page: everything.Page) -> None:
    text = page.file.read_text("utf-8")
    for picture in re.findall(r"!\[[^]]*\]\(([^)]+)\)", text):
        assert (FIGURES / picture).is_file()
        drawn = (FIGURES / picture).read_text("utf-8")
        assert drawn.startswith("<?xml")
        assert not re.search(r"/(?:home|root|tmp|work|Users)/", drawn)
    assert not re.search(r"(?<![\w.])/(?:home|root|tmp|work|Users|var)/", text)


def test_a_figure_makes_a_row_with_its_verdict() -> None:
    made = table([Figure("a thing", "1 s", "2 s", "3 s", 0.5, "≤ 1", False), Figure("another", "", "", "", 1.0)])
    assert [row["met"] for row in rows_of(made)] == ["**no**", ""]
    assert [row["ratio"] for row in rows_of(made)] == ["0.50", "1.00"]


def test_growth_is_told_by_the_last_point_or_by_the_last_slope() -> None:
    flat = Curve("flat", {1: 1.0, 10: 1.2, 100: 2.5})
    linear = Curve("linear", {1: 5.0, 10: 14.0, 100: 104.0}, "linear")
    square = Curve("square", {1: 1.0, 10: 100.0, 100: 10_000.0}, "linear")
    later = Curve("later", {1: 1.0, 10: 8.0, 100: 9.0}, since=10)
    assert [round(curve.growth, 2) for curve in (flat, linear, square, later)] == [2.5, 0.71, 11.0, 1.12]
    assert [row["met"] for row in rows_of(Topic("t", "n", "", [flat, linear, square, later]).table())] == [
        "**no**",
        "yes",
        "**no**",
        "yes",
    ]


def test_without_what_draws_a_page_has_no_picture(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(plot, "COMMAND", (str(tmp_path / "nothing"),))
    assert plot.bars(tmp_path / "ring.md", {"a thing": 0.5}) == ""
    assert "ring.svg was not drawn" in capsys.readouterr().err
