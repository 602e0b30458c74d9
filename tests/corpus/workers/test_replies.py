"""Whatever a worker replies, its parent takes items of the task and nothing else."""

from __future__ import annotations

import io
import json
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from corpus.fakes import ScriptedFile
from corpus.workers.hostile_converters import Liar
from vrag.corpus.convert import Converted, Failed, convert_all
from vrag.corpus.converter import CorpusOptions, SourceFile
from vrag.corpus.discover import read_source
from vrag.corpus.drawing import BytesNeeded, PartDrawn
from vrag.corpus.workers.replies import (
    FRAME,
    ClipWanted,
    FileOpened,
    ItemMade,
    NeighbourWanted,
    PrintWanted,
    Reply,
    ReplyFiles,
    TaskDone,
    TaskRejected,
    WorkerFailed,
    WorkerReady,
    encode,
)
from vrag.corpus.workers.reply_reader import Exchange, ReplyError, read_reply
from vrag.corpus.workers.requests import Task
from vrag.corpus.workers.sandbox import Protection
from vrag.errors import VragError
from vrag.geometry import Box, Size
from vrag.types import Clip, Item, ItemKind, TextSource, Word, item_id

if TYPE_CHECKING:
    from collections.abc import Sequence

SOURCE = SourceFile(Path("/a/b.script"), "ab" * 32, "b.script", 9, 1)
TASK = Task(ScriptedFile, SOURCE, CorpusOptions(max_pages=99), None)


def picture(width: int = 9, height: int = 8, kind: str = "PNG") -> bytes:
    encoded = io.BytesIO()
    Image.new("RGB", (width, height)).save(encoded, format=kind)
    return encoded.getvalue()


ITEM = Item(
    id=item_id(SOURCE.document, 3),
    document=SOURCE.document,
    document_name=SOURCE.name,
    kind=ItemKind.PAGE,
    ordinal=3,
    text="größer \U0001d456 0.1",
    words=(Word(0, 6, Box.unit(0.1, 0.2, 1 / 3, 0.30000000000000004)), Word(9, 12, Box.unit(0, 0, 1, 1))),
    text_source=TextSource.LAYER,
    size=Size(9, 8),
    image=f"{SOURCE.document[:16]}/3.png",
    heading="A › B",
)
CLIP = replace(
    ITEM, kind=ItemKind.CLIP, clip=Clip(f"{SOURCE.document[:16]}/3.mkv", 0.1, 2.5, (0.1, 1.25)), words=()
)
PASSAGE = replace(ITEM, kind=ItemKind.PASSAGE, size=None, image=None, words=())
REPLIES: Sequence[Reply] = (
    WorkerReady(Protection(7, True, "nobody", ("a reason",))),
    FileOpened(9, (1, 2), b"notes"),
    TaskRejected(None, "a reason"),
    TaskRejected(4, "a reason"),
    TaskDone(),
    NeighbourWanted("../a\udcff.png"),
    PrintWanted(),
    PrintWanted("contents"),
    ClipWanted(),
    BytesNeeded(),
    PartDrawn(Size(2, 1), bytes(6)),
    ItemMade(ITEM, ReplyFiles(picture(), ".png", "")),
    ItemMade(CLIP, ReplyFiles(picture(), ".png", ".mkv")),
    ItemMade(PASSAGE, ReplyFiles()),
)


@pytest.mark.parametrize("reply", REPLIES, ids=lambda reply: type(reply).__name__)
def test_a_reply_comes_as_it_was_sent(reply: Reply) -> None:
    assert read_reply(io.BytesIO(encode(reply)), TASK) == reply


def test_an_error_keeps_its_hint() -> None:
    reply = read_reply(io.BytesIO(encode(WorkerFailed(VragError("A.", "B.")))), None)
    assert isinstance(reply, WorkerFailed)
    assert (reply.error.message, reply.error.hint) == ("A.", "B.")


