"""Questions about a document, for people who do not know yet what to ask: of the reader, or of a model.

A model sees pages of the document, which may have been written to mislead it. Its questions are shown as text
and asked only by somebody who chooses them; those that are not about the page that they name are left out.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from vrag.agent.dialogue import Dialogue, cut_off, quoted
from vrag.agent.prompts import prompt
from vrag.chat.messages import ChatModel
from vrag.errors import JudgeError
from vrag.reading.answer import ReadPage
from vrag.reading.suggested_questions import MAX_QUESTION_CHARS, suggest_questions
from vrag.text.terms import STOP_WORDS, tokens

MAX_PAGE_CHARS, MAX_CHARS = 1500, 12_000
"""Characters of a page, and of all pages, that a model is shown."""
MIN_SHARED = 0.5
"""Share of the words of a question that stand on its page."""
SECONDS = 60.0
_WRITTEN = re.compile(r"<question\s+page\s*=\s*[\"']?(\d{1,5})[\"']?\s*>([^<>]+)</question>", re.IGNORECASE)
_FOREIGN = re.compile(r"https?:|www\.|[{}\\`|\[\]\x00-\x1f]")
log = logging.getLogger("vrag.agent")


class QuestionSuggester(Protocol):
    """The protocol of what suggests questions."""

    @property
    def name(self) -> str:
        """Changes when the same document would get other questions."""
        ...

    def suggest(self, pages: Sequence[ReadPage], most: int) -> tuple[str, ...]:
        """Return up to `most` questions about the pages of one document. Blocks."""
        ...


class ReaderSuggester:
    """Suggests what the reader finds an answer for."""

    name = "reader-2"

    def suggest(self, pages: Sequence[ReadPage], most: int) -> tuple[str, ...]:
        """Return questions that the reader answers; see `QuestionSuggester`."""
        return tuple(question.text for question in suggest_questions(pages, most))


@dataclass(frozen=True, slots=True)
class ModelSuggester:
    """Asks a model, once for each document; the reader where it fails or has none."""

    model: ChatModel
    fallback: QuestionSuggester

    @property
    def name(self) -> str:
        """The model and the prompt."""
        return Dialogue(self.model, "questions").identity(prompt("suggest_questions.md", count=0, pages=""))

    def suggest(self, pages: Sequence[ReadPage], most: int) -> tuple[str, ...]:
        """Return questions of the model; see `QuestionSuggester`.

        Raises `JudgeError` if the model fails and the reader has none.
        """
        try:
            found = asyncio.run(self._ask(pages, most))
        except JudgeError as error:
            log.warning("Questions are suggested without the model: %s", error.message)
            if found := self.fallback.suggest(pages, most):
                return found
            raise
        return found or self.fallback.suggest(pages, most)

    async def _ask(self, pages: Sequence[ReadPage], most: int) -> tuple[str, ...]:
        shown = _show_pages(pages)
        if not shown:
            return ()
        dialogue = Dialogue(self.model, "questions", attempts=1, seconds=SECONDS)
        listing = "\n\n".join(f"Page {number}:\n{quoted(text)}" for number, text in shown.items())
        asked = prompt("suggest_questions.md", count=most, pages=listing)
        try:
            return await dialogue.reply(asked, "", lambda text: read_questions(text, shown, most))
        finally:
            await self.model.aclose()


def read_questions(reply: str, pages: dict[int, str], most: int) -> tuple[str, ...] | None:
    """Return the questions of a reply that are about the pages they name; None if there are none at all.

    >>> read_questions('<question page="1">What is the fare?</question>', {1: "The fare is 3.50."}, 4)
    ('What is the fare?',)
    """
    written = [] if cut_off(reply) else [(page, text.strip()) for page, text in _WRITTEN.findall(reply)]
    if not written:
        return None
    found = [
        text
        for page, text in written
        if int(page) in pages
        and text.endswith(("?", "？"))
        and len(text) <= MAX_QUESTION_CHARS
        and not _FOREIGN.search(text)
        and _is_about(text, pages[int(page)])
    ]
    return tuple(dict.fromkeys(found))[:most]


def _is_about(question: str, page: str) -> bool:
    """Return whether enough of a question's words stand on a page."""
    wanted = {token.term for token in tokens(question)}.difference(STOP_WORDS)
    return bool(wanted) and len(wanted & {token.term for token in tokens(page)}) >= MIN_SHARED * len(wanted)


def _show_pages(pages: Sequence[ReadPage]) -> dict[int, str]:
    """Choose the text of pages from all parts of a document, by their numbers."""
    filled = [page.item for page in pages if page.item.text.strip()]
    step = max(-(-len(filled) * MAX_PAGE_CHARS // MAX_CHARS), 1)
    return {item.ordinal: item.text[:MAX_PAGE_CHARS] for item in filled[::step]}
