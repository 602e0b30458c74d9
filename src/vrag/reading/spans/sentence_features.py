"""Features of the sentences of spans: how much of the question they have, alone and against others."""

from __future__ import annotations

import numpy as np

from vrag.reading.spans.span_context import Columns, Floats, SpanContext, edges_of_spans
from vrag.reading.spans.tokens import TokenKind


def local_weights(context: SpanContext) -> Floats:
    """Return the weights of the words of the question by how few sentences of the text have them."""
    sentences = len(context.held)
    having = (context.held > 0).sum(axis=0)
    weights = context.match.weights * np.log((sentences + 1) / (having + 0.5)) * (having > 0)
    total = float(weights.sum())
    return (weights / total if total else weights).astype(np.float32)


def sentence_features(context: SpanContext) -> Columns:
    """Compute how well the sentences of the spans and their neighbours fit the question."""
    first, _, begin, end = edges_of_spans(context)
    number = context.text.sentence[first]
    cover = context.cover
    padded = np.concatenate([[0], cover, [0]])
    mine, before, after = cover[number], padded[number], padded[number + 2]
    share, rank, gap = (column[number] for column in _compare(cover))
    local = (context.held @ local_weights(context)).astype(np.float32)
    size = end - begin
    return [
        *(mine, share, rank, gap, before, after),
        *(mine + 0.5 * before, (number == 0) * 1.0, (first - begin) / size, np.log(size)),
        *(np.full(len(first), cover.max()), first / len(context.text)),
        *(local[number], *(column[number] for column in _compare(local))),
        *(column[number] for column in _names(context)),
    ]


def _compare(cover: Floats) -> Columns:
    """Compare each sentence with the best one: its share, its rank, and the gap to the best other one."""
    order = np.argsort(-cover, kind="stable")
    ranks = np.empty(len(cover), np.int64)
    ranks[order] = np.arange(len(cover))
    best, second = cover[order[0]], cover[order[1]] if len(cover) > 1 else np.float32(0)
    return [cover / max(best, 1e-6), 1 / (1 + ranks), cover - np.where(ranks == 0, second, best)]


def _names(context: SpanContext) -> Columns:
    """Compute for each sentence which names and numbers of the question it has, and the runs it shares."""
    match, tokens = context.match, context.match.question.tokens
    named = (tokens.capital | (tokens.kinds == TokenKind.NUMBER)) & (np.arange(len(tokens)) > 0)
    is_name = named[match.places] if len(match.places) else np.zeros(0, np.bool_)
    names, others = match.weights * is_name, match.weights * ~is_name
    best = context.held.max(axis=0, initial=0)
    bounds = context.text.bounds[:-1]
    return [
        context.held @ names,
        (best - context.held) @ names,
        context.held @ others,
        np.log1p(np.maximum.reduceat(match.before, bounds)),
        np.log1p(np.add.reduceat(np.maximum(match.before - 1, 0), bounds)),
    ]
