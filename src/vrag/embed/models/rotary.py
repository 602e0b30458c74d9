"""Positions and attention that embedding models were trained with, where transformers 5 has others."""

from __future__ import annotations

import functools
import itertools
from typing import TYPE_CHECKING, Any

from vrag.embed.device import library

if TYPE_CHECKING:
    from collections.abc import Iterator


def restore_positions(model: Any) -> bool:  # noqa: ANN401 - a network of transformers
    """Restore the positions that the weights of a `ColQwen2ForRetrieval` were trained with.

    Its `forward` (transformers 5.23) hands the language model embeddings alone, from which the
    positions of patches in time, height and width cannot be told, so that they fall back to one
    running number; vectors of pictures then stand at a cosine of .92 to .97 to the right ones. Here the
    positions are computed from the ids and the grid, as the backbone does by itself when it is called
    directly (Wang et al. 2024, "Qwen2-VL", M-RoPE), which makes the vectors those of colpali-engine.
    Queries, which are text alone, do not change.

    Returns:
        Whether the network had this fault; others are not changed.
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


def qwen2_5_positions(config: Any, inputs: dict[str, Any]) -> Any:  # noqa: ANN401 - tensors
    """Compute positions in time, height and width, (3, sequences, tokens), as in Qwen2.5-VL's training.

    Tokens after an image or video begin behind the largest position in it (Bai et al. 2025, "Qwen2.5-VL",
    after Wang et al. 2024, "Qwen2-VL"). transformers 5.23 begins behind the height and width of a video
    alone, so that the text after a long one gets positions of its frames; releases up to 4.57 were right.

    Args:
        config: Of the network.
        inputs: `attention_mask` (padding on the right) and `mm_token_type_ids` (0 text, 1 image, 2 video),
            both (sequences, tokens); the grids of images and videos in patches; `second_per_grid_ts`.
    """
    torch = library("torch")
    kinds = inputs["mm_token_type_ids"]
    grids = {1: iter(inputs.get("image_grid_thw", ())), 2: iter(inputs.get("video_grid_thw", ()))}
    seconds = iter(inputs.get("second_per_grid_ts", ()))
    positions = torch.zeros(3, *kinds.shape, dtype=torch.long, device=kinds.device)
    for row, (sequence, mask) in enumerate(
        zip(kinds.tolist(), inputs["attention_mask"].tolist(), strict=True)
    ):
        length = sum(mask)
        parts = _parts(config, sequence[:length], grids, seconds)
        positions[:, row, :length] = torch.cat(list(parts), dim=1)
    return positions


def _parts(
    config: Any,  # noqa: ANN401
    kinds: list[int],
    grids: dict[int, Iterator[Any]],
    seconds: Iterator[Any],
) -> Iterator[Any]:
    """Yield the positions of each run of tokens of one kind, (3, tokens), in the order of the sequence."""
    torch, vision, start = library("torch"), config.vision_config, 0
    for kind, tokens in itertools.groupby(kinds):
        if kind == 0:
            part = torch.arange(len(list(tokens))).expand(3, -1)
        else:
            time, height, width = next(grids[kind]).tolist()
            rows, columns = height // vision.spatial_merge_size, width // vision.spatial_merge_size
            step = float(next(seconds)) * vision.tokens_per_second if kind == 2 else 0.0
            axes = (torch.arange(time) * step).long(), torch.arange(rows), torch.arange(columns)
            part = torch.stack(torch.meshgrid(*axes, indexing="ij")).reshape(3, -1)
        yield part + start
        start += int(part.max()) + 1


def restore_attention(model: Any) -> bool:  # noqa: ANN401 - a network of transformers
    """Restore the attention of PaliGemma over its whole input that ColPali was trained with.

    A prompt is a prefix of PaliGemma: each token attends to all others (Beyer et al. 2024, "PaliGemma",
    section on prefix-LM masking). transformers 5.23 does so for an input alone; once a batch has padding
    and no `token_type_ids`, which processors leave out for texts, it masks causally, and vectors of the same
    query then stand at cosines down to -.6 to each other. Here an input without `token_type_ids` is
    one prefix, whatever else is in the batch, as in transformers 4. Padding is masked as before.

    Returns:
        Whether the network has a part that is a `PaliGemmaModel`; other parts are not changed.
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
