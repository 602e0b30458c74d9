"""Records of questions, made of runs and verdicts: the data of reports and comparisons."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, NamedTuple

from pydantic import BaseModel, BeforeValidator, ConfigDict, FiniteFloat

from vrag.agent.actions import ABSTENTION
from vrag.agent.events import PassageShown, StopReason
from vrag.agent.evidence import BoxSides
from vrag.cases import UNANSWERABLE, gold_documents, gold_pages
from vrag.evaluation.measures.chains import chain, verdict_of, verifier
from vrag.evaluation.measures.docscope import docscope
from vrag.evaluation.measures.run_measures import citing, conduct, grounding, joint, looking, trust
from vrag.reading.verification.claim import ClaimVerdict
from vrag.reward.parts import answer_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from vrag.agent.evidence import Evidence
    from vrag.datasets.protocols import Rule
    from vrag.evaluation.measures.chains import ItemOf
    from vrag.evaluation.relevance import DocumentNames
    from vrag.reward.reward import Reward
    from vrag.rollouts.rollout import Rollout
    from vrag.types import Case

_BROKEN_OFF = frozenset(
    {StopReason.CANCELLED, StopReason.MODEL_ERROR, StopReason.SEARCH_ERROR, StopReason.FAULT, None}
)
"""Ends that the policy did not cause; None for a run that was cut off."""
_WHOLE_PAGE = 1e-6
"""Distance from the edges up to which a box is the page as a whole, as a fraction of the page."""


class CaseOutcome(StrEnum):
    """The outcome of a question."""

    RIGHT = "right"
    """Answered correctly; for a question that cannot be answered: abstained."""
    WRONG = "wrong"
    """Answered incorrectly; or the run came to its end without an answer."""
    ABSTAINED = "abstained"
    """Not answered, though there is an answer. Counts as wrong."""
    UNJUDGED = "unjudged"
    """No judge was available: neither right nor wrong."""
    FAILED = "failed"
    """The run broke off. Counts as wrong."""


class _FrozenRecord(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class EvidencePlace(_FrozenRecord):
    """A rectangle on a page: evidence of the answer, or gold."""

    document: str
    """File name."""
    page: int
    """From 1."""
    box: BoxSides | None
    """Fractions of the page; None for the page as a whole, or a document without images."""


class Extraction(_FrozenRecord):
    """The short answer that a model extracted from an agent's answer, for rules to compare."""

    answer: str | None
    """"Not answerable" where the agent said so; None where it failed: rules measured nothing then."""
    form: str = ""
    """Format by the model: `integer`, `float`, `string`, `list`, or empty. Rules use that of the data set."""
    why: str = ""
    """Reason why there is none."""


class Subject(_FrozenRecord):
    """The question: the parts of its case that reports show and group by."""

    benchmark: str
    uid: str
    question: str
    references: tuple[str, ...]
    """The usual answer first."""
    answerable: bool
    document: str
    """File name. Intervals and tests draw documents, as questions about one are not independent."""
    document_type: str = ""
    source_type: tuple[str, ...] = ()
    query_type: str = ""
    gold: tuple[EvidencePlace, ...] = ()
    """Gold rectangles; gold pages, without a box, where there are none."""
    spans: tuple[tuple[float, float], ...] = ()
    """Gold stretches of a video, start and end in seconds."""


def _drop_old_verdict(verdict: object) -> object:
    """Return None for a verdict of an earlier version, which meant something else."""
    return verdict if verdict in {known.value for known in ClaimVerdict} else None


class CaseRecord(_FrozenRecord):
    """The result of one question: a line of `records.jsonl`."""

    subject: Subject
    sample: int = 0
    """Number of the run of the question, from 0."""
    run: str | None = None
    """Id of its run in `runs/`; None where it failed before its first event."""
    outcome: CaseOutcome
    why: str = ""
    """Reason: the judge's or the rule's words; why it failed or has no verdict."""
    judge: str = ""
    """Judge: `rules`, or the model."""
    answer: str | None = None
    """None for a run that abstained, failed or never answered."""
    extracted: Extraction | None = None
    """Text that rules compared in place of `answer`; None where they compared that, or nothing."""
    stop: str | None = None
    """End of the run (`StopReason`)."""
    evidence: tuple[EvidencePlace, ...] = ()
    verdict: Annotated[ClaimVerdict | None, BeforeValidator(_drop_old_verdict)] = None
    """Verdict of the verifier on the answer, that on its worst claim; None where no claim was checked."""
    measures: dict[str, FiniteFloat]
    """Measures by the names of `vrag.evaluation.measures`; what could not be measured is missing."""

    @property
    def key(self) -> tuple[str, str, int]:
        """Key by which records of two runs of one benchmark are paired."""
        return self.subject.benchmark, self.subject.uid, self.sample

    @property
    def declined(self) -> bool:
        """True if rules compared "Not answerable": it abstained, or that was extracted from its answer."""
        short = None if self.extracted is None else self.extracted.answer
        return self.stop == StopReason.ABSTAINED.value or short == ABSTENTION


def subject_of(case: Case) -> Subject:
    """Return the question of a case."""
    boxes = tuple(
        EvidencePlace(document=region.document or case.file_name, page=region.page, box=region.box.as_tuple())
        for region in case.regions
    )
    pages = tuple(
        EvidencePlace(document=name, page=page, box=None) for name, page in sorted(gold_pages(case))
    )
    return Subject(
        benchmark=case.benchmark,
        uid=case.uid,
        question=case.query,
        references=case.references,
        answerable=case.reference_answer != UNANSWERABLE,
        document=case.file_name,
        document_type=case.document_type,
        source_type=case.source_type,
        query_type=case.query_type,
        gold=boxes or pages,
        spans=case.spans,
    )


