"""Rewards of runs: the pages looked at, the answer, the grammar, and how they are combined.

reward          a reward, a verdict, and the protocols of scorers, parts and judges; many runs scored at once
parts           r_Ret: the gold pages among those shown; r_Pat: a search, an answer, no invalid turn
unidoc          the parts of UniDoc-RL's reward
rules_judge     whether an answer is right, by rules
answer_tokens   short answers as words and numbers, for these rules
endpoint_judge  whether an answer is right, by a model
cached_judge    cached verdicts
combine         the weighted sums that training uses, and parts that other packages provide
"""

from vrag.reward.combine import CompositeReward, OutcomeReward, UnidocReward, Weights
from vrag.reward.reward import Judge, Reward, RewardPart, Scorer, Verdict, score_all

__all__ = [
    "CompositeReward",
    "Judge",
    "OutcomeReward",
    "Reward",
    "RewardPart",
    "Scorer",
    "UnidocReward",
    "Verdict",
    "Weights",
    "score_all",
]
