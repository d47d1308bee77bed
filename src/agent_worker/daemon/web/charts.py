"""Pictures as inline SVG: spend by day, the timeline of a run, a prompt by its sections.

Lengths along the time axis are percentages, so that a picture is as wide as its place and its words keep their shape.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import date, timedelta

from agent_worker.core.later import dataclass
from agent_worker.core.text import plural
from agent_worker.daemon.web.frame import count, money
from agent_worker.daemon.web.markup import Html, h


def spend_chart(by_day: Mapping[str, float], today: date, *, days: int = 30, guesses: Collection[str] = ()) -> Html:
    """A bar for each day; `guesses` are the days whose money rests on one."""
    shown = [today - timedelta(days=n) for n in reversed(range(days))]
    values = [by_day.get(day.isoformat(), 0.0) for day in shown]
    most = max(values) or 1.0
    width = 100 / days
    bars = [
        h(
            "rect",
            h("title", f"{day:%d %b}: {money(value, day.isoformat() in guesses)}"),
            x=f"{n * width + width * 0.15:.2f}%",
            y=f"{96 - 84 * value / most:.2f}%",
            width=f"{width * 0.7:.2f}%",
            height=f"{max(84 * value / most, 1):.2f}%",
            class_="bar" if value else "bar none",
        )
        for n, (day, value) in enumerate(zip(shown, values, strict=True))
    ]
    total = money(sum(values), any(day.isoformat() in guesses for day in shown))
    return h(
        "figure",
        h("svg", bars, class_="spend", role="img", aria_label=f"{total} spent in {plural(days, 'day')}"),
        h(
            "figcaption",
            h("span", f"{shown[0]:%d %b}"),
            h("span", f"{total} in {plural(days, 'day')}", class_="total"),
            h("span", "today"),
        ),
        class_="chart",
    )


@dataclass(frozen=True, slots=True)
class Span:
    """Something that took time."""

    kind: str  #: wait | model | tool | bad
    begin: int  #: microseconds
    end: int
    label: str


def timeline(spans: Sequence[Span]) -> Html:
    first, last = min(s.begin for s in spans), max(s.end for s in spans)
    whole = max(last - first, 1)

    def drawn(span: Span) -> Html:
        row = {"wait": 0, "model": 1, "model failed": 1}.get(span.kind, 2)
        return h(
            "rect",
            h("title", span.label),
            x=f"{100 * (span.begin - first) / whole:.3f}%",
            y=4 + 22 * row,
            width=f"{max(100 * (span.end - span.begin) / whole, 0.4):.3f}%",
            height=16,
            rx=2,
            class_=f"span {span.kind}",
        )

    said = "; ".join(s.label for s in spans[:40])
    return h(
        "figure",
        h("ul", [h("li", name) for name in ("waiting", "model", "tools")], class_="axis", aria_hidden="true"),
        h(
            "svg",
            [h("line", x1="0", x2="100%", y1=12 + 22 * n, y2=12 + 22 * n, class_="rule") for n in range(3)],
            [drawn(span) for span in spans],
            class_="timeline",
            height=72,
            role="img",
            aria_label=f"Timeline: {said}",
        ),
        class_="chart lanes",
    )


def stacked_bar(sections: Sequence[tuple[str, int]]) -> Html:
    """What a prompt was made of, by size."""
    whole = sum(size for _, size in sections) or 1
    pieces, x = [], 0.0
    for number, (name, size) in enumerate(sections):
        share = 100 * size / whole
        pieces.append(
            h(
                "rect",
                h("title", f"{name}: {count(size)} tokens"),
                x=f"{x:.3f}%",
                y=0,
                width=f"{max(share - 0.25, 0.2):.3f}%",
                height=26,
                class_=f"piece tone{number % 6}",
            )
        )
        x += share
    said = ", ".join(f"{name} {count(size)}" for name, size in sections)
    return h(
        "svg", pieces, class_="stacked", height=26, role="img", aria_label=f"Tokens of the prompt by section: {said}"
    )
