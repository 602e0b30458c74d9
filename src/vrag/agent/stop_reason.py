"""The reasons for which a run ends."""

from __future__ import annotations

from enum import StrEnum

__all__ = ["StopReason"]


class StopReason(StrEnum):
    """Why a run ended."""

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
    """Somebody stopped it."""
    MODEL_ERROR = "model_error"
    """The model failed or could not be reached."""
    SEARCH_ERROR = "search_error"
    """The search or the collection failed."""
    FAULT = "fault"
    """The program failed, or the disk on which the run is recorded."""
