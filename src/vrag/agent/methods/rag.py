"""RAG: retrieve, then answer. One search with the question word for word, then one model call.

The baseline that the papers of VRAG and VimRAG call vanilla RAG. All hits are shown in one message, the best
first, at the sizes at which VRAG shows pages; the model neither searches nor looks closer.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from vrag.agent.actions import Action, Turn
from vrag.agent.environment import Environment
from vrag.agent.events import SearchRequested, SearchReturned
from vrag.agent.methods.conversation import question_parts
from vrag.agent.methods.vrag import VragEpisode
from vrag.agent.policy import Part, Policy, Text
from vrag.agent.prompts import prompt, with_question, worded
from vrag.agent.question import Question
from vrag.agent.runs.event_log import EventLog

_WITHOUT = frozenset({"search", "bbox"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Rag:
    """The method RAG: one message with everything that one search found.

    With more than one step, the model is asked again for an answer.
    """

    name: ClassVar[str] = "rag"
    title: ClassVar[str] = "RAG"
    description: ClassVar[str] = "one search, one answer"
    steps: ClassVar[int] = 1
    hits: ClassVar[int] = 3
    instruction: str | None = None
    """The user's own wording, in place of ours."""
    repair: bool = True
    """True if replies that break the grammar are read where their meaning is clear."""
    reselect: bool = field(default=False, init=False)
    memory: None = field(default=None, init=False)

    def offline_policy(self, environment: Environment) -> Policy:
        """Open the policy without a model; see `Method`."""
        from vrag.agent.policies.extractive import ExtractiveReader

        return ExtractiveReader(environment.searcher, environment.profile)

    def begin(self, environment: Environment, question: str | Question) -> RagEpisode:
        """Return a new run: nothing searched, nothing shown but what came with the question; see `Method`.

        A checkpoint's own instruction is that of VRAG, and is not used.
        """
        asked = Question.of(question)
        instruction = worded(self.instruction, "rag.md", actions="", profile=environment.profile)
        instruction = with_question(instruction, asked.text) or instruction
        pending: list[Part] = [
            Text(instruction),
            Text(prompt("rag_question.md")),
            *question_parts(asked, environment),
        ]
        return RagEpisode(environment, reselect=False, pending=pending, repair=self.repair, query=asked.text)


@dataclass(slots=True, kw_only=True)
class RagEpisode(VragEpisode):
    """The state of one run: what the one search found."""

    query: str
    """The question word for word, without what was asked before it."""

    def prepare(self, log: EventLog) -> None:
        """Search, and puts all that was found between the instruction and the question; see `Episode`."""
        log.add(SearchRequested, query=self.query)
        found = self.environment.search(self.query)
        shown, damaged = self._first_new([hit.item for hit in found], len(found))
        log.add(SearchReturned, hits=tuple(found), damaged=tuple(damaged))
        instruction, *asked = self.pending
        self.pending = [instruction, *(self._tell(shown, log) or [Text(prompt("rag_nothing.md"))]), *asked]

    def parse(self, reply: str, *, last: bool = False, cut: bool = False) -> Turn[Action]:
        """Take a reply apart; whatever is no answer is `Invalid`."""
        return self._read(reply, frozenset(), _WITHOUT, last=last, cut=cut)

    def _urge(self, last: bool) -> list[Part]:  # noqa: ARG002 - it always is
        return []

    def _refusal(self, reason: str) -> str:
        return prompt("rag_invalid.md", reason=reason)
