"""Model families: their picture sizes, the coordinate space of their boxes, and the names of their models.

A name, as hubs, servers and people write it, consists of a place (`models/`, `hf.co/unsloth/`, a folder), the
words of a family (`Qwen2.5-VL`), and words that do not change the family: size, date, training stage, file
format, quantization, the tag of a registry. Words are compared whole: `myqwen3-vl` is not `qwen3-vl`.

If nothing but such words is left besides the family, the name is *certain*. Any other word may stand
for a fine-tune that writes boxes in another way (`qwen2.5-vl-7b-ui-grounding`, which answers
thousandths where Qwen2.5-VL answers pixels), so that such a name only *suggests* a family: the server or a
measurement has to agree.
"""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from pydantic import TypeAdapter, ValidationError

from vrag.errors import SettingsError, first_line
from vrag.geometry import Box, Size, Space, smart_resize

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path


class ModelKind(StrEnum):
    """The input and output of a model, as far as its name says."""

    VISION = "vision"
    """It reads pictures and writes text."""
    TEXT = "text"
    """It reads text only."""
    OTHER = "other"
    """It writes no replies: it makes vectors or scores."""
    UNKNOWN = "unknown"
    """The name does not say."""


@dataclass(frozen=True, slots=True)
class ModelName:
    """The information in the name of a model."""

    name: str
    """As it was given."""
    kind: ModelKind
    family: str | None = None
    """Name of a profile; None where it does not see, or its family's convention is not documented."""
    unknown_words: tuple[str, ...] = ()
    """Words that are neither the family nor known to leave it as it is."""

    @property
    def certain(self) -> bool:
        """True if the name alone decides."""
        return self.kind is not ModelKind.UNKNOWN and not self.unknown_words


_START, _END = r"(?<![a-z0-9])", r"(?![a-z0-9])"
_SEP = r"[-_. ]?"

_FAMILIES = {
    "qwen2-vl": rf"qwen{_SEP}2{_SEP}vl",
    "qwen2.5-vl": (
        rf"qwen{_SEP}2[._p-]?5{_SEP}vl"
        # Snapshots of the hosted models; the names without a date move from one generation to the next.
        r"|qwen-vl-max-2025-(?:01-25|08-13)"
    ),
    "qwen3-vl": rf"qwen{_SEP}3{_SEP}vl|qwen{_SEP}3[._p-]?[56](?={_SEP}(?![a-z0-9])|[-_: ])",
    "glm-v": rf"glm{_SEP}4[._p-]?[156]v",
    "internvl": rf"intern{_SEP}vl{_SEP}(?:2[._]5|3[._]5|2|3)",
    "gemini": r"gemini(?:-(?:1[.]5|2[.][05]|3(?:[.]\d)?))?(?=-(?:pro|flash))",
    "claude": rf"claude-(?:opus|sonnet|haiku)-[4-9](?:[.-]\d{{1,2}}{_END})?",
}
"""Words of the families whose convention is documented, by profile."""

_UNDOCUMENTED = (
    r"qwen-?vl|qvq|qwen\d?(?:[.]5)?-?omni|gpt-(?:4o|4[.]1|4-turbo|5(?:[.]\d)?)|o[134]|gemma-?[34]n?|claude"
    r"|pixtral|mistral-(?:small|medium|large)|llama-?4|llama-?3[.]2-vision|minicpm-?v|llava|molmo|kimi-(?:vl|k2[.]5)"
    r"|phi-?(?:3[.]5-vision|4-multimodal)|deepseek-(?:vl|ocr)|grok|nova|step-?3|ernie-?4[.]5-vl"
)
"""Words of families that see, and whose boxes are not documented, or not the same in all versions."""

_TEXT = (
    rf"qwen{_SEP}(?:1[.]5|2[._p]?5|2|3)(?:-(?:coder|math|next|max))*"
    r"|qwq|gpt-oss|gpt-3[.]5-turbo|deepseek-(?:r1|v3)(?:[.]\d)?(?:-distill)?"
    r"|(?:meta-)?llama-?(?:3[.][13]|2|3)|glm-4[.][567](?:-air)?|gemma-?2|mistral|mixtral|kimi-k2"
)
"""Words of families that read text only. Hosted names without a version (`qwen-plus`) move: left out."""

