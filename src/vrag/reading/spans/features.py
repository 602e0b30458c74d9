"""Features of candidate spans: what stands around and in a span, compared with the question.

No feature names a word, apart from closed classes (words that ask, prepositions, forms of be).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from vrag.reading.spans.sentence_features import local_weights, sentence_features
from vrag.reading.spans.span_context import Columns, Floats, SpanContext, edges_of_spans, match_strength
from vrag.reading.spans.span_types import AGREES, GROUPS, SpanType, group_of, type_of_span
from vrag.reading.spans.tokens import TokenKind

_WINDOWS = 1, 2, 3, 5, 8, 14
_WINDOW_NAMES = tuple(
    f"{side}_{width}{weight}"
    for width in _WINDOWS
    for side in ("left", "right", "near")
    for weight in ("", "_local")
)
_CUES: dict[str, frozenset[str]] = {
    "in": frozenset("in at on en im am auf в на la în trong ở tại στο στην στη 于 於 在 で に".split()),
    "by": frozenset("by von por de от через tarafından bởi de 由 被 に より".split()),
    "to": frozenset("to zu um para чтобы для pentru για 为 を".split()),
    "of": frozenset("of von der des de του της 的 の".split()),
    "for": frozenset("for because für weil wegen por porque из-за потому due since 因 因为".split()),
    "be": frozenset(
        """is are was were be been ist sind war waren es son fue era был была является este sunt
        είναι là 是 为 は が""".split()
    ),
    "called": frozenset(
        """called named known as termed titled namens
        genannt heißt llamado llamada называ numit gọi 叫 称 名 と""".split()
    ),
    "and": frozenset("and or und oder y o и или și sau ve veya và και 和 或 与 と や".split()),
    "article": frozenset("the a an der die das den dem ein eine el la los las un una".split()),
}
_CUE_NAMES = tuple(f"{side}_{name}" for side in ("before", "after") for name in _CUES)
_MARKS: dict[str, frozenset[str]] = {
    "comma": frozenset(",，、"),
    "stop": frozenset(".。;；:：!?！？"),
    "open": frozenset('([（「『《“"„«'),
    "close": frozenset(')]）」』》”"“»'),
}
_MARK_NAMES = tuple(f"{side}_{name}" for side in ("before", "after") for name in _MARKS)
_CUE_TABLES = *_CUES.values(), *_MARKS.values()
_CUE_FLAGS = {
    word: tuple(float(word in table) for table in _CUE_TABLES) for words in _CUE_TABLES for word in words
}
_NO_CUE = (0.0,) * len(_CUE_TABLES)

SPAN_FEATURES: tuple[str, ...] = (
    *_WINDOW_NAMES,
    *("left_all", "left_all_local", "right_all", "right_all_local", "outside", "outside_local"),
    *("inside", "inside_local", "inside_share", "inside_only"),
    *("decay_left", "decay_right", "distance_left", "distance_right", "distance_min"),
    *("weight_left", "weight_right", "rarest_left", "rarest_right"),
    *("run_left", "run_right", "asks_left", "asks_right", "asks_both"),
    *("head_left", "head_right", "head_inside", "head_last", "head_sentence", "head_distance"),
    *("sentence_cover", "sentence_best", "sentence_rank", "sentence_gap", "before_cover", "after_cover"),
    *("pair_cover", "first_sentence", "sentence_position", "sentence_length", "text_cover", "position"),
    *("local_cover", "local_best", "local_rank", "local_gap", "names", "names_elsewhere", "others"),
    *("run_sentence", "runs_sentence"),
    *("tokens", "tokens_log", "characters_log", "content", "functions", "begins_function", "ends_function"),
    *("rarity_mean", "rarity_max", "frequency", "capitals", "digits", "new_share", "commas", "hard"),
    *(
        "break_before",
        "break_after",
        "same_kind_before",
        "same_kind_after",
        "capital_before",
        "capital_after",
    ),
    *("sentence_begins", "sentence_ends", "in_brackets", "in_quotes", "agrees", "agrees_elsewhere"),
    *("proximity", "proximity_gap", "proximity_left", "proximity_right", "outside_gap", "proximity_square"),
    *("last_left", "first_left", "first_right", "last_right", "order_left", "order_right"),
    *("agrees_alone", "agrees_nearest", "clause_cover"),
    *("is_character", "is_hiragana_end", "starts_matched", "adjacent_left", "adjacent_right"),
    *_CUE_NAMES,
    *_MARK_NAMES,
    *(f"type_{kind.name.lower()}" for kind in SpanType),
    *(f"group_{number}" for number in range(GROUPS)),
    "agreement",
)
"""Names of the columns of the features."""


def compute_features(context: SpanContext, kinds: NDArray[np.int64]) -> Floats:
    """Compute the features of all spans, given their types; shape (spans, features)."""
    if not len(context.spans.first):
        return np.zeros((0, len(SPAN_FEATURES)), np.float32)
    columns = [
        *_overlap(context),
        *_distances(context),
        *_alignment(context),
        *_head(context),
        *sentence_features(context),
        *_form(context),
        *_borders(context, kinds),
        *_cues(context),
    ]
    return np.column_stack([*columns, *_agreement(context, kinds)]).astype(np.float32)


def _overlap(context: SpanContext) -> Columns:
    """Compute shares of the question's weight in windows around the spans, in and outside of them."""
    first, last, begin, end = edges_of_spans(context)
    weights = np.column_stack([context.match.weights, local_weights(context)])
    sums = np.zeros((len(context.text) + 1, len(weights)), np.float32)
    np.cumsum(context.match.degree, axis=0, out=sums[1:])
    up_to_first, behind_last = sums[first], sums[last + 1]

    def share(found: NDArray[Any]) -> list[NDArray[Any]]:
        return list((np.minimum(found, 1) @ weights).T)

    columns: Columns = []
    for width in _WINDOWS:
        left = up_to_first - sums[np.maximum(first - width, begin)]
        right = sums[np.minimum(last + 1 + width, end)] - behind_last
        columns += [*share(left), *share(right), *share(left + right)]
    left, right, inside = up_to_first - sums[begin], sums[end] - behind_last, behind_last - up_to_first
    strength = np.concatenate([[0], np.cumsum(match_strength(context) > 0)])
    matched = (strength[last + 1] - strength[first]) / (last + 1 - first)
    shares = [*share(left), *share(right), *share(left + right), *share(inside)]
    return [*columns, *shares, matched, (matched == 1) * 1.0]


