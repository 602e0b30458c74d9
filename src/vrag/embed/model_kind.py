"""What a checkpoint's files say it is: decided before anything is loaded, and never by its name.

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
from vrag.embed.models.projection import check_projection
from vrag.errors import EmbedError

__all__ = [
    "QWEN3_INSTRUCTION",
    "EmbedderRole",
    "ModelKindReport",
    "Route",
    "is_qwen3_vl_embedding",
    "read_layout",
]

QWEN3_INSTRUCTION = "Represent the user's input."
"""What Qwen3-VL-Embedding is told to do where nothing else is asked, with queries and items alike."""
_OWN = "sentence_transformers."
_TOKEN_LEVEL = {"MultiVectorMask", "HierarchicalTokenPooling"}


class EmbedderRole(StrEnum):
    """What a checkpoint was trained to be."""

    SINGLE = "single"
    """One vector for a thing."""
    MULTI = "multi"
    """Many vectors for a thing."""
    RERANK = "rerank"
    """A score for a pair."""


class Route(StrEnum):
    """Which files make the model what it is: part of the fingerprint."""

    MODULES = "modules"
    """`modules.json` lists the parts."""
    NATIVE = "native"
    """A class of transformers that holds the head: `ColQwen2ForRetrieval` and its kind."""


@dataclass(frozen=True, slots=True)
class ModelKindReport:
    """What is known of a checkpoint before it is loaded."""

    folder: Path
    role: EmbedderRole
    route: Route
    config: dict[str, Any]
    """The configuration of the network; that of the base model where an adapter lies on top."""
    base: Path | None = None
    """The folder of the base model, where the checkpoint is an adapter."""

    @property
    def sees(self) -> bool:
        """Whether the network has a part that looks at pictures."""
        return "vision_config" in self.config or "vision_config" in self.config.get("vlm_config", {})


def read_layout(folder: Path) -> ModelKindReport:
    """Reads what a checkpoint is.

    Raises:
        EmbedError: If its files do not say, contradict each other, or ask to run their own code; or if
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
    """Whether a checkpoint is laid out as Qwen3-VL-Embedding, which has an adapter of its own.

    That is a Qwen3-VL whose last token is pooled and brought to length 1, and which knows no other
    instruction than its default one: models made from it for tasks with instructions of their own go
    through sentence-transformers.

    Raises:
        EmbedError: If a file is damaged.
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
    """A checkpoint that transformers knows by itself."""
    names = [str(name) for name in cast("list[object]", config.get("architectures") or [])]
    known = library("transformers")
    for suffix, role in (
        ("ForRetrieval", EmbedderRole.MULTI),
        ("ForSequenceClassification", EmbedderRole.RERANK),
    ):
        if any(name.endswith(suffix) for name in names):
            if not any(hasattr(known, name) for name in names):
                raise EmbedError(
                    f"{folder} brings the code of its network ({', '.join(names)}), which is not run.",
                    f"transformers {known.__version__} does not know it; a newer one may.",
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
    """A checkpoint that lists its parts."""
    if not isinstance(modules, list) or not modules:
        raise EmbedError(f"{folder / 'modules.json'} lists no modules.")
    entries = cast("list[dict[str, Any]]", modules)
    try:
        parts = [(str(entry["type"]), module_folder(folder, str(entry["path"]))) for entry in entries]
    except (TypeError, KeyError) as error:
        raise EmbedError(f"{folder / 'modules.json'} is damaged: {error!r}.") from error
    for kind, place in parts:
        _check_part(kind, place)
    role = _role(folder, {kind.rpartition(".")[2] for kind, _ in parts})
    base = _base(folder)
    if base is not None:
        check_projection(
            folder, base, next((place for kind, place in parts if kind.endswith(".Dense")), None)
        )
    config = read_settings(base or folder, "config.json")
    return ModelKindReport(folder, role, Route.MODULES, config, base)


def _check_part(kind: str, place: Path) -> None:
    """Refuses a part that brings code, lacks weights or has an activation that would be replaced."""
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


def _role(folder: Path, names: set[str]) -> EmbedderRole:
    """What `config_sentence_transformers.json` says, checked against the parts that are listed."""
    told = str(
        read_settings(folder, "config_sentence_transformers.json").get("model_type", "SentenceTransformer")
    )
    roles = {
        "SentenceTransformer": EmbedderRole.SINGLE,
        "MultiVectorEncoder": EmbedderRole.MULTI,
        "ColBERT": EmbedderRole.MULTI,
        "CrossEncoder": EmbedderRole.RERANK,
    }
    if told not in roles:
        raise EmbedError(f"{folder} is a {told}, which gives neither vectors of things nor scores of pairs.")
    role = roles[told]
    if role is EmbedderRole.SINGLE and names & _TOKEN_LEVEL:
        raise EmbedError(
            f"{folder} says that it makes one vector and lists modules for many.",
            "Correct model_type in its config_sentence_transformers.json.",
        )
    if role is EmbedderRole.MULTI and "Pooling" in names:
        raise EmbedError(
            f"{folder} says that it makes many vectors and lists a module that pools them into one.",
            "Correct model_type in its config_sentence_transformers.json.",
        )
    return role


def _base(folder: Path) -> Path | None:
    """The folder of the model that an adapter adapts; None where there is no adapter."""
    adapter = read_settings(folder, "adapter_config.json")
    if not adapter:
        return None
    name = adapter.get("base_model_name_or_path")
    if not name:
        raise EmbedError(f"The adapter in {folder} does not say which model it adapts.")
    return find_checkpoint(str(name))