_OTHER = r"(?:text-)?embed(?:ding|der)?s?|rerank(?:er)?|gve|colqwen[\d.]*|colpali|siglip\d?|whisper|tts|asr"
"""Words of models that write no replies."""

_PLAIN = "|".join(
    (
        r"\d+(?:[.]\d+)?[bmt](?:-?a\d+(?:[.]\d+)?b)?|a\d+(?:[.]\d+)?b|e\d+b",  # sizes: 7b, 30b-a3b, e4b
        r"\d{4}-\d{2}-\d{2}|\d{2}-20\d{2}|20\d{6}|2[4-9](?:0[1-9]|1[0-2])|(?:0[1-9]|1[0-2])[0-3]\d",  # dates
        r"v\d+(?:[.]\d+)?|00\d",
        r"latest|preview|exp|instruct|thinking|chat|it|instruction",
        r"vimrag",  # it is trained on summaries of pictures in their family's form, and on no boxes
        r"plus|flash|pro|lite|air|max|mini|us|intl|cloud|turbo",  # grades of hosted models
        r"free|nitro|floor|exacto|extended|beta|online",  # suffixes of OpenRouter
        r"fp8|fp16|bf16|f16|f32|fp4|nvfp4|mxfp[48]|[uw]?int[48]|w\d+a\d+|e4m3|dynamic|block|static",
        r"awq|gptq|gguf|ggml|mlx|bnb|exl[23]|onnx|openvino|ov|hqq|autoround|marlin|quantized|quant",
        r"\d(?:[.]\d+)?bits?|\d(?:[.]\d+)?bpw|g\d+|dwq|ud|unsloth|i1|imatrix|imat",
        r"i?q\d(?:_(?:k|[01]|nl|xxs|xs|s|m|l|xl))*",  # q4_k_m, iq3_xxs
        r"\d{5}-of-\d{5}|hf|safetensors|vl|vlm",
    )
)
"""Words that leave the family and its convention as they are."""

_GENERIC = re.compile(
    r"(?:checkpoint|step|epoch|global_step|iter)[-_]?\d+|[0-9a-f]{12,64}|snapshots|final|best|last|merged|model|models"
    r"|weights|hf|huggingface|actor|policy|export|output"
)
"""Names of folders and files that say nothing about a model; the folder above may."""
_VISION = [(family, re.compile(_START + f"(?:{words})" + _END)) for family, words in _FAMILIES.items()]
_SEES = re.compile(_START + f"(?:{_UNDOCUMENTED})" + _END)
_READS = re.compile(_START + f"(?:{_TEXT})" + _END)
_NON_GENERATIVE = re.compile(_START + f"(?:{_OTHER})" + _END)
_NOISE = re.compile(_START + f"(?:{_PLAIN})" + _END)
_SIZE = re.compile(r"\d+(?:[.]\d+)?b|vl")
_WORD = re.compile(r"[^\W_]+")


def model_stem(model: str) -> str:
    """Return the name of the model itself, in lower case: without its place.

    >>> model_stem("hf.co/unsloth/Qwen3-VL-8B-Instruct-GGUF:Q4_K_M")
    'qwen3-vl-8b-instruct-gguf:q4_k_m'
    >>> model_stem("/hub/models--Qwen--Qwen3-VL-8B-Instruct/snapshots/0c351dd01ed87e9c1b53")
    'qwen3-vl-8b-instruct'
    """
    parts = [part for part in re.split(r"[/\\]+", model.strip().lower()) if part not in {"", ".", ".."}]
    while len(parts) > 1 and _GENERIC.fullmatch(parts[-1].removesuffix(".gguf")):
        parts.pop()
    stem = parts[-1] if parts else ""
    return stem.rsplit("--", 1)[-1].removesuffix(".gguf")


def read_model_name(model: str) -> ModelName:
    """Read a name. The kind is `UNKNOWN` rather than a guess, also where it names two families."""
    stem = model_stem(model)
    if _NON_GENERATIVE.search(stem):
        return ModelName(model, ModelKind.OTHER)
    found = [(family, words) for family, pattern in _VISION for words in [pattern.search(stem)] if words]
    if len(found) == 1:
        family, words = found[0]
        return ModelName(model, ModelKind.VISION, family, _unknown_words(stem, words))
    if found:
        return ModelName(model, ModelKind.UNKNOWN)
    if words := _SEES.search(stem):
        return ModelName(model, ModelKind.VISION, None, _unknown_words(stem, words))
    if (words := _READS.search(stem)) and not (unknown := _unknown_words(stem, words)):
        return ModelName(model, ModelKind.TEXT, None, unknown)
    return ModelName(model, ModelKind.UNKNOWN)


