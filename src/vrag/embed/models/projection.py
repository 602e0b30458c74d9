"""Check of the projection of an adapter of colpali-engine against its base model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vrag.embed.device import library
from vrag.embed.model_files import read_settings
from vrag.embed.models.load_report import PROJECTION
from vrag.errors import EmbedError

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["check_projection"]

_TOLERANCE = 1e-2
"""Of the greatest weight: half precision rounds by less, other base models differ by more."""


def check_projection(adapter: Path, base: Path, dense: Path | None) -> None:
    """Refuse an adapter whose projection is missing, or was made over another base model.

    colpali-engine trains the projection by the adapter: base weight + scale · B · A. sentence-transformers
    keeps the sum in a module `Dense`. That they agree shows that the base model is the adapter's own, which
    shapes alone cannot show. Nothing is checked where base and adapter do not both hold the projection.

    Args:
        adapter: Folder of the adapter.
        base: Folder of the base model.
        dense: Folder of the module `Dense`; None when none is listed.

    Raises:
        EmbedError: If no module holds the projection, or it is another.
    """
    name = f"base_model.model.{PROJECTION}"
    updates = [_tensor(adapter, "adapter_model", f"{name}.lora_{side}.weight") for side in "BA"]
    if updates[0] is None or updates[1] is None:
        return
    if dense is None:
        raise EmbedError(
            f"The adapter {adapter} trains a projection, and modules.json lists no module Dense for it.",
            "Use a revision with modules.json for sentence-transformers, or the merged model.",
        )
    weight, found = _tensor(base, "model", f"{PROJECTION}.weight"), _tensor(dense, "model", "linear.weight")
    scale = _scale(read_settings(adapter, "adapter_config.json"))
    if weight is None or found is None or scale is None:
        return
    expected = weight.float() + scale * updates[0].float() @ updates[1].float()
    same_shape = found.shape == expected.shape
    if not same_shape or (found.float() - expected).abs().max() > _TOLERANCE * expected.abs().max():
        raise EmbedError(
            f"The projection in {dense} is not that of the base model {base} with the adapter {adapter}: the "
            "adapter was trained over another base model.",
            "Correct base_model_name_or_path in its adapter_config.json.",
        )


def _scale(config: dict[str, Any]) -> float | None:
    """The factor of the update; None for kinds of adapters that scale otherwise."""
    rank, alpha = config.get("r"), config.get("lora_alpha")
    unusual = ("use_rslora", "use_dora", "rank_pattern", "alpha_pattern")
    if not rank or not alpha or any(config.get(name) for name in unusual):
        return None
    return float(alpha) / float(rank)


def _tensor(folder: Path, stem: str, name: str) -> Any:  # noqa: ANN401 - a tensor, or None
    """A tensor of a checkpoint, whole or in shards; None when it has none of that name."""
    shards: dict[str, str] = read_settings(folder, f"{stem}.safetensors.index.json").get("weight_map", {})
    path = folder / shards.get(name, f"{stem}.safetensors")
    if not path.is_file():
        return None
    with library("safetensors").safe_open(path, framework="pt") as file:
        return file.get_tensor(name) if name in file.keys() else None  # noqa: SIM118 - not a mapping
