"""Rewards of runs: the pages looked at, the answer, the grammar, and how they are combined.

reward   a reward, a verdict, and the protocols of scorers, parts and judges; many runs scored at once
parts    r_Ret: the gold pages among those shown; r_Pat: a search, an answer, no invalid turn
judges   whether an answer is right: rules, a model, and cached verdicts
combine  the weighted sums that training uses
plugins  parts that other packages provide
"""

from vrag.reward.combine import CompositeReward, OutcomeReward, Weights
from vrag.reward.reward import Judge, Reward, RewardPart, Scorer, Verdict, score_all

__all__ = [
    "CompositeReward",
    "Judge",
    "OutcomeReward",
    "Reward",
    "RewardPart",
    "Scorer",
    "Verdict",
    "Weights",
    "score_all",
]