def same_model(model: str, known: Iterable[str]) -> bool:
    """Return whether a name is one of some known ones, whoever hosts or quantized it.

    >>> same_model("hf.co/mradermacher/Qwen2.5-VL-7B-VRAG-GGUF:Q4_K_M", ["autumncc/qwen2.5-vl-7b-vrag"])
    True
    """
    words = _own_words(model)
    return bool(words) and any(words == _own_words(name) for name in known)


def _own_words(model: str) -> tuple[str, ...]:
    """Return the words of a name without those of its format and quantization; the size counts."""
    stem = model_stem(model)
    return tuple(
        _WORD.findall(_NOISE.sub(lambda found: found[0] if _SIZE.fullmatch(found[0]) else " ", stem))
    )


def _unknown_words(stem: str, family: re.Match[str]) -> tuple[str, ...]:
    rest = stem[: family.start()] + " " + stem[family.end() :]
    return tuple(_WORD.findall(_NOISE.sub(" ", rest)))


PROFILE_FILE = "vrag_profile.json"
"""File in the folder of a checkpoint that was trained with a profile of its own."""

_ANSWERED = frozenset({Space.SHOWN, Space.MILLE, Space.RELATIVE})
"""Spaces in which models answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """The conventions of one family of vision-language models.

    Raises `ValueError` if boxes are in a space that no picture shown has: of the stored item.
    """

    name: str
    factor: int
    """Pixels per visual token along each side."""
    min_tokens: int = 256
    """Least number of visual tokens of a picture."""
    max_tokens: int = 512
    """Greatest number of visual tokens of a picture."""
    graph_tokens: int | None = None
    """Greatest number of visual tokens of a picture or frame of VimRAG; None for what its memory allows."""
    boxes: Space
    """The space in which the model answers boxes."""
    y_first: bool = False
    """True if its boxes are top, left, bottom, right rather than left, top, right, bottom."""
    prompt: str = "vrag.md"
    """File in `vrag/agent/prompts` with the instruction of VRAG."""
    graph_prompt: str = "vimrag.md"
    """File there with the instruction of VimRAG."""
    instruction: str | None = None
    """The instruction of VRAG itself, in place of that file: a checkpoint brings its own along."""
    graph_instruction: str | None = None
    """That of VimRAG, likewise."""
    answer_now: str | None = None
    """Message to VRAG in its last turn; None for our own."""
    labelled: bool = True
    """True if a text with its number stands before each picture of VRAG."""
    candidates: int = 0
    """Least number of pages that a search of VRAG shows, of which the model selects one by `<select>`; 0
    without such an action."""
    stop: tuple[str, ...] = ()
    """Stop strings of the model, beside its own end of turn."""
    model_types: tuple[str, ...] = ()
    """`model_type` of the checkpoints of this family."""
    models: tuple[str, ...] = ()
    """Published fine-tunes of this family, whose names do not say so or hold more words than its own, and
    the names under which people keep them."""

    def __post_init__(self) -> None:
        if self.boxes not in _ANSWERED:
            raise ValueError(f"a model does not answer boxes in the space {self.boxes}")

    @property
    def written_sides(self) -> str:
        """The names of the four numbers of a box, in order."""
        return "[y1, x1, y2, x2]" if self.y_first else "[x1, y1, x2, y2]"

    @property
    def box_prompts(self) -> tuple[str, str]:
        """Files in `vrag/agent/prompts` that say in which order and in which unit boxes are written."""
        return "box_yx.md" if self.y_first else "box_xy.md", f"box_{self.boxes}.md"

    def box(self, sides: tuple[float, float, float, float]) -> Box:
        """Convert four numbers as the model wrote them to a box of its space."""
        a, b, c, d = sides
        return Box(b, a, d, c, self.boxes) if self.y_first else Box(a, b, c, d, self.boxes)

    def sides(self, box: Box) -> tuple[float, float, float, float]:
        """Convert a box to four numbers: the inverse of `box`."""
        x1, y1, x2, y2 = box.as_tuple()
        return (y1, x1, y2, x2) if self.y_first else (x1, y1, x2, y2)

    def shown_size(self, size: Size) -> Size:
        """Return the size at which a picture of `size` pixels is shown to the model.

        Raises `ValueError` if the proportions are beyond what the family accepts.
        """
        area = self.factor**2
        return smart_resize(
            size, factor=self.factor, min_pixels=self.min_tokens * area, max_pixels=self.max_tokens * area
        )

    def visual_tokens(self, shown: Size) -> int:
        """Return the number of visual tokens of a shown picture."""
        return (shown.width // self.factor) * (shown.height // self.factor)


PROFILES = {
    profile.name: profile
    for profile in (
        Profile(name="qwen2-vl", factor=28, boxes=Space.MILLE, model_types=("qwen2_vl",)),
        Profile(name="qwen2.5-vl", factor=28, boxes=Space.SHOWN, model_types=("qwen2_5_vl",)),
        # Released checkpoints, trained on observations and an instruction of their own.
        Profile(
            name="vrag-rl",
            factor=28,
            boxes=Space.SHOWN,
            labelled=False,
            models=(
                "autumncc/qwen2.5-vl-7b-vrag",
                "qiuchen-wang/qwen2.5-vl-7b-vrag",
                "vrag-rl",
                "vrag-rl-7b",
                "qwen2.5-vl-7b-vrag-rl",
            ),
        ),
        Profile(
            name="unidoc-rl",
            factor=28,
            boxes=Space.SHOWN,
            labelled=False,
            candidates=3,
            models=(
                "deepglint-ai/unidoc-rl-3b",
                "deepglint-ai/unidoc-rl-7b",
                "unidoc-rl",
                "qwen2.5-vl-3b-unidoc-rl",
                "qwen2.5-vl-7b-unidoc-rl",
            ),
        ),
        # Qwen3.5 and Qwen3.6 see natively, with the picture size and the coordinates of Qwen3-VL.
        Profile(name="qwen3-vl", factor=32, boxes=Space.MILLE, model_types=("qwen3_vl", "qwen3_vl_moe")),
        Profile(name="glm-v", factor=28, boxes=Space.MILLE),
        Profile(name="internvl", factor=28, boxes=Space.MILLE),
        Profile(name="gemini", factor=28, boxes=Space.MILLE, y_first=True),
        Profile(name="claude", factor=28, boxes=Space.SHOWN),
        Profile(name="fractions", factor=28, boxes=Space.RELATIVE),
        Profile(name="y-first", factor=28, boxes=Space.MILLE, y_first=True),
    )
}
"""Known families by name. The last two are for models of no known family, by how they answer boxes."""


def profile_named(name: str) -> Profile:
    """Return the profile of a model family. Raises `SettingsError` if the name is unknown."""
    if name not in PROFILES:
        raise SettingsError(f"Unknown model profile {name!r}.", f"Known: {', '.join(PROFILES)}.")
    return PROFILES[name]


def published_profile(model: str) -> Profile | None:
    """Return the profile of a published fine-tune by its name, whoever hosts or quantized it."""
    return next((profile for profile in PROFILES.values() if same_model(model, profile.models)), None)


def profile_of(model: str) -> Profile | None:
    """Return the profile of a model whose name alone says its family; see `read_model_name`."""
    if published := published_profile(model):
        return published
    name = read_model_name(model)
    return PROFILES[name.family] if name.family and name.certain else None


def write_profile(profile: Profile, folder: Path) -> None:
    """Write the profile beside the weights that were trained with it."""
    text = json.dumps(asdict(profile), indent=2, ensure_ascii=False) + "\n"
    (folder / PROFILE_FILE).write_text(text, encoding="utf-8")


def read_profile(folder: Path) -> Profile | None:
    """Read the profile beside the weights of a checkpoint; None without one.

    Raises `SettingsError` if it cannot be read, or is not a profile.
    """
    path = folder / PROFILE_FILE
    if not path.is_file():
        return None
    try:
        return TypeAdapter(Profile).validate_json(path.read_bytes())
    except (OSError, ValueError, ValidationError) as error:
        raise SettingsError(
            f"The profile {path} cannot be read: {first_line(error)}.",
            "Remove the file to take the profile of the model's family.",
        ) from error
