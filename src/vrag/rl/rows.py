"""Training rows: the tokens of a run as the model was given and sampled them.

Nothing is decoded and encoded again. A row begins with the prompt of a call and ends with the token that
closes the action that ran, and the end-of-turn token where the model sampled it directly after: that ends
a turn, and is to be learned. What the model wrote behind its action was dropped before anybody saw it, and
is dropped here. Where the next prompt begins with just these tokens, it goes on in the same row, and what
it adds is an observation; where a server has encoded the conversation anew and differently, another row
begins. Which tokens are the model's own is known from where they came from, not from their text.

A row that cannot be made faithfully is not made: it is reported with its reason, and counted.
"""

from __future__ import annotations

import io
import json
import math
import re
from bisect import bisect_left
from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np

from vrag.agent.events import ModelCalled
from vrag.geometry import Size
from vrag.rl.objectives.credit import segment_numbers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from vrag.agent.events import Event

__all__ = ["DroppedRow", "Row", "RunRows", "Vocabulary", "covering", "rows_of"]

_OPENED = re.compile(r"<think>\s*")
"""What a chat template may have written before the model began."""


@dataclass(frozen=True, slots=True, eq=False)
class Row:
    """One training row: a segment, a whole trajectory, or as much of one as shares its tokens."""

    tokens: NDArray[np.int64]
    """Prompt, replies and observations in order, shape (n,); placeholders of images as many as the
    processor makes them."""
    own: NDArray[np.bool_]
    """True where the model sampled the token, shape (n,)."""
    logprobs: NDArray[np.float32]
    """Natural logarithms of the probabilities with which it did, shape (n,); 0 elsewhere."""
    images: tuple[str, ...]
    """SHA-256 of the JPEG files, in the order of their placeholders."""
    segment: int
    """Number of the segment within its trajectory, from 0."""


@dataclass(frozen=True, slots=True)
class DroppedRow:
    """Calls of which no row was made."""

    segment: int
    steps: tuple[int, ...]
    """Their numbers in the run, from 1."""
    reason: str
    """One sentence."""


@dataclass(frozen=True, slots=True)
class RunRows:
    """All that training takes from a run."""

    rows: tuple[Row, ...]
    dropped: tuple[DroppedRow, ...] = ()
    breaks: tuple[int, ...] = ()
    """Steps whose prompt did not begin with the tokens of the call before, within one segment: a row
    begins there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Vocabulary:
    """What is to be known of the model's tokens."""

    decode: Callable[[Sequence[int]], str]
    """The text of some tokens as the policy writes replies: special tokens have none, and bytes that are
    no character are U+FFFD."""
    ends: frozenset[int]
    """The tokens that end a turn."""
    image: int
    """The placeholder of an image."""
    forbidden: frozenset[int]
    """All placeholders of vision; none of them may be sampled."""
    features: Callable[[Size], int]
    """How many image tokens a picture of a size in pixels takes: `Profile.visual_tokens`."""


class _Unusable(Exception):
    """No row can be made of a call; says why."""


@dataclass(slots=True)
class _PartialRow:
    """A row that is being made."""

    segment: int
    images: tuple[str, ...] = ()
    tokens: list[int] = field(default_factory=list[int])
    own: list[bool] = field(default_factory=list[bool])
    logprobs: list[float] = field(default_factory=list[float])
    steps: list[int] = field(default_factory=list[int])

    def goes_on(self, call: ModelCalled, images: tuple[str, ...]) -> bool:
        """Whether the prompt of a call begins with all of this row."""
        given = call.prompt_ids[: len(self.tokens)]
        return list(given) == self.tokens and images[: len(self.images)] == self.images

    def add(self, call: ModelCalled, images: tuple[str, ...], kept: int) -> None:
        """Adds what a prompt has beyond this row, and the first tokens of its reply."""
        told = call.prompt_ids[len(self.tokens) :]
        self._put(told, own=False, logprobs=[0.0] * len(told))
        self._put(call.ids[:kept], own=True, logprobs=call.logprobs[:kept])
        self.images = images
        self.steps.append(call.step)

    def _put(self, ids: Sequence[int], *, own: bool, logprobs: Iterable[float]) -> None:
        self.tokens += ids
        self.own += [own] * len(ids)
        self.logprobs += logprobs

    def row(self) -> Row:
        """The row as it is trained on."""
        return Row(
            np.array(self.tokens, np.int64),
            np.array(self.own, np.bool_),
            np.array(self.logprobs, np.float32),
            self.images,
            self.segment,
        )


def rows_of(events: Sequence[Event], files: Mapping[str, bytes], vocabulary: Vocabulary) -> RunRows:
    """The training rows of one run, in order.

    Nothing raises: what cannot be trained on is among `dropped`, with its reason.

    Args:
        events: Of one run; of them `ModelCalled`, and `MemoryUpdated` for where segments end.
        files: What the run names by hash: `<sha256>.json` of messages, `<sha256>.jpg` of pictures.
        vocabulary: Of the model that sampled.
    """
    segments = segment_numbers(events)
    drafts: list[_PartialRow] = []
    dropped: list[DroppedRow] = []
    breaks: list[int] = []
    draft: _PartialRow | None = None
    for call in (event for event in events if isinstance(event, ModelCalled)):
        segment = segments[call.step]
        try:
            kept, images = _kept(call, vocabulary), _images(call, files)
        except _Unusable as fault:
            dropped.append(DroppedRow(segment, (call.step,), str(fault)))
            draft = None
            continue
        same = draft is not None and draft.segment == segment
        if draft is None or not same or not draft.goes_on(call, images):
            breaks += [call.step] if same else []
            draft = _PartialRow(segment)
            drafts.append(draft)
        draft.add(call, images, kept)
    faults = [_fault(one, files, vocabulary) for one in drafts]
    refused = [
        DroppedRow(one.segment, tuple(one.steps), fault)
        for one, fault in zip(drafts, faults, strict=True)
        if fault
    ]
    rows = tuple(one.row() for one, fault in zip(drafts, faults, strict=True) if not fault)
    return RunRows(rows, tuple(sorted([*dropped, *refused], key=lambda one: one.steps)), tuple(breaks))


