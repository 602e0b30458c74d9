"""Questions by what they are about: the groups whose results reports tell beside those of all."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from vrag.evaluation.record import Subject
    from vrag.types import Case

__all__ = ["ANSWERABLE", "GROUPS", "grouped"]


GROUPS: Mapping[str, Callable[[Case | Subject], Iterable[str]]] = {
    "benchmark": lambda one: [one.benchmark],
    "source_type": lambda one: one.source_type,
    "query_type": lambda one: [one.query_type],
    "document_type": lambda one: [one.document_type],
}
"""By name, what labels a question has. One with several (`source_type`) is in the group of each."""

ANSWERABLE = {True: "answerable", False: "not answerable"}
"""What the groups are called that records have beside these."""

T = TypeVar("T")


def grouped(
    things: Iterable[T], labels: Mapping[str, Callable[[T], Iterable[str]]]
) -> dict[str, dict[str, list[T]]]:
    """Things by the kind of label and the label, in the order of the alphabet.

    Things without a label of a kind are in no group of that kind; kinds that nothing has a label of are left
    out. The groups of a kind can overlap.
    """
    found: dict[str, defaultdict[str, list[T]]] = {kind: defaultdict(list) for kind in labels}
    for thing in things:
        for kind, labels_of in labels.items():
            for label in dict.fromkeys(filter(None, labels_of(thing))):
                found[kind][label].append(thing)
    return {kind: {label: held[label] for label in sorted(held)} for kind, held in found.items() if held}
