"""Extractive question-answering models of transformers, which read running text beside our own reader."""

from __future__ import annotations

import inspect
import math
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from cachetools import LRUCache
from numpy.typing import NDArray

from vrag.embed.device import Batches, is_out_of_memory, library, open_device
from vrag.embed.model_files import find_checkpoint, lasting_name, read_settings
from vrag.embed.models.loader import loading
from vrag.embed.options import EmbedOptions
from vrag.errors import EmbedError, ModelError
from vrag.reading.spans.reader import ScoredSpan
from vrag.reading.spans.tokens import tokenize
from vrag.reading.text_reader import Segments, keep_apart, overlap

MAX_TOKENS = 384
"""Tokens of question and passage together, as in the training of BERT on SQuAD (Devlin et al. 2019)."""
MAX_QUESTION_TOKENS = 64
STRIDE = 128
"""Tokens that two passages of a long text have in common."""
MAX_ANSWER_TOKENS = 30
MAX_TEXT = 50_000
"""Characters of a text that are read: about a hundred passages."""
CANDIDATES = 20
"""Spans of a passage that are weighed."""
CACHED_TEXTS = 2048
_HINT = (
    "Set VRAG_READER to an extractive question-answering model, such as deepset/tinyroberta-squad2 or a "
    "folder, or unset it."
)


@dataclass(frozen=True, slots=True)
class _Passage:
    """A piece of a text as input of the network."""

    text: int
    """Number of the text."""
    inputs: dict[str, list[int]]
    tokens: NDArray[np.int64]
    """Positions of the tokens of the text in the input."""
    offsets: NDArray[np.int64]
    """Range of characters of each of them; shape (n, 2)."""
    null: int | None
    """Position of the token that stands for no answer."""


