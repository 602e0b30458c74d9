"""The reply of a run as text: the answer with citation markers, and their sources, for OpenAI's clients."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from pydantic import Field

from vrag.agent.answers.citation import CheckedClaim, Citation, MarkedText
from vrag.agent.answers.conflicts import DISAGREE, FoundConflict
from vrag.agent.events import (
    AnswerReading,
    DocumentChoice,
    Event,
    ModelRetried,
    RunFailed,
    StopReason,
    ThoughtDelta,
    ThoughtGiven,
)
from vrag.agent.runs.run_result import (
    LOOK_WHETHER,
    MAY_ANSWER,
    SEVERAL_DOCUMENTS,
    ResultKind,
    RunResult,
    describe_choices,
)
from vrag.render.markdown_text import inline
from vrag.render.text_format import A_MODEL, one_line, place_name, step_line
from vrag.render.verdicts import claim_lines, trust_line
from vrag.server.http.errors import FrozenModel, Refusal
from vrag.server.runs.run_manager import broken_off
from vrag.server.runs.schema import NumberedEvidence

_SOURCES = "\n\n**Sources**\n\n"
"""Heading between an answer and its sources."""
_LOOKED = "\n\n**Looked at**\n\n"
_PLACES = f"\n\n**{MAY_ANSWER}**\n\n"
_MAX_LOOKED_AT = 8
"""Places that are listed where there is no answer; `vrag.evidence` and the page of the run have all."""
_CHECKED = "\n\n**Checked against the sources**\n\n"
"""Heading between an answer and the verdicts on its claims."""
_CORRECTED = "\n\n**Corrected answer**\n\n"
"""Heading between what was streamed of an answer and the answer, where it is another."""
_WITHDRAWN = "I withdrew an answer, because the evidence does not support it: "
_NO_ANSWER = {
    StopReason.ABSTAINED: "I found no answer in the documents that I can support.",
    StopReason.OUT_OF_STEPS: "I reached the limit of steps before I had an answer.",
    StopReason.OUT_OF_TOKENS: "I ran out of tokens before I had an answer.",
    StopReason.OUT_OF_BUDGET: "I used up what this question may cost before I had an answer.",
    StopReason.CANCELLED: "I was stopped before I had an answer.",
}
_UNCERTAIN = f"Without a model, no answer is certain enough. {A_MODEL}"
_NOTHING = "I found nothing: "
_REMARKS = re.compile(
    rf"(?:\n\n\*(?:1 statement, [^\n]*|[^\n]* verified on the page[^\n]*|[^\n]*{re.escape(LOOK_WHETHER)})\*)?"
    rf"(?:\n\n(?:- {DISAGREE}: [^\n]*\n?)+(?<!\n))?(?:\n\n{SEVERAL_DOCUMENTS}: [^\n]*)?\Z"
)
"""What stands behind an answer: the line of trust, conflicts, and the choice of documents."""
_LISTED = re.compile(r"^- \[(\d+)\] \[", re.MULTILINE)
"""The number of a source in the list."""
_ADDRESSED = re.compile(r"!\[|\[(?=\d+\]:)")
"""Begins a picture, or the address of all markers of a number."""
_LENGTH = frozenset({StopReason.OUT_OF_STEPS, StopReason.OUT_OF_TOKENS, StopReason.OUT_OF_BUDGET})


class UrlCitation(FrozenModel):
    """A marker in the text, and its source."""

    start_index: int = Field(description="Start of the marker in the content, in characters.")
    end_index: int = Field(description="Its end.")
    title: str = Field(description="Document and page, or time span of a video.")
    url: str = Field(description="The place on this server's page.")


class Annotation(FrozenModel):
    """A citation in OpenAI's form."""

    type: Literal["url_citation"] = "url_citation"
    url_citation: UrlCitation

    def moved(self, characters: int) -> Annotation:
        """Return it for content with so many further characters before."""
        marker = self.url_citation
        places = {"start_index": marker.start_index + characters, "end_index": marker.end_index + characters}
        return Annotation(url_citation=marker.model_copy(update=places))


class AnswerSource(NumberedEvidence):
    """A piece of evidence of the answer."""

    url: str = Field(description="The place on this server's page.")

    @property
    def title(self) -> str:
        """Document and page, or time span of a video."""
        return f"{self.document}, {place_name(self)}"


