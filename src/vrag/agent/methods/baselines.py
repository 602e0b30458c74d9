"""RAG and ReAct: the baselines of the papers of VRAG and VimRAG.

RAG retrieves, then answers: one search with the question word for word, then one model call. All hits are
shown in one message, the best first, at the sizes at which VRAG shows pages; the model neither searches nor
looks closer.

ReAct (arXiv 2210.03629) thinks, then searches or answers: VRAG's loop, environment and limits without the
crop. What it scores less than VRAG is what looking closer is worth.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from vrag.agent.environment import Environment
from vrag.agent.events import SearchRequested, SearchReturned
from vrag.agent.method import Method, question_parts
from vrag.agent.methods.vrag import VragEpisode, VragMethod, opening
from vrag.agent.policy import Part, Policy, Text
from vrag.agent.prompts import prompt, with_question, worded
from vrag.agent.question import Question
from vrag.agent.runs.event_log import EventLog


@dataclass(frozen=True, slots=True, kw_only=True)
class Rag(Method):
    """The method RAG: one message with everything that one search found.

    With more than one step, the model is asked again for an answer.
    """

    name: ClassVar[str] = "rag"
    title: ClassVar[str] = "RAG"
    description: ClassVar[str] = "one search, one answer"
    steps: ClassVar[int] = 1
    hits: ClassVar[int] = 3
    reselect: bool = field(default=False, init=False)
    memory: None = field(default=None, init=False)

    def policy_without_model(self, environment: Environment) -> Policy:
        """Open the policy without a model; see `Method`."""
        from vrag.agent.policies.extractive import ExtractiveReader

        searcher, profile = environment.searcher, environment.profile
        return ExtractiveReader(searcher, profile, text_reader=environment.text_reader)

    def begin(self, environment: Environment, question: str | Question) -> RagEpisode:
        """Return a new run: nothing searched, nothing shown but what came with the question; see `Method`.

        A checkpoint's own instruction is that of VRAG, and is not used.
        """
        asked = Question.of(question)
        instruction = worded(self.instruction, "rag.md", actions="", profile=environment.profile)
        instruction = with_question(instruction, asked.text) or instruction
        heading = Text(prompt("rag_question.md"))
        pending: list[Part] = [Text(instruction), heading, *question_parts(asked, environment)]
        return RagEpisode(environment=environment, pending=pending, repair=self.repair, query=asked.text)


@dataclass(slots=True, kw_only=True)
class RagEpisode(VragEpisode):
    """The state of one run: what the one search found."""

    built_in_tags: ClassVar[frozenset[str]] = frozenset({"answer"})
    invalid_prompt: ClassVar[str] = "rag_invalid.md"

    query: str
    """The question word for word, without what was asked before it."""

    def prepare(self, log: EventLog) -> None:
        """Search, and put all that was found between the instruction and the question; see `AgentEpisode`."""
        log.add(SearchRequested, query=self.query)
        hits = self.environment.search(self.query)
        shown, damaged = self._open_new([hit.item for hit in hits], len(hits))
        log.add(SearchReturned, hits=tuple(hits), damaged=tuple(damaged))
        instruction, *question = self.pending
        results = self._show(shown, log) or [Text(prompt("rag_nothing.md"))]
        self.pending = [instruction, *results, *question]

    def _tool_names(self) -> frozenset[str]:
        return frozenset()

    def _urge(self, last: bool) -> list[Part]:  # noqa: ARG002 - an answer is always due
        return []


@dataclass(frozen=True, slots=True, kw_only=True)
class React(VragMethod):
    """The method ReAct: one growing conversation of searches; options and limits are those of VRAG."""

    name: ClassVar[str] = "react"
    title: ClassVar[str] = "ReAct"
    description: ClassVar[str] = "search alone"
    trainable: ClassVar[bool] = False
    follows_checkpoints: ClassVar[bool] = False

    def policy_without_model(self, environment: Environment) -> Policy:
        """Open the policy without a model; see `Method`."""
        from vrag.agent.policies.extractive import ExtractivePolicy

        searcher, profile = environment.searcher, environment.profile
        text_reader, show = environment.text_reader, environment.options.show
        return ExtractivePolicy(searcher, profile, crops=False, show=show, text_reader=text_reader)

    def begin(self, environment: Environment, question: str | Question) -> ReactEpisode:
        """Return a new run: nothing searched, nothing shown but what came with the question; see `Method`.

        A checkpoint's own instruction is that of VRAG, and is not used.
        """
        pending = opening(self.instruction, "react.md", environment, question)
        return ReactEpisode(
            environment=environment, reselect=self.reselect, repair=self.repair, pending=pending
        )


@dataclass(slots=True, kw_only=True)
class ReactEpisode(VragEpisode):
    """The state of one run: as VRAG's, without crops."""

    built_in_tags: ClassVar[frozenset[str]] = frozenset({"search", "answer"})
    invalid_prompt: ClassVar[str] = "react_invalid.md"
    nothing_new_prompt: ClassVar[str] = "react_nothing_new.md"

    def _tool_names(self) -> frozenset[str]:
        return frozenset(self.environment.tools)
