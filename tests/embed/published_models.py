# ruff: noqa: ANN401 - the libraries are not typed
"""Late-interaction checkpoints of random weights with the files and tensor names of the published ones.

`vidore/colqwen2-v1.0` and `vidore/colpali-v1.3` are PEFT adapters over base models that colpali-engine
saved with transformers 4: flat configurations, tensors named `model.layers.…` or
`model.language_model.model.layers.…`, and the untrained projection `custom_text_proj` among them. Beside
the adapter lie the modules of sentence-transformers, whose `1_Dense` holds the projection with its part of
the adapter merged in. The names were read off what colpali-engine writes at the commit that the reference
implementation pins (481eb20, transformers 4.51.3, peft 0.15.2).
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import tiny_models as tiny

if TYPE_CHECKING:
    from pathlib import Path

    Weights = dict[str, Any]

RANK, ALPHA, DIMENSION = 4, 8, 128
TARGETS = "(.*({part}).*(down_proj|gate_proj|up_proj|k_proj|q_proj|v_proj|o_proj).*$|.*(custom_text_proj).*$)"
LANGUAGE_LAYER = re.compile(r"(^model|language_model\.model)\.layers\.\d+\.(self_attn|mlp)\.\w+_proj\.weight")
QWEN2_VL_MAX_PIXELS = 12_845_056
VOCABULARY = 4096
"""Tokens of wide networks. No text has more here, and the rows of others would be a gigabyte never read."""
QWEN2_VL_2B = {
    "vocab_size": VOCABULARY,
    "hidden_size": 1536,
    "intermediate_size": 8960,
    "num_hidden_layers": 1,
    "num_attention_heads": 12,
    "num_key_value_heads": 2,
    "rope_parameters": {"rope_type": "default", "rope_theta": 1e6, "mrope_section": [16, 24, 24]},
}
QWEN2_VL_VISION = {"depth": 1, "embed_dim": 1280, "num_heads": 16, "mlp_ratio": 4}
GEMMA_2B = {
    "vocab_size": VOCABULARY,
    "hidden_size": 2048,
    "intermediate_size": 16_384,
    "num_hidden_layers": 1,
    "num_attention_heads": 8,
    "num_key_value_heads": 1,
    "head_dim": 256,
    "num_image_tokens": 1024,
}
SIGLIP_SO400M = {
    "hidden_size": 1152,
    "intermediate_size": 4304,
    "num_hidden_layers": 1,
    "num_attention_heads": 16,
    "image_size": 448,
    "num_image_tokens": 1024,
    "projection_dim": 2048,
}
QUERY_TEMPLATE = "{{{{ '{before}' }}}}{{{{ part.text }}}}{{{{ '{augmentation}' * 10 }}}}{{{{ '{after}' }}}}"


def colqwen2(folder: Path, base: Path, seed: int = 20, *, wide: bool = False) -> Path:
    """The layout of `vidore/colqwen2-v1.0` over `vidore/colqwen2-base`.

    Args:
        folder: Where the adapter goes.
        base: Where the base model goes.
        seed: Of the random weights.
        wide: Whether sizes are the published ones, but for the vocabulary and one layer of each part, in
            bfloat16.
    """
    tiny.seeded(seed)
    tokenizer = tiny.tokenizer()
    tokenizer.padding_side = "left"
    made = tiny.qwen2_vl(tokenizer)
    if wide:
        resize(made.text_config, QWEN2_VL_2B)
        resize(made.vision_config, QWEN2_VL_VISION | {"hidden_size": made.text_config.hidden_size})
    weights = _random(tiny.load("transformers").Qwen2VLModel, made, wide=wide)
    weights = {name.replace("language_model.", "model."): weight for name, weight in weights.items()}
    text = made.text_config
    config = {
        "architectures": ["ColQwen2"],
        "model_type": "qwen2_vl",
        "rope_scaling": {
            "mrope_section": text.rope_parameters["mrope_section"],
            "rope_type": "default",
            "type": "default",
        },
        "rope_theta": 10_000.0,
        "sliding_window": 32_768,
        "use_sliding_window": False,
        "tie_word_embeddings": True,
        "torch_dtype": "float32",
        "transformers_version": "4.51.3",
        "vision_config": made.vision_config.to_dict(),
        **{
            name: getattr(text, name)
            for name in (
                "vocab_size hidden_size intermediate_size num_hidden_layers num_attention_heads "
                "num_key_value_heads max_position_embeddings rms_norm_eps hidden_act eos_token_id "
                "pad_token_id"
            ).split()
        },
        "bos_token_id": tokenizer.pad_token_id,
        **tiny.token_ids(tokenizer),
    }
    _write_base(base, weights, config)
    _write_adapter(folder, base, part="model")
    user = "<|im_start|>user\\n<|vision_start|><|image_pad|><|vision_end|>Describe the image.<|im_end|>"
    tokenizer.chat_template = _chat_template(f"{user}{tiny.PAD}", "Query: ", tiny.PAD, "")
    _write_tokenizer(folder, tokenizer)
    pictures = {
        "image_processor_type": "Qwen2VLImageProcessor",
        "processor_class": "Qwen2VLProcessor",
        "do_convert_rgb": True,
        "do_normalize": True,
        "do_rescale": True,
        "do_resize": True,
        "image_mean": [0.48145466, 0.4578275, 0.40821073],
        "image_std": [0.26862954, 0.26130258, 0.27577711],
        "max_pixels": QWEN2_VL_MAX_PIXELS,
        "merge_size": 2,
        "min_pixels": 3136,
        "patch_size": 14,
        "resample": 3,
        "rescale_factor": 1 / 255,
        "size": {"longest_edge": QWEN2_VL_MAX_PIXELS, "shortest_edge": 3136},
        "temporal_patch_size": 2,
    }
    tiny.write(folder, "preprocessor_config.json", pictures)
    return folder


def colpali(folder: Path, base: Path, seed: int = 21, *, wide: bool = False) -> Path:
    """The layout of `vidore/colpali-v1.3` over `vidore/colpaligemma-3b-pt-448-base`.

    Args:
        folder: Where the adapter goes.
        base: Where the base model goes.
        seed: Of the random weights.
        wide: Whether sizes are the published ones, but for the vocabulary and one layer of each part, in
            bfloat16.
    """
    transformers = tiny.load("transformers")
    tiny.seeded(seed)
    tokenizer = tiny.tokenizer()
    tokenizer.add_special_tokens({"bos_token": "<bos>", "additional_special_tokens": ["<image>"]})
    text = {
        "model_type": "gemma",
        "hidden_size": tiny.HIDDEN,
        "intermediate_size": 2 * tiny.HIDDEN,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 1,
        "head_dim": 8,
        "num_image_tokens": 16,
        "vocab_size": len(tokenizer),
        "pad_token_id": tokenizer.pad_token_id,
        "bos_token_id": tokenizer.bos_token_id,
        "eos_token_id": tokenizer.eos_token_id,
    }
    vision = {
        "model_type": "siglip_vision_model",
        "hidden_size": 16,
        "intermediate_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "image_size": 56,
        "patch_size": 14,
        "num_image_tokens": 16,
        "projection_dim": tiny.HIDDEN,
        "vision_use_head": False,
    }
    text, vision = (text | GEMMA_2B, vision | SIGLIP_SO400M) if wide else (text, vision)
    tokens = text["num_image_tokens"]
    config = {
        "architectures": ["ColPali"],
        "model_type": "paligemma",
        "hidden_size": text["hidden_size"],
        "image_token_index": tokenizer.convert_tokens_to_ids("<image>"),
        "projection_dim": text["hidden_size"],
        "torch_dtype": "float32",
        "transformers_version": "4.51.3",
        "text_config": text,
        "vision_config": vision,
    }
    made = transformers.PaliGemmaConfig(**json.loads(json.dumps(config)))
    old_names = {
        "language_model.": "model.language_model.model.",
        "vision_tower.": "model.vision_tower.vision_model.",
    }
    old_names["multi_modal_projector."] = "model.multi_modal_projector."
    weights: Weights = {}
    for name, weight in _random(transformers.PaliGemmaModel, made, wide=wide).items():
        new, old = next(item for item in old_names.items() if name.startswith(item[0]))
        weights[old + name.removeprefix(new)] = weight
    _write_base(base, weights, config)
    _write_adapter(folder, base, part="language_model")
    tokenizer.chat_template = _chat_template(
        "<image><bos>Describe the image.", "<bos>Query: ", tiny.PAD, "\\n"
    )
    _write_tokenizer(folder, tokenizer)
    pictures = {
        "image_processor_type": "SiglipImageProcessor",
        "processor_class": "PaliGemmaProcessor",
        "do_convert_rgb": None,
        "do_normalize": True,
        "do_rescale": True,
        "do_resize": True,
        "image_mean": [0.5] * 3,
        "image_std": [0.5] * 3,
        "image_seq_length": tokens,
        "resample": 3,
        "rescale_factor": 1 / 255,
        "size": {"height": vision["image_size"], "width": vision["image_size"]},
    }
    tiny.write(folder, "preprocessor_config.json", pictures)
    return folder


def merged(base: Path, adapter: Path) -> Weights:
    """The weights of the base with the adapter's added by hand, under the names of the base."""
    store: Any = tiny.load("safetensors.torch")
    weights = store.load_file(base / "model.safetensors")
    updates = store.load_file(adapter / "adapter_model.safetensors")
    for name, down in updates.items():
        if ".lora_A." in name:
            up = updates[name.replace(".lora_A.", ".lora_B.")]
            target = name.removeprefix("base_model.model.").replace(".lora_A.", ".")
            weights[target] = weights[target] + ALPHA / RANK * up @ down
    return weights


