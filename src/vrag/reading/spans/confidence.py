"""Features of the chosen span of a text, from which the probability that it is right is estimated."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from vrag.reading.spans.features import SPAN_FEATURES
from vrag.reading.spans.span_context import Floats

_COLUMNS = "sentence_cover", "outside", "agrees", "proximity", "inside_share", "head_sentence"
CONFIDENCE_FEATURES: tuple[str, ...] = ("score", "above_mean", "margin", "share", *_COLUMNS)
"""Names of the features of an answer."""


def confidence_features(
    features: Floats, scores: Floats, starts: NDArray[np.int32], ends: NDArray[np.int32], chosen: int
) -> NDArray[np.float64]:
    """Return the features of the chosen one of the candidates.

    Its score is the highest of the candidates that overlap it. The margin is the distance to the best
    candidate that does not.
    """
    apart = (starts >= ends[chosen]) | (ends <= starts[chosen])
    second = float(scores[apart].max()) if apart.any() else float(scores.min())
    top = float(scores[~apart].max())
    shares = np.exp(scores - scores.max())
    columns = [float(features[chosen, SPAN_FEATURES.index(name)]) for name in _COLUMNS]
    share = float(shares[~apart].sum() / shares.sum())
    return np.asarray([top, top - float(scores.mean()), top - second, share, *columns], np.float64)
