"""A run and its verdict → the record of the question: what became of it, and all that can be measured."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from vrag.agent.events import PassageShown, StopReason
from vrag.cases import UNANSWERABLE, gold_documents, gold_pages
from vrag.evaluation.measures.citations import citing, joint
from vrag.evaluation.measures.cost import conduct
from vrag.evaluation.measures.grounding import grounding
from vrag.evaluation.measures.ranking import looking
from vrag.evaluation.record import CaseOutcome, CaseRecord, EvidencePlace, subject_of
from vrag.reward.parts import answer_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vrag.agent.evidence import BoxSides, Evidence
    from vrag.agent.runs.run_result import RunResult
    from vrag.datasets.protocols import Rule
    from vrag.evaluation.record import Extraction
    from vrag.evaluation.relevance import DocumentNames
    from vrag.reward.reward import Reward
    from vrag.rollouts.rollout import Rollout
    from vrag.types import Case

_BROKEN_OFF = frozenset(
    {StopReason.CANCELLED, StopReason.MODEL_ERROR, StopReason.SEARCH_ERROR, StopReason.FAULT, None}
)
"""Ends that are none of the policy's doing; None: it was cut off."""
_WHOLE_PAGE = 1e-6
"""How near its edges a box that is the page as a whole comes, as a fraction of the page."""


class JudgedOutcome(NamedTuple):
    """What became of a question."""

    outcome: CaseOutcome
    why: str
    judged: bool = False
    """Whether the verdict decided it."""


def record_of(  # noqa: PLR0913 - all but the first five may be left out
    case: Case,
    sample: int,
    rollout: Rollout,
    reward: Reward | None,
    names: DocumentNames,
    *,
    judge: str = "",
    rule: Rule | None = None,
    extraction: Extraction | None = None,
    retrieval: Mapping[str, float] | None = None,
) -> CaseRecord:
    """What is kept of a run.

    Args:
        case: The question.
        sample: Which run of it, from 0.
        rollout: The run.
        reward: The verdict on its answer, where anybody was asked; see `needs_verdict`. Its scorer has no
            gate: an answer that was found without a search is judged like others.
        names: Of the documents that were searched.
        judge: Who gives verdicts: `rules`, or the model.
        rule: Measures the answer by published rules; see `vrag.datasets.registry`.
        extraction: The short answer that is measured in place of the run's, where one was asked for; see
            `needs_extraction`. Where it failed, nothing is measured by rules.
        retrieval: What a search for the question word for word found, as measured by
            `vrag.evaluation.retrieval`.
    """
    run = rollout.trajectory
    found = ruling(case, rollout, reward)
    passages = [event for event in rollout.events if isinstance(event, PassageShown)]
    measures = {
        **(retrieval or {}),
        **({} if rule is None else _by_rule(rule, case, rollout, extraction)),
        **looking(case, run, names, passages),
        **grounding(case, run, names),
        **citing(case, run, names),
        **conduct(run),
    }
    return CaseRecord(
        subject=subject_of(case),
        sample=sample,
        run=run.run_id or None,
        outcome=found.outcome,
        why=found.why,
        judge=judge if found.judged else "",
        answer=run.answer,
        extracted=extraction,
        stop=None if run.stop_reason is None else run.stop_reason.value,
        evidence=tuple(_place(case, one, names) for one in run.evidence),
        measures=measures | joint(measures),
    )


def needs_verdict(rollout: Rollout) -> bool:
    """Whether it takes a judge to say what became of a question.

    Nobody needs to be asked about a run that failed, abstained or never answered. An answer to a question
    that cannot be answered needs one as well: it may be an abstention in other words.
    """
    run = rollout.trajectory
    return not _failed(rollout, run) and run.answer is not None


def needs_extraction(rollout: Rollout) -> bool:
    """Whether there is an answer of which a short one can be made.

    Of a run that failed, abstained or never answered there is none, and of an empty one nothing can be made.
    """
    run = rollout.trajectory
    return not _failed(rollout, run) and bool((run.answer or "").strip())


def ruling(case: Case, rollout: Rollout, reward: Reward | None) -> JudgedOutcome:
    """What became of a question, by the rules of `CaseOutcome`.

    - A run that broke off failed, whatever it had said by then. Running out of steps or tokens is no failure.
    - Of a question that cannot be answered: abstaining is right, and so is an answer of which the judge says
      that it abstains in other words. All else is wrong.
    - Of others: abstaining is its own outcome, no answer is wrong, and of an answer the judge decides.
    """
    run = rollout.trajectory
    if _failed(rollout, run):
        return JudgedOutcome(
            CaseOutcome.FAILED, rollout.failure or run.failure or f"The run ended: {_end(run)}."
        )
    unanswerable = case.reference_answer == UNANSWERABLE
    if run.stop_reason is StopReason.ABSTAINED:
        if unanswerable:
            return JudgedOutcome(CaseOutcome.RIGHT, "It abstained, and there is no answer.")
        return JudgedOutcome(CaseOutcome.ABSTAINED, "It abstained, though there is an answer.")
    if run.answer is None:
        return JudgedOutcome(CaseOutcome.WRONG, f"The run ended without an answer: {_end(run)}.")
    if unanswerable and reward is not None and reward.correct is False:
        return JudgedOutcome(CaseOutcome.WRONG, "It answered, though there is no answer.", judged=True)
    return _judged(reward)


def _by_rule(rule: Rule, case: Case, rollout: Rollout, extraction: Extraction | None) -> Mapping[str, float]:
    """What a rule measures; nothing where the short answer could not be had, which is none that is wrong."""
    if extraction is not None:
        return {} if extraction.answer is None else rule(case, extraction.answer)
    run = rollout.trajectory
    return rule(case, None if _failed(rollout, run) else answer_of(run))


def _judged(reward: Reward | None) -> JudgedOutcome:
    if reward is None or reward.correct is None:
        why = "" if reward is None else reward.why
        return JudgedOutcome(CaseOutcome.UNJUDGED, why or "There is no verdict on the answer.")
    return JudgedOutcome(
        CaseOutcome.RIGHT if reward.correct else CaseOutcome.WRONG, reward.said or reward.why, judged=True
    )


def _failed(rollout: Rollout, run: RunResult) -> bool:
    return rollout.failure is not None or run.stop_reason in _BROKEN_OFF


def _end(run: RunResult) -> str:
    return "cut off" if run.stop_reason is None else run.stop_reason.value.replace("_", " ")


def _place(case: Case, one: Evidence, names: DocumentNames) -> EvidencePlace:
    """Under the name that the gold has for its document, where it has one."""
    wanted = {name for name, _ in gold_pages(case)} | gold_documents(case) | {case.file_name}
    wanted |= {region.document for region in case.regions if region.document}
    name = names.among(wanted, one.document_id, one.document) or one.document
    return EvidencePlace(document=name, page=one.page, box=_part(one.box))


def _part(box: BoxSides | None) -> BoxSides | None:
    """A box; None for the page as a whole."""
    if box is None or all(
        abs(side - edge) <= _WHOLE_PAGE for side, edge in zip(box, (0, 0, 1, 1), strict=True)
    ):
        return None
    return box
