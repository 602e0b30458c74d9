"""The one place where actions are carried out, for serving, training and evaluation alike.

An `Environment` is shared and holds no state of any run; a method keeps that in an episode.
Items are opened by id from the searcher's own collection and from nowhere else: no path and no
address from a model or a document is ever opened. Parts of pages that are enlarged are drawn from the file
that the collection was made from, by the path in its manifest, as long as its bytes are those that were
indexed.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict, Field, field_serializer

from vrag.agent.actions import ActionRejected, UseTool
from vrag.agent.policy import Picture, PictureOrigin
from vrag.agent.prompts import encodable, material
from vrag.agent.tool_plugins import ToolContext, ToolPlugin, ToolResult
from vrag.errors import CollectionError, OutOfScopeError, SearchError, SettingsError, VragError
from vrag.geometry import MAX_ASPECT, NO_MARGIN, Box, Size, View, draw_view, encode_jpeg, look_alike
from vrag.model_profiles import Profile
from vrag.reading import completed
from vrag.search.named_documents import find_candidates, is_about_one
from vrag.search.searcher import ScopedSearcher, Searcher
from vrag.types import Hit, Item, Query

if TYPE_CHECKING:
    from PIL.Image import Image

    from vrag.agent.question import Question
    from vrag.reading.text_reader import TextReader

SELECT = "select"
"""The action that takes one of the pages that a search has shown (UniDoc-RL)."""
MIN_CROP_SIDE = 8
"""Raw pixels under which a crop shows nothing worth enlarging."""

log = logging.getLogger("vrag.agent")


class EnvironmentOptions(BaseModel):
    """Options of actions. The same values must stand in training and in serving."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    hits: int = Field(default=10, ge=1, le=1000, description="Hits a search returns.")
    show: int = Field(
        default=1, ge=1, le=10, description="Items a search of VRAG shows: the best not shown yet."
    )
    select: int = Field(
        default=0,
        ge=0,
        le=10,
        description="Pages that a search of VRAG shows, of which the model selects one; 0 without selection.",
    )
    padding: float = Field(default=0.0, ge=0.0, le=1000.0, description="Item pixels added around a crop.")
    tables: bool = Field(default=False, description="Tables of a page are shown as text beside its picture.")
    documents: frozenset[str] | None = Field(
        default=None, description="Ids of the documents that may be searched; all when absent."
    )
    collection: str | None = Field(
        default=None, description="Name of the collection that is searched; all when absent."
    )

    @field_serializer("documents")
    def _in_order(self, documents: frozenset[str] | None) -> list[str] | None:
        return None if documents is None else sorted(documents)


