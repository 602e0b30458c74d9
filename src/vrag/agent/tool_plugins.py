"""Custom tools: tools that other packages bring, found by the entry point `vrag.actions`.

An extension is given a line of text by the model and says which items to show, or what to tell. Showing is
the environment's: pictures, sizes and labels are as for a search, in every agent, in serving and in training.

::

    [project.entry-points."vrag.actions"]
    next_page = "my_package:NextPage"        # what is called without arguments and gives an `ToolPlugin`
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Protocol, cast

from vrag.agent.actions import NAME, RESERVED
from vrag.agent.replies.tool_calls import TOOLS
from vrag.errors import ActionError

if TYPE_CHECKING:
    from vrag.search.searcher import Searcher

__all__ = ["GROUP", "ToolContext", "ToolPlugin", "ToolResult", "installed_extensions", "load_extensions"]

GROUP = "vrag.actions"


@dataclass(frozen=True, slots=True)
class ToolContext:
    """The data that a tool may look at."""

    searcher: Searcher
    shown: tuple[str, ...]
    """Ids of the items that the model was shown in this run, in order, each once."""
    documents: frozenset[str] | None
    """Ids of the documents that may be looked at; None for all."""


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The result of a tool.

    Raises:
        TypeError: If `items` or `texts` is no tuple of strings.
    """

    items: tuple[str, ...] = ()
    """Ids of items to show; those outside the documents that may be looked at are left out."""
    texts: tuple[str, ...] = ()
    """Texts for the model; they are treated like text of a document."""

    def __post_init__(self) -> None:
        for name, values in (("items", self.items), ("texts", self.texts)):
            if not _strings(values):
                raise TypeError(f"{name} of what an action found must be a tuple of strings: {values!r:.200}")


def _strings(values: object) -> bool:
    return isinstance(values, tuple) and all(
        isinstance(value, str) for value in cast("tuple[object, ...]", values)
    )


class ToolPlugin(Protocol):
    """A custom tool. One object serves all runs."""

    @property
    def name(self) -> str:
        """Lower-case letters, digits and underscores: a tag in VRAG and ReAct, a tool in VimRAG."""
        ...

    @property
    def usage(self) -> str:
        """One sentence for the model: what it does, and what its text means."""
        ...

    def run(self, text: str, scene: ToolContext) -> ToolResult:
        """Carry it out. May block.

        Raises:
            ValueError: With a sentence that the model can act on. Whatever else is raised, subclasses of
                `ValueError` included, is a fault of the extension: it is logged, and the model is told that
                the action failed.
        """
        ...


def installed_extensions() -> list[str]:
    """Return names of what the packages installed here bring."""
    return sorted({entry.name for entry in entry_points(group=GROUP)})


def load_extensions(names: Iterable[str]) -> dict[str, ToolPlugin]:
    """Return the extensions of these names.

    Raises:
        ActionError: If one is not installed or cannot be loaded.
    """
    return {name: _load(name) for name in dict.fromkeys(names)}


def _load(name: str) -> ToolPlugin:
    entry = next(iter(entry_points(group=GROUP, name=name)), None)
    if entry is None:
        known = ", ".join(installed_extensions()) or "none"
        raise ActionError(
            f"There is no custom tool {name!r}.", f"Installed: {known}. Install the package that has it."
        )
    try:
        extension: ToolPlugin = entry.load()()
        called, usage = extension.name, extension.usage
    except Exception as error:  # third-party code may raise anything; the error names its package
        raise ActionError(
            f"The custom tool {name} ({entry.value}) cannot be loaded: {type(error).__name__}: {error}.",
            "Remove it from VRAG_ACTIONS, or fix its package.",
        ) from error
    named = called == name and NAME.fullmatch(name) and name not in RESERVED | set(TOOLS)
    if not named or not str(usage or "").strip():
        raise ActionError(f"The custom tool {name} ({entry.value}) has an invalid name or usage.")
    return extension
