"""Records of questions: the data of reports and comparisons."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict, FiniteFloat

from vrag.agent.actions import ABSTENTION
from vrag.agent.events import StopReason
from vrag.agent.evidence import BoxSides
from vrag.cases import UNANSWERABLE, gold_pages

if TYPE_CHECKING:
    from vrag.types import Case


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
