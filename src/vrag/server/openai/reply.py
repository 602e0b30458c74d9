"""The reply to a chat completion request: the answer with citation markers, and their sources."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from vrag.agent.events import AnswerGiven, ModelRetried, RunFailed, StopReason, ThoughtDelta, ThoughtGiven
from vrag.agent.runs.run_result import RunResult, citations, is_whole
from vrag.render.markdown import inline
from vrag.render.outcome import A_MODEL, OFFLINE, QUOTED, UNQUOTED, one_line, step_line
from vrag.render.text_format import where
from vrag.server.http.errors import Refusal
from vrag.server.openai.schema import (
    Annotation,
    AnswerSource,
    CompletionUsage,
    UrlCitation,
    VragPart,
    VragUsage,
)
from vrag.server.runs.run_manager import broken_off

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vrag.agent.events import Event
    from vrag.agent.evidence import Evidence

_SOURCES = "\n\n**Sources**\n\n"
"""Heading between an answer and its sources."""
_LOOKED = "\n\n**Looked at**\n\n"
_MAX_SOURCES = 8
"""Sources that are listed; `vrag.evidence` and the page of the run have all."""
_NO_ANSWER = {
    StopReason.ABSTAINED: "I found no answer in the documents that I can support.",
    StopReason.OUT_OF_STEPS: "I reached the limit of steps before I had an answer.",
    StopReason.OUT_OF_TOKENS: "I ran out of tokens before I had an answer.",
    StopReason.OUT_OF_BUDGET: "I used up what this question may cost before I had an answer.",
    StopReason.CANCELLED: "I was stopped before I had an answer.",
}
_UNQUOTED = f"{UNQUOTED} {A_MODEL}"
_QUOTED = f"\n\n*{QUOTED}*"
_MARKERS = re.compile(r"(\[\d\])+\Z")
_LENGTH = frozenset({StopReason.OUT_OF_STEPS, StopReason.OUT_OF_TOKENS, StopReason.OUT_OF_BUDGET})


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

    Raises:
        Refusal: If the model or the search failed (502), or the run broke off (500).
    """
    end = outline.end
    if end is None:
        raise broken_off()
    if isinstance(end, RunFailed) and end.stop_reason not in _LENGTH:
        raise Refusal(502, one_line(end.message))
    text = end.text if isinstance(end, AnswerGiven) else None
    part = _vrag_part(run, outline, end, url)
    is_cut = end.stop_reason in _LENGTH
    offline = outline.started.settings.policy == OFFLINE
    if text is None:
        unquoted = offline and end.stop_reason is StopReason.ABSTAINED
        message = _UNQUOTED if unquoted else _NO_ANSWER.get(end.stop_reason, "There is no answer.")
        return CompletionReply(message, _source_list(_LOOKED, part.evidence), (), part, is_cut)
    marked, annotations = _with_markers(text, part.evidence[:_MAX_SOURCES])
    note = _QUOTED if offline else ""
    return CompletionReply(marked, note + _source_list(_SOURCES, part.evidence), annotations, part, is_cut)


def _vrag_part(run: str, outline: RunResult, end: AnswerGiven | RunFailed, url: str) -> VragPart:
    evidence = end.evidence if isinstance(end, AnswerGiven) else ()
    answered = isinstance(end, AnswerGiven) and end.text is not None
    cited = citations(evidence, outline.started.settings, answered=answered)
    places, rests = _sources(cited.rests + cited.besides, url), len(cited.rests)
    return VragPart(
        run_id=run, stop_reason=end.stop_reason, evidence=places[:rests], looked_at=places[rests:]
    )


def plain_answer(content: str) -> str | None:
    """Return the answer in one of our replies that a client sends back, without markers and sources.

    None if it had no answer. Messages of others are left as they are.
    """
    for heading in (_SOURCES, _LOOKED):
        answer, found, _ = content.rpartition(heading)
        if found:
            content = _without_markers(answer.removesuffix(_QUOTED))
    return None if content in {_UNQUOTED, *_NO_ANSWER.values()} else content


def _without_markers(answer: str) -> str:
    """Remove the markers at the end of an answer, which may come from anybody and be of any length."""
    markers = _MARKERS.search(answer[-3 * _MAX_SOURCES :])
    return answer[: -len(markers[0])].rstrip() if markers else answer


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


def _sources(evidence: Sequence[Evidence], url: str) -> tuple[AnswerSource, ...]:
    return tuple(
        AnswerSource(**dict(item), number=number, url=url) for number, item in enumerate(evidence, 1)
    )


def _with_markers(text: str, sources: Sequence[AnswerSource]) -> tuple[str, tuple[Annotation, ...]]:
    r"""Append a marker for each source to an answer; return it with the positions of the markers.

    Markdown that would make a client fetch a picture from an address in a document is escaped.
    """
    answer = text.rstrip().replace("![", "!\\[")
    answer += "" if not sources else "\n\n" if answer.endswith(("```", "|", "$$")) else " "
    annotations: list[Annotation] = []
    for source in sources:
        marker = f"[{source.number}]"
        citation = UrlCitation(
            start_index=len(answer),
            end_index=len(answer) + len(marker),
            title=f"{source.document}, {where(source).lower()}",
            url=source.url,
        )
        answer += marker
        annotations.append(Annotation(url_citation=citation))
    return answer, tuple(annotations)


def _source_list(heading: str, sources: Sequence[AnswerSource]) -> str:
    """List the sources in Markdown, with names of documents escaped."""
    if not sources:
        return ""
    lines = [f"- {_line(source)}" for source in sources[:_MAX_SOURCES]]
    if len(sources) > _MAX_SOURCES:
        lines.append(f"- [{len(sources) - _MAX_SOURCES} more]({sources[0].url})")
    return heading + "\n".join(lines)


def _line(source: AnswerSource) -> str:
    sides = source.box
    box = "" if sides is None or is_whole(sides) else f", box {', '.join(f'{side:.3f}' for side in sides)}"
    place = inline(f"{source.document}, {where(source).lower()}")
    return f"[{source.number}] [{place}]({source.url}){box}"