class PretrainedReader:
    """A `TextReader` over an extractive question-answering model of transformers.

    The model is a folder, or `ORGANISATION/NAME[@REVISION]` of the hub. Raises `ModelError` if it cannot be
    found or was not trained for this task, and `MissingExtra` if the libraries are not installed.

    The share of a span is the probability of its start times that of its end, as in the pipeline
    `question-answering` of transformers 4. Its probability is the sum of the shares of all spans that have
    at least half of their characters in common with it (F1): one answer with or without its article is one
    answer. Answers begin and end with whole words. Models trained with unanswerable questions give the rest
    to the first token of the input.
    """

    def __init__(self, model: str, options: EmbedOptions | None = None, *, count: int = 5) -> None:
        options = options or EmbedOptions()
        self.name = lasting_name(model)
        self._count = count
        try:
            self._device = open_device(options)
            self._network, self._tokenizer = _load(model, self._device.name, self._device.dtype)
        except EmbedError as error:
            raise ModelError(f"The reader {model} cannot be used: {error.message}", _HINT) from error
        if self._tokenizer.pad_token is None:
            self._tokenizer.pad_token = self._tokenizer.eos_token or self._tokenizer.unk_token
        places = getattr(self._network.config, "max_position_embeddings", None) or MAX_TOKENS
        self._length = min(MAX_TOKENS, int(self._tokenizer.model_max_length), int(places))
        self._inputs = frozenset(inspect.signature(self._network.forward).parameters)
        self._batches = Batches(options.batch)
        self._lock = threading.Lock()
        self._known: LRUCache[tuple[str, str, tuple[tuple[int, int], ...]], tuple[ScoredSpan, ...]]
        self._known = LRUCache(CACHED_TEXTS)

    def read(
        self, question: str, texts: Sequence[str], segments: Sequence[Segments] = ()
    ) -> tuple[tuple[ScoredSpan, ...], ...]:
        """Return the best spans of each text; what was read before is not read again.

        Raises `ModelError` if the network fails.
        """
        pairs = zip(texts, segments or [()] * len(texts), strict=True)
        keys = [(question, text, tuple(ranges)) for text, ranges in pairs]
        with self._lock:
            found = {key: self._known[key] for key in keys if key in self._known}
            missing = [key for key in dict.fromkeys(keys) if key not in found]
            if missing:
                read = self._read(question, [text for _, text, _ in missing], [part for *_, part in missing])
                found |= dict(zip(missing, read, strict=True))
                self._known.update({key: found[key] for key in missing})
        return tuple(found[key] for key in keys)

    def _read(
        self, question: str, texts: Sequence[str], segments: Sequence[Segments]
    ) -> list[tuple[ScoredSpan, ...]]:
        spans: list[dict[tuple[int, int], float]] = [{} for _ in texts]
        passages = sorted(self._passages(question, texts), key=lambda each: len(each.inputs["input_ids"]))
        try:
            logits = self._batches.run(passages, self._run)
        except EmbedError as error:
            raise ModelError(f"The reader {self.name} failed: {error.message}", _HINT) from error
        for passage, (starts, ends) in zip(passages, logits, strict=True):
            known = spans[passage.text]
            for place, share in _passage_spans(passage, starts, ends, segments[passage.text]).items():
                known[place] = max(share, known.get(place, 0.0))
        return [
            _scored(text, shares, ranges, self._count)
            for text, shares, ranges in zip(texts, spans, segments, strict=True)
        ]

    def _passages(self, question: str, texts: Sequence[str]) -> Iterator[_Passage]:
        """Cut texts into passages that overlap, each with the question."""
        usable = [(number, text[:MAX_TEXT]) for number, text in enumerate(texts) if text.strip()]
        question = self._cut_question(question)
        if not usable or not question:
            return
        first = self._tokenizer.padding_side == "right"  # the question; else the text, as in the training
        asked, read = [question] * len(usable), [text for _, text in usable]
        room = self._length - self._tokenizer.num_special_tokens_to_add(pair=True)
        room -= len(
            self._tokenizer(question, add_special_tokens=False, split_special_tokens=True)["input_ids"]
        )
        encoded = self._tokenizer(
            *((asked, read) if first else (read, asked)),
            truncation="only_second" if first else "only_first",
            max_length=self._length,
            stride=min(STRIDE, max(room // 2, 0)),
            return_overflowing_tokens=True,
            return_offsets_mapping=True,
            split_special_tokens=True,  # a "[SEP]" on a page is text
        )
        names = [name for name in encoded if name in self._inputs]
        side, null_token = int(first), self._tokenizer.cls_token_id
        for number, sample in enumerate(encoded["overflow_to_sample_mapping"]):
            ids = cast("list[int]", encoded["input_ids"][number])
            sides = encoded.sequence_ids(number)
            tokens = np.asarray([at for at, each in enumerate(sides) if each == side], np.int64)
            if len(tokens):
                offsets = np.asarray(encoded["offset_mapping"][number], np.int64)[tokens]
                inputs = {name: encoded[name][number] for name in names}
                null = ids.index(null_token) if null_token in ids else None
                yield _Passage(usable[int(sample)][0], inputs, tokens, offsets, null)

    def _cut_question(self, question: str) -> str:
        """Return the beginning of a question, at most a third of the input."""
        most = min(MAX_QUESTION_TOKENS, self._length // 3)
        encoded = self._tokenizer(
            question, add_special_tokens=False, return_offsets_mapping=True, split_special_tokens=True
        )
        offsets = encoded["offset_mapping"]
        return (question if len(offsets) <= most else question[: offsets[most - 1][1]]).strip()

    def _run(self, passages: Sequence[_Passage]) -> list[tuple[NDArray[np.float64], NDArray[np.float64]]]:
        """Return the logits of starts and ends of some passages, one per token of their input."""
        torch = library("torch")
        padded = self._tokenizer.pad([passage.inputs for passage in passages], return_tensors="pt")
        try:
            with torch.inference_mode():
                outputs = self._network(**{name: each.to(self._device.name) for name, each in padded.items()})
        except (RuntimeError, ValueError, IndexError) as error:
            if is_out_of_memory(error):
                raise
            raise EmbedError(f"{error}") from error
        sides = [
            np.asarray(part.float().cpu(), np.float64) for part in (outputs.start_logits, outputs.end_logits)
        ]
        skipped = padded["input_ids"].shape[1] if self._tokenizer.padding_side == "left" else 0
        found: list[tuple[NDArray[np.float64], NDArray[np.float64]]] = []
        for row, passage in enumerate(passages):
            length = len(passage.inputs["input_ids"])
            begin = skipped - length if skipped else 0
            found.append((sides[0][row, begin : begin + length], sides[1][row, begin : begin + length]))
        return found


def _load(model: str, device: str, dtype: str) -> tuple[Any, Any]:
    """Return network and tokenizer, from local files or the hub, without running code among them.

    Raises `EmbedError` if it cannot be found or loaded, or was not trained to mark answers.
    """
    folder = find_checkpoint(model)
    torch, transformers = library("torch"), library("transformers")
    kinds: list[Any] = read_settings(folder, "config.json").get("architectures") or []
    if kinds and not any("ForQuestionAnswering" in str(kind) for kind in kinds):
        raise EmbedError(f"{kinds[0]} was not trained to mark answers in a text.")
    settings = {"local_files_only": True, "trust_remote_code": False}
    with loading():
        try:
            tokenizer = transformers.AutoTokenizer.from_pretrained(folder, use_fast=True, **settings)
            network = transformers.AutoModelForQuestionAnswering.from_pretrained(
                folder, dtype=getattr(torch, dtype), use_safetensors=True, **settings
            )
        except (OSError, ValueError, RuntimeError, ImportError, KeyError) as error:
            if is_out_of_memory(error):
                raise
            raise EmbedError(f"it cannot be loaded: {error}") from error
    if not tokenizer.is_fast:
        raise EmbedError("its tokenizer does not tell the place of a token in the text.")
    return network.to(device).eval(), tokenizer


def _passage_spans(
    passage: _Passage, starts: NDArray[np.float64], ends: NDArray[np.float64], segments: Segments
) -> dict[tuple[int, int], float]:
    """Return the likeliest spans of a passage: ranges of characters and their shares.

    Several tokens may be parts of one character, so that several spans of tokens are one range.
    """
    share_of_start, share_of_end = _shares(passage, starts), _shares(passage, ends)
    count = len(passage.tokens)
    lengths = min(MAX_ANSWER_TOKENS, count)
    first = np.arange(count)[:, None]
    last = first + np.arange(lengths)
    inside = last < count
    last = np.minimum(last, count - 1)
    if segments:
        edges = np.unique([edge for segment in segments for edge in segment])
        part_of_start = np.searchsorted(edges, passage.offsets[:, 0], side="right")
        part_of_end = np.searchsorted(edges, passage.offsets[:, 1] - 1, side="right")
        inside &= part_of_start[first] == part_of_end[last]
    shares = np.where(inside, share_of_start[first] * share_of_end[last], -1.0)
    found: dict[tuple[int, int], float] = {}
    for at in np.argsort(-shares, axis=None, kind="stable")[:CANDIDATES].tolist():
        begin, length = divmod(at, lengths)
        if shares[begin, length] >= 0:
            place = int(passage.offsets[begin, 0]), int(passage.offsets[begin + length, 1])
            found[place] = found.get(place, 0.0) + float(shares[begin, length])
    return found


def _shares(passage: _Passage, logits: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the softmax over the tokens of the text, beside the token for no answer."""
    own = logits[passage.tokens]
    if not np.isfinite(own).all():
        raise ModelError("The reader's network computes numbers that are not finite.", _HINT)
    null = -math.inf if passage.null is None else float(logits[passage.null])
    highest = max(float(own.max()), null)
    powers = np.exp(own - highest)
    return powers / (powers.sum() + math.exp(null - highest))


def _scored(
    text: str, shares: dict[tuple[int, int], float], segments: Segments, count: int
) -> tuple[ScoredSpan, ...]:
    """Return the best spans of a text with their probabilities and sentences."""
    tokens = tokenize(text[:MAX_TEXT], segments)
    bounds = tokens.bounds
    best: dict[tuple[int, int], float] = {}
    for place, share in shares.items():
        first = int(np.searchsorted(tokens.ends, place[0], side="right"))
        last = int(np.searchsorted(tokens.starts, place[1])) - 1
        if first <= last:  # more than spaces
            whole = int(tokens.starts[first]), int(tokens.ends[last])
            best[whole] = max(share, best.get(whole, 0.0))
    spans: list[ScoredSpan] = []
    for place, share in best.items():
        common = sum(other for range_, other in shares.items() if overlap(place, range_) >= 0.5)
        alike = min(max(common, share), 1.0)
        first, last = np.searchsorted(tokens.starts, (place[0], place[1] - 1), side="right") - 1
        begin, end = bounds[tokens.sentence[first]], bounds[tokens.sentence[last] + 1]
        sentence = int(tokens.starts[begin]), int(tokens.ends[end - 1])
        spans.append(ScoredSpan(*place, math.log(max(share, 1e-30)), share, alike, sentence))
    return keep_apart(spans, count)
