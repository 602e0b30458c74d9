"""Recorded runs as training data: rows of tokens as the model was given and sampled them, and segments.

Nothing is decoded and encoded again. A row begins with the prompt of a call and ends with the token that
closes the action that ran, and the end-of-turn token where the model sampled it directly after: that ends
a turn, and is to be learned. Text behind the action was dropped before it was carried out, and
is dropped here. Where the next prompt begins with just these tokens, it goes on in the same row, and what
it adds is an observation; where a server has encoded the conversation anew and differently, another row
begins. The model's own tokens are known by their origin, not by their text.

A row that cannot be made faithfully is dropped: it is reported with its reason, and counted.

A segment, the unit of graph-guided credit (`vrag.rl.advantages`), is all that the model wrote between two
rebuilds of its context. VimRAG rebuilds it after every completed node (`MemoryUpdated`); VRAG never does, and
its trajectory is one segment.
"""

from __future__ import annotations

import io
import math
import re
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vrag.agent.actions import Flag
from vrag.agent.events import (
    AnswerGiven,
    Event,
    GraphChanged,
    InvalidAction,
    MemoryUpdated,
    ModelCalled,
    SearchReturned,
    StopReason,
)
from vrag.agent.memory.memory_graph import NodeKind
from vrag.cases import is_gold
from vrag.geometry import Size
from vrag.parsing import parse_json
from vrag.rl.advantages import Segment, TrajectoryCredit, leading
from vrag.types import Case

_ANSWERED = frozenset({StopReason.ANSWERED, StopReason.ABSTAINED})
"""Ends with an answer; abstaining is one."""
_STRUCTURAL = frozenset({NodeKind.ROOT, NodeKind.ANSWER})
_OPENED = re.compile(r"<think>\s*")
"""Text that a chat template may have written before the model began."""


def segment_numbers(events: Sequence[Event]) -> Mapping[int, int]:
    """Number the segment, from 0, of each step in which the model replied.

    The call that completes a node belongs to the segment of that node, with its observations; the next one
    sees the new context.
    """
    ends = _ends(events)
    return {event.step: bisect_left(ends, event.step) for event in events if isinstance(event, ModelCalled)}


def credit_of(events: Sequence[Event], case: Case) -> TrajectoryCredit:
    """Return the segments of a run and the nodes on which its answer rests.

    `node` is the node that a segment added to the graph, also where an earlier action of it was invalid.
    `found` is about the hits of its searches, never about memory; it is False throughout for a case without
    gold pages, whose R_val is unknown. A refused search has no hits. Gold pages are matched by name of
    document and page.
    """
    called = segment_numbers(events)
    if not called:
        return TrajectoryCredit(())
    last = max(called.values())
    ends = _ends(events)
    by_segment: list[list[Event]] = [[] for _ in range(last + 1)]
    for event in events:
        by_segment[min(bisect_left(ends, event.step), last)].append(event)
    known: set[str] = set()
    segments = tuple(_segment(own_events, known, case) for own_events in by_segment)
    graphs = [event.graph for event in events if isinstance(event, GraphChanged)]
    if not graphs or graphs[-1].newest.kind is not NodeKind.ANSWER:
        return TrajectoryCredit(segments)
    graph = graphs[-1]
    parents = {node.id: node.parents for node in graph.nodes}
    return TrajectoryCredit(segments, leading(parents, graph.newest.id))


def _ends(events: Sequence[Event]) -> list[int]:
    """List the steps after which the context was rebuilt, in order."""
    return [event.step for event in events if isinstance(event, MemoryUpdated)]


def _segment(events: Sequence[Event], known: set[str], case: Case) -> Segment:
    """Summarize a segment; the nodes that it added to the graph join `known`."""
    graphs = [event.graph for event in events if isinstance(event, GraphChanged)]
    new = [node for node in graphs[-1].nodes if node.id not in known] if graphs else []
    known.update(node.id for node in new)
    hits = (hit for event in events if isinstance(event, SearchReturned) for hit in event.hits)
    answered = (event.stop_reason in _ANSWERED for event in events if isinstance(event, AnswerGiven))
    repaired = any(Flag.REPAIRED in event.flags for event in events if isinstance(event, ModelCalled))
    return Segment(
        node=next((node.id for node in new if node.kind not in _STRUCTURAL), None),
        answers=any(node.kind is NodeKind.ANSWER for node in new) or any(answered),
        found=any(is_gold(hit, case) for hit in hits),
        invalid=repaired or any(isinstance(event, InvalidAction) for event in events),
    )


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
    """The rows of a run."""

    rows: tuple[Row, ...]
    dropped: tuple[DroppedRow, ...] = ()
    breaks: tuple[int, ...] = ()
    """Steps whose prompt did not begin with the tokens of the previous call, within one segment: a new row
    begins there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Vocabulary:
    """The facts about the model's tokens that rows need."""

    decode: Callable[[Sequence[int]], str]
    """The text of tokens as the policy writes replies: special tokens have none, and bytes that are no
    character are U+FFFD."""
    ends: frozenset[int]
    """The tokens that end a turn."""
    image: int
    """The placeholder of an image."""
    forbidden: frozenset[int]
    """All placeholders of vision; none of them may be sampled."""
    features: Callable[[Size], int]
    """A function from the size of a picture in pixels to its image tokens: `Profile.visual_tokens`."""


