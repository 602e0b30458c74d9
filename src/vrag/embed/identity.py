"""Whether an embedder is the one whose vectors a collection holds, and how it differs if not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vrag.errors import FingerprintMismatch

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vrag.embed.base import Marked

__all__ = ["check_same"]


def check_same(ours: Marked, theirs: Marked) -> None:
    """Refuses an embedder that makes other vectors than those that are there.

    Args:
        ours: What the collection keeps of the embedder it was built with.
        theirs: The embedder that it is to be used with.

    Raises:
        FingerprintMismatch: If they differ, with all in which they are known to.
    """
    if ours.fingerprint == theirs.fingerprint:
        return
    raise FingerprintMismatch(
        f"The collection was built with the embedder {ours.name} and is now used with the embedder "
        f"{theirs.name}: {_differences(ours, theirs)}.",
        _hint(ours, theirs),
    )


def _hint(ours: Marked, theirs: Marked) -> str:
    hint = "Use the one it was built with, as it was opened then, or build it again in another directory."
    before, now = (mark.settings.get("visual_tokens", 0) for mark in (ours, theirs))
    return f"{hint} VRAG_VISUAL_TOKENS={before} sets visual_tokens as it was." if before != now else hint


def _differences(ours: Marked, theirs: Marked) -> str:
    known = [f"{name} {before}, not {now}" for name, before, now in _pairs(ours, theirs) if before != now]
    if known:
        return "; ".join(known)
    unlike = "other weights or configuration"
    return unlike if ours.settings or not theirs.settings else f"{unlike}, or other settings than now"


def _pairs(ours: Marked, theirs: Marked) -> Iterator[tuple[str, object, object]]:
    """What may differ: its name, as it was then, as it is now."""
    yield "vectors", ours.kind, theirs.kind
    yield "dimension", ours.dimension, theirs.dimension
    if ours.settings:  # the first collections kept none
        for name in sorted({*ours.settings, *theirs.settings}):
            before, now = (mark.settings.get(name, "the model's own") for mark in (ours, theirs))
            yield name, before, now
