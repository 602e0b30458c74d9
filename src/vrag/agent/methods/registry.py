"""The methods by name."""

from __future__ import annotations

from dataclasses import fields
from types import MappingProxyType
from typing import Any

from vrag.agent.memory.energies import MemoryOptions
from vrag.agent.method import Method
from vrag.agent.methods.rag import Rag
from vrag.agent.methods.react import React
from vrag.agent.methods.vimrag import Vimrag
from vrag.agent.methods.vrag import VragMethod

__all__ = ["METHODS", "build_method"]

METHODS = MappingProxyType({kind.name: kind for kind in (VragMethod, Vimrag, Rag, React)})
"""The class of each method, with its `name`, `title`, `description`, default `steps` and `hits`."""


def build_method(
    name: str,
    *,
    instruction: str | None = None,
    reselect: bool = False,
    repair: bool = True,
    memory: MemoryOptions | None = None,
) -> Method:
    """Build a method with those of the options that it has.

    Raises:
        KeyError: If there is no method of this name.
    """
    kind = METHODS[name]
    options = {"instruction": instruction, "reselect": reselect, "repair": repair, "memory": memory}
    known = {field.name for field in fields(kind) if field.init}
    given: dict[str, Any] = {option: options[option] for option in known if options[option] is not None}
    return kind(**given)