class _UnusableCallError(Exception):
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

    def is_continued_by(self, call: ModelCalled, images: tuple[str, ...]) -> bool:
        """Check whether the prompt of a call begins with all of this row."""
        beginning = call.prompt_ids[: len(self.tokens)]
        return list(beginning) == self.tokens and images[: len(self.images)] == self.images

    def add(self, call: ModelCalled, images: tuple[str, ...], kept: int) -> None:
        """Add what a prompt has beyond this row, and the first tokens of its reply."""
        observed = call.prompt_ids[len(self.tokens) :]
        self.tokens += [*observed, *call.ids[:kept]]
        self.own += [False] * len(observed) + [True] * kept
        self.logprobs += [0.0] * len(observed) + list(call.logprobs[:kept])
        self.images = images
        self.steps.append(call.step)

    def row(self) -> Row:
        """Return the row for training."""
        return Row(
            np.array(self.tokens, np.int64),
            np.array(self.own, np.bool_),
            np.array(self.logprobs, np.float32),
            self.images,
            self.segment,
        )


def rows_of(events: Sequence[Event], files: Mapping[str, bytes], vocabulary: Vocabulary) -> RunRows:
    """Make the training rows of one run, in order.

    Nothing raises: what cannot be trained on is among `dropped`, with its reason. `files` are those that the
    run names by hash: `<sha256>.json` of messages, `<sha256>.jpg` of images. The vocabulary is that of the
    model that sampled.
    """
    segments = segment_numbers(events)
    partial_rows: list[_PartialRow] = []
    dropped: list[DroppedRow] = []
    breaks: list[int] = []
    current: _PartialRow | None = None
    for call in (event for event in events if isinstance(event, ModelCalled)):
        segment = segments[call.step]
        try:
            kept = _count_kept(call, vocabulary)
            images = tuple(image for sha256 in call.messages for image in _list_images(sha256, files))
        except _UnusableCallError as fault:
            dropped.append(DroppedRow(segment, (call.step,), str(fault)))
            current = None
            continue
        same_segment = current is not None and current.segment == segment
        if current is None or not same_segment or not current.is_continued_by(call, images):
            breaks += [call.step] if same_segment else []
            current = _PartialRow(segment)
            partial_rows.append(current)
        current.add(call, images, kept)
    rows: list[Row] = []
    for partial in partial_rows:
        if fault := _find_fault(partial, files, vocabulary):
            dropped.append(DroppedRow(partial.segment, tuple(partial.steps), fault))
        else:
            rows.append(partial.row())
    return RunRows(tuple(rows), tuple(sorted(dropped, key=lambda row: row.steps)), tuple(breaks))


def count_covering(ids: Sequence[int], text: str, decode: Callable[[Sequence[int]], str]) -> int:
    """Count the first tokens of a reply that hold all of a text that it begins with."""
    return bisect_left(range(len(ids)), True, key=lambda count: decode(ids[:count]).startswith(text))


def _count_kept(call: ModelCalled, vocabulary: Vocabulary) -> int:
    """Count the sampled tokens that are part of the row: through the end of the action that ran.

    The first bytes of a character read as U+FFFD. Where that is the end of what was carried out, the
    bytes that belong to it are taken as well.

    Raises `_UnusableCallError` if the call lacks its tokens, or they are not its reply.
    """
    if not call.prompt_ids or not call.ids:
        raise _UnusableCallError("The policy does not report its tokens.")
    if len(call.logprobs) != len(call.ids) or not all(map(math.isfinite, call.logprobs)):
        raise _UnusableCallError("The policy does not report the log-probability of every token.")
    decode = vocabulary.decode
    whole = decode(call.ids)
    opened = _OPENED.match(call.reply)
    starts = (0, opened.end()) if opened else (0,)
    start = next((start for start in starts if whole.startswith(call.reply[start:])), None)
    if start is None:
        raise _UnusableCallError("The reply is not the text of its tokens.")
    executed = call.reply[start : call.executed]  # text of its tokens, not of the prompt
    count = count_covering(call.ids, executed, decode)
    if executed.endswith("\ufffd"):
        while decode(call.ids[:count]) + decode(call.ids[count:]) != whole:
            count += 1
    ended = count < len(call.ids) and call.ids[count] in vocabulary.ends
    if not count + ended:
        raise _UnusableCallError("Nothing of the reply was carried out.")
    return count + ended


def _list_images(sha256: str, files: Mapping[str, bytes]) -> list[str]:
    """List the images of a message, in order; raise `_UnusableCallError` if the run lacks the message."""
    data = files.get(f"{sha256}.json")
    if data is None:
        raise _UnusableCallError(f"The message {sha256:.12} is missing from the run.")
    try:
        parts: list[dict[str, Any]] = parse_json(data)["parts"]
        return [str(part["picture"]) for part in parts if "picture" in part]
    except (ValueError, KeyError, TypeError) as error:
        raise _UnusableCallError(f"The message {sha256:.12} is damaged.") from error


def _find_fault(partial: _PartialRow, files: Mapping[str, bytes], vocabulary: Vocabulary) -> str:
    """Return the reason a row cannot be trained on; empty when it can."""
    from PIL import Image, UnidentifiedImageError

    sampled = {token for token, own in zip(partial.tokens, partial.own, strict=True) if own}
    if sampled & vocabulary.forbidden:
        return "The model sampled the placeholder of a picture."
    placed = [len(list(run)) for token, run in groupby(partial.tokens) if token == vocabulary.image]
    if len(placed) != len(partial.images):
        return f"There are {len(partial.images)} pictures and places for {len(placed)}."
    for number, (sha256, count) in enumerate(zip(partial.images, placed, strict=True), 1):
        try:
            with Image.open(io.BytesIO(files.get(f"{sha256}.jpg", b"")), formats=("JPEG",)) as image:
                size = Size(*image.size)
        except (UnidentifiedImageError, OSError, Image.DecompressionBombError):
            return f"Picture {number} is missing from the run."
        if count != vocabulary.features(size):
            return (
                f"Picture {number} of {size.width}×{size.height} pixels has {count} image tokens "
                f"and {vocabulary.features(size)} features."
            )
    return ""
