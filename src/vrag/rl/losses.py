"""Policy losses over training rows, in torch: clipped ratios by token or by segment, KL, entropy.

A row is a segment or a whole trajectory (`vrag.rl.rows`). Their weights are separate from the
loss, one number for each, so that a batch can be computed in pieces whose losses add up to the same sum.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from vrag.embed.device import library
from vrag.errors import SettingsError

Tensor: TypeAlias = Any
"""A torch tensor; torch is not typed, and not imported with this module."""
MAX_LOG_RATIO = 20.0
"""Log-ratios are clamped to this, so that nothing overflows; such a token has no gradient by then."""


class RatioKind(StrEnum):
    """The unit of the ratio of new to old probability."""

    TOKEN = "token"  # noqa: S105 - no password
    """Each token (PPO, arXiv 1707.06347, equation 7; GRPO, arXiv 2402.03300, equation 3)."""
    SEGMENT = "segment"
    """The row: the geometric mean over its tokens (GSPO, arXiv 2507.18071, equation 7)."""


_CLIPS = {RatioKind.TOKEN: (0.2, 0.2), RatioKind.SEGMENT: (3e-4, 4e-4)}


@dataclass(frozen=True, slots=True, kw_only=True)
class LossOptions:
    """The options of the loss. Raises `SettingsError` if a value is out of range."""

    kind: RatioKind = RatioKind.TOKEN
    clip: tuple[float, float] | None = None
    """Bounds of a ratio below and above 1; None for the usual bounds: 0.2 and 0.2 by token, 3e-4 and
    4e-4 by segment."""
    kl: float = 0.01
    """Weight of the KL divergence from the reference policy; ignored without one."""
    entropy: float = 0.0
    """Weight of the entropy, which is rewarded."""
    truncate: float | None = None
    """Bound C of importance weights: the policy term of a token is multiplied by min(p / q, C), with p its
    probability by the trainer and q by the sampler (truncated importance sampling: Ionides, Journal of
    Computational and Graphical Statistics 17(2), 2008; for samplers that compute otherwise than the trainer:
    Yao et al., fengyao.notion.site/off-policy-rl, 2025, with C = 2). None for no weights."""

    def __post_init__(self) -> None:
        low, high = self.clips
        if not (0 < low <= 1 and 0 < high < float("inf")):
            raise SettingsError(
                f"Ratios cannot be clipped to 1 - {low} and 1 + {high}.",
                "Both must be above 0, and the first at most 1; 0.2 and 0.2 are usual.",
            )
        if not (0 <= self.kl < float("inf") and 0 <= self.entropy < float("inf")):
            raise SettingsError(
                f"The weights of KL and entropy cannot be {self.kl} and {self.entropy}.",
                "Weights must be 0 or more.",
            )
        if self.truncate is not None and not 0 < self.truncate < float("inf"):
            raise SettingsError(
                f"Importance weights cannot be truncated at {self.truncate}.",
                "The bound must be above 0; 2 is usual.",
            )

    @property
    def clips(self) -> tuple[float, float]:
        """The bounds that apply."""
        return _CLIPS[self.kind] if self.clip is None else self.clip


@dataclass(frozen=True, slots=True, eq=False)
class PolicyLoss:
    """A loss and its statistics."""

    total: Tensor
    """Scalar, with its graph."""
    statistics: Mapping[str, float]
    """Detached, over the own tokens of rows that are not masked: `policy`, `kl`, `entropy` (means),
    `clipped` (share of tokens whose gradient the clip took away), `ratio` (mean), `drift` (mean absolute
    difference of log-probabilities from the sampler's), `truncated` (share of tokens whose importance weight
    was cut, where weights are truncated), `tokens` (their number). All 0 without such tokens."""


def row_weights(own: ArrayLike, units: ArrayLike, *, count: int | None = None) -> NDArray[np.float64]:
    """Compute the weight of each own token of a row, (rows,): token mean within a unit, then over units.

    GRPO: a unit is a trajectory. GGPO: a unit is a segment, and masked ones count like all others. `own` is
    the number of own tokens and `units` the unit of each row, both (rows,); rows of a re-tokenised trajectory
    share one. `count` is the number of units of the batch, where some have no row left; None for those that
    have. Raises `ValueError` if the two are not of one length, or `count` is less than the units there are.

    >>> row_weights([2, 2, 4], [0, 0, 1]).tolist()
    [0.125, 0.125, 0.125]
    """
    tokens, named = np.asarray(own, dtype=np.float64), np.asarray(units)
    if tokens.ndim != 1 or tokens.shape != named.shape:
        raise ValueError(f"{tokens.shape} numbers are not one for each of {named.shape} rows")
    kinds, of = np.unique(named, return_inverse=True)
    total = len(kinds) if count is None else count
    if total < len(kinds):
        raise ValueError(f"there are {len(kinds)} units, not {total}")
    sums = np.bincount(of, weights=tokens, minlength=len(kinds))
    return 1.0 / (np.maximum(sums, 1.0)[of] * max(total, 1))


def policy_loss(  # noqa: PLR0913 - an array each
    logprobs: Tensor,
    old_logprobs: Tensor,
    advantages: Tensor,
    mask: Tensor,
    *,
    weights: Tensor,
    masked: Tensor | None = None,
    reference: Tensor | None = None,
    entropies: Tensor | None = None,
    sampled: Tensor | None = None,
    options: LossOptions | None = None,
) -> PolicyLoss:
    """Compute the sum over rows and own tokens of weight × (clipped policy term + KL - entropy).

    The policy term of a token is -min(ratio A, clip(ratio, 1 - low, 1 + high) A); by segment, all tokens
    of a row have the ratio of the row. The divergence is the low-variance estimate of Schulman ("k3"; GRPO,
    equation 4): exp(d) - d - 1 with d = log reference - log policy. Masked rows have exactly zero gradient
    in all terms.

    Args:
        logprobs: Of each token under the policy that is trained, shape (rows, n), with its graph.
        old_logprobs: Of the policy that sampled, shape (rows, n).
        advantages: Of each row, shape (rows,), or each token, (rows, n).
        mask: True where the model sampled the token, shape (rows, n). Other values of the
            other arrays, NaN too, are ignored.
        weights: Of each own token of a row, shape (rows,); see `row_weights`.
        masked: mu: rows without any gradient, shape (rows,); None for no row.
        reference: Under the reference policy, shape (rows, n); None for no divergence.
        entropies: Of the policy's distribution at each token, shape (rows, n), with their graph; None
            for no such term.
        sampled: Of the policy that sampled, where that is not `old_logprobs`: what `drift` and importance
            weights are measured from.
        options: Of the loss.

    Raises:
        MissingExtra: If torch is not installed.
    """
    settings = options or LossOptions()
    active = mask.bool() if masked is None else mask.bool() & ~masked.bool()[:, None]
    new, old = _select(logprobs, active), _select(old_logprobs, active)
    from_ = old if sampled is None else _select(sampled, active)
    each = _select(advantages if advantages.ndim == 2 else advantages[:, None].expand_as(new), active)
    ratio = _ratio(new, old.detach(), active, settings.kind)
    low, high = settings.clips
    plain, bound = ratio * each, ratio.clamp(1 - low, 1 + high) * each
    term, clipped = -library("torch").minimum(plain, bound), bound < plain  # the clip takes the gradient away
    scale = weights.to(new.dtype)[:, None] * active
    parts: dict[str, Tensor] = {}
    if settings.truncate is not None:
        importance = _ratio(old.detach(), from_, active, RatioKind.TOKEN)
        term = term * importance.clamp(max=settings.truncate)
        parts["truncated"] = importance > settings.truncate
    parts["policy"] = term
    total = (term * scale).sum()
    if reference is not None:
        parts["kl"] = _low_variance(_select(reference, active).detach() - new)
        total = total + settings.kl * (parts["kl"] * scale).sum()
    if entropies is not None:
        parts["entropy"] = _select(entropies, active)
        if settings.entropy:
            total = total - settings.entropy * (parts["entropy"] * scale).sum()
    parts |= {"ratio": ratio, "clipped": clipped, "drift": (new - from_).abs()}
    tokens = int(active.sum())
    sums = {name: float(_select(part.detach().float(), active).sum()) for name, part in parts.items()}
    means = {name: value / max(tokens, 1) for name, value in sums.items()}
    return PolicyLoss(total, means | {"tokens": float(tokens)})


def _select(values: Tensor, active: Tensor) -> Tensor:
    """Set 0 where a token does not count, also where the value is NaN: the gradient is 0 there as well."""
    return library("torch").where(active, values, values.new_zeros(()))


def _ratio(new: Tensor, old: Tensor, active: Tensor, kind: RatioKind) -> Tensor:
    """New over old probability, shape (rows, n)."""
    logs = new - old
    if kind is RatioKind.SEGMENT:
        lengths = active.sum(dim=1, keepdim=True).clamp(min=1)
        logs = (logs.sum(dim=1, keepdim=True) / lengths).expand_as(logs)
    return logs.clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO).exp()


def _low_variance(difference: Tensor) -> Tensor:
    """exp(d) - d - 1, never negative."""
    cut = difference.clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO)
    return cut.exp() - cut - 1
