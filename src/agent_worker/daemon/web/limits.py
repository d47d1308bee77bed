"""Limits on the page: how much of each is used, and a number to raise it to, beside what it holds back."""

from __future__ import annotations

from urllib.parse import quote

from agent_worker.daemon.web.frame import button, form, money, section
from agent_worker.daemon.web.markup import Html, h
from agent_worker.service import limits
from agent_worker.service.limits import LimitUse
from agent_worker.service.service import Service

_UNITS = {"turns": "runs", "usd": "USD", "usd_per_day": "USD a day"}


async def limits_section(service: Service, of: str, project: str | None, *, editable: bool = True) -> Html | None:
    """The limits of an agent, or of an instance (`@review`)."""
    used = [each for each in await limits.limits_list(service, project) if each.of == of]
    which = ("turns", "usd") if of.startswith("@") else ("usd_per_day",)
    units = {"USD": which[-1], "runs": which[0]}
    shown = {units[each.unit]: each for each in used}
    if not used and not editable:
        return None
    rows = [
        h("li", _used(shown.get(name)), _raise(name, of, project, shown.get(name)) if editable else None)
        for name in which
    ]
    return section("Limits", h("ul", rows, class_="limits"))


def _raise(name: str, of: str, project: str | None, each: LimitUse | None) -> Html:
    now = (each.limit or 0) if each else 0
    return h("details", h("summary", "Raise"), raise_form(name, of, project, now=now), data_key=f"limit-{name}")


def _used(each: LimitUse | None) -> Html | None:
    if each is None:
        return None
    spent = money(each.used, each.estimated) if each.unit == "USD" else f"{each.used:g}"
    most = "no limit" if each.limit is None else f"of ${each.limit:g}" if each.unit == "USD" else f"of {each.limit:g}"
    unit = " runs" if each.unit == "runs" else ""
    waits = h("span", f" {each.waits}", class_="why") if each.waits else None
    return h("p", f"{each.what[:1].upper()}{each.what[1:]}: {spent} {most}{unit}", waits)


def raise_form(limit: str, of: str, project: str | None, *, now: float = 0) -> Html:
    """The form that raises a limit. `now` is what holds; the number it offers is twice that."""
    team = of.startswith("@")
    place = f"/workflows/{quote(of[1:], safe='')}/limits" if team else f"/agents/{quote(of)}/limits"
    return form(
        f"POST {place}",
        h(
            "input",
            name=limit,
            type="number",
            required=True,
            min="1" if limit == "turns" else "0.01",
            step="1" if limit == "turns" else "any",
            value=f"{now * 2:g}" if now else None,
            aria_label=f"New limit of {of}: {_UNITS[limit]}",
        ),
        h("span", _UNITS[limit], class_="less"),
        button("Raise to this", class_="quiet"),
        label=f"Raise {limit} of {of}",
        class_="inline raise",
        project=project,
    )
