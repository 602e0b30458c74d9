"""A tiny Qwen-VL of random weights with a tokenizer of its own: small enough to learn on one core.

It is a checkpoint like any other (transformers loads it, `vrag ask --model local:PATH` asks it), with the
sizes turned down: two layers, pictures of a few visual tokens, and a vocabulary made of the words it will
meet. Its profile travels with it (`vrag.model_profiles.PROFILE_FILE`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path
from typing import Any

from vrag.agent.methods import METHODS
from vrag.agent.prompts import texts
from vrag.embed.device import library
from vrag.embed.models.loader import loading
from vrag.errors import SettingsError
from vrag.model_profiles import PROFILES, Profile, write_profile
from vrag.rl.checkpoints import USE_ANOTHER, write_directory

TINY_FAMILIES = ("qwen3-vl", "qwen2.5-vl")
"""Profiles of the families that can be made."""
_PAD, _END, _IMAGE, _VIDEO = "<|endoftext|>", "<|im_end|>", "<|image_pad|>", "<|video_pad|>"
_VISION = ("<|vision_start|>", "<|vision_end|>", "<|vision_pad|>", _IMAGE, _VIDEO)
_SPECIAL = (_PAD, "<|im_start|>", _END, *_VISION)
MAX_VOCABULARY = 20_000
"""Tokens; merging ends by itself when every word is one token."""
_PLACES = re.compile(r"\$\w+")
MIN_PIECE_CHARACTERS = 8
"""Of a piece of a prompt that is a token of its own."""
_HEADS = 4
_JUDGED = "verify", "doubt", "answer_doubted", "conflict"
_UNTRAINED = (*_JUDGED, *(method.name for method in METHODS.values() if not method.trainable))
"""Prefixes of prompts of judges and of untrained agents, which would only enlarge the vocabulary."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TinyOptions:
    """Sizes and family of a tiny model. Raises `SettingsError` if a size is out of range."""

    family: str = "qwen3-vl"
    """Profile of the family: `qwen3-vl` or `qwen2.5-vl`."""
    hidden: int = 64
    """Width of the language model; a multiple of 32."""
    layers: int = 2
    vision_layers: int = 1
    vision_hidden: int = 64
    picture_tokens: int = 4
    """Visual tokens of a picture: 4 are 64 × 64 pixels for Qwen3-VL."""
    context: int = 4096
    """Tokens of prompt and reply together."""
    seed: int = 0

    def __post_init__(self) -> None:
        if self.family not in TINY_FAMILIES:
            raise SettingsError(
                f"No tiny model of the family {self.family!r} can be made.",
                f"Known: {', '.join(TINY_FAMILIES)}.",
            )
        if self.hidden < 32 or self.hidden % 32 or self.vision_hidden < 32 or self.vision_hidden % 32:
            raise SettingsError(
                f"The widths of a tiny model cannot be {self.hidden} and {self.vision_hidden}.",
                "Widths must be multiples of 32.",
            )
        if min(self.layers, self.vision_layers, self.picture_tokens) < 1:
            raise SettingsError(
                f"A tiny model cannot have {self.layers} and {self.vision_layers} layers and "
                f"{self.picture_tokens} tokens a picture.",
                "Each must be at least 1.",
            )


def make_tiny(folder: Path, words: Iterable[str], options: TinyOptions | None = None) -> Profile:
    """Write a checkpoint, whole or not at all; return its profile.

    `words` are texts whose words become tokens, such as questions and answers. Others are spelled in bytes.
    Raises `SettingsError` if the folder is not empty, or a file, `TrainingError` if the disk refuses, and
    `MissingExtra` without torch and transformers.
    """
    options = options or TinyOptions()
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise SettingsError(f"{folder} is not empty.", "Use another folder, or empty it.")
    tokenizer = _tokenizer(["system", "user", "assistant", *words])
    family = PROFILES[options.family]
    linear, graph = _read_list("instructions.json")
    profile = replace(
        family,
        name=f"tiny-{family.name}",
        min_tokens=options.picture_tokens,
        max_tokens=options.picture_tokens,
        graph_tokens=options.picture_tokens,
        instruction=linear,
        graph_instruction=graph,
        models=(),
    )

    def write(partial: Path) -> None:
        with loading():
            _model(tokenizer, options).save_pretrained(partial)
            tokenizer.save_pretrained(partial)
        _write_processor(partial, profile, options)
        write_profile(profile, partial)

    write_directory(folder.absolute(), write, USE_ANOTHER)
    return profile


def _read_list(name: str) -> list[str]:
    return json.loads((files(__name__) / name).read_text(encoding="utf-8"))


