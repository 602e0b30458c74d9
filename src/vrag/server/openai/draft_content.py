"""The content of a streamed reply while the model writes the answer.

Markers cannot be put into text that was sent. So a sentence is sent up to its full stop, or up to a place
where the model cites something, and the rest of it with its markers once its citations are known.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from vrag.agent.answers.citation import Citation, with_markers
from vrag.agent.answers.verification import VerifyMode
from vrag.agent.events import (
    AnswerCited,
    AnswerDelta,
    AnswerDoubted,
    ContextShortened,
    Event,
    InvalidAction,
    ModelRetried,
    RunStarted,
)
from vrag.server.openai.reply import escape_answer

_MARKER_PLACE = re.compile(r"\s*(?:[.!?;]+(?=\s|\Z)|[。！？；]|[|\n])")
"""A place before which markers may have to stand."""


@dataclass(slots=True)
class DraftContent:
    """The answer of a run as far as its content is certain, unless the run changes it later."""

    sent: str = ""
    """All content that was given out."""
    _is_followed: bool = True
    """False if answers are checked before they are given: then they may be withdrawn or written anew."""
    _step: int = 0
    """The model call that writes the draft."""
    _text: str = ""
    _cited: int = 0
    """Characters of the draft whose citations are known."""
    _citations: tuple[Citation, ...] = ()
    _marked: list[int] = field(default_factory=list[int])
    """Places in the draft where the model cites something."""

    def add(self, event: Event) -> str:
        """Return what an event adds to the content; often nothing."""
        match event:
            case RunStarted():
                checked_first = {VerifyMode.REPAIR, VerifyMode.WITHDRAW}
                self._is_followed = event.settings.verify not in checked_first
            case AnswerDelta() if self._is_followed:
                if event.step != self._step:
                    self._discard(event.step)
                if event.follows_marker:
                    self._marked.append(len(self._text))
                self._text += event.text
            case AnswerCited() if self._is_followed:
                self._cited, self._citations = event.length, event.citations
            case ModelRetried() | ContextShortened() | InvalidAction() | AnswerDoubted():
                self._discard(event.step)
                return ""
            case _:
                return ""
        end = self._certain_end()
        content, _ = escape_answer(with_markers(self._text[:end], self._citations))
        if len(content) <= len(self.sent) or not content.startswith(self.sent):
            return ""
        added, self.sent = content[len(self.sent) :], content
        return added

    def _discard(self, step: int) -> None:
        """Forget the draft: it does not count, and what was sent of it will be corrected."""
        self._step, self._text, self._cited = step, "", 0
        self._citations, self._marked = (), []

    def _certain_end(self) -> int:
        """Return the end of the part of the draft into which no further marker comes."""
        marked = next((place for place in self._marked if place > self._cited), len(self._text))
        place = _MARKER_PLACE.search(self._text, self._cited)
        end = min(marked, len(self._text) if place is None else place.start())
        return max(self._cited, len(self._text[:end].rstrip()))
