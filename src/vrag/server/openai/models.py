"""Names of models at this door: an agent, alone or with what writes its replies."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from vrag.server.openai.errors import InvalidRequest
from vrag.server.openai.schema import ModelCard, ModelCards

if TYPE_CHECKING:
    from vrag.server.runs.schema import Capabilities

__all__ = ["OFFLINE", "NamedAgent", "cards_of", "model_named"]

OFFLINE = "offline"
"""What the policy without a model is called here."""
_MOST = 100
"""Characters of an unknown name that are repeated."""


class NamedAgent(NamedTuple):
    """What a name stands for, as a `RunRequest` has it."""

    agent: str
    model: str | None
    """None for the server's own choice."""


def _names(offer: Capabilities) -> dict[str, NamedAgent]:
    """All names, the agents alone first."""
    names = {agent.name: NamedAgent(agent.name, None) for agent in offer.agents}
    for agent in offer.agents:
        for model in offer.models:
            names.setdefault(f"{agent.name}/{model.name or OFFLINE}", NamedAgent(agent.name, model.name))
    return names


def cards_of(offer: Capabilities, created: int) -> ModelCards:
    """Every model that may be named."""
    return ModelCards(data=tuple(ModelCard(id=name, created=created) for name in _names(offer)))


def model_named(name: str, offer: Capabilities) -> NamedAgent:
    """What a name stands for.

    Raises:
        Unfit: If there is no model of that name (404).
    """
    found = _names(offer).get(name)
    if found is None:
        raise InvalidRequest(
            f"The model {name[:_MOST]!r} does not exist.",
            "GET /v1/models lists those that do.",
            param="model",
            code="model_not_found",
            status=404,
        )
    return found
