"""Verdicts on gold facts by a model: whether what an answer says about a page states them (DocScope).

As in `score_facts.py` of DocScope (arXiv 2605.08888), all facts of a page are judged in one call, by what the
answer says right before its citations of that page, and a fact of a page without such words is not stated.
The wording is ours, and where no reply can be read, there is no verdict on any fact of the question.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from vrag.agent.dialogue import OPTIONS, Dialogue, cut_off, quoted
from vrag.errors import JudgeError
from vrag.evaluation.prompts import prompt
from vrag.reward.cached_judge import VerdictCache, VerdictTable

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from vrag.chat.messages import ChatModel, ChatOptions
    from vrag.evaluation.measures.docscope import PageFacts

_STATED = re.compile(r"<stated>([\s,a-z]{1,4000})</stated>[\s.*`]*\Z", re.IGNORECASE)
"""At the end, as requested: earlier text may be quoted from the answer."""
_FACTS: VerdictTable[tuple[bool, ...]] = VerdictTable(
    "facts",
    ("stated TEXT NOT NULL",),
    row=lambda verdicts: ("".join("yn"[not stated] for stated in verdicts),),
    value=lambda row: tuple(letter == "y" for letter in row[0]),
)


class FactJudge:
    """A model that decides which gold facts an answer states. One object serves many runs at once.

    Verdicts are cached; failures are not. Raises `JudgeError` if the file cannot be used.

    Args:
        model: The model.
        path: SQLite file of the cache, which may be the one of a `CachedJudge`; None keeps them in memory.
        options: Sampling options of the model.
        attempts: Maximum of replies that are asked for, until one can be read.
        seconds: Time limit of all attempts together.
    """

    def __init__(
        self,
        model: ChatModel,
        path: Path | None = None,
        *,
        options: ChatOptions = OPTIONS,
        attempts: int = 3,
        seconds: float = 300.0,
    ) -> None:
        self._model = model
        self._dialogue = Dialogue(model, "verdict on facts", options, attempts, seconds)
        self._kept = VerdictCache(_FACTS, path)

    @property
    def identity(self) -> str:
        """The model by its name, and a hash of the prompts and of how it is sampled."""
        return self._dialogue.identity(
            prompt("facts_again.md"), _asked("$question", ["$fact"], ["$sentence"])
        )

    async def judge(self, question: str, pages: Iterable[PageFacts]) -> tuple[bool, ...] | None:
        """Return for each fact of each page whether it is stated; None where no verdict can be had."""
        verdicts: list[bool] = []
        try:
            for page in pages:
                verdicts += await self._judge_page(question, page)
        except JudgeError:
            return None
        return tuple(verdicts)

    async def _judge_page(self, question: str, page: PageFacts) -> tuple[bool, ...]:
        statements = [statement for statement in page.statements if statement.strip()]
        if not statements:
            return (False,) * len(page.facts)
        asked = _asked(question, [fact.text for fact in page.facts], statements)

        def read(text: str) -> tuple[bool, ...] | None:
            return _verdicts(text, len(page.facts))

        return await self._kept.value(
            (self.identity, asked), lambda: self._dialogue.reply(asked, prompt("facts_again.md"), read)
        )

    async def aclose(self) -> None:
        """Close the model's connections of the running event loop."""
        await self._model.aclose()


def _asked(question: str, facts: Iterable[str], statements: Iterable[str]) -> str:
    numbered = "\n".join(f"{number}. {quoted(fact)}" for number, fact in enumerate(facts, 1))
    sentences = "\n".join(f"- {quoted(statement)}" for statement in statements)
    return prompt("facts.md", question=quoted(question), facts=numbered, sentences=sentences)


def _verdicts(text: str, count: int) -> tuple[bool, ...] | None:
    """Return the verdicts at the end of a reply; None unless there is one for each fact."""
    found = _STATED.search(text)
    if found is None or cut_off(text):
        return None
    words = found[1].casefold().replace(",", " ").split()
    if len(words) != count or not {"yes", "no"}.issuperset(words):
        return None
    return tuple(word == "yes" for word in words)
