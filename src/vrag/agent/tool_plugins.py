"""Custom tools: tools that other packages bring, found by the entry point `vrag.actions`.

A custom tool is given a line of text by the model and says which items to show, or what to tell. Showing is
the environment's: pictures, sizes and labels are as for a search, in every agent, in serving and in training.

::

    [project.entry-points."vrag.actions"]
    next_page = "my_package:NextPage"        # called without arguments, it returns a `ToolPlugin`
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from importlib.metadata import entry_points
from typing import Protocol, cast

from vrag.agent.actions import NAME, RESERVED
from vrag.agent.replies.tool_calls import TOOLS
from vrag.errors import ActionError
from vrag.search.searcher import Searcher, list_documents

GROUP = "vrag.actions"


@dataclass(frozen=True, slots=True)
class ToolContext:
    """The data that a tool may look at, and for whom it does."""

    searcher: Searcher
    """Finds and opens what is in scope; raises `OutOfScopeError` for anything else."""
    shown: tuple[str, ...]
    """Ids of the items that the model was shown in this run, in order, each once."""
    documents: frozenset[str] | None
    """Ids of the documents that may be looked at; None for all of the collections."""
    collections: frozenset[str] | None = None
    """Names of the collections that may be looked at; None for all."""
    user: str = ""
    """Name of the user who asks; empty where there are no users."""

    def list_documents(self) -> dict[str, str]:
        """Return the file names of the documents in scope by their ids, sorted by name.

        Raises `SearchError` if the search server does not list its documents, and `CollectionError` if a
        collection cannot be read.
        """
        return list_documents(self.searcher)


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The result of a tool. Raises `TypeError` if `items` or `texts` is no tuple of strings."""

    items: tuple[str, ...] = ()
    """Ids of items to show; those outside the scope are refused, and the run says so."""
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


class ListDocuments:
    """The built-in tool `list_documents`: the file names of the documents in scope."""

    name = "list_documents"
    usage = "Lists documents by their file names: write words of the names, or all."
    _MAX_NAMES = 100

    def run(self, text: str, context: ToolContext) -> ToolResult:
        """Return the names that have all words of the text, as text; see `ToolPlugin`."""
        words = [] if text.strip().casefold() in {"", "all", "*"} else text.casefold().split()
        names = list(context.list_documents().values())
        found = [name for name in names if all(word in name.casefold() for word in words)]
        shown = found[: self._MAX_NAMES]
        rest = len(found) - len(shown)
        more = (f"and {rest:,} more: write words of their names",) if rest else ()
        heading = f"{len(found):,} of {len(names):,} documents" + (":" if found else " have such a name.")
        return ToolResult(texts=("\n".join((heading, *shown, *more)),))


BUILT_IN_TOOLS: Mapping[str, Callable[[], ToolPlugin]] = {ListDocuments.name: ListDocuments}
"""Tools that come with this package and are offered where they are asked for, as custom tools are."""


def installed_tools() -> list[str]:
    """Return the names of the tools that can be offered: built-in ones, and those of installed packages."""
    return sorted({*BUILT_IN_TOOLS, *(entry.name for entry in entry_points(group=GROUP))})


def load_tools(names: Iterable[str]) -> dict[str, ToolPlugin]:
    """Return the custom tools of these names.

    Raises `ActionError` if one is not installed or cannot be loaded.
    """
    tools: dict[str, ToolPlugin] = {}
    for name in dict.fromkeys(names):
        entry = next(iter(entry_points(group=GROUP, name=name)), None)
        if entry is None and name in BUILT_IN_TOOLS:
            tools[name] = BUILT_IN_TOOLS[name]()
            continue
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
        is_named = (
            own_name == name and NAME.fullmatch(name) and name not in {*RESERVED, *TOOLS, *BUILT_IN_TOOLS}
        )
        if not is_named or not str(usage or "").strip():
            raise ActionError(
                f"The custom tool {name} ({entry.value}) has an invalid name or usage.",
                f"Its name must be {name!r}, in lower-case letters, digits and underscores, and not that of "
                "a built-in action; its usage must be a sentence.",
            )
        tools[name] = tool
    return tools
