"""Model families: what a picture must be like, and in which space its boxes are answered."""

from __future__ import annotations

from dataclasses import dataclass

from vrag.errors import SettingsError
from vrag.geometry import Size, Space, smart_resize

__all__ = ["PROFILES", "Profile", "profile_named"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """What one family of vision-language models expects."""

    name: str
    factor: int
    """Pixels per visual token along each side."""
    min_tokens: int = 256
    """Least number of visual tokens of a picture."""
    max_tokens: int = 512
    """Greatest number of visual tokens of a picture."""
    boxes: Space
    """The space in which the model answers boxes."""
    prompt: str = "vrag.md"
    """File in `vrag/agent/prompts` with the instruction."""

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
        Profile(name="qwen2.5-vl", factor=28, boxes=Space.SHOWN),
        Profile(name="qwen3-vl", factor=32, boxes=Space.MILLE),
    )
}
"""Known families by name."""


def profile_named(name: str) -> Profile:
    """The profile of a model family.

    Raises:
        SettingsError: If there is none of that name.
    """
    if name not in PROFILES:
        raise SettingsError(f"There is no model profile {name!r}.", f"Known: {', '.join(PROFILES)}.")
    return PROFILES[name]
