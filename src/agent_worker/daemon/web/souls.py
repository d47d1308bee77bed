"""Who an agent is: its soul, changes that wait for a person, earlier versions, how it keeps to its principles."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

from agent_worker.daemon.web.diffs import diff_lines
from agent_worker.daemon.web.frame import button, changes, empty, form, of_project, section
from agent_worker.daemon.web.markup import Html, h
from agent_worker.service import soul
from agent_worker.service.service import Service
from agent_worker.service.soul import DriftShown, PrincipleShown, ProposedChange, SoulShown, VersionShown


async def soul_section(service: Service, name: str, project: str | None) -> Html:
    """Everything about the soul of an agent that has files."""
    found = await soul.soul_show(service, name, project)
    versions = await soul.soul_log(service, name, project)
    kept = await soul.soul_drift(service, name, project)
    return section(
        "Soul",
        [h("p", text, class_="why") for text in found.problems],
        soul_lines(found.soul),
        [_proposal(each, name, project) for each in found.proposals],
        _edit(found, name, project),
        _kept(kept) if kept.principles else None,
        _versions(versions, found.version, name, project) if len(versions) > 1 else None,
    )


def soul_lines(record: dict[str, Any]) -> Html:
    """What a soul says, key by key."""
    shown = {key: value for key, value in record.items() if value and key != "probes"}
    if not shown:
        return empty("None written.")
    return h("dl", [[h("dt", key), h("dd", _plain(value))] for key, value in shown.items()], class_="soul")


def _plain(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def _diff(text: str) -> Html:
    return h("pre", diff_lines(text.splitlines()), class_="diff", tabindex=0)


def _proposal(each: ProposedChange, name: str, project: str | None) -> Html:
    """One change, with what it rests on, to be approved or rejected in place."""
    rests_on = [h("li", f"{piece.get('day', '')} ", h("q", piece.get("quote", ""))) for piece in each.evidence]
    buttons = [
        button("Approve", name="verdict", value="approve"),
        button("Reject", name="verdict", value="reject", class_="quiet"),
    ]
    return h(
        "div",
        h("p", f"Proposed by {'the agent itself' if each.by == 'agent' else each.by}, until {each.expires}:"),
        _diff(each.diff),
        h("ul", rests_on, class_="less"),
        form(
            f"POST /agents/{quote(name)}/soul/proposals/{quote(each.id)}",
            h("span", buttons, class_="buttons"),
            label=f"Decide on {each.id}",
            class_="answers",
            project=project,
        ),
        class_="item",
        data_key=f"proposal-{each.id}",
    )


def _edit(found: SoulShown, name: str, project: str | None) -> Html:
    fields = form(
        f"PUT /agents/{quote(name)}/soul",
        h("textarea", found.text, name="text", rows=6, aria_label=f"Soul of {name}", class_="code", data_empty=True),
        changes(),
        button("Save"),
        label="Edit the soul",
        now=f"/agents/{quote(name)}/soul{of_project(project)}",
        was=found.text,
        project=project,
    )
    return h("details", h("summary", "Edit"), fields, data_key="soul-edit")


def _kept(kept: DriftShown) -> Html:
    def line(each: PrincipleShown) -> Html:
        share = "not measured" if each.share is None else f"{each.share:.0%} of {each.of}"
        return h("li", each.principle, " ", h("span", share, class_="why" if each.fell else "less", title=each.probe))

    return h(
        "details",
        h("summary", "How well it is kept"),
        h("ul", [line(e) for e in kept.principles]),
        data_key="soul-kept",
    )


def _versions(versions: Sequence[VersionShown], now: int, name: str, project: str | None) -> Html:
    def line(each: VersionShown) -> Html:
        back = form(
            f"POST /agents/{quote(name)}/soul/versions/{each.number}",
            button("Go back to this", class_="quiet"),
            label=f"Go back to version {each.number}",
            class_="inline",
            project=project,
        )
        return h(
            "li",
            h("p", f"{each.number}: {each.reason}", h("span", f" {each.by} {each.at[:10]}", class_="less")),
            _diff(each.diff) if each.diff else None,
            back if each.number != now else None,
            data_key=f"soul-{each.number}",
        )

    return h(
        "details", h("summary", "Versions"), h("ul", [line(v) for v in reversed(versions)]), data_key="soul-versions"
    )
