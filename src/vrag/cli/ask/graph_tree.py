"""The memory graph of a run as a tree of text, for a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text
from rich.tree import Tree

from vrag.cli.terminal.console import plain

if TYPE_CHECKING:
    from vrag.agent.memory.memory_graph import Graph, Node

__all__ = ["graph_tree"]

_QUERY, _SUMMARY = 200, 300
"""Characters of what a model wrote that are printed."""


def graph_tree(graph: Graph) -> Tree:
    """Lay out a graph as a tree: each node below the first of its parents, which names the others.

    Args:
        graph: Whose first node is the root.
    """
    root = graph.nodes[0]
    branches = {root.id: Tree(_label(root))}
    for node in graph.nodes[1:]:  # in the order of creation: parents come before
        branches[node.id] = branches[node.parents[0] if node.parents else root.id].add(_label(node))
    return branches[root.id]


def _label(node: Node) -> Text:
    """A node's id, its kind if the id does not say it, its query, its other parents, and what it found."""
    label = Text(plain(node.id), "bold")
    if not node.id.startswith(node.kind):
        label.append(f" {node.kind}", "not bold dim")
    if node.query:
        label.append(f"  {plain(node.query, _QUERY)}", "cyan")
    if others := ", ".join(map(plain, node.parents[1:])):
        label.append(f"  (also from {others})", "dim")
    if node.summary:
        label.append(f"\n{plain(node.summary, _SUMMARY)}")
    return label
