"""Episodes: rollouts whose replies come from outside, for trainers that own the model.

The agent runs as in serving and in our own trainers; only its policy waits for the replies that `step` is
given. So prompts, parser, environment, limits and reward are the same, and no torch is needed.
"""

from __future__ import annotations

import asyncio
import atexit
import base64
import os
import threading
from collections.abc import AsyncGenerator, Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias, TypeVar

from vrag.agent.agent import Agent
from vrag.agent.methods import METHODS
from vrag.agent.policies.local_model import as_chat
from vrag.agent.policy import Delta, EnclosedImage, FinishReason, Message, Picture, Reply, Text
from vrag.atomic_io import atomic_file
from vrag.cases.case_json import case_of
from vrag.errors import ContextTooLong, SettingsError
from vrag.model_profiles import profile_named
from vrag.parsing import parse_json
from vrag.reward.reward import Reward, Scorer
from vrag.rl.episodes.options import EpisodeOptions, open_agent, open_scorer, validate_options
from vrag.rollouts.rollout import Rollout, RolloutAttempt, ScoredRollout, play_attempt
from vrag.types import Case

T = TypeVar("T")
CLOSING_SECONDS = 5
"""For which the end of a process waits for runs that are cancelled."""
MAX_REPLY_CHARACTERS = 100_000
"""Characters of a reply at most: reading more would keep other episodes waiting for seconds."""
_LOCK = threading.Lock()
_PLAYING: set[asyncio.Task[ScoredRollout]] = set()
"""The runs that go on: an event loop itself does not keep them."""
ChatMessages: TypeAlias = list[dict[str, Any]]
"""Messages as chat templates and OpenAI-compatible servers take them: `role` and `content`."""


class EpisodeStep(NamedTuple):
    """The state after a reply."""

    messages: ChatMessages
    """The whole context of the next reply; empty at the end."""
    reward: float | None
    """The reward at the end; None before it, and where it is missing: `AsyncEpisode.reward` says why."""
    done: bool
    """True if nothing more is asked."""


class OutsidePolicy:
    """A policy whose replies are written outside of the run."""

    name = "outside"
    sampling: Mapping[str, float | int | str | bool] = {}

    def __init__(self) -> None:
        self.asked: asyncio.Queue[Sequence[Message]] = asyncio.Queue()
        """The contexts that wait for a reply: one at most."""
        self.replies: asyncio.Queue[Reply | None] = asyncio.Queue()
        """The replies that were given; None if the model cannot reply."""

    async def reply(self, history: Sequence[Message], turn: int = 1) -> AsyncGenerator[Delta | Reply, None]:  # noqa: ARG002 - the history is enough
        """Wait for the next reply; raise `ContextTooLong` if none can be given. See `Policy`."""
        self.asked.put_nowait(history)
        reply = await self.replies.get()
        if reply is None:
            raise ContextTooLong("The model has no room for a reply.")
        if reply.text:
            yield Delta(reply.text)
        yield reply

    async def aclose(self) -> None:
        """Do nothing: nothing is held."""


