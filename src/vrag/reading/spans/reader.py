"""Short answers to a question from running text, without a pretrained model."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from vrag.reading.scorer import CandidateScorer
from vrag.reading.spans.calibration import CONFIDENCE_FEATURES, Calibration, confidence_features
from vrag.reading.spans.candidates import TextShape, list_spans, shape_text
from vrag.reading.spans.features import SPAN_FEATURES, compute_features, types_of_spans
from vrag.reading.spans.matching import QuestionText, match_question, read_question
from vrag.reading.spans.span_context import Floats, SpanContext
from vrag.reading.spans.span_types import GROUPS, SpanType
from vrag.reading.spans.tokens import TokenizedText, tokenize
from vrag.reading.spans.word_patterns import PATTERNS, Codes, word_patterns
from vrag.reading.spans.word_weights import WordClasses, WordWeights, default_weights, no_classes

WEIGHTS = Path(__file__).parents[1] / "weights" / "span.npz"
"""The trained weights of the package."""
COMMON = 0.2
"""Words of a smaller rarity are treated like function words."""
CHINESE_TEMPERATURE = 1.5
"""Flattens the shares of candidates before their overlaps are weighed, in Chinese."""
CHINESE_LENGTH = 0.3
"""Power of the length of a span that its share is multiplied by in Chinese."""
_HIRAGANA = re.compile("[\u3041-\u3096]")
_IDEOGRAPH = re.compile("[\u4e00-\u9fff]")
MAX_SAMPLE = 5000
"""Characters that tell the language of a text."""
MAX_TEXT = 400_000
"""Characters of a text that are read."""
PAGES = 128
"""Pages whose tokens are kept."""


@dataclass(frozen=True, slots=True)
class SpanCandidates:
    """The candidate spans of a text for a question."""

    text: str
    starts: NDArray[np.int32]
    """Offsets of characters, shape (n,)."""
    ends: NDArray[np.int32]
    features: Floats
    """Shape (n, f), columns as `SPAN_FEATURES`."""
    codes: Codes
    """Codes of the patterns of words, shape (n, p)."""
    sentences: NDArray[np.int32]
    """Range of characters of the sentence of each span, shape (n, 2)."""

    def __len__(self) -> int:
        return len(self.starts)


class ScoredSpan(NamedTuple):
    """A possible answer."""

    start: int
    end: int
    score: float
    """The highest of the candidates that overlap it."""
    share: float
    """Share of the softmax over all candidates, of the likeliest one that overlaps it."""
    probability: float
    """Of being right; below the best span in proportion to the shares. 0 without a calibration."""
    sentence: tuple[int, int]


@dataclass(frozen=True, slots=True)
class SpanStatistics:
    """Counts over the training texts."""

    words: WordWeights
    agreement: Floats
    """Log ratio of how often a type of span answers a group of questions to chance; shape (groups, types)."""
    classes: WordClasses


@lru_cache(maxsize=1)
def empty_statistics() -> SpanStatistics:
    """Return statistics without any count."""
    return SpanStatistics(default_weights(), np.zeros((GROUPS, len(SpanType)), np.float32), no_classes())


@dataclass(frozen=True, slots=True)
class SpanModel:
    """The weights that choose among spans: a scorer, and statistics that features are made with."""

    scorer: CandidateScorer
    statistics: SpanStatistics
    calibration: Calibration | None = None

    def save(self, path: Path) -> None:
        """Write both into one NumPy archive."""
        self.scorer.save(path)
        with np.load(path) as archive:
            arrays = {name: archive[name] for name in archive.files}
        statistics = self.statistics
        if self.calibration is not None:
            arrays |= _calibration_arrays(self.calibration)
        arrays |= {"words": statistics.words.table, "classes": statistics.classes.table}
        np.savez_compressed(path, agreement=statistics.agreement, **arrays)

    @classmethod
    def load(cls, path: Path = WEIGHTS) -> SpanModel:
        """Read what `save` wrote."""
        with np.load(path) as archive:
            statistics = SpanStatistics(
                WordWeights(archive["words"]), archive["agreement"], WordClasses(archive["classes"])
            )
            calibration = _read_calibration(dict(archive)) if "calibration_slopes" in archive.files else None
        return cls(CandidateScorer.load(path), statistics, calibration)


def _calibration_arrays(calibration: Calibration) -> dict[str, NDArray[Any]]:
    return {
        "calibration_mean": calibration.mean,
        "calibration_scale": calibration.scale,
        "calibration_slopes": calibration.slopes,
        "calibration_intercept": np.asarray(calibration.intercept),
    }


def _read_calibration(arrays: dict[str, NDArray[Any]]) -> Calibration:
    return Calibration(
        names=CONFIDENCE_FEATURES,
        mean=arrays["calibration_mean"],
        scale=arrays["calibration_scale"],
        slopes=arrays["calibration_slopes"],
        intercept=float(arrays["calibration_intercept"]),
    )


@lru_cache(maxsize=1)
def load_span_model() -> SpanModel:
    """Return the model of the package."""
    return SpanModel.load()


@lru_cache(maxsize=PAGES)
def _tokenize_page(text: str, segments: tuple[tuple[int, int], ...]) -> TokenizedText:
    return tokenize(text, segments)


@np.errstate(invalid="ignore")  # some builds of OpenBLAS warn of values in unused parts of their registers
def span_candidates(
    question: str,
    text: str,
    *,
    segments: Sequence[tuple[int, int]] = (),
    statistics: SpanStatistics | None = None,
) -> SpanCandidates:
    """List the candidate spans of a text for a question, with features.

    `segments` are ranges of the text (lines of a list, paragraphs, captions) that no answer crosses.
    """
    tokens = _tokenize_page(text[:MAX_TEXT], tuple(segments))
    asked = read_question(question)
    statistics = statistics or empty_statistics()
    context = _context(asked, tokens, statistics)
    if context is None:
        none = np.zeros(0, np.int32)
        return SpanCandidates(
            text,
            none,
            none,
            np.zeros((0, len(SPAN_FEATURES)), np.float32),
            np.zeros((0, PATTERNS), np.uint32),
            none.reshape(0, 2),
        )
    first, last = context.spans
    sentence = tokens.sentence[first]
    ranges = np.stack(
        [tokens.starts[tokens.bounds[sentence]], tokens.ends[tokens.bounds[sentence + 1] - 1]], 1
    )
    kinds = types_of_spans(context)
    return SpanCandidates(
        text,
        tokens.starts[first],
        tokens.ends[last],
        compute_features(context, kinds),
        word_patterns(context, kinds, statistics.classes),
        ranges,
    )


def best_spans(
    question: str,
    text: str,
    model: SpanModel,
    *,
    segments: Sequence[tuple[int, int]] = (),
    count: int = 5,
) -> list[ScoredSpan]:
    """Return the best spans of a text for a question, the best first; none overlaps a better one."""
    found = span_candidates(question, text, segments=segments, statistics=model.statistics)
    if not len(found):
        return []
    scores = model.scorer.scores(found.features, found.codes)
    choice = choice_scores(text, found.starts, found.ends, scores)
    right = 0.0
    if model.calibration is not None:
        row = confidence_features(found.features, scores, found.starts, found.ends, int(choice.argmax()))
        right = float(model.calibration.probabilities(row[None])[0])
    top = float(scores.max())
    total = float(np.exp(scores - top).sum())
    kept: list[ScoredSpan] = []
    for at in np.argsort(-choice, kind="stable").tolist():
        start, end = int(found.starts[at]), int(found.ends[at])
        if all(end <= span.start or span.end <= start for span in kept):
            a, b = found.sentences[at].tolist()
            score = float(scores[(found.starts < end) & (found.ends > start)].max())
            share = float(np.exp(score - top)) / total
            probability = right * min(share / kept[0].share, 1) if kept else right
            kept.append(ScoredSpan(start, end, score, share, probability, (a, b)))
            if len(kept) == count:
                break
    return kept


def choice_scores(text: str, first: NDArray[np.int32], last: NDArray[np.int32], scores: Floats) -> Floats:
    """Return the logarithms of the expected overlap of each span with the answer, by which it is chosen.

    The overlap is the share of common characters, weighed by the softmax of the scores. The likeliest span is
    often one of many that stand in the same place with other edges; a span somewhere else may then have a
    higher score than any of them. In Chinese, where answers of any length are usual, longer spans count more.
    """
    if not len(first):
        return scores
    starts, ends = first.astype(np.float32), last.astype(np.float32)
    lengths = ends - starts
    raised = scores - scores.max()
    if _is_chinese(text[:MAX_SAMPLE]):
        raised = raised / CHINESE_TEMPERATURE + CHINESE_LENGTH * np.log(lengths)
    shares = np.exp(raised)
    common = np.minimum(ends[:, None], ends) - np.maximum(starts[:, None], starts)
    overlap = 2 * np.maximum(common, 0) / (lengths[:, None] + lengths)
    return np.log(overlap @ (shares / shares.sum())).astype(np.float32)


def _is_chinese(sample: str) -> bool:
    return not _HIRAGANA.search(sample) and len(_IDEOGRAPH.findall(sample)) >= len(sample) / 3


def _context(asked: QuestionText, tokens: TokenizedText, statistics: SpanStatistics) -> SpanContext | None:
    """Match a question with a text and list the spans; None for an empty text."""
    if not len(tokens):
        return None
    match = match_question(asked, tokens, statistics.words)
    rarity = statistics.words.rarity(tokens.stems)
    matched = match.degree.max(axis=1) > 0 if match.degree.shape[1] else np.zeros(len(tokens), np.bool_)
    shape: TextShape = shape_text(tokens, rarity < COMMON, matched)
    held = np.maximum.reduceat(match.degree, tokens.bounds[:-1], axis=0)
    cover = (held @ match.weights).astype(np.float32)
    spans = list_spans(tokens, shape, np.argsort(-cover, kind="stable"))
    return SpanContext(tokens, shape, match, held, cover, rarity, spans, statistics.agreement)
