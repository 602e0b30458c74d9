"""How good the answer of a sample is, from 1 to 5, by an expert that knows the reference."""

from __future__ import annotations

import json
from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vrag.agent.replies.sanitize import encodable, material
from vrag.chat.messages import ChatMessage, ChatText
from vrag.distill.expert import Tally, Usable, consult
from vrag.distill.json_extract import Unusable, first_object
from vrag.distill.prompts import prompt

if TYPE_CHECKING:
    from vrag.distill.expert import Expert
    from vrag.types import Case

__all__ = ["AnswerScore", "read_score", "score_answer"]


@dataclass(frozen=True, slots=True)
class AnswerScore:
    """What a judge says of an answer."""

    score: int
    """From 1, wrong, to 5, the same as the reference."""
    why: str = ""


def read_score(reply: str) -> AnswerScore:
    """The score that a reply holds.

    Raises:
        Unusable: If it holds none from 1 to 5.

    >>> read_score('{"why": "The same.", "score": 5}')
    Score(score=5, why='The same.')
    """
    value = first_object(reply)
    score, why = value.get("score"), value.get("why")
    if isinstance(score, str) and score.strip() in set("12345"):
        score = int(score)
    if not isinstance(score, int | float) or isinstance(score, bool) or score not in range(1, 6):
        raise Unusable('"score" is not a whole number from 1 to 5.')
    return AnswerScore(int(score), encodable(why) if isinstance(why, str) else "")


async def score_answer(judge: Expert, case: Case, answer: str, tally: Tally) -> AnswerScore:
    """Asks the judge. Question, reference and answer are told it as data.

    Raises:
        ModelError: If no score can be had.
    """
    shown = {"question": case.query, "reference": case.reference_answer, "answer": answer}
    told = [
        ChatMessage("system", (ChatText(prompt("judge.md")),)),
        ChatMessage("user", (ChatText(material(json.dumps(shown, ensure_ascii=False, indent=1))),)),
    ]
    async with aclosing(consult(judge, told, read_score, tally)) as parts:
        async for part in parts:
            if isinstance(part, Usable):
                return part.value
    raise AssertionError("an expert that is consulted answers or raises")
