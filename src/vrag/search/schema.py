"""The schema of requests and responses between a search server and its clients.

Both formats of `/search` are those of the reference, so that its clients need no change; ours has additional
fields. `SearchRequest` and `SearchResponse` are the newer format, lists of `ImageFileEntry` the older.
"""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, RootModel, StringConstraints

from vrag.geometry import Box, Size
from vrag.item_facts import decode_facts, encode_facts
from vrag.types import Clip, Item, ItemKind, Query, TextSource, Word

MAX_QUERIES = 1024
"""Queries of one request."""
MAX_QUERY_CHARS = 8192
MAX_TOP_K = 1000
MAX_HITS = 20_000
"""Queries times `top_k` of one request."""
OLDER_TOP_K = 10
"""Hits per query in the older format, whose requests have no number."""
ID_PATTERN = r"^[0-9a-f]{16}-[1-9][0-9]{0,9}$"
"""Of ids of items, as `vrag.types.item_id` makes them."""

NOT_BLANK = r"[^\s\x1c-\x1f]"
"""Of queries: a letter that Python does not count as white space."""

_MAX_NAME = 4096
"""Characters of a path or name in a response."""
_MAX_WORDS = 1_000_000
_MAX_FACTS = 8_000_000

QueryText: TypeAlias = Annotated[str, StringConstraints(max_length=MAX_QUERY_CHARS, pattern=NOT_BLANK)]
_WHOLE_NUMBER = BeforeValidator(lambda n: int(n) if isinstance(n, float) and n.is_integer() else n)
"""In JSON, 3.0 is an integer as well as 3; "3" and true are none."""
_Score: TypeAlias = Annotated[float, Field(allow_inf_nan=False)]
_Name: TypeAlias = Annotated[str, StringConstraints(max_length=_MAX_NAME)]


class SearchRequest(BaseModel):
    """A search for one query or several. Unknown fields are ignored, as the reference does."""

    model_config = ConfigDict(frozen=True, strict=True)

    queries: QueryText | Annotated[list[QueryText], Field(min_length=1, max_length=MAX_QUERIES)] = Field(
        description="What to look for: one query, or a list of them."
    )
    top_k: Annotated[int, _WHOLE_NUMBER] = Field(
        default=3, ge=1, le=MAX_TOP_K, description="Hits per query at most."
    )
    search_corpus: _Name | Annotated[list[_Name], Field(min_length=1, max_length=100)] | None = Field(
        default=None, description="Name of the collection to search, or several; all when absent."
    )
    documents: Annotated[list[_Name], Field(max_length=10_000)] | None = Field(
        default=None, description="Ids of the documents to look in; all when absent."
    )
    kinds: Annotated[list[Literal["page", "clip", "passage"]], Field(max_length=3)] | None = Field(
        default=None, description="Kinds of items to look for; all when absent."
    )
    vrag_ret: bool = Field(default=False, description="Answer in the older shape, pictures only.")

    @property
    def corpora(self) -> frozenset[str] | None:
        """The names of the collections to search; None for all."""
        if self.search_corpus is None:
            return None
        return frozenset([self.search_corpus] if isinstance(self.search_corpus, str) else self.search_corpus)

    def as_queries(self) -> list[Query]:
        """Convert the request to queries for a searcher."""
        texts = [self.queries] if isinstance(self.queries, str) else self.queries
        documents = None if self.documents is None else frozenset(self.documents)
        kinds = None if self.kinds is None else frozenset(map(ItemKind, self.kinds))
        if self.vrag_ret:
            kinds = frozenset({ItemKind.PAGE}) if kinds is None else kinds & {ItemKind.PAGE}
        return [Query(text, documents, kinds, self.corpora) for text in texts]


class _FoundEntry(BaseModel):
    model_config = ConfigDict(frozen=True)

    file_path: _Name = Field(description="Where the client may find the file; its base name is the item's.")
    uid: _Name | None = Field(default=None, description="What the item is called outside, if it was named.")
    id: Annotated[str, StringConstraints(pattern=ID_PATTERN)] | None = Field(
        default=None, description="Id of the item, for /items/{id}."
    )
    document: _Name | None = Field(default=None, description="Id of its document.")
    document_name: _Name | None = Field(default=None, description="File name of its document.")
    shown_name: _Name | None = Field(
        default=None, description="Path of its document in the collection, as citations show it."
    )
    page: int | None = Field(default=None, ge=1, description="Position in its document, from 1.")
    page_label: _Name | None = Field(
        default=None, description="The number that is printed on a page, where it is not its position."
    )
    url: _Name | None = Field(
        default=None, description="Where the server has its content, relative to the server."
    )


class ImageEntry(_FoundEntry):
    """A page or picture that was found."""

    type: Literal["image"]


class VideoEntry(_FoundEntry):
    """A clip that was found."""

    type: Literal["video"]
    start: float | None = Field(default=None, description="Where it begins in the video, in seconds.")
    end: float | None = Field(default=None, description="Where it ends.")


class TextEntry(_FoundEntry):
    """A passage that was found."""

    type: Literal["text"]
    content: str = Field(description="The passage.")


Entry: TypeAlias = Annotated[ImageEntry | VideoEntry | TextEntry, Field(discriminator="type")]


class SearchResult(BaseModel):
    """The hits of one query, best first: three lists of one length."""

    model_config = ConfigDict(frozen=True)

    score: Annotated[list[_Score], Field(max_length=MAX_TOP_K)] = Field(
        description="Higher is better; comparable within one result only."
    )
    indice: Annotated[list[int], Field(max_length=MAX_TOP_K)] = Field(
        description="Numbers of the items in the version that was searched; -1 where they have none."
    )
    data: Annotated[list[Entry], Field(max_length=MAX_TOP_K)]


