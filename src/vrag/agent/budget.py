"""What a run may spend, and what that costs."""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict, Field

__all__ = ["Limits", "Prices", "Spending"]


class Limits(BaseModel):
    """Where a run ends at the latest. None is no limit."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    steps: int = Field(default=10, ge=1, description="Model calls, refused replies included.")
    tokens: int | None = Field(
        default=None,
        ge=1,
        description="Tokens of prompts and replies together; where a policy does not tell them, at least its "
        "visual tokens and the pieces of its replies.",
    )
    visual_tokens: int | None = Field(
        default=None, ge=1, description="Visual tokens of all prompts together."
    )
    seconds: float | None = Field(default=None, gt=0, description="From the question to the answer.")
    cost: float | None = Field(default=None, gt=0, description="In the currency of the prices.")


class Prices(BaseModel):
    """Prices of a million tokens, in whatever currency. None where they are not known."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    prompt: float | None = Field(default=None, ge=0)
    completion: float | None = Field(default=None, ge=0)
    cached: float | None = Field(default=None, ge=0)
    """Of prompt tokens that the server had computed before; as the others where it is None."""

    def cost(self, prompt: int | None, completion: int | None, cached: int | None = None) -> float | None:
        """What a call costs; None when prices or counts are not known.

        Args:
            prompt: Tokens of the prompt, cached ones included.
            completion: Tokens of the reply.
            cached: Those of the prompt that were cached.

        >>> Prices(prompt=2.0, completion=8.0).cost(500_000, 1_000)
        1.008
        """
        if self.prompt is None or self.completion is None or prompt is None or completion is None:
            return None
        known = min(cached or 0, prompt)
        cheap = self.prompt if self.cached is None else self.cached
        return ((prompt - known) * self.prompt + known * cheap + completion * self.completion) / 1e6


@dataclass(slots=True)
class Spending:
    """What a run has spent so far."""

    tokens: int = 0
    visual_tokens: int = 0
    cost: float = 0.0

    def add(self, *, tokens: int, visual_tokens: int, cost: float) -> None:
        """Adds a call."""
        self.tokens += tokens
        self.visual_tokens += visual_tokens
        self.cost += cost

    def allows(self, limits: Limits, visual_tokens: int) -> bool:
        """Whether another call may be made.

        Pictures are counted before the call, so that their limit is never exceeded. What a call costs
        in tokens and money is known after it: the last one may go over.

        Args:
            limits: Of the run.
            visual_tokens: Of the pictures in its prompt.
        """
        return (
            (limits.tokens is None or self.tokens < limits.tokens)
            and (limits.cost is None or self.cost < limits.cost)
            and (limits.visual_tokens is None or self.visual_tokens + visual_tokens <= limits.visual_tokens)
        )
