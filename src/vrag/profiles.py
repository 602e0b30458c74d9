"""Model families: what a picture must be like, and in which space its boxes are answered."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from pydantic import TypeAdapter, ValidationError

from vrag.errors import SettingsError
from vrag.geometry import Box, Size, Space, smart_resize

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
    """What one family of vision-language models expects.

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
    """Whether its boxes are top, left, bottom, right rather than left, top, right, bottom."""
    prompt: str = "vrag.md"
    """File in `vrag/agent/prompts` with the instruction of VRAG."""
    graph_prompt: str = "vimrag.md"
    """File there with the instruction of VimRAG."""
    instruction: str | None = None
    """The instruction of VRAG itself, in place of that file: a checkpoint brings its own along."""
    graph_instruction: str | None = None
    """That of VimRAG, likewise."""
    answer_now: str | None = None
    """What VRAG is told in its last turn; None for our words."""
    labelled: bool = True
    """Whether a text with its number stands before each picture of VRAG."""
    candidates: int = 0
    """Pages that a search of VRAG shows at least, of which the model selects one by `<select>`; 0 where there
    is no such action."""
    stop: tuple[str, ...] = ()
    """Strings at which the model stops writing, beside its own end of turn."""
    model_types: tuple[str, ...] = ()
    """`model_type` of the checkpoints of this family."""
    models: tuple[str, ...] = ()
    """Names under which servers are known to have models of this family, in lower case."""

    def __post_init__(self) -> None:
        if self.boxes not in _ANSWERED:
            raise ValueError(f"a model does not answer boxes in the space {self.boxes}")

    @property
    def written_sides(self) -> str:
        """How the four numbers of a box are named, in its order."""
        return "[y1, x1, y2, x2]" if self.y_first else "[x1, y1, x2, y2]"

    @property
    def box_prompts(self) -> tuple[str, str]:
        """Files in `vrag/agent/prompts` that say in which order and in which unit boxes are written."""
        return "box_yx.md" if self.y_first else "box_xy.md", f"box_{self.boxes}.md"

    def box(self, sides: tuple[float, float, float, float]) -> Box:
        """Four numbers as the model wrote them, as a box of its space."""
        a, b, c, d = sides
        return Box(b, a, d, c, self.boxes) if self.y_first else Box(a, b, c, d, self.boxes)

    def sides(self, box: Box) -> tuple[float, float, float, float]:
        """The inverse of `box`."""
        x1, y1, x2, y2 = box.as_tuple()
        return (y1, x1, y2, x2) if self.y_first else (x1, y1, x2, y2)

    def shown_size(self, size: Size) -> Size:
        """The size at which a picture of `size` pixels is shown to the model.

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
        """How many visual tokens a shown picture costs."""
        return (shown.width // self.factor) * (shown.height // self.factor)


PROFILES = {
    profile.name: profile
    for profile in (
        Profile(
            name="qwen2-vl",
            factor=28,
            boxes=Space.MILLE,
            model_types=("qwen2_vl",),
            models=("qwen/qwen2-vl-2b-instruct", "qwen/qwen2-vl-7b-instruct", "qwen/qwen2-vl-72b-instruct"),
        ),
        Profile(
            name="qwen2.5-vl",
            factor=28,
            boxes=Space.SHOWN,
            model_types=("qwen2_5_vl",),
            models=(
                "qwen/qwen2.5-vl-3b-instruct",
                "qwen/qwen2.5-vl-7b-instruct",
                "qwen/qwen2.5-vl-32b-instruct",
                "qwen/qwen2.5-vl-72b-instruct",
            ),
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
        Profile(
            name="qwen3-vl",
            factor=32,
            boxes=Space.MILLE,
            model_types=("qwen3_vl", "qwen3_vl_moe"),
            models=(
                "qwen/qwen3-vl-2b-instruct",
                "qwen/qwen3-vl-4b-instruct",
                "qwen/qwen3-vl-8b-instruct",
                "qwen/qwen3-vl-32b-instruct",
                "qwen/qwen3-vl-30b-a3b-instruct",
                "qwen/qwen3-vl-235b-a22b-instruct",
                "qwen3-vl-plus",
                "qwen3-vl-flash",
                "qwen3.5-plus",
                "qwen3.5-flash",
            ),
        ),
        Profile(name="fractions", factor=28, boxes=Space.RELATIVE),
        Profile(name="y-first", factor=28, boxes=Space.MILLE, y_first=True),
    )
}
"""Known families by name. The last two are for models of no known family, by how they answer boxes."""


def profile_named(name: str) -> Profile:
    """The profile of a model family.

    Raises:
        SettingsError: If there is none of that name.
    """
    if name not in PROFILES:
        raise SettingsError(f"There is no model profile {name!r}.", f"Known: {', '.join(PROFILES)}.")
    return PROFILES[name]


def profile_of(model: str) -> Profile | None:
    """The profile of a served model, where its name is known; `vrag doctor --coords` finds out the others."""
    name = model.lower()
    return next((profile for profile in PROFILES.values() if name in profile.models), None)


def write_profile(profile: Profile, folder: Path) -> None:
    """Puts the profile beside the weights that were trained with it."""
    text = json.dumps(asdict(profile), indent=2, ensure_ascii=False) + "\n"
    (folder / PROFILE_FILE).write_text(text, encoding="utf-8")


def read_profile(folder: Path) -> Profile | None:
    """The profile that lies beside the weights of a checkpoint; None where none does.

    Raises:
        SettingsError: If it cannot be read, or is none.
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