def today(name: str) -> str:
    """The name that a tensor of a base model has in transformers 5."""
    if name.startswith("model.language_model.model."):
        return name.replace("model.language_model.model.", "language_model.")
    if name.startswith(("model.vision_tower.", "model.multi_modal_projector.")):
        return name.removeprefix("model.").replace("vision_tower.vision_model.", "vision_tower.")
    return name.replace("model.", "language_model.", 1) if name.startswith("model.") else name


def resize(config: Any, sizes: dict[str, Any]) -> None:
    """Replace some sizes of a configuration."""
    for name, size in sizes.items():
        setattr(config, name, size)
    if getattr(config, "layer_types", None):
        config.layer_types = config.layer_types[: config.num_hidden_layers]


def fill(kind: Any, config: Any) -> Weights:
    """Random weights in bfloat16 for a network of any size, one small block over and over.

    Drawing each number would take most of the time of a test over a network of full width.
    """
    torch = tiny.load("torch")
    with torch.device("meta"):
        network = kind(config)
    block = torch.randn(1_000_003).to(torch.bfloat16)  # a prime: rows of a matrix differ
    weights: Weights = {}
    for name, shape in ((name, weight.shape) for name, weight in network.state_dict().items()):
        if len(shape) > 1:
            spread = 3 * shape[1:].numel() ** -0.5
            numbers = (spread * block).repeat(-(-shape.numel() // len(block)))[: shape.numel()]
            weights[name] = numbers.reshape(shape)
        else:
            weights[name] = torch.full(shape, float(name.endswith("weight")), dtype=torch.bfloat16)
    return weights


def _random(kind: Any, config: Any, *, wide: bool) -> Weights:
    return fill(kind, config) if wide else tiny.enlarge(kind(config)).state_dict()


def _write_base(base: Path, weights: Weights, config: dict[str, Any]) -> None:
    torch, store = tiny.load("torch"), tiny.load("safetensors.torch")
    weights = {name: weight.detach().clone().contiguous() for name, weight in weights.items()}
    width, dtype = next(
        (w.shape[1], w.dtype) for n, w in weights.items() if n.endswith("embed_tokens.weight")
    )
    weights["custom_text_proj.weight"] = torch.randn(DIMENSION, width).to(dtype)
    weights["custom_text_proj.bias"] = torch.randn(DIMENSION).to(dtype)
    base.mkdir(parents=True, exist_ok=True)
    store.save_file(weights, base / "model.safetensors", metadata={"format": "pt"})
    tiny.write(base, "config.json", config)


def _write_adapter(folder: Path, base: Path, part: str) -> None:
    """Adapter, `modules.json` and its parts; the updates are large enough to show in every vector."""
    torch, store = tiny.load("torch"), tiny.load("safetensors.torch")
    weights = store.load_file(base / "model.safetensors")
    updates: Weights = {}
    for name, weight in weights.items():
        if LANGUAGE_LAYER.search(name) or name == "custom_text_proj.weight":
            target = f"base_model.model.{name.removesuffix('.weight')}"
            spread = 0.3 * (tiny.HIDDEN / weight.shape[1]) ** 0.5
            updates[f"{target}.lora_A.weight"] = torch.randn(RANK, weight.shape[1]) * spread
            updates[f"{target}.lora_B.weight"] = torch.randn(weight.shape[0], RANK) * 0.3
    folder.mkdir(parents=True, exist_ok=True)
    store.save_file(updates, folder / "adapter_model.safetensors", metadata={"format": "pt"})
    config = {
        "auto_mapping": None,
        "base_model_name_or_path": str(base),
        "bias": "none",
        "fan_in_fan_out": False,
        "inference_mode": True,
        "init_lora_weights": "gaussian",
        "lora_alpha": ALPHA,
        "lora_dropout": 0.1,
        "modules_to_save": None,
        "peft_type": "LORA",
        "r": RANK,
        "target_modules": TARGETS.format(part=part),
        "task_type": "FEATURE_EXTRACTION",
        "use_dora": False,
        "use_rslora": False,
    }
    tiny.write(folder, "adapter_config.json", config)
    projection = merged(base, folder)
    tiny.projection(folder, projection["custom_text_proj.weight"], projection["custom_text_proj.bias"])


def _write_tokenizer(folder: Path, tokenizer: Any) -> None:
    """Its files as transformers 4 wrote them and both versions read them."""
    tokenizer.save_pretrained(folder)
    kept = ("bos_token", "eos_token", "pad_token", "padding_side")
    config = {name: getattr(tokenizer, name) for name in kept}
    special = [str(token) for token in tokenizer.all_special_tokens if token not in config.values()]
    more = {"tokenizer_class": "PreTrainedTokenizerFast", "additional_special_tokens": special}
    tiny.write(folder, "tokenizer_config.json", config | more)


def _chat_template(page: str, before: str, augmentation: str, after: str) -> str:
    query = QUERY_TEMPLATE.format(before=before, augmentation=augmentation, after=after)
    return (
        "{% for message in messages %}{% for part in message.content %}"
        f"{{% if part.type == 'image' %}}{{{{ '{page}' }}}}{{% else %}}{query}{{% endif %}}"
        "{% endfor %}{% endfor %}"
    )
