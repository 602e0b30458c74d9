"""Whether an embedder is the one whose vectors a collection holds, and how it differs if not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vrag.errors import FingerprintMismatch

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vrag.embed.embedder import EmbedderInfo

__all__ = ["RETIRED", "check_retired", "check_same"]

RETIRED = frozenset({"gve-reference"})
"""Schemes whose embedders made wrong vectors in earlier versions; as names they stand for `gve`."""


def check_same(ours: EmbedderInfo, theirs: EmbedderInfo) -> None:
    """Refuses an embedder that makes other vectors than those that are there.

    Args:
        ours: What the collection keeps of the embedder it was built with.
        theirs: The embedder that it is to be used with.

    Raises:
        FingerprintMismatch: If they differ, with all in which they are known to.
    """
    if ours.fingerprint == theirs.fingerprint:
        return
    check_retired(ours)
    raise FingerprintMismatch(
        f"The collection was built with the embedder {ours.name} and is now used with the embedder "
        f"{theirs.name}: {_differences(ours, theirs)}.",
        _hint(ours, theirs),
    )


def check_retired(ours: EmbedderInfo) -> None:
    """Refuse what was built with an embedder that made wrong vectors.

    Args:
        ours: What the collection keeps of its embedder.

    Raises:
        FingerprintMismatch: If it was; says how to make it anew.
    """
    scheme, _, model = ours.name.partition(":")
    if scheme not in RETIRED:
        return
    raise FingerprintMismatch(
        f"The collection was built with {ours.name}, which left out the token whose state GVE's vector is: "
        "its vectors, or those of the queries asked of it, were wrong.",
        f"Make a new collection with gve:{model}. Of an imported index: `vrag index import DIR --collection "
        f"NEW --embedder gve:{model}`, which takes its vectors as they are; of files: `vrag index add "
        f"PATH --collection NEW --embedder gve:{model}`. Words can still be searched: VRAG_RANKING=lexical.",
    )


def _hint(ours: EmbedderInfo, theirs: EmbedderInfo) -> str:
    hint = "Use the one it was built with, as it was opened then, or build it again in another directory."
    before, now = (mark.settings.get("visual_tokens", 0) for mark in (ours, theirs))
    return f"{hint} VRAG_VISUAL_TOKENS={before} sets visual_tokens as it was." if before != now else hint


def _differences(ours: EmbedderInfo, theirs: EmbedderInfo) -> str:
    known = [f"{name} {before}, not {now}" for name, before, now in _pairs(ours, theirs) if before != now]
    if known:
        return "; ".join(known)
    unlike = "other weights, configuration or version of vrag"
    return unlike if ours.settings or not theirs.settings else f"{unlike}, or other settings than now"


def _pairs(ours: EmbedderInfo, theirs: EmbedderInfo) -> Iterator[tuple[str, object, object]]:
    """What may differ: its name, as it was then, as it is now."""
    yield "vectors", ours.kind, theirs.kind
    yield "dimension", ours.dimension, theirs.dimension
    if ours.settings:  # the first collections kept none
        for name in sorted({*ours.settings, *theirs.settings}):
            before, now = (mark.settings.get(name, "the model's own") for mark in (ours, theirs))
            yield name, before, now
