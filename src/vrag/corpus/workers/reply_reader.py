"""Replies of a worker, read by its parent, which believes nothing: a hostile file may have taken it over.

Lengths are bounded before anything is read, values by a schema, and an item must be the next one that was
asked for. Its picture has the format and the size that it says, by its header; nothing is decoded here.
Whatever else comes, `ReplyError` says what is wrong with it.
"""

from __future__ import annotations

import io
import warnings
from collections import deque
from typing import IO, TYPE_CHECKING, Annotated, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from vrag.corpus.drawing import BytesNeeded, DrawTask, PartDrawn
from vrag.corpus.formats.video import CONTAINERS
from vrag.corpus.workers import replies
from vrag.corpus.workers.replies import FRAME, FileOpened, ItemMade, ReplyFiles, TaskDone, TaskRejected
from vrag.corpus.workers.sandbox import Protection
from vrag.errors import VragError
from vrag.geometry import Box, Size
from vrag.item_facts import decode_facts, list_places
from vrag.types import Clip, Item, ItemKind, TextSource, Word, item_id

if TYPE_CHECKING:
    from vrag.corpus.workers.replies import Reply
    from vrag.corpus.workers.requests import Task
    from vrag.types import ItemFacts

MAX_JSON_BYTES = 64 * 2**20
MAX_TAIL_BYTES = 512 * 2**20
"""Bytes of a picture, or of notes: a picture of the largest size, badly compressed."""
MAX_TEXT_CHARS, MAX_WORDS, MAX_KEY_FRAMES = 8_000_000, 400_000, 100_000
MAX_REASON_CHARS = 2000
MAX_WANTED = 100_000
"""Files that a worker may ask for in one task."""
PICTURES = {".jpg": "JPEG", ".png": "PNG"}
"""Suffix of a stored picture → Pillow's name of its format."""
STRETCHED = 8
"""Pixels of a picture over the limit for a file: frames of a video are stretched as the display does."""

Count = Annotated[int, Field(ge=1, le=2**31)]
Unit = Annotated[float, Field(ge=0, le=1)]
Seconds = Annotated[float, Field(ge=0, le=1e9)]
Index = Annotated[int, Field(ge=0, le=MAX_TEXT_CHARS)]
Suffix = Literal["", ".jpg", ".png", ".mp4", ".mov", ".mkv", ".webm"]
Reason = Annotated[str, Field(max_length=MAX_REASON_CHARS)]


class ReplyError(VragError):
    """A worker has sent something that it cannot have been asked for."""


class _Schema(BaseModel):
    model_config = ConfigDict(extra="forbid", allow_inf_nan=False, frozen=True)


class _WorkerReady(_Schema):
    kind: Literal["WorkerReady"]
    landlock: int
    seccomp: bool
    user: str
    missing: tuple[str, ...]


class _FileOpened(_Schema):
    kind: Literal["FileOpened"]
    count: Count
    ordinals: Annotated[tuple[Count, ...], Field(max_length=1000)]


class _TaskRejected(_Schema):
    kind: Literal["TaskRejected"]
    ordinal: Count | None
    reason: Annotated[str, Field(min_length=1)]


class _WorkerFailed(_Schema):
    kind: Literal["WorkerFailed"]
    message: Reason
    hint: Reason


class _NeighbourWanted(_Schema):
    kind: Literal["NeighbourWanted"]
    name: Annotated[str, Field(max_length=10_000, pattern="^([0-9a-f]{2})*$")]


class _PrintWanted(_Schema):
    kind: Literal["PrintWanted"]
    part: Literal["pdf", "contents"]


class _Empty(_Schema):
    kind: Literal["TaskDone", "ClipWanted", "BytesNeeded"]


class _PartDrawn(_Schema):
    kind: Literal["PartDrawn"]
    size: tuple[Count, Count]


class _ItemMade(_Schema):
    kind: Literal["ItemMade"]
    ordinal: Count
    item_kind: ItemKind
    text: Annotated[str, Field(max_length=MAX_TEXT_CHARS)]
    words: Annotated[tuple[tuple[Index, Index, Unit, Unit, Unit, Unit], ...], Field(max_length=MAX_WORDS)]
    text_source: TextSource
    size: tuple[Count, Count] | None
    heading: Annotated[str, Field(max_length=MAX_TEXT_CHARS)]
    facts: Annotated[str, Field(max_length=MAX_TEXT_CHARS)]
    clip: tuple[Seconds, Seconds, Annotated[tuple[Seconds, ...], Field(max_length=MAX_KEY_FRAMES)]] | None
    picture_suffix: Suffix
    clip_suffix: Suffix


