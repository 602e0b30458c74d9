"""The comparison of an embedder with the one whose vectors a collection holds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vrag.errors import FingerprintMismatch

if TYPE_CHECKING:
    from vrag.embed.embedder import EmbedderInfo


RETIRED = frozenset({"gve-reference"})
"""Schemes whose embedders made wrong vectors in earlier versions; in settings they mean `gve`."""


def check_same(built_with: EmbedderInfo, used_with: EmbedderInfo) -> None:
    """Refuse to use a collection with an embedder that makes other vectors than the one it was built with.

    Raises `FingerprintMismatch` if they differ, with all known differences.
    """
    if built_with.fingerprint == used_with.fingerprint:
        return
    check_retired(built_with)
    values = [("vectors", built_with.kind, used_with.kind)]
    values += [("dimension", str(built_with.dimension), str(used_with.dimension))]
    if built_with.settings:  # the first collections kept none
        for name in sorted({*built_with.settings, *used_with.settings}):
            before, now = (
                str(info.settings.get(name, "the model's own")) for info in (built_with, used_with)
            )
            values.append((name, before, now))
    differences = "; ".join(f"{name} {before}, not {now}" for name, before, now in values if before != now)
    if not differences:
        differences = "other weights, configuration or version of vrag"
        if used_with.settings and not built_with.settings:
            differences += ", or other settings than now"
    hint = "Use the embedder it was built with, with the same settings, or rebuild it in another directory."
    before, now = (info.settings.get("visual_tokens", 0) for info in (built_with, used_with))
    if before != now:
        hint = f"{hint} VRAG_VISUAL_TOKENS={before} restores visual_tokens."
    raise FingerprintMismatch(
        f"The collection was built with the embedder {built_with.name} and is now used with the embedder "
        f"{used_with.name}: {differences}.",
        hint,
    )


def check_retired(built_with: EmbedderInfo) -> None:
    """Refuse a collection built with an embedder that made wrong vectors.

    Raises `FingerprintMismatch` if it was; with the command that makes a new one.
    """
    scheme, _, model = built_with.name.partition(":")
    if scheme not in RETIRED:
        return
    raise FingerprintMismatch(
        f"The collection was built with {built_with.name}, which left out the token whose state GVE's vector "
        "is: its vectors, or those of the queries asked of it, were wrong.",
        f"Make a new collection with gve:{model}. Of an imported index: `vrag index import DIR --collection "
        f"NEW --embedder gve:{model}`, which takes its vectors as they are; of files: `vrag index add "
        f"PATH --collection NEW --embedder gve:{model}`. Words can still be searched: VRAG_RANKING=lexical.",
    )