@dataclass(frozen=True, slots=True)
class Environment:
    """Carries out actions on one collection for one model family."""

    searcher: Searcher
    profile: Profile
    options: EnvironmentOptions = field(default_factory=EnvironmentOptions)
    tools: Mapping[str, ToolPlugin] = field(default_factory=dict[str, "ToolPlugin"])
    """The custom tools on offer, by name."""
    text_reader: TextReader | None = None
    """The reader of running text that answers are found with; None for that of the package."""
    user: str = ""
    """Name of the user who asks, for custom tools; empty where there are no users."""
    preferred: str | None = None
    """Id of the document that the question is about, as the conversation tells; None where it does not."""

    def __post_init__(self) -> None:
        """Raise `SettingsError` if a released checkpoint should select pages that never learned to."""
        if self.options.select and not (self.profile.labelled or self.profile.candidates):
            raise SettingsError(
                f"Checkpoints of the profile {self.profile.name} were trained without <select>.",
                "Leave selection off (VRAG_SELECT; in verl, vrag.select), or choose another model.",
            )

    @property
    def candidates(self) -> int:
        """The number of pages of a search of which the model selects one; 0 without selection."""
        return self.options.select or self.profile.candidates

    @property
    def action_names(self) -> frozenset[str]:
        """The names of the actions on offer besides those built in: custom tools, and `select`."""
        return frozenset({*self.tools, SELECT} if self.candidates else self.tools)

    @property
    def collections(self) -> frozenset[str] | None:
        """Names of the collections that may be searched; None for all."""
        return frozenset({self.options.collection}) if self.options.collection else None

    def search(self, query: str) -> list[Hit]:
        """Return the best hits among the documents that may be searched.

        Raises `SearchError` or `CollectionError` if the search or the collection fails.
        """
        search_query = Query(
            query, self.options.documents, corpora=self.collections, preferred=self.preferred
        )
        hits = self.searcher.search([search_query], self.options.hits)[0]
        return [replace(hit, shown_name="") for hit in hits]  # recorded as the collection has them

    def about(self, question: Question) -> Environment:
        """Return the environment for a question: its searches prefer the document that it goes on about."""
        documents = question.history[-1].documents if question.history else ()
        if len(documents) != 1:
            return self
        earlier = [turn.question for turn in question.history]
        goes_on = is_about_one(question.text) or completed(question.text, earlier) != question.text
        return replace(self, preferred=documents[0]) if goes_on else self

    def list_choices(self, question: str, hits: Sequence[Hit]) -> list[Item]:
        """Return an item of each document that a question may be about; none where one is clearly meant.

        `hits` were found for it, best first. Nothing depends on these documents: where they cannot be opened,
        there are none.
        """
        if self.preferred is not None:
            return []
        try:
            return [self.searcher.item(hit.item) for hit in find_candidates(question, hits, self.searcher)]
        except VragError:
            return []

    def material(self, text: str) -> str:
        """Return text of documents as it may stand in a message; see `vrag.agent.prompts`."""
        return material(text, self.action_names)

    def item(self, id: str) -> Item:
        """Return an item of the collection; raise `SearchError` if there is none of that id."""
        return self.searcher.item(id)

    def tables(self, item: Item) -> str:
        """Return the tables of a page as text that may stand in a message; empty where none are shown."""
        if not self.options.tables:
            return ""
        from vrag.agent.page_reading import describe_tables  # the reader takes time to load

        return self.material(describe_tables(self.searcher, item))

    def unopened(self, error: VragError) -> str:
        """Return the message about an item that cannot be opened, after checking the collection.

        Raises `SearchError` or `CollectionError` if the collection is not available, so that no item can be
        opened.
        """
        _ = self.searcher.version
        return str(error)

    def use_tool(self, action: UseTool, shown: Sequence[str]) -> tuple[ToolResult, tuple[str, ...]]:
        """Run a custom tool; `shown` are ids of the items shown in this run, in order.

        Returns the result with each item once, and why items that it named are not part of it. Raises
        `ActionRejected` if the tool rejects the text, fails (the model is given no details of a fault), or
        gives nothing but items outside of the documents that may be searched, and `SearchError` or
        `CollectionError` if the search fails.
        """
        tool = self.tools.get(action.name)
        if tool is None:
            raise ActionRejected(f"there is no action {action.name}")
        scope = ScopedSearcher(self.searcher, self.options.documents, self.collections)
        context = ToolContext(
            scope, tuple(dict.fromkeys(shown)), self.options.documents, self.collections, self.user
        )
        try:
            result = tool.run(action.text, context)
            if not isinstance(result, ToolResult):  # pyright: ignore[reportUnnecessaryIsInstance] - a plugin may break its type
                raise TypeError(f"it returned no ToolResult: {result!r:.200}")  # noqa: TRY301
        except (SearchError, CollectionError) as error:
            raise ActionRejected(f"{action.name} failed: {error.message}") from error
        except Exception as error:  # a custom tool may raise anything; the run continues
            if type(error) in {ValueError, ActionRejected} and str(error).strip():
                raise ActionRejected(encodable(str(error))) from error
            log.exception("The custom tool %s failed.", action.name)
            raise ActionRejected(f"{action.name} failed") from error
        items, damaged, refused = self._in_scope(dict.fromkeys(map(encodable, result.items)), scope)
        if refused and not (items or result.texts):
            raise ActionRejected(refused[0])
        return ToolResult(items, tuple(map(encodable, result.texts))), (*damaged, *refused)

    def _in_scope(
        self, ids: Iterable[str], scope: ScopedSearcher
    ) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
        """Return the items in scope, why some cannot be opened, and why others are refused."""
        if self.options.documents is None and self.collections is None:
            return tuple(ids), (), ()
        items: list[str] = []
        damaged: list[str] = []
        refused: list[str] = []
        for id in ids:
            try:
                scope.item(id)
            except OutOfScopeError as error:
                refused.append(error.message)
            except (SearchError, CollectionError) as error:
                damaged.append(self.unopened(error))
            else:
                items.append(id)
        return tuple(items), tuple(damaged), tuple(refused)

    def whole(
        self, item: Item, *, number: int = 0, shown: Size | None = None, margin: Size = NO_MARGIN
    ) -> Picture:
        """Return the picture of an item; raise `CollectionError` if it cannot be opened."""
        assert item.size is not None
        full = Box(0, 0, *item.size, View.whole(item.size, item.size).region.space)
        view = View(item.size, full, shown or self.shown_size(item), margin)
        return self.picture(item.id, view, number=number)

    def shown_size(self, item: Item) -> Size:
        """Return the size at which the profile shows the picture of an item.

        Raises `CollectionError` if the family of the model takes no picture of its proportions.
        """
        assert item.size is not None
        try:
            return self.profile.shown_size(item.size)
        except ValueError as error:
            raise CollectionError(f"The picture of {item.id} cannot be shown: {error}.") from error

    def picture(self, item: str, view: View, *, number: int = 0, crop: bool = False) -> Picture:
        """Draw and encode the part of an item that a view shows.

        A part that is shown larger than it is stored is drawn from the source file, if that is still there.

        Raises `SearchError` if there is no such item, or it has no picture, and `CollectionError` if it
        cannot be opened, or is of another size now.
        """
        drawn, origin = self._draw_source(item, view), PictureOrigin.SOURCE
        if drawn is None:
            drawn, origin = self._draw_stored(item, view), PictureOrigin.PAGE
        return picture_of(drawn, item, view, number=number, crop=crop, origin=origin)

    def _draw_source(self, item: str, view: View) -> Image | None:
        """Draw a view from the source file; None where that shows no more than the stored picture."""
        is_enlarged = view.shown.area > view.region.area and not _is_whole(view)
        return self.searcher.part(item, view) if is_enlarged else None

    def _draw_stored(self, item: str, view: View) -> Image:
        image = self.searcher.image(item, least=view.shown if _is_whole(view) else None)
        if not _is_whole(view) and image.size != view.item:
            raise CollectionError(f"The picture of {item} changed its size.")
        return draw_view(image, view)

    def region(self, source: View, sides: tuple[float, float, float, float]) -> Box | str:
        """Return the region of a model's box in item pixels, or a sentence that says why there is none."""
        region = source.cut(self.profile.box(sides), padding=self.options.padding)
        return fault_of(region) or region

    def closer(self, item: str, source: View, region: Box, *, number: int = 0) -> Picture:
        """Return a part of an item, enlarged to the size of the profile.

        Raises `CollectionError` if it cannot be opened.
        """
        shown = self.profile.shown_size(Size(int(region.width), int(region.height)))
        return self.picture(item, View(source.item, region, shown), number=number, crop=True)

    def frame(self, item: str, image: Image, seconds: float, shown: Size, margin: Size) -> Picture:
        """Return a frame of a clip as the model is shown it."""
        size = Size(*image.size)
        view = View(size, View.whole(size, shown).region, shown, margin)
        return picture_of(draw_view(image, view), item, view, seconds=seconds)

    def frames(self, item: str, *, fps: float, most: int) -> tuple[tuple[float, Image], ...]:
        """Return frames of a clip, each with its moment in seconds of the video.

        Raises `SearchError` if it is no clip, `CollectionError` if it cannot be opened, and `MissingExtra`
        without PyAV.
        """
        return tuple((frame.seconds, frame.image) for frame in self.searcher.frames(item, fps=fps, most=most))

    def same_again(self, picture: Picture) -> bool:
        """Return whether the collection still shows what the model was shown; not for frames of clips.

        Drawing it again gives the same file. Where it was drawn from a source file that is gone, the stored
        picture shows the same in less detail.
        """
        item, view = picture.item, picture.view
        try:
            if picture.origin is PictureOrigin.SOURCE:
                drawn = self._draw_source(item, view)
                if drawn is None:
                    return look_alike(self._draw_stored(item, view), picture.image)
            else:
                drawn = self._draw_stored(item, view)
        except VragError:
            return False
        return picture_of(drawn, item, view).sha256 == picture.sha256

    def same_frames(self, pictures: Sequence[Picture], *, fps: float, most: int) -> list[bool]:
        """Return, for each of some frames of one clip, whether the clip, opened once, still shows it."""
        try:
            frames = dict(self.frames(pictures[0].item, fps=fps, most=most))
        except VragError:
            return [False] * len(pictures)
        same: list[bool] = []
        for picture in pictures:
            view, moment = picture.view, picture.seconds or 0.0
            image = frames.get(moment)
            same.append(
                image is not None
                and self.frame(picture.item, image, moment, view.shown, view.margin).sha256 == picture.sha256
            )
        return same


def picture_of(
    drawn: Image,
    item: str,
    view: View,
    *,
    number: int = 0,
    crop: bool = False,
    seconds: float | None = None,
    origin: PictureOrigin = PictureOrigin.PAGE,
) -> Picture:
    """Encode a drawn view, RGB and of size `view.canvas`, as a model is given it."""
    jpeg = encode_jpeg(drawn)
    return Picture(number, item, view, jpeg, hashlib.sha256(jpeg).hexdigest(), crop, seconds, origin)


def _is_whole(view: View) -> bool:
    return view.region == View.whole(view.item, view.shown).region


def fault_of(region: Box) -> str:
    """Return why a region in item pixels cannot be shown; empty when it can."""
    if region.width <= 0 or region.height <= 0:
        return "The box lies outside the picture, or its sides are in the wrong order."
    if min(region.width, region.height) < MIN_CROP_SIDE:
        return "The box is too small to show anything."
    if max(region.width, region.height) > MAX_ASPECT * min(region.width, region.height):
        return "The box is too long and thin."
    return ""
