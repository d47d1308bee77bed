"""The daemons that share the work, where there is more than one: what each has in hand, and which is gone."""

from __future__ import annotations

from collections.abc import Sequence

from agent_worker.agents.hosting import HostGone
from agent_worker.daemon.web.frame import section, when
from agent_worker.daemon.web.markup import Html, h
from agent_worker.service import hosts
from agent_worker.service.hosts import HostView
from agent_worker.service.service import Service


async def hosts_section(service: Service) -> Html | None:
    """The hosts that share the work; None where this daemon is alone, and none is missing."""
    there, gone = await hosts.hosts_list(service), await hosts.hosts_gone(service)
    if len(there) < 2 and not gone:
        return None
    return section("Hosts", _table(there), [_gone(each) for each in gone])


def _table(there: Sequence[HostView]) -> Html:
    titles = (("host", ""), ("state", ""), ("at work", "number"), ("runs", ""), ("labels", "wide"))
    head = h("tr", [h("th", title, class_=class_ or None, scope="col") for title, class_ in titles])
    return h("table", h("thead", head), h("tbody", [_row(each) for each in there]), class_="hosts")


def _row(each: HostView) -> Html:
    overdue = each.lease <= 0
    told = "silent: its work goes to the others" if overdue else f"there, its lease has {each.lease:.0f} s left"
    labels = [label for label in each.labels if not label.startswith("node:")]
    here = h("span", " serves this page", class_="less") if each.here else None
    return h(
        "tr",
        h("td", h("b", each.node), f" {each.pid}", here),
        h("td", told, class_="why" if overdue else "less"),
        h("td", each.working, class_="number"),
        h("td", ", ".join([*each.instances, *each.agents]) or h("span", "nobody", class_="less")),
        h("td", ", ".join(labels), class_="less wide"),
        data_entry=True,
        data_key=f"host-{each.id}",
    )


def _gone(each: HostGone) -> Html:
    return h(
        "p", f"{each.node} has been gone since ", when(each.at, day=True), ". The others do its work.", class_="why"
    )