class JudgedOutcome(NamedTuple):
    """The outcome of a question."""

    outcome: CaseOutcome
    why: str
    judged: bool = False
    """True if the verdict decided it."""


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
    items: ItemOf = lambda _: None,
    facts: Sequence[bool] | None = None,
) -> CaseRecord:
    """Build the record of a run.

    Args:
        case: The question.
        sample: Number of the run among those of the question, from 0.
        rollout: The run.
        reward: The verdict on its answer, where a judge was asked (`needs_verdict`). Its scorer has no gate:
            an answer that was found without a search is judged like others.
        names: Names of the documents that were searched, by which evidence is compared with the gold.
        judge: The judge, `rules` or the model, as the record names it where a verdict decided the outcome.
        rule: The published measures of the data set; None measures nothing by rules.
        extraction: The short answer that the rule measures in place of the run's, where one was asked for
            (`needs_extraction`); where it failed, rules measure nothing.
        retrieval: Measures of a search for the question, word for word.
        items: Returns items of the collection, for the words of gold and evidence; without them, it is not
            measured whether the evidence says the answer.
        facts: Verdicts on the facts of `measures.docscope.cited_facts`, in order, where a model was asked.
    """
    run = rollout.trajectory
    outcome = decide_outcome(case, rollout, reward)
    passages = [event for event in rollout.events if isinstance(event, PassageShown)]
    by_rule: Mapping[str, float] = {}
    if rule is not None and extraction is None:
        by_rule = rule(case, None if _failed(rollout) else answer_of(run))
    elif rule is not None and extraction is not None and extraction.answer is not None:
        by_rule = rule(case, extraction.answer)
    right = None if outcome.outcome is CaseOutcome.UNJUDGED else outcome.outcome is CaseOutcome.RIGHT
    answerable = case.reference_answer != UNANSWERABLE
    measures = {
        **(retrieval or {}),
        **by_rule,
        **looking(case, run, names, passages),
        **grounding(case, run, names),
        **citing(case, run, names),
        **chain(case, run, names, items, right=right),
        **verifier(run, right=right),
        **({} if _failed(rollout) else trust(run, answerable=answerable, right=right)),
        **docscope(case, run, names, facts),
        **conduct(run),
    }
    return CaseRecord(
        subject=subject_of(case),
        sample=sample,
        run=run.run_id or None,
        outcome=outcome.outcome,
        why=outcome.why,
        judge=judge if outcome.judged else "",
        answer=run.answer,
        extracted=extraction,
        stop=None if run.stop_reason is None else run.stop_reason.value,
        evidence=tuple(_place(case, item, names) for item in run.evidence),
        verdict=verdict_of(run),
        measures=measures | joint(measures),
    )


def needs_verdict(rollout: Rollout) -> bool:
    """Return whether a judge has to decide on the outcome of a question.

    A run that failed, abstained or never answered needs none. An answer to a question that cannot be answered
    needs one as well: it may be an abstention in other words.
    """
    return not _failed(rollout) and rollout.trajectory.answer is not None


def needs_extraction(rollout: Rollout) -> bool:
    """Return whether there is an answer to extract a short one from; an empty one does not count."""
    return not _failed(rollout) and bool((rollout.trajectory.answer or "").strip())


def decide_outcome(case: Case, rollout: Rollout, reward: Reward | None) -> JudgedOutcome:
    """Decide on the outcome of a question, by the rules of `CaseOutcome`.

    - A run that broke off failed, whatever it had said by then. Running out of steps or tokens is not a
      failure.
    - For a question that cannot be answered, abstaining is right, and so is an answer that the judge takes
      for an abstention in other words. All else is wrong.
    - For others, abstaining is its own outcome, no answer is wrong, and the judge decides on an answer.
    """
    run = rollout.trajectory
    end = "cut off" if run.stop_reason is None else run.stop_reason.value.replace("_", " ")
    if _failed(rollout):
        return JudgedOutcome(CaseOutcome.FAILED, rollout.failure or run.failure or f"The run ended: {end}.")
    unanswerable = case.reference_answer == UNANSWERABLE
    if run.stop_reason is StopReason.ABSTAINED:
        if unanswerable:
            return JudgedOutcome(CaseOutcome.RIGHT, "It abstained, and there is no answer.")
        return JudgedOutcome(CaseOutcome.ABSTAINED, "It abstained, though there is an answer.")
    if run.answer is None:
        return JudgedOutcome(CaseOutcome.WRONG, f"The run ended without an answer: {end}.")
    if reward is None or reward.correct is None:
        why = "" if reward is None else reward.why
        return JudgedOutcome(CaseOutcome.UNJUDGED, why or "There is no verdict on the answer.")
    outcome, why = CaseOutcome.RIGHT if reward.correct else CaseOutcome.WRONG, reward.said or reward.why
    if unanswerable and not reward.correct:
        why = "It answered, though there is no answer."
    return JudgedOutcome(outcome, why, judged=True)


def _failed(rollout: Rollout) -> bool:
    return rollout.failure is not None or rollout.trajectory.stop_reason in _BROKEN_OFF


def _place(case: Case, item: Evidence, names: DocumentNames) -> EvidencePlace:
    """Return the place of evidence under the name that the gold has for its document, where it has one."""
    gold = {name for name, _ in gold_pages(case)} | gold_documents(case) | {case.file_name}
    gold |= {region.document for region in case.regions if region.document}
    name = names.among(gold, item.document_id, item.document) or item.document
    box = item.box
    if box is not None:
        sides = zip(box, (0, 0, 1, 1), strict=True)
        if all(abs(side - edge) <= _WHOLE_PAGE for side, edge in sides):
            box = None  # the page as a whole
    return EvidencePlace(document=name, page=item.page, box=box)
