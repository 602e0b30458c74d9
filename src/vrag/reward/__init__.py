"""What a run earns: pages looked at, the answer, the grammar, and how they are combined.

base       a reward, who gives it, and what a part of one is
retrieval  r_Ret: the gold pages among those shown
pattern    r_Pat: a search, an answer, no invalid turn
judge      whether an answer is right; `judges`: rules, a model, and verdicts that are kept
combine    the weighted sums that training uses
scoring    many runs at once
plugins    parts that other packages bring
"""

from vrag.reward.combine import CompositeReward, OutcomeReward, Weights
from vrag.reward.judge import Judge, Verdict
from vrag.reward.reward import Reward, RewardPart, Scorer
from vrag.reward.scoring import score_all

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
