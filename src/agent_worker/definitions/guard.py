"""What a project or a workflow says about small questions that a model decides, and about what its agents become."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from pydantic import Field, StrictInt

from agent_worker.definitions.agent import SoulEvolution
from agent_worker.definitions.block import Block, Broken
from agent_worker.definitions.fields import Flag, ModelName

Tokens = Annotated[StrictInt, Field(ge=0, le=1_000_000)]


class GuardModel(Block):
    """A model that decides and words small things, where rules decide otherwise."""

    model: ModelName | None = Field(
        None,
        description="a cheap model for small tasks (llm_curation); in a workflow, members with backend sdk "
        "that name no model for auto_memory also learn with it",
        examples=["anthropic/claude-haiku-5-5"],
    )
    llm_curation: Flag = Field(
        False,
        description="that model decides what rules have narrowed down (do two memories say the same? was a principle "
        "kept?) and rewords what a colleague shares, long memories and proposals; without it, rules decide",
        examples=[True],
    )
    budget: Tokens = Field(
        1500,
        description="tokens that its small tasks may take in one run, in at most two requests, including learning",
        examples=[1500],
    )
    rounds_budget: Tokens = Field(
        1500,
        description="tokens that it may take in one round through an agent's memory; 0: rounds go by rules alone",
        examples=[0],
    )

    @classmethod
    def rules(cls, written: Mapping[str, Any]) -> Iterator[Broken]:
        if written.get("llm_curation") is True and written.get("model") is None:
            yield Broken(("llm_curation",), "needs a model", "model: anthropic/claude-haiku-5-5, beside it")


class GuardSettings(GuardModel):
    auto_store: Flag = Field(
        True, description="members learn from their runs here, as their files say", examples=[False]
    )
    soul_evolution: SoulEvolution | None = Field(
        None,
        description="how the souls of members may change while they work here; if the agent's file says "
        "otherwise, the stricter applies",
        examples=["disabled"],
    )
