"""What a rule is: the published way in which a data set compares an answer with the right ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vrag.types import Case

__all__ = ["Rule"]


class Rule(Protocol):
    """Measures an answer without a model. Pure: the same answer has the same measures everywhere.

    The rules are those of the published scripts, down to what looks like an oversight, so that numbers can
    stand beside those of papers; each module says where ours differs. They expect a short answer, as their
    authors have one extracted by a model first. Whether an answer in a sentence is right, a judge says.
    """

    def __call__(self, case: Case, answer: str | None) -> Mapping[str, float]:
        """The measures by name, each 0 to 1; the best over `case.references` for each of them.

        Args:
            case: The question.
            answer: As `vrag.reward.parts.answer_of` gives it: what was said; "Not answerable" of a run that
                abstained; None of one that failed or never answered, which is 0 by every measure.
        """
        ...
