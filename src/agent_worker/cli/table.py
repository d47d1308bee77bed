"""Tables of plain text: aligned columns; what a terminal is too narrow for stands beneath its row."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from agent_worker.cli.wrapping import cells, held_together, let_go

_BENEATH = 300  # characters of one row, at least


def table_lines(titles: Sequence[str], rows: Sequence[Sequence[str]], columns: int | None) -> list[str]:
    """The titles, then the rows. Columns in which nothing stands are left out. No columns: as wide as it needs."""
    shown = [[cell.replace("\n", " ") for cell in row] for row in rows]
    used = [n for n in range(len(titles)) if any(row[n] for row in shown)] or [0]
    titles, shown = [titles[n] for n in used], [[row[n] for n in used] for row in shown]
    widths = [max(cells(row[n]) for row in (titles, *shown)) for n in range(len(titles))]
    room = _fitting(titles, widths, columns)
    fits = [min(room, _fitting(row, widths, columns)) for row in shown]
    lines = [_aligned(titles[: max(fits)], widths)]
    for row, n in zip(shown, fits, strict=True):
        lines += [_aligned(row[:n], widths), *_beneath(titles[n:], row[n:], columns or 0)]
    return lines


def _fitting(row: Sequence[str], widths: Sequence[int], columns: int | None) -> int:
    """How many cells of a row fit into one line."""
    n = len(row)
    while columns is not None and n > 1 and cells(_aligned(row[:n], widths)) > columns:
        n -= 1
    return n


def _aligned(row: Sequence[str], widths: Sequence[int]) -> str:
    padded = (cell + " " * (width - cells(cell)) for cell, width in zip(row, widths, strict=False))
    return "  ".join(padded).rstrip()


def _beneath(titles: Sequence[str], row: Sequence[str], columns: int) -> list[str]:
    """What did not fit, with its titles."""
    said = ", ".join(f"{title}: {cell}" if title else cell for title, cell in zip(titles, row, strict=True) if cell)
    columns = max(columns, 20)
    lines = textwrap.wrap(
        held_together(said, columns - 4),
        columns,
        initial_indent="    ",
        subsequent_indent="    ",
        max_lines=_BENEATH // (columns - 4) + 1,
        placeholder=" …",
        break_on_hyphens=False,
    )
    return [let_go(line) for line in lines]