def _tokenizer(corpus: Sequence[str]) -> Any:  # noqa: ANN401 - the libraries are not typed
    """Bytes, the words of the corpus, and texts that are one token each, so that the fixed parts are short.

    Those are pieces of the grammar, the instructions, and the texts of prompts between their placeholders.
    """
    between = (piece for text in texts(without=_UNTRAINED) for piece in _PLACES.split(text))
    long = {piece for piece in between if len(piece) >= MIN_PIECE_CHARACTERS}
    pieces = [*_read_list("pieces.json"), *_read_list("instructions.json"), *sorted(long)]
    tk = library("tokenizers")
    bpe = tk.Tokenizer(tk.models.BPE())
    bpe.pre_tokenizer = tk.pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = tk.decoders.ByteLevel()
    trainer = tk.trainers.BpeTrainer(
        vocab_size=MAX_VOCABULARY,
        initial_alphabet=sorted(tk.pre_tokenizers.ByteLevel.alphabet()),
        special_tokens=list(_SPECIAL),
        show_progress=False,
    )
    bpe.train_from_iterator(corpus, trainer)
    bpe.add_tokens([tk.AddedToken(piece, special=False, normalized=False) for piece in pieces])
    made = library("transformers").PreTrainedTokenizerFast(
        tokenizer_object=bpe, eos_token=_END, pad_token=_PAD, additional_special_tokens=list(_VISION)
    )
    made.padding_side = "left"
    made.chat_template = (files(__name__) / "chat_template.jinja").read_text(encoding="utf-8")
    return made


def _model(tokenizer: Any, options: TinyOptions) -> Any:  # noqa: ANN401
    torch, transformers = library("torch"), library("transformers")
    three = options.family == "qwen3-vl"
    name = "Qwen3VL" if three else "Qwen2_5_VL"
    config = getattr(transformers, f"{name}Config")(
        text_config=_text_config(tokenizer, options, three=three),
        vision_config=_vision_config(options, three=three),
        tie_word_embeddings=True,
        image_token_id=tokenizer.convert_tokens_to_ids(_IMAGE),
        video_token_id=tokenizer.convert_tokens_to_ids(_VIDEO),
        vision_start_token_id=tokenizer.convert_tokens_to_ids("<|vision_start|>"),
        vision_end_token_id=tokenizer.convert_tokens_to_ids("<|vision_end|>"),
    )
    with torch.random.fork_rng(devices=[]):  # keep the random state of others
        torch.manual_seed(options.seed)
        model = getattr(transformers, f"{name}ForConditionalGeneration")(config)
    model.generation_config.eos_token_id = tokenizer.eos_token_id
    model.generation_config.pad_token_id = tokenizer.pad_token_id
    return model


def _text_config(tokenizer: Any, options: TinyOptions, *, three: bool) -> dict[str, Any]:  # noqa: ANN401
    half = options.hidden // _HEADS // 2
    third = half // 3
    rope = {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [half - 2 * third, third, third]}
    config: dict[str, Any] = {
        "vocab_size": len(tokenizer),
        "hidden_size": options.hidden,
        "intermediate_size": 2 * options.hidden,
        "num_hidden_layers": options.layers,
        "num_attention_heads": _HEADS,
        "num_key_value_heads": _HEADS // 2,
        "max_position_embeddings": options.context,
        "bos_token_id": None,
        "eos_token_id": tokenizer.eos_token_id,
        "pad_token_id": tokenizer.pad_token_id,
        "tie_word_embeddings": True,
        "rope_parameters": rope | ({"mrope_interleaved": True} if three else {}),
    }
    return config | ({"head_dim": options.hidden // _HEADS} if three else {})


def _vision_config(options: TinyOptions, *, three: bool) -> dict[str, Any]:
    shared: dict[str, Any] = {
        "depth": options.vision_layers,
        "hidden_size": options.vision_hidden,
        "intermediate_size": 2 * options.vision_hidden,
        "num_heads": _HEADS,
        "out_hidden_size": options.hidden,
        "spatial_merge_size": 2,
        "temporal_patch_size": 2,
    }
    if three:
        places = max(64, 4 * options.picture_tokens)
        side = 1 << (places - 1).bit_length() // 2 + 1
        return shared | {
            "patch_size": 16,
            "num_position_embeddings": side**2,
            "deepstack_visual_indexes": [0],
        }
    last = options.vision_layers - 1
    own = {"patch_size": 14, "window_size": 112, "fullatt_block_indexes": [last], "tokens_per_second": 2}
    return shared | own


def _write_processor(folder: Path, profile: Profile, options: TinyOptions) -> None:
    """The settings of the processor, as the repositories of the family have them."""
    patch = profile.factor // 2
    pixels = options.picture_tokens * profile.factor**2
    settings = {
        "size": {"shortest_edge": pixels, "longest_edge": pixels},
        "patch_size": patch,
        "temporal_patch_size": 2,
        "merge_size": 2,
        "image_mean": [0.5] * 3,
        "image_std": [0.5] * 3,
        "processor_class": "Qwen3VLProcessor" if options.family == "qwen3-vl" else "Qwen2_5_VLProcessor",
        "image_processor_type": "Qwen2VLImageProcessorFast",
    }
    (folder / "preprocessor_config.json").write_text(json.dumps(settings, indent=2) + "\n", encoding="utf-8")
