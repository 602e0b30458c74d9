"""Model families: their picture sizes and the coordinate space of their boxes."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from pydantic import TypeAdapter, ValidationError

from vrag.errors import SettingsError
from vrag.geometry import Box, Size, Space, smart_resize
from vrag.model_names import read_model_name, same_model

if TYPE_CHECKING:
    from pathlib import Path

__all__ = [
    "PROFILES",
    "PROFILE_FILE",
    "Profile",
    "profile_named",
    "profile_of",
    "read_profile",
    "write_profile",
]

PROFILE_FILE = "vrag_profile.json"
"""File in the folder of a checkpoint that was trained with a profile of its own."""


_ANSWERED = frozenset({Space.SHOWN, Space.MILLE, Space.RELATIVE})
"""Spaces in which models answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """The conventions of one family of vision-language models.

    Raises:
        ValueError: If boxes are in a space that no picture shown has: of the stored item.
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
    """Published fine-tunes of this family, whose names do not say so or hold more words than its own."""

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

        Raises:
            ValueError: If the proportions are beyond what the family accepts.
        """
        area = self.factor**2
        return smart_resize(
            size,
            factor=self.factor,
            min_pixels=self.min_tokens * area,
            max_pixels=self.max_tokens * area,
        )

    def visual_tokens(self, shown: Size) -> int:
        """Return the number of visual tokens of a shown picture."""
        return (shown.width // self.factor) * (shown.height // self.factor)


PROFILES = {
    profile.name: profile
    for profile in (
        Profile(name="qwen2-vl", factor=28, boxes=Space.MILLE, model_types=("qwen2_vl",)),
        Profile(
            name="qwen2.5-vl",
            factor=28,
            boxes=Space.SHOWN,
            model_types=("qwen2_5_vl",),
        ),
        # Released checkpoints, trained on observations and an instruction of their own.
        Profile(
            name="vrag-rl",
            factor=28,
            boxes=Space.SHOWN,
            labelled=False,
            models=("autumncc/qwen2.5-vl-7b-vrag", "qiuchen-wang/qwen2.5-vl-7b-vrag"),
        ),
        Profile(
            name="unidoc-rl",
            factor=28,
            boxes=Space.SHOWN,
            labelled=False,
            candidates=3,
            models=("deepglint-ai/unidoc-rl-3b", "deepglint-ai/unidoc-rl-7b"),
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
    """Return the profile of a model family.

    Raises:
        SettingsError: If the name is unknown.
    """
    if name not in PROFILES:
        raise SettingsError(f"Unknown model profile {name!r}.", f"Known: {', '.join(PROFILES)}.")
    return PROFILES[name]


def profile_of(model: str) -> Profile | None:
    """Return the profile of a model whose name alone says its family; see `vrag.model_names`."""
    for profile in PROFILES.values():
        if same_model(model, profile.models):
            return profile
    name = read_model_name(model)
    return PROFILES[name.family] if name.family and name.certain else None


def write_profile(profile: Profile, folder: Path) -> None:
    """Write the profile beside the weights that were trained with it."""
    text = json.dumps(asdict(profile), indent=2, ensure_ascii=False) + "\n"
    (folder / PROFILE_FILE).write_text(text, encoding="utf-8")


def read_profile(folder: Path) -> Profile | None:
    """Read the profile beside the weights of a checkpoint; None without one.

    Raises:
        SettingsError: If it cannot be read, or is not a profile.
    """
    path = folder / PROFILE_FILE
    if not path.is_file():
        return None
    try:
        return _PROFILE.validate_json(path.read_bytes())
    except (OSError, ValueError, ValidationError) as error:
        reason = str(error).split("\n")[0]
        raise SettingsError(
            f"The profile {path} cannot be read: {reason}.",
            "Remove the file to take the profile of the model's family.",
        ) from error


_PROFILE = TypeAdapter(Profile)