class VragPart(FrozenModel):
    """Fields that OpenAI's form has no place for."""

    run_id: str = Field(description="Id of the run: GET /runs/{id} has its details.")
    stop_reason: StopReason
    kind: ResultKind = Field(
        default=ResultKind.NONE, description="answer, places (without a model, no answer) or none."
    )
    answer: str | None = Field(
        default=None, description="The answer without markers, to which `citations` and `claims` refer."
    )
    withdrawn: str | None = Field(
        default=None, description="An answer that was withdrawn, since its evidence does not support it."
    )
    citations: tuple[Citation, ...] = Field(
        default=(), description="Parts of the answer, by characters, and the numbers of their evidence."
    )
    claims: tuple[CheckedClaim, ...] = Field(
        default=(), description="Claims of the answer, by characters, and what the evidence says about each."
    )
    conflicts: tuple[FoundConflict, ...] = Field(
        default=(),
        description="Where other documents disagree with the answer, both sides with their places.",
    )
    choices: tuple[DocumentChoice, ...] = Field(
        default=(), description="Documents that the question may be about, where it does not say which."
    )
    evidence: tuple[AnswerSource, ...] = Field(
        description="Evidence of the answer; of an abstention, where the agent looked."
    )
    looked_at: tuple[AnswerSource, ...] = Field(
        default=(), description="What else was looked at, with further numbers and without markers."
    )
    reading: AnswerReading | None = Field(
        default=None,
        description="The sentence or row of a short answer, its computation and its probability.",
    )


class VragUsage(FrozenModel):
    """The cost of a run besides tokens."""

    visual_tokens: int = Field(default=0, description="Visual tokens of all pictures shown to the model.")
    steps: int = Field(default=0, description="Model calls.")
    seconds: float = 0.0
    cost: float | None = Field(
        default=None, description="In the currency of the prices; null where they are unknown."
    )


class CompletionUsage(FrozenModel):
    """Tokens of all model calls of the run; 0 if the model does not report them."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    total_tokens: int = 0
    vrag: VragUsage = VragUsage()


@dataclass(frozen=True, slots=True)
class CompletionReply:
    """The content of a reply."""

    answer: str
    """The answer with its markers, or a sentence that explains why there is none."""
    sources: str
    """The list of sources that follows; empty without any."""
    annotations: tuple[Annotation, ...]
    """One for each marker of the answer."""
    vrag: VragPart
    is_cut: bool
    """True if a limit ended the run."""

    @property
    def content(self) -> str:
        """Answer and sources."""
        return self.answer + self.sources

    def after(self, sent: str) -> CompletionReply:
        """Return the reply that goes on after content that was sent, or follows it where that differs."""
        if self.answer.startswith(sent):
            return self
        before = f"{sent}{_CORRECTED}"
        annotations = tuple(annotation.moved(len(before)) for annotation in self.annotations)
        return replace(self, answer=before + self.answer, annotations=annotations)


@dataclass(slots=True)
class Reasoning:
    """Thoughts and steps of a run as growing text."""

    _thinking: bool = field(default=False)
    """True if a part of this step's thought has arrived."""

    def add(self, event: Event) -> str:
        """Return the text that an event adds; often none."""
        match event:
            case ThoughtDelta():
                self._thinking = True
                return event.text
            case ThoughtGiven():
                text = "\n\n" if self._thinking else f"{event.text}\n\n"
                self._thinking = False
                return text
            case _:
                line = step_line(event)
                broken = "\n\n" if line and self._thinking else ""
                self._thinking = self._thinking and not isinstance(event, ModelRetried) and not line
                return f"{broken}{line}\n\n" if line else ""


def build_reply(run: str, outline: RunResult, url: str) -> CompletionReply:
    """Build the reply for a finished run; `url` is its address on this server's page.

    Raises `Refusal` if the model or the search failed (502), or the run broke off (500).
    """
    end = outline.end
    if end is None:
        raise broken_off()
    is_cut = end.stop_reason in _LENGTH
    if isinstance(end, RunFailed) and not is_cut:
        raise Refusal(502, one_line(end.message))
    evidence, looked_at = (
        tuple(AnswerSource(**dict(place), url=f"{url}?cite={place.number}") for place in places)
        for places in NumberedEvidence.all_of(outline)
    )
    part = VragPart(
        run_id=run,
        stop_reason=end.stop_reason,
        kind=outline.kind,
        answer=outline.answer,
        withdrawn=outline.withdrawn,
        citations=outline.citations,
        claims=outline.claims,
        conflicts=outline.conflicts,
        choices=outline.choices,
        evidence=evidence,
        looked_at=looked_at,
        reading=outline.reading,
    )
    without_model = outline.is_without_model
    verdicts = _describe_trust(outline) + _conflicts(outline) + _choices(outline)
    if outline.answer is None:
        message = _reason(outline, without_model=without_model)
        heading = _PLACES if outline.kind is ResultKind.PLACES else _LOOKED
        sources = _source_list(heading, evidence[:_MAX_LOOKED_AT], evidence[_MAX_LOOKED_AT:])
        return CompletionReply(message, verdicts + sources, (), part, is_cut)
    marked, annotations = _with_annotations(outline.marked_answer, evidence)
    return CompletionReply(marked, verdicts + _source_list(_SOURCES, evidence), annotations, part, is_cut)


