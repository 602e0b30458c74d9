"""The metadata of a run: its owner, where it was asked, and what people noted about it afterwards."""

from __future__ import annotations

import re
from enum import StrEnum

from pydantic import BaseModel, ConfigDict

MAX_TITLE_CHARS = 200
_CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]+")
"""Characters that end lines, steer terminals, or turn the direction of all that follows."""


class Via(StrEnum):
    """The interface by which a question came."""

    PAGE = "page"
    API = "api"
    OPENAI = "openai"
    MCP = "mcp"
    CLI = "cli"
    """The command line or Python."""


PROGRAMS = frozenset({Via.API, Via.OPENAI, Via.MCP})
"""Interfaces that programs use; people use the others."""


class RunMeta(BaseModel):
    """The metadata of a run. Title, pin and sharing are those of the first run of a conversation."""

    model_config = ConfigDict(frozen=True, use_attribute_docstrings=True, extra="ignore")

    owner: str = ""
    """Name of the user who asked; empty for a run without an owner, which only administrators see."""
    via: Via = Via.CLI
    """The interface by which the question came."""
    title: str = ""
    """Title of the conversation; empty for its first question."""
    pinned: bool = False
    """True if the conversation stands before others in lists."""
    shared: bool = False
    """True if every user may read the conversation."""


def clean_title(text: str) -> str:
    r"""Return a title as one line without control characters, cut after `MAX_TITLE_CHARS`.

    >>> clean_title("  Fares\n2024 ")
    'Fares 2024'
    """
    return " ".join(_CONTROLS.sub(" ", text).split())[:MAX_TITLE_CHARS].rstrip()
