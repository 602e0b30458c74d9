"""A model in this process: a transformers checkpoint of a Qwen-VL family, from the extra `models`."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

from vrag.agent.policies.local_model import (
    Checkpoint,
    TextDecoder,
    as_model_error,
    family_of,
    open_checkpoint,
    opening_of,
    within_memory,
)
from vrag.agent.policy import Delta, EnclosedImage, FinishReason, Message, Picture, Reply, Sampled, Tokens
from vrag.embed.device import Device, library, open_device
from vrag.embed.model_files import find_checkpoint
from vrag.embed.models.loader import rgb
from vrag.embed.options import EmbedOptions
from vrag.errors import ContextTooLong, ModelError, SettingsError, first_line
from vrag.geometry import Size
from vrag.model_profiles import Profile


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalOptions:
    """Sampling parameters of a reply. The recommendations of `generation_config.json` do not count.

    Raises `SettingsError` if a value is out of range.
    """

    temperature: float = 0.0
    """0 takes the likeliest token each time."""
    top_p: float = 1.0
    """Samples among the likeliest tokens that together have this probability. Says nothing at
    temperature 0."""
    max_tokens: int = 4096
    """Tokens of a reply at most."""
    seed: int | None = None
    """The same prompt and seed give the same reply, whatever else runs; None draws another each time."""
    stop: tuple[str, ...] = ()
    """Strings at which a reply ends, besides those of the profile. They are not part of its text."""

    def __post_init__(self) -> None:
        if not 0 <= self.temperature < float("inf"):
            raise SettingsError(f"The temperature {self.temperature} is invalid: it must be a number from 0.")
        if not 0 < self.top_p <= 1:
            raise SettingsError(f"top_p is {self.top_p}: it must be above 0 and at most 1.")
        if self.max_tokens < 1:
            raise SettingsError(f"max_tokens is {self.max_tokens}: it must be at least 1.")
        if not all(self.stop):
            raise SettingsError("stop holds an empty string, which would stop every reply.")


def open_local(
    path: str, *, device: str = "auto", dtype: str = "auto", options: LocalOptions | None = None
) -> LocalPolicy:
    """Open a policy over the checkpoint at `path`. Its weights are loaded for the first reply.

    Policies over one checkpoint, device and precision share the weights.

    Args:
        path: A folder, or `ORGANISATION/NAME[@REVISION]` of the hub.
        device: `auto`, `cpu`, `cuda`, `cuda:1`, `mps`.
        dtype: `float32`, `bfloat16` or `float16`; `auto` is float32 on a CPU and bfloat16 elsewhere.
        options: How replies are sampled.

    Raises:
        ModelError: If the checkpoint cannot be found or is of no known family, or the device is not there.
        MissingExtra: If the libraries are not installed.
    """
    with as_model_error():
        folder = find_checkpoint(path)
        profile = family_of(folder)
        opened_device = open_device(EmbedOptions(device=device, dtype=dtype))
    local = Path(path).expanduser().is_dir()
    name = folder.name if local else path.partition("@")[0].rpartition("/")[2]
    return LocalPolicy(folder, profile, opened_device, options or LocalOptions(), name=f"local:{name}")


class LocalPolicy:
    """A `Policy` that computes its replies here. See `open_local`.

    Runs take turns: one reply is written at a time, in a thread of its own, in the order in which they
    were asked for. A run that is cancelled ends its reply at the next token, and the thread ends when no
    reply is left to write. Pictures go to the model as the JPEG files that a server would be given.

    Log-probabilities are those of the distribution that was drawn from, temperature and top_p included;
    at temperature 0, those that the model gives without either. Where the chat template opens the think
    block itself, the text of the reply begins with that opening, which is no part of the sampled tokens.
    """

    def __init__(
        self, folder: Path, profile: Profile, device: Device, options: LocalOptions, *, name: str
    ) -> None:
        self.profile = profile
        self.options = options
        self.name = name
        self._writer = _open_writer(folder, profile, device, name)

    @property
    def sampling(self) -> Mapping[str, float | int | str | bool]:
        """The sampling parameters, for run files."""
        options = self.options
        drawn = {"top_p": options.top_p} | ({} if options.seed is None else {"seed": options.seed})
        shared = {"temperature": options.temperature, "max_tokens": options.max_tokens}
        return shared | (drawn if options.temperature else {})

    def seeded(self, seed: int) -> LocalPolicy:
        """Return the same model, in line with this one, that draws by another seed."""
        other = copy(self)
        other.options = replace(self.options, seed=seed)
        return other

    async def reply(
        self,
        history: Sequence[Message],
        turn: int = 1,  # noqa: ARG002 - the history says all that it needs
    ) -> AsyncGenerator[Delta | Reply, None]:
        """Write the next reply: deltas, then the whole as the last part.

        Raises `ContextTooLong` if the prompt is longer than the model takes, `ModelError` if the checkpoint
        cannot be loaded, or memory does not suffice, and `MissingExtra` if the libraries are not installed.
        """
        loop = asyncio.get_running_loop()
        parts: asyncio.Queue[Delta | Reply | BaseException] = asyncio.Queue()
        ended = threading.Event()

        def send(part: Delta | Reply | BaseException) -> None:
            try:
                loop.call_soon_threadsafe(parts.put_nowait, part)
            except RuntimeError:  # the loop is closed: there is no listener any more
                ended.set()

        def write() -> None:
            if ended.is_set():
                return
            try:
                send(self._writer.write(tuple(history), self.options, lambda text: send(Delta(text)), ended))
            except BaseException as error:  # noqa: BLE001 - raised where the reply is awaited
                send(error)

        self._writer.submit(write)
        try:
            while True:
                part = await parts.get()
                if isinstance(part, BaseException):
                    raise part
                yield part
                if isinstance(part, Reply):
                    return
        finally:
            ended.set()

    async def aclose(self) -> None:
        """Hold nothing of an event loop."""


class _Writer:
    """A writer of replies, which loads its checkpoint for the first, and the queue of jobs that ask it.

    Jobs are done in order in a thread that lasts as long as there are jobs.
    """

    def __init__(self, load: Callable[[], Checkpoint]) -> None:
        self._load = load
        self._lock = threading.Lock()
        self._jobs: deque[Callable[[], None]] = deque()
        self._is_working = False

    @cached_property
    def checkpoint(self) -> Checkpoint:
        """The loaded checkpoint; one that cannot be loaded is tried again the next time."""
        return self._load()

    def submit(self, job: Callable[[], None]) -> None:
        """Add a job to the queue; returns at once."""
        with self._lock:
            self._jobs.append(job)
            if self._is_working:
                return
            self._is_working = True
        threading.Thread(target=self._work, name="local-policy").start()

    def _work(self) -> None:
        while True:
            with self._lock:
                if not self._jobs:
                    self._is_working = False
                    return
                job = self._jobs.popleft()
            job()

    def write(
        self,
        history: Sequence[Message],
        options: LocalOptions,
        say: Callable[[str], None],
        ended: threading.Event,
    ) -> Reply:
        """Return the next reply; what there is of it when `ended` is set meanwhile. For one job at a time.

        Raises `ContextTooLong` or `ModelError` if the model cannot write one.
        """
        checkpoint = self.checkpoint
        try:
            with within_memory(checkpoint.name, "Show fewer or smaller pictures, or use a smaller model."):
                prompt = checkpoint.prompt(history)
                inputs = self._inputs(history, prompt)
                prompt_ids: list[int] = inputs["input_ids"][0].tolist()
                if len(prompt_ids) >= checkpoint.context:
                    raise ContextTooLong(
                        f"The prompt has {len(prompt_ids)} tokens, and {checkpoint.name} takes "
                        f"{checkpoint.context} with the reply.",
                        "Allow fewer steps, or show fewer or smaller pictures.",
                    )
                decoder = TextDecoder(checkpoint.decode, (*checkpoint.profile.stop, *options.stop), say)
                decoder.begin(opening_of(prompt))
                sampler = _Sampler(options, decoder, ended, checkpoint.banned)
                checkpoint.model.generate(
                    **inputs.to(checkpoint.device.name),
                    max_new_tokens=min(options.max_tokens, checkpoint.context - len(prompt_ids)),
                    logits_processor=[sampler.choose],
                    stopping_criteria=[sampler.stops],
                )
        except (ValueError, RuntimeError, library("jinja2").TemplateError) as error:
            raise ModelError(f"{checkpoint.name} cannot reply: {first_line(error)}.") from error
        text = decoder.end()
        stopped = decoder.stopped or not checkpoint.ends.isdisjoint(sampler.ids[-1:])
        return Reply(
            text,
            FinishReason.STOP if stopped else FinishReason.LENGTH,
            Tokens(prompt=len(prompt_ids), completion=len(sampler.ids)),
            Sampled(prompt_ids=tuple(prompt_ids), ids=tuple(sampler.ids), logprobs=tuple(sampler.logprobs)),
        )

    def _inputs(self, history: Sequence[Message], prompt: str) -> Any:  # noqa: ANN401 - the library is not typed
        """Return all that the network takes.

        Raises `ModelError` if the model sees pictures at other sizes, and so tokens, than the run records.
        """
        checkpoint = self.checkpoint
        parts = [part for message in history for part in message.parts]
        pictures = [part for part in parts if isinstance(part, Picture | EnclosedImage)]
        images = [rgb(picture.image) for picture in pictures]
        inputs = checkpoint.processor(text=[prompt], images=images or None, return_tensors="pt")
        grids, vision = inputs.get("image_grid_thw"), checkpoint.processor.image_processor
        for picture, (_, rows, columns) in zip(
            pictures, [] if grids is None else grids.tolist(), strict=True
        ):
            size, seen = picture.canvas, Size(columns * vision.patch_size, rows * vision.patch_size)
            if seen != size or vision.patch_size * vision.merge_size != checkpoint.profile.factor:
                raise ModelError(
                    f"{checkpoint.name} was given a picture of {size.width}×{size.height} pixels and sees "
                    f"{seen.width}×{seen.height}, {columns * rows // vision.merge_size**2} tokens.",
                    f"Run it with the profile {checkpoint.profile.name}.",
                )
        return inputs


_writers: WeakValueDictionary[tuple[object, ...], _Writer] = WeakValueDictionary()
"""Writers in use, by everything that their checkpoints depend on."""
_opening = threading.Lock()


def _open_writer(folder: Path, profile: Profile, device: Device, name: str) -> _Writer:
    """Return the writer of a checkpoint: one for all policies, so that its weights are in memory once.

    A checkpoint with files that have changed since is another one.
    """
    stamps = [(file.name, file.stat()) for file in sorted(folder.iterdir()) if file.is_file()]
    files = tuple((file, stamp.st_size, stamp.st_mtime_ns) for file, stamp in stamps)
    identity = folder, profile, device, name, files
    with _opening:
        if (writer := _writers.get(identity)) is None:
            writer = _Writer(partial(open_checkpoint, folder, profile, device, name))
            _writers[identity] = writer
        return writer


class _Sampler:
    """The sampler of the tokens of one reply, with two hooks of `generate`.

    `generate` does the rest and takes the likeliest token: the one drawn here, since all others are
    made impossible. So the draw has a generator of its own, which no other run and no global seed
    touches, and its probability is known without keeping the scores of all tokens of all steps.
    """

    def __init__(
        self, options: LocalOptions, decoder: TextDecoder, ended: threading.Event, banned: Sequence[int]
    ) -> None:
        self.ids: list[int] = []
        self.logprobs: list[float] = []
        self._options, self._decoder, self._ended = options, decoder, ended
        self._banned = list(banned)
        self._torch = library("torch")
        self._random = self._torch.Generator()
        if options.seed is None:
            self._random.seed()
        else:
            self._random.manual_seed(options.seed)

    def choose(self, _ids: Any, scores: Any) -> Any:  # noqa: ANN401
        """Draw from scores, (1, vocabulary), and leave only the token drawn possible."""
        torch, options = self._torch, self._options
        scores_left = scores[0].float().cpu()
        scores_left[self._banned] = float("-inf")  # a placeholder would stand for a picture that is not there
        logprobs = torch.log_softmax(scores_left / (options.temperature or 1.0), dim=-1)
        if options.temperature and options.top_p < 1:
            ordered, tokens = logprobs.sort(descending=True)
            likelier = ordered.exp().cumsum(0) - ordered.exp()  # what all before it have together
            logprobs[tokens[likelier >= options.top_p]] = float("-inf")
        if options.temperature:
            logprobs = torch.log_softmax(logprobs, dim=-1)
            drawn = int(torch.multinomial(logprobs.exp(), 1, generator=self._random))
        else:
            drawn = int(logprobs.argmax())
        self.ids.append(drawn)
        self.logprobs.append(float(logprobs[drawn]))
        self._decoder.add(drawn)
        chosen = torch.full_like(scores, float("-inf"))
        chosen[0, drawn] = 0.0
        return chosen

    def stops(self, ids: Any, _scores: Any) -> Any:  # noqa: ANN401
        """Return whether the reply ends for another reason than its last token or its length, (1,)."""
        over = self._decoder.stopped or self._ended.is_set()
        return self._torch.full((ids.shape[0],), over, dtype=self._torch.bool, device=ids.device)
