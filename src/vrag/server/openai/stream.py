"""A run as the chunks of a stream."""

from __future__ import annotations

from contextlib import aclosing, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from starlette.responses import StreamingResponse

from vrag.agent.runs.run_result import RunResult
from vrag.errors import VragError
from vrag.server.http.errors import Refusal
from vrag.server.openai.errors import error_of
from vrag.server.openai.reply import CompletionReply, Reasoning, reply_of, usage_of
from vrag.server.openai.schema import Chunk, ChunkChoice, ChunkDelta
from vrag.server.runs.sse import BEAT, with_beats

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterator

    from starlette.types import Receive, Scope, Send

    from vrag.server.openai.schema import ErrorBody
    from vrag.server.runs.run_manager import RunManager

__all__ = ["ChunkStream", "Watched", "frames", "stop"]

_FRESH = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
"""Proxies neither keep nor collect what comes."""
_DONE = b"data: [DONE]\n\n"


@dataclass(frozen=True, slots=True)
class Watched:
    """A run that was started for a request, and what the response says of itself."""

    run: str
    model: str
    """As it was asked for."""
    created: int
    """Seconds since 1970."""
    url: str
    """Of the run on this server's page."""

    @property
    def id(self) -> str:
        """Of the response."""
        return f"chatcmpl-{self.run}"

    def chunk(self, delta: ChunkDelta, finish: str | None = None) -> bytes:
        """A frame that adds something."""
        choice = ChunkChoice.model_validate({"delta": delta, "finish_reason": finish})
        return _frame(self._chunk(choice))

    def usage(self, outline: RunResult) -> bytes:
        """The frame that tells what was used, and nothing else."""
        return _frame(self._chunk().model_copy(update={"usage": usage_of(outline)}))

    def _chunk(self, *choices: ChunkChoice) -> Chunk:
        return Chunk(id=self.id, created=self.created, model=self.model, choices=choices)


class ChunkStream(StreamingResponse):
    """The response; its frames are closed with it, however it ends."""

    def __init__(self, frames: AsyncGenerator[bytes, None]) -> None:
        super().__init__(frames, 200, _FRESH, "text/event-stream")
        self._frames = frames

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Sends it, until it ends or the client leaves."""
        async with aclosing(self._frames):
            await super().__call__(scope, receive, send)


async def frames(host: RunManager, watched: Watched, *, with_usage: bool) -> AsyncGenerator[bytes, None]:
    """A run as chunks: thoughts and steps as they come, then the answer, then what it rests on.

    Closed before the run has ended, it stops the run: nobody else waits for it.

    Args:
        host: Has the run.
        watched: Which.
        with_usage: Whether the last chunk tells what was used.
    """
    outline: RunResult | None = None
    try:
        yield watched.chunk(ChunkDelta(role="assistant", content=""))
        reasoning = Reasoning()
        async with aclosing(with_beats(host.follow(watched.run))) as events:
            async for event in events:
                if event is None:
                    yield BEAT
                    continue
                outline = RunResult.of([event]) if outline is None else outline.plus(event)
                if text := reasoning.add(event):
                    yield watched.chunk(ChunkDelta(reasoning_content=text))
        if outline is None:
            raise Refusal(500, "The run broke off.", "Ask again.")  # noqa: TRY301 - told like what `reply_of` raises
        for frame in _ending(watched, reply_of(watched.run, outline, watched.url)):
            yield frame
        if with_usage:
            yield watched.usage(outline)
    except Refusal as refusal:
        yield _frame(error_of(refusal.status, str(refusal)))
    finally:
        if outline is None or outline.end is None:
            await stop(host, watched.run)
    yield _DONE


async def stop(host: RunManager, run: str) -> None:
    """Stops a run that nobody waits for any more; one that has ended is left as it is."""
    with suppress(VragError):
        await host.cancel(run)


def _ending(watched: Watched, reply: CompletionReply) -> Iterator[bytes]:
    yield watched.chunk(ChunkDelta(content=reply.answer))
    if reply.sources:
        yield watched.chunk(ChunkDelta(content=reply.sources))
    last = ChunkDelta(annotations=reply.annotations, vrag=reply.vrag)
    yield watched.chunk(last, "length" if reply.is_cut else "stop")


def _frame(content: Chunk | ErrorBody) -> bytes:
    return f"data: {content.model_dump_json()}\n\n".encode()
