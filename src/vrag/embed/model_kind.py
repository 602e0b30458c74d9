"""The kind of a checkpoint by its files: decided before anything is loaded, and never by its name.

sentence-transformers 6.2 loads nearly anything: what it does not recognise gets a projection of
random numbers (`MultiVectorEncoder`), mean pooling that the model was not trained for
(`SentenceTransformer`), or a random classification head (`CrossEncoder`), and goes on to give
vectors and scores that look like any others. All of these are refused here.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, cast

from vrag.embed.device import library
from vrag.embed.model_files import find_checkpoint, module_folder, read_json, read_settings
from vrag.embed.models.loader import PROJECTION
from vrag.errors import EmbedError

QWEN3_INSTRUCTION = "Represent the user's input."
"""Default instruction of Qwen3-VL-Embedding for queries and items."""
_OWN = "sentence_transformers."
_TOKEN_MODULES = {"MultiVectorMask", "HierarchicalTokenPooling"}
_PROJECTION_TOLERANCE = 1e-2
"""Fraction of the greatest weight: half precision rounds by less, other base models differ by more."""


class EmbedderRole(StrEnum):
    """The task that a checkpoint was trained for."""

    SINGLE = "single"
    """One vector of a content."""
    MULTI = "multi"
    """Many vectors of a content."""
    RERANK = "rerank"
    """A score of a pair."""


class Route(StrEnum):
    """The files that describe the model: part of the fingerprint."""

    MODULES = "modules"
    """`modules.json` lists the parts."""
    NATIVE = "native"
    """A class of transformers that holds the head: `ColQwen2ForRetrieval` and its kind."""


@dataclass(frozen=True, slots=True)
class ModelKindReport:
    """The description of a checkpoint before it is loaded."""

    folder: Path
    role: EmbedderRole
    route: Route
    config: dict[str, Any]
    """The configuration of the network; that of the base model where an adapter lies on top."""
    base: Path | None = None
    """The folder of the base model, where the checkpoint is an adapter."""

    @property
    def sees(self) -> bool:
        """True if the network takes images."""
        return "vision_config" in self.config or "vision_config" in self.config.get("vlm_config", {})


def read_layout(folder: Path) -> ModelKindReport:
    """Read the kind of a checkpoint.

    Raises `EmbedError` if its files do not say, contradict each other, or ask to run their own code; or if
    loading it would invent parts that were never trained.
    """
    modules = read_json(folder, "modules.json")
    if modules is not None:
        return _by_modules(folder, modules)
    if (folder / "adapter_config.json").is_file():
        raise EmbedError(
            f"{folder} is an adapter without modules.json: loaded as it is, its projection would be random.",
            "Use a revision that has modules.json, or the merged model (for vidore/colqwen2-v1.0: "
            "vidore/colqwen2-v1.0-hf).",
        )
    config = read_settings(folder, "config.json")
    if not config:
        raise EmbedError(f"{folder} is not a model: it has neither modules.json nor config.json.")
    return _by_architecture(folder, config)


def is_qwen3_vl_embedding(folder: Path) -> bool:
    """Return whether a checkpoint is laid out as Qwen3-VL-Embedding, which has an adapter of its own.

    That is a Qwen3-VL whose last token is pooled and brought to length 1, and which knows no other
    instruction than its default one: models made from it for tasks with instructions of their own go through
    sentence-transformers. Raises `EmbedError` if a file is damaged.
    """
    modules = read_json(folder, "modules.json")
    if read_settings(folder, "config.json").get("model_type") != "qwen3_vl" or not isinstance(modules, list):
        return False
    entries = [
        cast("dict[str, Any]", entry) for entry in cast("list[object]", modules) if isinstance(entry, dict)
    ]
    kinds = [str(entry.get("type")).rpartition(".")[2] for entry in entries]
    if kinds != ["Transformer", "Pooling", "Normalize"] or (folder / "adapter_config.json").is_file():
        return False
    pooling = read_settings(module_folder(folder, str(entries[1].get("path", ""))), "config.json")
    last = pooling.get("pooling_mode") == "lasttoken" or pooling.get("pooling_mode_lasttoken") is True
    settings: dict[str, Any] = read_settings(folder, "config_sentence_transformers.json")
    prompts = cast("dict[str, object]", settings.get("prompts") or {})
    named = {str(prompt) for prompt in prompts.values()}
    return last and named <= {"", QWEN3_INSTRUCTION}


def _by_architecture(folder: Path, config: dict[str, Any]) -> ModelKindReport:
    names = [str(name) for name in cast("list[object]", config.get("architectures") or [])]
    known = library("transformers")
    for suffix, role in (
        ("ForRetrieval", EmbedderRole.MULTI),
        ("ForSequenceClassification", EmbedderRole.RERANK),
    ):
        if any(name.endswith(suffix) for name in names):
            if not any(hasattr(known, name) for name in names):
                raise EmbedError(
                    f"{folder} comes with code for its network ({', '.join(names)}), which is not run.",
                    f"transformers {known.__version__} does not know this network; try a newer version.",
                )
            return ModelKindReport(folder, role, Route.NATIVE, config)
    if "HF_ColBERT" in names:
        return ModelKindReport(folder, EmbedderRole.MULTI, Route.NATIVE, config)
    raise EmbedError(
        f"{folder} holds a network ({', '.join(names) or 'without a name'}) and nothing that says how it "
        "embeds: pooling or projection would be invented.",
        "Use a checkpoint with modules.json or an architecture that ends in ForRetrieval; GVE is gve:PATH, "
        "Qwen3-VL-Embedding qwen3-vl:PATH.",
    )


def _by_modules(folder: Path, modules: object) -> ModelKindReport:
    if not isinstance(modules, list) or not modules:
        raise EmbedError(f"{folder / 'modules.json'} lists no modules.")
    entries = cast("list[dict[str, Any]]", modules)
    try:
        parts = [(str(entry["type"]), module_folder(folder, str(entry["path"]))) for entry in entries]
    except (TypeError, KeyError) as error:
        raise EmbedError(f"{folder / 'modules.json'} is damaged: {error!r}.") from error
    for kind, place in parts:
        _check_part(kind, place)
    role = _read_role(folder, {kind.rpartition(".")[2] for kind, _ in parts})
    base = None
    if adapter := read_settings(folder, "adapter_config.json"):
        name = adapter.get("base_model_name_or_path")
        if not name:
            raise EmbedError(f"The adapter in {folder} does not say which model it adapts.")
        base = find_checkpoint(str(name))
        dense = next((place for kind, place in parts if kind.endswith(".Dense")), None)
        check_projection(folder, base, dense)
    config = read_settings(base or folder, "config.json")
    return ModelKindReport(folder, role, Route.MODULES, config, base)


def _check_part(kind: str, place: Path) -> None:
    """Refuse a module that brings code, lacks weights or has an activation that would be replaced."""
    if not kind.startswith(_OWN):
        raise EmbedError(f"The model asks to run its own code ({kind}), which is not done.")
    if kind.rpartition(".")[2] != "Dense":
        return
    if not (place / "model.safetensors").is_file():
        raise EmbedError(f"The projection in {place} has no model.safetensors.", "Download the model again.")
    activation = str(read_settings(place, "config.json").get("activation_function", "torch."))
    if not activation.startswith("torch."):
        raise EmbedError(
            f"The projection in {place} wants the activation {activation}, which is code of its own."
        )


def _read_role(folder: Path, names: set[str]) -> EmbedderRole:
    """Read the role in `config_sentence_transformers.json`, checked against the names of the modules."""
    settings = read_settings(folder, "config_sentence_transformers.json")
    declared = str(settings.get("model_type", "SentenceTransformer"))
    roles = {
        "SentenceTransformer": EmbedderRole.SINGLE,
        "MultiVectorEncoder": EmbedderRole.MULTI,
        "ColBERT": EmbedderRole.MULTI,
        "CrossEncoder": EmbedderRole.RERANK,
    }
    if declared not in roles:
        raise EmbedError(
            f"{folder} is a {declared}, which gives neither vectors of contents nor scores of pairs."
        )
    role = roles[declared]
    conflict = ""
    if role is EmbedderRole.SINGLE and names & _TOKEN_MODULES:
        conflict = "one vector and lists modules for many"
    if role is EmbedderRole.MULTI and "Pooling" in names:
        conflict = "many vectors and lists a module that pools them into one"
    if conflict:
        raise EmbedError(
            f"{folder} says that it makes {conflict}.",
            "Correct model_type in its config_sentence_transformers.json.",
        )
    return role


def check_projection(adapter: Path, base: Path, dense: Path | None) -> None:
    """Refuse an adapter whose projection is missing, or was made over another base model.

    colpali-engine trains the projection by the adapter: base weight + scale · B · A. sentence-transformers
    keeps the sum in a module `Dense`. That they agree shows that the base model is the adapter's own, which
    shapes alone cannot show. Nothing is checked where base and adapter do not both hold the projection.

    All arguments are folders; `dense` is None when `modules.json` lists no such module. Raises `EmbedError`
    if no module holds the projection, or it is another.
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
    weight, merged = _tensor(base, "model", f"{PROJECTION}.weight"), _tensor(dense, "model", "linear.weight")
    scale = _adapter_scale(read_settings(adapter, "adapter_config.json"))
    if weight is None or merged is None or scale is None:
        return
    expected = weight.float() + scale * updates[0].float() @ updates[1].float()
    same_shape = merged.shape == expected.shape
    if (
        not same_shape
        or (merged.float() - expected).abs().max() > _PROJECTION_TOLERANCE * expected.abs().max()
    ):
        raise EmbedError(
            f"The projection in {dense} is not that of the base model {base} with the adapter {adapter}: the "
            "adapter was trained over another base model.",
            "Correct base_model_name_or_path in its adapter_config.json.",
        )


def _adapter_scale(config: dict[str, Any]) -> float | None:
    """Return the factor of the update; None for kinds of adapters that scale otherwise."""
    rank, alpha = config.get("r"), config.get("lora_alpha")
    unusual = ("use_rslora", "use_dora", "rank_pattern", "alpha_pattern")
    if not rank or not alpha or any(config.get(name) for name in unusual):
        return None
    return float(alpha) / float(rank)


def _tensor(folder: Path, stem: str, name: str) -> Any:  # noqa: ANN401 - a tensor, or None
    """Read a tensor of a checkpoint, whole or in shards; None when it has none of that name."""
    shards: dict[str, str] = read_settings(folder, f"{stem}.safetensors.index.json").get("weight_map", {})
    path = folder / shards.get(name, f"{stem}.safetensors")
    if not path.is_file():
        return None
    with library("safetensors").safe_open(path, framework="pt") as file:
        return file.get_tensor(name) if name in file.keys() else None  # noqa: SIM118 - not a mapping
