"""The metadata of a run: its owner, where it was asked, and what people noted about it afterwards.

It is kept in `meta.json` beside the events, which never change. A file that is missing or damaged says that
the run has no owner: then only administrators see it. A deletion of runs tells the two apart (`load_meta`).
"""

from __future__ import annotations

import re
from enum import StrEnum
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from vrag.atomic_io import write_whole
from vrag.index.integrity.sealed_json import Seal, check_seal, seal_json

META = "meta.json"
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
    """The command line or Python; also runs of former versions, which did not note it."""


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


def load_meta(directory: Path) -> RunMeta | None:
    """Read the metadata of the run in a directory; the defaults if it has none, None if it is damaged."""
    try:
        data = (directory / META).read_bytes()
    except FileNotFoundError:
        return RunMeta()
    except OSError:
        return None
    if check_seal(data, tuple(RunMeta.model_fields)) is Seal.BROKEN:
        return None
    try:
        return RunMeta.model_validate_json(data)
    except ValidationError:
        return None


def read_meta(directory: Path) -> RunMeta:
    """Read the metadata of the run in a directory; the defaults if it has none that can be read."""
    return load_meta(directory) or RunMeta()


def write_meta(directory: Path, meta: RunMeta) -> None:
    """Write the metadata of the run in a directory, at once. Raises `OSError` if the disk refuses."""
    write_whole(directory / META, seal_json(meta.model_dump(mode="json")))


def clean_title(text: str) -> str:
    r"""Return a title as one line without control characters, cut after `MAX_TITLE_CHARS`.

    >>> clean_title("  Fares\n2024 ")
    'Fares 2024'
    """
    return " ".join(_CONTROLS.sub(" ", text).split())[:MAX_TITLE_CHARS].rstrip()