def plain_answer(content: str) -> str | None:
    """Return the answer in one of our replies that a client sends back, without markers and sources.

    None if it had no answer. Messages of others are left as they are; they may be of any length.
    """
    content = content.rpartition(_CORRECTED)[2]
    for heading in (_SOURCES, _LOOKED, _PLACES):
        answer, found, listed = content.rpartition(heading)
        if found:
            numbers = set(_LISTED.findall(listed))
            content = _without_markers(_REMARKS.sub("", answer.partition(_CHECKED)[0]), numbers)
    is_none = content in {_UNCERTAIN, *_NO_ANSWER.values()} or content.startswith((_WITHDRAWN, _NOTHING))
    return None if is_none else content


def _without_markers(answer: str, numbers: Collection[str]) -> str:
    """Remove the markers of these numbers from an answer, and what separates them from its words."""
    if not numbers:
        return answer
    marker = rf"\[(?:{'|'.join(sorted(numbers))})\]"
    return re.sub(rf"(?:\n\n| |(?<=\])){marker}(\\(?=\())?", "", answer)


def usage_of(outline: RunResult) -> CompletionUsage:
    """Return the usage of a run."""
    used = outline.usage
    prompt, completion = used.prompt_tokens or 0, used.completion_tokens or 0
    return CompletionUsage(
        prompt_tokens=prompt,
        completion_tokens=completion,
        total_tokens=prompt + completion,
        vrag=VragUsage(
            visual_tokens=used.visual_tokens, steps=outline.calls, seconds=outline.seconds, cost=used.cost
        ),
    )


def _reason(outline: RunResult, *, without_model: bool) -> str:
    """Return why there is no answer."""
    if outline.withdrawn is not None:
        return f"{_WITHDRAWN}{_escape(outline.withdrawn)}"
    if outline.kind is ResultKind.PLACES:
        return _UNCERTAIN
    if without_model and outline.stop_reason is StopReason.ABSTAINED:
        return f"{_NOTHING}{_escape(outline.unanswered())}"
    return _NO_ANSWER.get(outline.stop_reason or StopReason.FAULT, "There is no answer.")


def _describe_trust(outline: RunResult) -> str:
    """Return the line of trust, and the claims that the evidence does not say, in Markdown."""
    trust = inline(trust_line(outline))
    lines = [f"- {inline(line)}" for line in claim_lines(outline)]
    if lines:
        return _CHECKED + "\n".join([f"{trust}\n", *lines])
    return f"\n\n*{trust}*" if trust else ""


def _conflicts(outline: RunResult) -> str:
    """Return where other documents disagree with the answer, in Markdown; empty if none does."""
    lines = [f"- {inline(conflict.sentence)}" for conflict in outline.conflicts]
    return "\n\n" + "\n".join(lines) if lines else ""


def _choices(outline: RunResult) -> str:
    """Return the documents that the question may be about, in a sentence; empty where it says which."""
    choices = describe_choices(outline.choices)
    return f"\n\n{inline(choices)}" if choices else ""


def _with_annotations(
    marked: MarkedText, sources: Sequence[AnswerSource]
) -> tuple[str, tuple[Annotation, ...]]:
    """Return an answer with its markers, escaped, and the positions of the markers in it."""
    answer, starts = escape_answer(marked)
    annotations: list[Annotation] = []
    for marker, start in zip(marked.markers, starts, strict=True):
        source = sources[marker.number - 1]
        citation = UrlCitation(
            start_index=start,
            end_index=start + marker.end - marker.start,
            title=source.title,
            url=source.url,
        )
        annotations.append(Annotation(url_citation=citation))
    return answer.rstrip(), tuple(annotations)


def escape_answer(marked: MarkedText) -> tuple[str, tuple[int, ...]]:
    """Return an answer with its markers, escaped, and where each of them starts in it."""
    answer, at = "", 0
    starts: list[int] = []
    for marker in marked.markers:
        answer += _escape(marked.text[at : marker.start], follows_marker=at > 0)
        starts.append(len(answer))
        answer += marked.text[marker.start : marker.end]
        at = marker.end
    return answer + _escape(marked.text[at:], follows_marker=at > 0), tuple(starts)


def _escape(text: str, *, follows_marker: bool = False) -> str:
    r"""Escape Markdown that would make a client fetch a picture, or make links of markers.

    Their addresses may come from a document.
    """
    escaped = _ADDRESSED.sub(lambda found: found[0].replace("[", "\\["), text)
    return f"\\{escaped}" if follows_marker and escaped.startswith("(") else escaped


def _source_list(heading: str, sources: Sequence[AnswerSource], further: Sequence[AnswerSource] = ()) -> str:
    """List the sources in Markdown, with names of documents escaped."""
    if not sources:
        return ""
    lines: list[str] = []
    for source in sources:
        place = inline(source.title)
        lines.append(f"- [{source.number}] [{place}]({source.url})")
    if further:
        lines.append(f"- [{len(further)} more]({further[0].url})")
    return heading + "\n".join(lines)