_PlainFields: TypeAlias = (
    _WorkerReady | _TaskRejected | _WorkerFailed | _NeighbourWanted | _PrintWanted | _Empty
)
_Fields: TypeAlias = _PlainFields | _FileOpened | _PartDrawn | _ItemMade
_FIELDS: TypeAdapter[_Fields] = TypeAdapter(Annotated[_Fields, Field(discriminator="kind")])
_EMPTY: dict[str, type[TaskDone | replies.ClipWanted | BytesNeeded]] = {
    kind.__name__: kind for kind in (TaskDone, replies.ClipWanted, BytesNeeded)
}


def read_reply(stream: IO[bytes], task: Task | DrawTask | None) -> Reply:
    """Read the next reply of a worker that has a task, or none.

    Raises `EOFError` at the end of the stream, and `ReplyError` if this is no reply.
    """
    fields, tail = _read_fields(stream)
    match fields:
        case _ItemMade():
            if task is None or isinstance(task, DrawTask):
                raise ReplyError("an item that nobody asked for")
            return _item(fields, tail, task)
        case _FileOpened():
            return FileOpened(fields.count, fields.ordinals, tail)
        case _PartDrawn():
            return PartDrawn(Size(*fields.size), tail)
        case _ if tail:
            raise ReplyError("bytes that nobody asked for")
        case _:
            return _plain_reply(fields)


def _read_fields(stream: IO[bytes]) -> tuple[_Fields, bytes]:
    """Read the JSON of a reply, and the bytes after it."""
    json_bytes, tail_bytes = FRAME.unpack(_read(stream, FRAME.size))
    if json_bytes > MAX_JSON_BYTES or tail_bytes > MAX_TAIL_BYTES:
        raise ReplyError(f"a message of {json_bytes + tail_bytes:,} bytes")
    head, tail = _read(stream, json_bytes), _read(stream, tail_bytes)
    try:
        return _FIELDS.validate_json(head, strict=True), tail
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        place = ".".join(str(part)[:40] for part in first["loc"])
        raise ReplyError(f"a malformed message ({place}: {first['msg'][:200]})") from None


def _plain_reply(fields: _PlainFields) -> Reply:
    match fields:
        case _WorkerReady():
            protection = Protection(fields.landlock, fields.seccomp, fields.user, fields.missing)
            return replies.WorkerReady(protection)
        case _TaskRejected():
            return TaskRejected(fields.ordinal, fields.reason[:MAX_REASON_CHARS])
        case _WorkerFailed():
            return replies.WorkerFailed(VragError(fields.message, fields.hint))
        case _NeighbourWanted():
            return replies.NeighbourWanted(bytes.fromhex(fields.name).decode("utf-8", "surrogateescape"))
        case _PrintWanted():
            return replies.PrintWanted(fields.part)
        case _Empty():
            return _EMPTY[fields.kind]()


def _read(stream: IO[bytes], size: int) -> bytes:
    """Read so many bytes, and keep no more than have come."""
    parts: list[bytes] = []
    while size:
        part = stream.read(min(size, 2**20))
        if not part:
            raise EOFError
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def _item(fields: _ItemMade, picture: bytes, task: Task) -> ItemMade:
    """Make an item of the task's document; check what its parts say of each other."""
    source = task.source
    for start, end, x1, y1, x2, y2 in fields.words:
        if not (start < end <= len(fields.text) and x1 <= x2 and y1 <= y2):
            raise ReplyError("words outside of their text, or without a place")
    facts = _facts(fields)
    size = None if fields.size is None else Size(*fields.size)
    suffix, clip = fields.picture_suffix, fields.clip
    if bool(picture) != bool(suffix) or (size is None) != (not suffix):
        raise ReplyError("a picture without its size, or a size without its picture")
    if size is not None:
        _check_picture(picture, suffix, size, STRETCHED * task.options.max_pixels)
    is_clip = fields.item_kind is ItemKind.CLIP
    if is_clip != (clip is not None) or is_clip != (fields.clip_suffix in CONTAINERS):
        raise ReplyError("a clip without its file, or a file without its clip")
    if not suffix and fields.item_kind is not ItemKind.PASSAGE:
        raise ReplyError("a page or a clip without a picture")
    stem = f"{source.document[:16]}/{fields.ordinal}"
    item = Item(
        id=item_id(source.document, fields.ordinal),
        document=source.document,
        document_name=source.name,
        kind=fields.item_kind,
        ordinal=fields.ordinal,
        text=fields.text,
        words=tuple(Word(start, end, Box.unit(*sides)) for start, end, *sides in fields.words),
        text_source=fields.text_source,
        size=size,
        image=stem + suffix if suffix else None,
        clip=Clip(stem + fields.clip_suffix, *clip) if clip else None,
        heading=fields.heading,
        facts=facts,
    )
    return ItemMade(item, ReplyFiles(picture, suffix, fields.clip_suffix))