def _distances(context: SpanContext) -> Columns:
    """Compute distances to the matches beside the spans, and their weights."""
    first, last, begin, end = edges_of_spans(context)
    size = len(context.text)
    strength = match_strength(context)
    at = np.arange(size)
    previous = np.maximum.accumulate(np.where(strength > 0, at, -1))
    following = np.minimum.accumulate(np.where(strength > 0, at, size)[::-1])[::-1]
    padded_before = np.concatenate([[-1], previous])[first]
    padded_after = np.concatenate([following, [size]])[last + 1]
    left = np.where(padded_before >= begin, first - padded_before, 40)
    right = np.where(padded_after < end, padded_after - last, 40)
    scores = np.append(strength, 0)
    weight_left = np.where(left < 40, scores[padded_before], 0)
    weight_right = np.where(right < 40, scores[np.minimum(padded_after, size)], 0)
    decay = np.zeros((2, size + 1), np.float32)
    for k in range(size):
        decay[0, k + 1] = 0.8 * decay[0, k] + strength[k]
        decay[1, size - 1 - k] = 0.8 * decay[1, size - k] + strength[size - 1 - k]
    near = [1 / left, 1 / right, 1 / np.minimum(left, right)]
    return [decay[0][first], decay[1][last + 1], *near, weight_left, weight_right, *_rarest(context)]


def _rarest(context: SpanContext) -> Columns:
    """Compute nearness of the rarest matched word of the question in the sentence."""
    first, last, *_ = edges_of_spans(context)
    strength = match_strength(context)
    bounds = context.text.bounds
    best = np.zeros(len(bounds) - 1, np.int64)
    for number in np.unique(context.text.sentence[first]):
        a, b = int(bounds[number]), int(bounds[number + 1])
        best[number] = a + int(strength[a:b].argmax())
    place = best[context.text.sentence[first]]
    found = strength[place] > 0
    left = np.where(found & (place < first), 1 / np.maximum(first - place, 1), 0)
    right = np.where(found & (place > last), 1 / np.maximum(place - last, 1), 0)
    return [left, right]


def _alignment(context: SpanContext) -> Columns:
    """Compute lengths of the runs of words beside the spans that the question has too."""
    first, last, begin, end = edges_of_spans(context)
    match = context.match
    left = np.where(first > begin, np.append(match.before, 0)[first - 1], 0)
    right = np.where(last + 1 < end, np.append(match.after, 0)[last + 1], 0)
    asks_left = np.where(first > begin, np.append(match.ends_asking, 0)[first - 1], 0)
    asks_right = np.where(last + 1 < end, np.append(match.begins_asking, 0)[last + 1], 0)
    runs = [np.log1p(run) for run in (left, right, asks_left, asks_right)]
    return [*runs, np.log1p(asks_left + asks_right)]


