"""The answer of a run or to a side question, before it is written in the form of one of the interfaces."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import NamedTuple

from vrag.agent.runs.run_result import RunResult
from vrag.render.text_format import one_line
from vrag.render.verdicts import claim_lines, trust_line
from vrag.server.openai.answer_format import SOURCE_FIELDS, JsonForm, UnfitError
from vrag.server.openai.chat_tasks import ChatTask
from vrag.server.openai.draft_content import DraftContent
from vrag.server.openai.errors import InvalidRequest
from vrag.server.openai.reply import (
    Annotation,
    CompletionReply,
    CompletionUsage,
    Reasoning,
    VragPart,
    build_reply,
    usage_of,
)
from vrag.server.runs.run_manager import broken_off
from vrag.server.runs.run_queue import QueuePosition
from vrag.server.runs.sse import with_beats
from vrag.server.runs.user_runs import UserRuns


class StreamedPiece(NamedTuple):
    """A piece of the thoughts or of the answer of a run; hardly ever of both."""

    thought: str
    content: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedAnswer:
    """A whole answer. Exactly one of `text`, `arguments` and `refusal` is not empty."""

    pieces: tuple[str, ...] = ()
    """The text, without what was streamed of it already."""
    function: str = ""
    """The function that the request demands; empty if there is none."""
    arguments: str = ""
    """Its arguments, which are the answer, as JSON."""
    refusal: str = ""
    """Why there is no answer in the form that was asked for."""
    annotations: tuple[Annotation, ...] = ()
    is_cut: bool = False
    """True if a limit ended the run."""
    vrag: VragPart | None = None
    """None for a side question."""
    usage: CompletionUsage = field(default_factory=CompletionUsage)

    @property
    def text(self) -> str:
        """The text; all of it if nothing was streamed."""
        return "".join(self.pieces)


PieceStream = AsyncGenerator[StreamedPiece | FinishedAnswer | None, None]
"""Pieces of an answer, None where none comes for long, and at the end the finished answer."""


@dataclass(frozen=True, slots=True)
class StartedAnswer:
    """A run that was started for a request."""

    run: str
    url: str
    """Address of the run on this server's page."""
    form: JsonForm | None
    """The form of the answer; None for text."""

    def finish(self, outline: RunResult, sent: str = "") -> FinishedAnswer:
        """Build the answer of a finished run, of which some text was sent. Raises as `build_reply`."""
        reply = build_reply(self.run, outline, self.url)
        usage = usage_of(outline)
        if self.form is None:
            reply = reply.after(sent)
            pieces = tuple(filter(None, (reply.answer[len(sent) :], reply.sources)))
            return FinishedAnswer(
                pieces=pieces,
                annotations=reply.annotations,
                is_cut=reply.is_cut,
                vrag=reply.vrag,
                usage=usage,
            )
        text, refusal = _write_json(self.form, outline, reply)
        return FinishedAnswer(
            pieces=() if self.form.function or refusal else (text,),
            function=self.form.function,
            arguments=text if self.form.function else "",
            refusal=refusal,
            is_cut=reply.is_cut,
            vrag=reply.vrag,
            usage=usage,
        )

    async def follow(self, runs: UserRuns) -> PieceStream:
        """Yield the answer of the run as it comes; JSON comes whole, in the finished answer.

        While the run waits, its position is a thought.
        """
        outline: RunResult | None = None
        reasoning, draft = Reasoning(), DraftContent()
        async with aclosing(with_beats(runs.follow(self.run))) as events:
            async for event in events:
                if event is None:
                    yield None
                    continue
                if isinstance(event, QueuePosition):
                    yield StreamedPiece(f"{event.text}\n\n", "")
                    continue
                outline = RunResult.of([event]) if outline is None else outline.plus(event)
                content = draft.add(event) if self.form is None else ""
                if any(piece := StreamedPiece(reasoning.add(event), content)):
                    yield piece
        if outline is None:
            raise broken_off()
        yield self.finish(outline, draft.sent)


def _write_json(form: JsonForm, outline: RunResult, reply: CompletionReply) -> tuple[str, str]:
    """Return an answer as JSON, and why it cannot be written so; one of them is empty."""
    fields = {
        "answer": outline.answer,
        "sources": [
            {name: getattr(source, name) for name in SOURCE_FIELDS}
            for source in (reply.vrag.evidence if outline.answer is not None else ())
        ],
        "trust": trust_line(outline),
        "claims_in_doubt": claim_lines(outline),
    }
    if outline.answer is None:
        fields["message"] = reply.answer
    try:
        return form.fill(fields, "answer"), ""
    except UnfitError as error:
        if outline.answer is None:
            return "", reply.answer
        reason = f"The answer does not have the form that {form.param} asks for: {error}."
        return "", f"{reason} It is: {one_line(reply.answer)}"


def answer_task(task: ChatTask, form: JsonForm | None, suggestions: Sequence[str]) -> FinishedAnswer:
    """Answer a side question. Raises `InvalidRequest` if the form that is asked for has no place for it."""
    try:
        text = task.write(task.answer(suggestions), form)
    except UnfitError as error:
        assert form is not None  # text always fits
        message = f"The {task.kind} of a conversation does not fit what {form.param} asks for: {error}."
        raise InvalidRequest(message, "Ask for text.", param=form.param) from error
    if form is not None and form.function:
        return FinishedAnswer(function=form.function, arguments=text)
    return FinishedAnswer(pieces=(text,))
