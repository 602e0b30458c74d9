"""The methods by name."""

from __future__ import annotations

from dataclasses import fields
from types import MappingProxyType
from typing import Any

from vrag.agent.answers.verification import VerifyMode
from vrag.agent.memory.energies import MemoryOptions
from vrag.agent.method import Method
from vrag.agent.methods.baselines import Rag, React
from vrag.agent.methods.vimrag import Vimrag
from vrag.agent.methods.vrag import VragMethod

METHODS = MappingProxyType({kind.name: kind for kind in (VragMethod, Vimrag, Rag, React)})
"""The class of each method, with its name, defaults and capabilities; see `vrag.agent.method.Method`."""


def build_method(
    name: str,
    *,
    instruction: str | None = None,
    reselect: bool = False,
    repair: bool = True,
    own_ids: bool = True,
    verify: VerifyMode = VerifyMode.OFF,
    second_reading: bool = False,
    memory: MemoryOptions | None = None,
) -> Method:
    """Build a method with those of the options that it has.

    Raises `KeyError` if there is no method of this name.
    """
    kind = METHODS[name]
    options = {
        "instruction": instruction,
        "reselect": reselect,
        "repair": repair,
        "own_ids": own_ids,
        "verify": verify,
        "second_reading": second_reading,
        "memory": memory,
    }
    names = {field.name for field in fields(kind) if field.init}
    given: dict[str, Any] = {option: options[option] for option in names if options[option] is not None}
    return kind(**given)