def _facts(fields: _ItemMade) -> ItemFacts:
    try:
        facts = decode_facts(fields.facts)
    except ValueError as error:
        raise ReplyError(f"facts of an item that are none ({str(error)[:200]})") from None
    if any(not 0 <= start < end <= len(fields.text) for start, end in list_places(facts)):
        raise ReplyError("facts about parts that are outside of the text")
    return facts


def _check_picture(data: bytes, suffix: str, size: Size, most: int) -> None:
    """Check the header of a picture, which Pillow reads without a decoder."""
    from PIL import Image

    if suffix not in PICTURES or size.area > most:
        raise ReplyError(f"a picture of {size.width} × {size.height} pixels with the suffix {suffix!r}")
    try:
        with warnings.catch_warnings(action="ignore"):
            picture = Image.open(io.BytesIO(data), formats=[PICTURES[suffix]])
    except Exception as error:  # noqa: BLE001 - hostile bytes
        raise ReplyError(f"a picture that is none ({type(error).__name__})") from None
    if picture.size != size:
        raise ReplyError("a picture of another size than it says")


class Exchange:
    """The replies to one task, in their order."""

    def __init__(self, task: Task | DrawTask) -> None:
        self.task = task
        self._ordinals: deque[int] | None = None
        """Items still to come; None as long as the file is not open."""
        self._wanted = 0
        self._is_over = self._is_answered = False

    def accept(self, reply: Reply) -> None:
        """Note a reply. Raises `ReplyError` if it is not one that may come now."""
        if self._is_over or not (
            self._accept_drawn(reply) if isinstance(self.task, DrawTask) else self._accept(reply, self.task)
        ):
            raise ReplyError(f"{type(reply).__name__} at a moment when it cannot come")

    def _accept_drawn(self, reply: Reply) -> bool:
        if isinstance(reply, TaskDone):
            self._is_over = True
            return self._is_answered
        is_first, self._is_answered = not self._is_answered, True
        if isinstance(reply, PartDrawn):
            return is_first and len(reply.pixels) == 3 * reply.size.area
        return is_first and isinstance(reply, BytesNeeded | TaskRejected)

    def _accept(self, reply: Reply, task: Task) -> bool:
        match reply:
            case FileOpened():
                is_first, self._ordinals = self._ordinals is None, deque(reply.ordinals)
                self._is_answered = True
                return is_first and _fits(reply, task)
            case ItemMade() | TaskRejected(ordinal=int()):
                ordinal = reply.ordinal if isinstance(reply, TaskRejected) else reply.item.ordinal
                return bool(self._ordinals) and self._ordinals.popleft() == ordinal
            case TaskRejected():
                is_first, self._is_answered = not self._is_answered, True
                return is_first
            case TaskDone():
                self._is_over = True
                return self._is_answered and not self._ordinals
            case replies.NeighbourWanted() | replies.PrintWanted() | replies.ClipWanted():
                self._wanted += 1
                return self._wanted <= MAX_WANTED
            case _:
                return False


def _fits(opened: FileOpened, task: Task) -> bool:
    """Return whether the items of a file are those that were asked for."""
    if opened.count > task.options.max_pages:
        return False
    if task.ordinals is not None:
        return opened.ordinals == task.ordinals
    ascending = opened.ordinals == tuple(sorted(set(opened.ordinals) - task.have))
    return ascending and all(ordinal <= opened.count for ordinal in opened.ordinals)