class SearchResponse(BaseModel):
    """One result per query, in their order."""

    model_config = ConfigDict(frozen=True)

    results: Annotated[list[SearchResult], Field(max_length=MAX_QUERIES)]


class ImageFileEntry(BaseModel):
    """A picture that was found, in the older format."""

    model_config = ConfigDict(frozen=True)

    idx: int = Field(ge=0, description="Place among the hits, from 0.")
    image_file: _Name = Field(description="As `file_path` of an entry.")


class OlderResponse(RootModel[Annotated[list[list[ImageFileEntry]], Field(max_length=MAX_QUERIES)]]):
    """The hits of the queries, in the older format."""

    model_config = ConfigDict(frozen=True)


class ServerInfo(BaseModel):
    """The collections and the version that a server searches."""

    model_config = ConfigDict(frozen=True)

    version: _Name = Field(description="Hash over what can be found; equal versions find the same.")
    corpora: list[_Name] = Field(description="Names for `search_corpus`; empty when there is only one.")


class ClipInfo(BaseModel):
    """The stretch of video that an item is."""

    model_config = ConfigDict(frozen=True)

    start: float = Field(description="Where it begins in the video, in seconds.")
    end: float = Field(description="Where it ends.")
    frames: list[float] = Field(description="Its key frames, in seconds from the beginning of the video.")
    url: _Name = Field(description="Where the server has the clip.")


class ItemInfo(BaseModel):
    """An item without its picture."""

    model_config = ConfigDict(frozen=True)

    id: Annotated[str, StringConstraints(pattern=ID_PATTERN)]
    document: _Name = Field(description="Id of its document.")
    document_name: _Name = Field(description="File name of its document.")
    shown_name: _Name = Field(
        default="", description="Path of its document in the collection, as citations show it."
    )
    kind: Literal["page", "clip", "passage"]
    page: int = Field(ge=1, description="Position in its document, from 1.")
    page_label: _Name = Field(
        default="", description="The number that is printed on a page, where it is not its position."
    )
    uid: _Name = ""
    text: str = ""
    heading: str = ""
    text_source: Literal["layer", "ocr", "file", "none"] = "none"
    width: int | None = Field(default=None, ge=1, description="Of the picture, in pixels.")
    height: int | None = Field(default=None, ge=1, description="Of the picture, in pixels.")
    image: _Name | None = Field(
        default=None, description="Where the server has the picture, if there is one."
    )
    clip: ClipInfo | None = None
    words: (
        Annotated[list[tuple[int, int, float, float, float, float]], Field(max_length=_MAX_WORDS)] | None
    ) = Field(
        default=None,
        description="Where asked for: start and end of each word in the text, and its box x1, y1, x2, y2 "
        "in fractions of the picture.",
    )
    facts: str = Field(
        default="",
        max_length=_MAX_FACTS,
        description="What else is known, as a JSON object: `label`, `hidden_text`, `unread`, `turned`.",
    )

    @classmethod
    def of(cls, item: Item, *, words: bool) -> ItemInfo:
        """Convert an item to send it, with or without its words."""
        clip = item.clip
        return cls(
            id=item.id,
            document=item.document,
            document_name=item.document_name,
            shown_name=item.shown_name,
            kind=item.kind.value,
            page=item.ordinal,
            page_label=item.facts.label,
            uid=item.uid,
            text=item.text,
            heading=item.heading,
            text_source=item.text_source.value,
            width=item.size.width if item.size else None,
            height=item.size.height if item.size else None,
            image=f"/items/{item.id}/image" if item.size else None,
            clip=ClipInfo(
                start=clip.start, end=clip.end, frames=list(clip.frames), url=f"/items/{item.id}/clip"
            )
            if clip
            else None,
            words=[(word.start, word.end, *word.box.as_tuple()) for word in item.words] if words else None,
            facts=encode_facts(item.facts),
        )

    def as_item(self) -> Item:
        """Convert to the item that was sent. Its paths are those of the server, never to be opened here.

        Raises `ValueError` if a word lies outside of the text, a box outside of the picture, or facts are
        none.
        """
        for start, end, *sides in self.words or ():
            inside = 0 <= start <= end <= len(self.text) and all(-0.01 <= side <= 1.01 for side in sides)
            if not inside:
                raise ValueError(f"a word of item {self.id} lies outside of it")
        has_picture = self.width is not None and self.height is not None
        return Item(
            id=self.id,
            document=self.document,
            document_name=self.document_name,
            shown_name=self.shown_name,
            kind=ItemKind(self.kind),
            ordinal=self.page,
            text=self.text,
            words=tuple(Word(start, end, Box.unit(*sides)) for start, end, *sides in self.words or ()),
            text_source=TextSource(self.text_source),
            size=Size(self.width or 1, self.height or 1) if has_picture else None,
            image=self.image if has_picture else None,
            clip=Clip(self.clip.url, self.clip.start, self.clip.end, tuple(self.clip.frames))
            if self.clip
            else None,
            heading=self.heading,
            facts=decode_facts(self.facts),
            uid=self.uid,
        )


class ProblemDetails(BaseModel):
    """An error response."""

    model_config = ConfigDict(frozen=True)

    detail: str = Field(description="What is wrong, in one sentence.")
    hint: str = Field(default="", description="What to do about it.")
    id: str | None = Field(default=None, description="Under which the server's log has more.")
