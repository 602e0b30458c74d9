"""Extraction of short answers from long ones by a model, so that published rules can compare them.

MMLongBench-Doc (Ma et al. 2024, arXiv 2407.01523) asks an agent for an answer of any length, has a model
extract a short one and its format from it, and compares that one by rules (`vrag.datasets.registry`). What
holds of its protocol holds here: the model sees the question and the answer, never what is right nor which
format that has; the format that it names is kept and not used; "Not answerable" and "Fail to answer" are
short answers like others. Two things differ: the wording is ours, and where the extraction fails, rules
measure nothing, where the published script compares the word "Failed".
"""

from __future__ import annotations

import html
import re
from typing import TYPE_CHECKING

from vrag.agent.actions import ABSTENTION
from vrag.agent.dialogue import OPTIONS, Dialogue, cut_off, quoted
from vrag.errors import JudgeError
from vrag.evaluation.prompts import prompt
from vrag.evaluation.record import Extraction
from vrag.reward.cached_judge import VerdictCache, VerdictTable

if TYPE_CHECKING:
    from pathlib import Path

    from vrag.chat.messages import ChatModel, ChatOptions

FAILURE = "Fail to answer"
"""The short answer for an answer that says nothing about the question. It is wrong, and not an abstention."""
_BLANK = r"[\s.*`]*"
_FORMAT = rf"(?:<format>(?P<{{}}>[^<>]{{{{0,60}}}})</format>{_BLANK})?"
_EXTRACTED = re.compile(
    _FORMAT.format("before")
    + rf"<extracted>(?P<short>(?:(?!</?extracted>).){{1,2000}})</extracted>{_BLANK}"
    + _FORMAT.format("after")
    + r"\Z",
    re.IGNORECASE | re.DOTALL,
)
"""At the end, as requested: earlier text may be quoted from the answer. Longer text is not a short answer."""
_FORMS = frozenset({"integer", "float", "string", "list"})
_FIXED = {text.casefold(): text for text in (ABSTENTION, FAILURE)}
"""Short answers that are compared letter by letter."""
_EXTRACTIONS = VerdictTable(
    "extractions",
    ("answer TEXT NOT NULL", "form TEXT NOT NULL"),
    row=lambda made: (made.answer, made.form),
    value=lambda row: Extraction(answer=row[0], form=row[1]),
)


class Extractor:
    """A model that extracts short answers from answers. One object serves many runs at once.

    Question and answer are quoted as data, as by `EndpointJudge`. Of a reply, only the short answer at its
    end is read, and nothing is evaluated. Extractions are cached by question and answer; failures are not.

    Args:
        model: The model.
        path: SQLite file of the cache, which may be the one of a `CachedJudge`; None keeps extractions in
            memory.
        options: Sampling options of the model.
        attempts: Maximum number of replies that are asked for, until one ends with a short answer.
        seconds: Time limit of all attempts together.

    Raises:
        JudgeError: If the file cannot be used.
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
        self._dialogue = Dialogue(model, "short answer", options, attempts, seconds)
        self._kept = VerdictCache(_EXTRACTIONS, path)

    @property
    def identity(self) -> str:
        """The model by its name, and a hash of the prompts and of how it is sampled."""
        return self._dialogue.identity(prompt("extract_again.md"), _asked("$question", "$answer"))

    async def extract(self, question: str, answer: str) -> Extraction:
        """Return the short answer in an agent's answer, which is data, or the reason why there is none."""
        asked, again = _asked(question, answer), prompt("extract_again.md")
        try:
            return await self._kept.value(
                (self.identity, question, answer), lambda: self._dialogue.reply(asked, again, _extraction)
            )
        except JudgeError as error:
            return Extraction(answer=None, why=str(error))

    async def aclose(self) -> None:
        """Close the model's connections of the running event loop."""
        await self._model.aclose()


def _asked(question: str, answer: str) -> str:
    return prompt("extract.md", question=quoted(question), answer=quoted(answer))


def _extraction(text: str) -> Extraction | None:
    """Return the short answer at the end of a reply; None if it has none."""
    found = _EXTRACTED.search(text)
    if found is None or cut_off(text):
        return None
    short = html.unescape(found["short"]).strip().strip("`").strip()
    if not short.strip(".…"):  # as the prompt has it
        return None
    form = (found["before"] or found["after"] or "").strip().lower()
    fixed = _FIXED.get(short.rstrip(".").casefold(), short)
    return Extraction(answer=fixed, form=form if form in _FORMS else "")
