"""ReAct with search alone: think, then search or answer, and never look closer (arXiv 2210.03629).

The baseline of the papers of VRAG and VimRAG: VRAG's loop, environment and limits without the crop. What it
scores less than VRAG is what looking closer is worth.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from vrag.agent.actions import Action, Turn
from vrag.agent.environment import Environment
from vrag.agent.methods.vrag import VragEpisode, VragMethod, opening
from vrag.agent.policy import Policy
from vrag.agent.prompts import prompt
from vrag.agent.question import Question

_WITHOUT = frozenset({"bbox"})


@dataclass(frozen=True, slots=True, kw_only=True)
class React(VragMethod):
    """The method ReAct: one growing conversation of searches; options and limits are those of VRAG."""

    name: ClassVar[str] = "react"
    title: ClassVar[str] = "ReAct"
    description: ClassVar[str] = "search alone"

    def offline_policy(self, environment: Environment) -> Policy:
        """Open the policy without a model; see `Method`."""
        from vrag.agent.policies.extractive import ExtractivePolicy

        return ExtractivePolicy(environment.searcher, environment.profile, crops=False)

    def begin(self, environment: Environment, question: str | Question) -> ReactEpisode:
        """Return a new run: nothing searched, nothing shown but what came with the question; see `Method`.

        A checkpoint's own instruction is that of VRAG, and is not used.
        """
        pending = opening(self.instruction, "react.md", environment, question)
        return ReactEpisode(environment, self.reselect, pending, repair=self.repair)


@dataclass(slots=True)
class ReactEpisode(VragEpisode):
    """The state of one run: as VRAG's, without crops."""

    def parse(self, reply: str, *, last: bool = False, cut: bool = False) -> Turn[Action]:
        """Take a reply apart; a box is `Invalid`."""
        return self._read(reply, frozenset(self.environment.extensions), _WITHOUT, last=last, cut=cut)

    def _refusal(self, reason: str) -> str:
        return prompt("react_invalid.md", reason=reason)

    def _nothing_new(self) -> str:
        return prompt("react_nothing_new.md")
