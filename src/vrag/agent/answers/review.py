"""The review of an answer before it is given: its evidence is checked and cited, its claims are compared."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from vrag.agent.answers.citation import CheckedClaim, Citation
from vrag.agent.answers.claim_judge import ClaimsToJudge
from vrag.agent.answers.conflicts import FoundConflict, find_answer_conflicts, find_place_conflicts
from vrag.agent.answers.markers import ModelMarker
from vrag.agent.budget import StopReason
from vrag.agent.environment import Environment
from vrag.agent.events import AnswerReading
from vrag.agent.evidence import Evidence, EvidenceCandidate, check_evidence, place_of
from vrag.agent.method import AgentEpisode
from vrag.agent.policy import Picture
from vrag.agent.question import Question
from vrag.reading.page_faults import UnreadPart, tolerate_fault
from vrag.reading.verification.claim import ClaimDoubt

if TYPE_CHECKING:
    from vrag.agent.answers.support import SupportedAnswer
    from vrag.reading.verification.claim_evidence import ClaimCheck
    from vrag.search.searcher import ItemStore


@dataclass(frozen=True, slots=True)
class AnswerReview:
    """An answer, and what it rests on."""

    text: str | None
    """The answer without markers; None of an abstention."""
    evidence: tuple[Evidence, ...] = ()
    citations: tuple[Citation, ...] = ()
    claims: tuple[CheckedClaim, ...] = ()
    conflicts: tuple[FoundConflict, ...] = ()
    """Where other documents disagree with what it rests on."""
    reading: AnswerReading | None = None
    pictures: tuple[Picture, ...] = ()
    """Pictures of evidence that are not among those shown."""
    faults: tuple[str, ...] = ()
    """The reason pieces of evidence or markers were left out."""
    stop_reason: StopReason | None = None
    named: tuple[str, ...] = ()
    """SHA-256 of the pictures that the model itself names as evidence."""
    checks: tuple[ClaimCheck, ...] = ()
    """The verdicts on the claims with the places of the words, for the second reading."""
    to_judge: ClaimsToJudge | None = None
    """The claims with the pictures that a judge looks at; None where none were checked."""

    @property
    def is_misread(self) -> bool:
        """True if the second reading reads something else than the answer says."""
        return any(claim.doubt is ClaimDoubt.READING for claim in self.claims)

    def with_checks(self, checks: tuple[ClaimCheck, ...]) -> AnswerReview:
        """Return the review with other verdicts on its claims."""
        from vrag.agent.answers.claim_check import as_checked  # the reader takes time to load

        claims = tuple(map(as_checked, checks))
        to_judge = replace(self.to_judge, claims=claims) if self.to_judge is not None else None
        return replace(self, checks=checks, claims=claims, to_judge=to_judge)


@dataclass(frozen=True, slots=True)
class CitedMarkers:
    """The evidence that markers refer to."""

    candidates: list[EvidenceCandidate] = field(default_factory=list[EvidenceCandidate])
    by_marker: list[list[tuple[Evidence, ...]]] = field(default_factory=list[list[tuple[Evidence, ...]]])
    """The evidence that each reference of each marker stands for."""
    faults: list[str] = field(default_factory=list[str])

    def limited_to(self, evidence: Sequence[Evidence]) -> list[list[tuple[Evidence, ...]]]:
        """Return what each reference of each marker stands for, as far as it is among some evidence."""
        places = {place_of(entry) for entry in evidence}
        return [
            [group for one in groups if (group := tuple(entry for entry in one if place_of(entry) in places))]
            for groups in self.by_marker
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewOptions:
    """The options of the review of an answer."""

    locate: bool = True
    """Whether its places are looked for. If not, its evidence is what the model was shown, as it was shown
    it, and nothing is drawn again or compared."""
    verify: bool = False
    """Whether its claims are compared with the evidence."""
    conflicts: bool = False
    """Whether what it rests on is compared with other documents: those that a search for it finds, and those
    that a model was shown."""
    places: bool = False
    """Whether the parts of pages are found that may answer a question without an answer; true without a
    model."""


def review_answer(
    question: Question,
    answer: str | None,
    episode: AgentEpisode,
    environment: Environment,
    *,
    given: str | None,
    options: ReviewOptions,
) -> AnswerReview:
    """Find what an answer rests on, and compare its claims with it. May block.

    Args:
        question: The question.
        answer: The text of the model's answer; None where it gave none.
        episode: The state of the run.
        environment: The environment of the run.
        given: The answer as it is given; None of an abstention, which has evidence and no citations.
        options: What is looked for.
    """
    markers = find_cited(episode, episode.markers if given is not None else ())
    candidates = [*episode.evidence(answer), *markers.candidates]
    named = _named_pictures(candidates, markers, episode) if given is not None else ()
    if not options.locate:
        return replace(_cite_as_shown(given, candidates, markers, episode), named=named)
    review = _locate_and_check(question, given, candidates, markers, episode, environment, options)
    return replace(review, named=named)


def _named_pictures(
    candidates: Sequence[EvidenceCandidate], markers: CitedMarkers, episode: AgentEpisode
) -> tuple[str, ...]:
    """Return the hashes of the pictures that the model itself names as evidence; see `AnswerGiven.named`."""
    chooses = episode.selected is not None or episode.names_evidence
    chosen = markers.candidates or (candidates if chooses else ())
    hashes = (candidate.evidence.crop_sha256 for candidate in chosen)
    return tuple(dict.fromkeys(sha256 for sha256 in hashes if sha256))


def _cite_as_shown(
    given: str | None, candidates: Sequence[EvidenceCandidate], markers: CitedMarkers, episode: AgentEpisode
) -> AnswerReview:
    """Return an answer with what the model was shown, what its markers cite first."""
    shown = [*markers.candidates, *candidates]
    evidence = distinct_places([candidate.evidence for candidate in shown])
    faults = tuple(dict.fromkeys(markers.faults))
    if given is None or not markers.candidates:
        return AnswerReview(given, evidence, faults=faults)
    from vrag.agent.answers.support import cited_parts  # the reader takes time to load

    numbers = {place_of(entry): number for number, entry in enumerate(evidence, 1)}
    citations = (
        Citation(
            start=part.start,
            end=part.end,
            numbers=tuple(sorted({numbers[place_of(entry)] for group in part.cited for entry in group})),
            source="model",
        )
        for part in cited_parts(given, episode.markers, markers.by_marker)
    )
    cited = tuple(citation for citation in citations if citation.numbers)
    return AnswerReview(given, evidence, cited, faults=faults)


def _locate_and_check(
    question: Question,
    given: str | None,
    candidates: Sequence[EvidenceCandidate],
    markers: CitedMarkers,
    episode: AgentEpisode,
    environment: Environment,
    options: ReviewOptions,
) -> AnswerReview:
    """Check the evidence, and find the places of the answer on it; see `review_answer`."""
    evidence, faults = check_evidence(candidates, environment)
    faults = (*faults, *markers.faults)
    if given is None and evidence and options.places:
        return _list_places(question, evidence, faults, environment, conflicts=options.conflicts)
    if given is None or not evidence:
        return AnswerReview(given, evidence, faults=faults)
    distinct = distinct_places(evidence)
    supported = tolerate_fault(
        UnreadPart.EVIDENCE,
        "The places that the answer rests on could not be found",
        lambda: _support(question, given, episode, markers, distinct, environment),
        None,
    )
    if supported is None:
        return AnswerReview(given, evidence, faults=faults)
    others = [entry for entry in evidence if entry not in distinct]  # the same places, of other nodes
    checks: tuple[ClaimCheck, ...] = ()
    if options.verify:
        from vrag.agent.answers.claim_check import check_citations  # the reader takes time to load

        supported, checks = tolerate_fault(
            UnreadPart.EVIDENCE,
            "The claims of the answer could not be checked",
            partial(check_citations, question, given, supported, environment),
            (supported, checks),
        )
    supported, further = tolerate_fault(
        UnreadPart.EVIDENCE,
        "The rectangles of the evidence could not be fitted to its lines",
        partial(_end_between_lines, supported, others, environment),
        (supported, others),
    )
    disagreeing: tuple[FoundConflict, ...] = ()
    if options.conflicts:
        seen = () if options.places else tuple(episode.seen)
        disagreeing = _find_conflicts(question, given, supported, environment, seen)
    shown = [*supported.pictures, *(candidate.picture for candidate in candidates if candidate.picture)]
    jpegs = {picture.sha256: picture.jpeg for picture in shown}
    to_judge = ClaimsToJudge(question.text, given, (), supported.citations, supported.cited, jpegs)
    review = AnswerReview(
        given,
        (*supported.evidence, *further),
        supported.citations,
        (),
        disagreeing,
        supported.reading,
        supported.pictures,
        faults,
        to_judge=to_judge if checks else None,
    )
    return review.with_checks(checks) if checks else review


def _find_conflicts(
    question: Question, given: str, supported: SupportedAnswer, environment: Environment, seen: Sequence[str]
) -> tuple[FoundConflict, ...]:
    """Compare what an answer rests on with other documents, and with the items `seen` by a model."""
    context = supported.reading.context if supported.reading is not None else ""
    return tolerate_fault(
        UnreadPart.EVIDENCE,
        "The answer could not be compared with other documents",
        partial(
            find_answer_conflicts,
            given,
            context,
            supported.cited,
            environment,
            question=question.text if seen else "",
            shown=seen,
        ),
        (),
    )


def read_claims_again(
    question: Question, review: AnswerReview, environment: Environment, items: ItemStore, *, places: bool
) -> AnswerReview:
    """Read the pictures that the claims of an answer rest on again, by OCR. May block.

    Args:
        question: The question.
        review: The answer with the verdicts of the rules.
        environment: The environment of the run.
        items: The items whose pictures are drawn.
        places: Whether places are given in place of an answer that is misread.
    """
    from vrag.agent.answers.page_strips import PageStrips  # the reader takes time to load
    from vrag.reading.verification.second_reading import read_again

    def read_checks() -> tuple[ClaimCheck, ...]:
        ids = {words.item for check in review.checks for words in (*check.operands, *check.words)}
        ids |= {check.item for check in review.checks}
        known = {id: environment.item(id) for id in ids if id}
        return read_again(review.checks, known, PageStrips(items))

    checks = tolerate_fault(
        UnreadPart.EVIDENCE,
        "The pictures that the claims rest on could not be read again",
        read_checks,
        review.checks,
    )
    read = review.with_checks(checks)
    if places and read.is_misread:
        found = _list_places(question, read.evidence, read.faults, environment, conflicts=False)
        return replace(found, conflicts=read.conflicts)
    return read


def _list_places(
    question: Question,
    evidence: tuple[Evidence, ...],
    faults: tuple[str, ...],
    environment: Environment,
    *,
    conflicts: bool,
) -> AnswerReview:
    from vrag.agent.answers.answer_place import locate_places  # the reader takes time to load

    found, pictures = tolerate_fault(
        UnreadPart.EVIDENCE,
        "The parts of the pages that may answer could not be found",
        lambda: locate_places(question, distinct_places(evidence), environment),
        (evidence, ()),
    )
    disagreeing: tuple[FoundConflict, ...] = ()
    if conflicts:
        disagreeing = tolerate_fault(
            UnreadPart.EVIDENCE,
            "The places could not be compared with other documents",
            lambda: find_place_conflicts(question.text, found, environment),
            (),
        )
    return AnswerReview(None, found, conflicts=disagreeing, pictures=pictures, faults=faults)


def _support(
    question: Question,
    answer: str,
    episode: AgentEpisode,
    markers: CitedMarkers,
    evidence: Sequence[Evidence],
    environment: Environment,
) -> SupportedAnswer:
    from vrag.agent.answers.support import cited_parts, support_answer  # the reader takes time to load

    parts = cited_parts(answer, episode.markers, markers.limited_to(evidence))
    selected = episode.selected is not None
    return support_answer(
        question, answer, parts, evidence, environment, selected=selected, named=episode.names_evidence
    )


def _end_between_lines(
    supported: SupportedAnswer, others: Sequence[Evidence], environment: Environment
) -> tuple[SupportedAnswer, tuple[Evidence, ...]]:
    """Return the evidence of an answer, and the other evidence, with rectangles that cut no words."""
    from vrag.agent.answers.answer_place import end_between_lines  # the reader takes time to load

    count = len(supported.evidence)
    evidence, pictures = end_between_lines([*supported.evidence, *others], environment)
    pictures = (*supported.pictures, *pictures)
    return replace(supported, evidence=evidence[:count], pictures=pictures), evidence[count:]


def find_cited(episode: AgentEpisode, written: Sequence[ModelMarker]) -> CitedMarkers:
    """Return what markers of the model refer to, and which refer to nothing."""
    markers = CitedMarkers()
    for marker in written:
        found: list[tuple[Evidence, ...]] = []
        for reference in marker.references:
            candidates = episode.cited(reference)
            if candidates is None:
                markers.faults.append(f"The answer cites [{reference}], which was not shown.")
                continue
            markers.candidates.extend(candidates)
            found.append(tuple(candidate.evidence for candidate in candidates))
        markers.by_marker.append(found)
    return markers


def distinct_places(evidence: Sequence[Evidence]) -> tuple[Evidence, ...]:
    """Return each place once, the first of those that are the same."""
    places: dict[Hashable, Evidence] = {}
    for entry in evidence:
        places.setdefault(place_of(entry), entry)
    return tuple(places.values())
