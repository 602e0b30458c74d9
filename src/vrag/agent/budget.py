"""The limits of a run, what it spends, and the reasons for which it ends."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from pydantic import BaseModel, ConfigDict, Field


class StopReason(StrEnum):
    """The reason for which a run ended."""

    ANSWERED = "answered"
    """The agent gave an answer."""
    ABSTAINED = "abstained"
    """The agent said that the documents do not hold an answer."""
    OUT_OF_STEPS = "out_of_steps"
    """The step limit was reached without an answer."""
    OUT_OF_TOKENS = "out_of_tokens"
    """The model's context was exhausted, or a reply was cut off before it came to an action."""
    OUT_OF_BUDGET = "out_of_budget"
    """The run's budget was spent."""
    CANCELLED = "cancelled"
    """The run was stopped from outside."""
    MODEL_ERROR = "model_error"
    """The model failed or could not be reached."""
    SEARCH_ERROR = "search_error"
    """The search or the collection failed."""
    FAULT = "fault"
    """The program failed, or the disk on which the run is recorded."""


class Limits(BaseModel):
    """The limits of a run; None means no limit."""

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
    """The price of prompt tokens that the server had cached; None charges them like other prompt tokens."""

    def cost(self, prompt: int | None, completion: int | None, cached: int | None = None) -> float | None:
        """Return the cost of a call with so many tokens; None when prices or counts are not known.

        The tokens of the prompt include the cached ones.

        >>> Prices(prompt=2.0, completion=8.0).cost(500_000, 1_000)
        1.008
        """
        if self.prompt is None or self.completion is None or prompt is None or completion is None:
            return None
        cached_tokens = min(cached or 0, prompt)
        cached_price = self.prompt if self.cached is None else self.cached
        uncached = (prompt - cached_tokens) * self.prompt
        return (uncached + cached_tokens * cached_price + completion * self.completion) / 1e6


@dataclass(slots=True)
class Spending:
    """The sums that a run has spent so far."""

    tokens: int = 0
    visual_tokens: int = 0
    cost: float = 0.0

    def add(self, *, tokens: int, visual_tokens: int, cost: float) -> None:
        """Add a call."""
        self.tokens += tokens
        self.visual_tokens += visual_tokens
        self.cost += cost

    def allows(self, limits: Limits, visual_tokens: int) -> bool:
        """Return whether the limits allow another call with this many visual tokens.

        Pictures are counted before the call, so that their limit is never exceeded. The cost of a call
        in tokens and money is known only after it: the last one may go over.
        """
        return (
            (limits.tokens is None or self.tokens < limits.tokens)
            and (limits.cost is None or self.cost < limits.cost)
            and (limits.visual_tokens is None or self.visual_tokens + visual_tokens <= limits.visual_tokens)
        )
