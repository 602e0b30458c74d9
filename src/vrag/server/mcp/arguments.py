"""What the tools are given."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from vrag.search.schema import ID_PATTERN, NOT_BLANK
from vrag.server.runs.schema import MAX_STEPS, QUESTION_CHARS, RUN_ID, Thinking
from vrag.settings import AgentName

__all__ = ["AskArguments", "CropArguments", "LookArguments", "SearchArguments"]

HITS = 50
PIXELS = 1_003_520
"""Of a picture, where nothing else is asked for: what agents are shown at most."""
MAX_PIXELS = 4_000_000

ItemId = Annotated[str, StringConstraints(pattern=ID_PATTERN)]
Fraction = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
Pixels = Annotated[int, Field(ge=1024, le=MAX_PIXELS)]


class _Arguments(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class SearchArguments(_Arguments):
    """Of `search`."""

    query: Annotated[str, StringConstraints(max_length=8192, pattern=NOT_BLANK)] = Field(
        description="What to look for, in words."
    )
    top_k: int = Field(default=5, ge=1, le=HITS, description="How many items to find.")
    collection: str | None = Field(
        default=None, max_length=200, description="Name of the collection to look in; all when absent."
    )


class LookArguments(_Arguments):
    """Of `look`."""

    item: ItemId = Field(description="Id of an item, from search.")
    max_pixels: Pixels = Field(default=PIXELS, description="Pixels that the picture may have.")


class CropArguments(_Arguments):
    """Of `crop`."""

    item: ItemId = Field(description="Id of an item, from search.")
    box: tuple[Fraction, ...] = Field(
        min_length=4,
        max_length=4,
        description="x1, y1, x2, y2 in fractions of the picture, 0 to 1, from its left and its top.",
    )
    max_pixels: Pixels = Field(default=PIXELS, description="Pixels that the picture may have.")


class AskArguments(_Arguments):
    """Of `ask`."""

    question: Annotated[str, StringConstraints(max_length=QUESTION_CHARS, pattern=NOT_BLANK)] = Field(
        description="The question, in full: the agent knows nothing of your conversation."
    )
    agent: AgentName | None = Field(
        default=None,
        description="vrag looks and crops in one conversation; vimrag keeps a graph of what it saw; "
        "rag answers from one search; react searches and never crops.",
    )
    model: str | None = Field(
        default=None,
        max_length=300,
        description="What writes the agent's replies; the server's own if absent.",
    )
    collection: str | None = Field(
        default=None, max_length=200, description="Name of the collection to look in; all when absent."
    )
    max_steps: int | None = Field(default=None, ge=1, le=MAX_STEPS, description="Model calls at most.")
    thinking: Thinking | None = Field(
        default=None, description="Whether the model thinks apart from its replies."
    )
    session: Annotated[str, StringConstraints(pattern=RUN_ID)] | None = Field(
        default=None, description="The field `session` of an earlier answer, to ask further."
    )
