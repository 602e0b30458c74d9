"""Positions and attention as late-interaction models were trained with, where transformers 5 has others."""

from __future__ import annotations

import functools
from typing import Any

__all__ = ["restore_attention", "restore_positions"]


def restore_positions(model: Any) -> bool:  # noqa: ANN401 - a network of transformers
    """Gives a `ColQwen2ForRetrieval` the positions that its weights were trained with.

    Its `forward` (transformers 5.23) hands the language model embeddings alone, from which the
    positions of patches in time, height and width cannot be told, so that they fall back to one
    running number; vectors of pictures then stand at a cosine of .92 to .97 to the right ones. Here the
    positions are computed from the ids and the grid, as the backbone does by itself when it is called
    directly (Wang et al. 2024, "Qwen2-VL", M-RoPE), which makes the vectors those of colpali-engine.
    Queries, which are text alone, are as they were.

    Args:
        model: Any network; only one with this fault is changed.

    Returns:
        Whether it was changed.
    """
    backbone: Any = getattr(model, "vlm", None)
    if type(model).__name__ != "ColQwen2ForRetrieval" or not hasattr(backbone, "get_rope_index"):
        return False
    forward = model.forward
    image_token = model.config.vlm_config.image_token_id

    @functools.wraps(forward)
    def positioned(*arguments: Any, **inputs: Any) -> Any:  # noqa: ANN401
        grid = inputs.get("image_grid_thw")
        if grid is not None and inputs.get("position_ids") is None:
            ids = inputs["input_ids"]
            inputs["position_ids"], _ = backbone.get_rope_index(
                ids,
                (ids == image_token).int(),
                image_grid_thw=grid,
                attention_mask=inputs.get("attention_mask"),
            )
        return forward(*arguments, **inputs)

    model.forward = positioned
    return True


def restore_attention(model: Any) -> bool:  # noqa: ANN401 - a network of transformers
    """Give PaliGemma the attention over its whole input that ColPali was trained with.

    A prompt is a prefix of PaliGemma: each token attends to all others (Beyer et al. 2024, "PaliGemma",
    section on prefix-LM masking). transformers 5.23 does so for an input alone; once a batch has padding
    and no `token_type_ids`, which processors leave out for texts, it masks causally, and vectors of the same
    query then stand at cosines down to -.6 to each other. Here whatever comes without `token_type_ids` is
    one prefix, whatever else is in the batch, as in transformers 4. Padding is masked as before.

    Args:
        model: Any network; only parts that are a `PaliGemmaModel` are changed.

    Returns:
        Whether there was such a part.
    """
    parts = [part for part in model.modules() if type(part).__name__ == "PaliGemmaModel"]
    for part in parts:
        part.forward = _as_prefix(part.forward)
    return bool(parts)


def _as_prefix(forward: Any) -> Any:  # noqa: ANN401
    @functools.wraps(forward)
    def attending(*arguments: Any, **inputs: Any) -> Any:  # noqa: ANN401
        ids = inputs.get("input_ids")
        if ids is not None and inputs.get("token_type_ids") is None:
            inputs["token_type_ids"] = ids.new_zeros(ids.shape)
        return forward(*arguments, **inputs)

    return attending
