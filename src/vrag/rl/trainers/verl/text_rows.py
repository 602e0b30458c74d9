"""A correction of verl 0.9.1: rows of Qwen2.5-VL without an image.

For a micro-batch without pictures verl runs the vision tower on an empty picture, so that all ranks make the
same calls, and adds its mean times 0. It takes the output for a tensor, which it was before transformers 5,
and the update fails: `'BaseModelOutputWithPooling' object has no attribute 'mean'`. Such rows are common: a
rollout that answers at once, a first segment of VimRAG, and all rows with which verl fills a batch up.
Everywhere else verl unpacks the output; here the model that is handed to its function has a vision tower
whose output is unpacked already.
"""

from __future__ import annotations

from functools import wraps
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from vrag.rl.trainers.verl.options import library

if TYPE_CHECKING:
    from collections.abc import Callable


_PLACE = "verl.models.transformers.qwen2_vl"


def register() -> None:
    """Correct the function of verl."""
    module = library(_PLACE)
    module._get_input_embeds = unpack_features(module._get_input_embeds, module.unpack_visual_output)  # noqa: SLF001


def unpack_features(
    embed: Callable[..., Any], unpack: Callable[[Any], tuple[Any, Any]]
) -> Callable[..., Any]:
    """Wrap `_get_input_embeds` of verl so that rows without pictures are embedded under transformers 5, too.

    Args:
        embed: The function of verl.
        unpack: `unpack_visual_output` of verl. It leaves tensors alone, so a corrected verl is unaffected.
    """

    @wraps(embed)
    def embed_inputs(model: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        def see(*pixels: Any, **grids: Any) -> Any:  # noqa: ANN401
            return unpack(model.visual(*pixels, **grids))[0]

        see.dtype = model.visual.dtype  # pyright: ignore[reportFunctionMemberAccess]
        facade = SimpleNamespace(
            get_input_embeddings=model.get_input_embeddings, config=model.config, visual=see
        )
        return embed(facade, *args, **kwargs)

    return embed_inputs
