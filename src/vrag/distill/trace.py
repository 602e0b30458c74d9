"""A recorded run step by step: its actions, and the images that they are about."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from vrag.agent.actions import Action, Crop, Flag, Turn, parse
from vrag.agent.events import ImageShown, InvalidAction, ModelCalled
from vrag.geometry import Box, Size, Space, View

if TYPE_CHECKING:
    from vrag.agent.runs.run_store import StoredRun
    from vrag.model_profiles import Profile


_SLACK = 1e-6
"""Units of a model's space by which a box may leave its image: maps are not exact beyond that."""


@dataclass(frozen=True, slots=True)
class RunTrace:
    """The actions of a run of VRAG."""

    turns: tuple[Turn[Action], ...]
    """One per model call."""
    images: tuple[ImageShown, ...]
    """In the order shown: image `n` is the n-th."""
    cropped: tuple[ImageShown | None, ...]
    """For each turn the image that it crops; None for another action, and where there is no such image."""
    refused: tuple[str, ...]
    """The reason turns were not carried out."""

    def over_the_edge(self, profile: Profile) -> int | None:
        """Number of the first turn, from 1, whose box leaves its image, for the recorded family."""
        for number, (turn, image) in enumerate(zip(self.turns, self.cropped, strict=True), 1):
            if isinstance(turn.action, Crop) and (
                image is None or not _is_inside(turn.action, image, profile)
            ):
                return number
        return None


def trace(run: StoredRun) -> RunTrace:
    """Follow a run by its events."""
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
                number = turn.action.image or len(images) if isinstance(turn.action, Crop) else 0
                cropped.append(images[number - 1] if 0 < number <= len(images) else None)
            case ImageShown():
                images.append(event)
            case InvalidAction():
                refused.append(event.reason)
            case _:
                pass
    return RunTrace(tuple(turns), tuple(images), tuple(cropped), tuple(refused))


def view_of(image: ImageShown, shown: Size | None = None) -> View:
    """Return the part of its item that a recorded image is, at another size if `shown` gives one."""
    region = Box(*image.region, Space.ITEM)
    x1, y1, x2, y2 = image.box
    item = Size(round(region.width / max(x2 - x1, 1e-9)), round(region.height / max(y2 - y1, 1e-9)))
    return View(item, region, shown or Size(image.width, image.height))


def _is_inside(crop: Crop, image: ImageShown, profile: Profile) -> bool:
    view = view_of(image)
    whole = view.from_item(view.region, profile.boxes)
    box = profile.box(crop.box)
    return box.area > 0 and box.intersect(whole.grow(_SLACK)) == box
