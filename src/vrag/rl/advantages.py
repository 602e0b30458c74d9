"""Advantages: of rollouts within a group (GRPO), and of the segments of a graph (GGPO).

GRPO (Shao et al. 2024, "DeepSeekMath", arXiv 2402.03300, section 4.1): a group is the rollouts of one
question, and `group_advantages` says how much better each did than its group.

GGPO, graph-guided policy optimisation, of VimRAG (arXiv 2602.12735), gives credit for each node of a graph.
A trajectory is a sequence of segments. A segment is what the model wrote between two rebuilds of its
context: it makes a node, and the last one the answer. The outcome advantage of the trajectory is that of all
its segments, except where the outcome says nothing about a segment:

    mu_t = 1[r = 1] 1[v_t not in P_ans] + 1[r = 0] 1[v_t in R_val]
    A_t  = (1 - mu_t) A - c 1[invalid_t]

P_ans: the nodes reached backwards from the answer. R_val: the nodes whose search results held annotated
evidence. r: the judge's bit, never a shaped reward. So a correct answer does not reward dead ends, and a
wrong one does not punish a search that found the evidence. A segment with mu = 1 has no gradient, neither
of its advantage nor of a KL or entropy term, but counts in the mean (`vrag.rl.losses`).

Ours, where the paper is silent: where a reward has other parts beside the bit, a wrong trajectory may do
better than its group, and a right one worse; nothing is masked there, since there is no blame, or no
reward, to be taken away. The answer segment and segments with an invalid action are never masked,
and an invalid one costs c besides, whatever its group says: without it small models forget the format.

All are pure functions of arrays; the loss is in `vrag.rl.losses`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from vrag.errors import SettingsError

SPREAD = 1e-6
"""Least difference of rewards in a group that says anything; also added to the deviation."""


def group_advantages(rewards: ArrayLike, groups: ArrayLike, *, scale: bool = True) -> NDArray[np.float64]:
    """Compute how much better each rollout did than its group: (r - mean) / (std + 1e-6), std unbiased.

    Where the paper is silent, and differing from others: a group whose rewards are all but equal says
    nothing, and neither does a group of one, whose raw reward some trainers take for its advantage.

    Args:
        rewards: One for each rollout, shape (n,); NaN where there is none: that rollout leaves its group.
        groups: Which question each rollout answers, shape (n,); any values that compare.
        scale: Whether to divide by the deviation; without it this is Dr. GRPO (Liu et al. 2025,
            arXiv 2503.20783), which does not favour questions that are nearly always or never answered.

    Returns:
        Shape (n,); 0 for rollouts without a reward, and for groups of which fewer than two have one or
        whose rewards differ by less than 1e-6.

    Raises:
        ValueError: If the two are not one-dimensional and of one length, or a reward is infinite.

    >>> group_advantages([1.0, 0.0, np.nan], [7, 7, 7]).round(3).tolist()
    [0.707, -0.707, 0.0]
    """
    given, named = np.asarray(rewards, dtype=np.float64), np.asarray(groups)
    if given.ndim != 1 or given.shape != named.shape:
        raise ValueError(f"{given.shape} rewards are not one for each of {named.shape} groups")
    if np.isinf(given).any():
        raise ValueError("a reward is infinite")
    _, of = np.unique(named, return_inverse=True)
    advantages = np.zeros_like(given)
    for group in range(int(of.max(initial=-1)) + 1):
        rows = np.flatnonzero((of == group) & ~np.isnan(given))
        if len(rows) < 2 or np.ptp(given[rows]) < SPREAD:
            continue
        centred = given[rows] - given[rows].mean()
        advantages[rows] = centred / (given[rows].std(ddof=1) + SPREAD) if scale else centred
    return advantages


@dataclass(frozen=True, slots=True, kw_only=True)
class GgpoOptions:
    """The rules that apply. Raises `SettingsError` if the penalty is negative or not finite."""

    penalty: float = 0.5
    """c: the cost of a segment with an invalid action, in units of advantage."""
    dead_ends: bool = True
    """True if dead ends of correct trajectories are masked."""
    evidence: bool = True
    """True if segments of wrong trajectories that found the evidence are masked."""
    permute: bool = False
    """True if as many segments of a batch are masked at random instead: a control, not a method.

    They are permuted among all segments of the batch that could be masked, those of correct and of wrong
    trajectories apart, and those of better and of worse ones: only the information of the graph and the
    evidence is removed."""

    def __post_init__(self) -> None:
        if not 0 <= self.penalty < float("inf"):
            raise SettingsError(
                f"The penalty cannot be {self.penalty}.", "It must be 0 or more, usually 0.5."
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """A segment of a trajectory."""

    node: str | None = None
    """Id of the node that it made; None where it made none."""
    answers: bool = False
    """True if it made the answer."""
    found: bool = False
    """True if its search results held annotated evidence."""
    invalid: bool = False
    """True if an action in it was invalid, also where a later one made a node."""

    @property
    def maskable(self) -> bool:
        """Check whether the outcome may say nothing about it."""
        return self.node is not None and not self.answers and not self.invalid


@dataclass(frozen=True, slots=True)
class TrajectoryCredit:
    """The segments of a trajectory, and the nodes that lead to its answer."""

    segments: tuple[Segment, ...]
    leads: frozenset[str] = frozenset()
    """P_ans; see `leading`."""


@dataclass(frozen=True, slots=True, eq=False)
class SegmentCredit:
    """Advantages and masks of the segments of one trajectory, both of shape (segments,)."""

    advantages: NDArray[np.float64]
    masked: NDArray[np.bool_]
    """mu: where it is True the rows of the segment have no gradient at all."""


def leading(parents: Mapping[str, Iterable[str]], answer: str | None) -> frozenset[str]:
    """Return P_ans: the nodes that are reached backwards from the answer, itself included; none without one.

    >>> sorted(leading({"a": ["root"], "b": ["root"], "answer": ["a"]}, "answer"))
    ['a', 'answer', 'root']
    """
    reached: set[str] = set()
    waiting = [] if answer is None else [answer]
    while waiting:
        node = waiting.pop()
        if node not in reached:
            reached.add(node)
            waiting.extend(parents.get(node, ()))
    return frozenset(reached)


def maskable(segments: Sequence[Segment]) -> NDArray[np.bool_]:
    """Return which segments could be masked, shape (segments,)."""
    return np.array([segment.maskable for segment in segments], dtype=np.bool_)


def masks(
    credit: TrajectoryCredit, *, correct: bool | None, options: GgpoOptions | None = None
) -> NDArray[np.bool_]:
    """Return the mask mu of each segment, shape (segments,): where it is True there is no gradient.

    Args:
        credit: Of one trajectory.
        correct: The judge's bit; None without a verdict, and then nothing is masked: its advantage is 0.
        options: The rules that apply; `permute` is ignored.

    >>> first, dead = Segment(node="a"), Segment(node="b")
    >>> masks(TrajectoryCredit((first, dead, Segment(answers=True)), frozenset("a")), correct=True).tolist()
    [False, True, False]
    """
    rules = options or GgpoOptions()

    def masked(segment: Segment) -> bool:
        if correct is None or not segment.maskable:
            return False
        if correct:
            return rules.dead_ends and segment.node not in credit.leads
        return rules.evidence and segment.found

    return np.array([masked(segment) for segment in credit.segments], dtype=np.bool_)


def mask_applies(outcome: float, *, correct: bool | None) -> bool:
    """Check whether the advantage of a trajectory has the sign for which its masks are made.

    Where other parts of a reward outweigh the bit, a wrong run is above its group or a right one below it.
    Then nothing is masked: a dead end gets no reward that a mask would remove, nor a search that found the
    evidence any blame. It cannot happen if the reward is the bit alone.

    >>> mask_applies(0.7, correct=True), mask_applies(0.7, correct=False)
    (True, False)
    """
    return outcome >= 0 if correct else outcome <= 0


def permuted_masks(
    mu: ArrayLike, free: ArrayLike, random: np.random.Generator, strata: ArrayLike | None = None
) -> NDArray[np.bool_]:
    """Permute masks at random among the segments that can have one: the control of a study.

    `mu` are the masks of all segments of a batch, and `free` says which could be masked; both have shape
    (n,). Masks are permuted within segments of equal `strata`, also (n,), such as those of correct
    trajectories, so that each keeps its number; None for the whole batch. Raises `ValueError` if a segment is
    masked that cannot be.
    """
    given, open_ = np.asarray(mu, dtype=np.bool_), np.asarray(free, dtype=np.bool_)
    if (given & ~open_).any():
        raise ValueError("a segment is masked that cannot be")
    layer = np.zeros(given.shape, np.int64) if strata is None else np.asarray(strata)
    dealt = given.copy()
    for value in np.unique(layer):
        rows = np.flatnonzero(open_ & (layer == value))
        dealt[rows] = random.permutation(given[rows])
    return dealt


def segment_advantages(
    outcome: ArrayLike, mu: ArrayLike, invalid: ArrayLike, *, penalty: float = 0.5
) -> NDArray[np.float64]:
    """Compute (1 - mu) A - c 1[invalid], shape (segments,).

    `outcome` is A: the outcome advantage of the trajectory, or one for each segment. `mu` are the masks (see
    `masks`), `invalid` says which segments hold an invalid action, both (segments,). `penalty` is c.

    >>> segment_advantages(0.7, [False, True, False], [False, False, True]).round(2).tolist()
    [0.7, 0.0, 0.2]
    """
    masked, wrong = np.asarray(mu, dtype=np.bool_), np.asarray(invalid, dtype=np.bool_)
    kept: NDArray[np.float64] = np.where(masked, 0.0, np.asarray(outcome, dtype=np.float64))
    return np.subtract(kept, penalty * wrong, dtype=np.float64)


def batch_credit(
    outcomes: ArrayLike,
    credits: Sequence[TrajectoryCredit],
    correct: Sequence[bool | None],
    *,
    options: GgpoOptions | None = None,
    random: np.random.Generator | None = None,
) -> list[SegmentCredit]:
    """Compute advantages and masks of all segments of a batch.

    Args:
        outcomes: Advantage of each trajectory, shape (n,): each counts once in its group, whatever its
            number of segments. See `group_advantages`.
        credits: Of each trajectory.
        correct: The judge's bit of each; None without a verdict.
        options: The rules that apply.
        random: Permutes the masks with `options.permute`.

    Raises:
        ValueError: If the three are not of one length, or masks are to be permuted without `random`.
    """
    rules = options or GgpoOptions()
    outcome = np.asarray(outcomes, dtype=np.float64)
    rows = list(zip(outcome, credits, correct, strict=True))
    mus = [
        masks(credit, correct=right, options=rules) & np.bool_(mask_applies(advantage, correct=right))
        for advantage, credit, right in rows
    ]
    if rules.permute:
        mus = _permute(mus, outcome, credits, correct, random)
    return [
        SegmentCredit(
            segment_advantages(
                advantage, mu, [segment.invalid for segment in credit.segments], penalty=rules.penalty
            ),
            mu,
        )
        for (advantage, credit, _), mu in zip(rows, mus, strict=True)
    ]


def _permute(
    mus: Sequence[NDArray[np.bool_]],
    outcomes: NDArray[np.float64],
    credits: Sequence[TrajectoryCredit],
    correct: Sequence[bool | None],
    random: np.random.Generator | None,
) -> list[NDArray[np.bool_]]:
    """The masks of a batch, permuted; see `GgpoOptions.permute`."""
    if random is None:
        raise ValueError("masks can only be permuted with a random generator")
    if not mus:
        return []
    lengths = [len(mu) for mu in mus]
    free = np.concatenate([maskable(credit.segments) for credit in credits])
    kinds = [-1 if right is None else int(right) for right in correct]
    strata = np.repeat(np.array(kinds, np.int64) * 3 + np.sign(outcomes).astype(np.int64), lengths)
    dealt = permuted_masks(np.concatenate(mus), free, random, strata)
    return np.split(dealt, np.cumsum(lengths)[:-1])