class AsyncEpisode:
    """One question at a time, answered by replies from outside. Any number can run in an event loop at once.

    Faults of the search, the judge and the program, and the deadline, end an episode without a reward. Close
    an episode that is given up, or reset it: its run is cancelled.

    Args:
        agent: The agent, whose own policy is not used; `open_agent` opens one from options.
        scorer: Gives the rewards.
        images: What a picture in a message is: `pil` for a PIL image, `url` for a data URL, or the folder of
            the JPEG files whose paths are given.
        seconds: Deadline of an episode, with the time that replies take; None for none.
    """

    def __init__(
        self, agent: Agent, scorer: Scorer, *, images: str | Path = "pil", seconds: float | None = None
    ) -> None:
        self.agent, self.scorer, self.images, self.seconds = agent, scorer, images, seconds
        self.history: tuple[Message, ...] = ()
        """The context that waits for a reply."""
        self.observation: ChatMessages | None = None
        """The messages since the last reply; None if the context does not go on from it but was rebuilt."""
        self._policy = OutsidePolicy()
        self._playing: asyncio.Task[ScoredRollout] | None = None

    @classmethod
    def of(
        cls, options: Mapping[str, Any], *, agent: str = "vrag", images: str | Path = "pil"
    ) -> AsyncEpisode:
        """Make an episode from `EpisodeOptions`.

        `profile` names the family of the model. Raises `SettingsError` if an option cannot be used.
        """
        read = validate_options(EpisodeOptions, options)
        trainable = [name for name, method in METHODS.items() if method.trainable]
        if agent not in trainable:
            known = " and ".join(trainable)
            raise SettingsError(f"There are no episodes of the agent {agent!r}.", f"Known: {known}.")
        if read.profile == "auto":
            hint = "Set it to the family of the model, for instance qwen2.5-vl."
            raise SettingsError("Episodes need the option `profile`.", hint)
        runner = open_agent(agent, OutsidePolicy(), read, profile_named(read.profile))
        return cls(runner, open_scorer(agent, read), images=images, seconds=read.seconds)

    @property
    def played(self) -> ScoredRollout | None:
        """The rollout with its events, files and reward; None before the end, and for a cancelled run."""
        playing = self._playing
        has_ended = playing is not None and playing.done() and not playing.cancelled()
        return playing.result() if playing is not None and has_ended else None

    @property
    def reward(self) -> Reward | None:
        """The reward with its parts, or why it is missing; None before the end."""
        return None if self.played is None else self.played.reward

    @property
    def rollout(self) -> Rollout | None:
        """The run; None before the end."""
        return None if self.played is None else self.played.rollout

    async def reset(self, case: Case | Mapping[str, Any] | str) -> ChatMessages:
        """Begin an episode; return the messages to reply to, none where it has ended already.

        A mapping or a JSON text is a case as in files: `vrag.cases.case_json`. Raises `CaseError` if it is no
        case, and `ValueError` if the text is no JSON.
        """
        if not isinstance(case, Case):
            case = case_of(parse_json(case) if isinstance(case, str) else case, "the case")
        await self.aclose()
        self._policy, self.history = OutsidePolicy(), ()
        attempt, agent = RolloutAttempt(case=case, sample=0), replace(self.agent, policy=self._policy)
        scorer = self.scorer
        self._playing = asyncio.create_task(
            play_attempt(attempt, agent, lambda: scorer, seconds=self.seconds)
        )
        _PLAYING.add(self._playing)
        self._playing.add_done_callback(_PLAYING.discard)
        return (await self._wait()).messages

    async def step(self, text: str | None, *, cut: bool = False) -> EpisodeStep:
        """Carry out a reply. After the end, nothing is carried out, and the end is returned again.

        Args:
            text: The reply of the model, cut at `MAX_REPLY_CHARACTERS`; None if it cannot reply, since its
                context is full.
            cut: True if it was cut off at its token limit.

        Raises:
            RuntimeError: If there is no episode: call `reset` first.
            TypeError: If the reply is not text.
        """
        if not (text is None or isinstance(text, str)):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"A reply is text or None, not {type(text).__name__}.")
        if text is not None and len(text) > MAX_REPLY_CHARACTERS:
            text, cut = text[:MAX_REPLY_CHARACTERS], True
        finish = FinishReason.LENGTH if cut else FinishReason.STOP
        self._policy.replies.put_nowait(None if text is None else Reply(text, finish))
        return await self._wait()

    async def aclose(self) -> None:
        """Cancel the run, if it goes on; the rewards of an ended one stay."""
        if self._playing is not None:
            self._playing.cancel()
            await asyncio.gather(self._playing, return_exceptions=True)

    def __del__(self) -> None:
        """Cancel the run of an episode that was given up."""
        playing = getattr(self, "_playing", None)
        if playing is not None and not playing.done():
            with suppress(RuntimeError):  # its event loop is closed
                playing.get_loop().call_soon_threadsafe(playing.cancel)

    async def _wait(self) -> EpisodeStep:
        """Wait until a reply is asked for, or the run has ended."""
        playing = self._playing
        if playing is None:
            raise RuntimeError("There is no episode: call reset first.")
        asked = asyncio.ensure_future(self._policy.asked.get())
        try:
            await asyncio.wait({asked, playing}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            asked.cancel()
        if playing.done():
            self.history, self.observation = (), []
            return EpisodeStep([], None if self.reward is None else self.reward.total, done=True)
        before, self.history = tuple(self.history), tuple(asked.result())
        goes_on = self.history[: len(before)] == before
        new = self.history[len(before) + bool(before) :]  # without the reply itself
        self.observation = self._render(new) if goes_on else None
        return EpisodeStep(self._render(self.history), None, done=False)

    def _render(self, messages: Sequence[Message]) -> ChatMessages:
        return [render_message(message, self.images) for message in messages]


class Episode:
    """`AsyncEpisode` for code that is not asynchronous; works beside a running event loop, and in threads.

    All episodes of a process run in one event loop, in a thread of its own.
    """

    def __init__(
        self, agent: Agent, scorer: Scorer, *, images: str | Path = "pil", seconds: float | None = None
    ) -> None:
        self.inner = AsyncEpisode(agent, scorer, images=images, seconds=seconds)

    @classmethod
    def of(cls, options: Mapping[str, Any], *, agent: str = "vrag", images: str | Path = "pil") -> Episode:
        """Make an episode from options; see `AsyncEpisode.of`."""
        inner = AsyncEpisode.of(options, agent=agent, images=images)
        return cls(inner.agent, inner.scorer, images=images, seconds=inner.seconds)

    @property
    def observation(self) -> ChatMessages | None:
        """The messages since the last reply; see `AsyncEpisode`."""
        return self.inner.observation

    @property
    def reward(self) -> Reward | None:
        """The reward with its parts, or why it is missing; None before the end."""
        return self.inner.reward

    @property
    def rollout(self) -> Rollout | None:
        """The run; None before the end."""
        return self.inner.rollout

    def reset(self, case: Case | Mapping[str, Any] | str) -> ChatMessages:
        """Begin an episode; see `AsyncEpisode.reset`."""
        return _run(self.inner.reset(case))

    def step(self, text: str | None, *, cut: bool = False) -> EpisodeStep:
        """Carry out a reply; see `AsyncEpisode.step`."""
        return _run(self.inner.step(text, cut=cut))

    def close(self) -> None:
        """Cancel the run, if it goes on."""
        _run(self.inner.aclose())


def render_message(message: Message, images: str | Path) -> dict[str, Any]:
    """Render a message for chat templates and servers, with its pictures; see `AsyncEpisode`."""
    chat = as_chat(message)
    pictures = iter([part for part in message.parts if not isinstance(part, Text)])
    content: str | list[dict[str, Any]] = chat["content"]
    if isinstance(content, list):
        content = [
            _render_picture(next(pictures), images) if "text" not in part else part for part in content
        ]
    return {**chat, "content": content}


def _render_picture(picture: Picture | EnclosedImage, images: str | Path) -> dict[str, Any]:
    if images == "pil":
        return {"type": "image", "image": picture.image}
    if images == "url":
        url = f"data:image/jpeg;base64,{base64.b64encode(picture.jpeg).decode()}"
        return {"type": "image_url", "image_url": {"url": url}}
    path = Path(images) / f"{picture.sha256}.jpg"
    if not path.exists():
        with atomic_file(path, durable=False) as file:
            file.write(picture.jpeg)
    return {"type": "image", "image": str(path)}


def _run(work: Coroutine[Any, Any, T]) -> T:
    with _LOCK:
        loop = _event_loop(os.getpid())
    return asyncio.run_coroutine_threadsafe(work, loop).result()


@lru_cache(maxsize=1)  # a forked process has no threads of its parent
def _event_loop(process: int) -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="vrag-episodes", daemon=True).start()
    atexit.register(_close_event_loop, process, loop)
    return loop


def _close_event_loop(process: int, loop: asyncio.AbstractEventLoop) -> None:
    """Cancel the runs that still go on when the process ends, as episodes that were not closed leave them."""
    if process == os.getpid() and not loop.is_closed():
        with suppress(TimeoutError):
            asyncio.run_coroutine_threadsafe(_cancel_runs(), loop).result(CLOSING_SECONDS)


async def _cancel_runs() -> None:
    loop = asyncio.get_running_loop()
    playing = [task for task in _PLAYING if task.get_loop() is loop]
    for task in playing:
        task.cancel()
    await asyncio.gather(*playing, return_exceptions=True)