def frame(fields: object, tail: bytes = b"") -> bytes:
    head = fields if isinstance(fields, bytes) else json.dumps(fields).encode()
    return FRAME.pack(len(head), len(tail)) + head + tail


def item_fields(**changes: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON
    data = encode(ItemMade(ITEM, ReplyFiles(picture(), ".png", "")))
    size, _ = FRAME.unpack_from(data)
    return json.loads(data[FRAME.size : FRAME.size + size]) | changes


WORD = [0, 6, 0.1, 0.2, 0.3, 0.4]
LIES: dict[str, bytes] = {
    "a pickle": b"\x80\x04K\x01." * 20,
    "an endless message": FRAME.pack(2**32 - 1, 0),
    "endless bytes": FRAME.pack(2, 2**63) + b"{}",
    "no JSON": frame(b"\xff\xfe"),
    "deep JSON": frame(b"[" * 100_000),
    "no kind": frame({}),
    "an unknown kind": frame({"kind": "Item"}),
    "a field too many": frame({"kind": "TaskDone", "path": "/etc/passwd"}),
    "bytes too many": frame({"kind": "TaskDone"}, b"x"),
    "no pages": frame({"kind": "FileOpened", "count": 0, "ordinals": []}),
    "a count of words": frame({"kind": "FileOpened", "count": "9", "ordinals": [1]}),
    "no reason": frame({"kind": "TaskRejected", "ordinal": 1, "reason": ""}),
    "a page before the first": frame({"kind": "TaskRejected", "ordinal": -1, "reason": "a"}),
    "words beyond the text": frame(item_fields(words=[[0, 99, 0, 0, 1, 1]]), picture()),
    "words that end before they begin": frame(item_fields(words=[[3, 3, 0, 0, 1, 1]]), picture()),
    "negative words": frame(item_fields(words=[[-1, 3, 0, 0, 1, 1]]), picture()),
    "boxes off the page": frame(item_fields(words=[[0, 6, 0, 0, 1.5, 1]]), picture()),
    "boxes inside out": frame(item_fields(words=[[0, 6, 0.9, 0, 0.1, 1]]), picture()),
    "a box that is no number": frame(json.dumps(item_fields(words=[WORD])).replace("0.4", "NaN").encode()),
    "an infinite box": frame(json.dumps(item_fields(words=[WORD])).replace("0.4", "1e999").encode()),
    "half a pair": frame(json.dumps(item_fields(text="x")).replace('"x"', '"\\ud800"').encode(), picture()),
    "another document": frame(item_fields(document="cd" * 32), picture()),
    "a path as a suffix": frame(item_fields(picture_suffix="/../../x.png"), picture()),
    "a path as a clip": frame(item_fields(clip_suffix="/../../x.mp4"), picture()),
    "a picture that is none": frame(item_fields(), b"x" * 99),
    "a picture of another format": frame(item_fields(), picture(kind="JPEG")),
    "a picture of another size": frame(item_fields(), picture(9, 9)),
    "a picture of too many pixels": frame(item_fields(size=[2**31, 2**31]), picture()),
    "a picture without a size": frame(item_fields(size=None), picture()),
    "a size without a picture": frame(item_fields(picture_suffix="")),
    "a page without a picture": frame(item_fields(picture_suffix="", size=None)),
    "a clip without a file": frame(item_fields(item_kind="clip", clip=[0, 1, []]), picture()),
    "a clip without times": frame(item_fields(item_kind="clip", clip_suffix=".mp4"), picture()),
    "a kind that does not exist": frame(item_fields(item_kind="program"), picture()),
    "a text without end": frame(item_fields(text="x" * 8_000_001, words=[]), picture()),
    "a name that is none": frame({"kind": "NeighbourWanted", "name": "/etc/passwd"}),
}


@pytest.mark.parametrize("name", LIES)
def test_what_is_no_reply_is_refused(name: str) -> None:
    with pytest.raises((ReplyError, EOFError)):
        read_reply(io.BytesIO(LIES[name]), TASK)


@given(st.binary(max_size=200), st.booleans())
def test_any_bytes_are_a_reply_or_refused(data: bytes, framed: bool) -> None:
    with suppress(ReplyError, EOFError):
        read_reply(io.BytesIO(frame(data) if framed else data), TASK)


def made(ordinal: int) -> ItemMade:
    return ItemMade(replace(PASSAGE, ordinal=ordinal), ReplyFiles())


OPENED = FileOpened(9, (1, 2))


@pytest.mark.parametrize(
    "replies",
    [
        [made(1)],
        [OPENED, made(2)],
        [OPENED, made(1), made(1)],
        [OPENED, made(1), made(2), made(3)],
        [OPENED, OPENED],
        [OPENED, TaskDone()],
        [OPENED, TaskRejected(2, "a")],
        [OPENED, TaskRejected(None, "a")],
        [FileOpened(1, (1, 2))],
        [FileOpened(9, (2, 1))],
        [FileOpened(9, (1, 1))],
        [FileOpened(100, (1,))],
        [TaskDone()],
        [TaskRejected(None, "a"), TaskRejected(None, "a")],
        [TaskRejected(None, "a"), TaskDone(), TaskDone()],
        [TaskRejected(None, "a"), TaskDone(), ClipWanted()],
        [PartDrawn(Size(1, 1), bytes(3))],
        [BytesNeeded()],
    ],
    ids=str,
)
def test_replies_out_of_turn_are_refused(replies: list[Reply]) -> None:
    exchange = Exchange(TASK)
    for reply in replies[:-1]:
        exchange.accept(reply)
    with pytest.raises(ReplyError):
        exchange.accept(replies[-1])


def test_items_that_are_there_or_were_not_asked_for_are_refused() -> None:
    with pytest.raises(ReplyError):
        Exchange(replace(TASK, have=frozenset({1}))).accept(OPENED)
    with pytest.raises(ReplyError):
        Exchange(replace(TASK, ordinals=(3, 4))).accept(OPENED)


@pytest.mark.slow
def test_lies_of_a_worker_cost_its_file_and_say_why(tmp_path: Path) -> None:
    """The process writes them to its pipe itself, as code that has taken it over would."""
    lies: dict[str, list[list[Any]]] = {
        "path": [[item_fields(picture_suffix="/../../../x.png", ordinal=1), picture().decode("latin-1")]],
        "order": [[item_fields(ordinal=3), picture().decode("latin-1")]],
        "failure": [[{"kind": "WorkerFailed", "message": "The disk is broken.", "hint": "Buy one."}, ""]],
        "ready": [[{"kind": "WorkerReady", "landlock": 9, "seccomp": True, "user": "", "missing": []}, ""]],
        "neighbour": [[{"kind": "PrintWanted", "part": "pdf"}, ""], [{"kind": "TaskDone"}, ""]],
        "pickle": [["\x80\x04K\x01.", ""]],
    }
    sources: list[SourceFile] = []
    for name, lines in lies.items():
        path = tmp_path / f"{name}.liar"
        path.write_text("\n".join(map(json.dumps, lines)))
        sources.append(read_source(path))
    (tmp_path / "z.script").write_text("ok picture")
    sources.append(read_source(tmp_path / "z.script"))
    converters = {".liar": Liar, ".script": ScriptedFile}
    options = CorpusOptions(workers=1)
    results = list(convert_all(sources, tmp_path / "items", options, converters=converters))
    reasons: dict[str, list[str]] = {}
    for each in results:
        if isinstance(each, Failed):
            reasons.setdefault(each.source.path.stem, []).append(each.reason)
    assert reasons.keys() == lies.keys()
    wrong = {name: each for name, each in reasons.items() if str(each).count("has sent") != 2}
    assert not wrong
    items = [each.item for each in results if isinstance(each, Converted)]
    assert [(item.document_name, item.ordinal) for item in items] == [("z.script", 1), ("z.script", 2)]
    assert sorted(path.name for path in tmp_path.rglob("*.png")) == ["2.png"]
