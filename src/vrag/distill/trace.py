"""A recorded run step by step: what was done, and on which picture."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from vrag.agent.actions import Action, Crop, Flag, Invalid, Turn, parse
from vrag.agent.events import ImageShown, InvalidAction, ModelCalled
from vrag.geometry import Box, Size, Space, View

if TYPE_CHECKING:
    from vrag.agent.runs.run_store import StoredRun
    from vrag.model_profiles import Profile

__all__ = ["RunTrace", "trace", "view_of"]

_SLACK = 1e-6
"""Units of a model's space by which a box may leave its picture: maps are not exact beyond that."""


@dataclass(frozen=True, slots=True)
class RunTrace:
    """A run of VRAG as what was done in it."""

    turns: tuple[Turn[Action], ...]
    """One per model call."""
    images: tuple[ImageShown, ...]
    """In the order shown: picture `n` is the n-th."""
    cropped: tuple[ImageShown | None, ...]
    """For each turn the picture that it crops; None for another action, and where there is none such."""
    refused: tuple[str, ...]
    """Why turns were not carried out."""

    def over_the_edge(self, profile: Profile) -> int | None:
        """Number of the first turn, from 1, whose box does not lie inside its picture.

        Args:
            profile: The family that the run was recorded for.
        """
        for number, (turn, image) in enumerate(zip(self.turns, self.cropped, strict=True), 1):
            if isinstance(turn.action, Crop) and (image is None or not _inside(turn.action, image, profile)):
                return number
        return None


def trace(run: StoredRun) -> RunTrace:
    """The run, by its events."""
    turns: list[Turn[Action]] = []
    images: list[ImageShown] = []
    cropped: list[ImageShown | None] = []
    refused: list[str] = []
    for event in run.events:
        match event:
            case ModelCalled():
                turn = parse(event.reply[: event.executed])
                turn = replace(turn, flags=turn.flags | {Flag.REPAIRED} if event.repairs else turn.flags)
                turns.append(turn)
                cropped.append(_cropped(turn.action, images))
            case ImageShown():
                images.append(event)
            case InvalidAction():
                refused.append(event.reason)
            case _:
                pass
    return RunTrace(tuple(turns), tuple(images), tuple(cropped), tuple(refused))


def view_of(image: ImageShown, shown: Size | None = None) -> View:
    """Which part of its item a recorded picture is.

    Args:
        image: As it was shown.
        shown: Its size for another family; None for the size it had.
    """
    region = Box(*image.region, Space.ITEM)
    x1, y1, x2, y2 = image.box
    item = Size(round(region.width / max(x2 - x1, 1e-9)), round(region.height / max(y2 - y1, 1e-9)))
    return View(item, region, shown or Size(image.width, image.height))


def _cropped(action: Action | Invalid, images: list[ImageShown]) -> ImageShown | None:
    if not isinstance(action, Crop):
        return None
    number = action.image or len(images)
    return images[number - 1] if 0 < number <= len(images) else None


def _inside(crop: Crop, image: ImageShown, profile: Profile) -> bool:
    view = view_of(image)
    whole = view.from_item(view.region, profile.boxes)
    box = profile.box(crop.box)
    return box.area > 0 and box.intersect(whole.grow(_SLACK)) == box
