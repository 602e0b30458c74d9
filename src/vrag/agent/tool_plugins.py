"""Custom tools: tools that other packages bring, found by the entry point `vrag.actions`.

A custom tool is given a line of text by the model and says which items to show, or what to tell. Showing is
the environment's: pictures, sizes and labels are as for a search, in every agent, in serving and in training.

::

    [project.entry-points."vrag.actions"]
    next_page = "my_package:NextPage"        # called without arguments, it returns a `ToolPlugin`
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from importlib.metadata import entry_points
from typing import Protocol, cast

from vrag.agent.actions import NAME, RESERVED
from vrag.agent.replies.tool_calls import TOOLS
from vrag.errors import ActionError
from vrag.search.searcher import Searcher

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
    """The result of a tool. Raises `TypeError` if `items` or `texts` is no tuple of strings."""

    items: tuple[str, ...] = ()
    """Ids of items to show; those outside the documents that may be looked at are left out."""
    texts: tuple[str, ...] = ()
    """Texts for the model; they are treated like text of a document."""

    def __post_init__(self) -> None:
        for name, values in (("items", self.items), ("texts", self.texts)):
            entries = cast("object", values)  # a plugin may break its type
            if not isinstance(entries, tuple) or any(type(entry) is not str for entry in values):
                raise TypeError(f"{name} of a ToolResult must be a tuple of strings: {values!r:.200}")


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

    def run(self, text: str, context: ToolContext) -> ToolResult:
        """Carry it out. May block.

        Raises:
            ValueError: With a sentence that the model can act on. Any other error, subclasses of `ValueError`
                included, is a fault of the tool: it is logged, and the model is told that the tool failed.
        """
        ...


def installed_tools() -> list[str]:
    """Return the names of the custom tools that installed packages bring."""
    return sorted({entry.name for entry in entry_points(group=GROUP)})


def load_tools(names: Iterable[str]) -> dict[str, ToolPlugin]:
    """Return the custom tools of these names.

    Raises `ActionError` if one is not installed or cannot be loaded.
    """
    tools: dict[str, ToolPlugin] = {}
    for name in dict.fromkeys(names):
        entry = next(iter(entry_points(group=GROUP, name=name)), None)
        if entry is None:
            installed = ", ".join(installed_tools()) or "none"
            raise ActionError(
                f"There is no custom tool {name!r}.",
                f"Installed: {installed}. Install the package that has it.",
            )
        try:
            tool: ToolPlugin = entry.load()()
            own_name, usage = tool.name, tool.usage
        except Exception as error:  # third-party code may raise anything; the error names its package
            raise ActionError(
                f"The custom tool {name} ({entry.value}) cannot be loaded: {type(error).__name__}: {error}.",
                "Remove it from VRAG_ACTIONS, or fix its package.",
            ) from error
        is_named = own_name == name and NAME.fullmatch(name) and name not in RESERVED | set(TOOLS)
        if not is_named or not str(usage or "").strip():
            raise ActionError(
                f"The custom tool {name} ({entry.value}) has an invalid name or usage.",
                f"Its name must be {name!r}, in lower-case letters, digits and underscores, and not that of "
                "a built-in action; its usage must be a sentence.",
            )
        tools[name] = tool
    return tools