def _head(context: SpanContext) -> Columns:
    """Compute where the noun that is asked for stands."""
    first, last, begin, end = edges_of_spans(context)
    heads = context.match.degree[:, context.match.heads]
    found: NDArray[Any] = heads.max(axis=1) > 0 if heads.shape[1] else np.zeros(len(context.text), np.bool_)
    sums = np.concatenate([[0], np.cumsum(found)])
    left = sums[first] - sums[np.maximum(first - 3, begin)] > 0
    right = sums[np.minimum(last + 4, end)] - sums[last + 1] > 0
    inside = sums[last + 1] - sums[first] > 0
    sentence = sums[end] - sums[begin] > 0
    at = np.arange(len(found))
    previous = np.concatenate([[-99], np.maximum.accumulate(np.where(found, at, -99))])[first]
    following = np.minimum.accumulate(np.where(found, at, 9_999_999)[::-1])[::-1]
    following = np.append(following, 9_999_999)[last + 1]
    distance = np.minimum(first - previous, following - last)
    return [
        left * 1.0,
        right * 1.0,
        inside * 1.0,
        found[last] * 1.0,
        sentence * 1.0,
        1 / np.maximum(distance, 1),
    ]


def _form(context: SpanContext) -> Columns:
    """Compute length, rarity and make of the spans."""
    first, last, *_ = edges_of_spans(context)
    text, shape = context.text, context.shape

    def mean(values: NDArray[Any]) -> NDArray[Any]:
        sums = np.concatenate([[0], np.cumsum(values.astype(np.float64))])
        return (sums[last + 1] - sums[first]) / count

    count = last + 1 - first
    content = ~shape.function & (text.kinds != TokenKind.PUNCTUATION)
    frequency: dict[str, int] = {}
    for word in text.stems:
        frequency[word] = frequency.get(word, 0) + 1
    often = np.fromiter((frequency[word] for word in text.stems), np.float32, len(text))
    characters = text.ends[last] - text.starts[first]
    new = content & (match_strength(context) == 0)
    highest = [context.rarity[a : b + 1].max() for a, b in zip(first.tolist(), last.tolist(), strict=True)]
    return [
        *(np.minimum(count, 40) / 10, np.log(count), np.log(characters), mean(content) * count / 5),
        *(mean(shape.function) * count / 5, shape.function[first] * 1.0, shape.function[last] * 1.0),
        *(mean(context.rarity), np.asarray(highest), np.log(mean(often)), mean(text.capital)),
        *(
            mean(text.kinds == TokenKind.NUMBER),
            mean(new),
            mean(shape.soft) * count,
            mean(shape.hard) * count,
        ),
    ]


def _borders(context: SpanContext, kinds: NDArray[np.int64]) -> Columns:
    """Compute what the borders of the spans are like."""
    first, last, begin, end = edges_of_spans(context)
    text, shape = context.text, context.shape
    inner_left, inner_right = first > begin, last + 1 < end
    before, after = np.maximum(first - 1, 0), np.minimum(last + 1, len(text) - 1)
    asked = context.match.question.focus.kind
    agrees = np.isin(kinds, [int(kind) for kind in AGREES.get(asked, ())])
    elsewhere = agrees.any() & ~agrees
    opened = np.cumsum(np.fromiter(((w in "（([") - (w in "）)]") for w in text.words), np.int64, len(text)))
    strength = np.append(match_strength(context), 0)
    return [
        *(shape.phrase[first] * 1.0, shape.phrase[last + 1] * 1.0),
        *(inner_left & (text.kinds[before] == text.kinds[first]) & ~shape.function[before],),
        *(inner_right & (text.kinds[after] == text.kinds[last]) & ~shape.function[after],),
        *(inner_left & text.capital[before], inner_right & text.capital[after]),
        *(~inner_left * 1.0, ~inner_right * 1.0, opened[before] > 0, _quoted(context)),
        *(agrees * 1.0, elsewhere * 1.0, *_proximity(context, agrees), shape.character[first] * 1.0),
        *((text.kinds[last] == TokenKind.HIRAGANA) * 1.0, strength[first] > 0),
        *(np.where(inner_left, strength[first - 1], 0), np.where(inner_right, strength[after], 0)),
    ]


