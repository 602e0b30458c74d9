"""Replies of a worker to its parent: what they say, and how a worker writes them.

A worker reads hostile files and may have been taken over by one, so its replies are no pickles: JSON of a
fixed schema, and bytes, both with their lengths before them. `reply_reader.py` reads them and believes
nothing. An item comes without its document, its id and any path: those the parent knows itself.
"""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from vrag.corpus.drawing import BytesNeeded, PartDrawn
from vrag.corpus.workers.sandbox import Protection
from vrag.item_facts import encode_facts
from vrag.types import Item

if TYPE_CHECKING:
    from vrag.errors import VragError

FRAME = struct.Struct("!IQ")
"""Bytes of the JSON, and of what follows it."""


@dataclass(frozen=True, slots=True)
class WorkerReady:
    """The process has started, and restricted itself."""

    protection: Protection


@dataclass(frozen=True, slots=True)
class FileOpened:
    """The file was opened."""

    count: int
    ordinals: tuple[int, ...]
    """Items of this task."""
    notes: bytes = field(default=b"", repr=False)
    """`OpenFile.notes`."""


@dataclass(frozen=True, slots=True)
class TaskRejected:
    """An item or, with None, the whole file cannot be made."""

    ordinal: int | None
    reason: str


@dataclass(frozen=True, slots=True)
class TaskDone:
    """The task is over."""


@dataclass(frozen=True, slots=True)
class WorkerFailed:
    """Something is wrong that is not the file's fault; no other task will do better."""

    error: VragError


@dataclass(frozen=True, slots=True)
class NeighbourWanted:
    """The converter asks for a picture beside its file."""

    name: str


@dataclass(frozen=True, slots=True)
class PrintWanted:
    """The converter asks for its file as LibreOffice prints it."""

    part: Literal["pdf", "contents"] = "pdf"
    """What it asks for: the pages, or the contents as an OpenDocument file."""


@dataclass(frozen=True, slots=True)
class ClipWanted:
    """The converter asks for a file to write a clip to."""


class ReplyFiles(NamedTuple):
    """The files of an item: the bytes of its picture, and the suffixes of picture and clip."""

    picture: bytes = b""
    picture_suffix: str = ""
    clip_suffix: str = ""


@dataclass(frozen=True, slots=True)
class ItemMade:
    """An item was made; the clip lies in the file that was given for it."""

    item: Item
    files: ReplyFiles


Wanted = NeighbourWanted | PrintWanted | ClipWanted
Message = WorkerReady | FileOpened | TaskRejected | TaskDone | WorkerFailed | Item | PartDrawn | BytesNeeded
"""The messages of a worker, once items are stored and files given."""
Reply = Message | ItemMade | Wanted


def encode(reply: Reply) -> bytes:
    """Write a reply as bytes."""
    data, tail = _fields(reply)
    head = json.dumps({"kind": type(reply).__name__, **data}).encode("ascii")
    return b"".join((FRAME.pack(len(head), len(tail)), head, tail))


def _fields(reply: Reply) -> tuple[dict[str, Any], bytes]:  # noqa: PLR0911 - one for each kind
    match reply:
        case WorkerReady(protection):
            names = ("landlock", "seccomp", "user", "missing")
            return {name: getattr(protection, name) for name in names}, b""
        case FileOpened(count, ordinals, notes):
            return {"count": count, "ordinals": ordinals}, notes
        case TaskRejected(ordinal, reason):
            return {"ordinal": ordinal, "reason": _valid(reason)}, b""
        case WorkerFailed(error):
            return {"message": _valid(error.message), "hint": _valid(error.hint)}, b""
        case NeighbourWanted(name):
            return {"name": name.encode("utf-8", "surrogateescape").hex()}, b""
        case PrintWanted(part):
            return {"part": part}, b""
        case PartDrawn(size, pixels):
            return {"size": size}, pixels
        case ItemMade(item, files):
            return _item_fields(item, files), files.picture
        case _:
            return {}, b""


def _item_fields(item: Item, files: ReplyFiles) -> dict[str, Any]:
    clip = item.clip
    return {
        "ordinal": item.ordinal,
        "item_kind": item.kind,
        "text": _valid(item.text),
        "words": [(word.start, word.end, *word.box.as_tuple()) for word in item.words],
        "text_source": item.text_source,
        "size": item.size,
        "heading": _valid(item.heading),
        "facts": encode_facts(item.facts),
        "clip": clip and (clip.start, clip.end, clip.frames),
        "picture_suffix": files.picture_suffix,
        "clip_suffix": files.clip_suffix,
    }


def _valid(text: str) -> str:
    """Replace half pairs of UTF-16, which are not text."""
    return text.encode("utf-8", "replace").decode("utf-8")