def covering(ids: Sequence[int], text: str, decode: Callable[[Sequence[int]], str]) -> int:
    """How many of the first tokens of a reply hold all of a text that it begins with.

    Args:
        ids: Of the reply.
        text: What it begins with.
        decode: The text of some tokens.
    """
    return bisect_left(range(len(ids)), True, key=lambda count: decode(ids[:count]).startswith(text))


def _kept(call: ModelCalled, vocabulary: Vocabulary) -> int:
    """How many of the sampled tokens are part of the row: through the close of the action that ran.

    Raises:
        _Unusable: If the call does not tell its tokens, or they are not its reply.
    """
    if not call.prompt_ids or not call.ids:
        raise _Unusable("The policy does not tell its tokens.")
    if len(call.logprobs) != len(call.ids) or not all(map(math.isfinite, call.logprobs)):
        raise _Unusable("The policy does not tell the log-probability of every token.")
    count = _covering(call, vocabulary.decode)
    ended = count < len(call.ids) and call.ids[count] in vocabulary.ends
    if not count + ended:
        raise _Unusable("Nothing of the reply was carried out.")
    return count + ended


def _covering(call: ModelCalled, decode: Callable[[Sequence[int]], str]) -> int:
    """The least number of sampled tokens whose text holds all that was carried out.

    The first bytes of a character read as U+FFFD. Where that is the end of what was carried out, the
    bytes that belong to it are taken as well.

    Raises:
        _Unusable: If the reply is not the text of its tokens.
    """
    whole = decode(call.ids)
    wanted = _written(call, whole)

    def covers(count: int) -> bool:
        return decode(call.ids[:count]).startswith(wanted)

    count = bisect_left(range(len(call.ids)), True, key=covers)
    if wanted.endswith("�"):
        while decode(call.ids[:count]) + decode(call.ids[count:]) != whole:
            count += 1
    return count


def _written(call: ModelCalled, decoded: str) -> str:
    """What of the reply was carried out and is text of its tokens, not of the prompt.

    Raises:
        _Unusable: If the reply is not the text of its tokens.
    """
    opened = _OPENED.match(call.reply)
    for opening in ["", opened[0]] if opened else [""]:
        if decoded.startswith(call.reply[len(opening) :]):
            return call.reply[len(opening) : call.executed]
    raise _Unusable("The reply is not the text of its tokens.")


def _images(call: ModelCalled, files: Mapping[str, bytes]) -> tuple[str, ...]:
    """The pictures of a prompt, in order.

    Raises:
        _Unusable: If a message is not with the run.
    """
    return tuple(picture for sha256 in call.messages for picture in _pictures(sha256, files))


def _pictures(sha256: str, files: Mapping[str, bytes]) -> list[str]:
    """The same of one message."""
    data = files.get(f"{sha256}.json")
    if data is None:
        raise _Unusable(f"The message {sha256:.12} is not with the run.")
    try:
        parts: list[dict[str, Any]] = json.loads(data)["parts"]
        return [str(part["picture"]) for part in parts if "picture" in part]
    except (ValueError, KeyError, TypeError) as error:
        raise _Unusable(f"The message {sha256:.12} is damaged.") from error


def _fault(draft: _PartialRow, files: Mapping[str, bytes], vocabulary: Vocabulary) -> str:
    """Why a row cannot be trained on; empty when it can."""
    sampled = {token for token, own in zip(draft.tokens, draft.own, strict=True) if own}
    if sampled & vocabulary.forbidden:
        return "The model sampled the placeholder of a picture."
    placed = [len(list(run)) for token, run in groupby(draft.tokens) if token == vocabulary.image]
    if len(placed) != len(draft.images):
        return f"There are {len(draft.images)} pictures and places for {len(placed)}."
    for number, (sha256, count) in enumerate(zip(draft.images, placed, strict=True), 1):
        size = _size(files.get(f"{sha256}.jpg"))
        if size is None:
            return f"Picture {number} is not with the run."
        if count != vocabulary.features(size):
            return (
                f"Picture {number} of {size.width}×{size.height} pixels has {count} image tokens "
                f"and {vocabulary.features(size)} features."
            )
    return ""


def _size(jpeg: bytes | None) -> Size | None:
    """Of a picture in pixels, from the head of its file; None when there is none."""
    from PIL import Image, UnidentifiedImageError

    try:
        with Image.open(io.BytesIO(jpeg or b""), formats=("JPEG",)) as image:
            return Size(*image.size)
    except (UnidentifiedImageError, OSError, Image.DecompressionBombError):
        return None