def _nearest(context: SpanContext) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the distance of each span to each word of the question, left and right in its sentence."""
    first, last, begin, end = edges_of_spans(context)
    size, units = len(context.text), len(context.match.weights)
    at: NDArray[Any] = np.arange(size).reshape(-1, 1)
    hit = context.match.degree > 0
    previous = np.full((size + 1, units), -999)
    previous[1:] = np.maximum.accumulate(np.where(hit, at, -999), axis=0)
    following = np.full((size + 1, units), size + 999)
    following[:-1] = np.minimum.accumulate(np.where(hit, at, size + 999)[::-1], axis=0)[::-1]
    left, right = previous[first], following[last + 1]
    left = np.where(left >= begin[:, None], first[:, None] - left, 99)
    return left, np.where(right < end[:, None], right - last[:, None], 99)


def _proximity(context: SpanContext, agrees: NDArray[np.bool_]) -> Columns:
    """Compute how near all words of the question stand, and compare spans that agree in type."""
    first, *_ = edges_of_spans(context)
    weights = context.match.weights
    if not len(weights):
        return [np.zeros(len(first), np.float32)] * 15
    left, right = _nearest(context)
    near_left, near_right = np.where(left < 99, 1 / (left + 3), 0), np.where(right < 99, 1 / (right + 3), 0)
    total = 4 * np.maximum(near_left, near_right) @ weights
    distance = np.minimum(left, right)
    outside = (distance < 99) @ weights
    sentence = context.text.sentence[first]
    return [
        *(total, total - total.max(), 4 * near_left @ weights, 4 * near_right @ weights),
        *(outside - outside.max(), np.exp(-distance / 6) @ weights),
        *_order(left, right),
        *_rivals(total, agrees, sentence, first),
        _clause_cover(context),
    ]


def _order(left: NDArray[Any], right: NDArray[Any]) -> Columns:
    """Compute which words of the question, by their order, stand nearest on either side."""
    size = left.shape[1]
    columns: Columns = []
    orders: Columns = []
    for near, ends in ((left, (size - 1, 0)), (right, (0, size - 1))):
        nearest, found = near.argmin(axis=1), near.min(axis=1) < 99
        columns += [found & (nearest == number) for number in ends]
        orders.append(np.where(found, (nearest + 0.5) / size, 0))
    return [*columns, *orders]


def _rivals(
    total: NDArray[Any], agrees: NDArray[np.bool_], sentence: NDArray[np.int32], first: NDArray[Any]
) -> Columns:
    """Compute how few other places of the sentence agree in type, and whether they are less near."""
    alone, nearest = np.zeros(len(total)), np.zeros(len(total))
    for number in np.unique(sentence[agrees]):
        here = agrees & (sentence == number)
        alone[here] = 1 / len(np.unique(first[here]))
        nearest[here] = 1 / (1 + 20 * (total[here].max() - total[here]))
    return [alone, nearest]


def _clause_cover(context: SpanContext) -> NDArray[Any]:
    """Return the share of the question's weight between the punctuation marks around the spans."""
    first, last, begin, end = edges_of_spans(context)
    size = len(context.text)
    stops = np.flatnonzero(context.shape.soft | context.shape.hard)
    bounded = np.concatenate([[-1], stops, [size]])
    a = np.maximum(bounded[np.searchsorted(bounded, first, "left") - 1] + 1, begin)
    b = np.minimum(bounded[np.minimum(np.searchsorted(bounded, last, "right"), len(bounded) - 1)], end)
    sums = np.zeros((size + 1, len(context.match.weights)), np.float32)
    np.cumsum(context.match.degree, axis=0, out=sums[1:])
    return np.minimum(sums[b] - sums[a], 1) @ context.match.weights


def _quoted(context: SpanContext) -> NDArray[np.bool_]:
    """Return which spans stand between quotation marks."""
    text, (first, last) = context.text, context.spans
    before, after = np.maximum(first - 1, 0), np.minimum(last + 1, len(text) - 1)
    mark = np.fromiter((word in '"“”„«»「」『』《》' for word in text.words), np.bool_, len(text))
    return mark[before] & mark[after] & (first > 0)


def _cues(context: SpanContext) -> Columns:
    """Compute which closed words and marks stand before and after the spans."""
    first, last, begin, end = edges_of_spans(context)
    known = [_CUE_FLAGS.get(word, _NO_CUE) for word in context.text.words]
    flags = np.asarray([*known, _NO_CUE], np.float32)
    before = np.where((first > begin)[:, None], flags[first - 1], 0)
    after = np.where((last + 1 < end)[:, None], flags[last + 1], 0)
    cues = len(_CUES)
    return [before[:, :cues], after[:, :cues], before[:, cues:], after[:, cues:]]


def types_of_spans(context: SpanContext) -> NDArray[np.int64]:
    """Return the types of the spans."""
    text = context.text
    quoted = _quoted(context).tolist()
    starts, ends = text.starts[context.spans.first].tolist(), text.ends[context.spans.last].tolist()
    return np.asarray(
        [int(type_of_span(text.text[a:b], q)) for a, b, q in zip(starts, ends, quoted, strict=True)]
    )


def _agreement(context: SpanContext, kinds: NDArray[np.int64]) -> Columns:
    """Return indicators of the types and of the kind of answer asked for, and how well the two agree."""
    types = np.eye(len(SpanType), dtype=np.float32)[kinds]
    groups = np.zeros((len(kinds), GROUPS), np.float32)
    group = group_of(context.match.question.focus.kind)
    groups[:, group] = 1
    return [types, groups, context.agreement[group, kinds]]
