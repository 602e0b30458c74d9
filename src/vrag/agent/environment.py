"""The one place where actions are carried out, for serving, training and evaluation alike.

An `Environment` is shared and holds no state of any run; `start` gives an `Episode`, which does.
Items are opened by id from the searcher's own collection and from nowhere else: no path and no
address from a model or a document is ever opened.
"""

from __future__ import annotations

import hashlib
import io
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict, Field, field_serializer

from vrag.agent.actions import Answer, Crop, Invalid, Search
from vrag.agent.policy import Part, Picture, Text
from vrag.agent.prompts import prompt
from vrag.errors import CollectionError
from vrag.geometry import MAX_ASPECT, Box, Size, View, draw_view
from vrag.types import Hit, Item, Query

if TYPE_CHECKING:
    from PIL.Image import Image

    from vrag.agent.actions import Action
    from vrag.profiles import Profile
    from vrag.search.engine import Searcher

__all__ = ["Environment", "EnvironmentOptions", "Episode", "Observation", "encode_png"]

_FENCE = re.compile(r"</?\s*passage\s*>", re.IGNORECASE)
MIN_CROP_SIDE = 8
"""Raw pixels under which a crop shows nothing worth enlarging."""


class EnvironmentOptions(BaseModel):
    """How actions are carried out. The same values must stand in training and in serving."""

    model_config = ConfigDict(frozen=True)

    hits: int = Field(default=10, ge=1, le=1000, description="Hits a search returns.")
    show: int = Field(default=1, ge=1, le=10, description="Items a search shows: the best not shown yet.")
    padding: float = Field(default=0.0, ge=0.0, le=1000.0, description="Item pixels added around a crop.")
    documents: frozenset[str] | None = Field(
        default=None, description="Ids of the documents that may be searched; all when absent."
    )

    @field_serializer("documents")
    def _in_order(self, documents: frozenset[str] | None) -> list[str] | None:
        return None if documents is None else sorted(documents)


@dataclass(frozen=True, slots=True)
class Observation:
    """What the environment answers to an action."""

    parts: tuple[Part, ...] = ()
    """What the model is given, in a user turn."""
    hits: tuple[Hit, ...] = ()
    """What a search returned."""
    invalid: str | None = None
    """Why the action was not carried out; None when it was."""
    damaged: tuple[str, ...] = ()
    """Why items were found and could not be opened; the next best were shown instead."""

    @property
    def pictures(self) -> tuple[Picture, ...]:
        """The pictures among the parts."""
        return tuple(part for part in self.parts if isinstance(part, Picture))


@dataclass(frozen=True, slots=True)
class Environment:
    """Carries out actions on one collection for one model family."""

    searcher: Searcher
    profile: Profile
    options: EnvironmentOptions = field(default_factory=EnvironmentOptions)

    def start(self) -> Episode:
        """A new run: nothing searched, nothing shown."""
        return Episode(self)


@dataclass(slots=True)
class Episode:
    """The state of one run: what was shown."""

    environment: Environment
    seen: list[str] = field(default_factory=list[str])
    """Ids of the items shown, in order."""
    pictures: list[Picture] = field(default_factory=list[Picture])

    def step(self, action: Action | Invalid) -> Observation:
        """Carries out an action.

        Raises:
            SearchError, CollectionError: If the search or the collection fails. A fault of the
                action itself is an observation, not an error.
        """
        match action:
            case Search(query):
                return self._search(query)
            case Crop():
                return self._crop(action)
            case Answer():
                return Observation()
            case Invalid(reason):
                return _refusal(reason)

    def _search(self, query: str) -> Observation:
        options = self.environment.options
        found = self.environment.searcher.search([Query(query, options.documents)], options.hits)[0]
        if not found:
            return Observation((Text(prompt("nothing_found.md")),))
        parts: list[Part] = []
        damaged: list[str] = []
        room = options.show
        for hit in found:
            if room and hit.item not in self.seen:
                try:
                    parts += self._show(hit.item)
                    room -= 1
                except CollectionError as error:
                    damaged.append(str(error))
        shown = tuple(parts) or (Text(prompt("nothing_new.md")),)
        return Observation(shown, tuple(found), damaged=tuple(damaged))

    def _show(self, item: str) -> tuple[Part, ...]:
        entry = self.environment.searcher.item(item)
        if entry.size is None:
            self.seen.append(item)
            return (Text(prompt("passage.md", text=_FENCE.sub("‹passage›", entry.text)), item=item),)
        view = View.whole(entry.size, self.environment.profile.shown_size(entry.size))
        shown = self._picture(entry, view, crop=False)
        self.seen.append(item)
        return shown

    def _crop(self, action: Crop) -> Observation:
        if not self.pictures:
            return _refusal("No picture has been shown yet; search first.")
        number = action.image or len(self.pictures)
        if number > len(self.pictures):
            return _refusal(f"There is no picture {number}; {len(self.pictures)} were shown.")
        source = self.pictures[number - 1]
        environment = self.environment
        box = Box(*action.box, environment.profile.boxes)
        region = source.view.cut(box, padding=environment.options.padding)
        if fault := _fault_of(region):
            return _refusal(fault)
        shown = environment.profile.shown_size(Size(int(region.width), int(region.height)))
        entry = environment.searcher.item(source.item)
        try:
            return Observation(self._picture(entry, View(source.view.item, region, shown), crop=True))
        except CollectionError:
            return _refusal("That picture can no longer be opened.")

    def _picture(self, item: Item, view: View, *, crop: bool) -> tuple[Part, ...]:
        image = draw_view(self.environment.searcher.image(item.id), view)
        number = len(self.pictures) + 1
        png = encode_png(image)
        picture = Picture(number, item.id, view, image, png, hashlib.sha256(png).hexdigest(), crop)
        self.pictures.append(picture)
        return Text(prompt("shown.md", number=number)), picture


def encode_png(image: Image) -> bytes:
    """The PNG file of a picture; the same pixels give the same bytes."""
    buffer = io.BytesIO()
    image.save(buffer, format="PNG", compress_level=1)
    return buffer.getvalue()


def _refusal(reason: str) -> Observation:
    return Observation((Text(prompt("invalid.md", reason=reason)),), invalid=reason)


def _fault_of(region: Box) -> str | None:
    """Why a region in item pixels cannot be shown; None when it can."""
    if region.width <= 0 or region.height <= 0:
        return "The box lies outside the picture, or its sides are in the wrong order."
    if min(region.width, region.height) < MIN_CROP_SIDE:
        return "The box is too small to show anything."
    if max(region.width, region.height) > MAX_ASPECT * min(region.width, region.height):
        return "The box is too long and thin."
    return None
