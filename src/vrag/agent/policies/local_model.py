"""A checkpoint of a Qwen-VL family in memory, for policies and trainers, and the decoder of its tokens."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vrag.agent.policy import Message, Role, Text
from vrag.embed.device import Device, is_out_of_memory, library
from vrag.embed.embedder import escape_special_tokens
from vrag.embed.model_files import read_settings
from vrag.embed.models.loader import PROCESSOR_SETTINGS, loading, set_pixels
from vrag.embed.options import EmbedOptions
from vrag.errors import EmbedError, ModelError, SettingsError
from vrag.model_profiles import PROFILES, Profile, published_profile, read_profile

_ANY_SIZE = 2**40
"""Pixels: more than any picture has. Pictures come at their size and are not resized again."""
_OPENED = re.compile(r"<think>\s*\Z")
_VISION = ("image_token_id", "video_token_id", "vision_start_token_id", "vision_end_token_id")


@dataclass(frozen=True, slots=True, eq=False)
class Checkpoint:
    """A network with all that turns messages into its input. Not for several threads at once."""

    folder: Path
    name: str
    """The name in messages to people."""
    profile: Profile
    device: Device
    model: Any
    processor: Any
    ends: frozenset[int]
    """Tokens at which a turn ends."""
    banned: tuple[int, ...]
    """Tokens that stand for pictures, in order: a reply has none, and they are not drawn from."""

    @property
    def tokenizer(self) -> Any:  # noqa: ANN401 - the library is not typed
        """Text to tokens and back."""
        return self.processor.tokenizer

    @property
    def context(self) -> int:
        """Tokens that prompt and reply may have together."""
        return int(self.model.config.get_text_config().max_position_embeddings)

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of sampled tokens: special ones left out, all others byte for byte."""
        return self.tokenizer.decode(list(ids), skip_special_tokens=True, clean_up_tokenization_spaces=False)

    def prompt(self, history: Sequence[Message]) -> str:
        """Return the history by the chat template, up to where the next reply begins."""
        messages = list(map(as_chat, history))
        return self.processor.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)


def opening_of(prompt: str) -> str:
    """Return the beginning of a thought with which a chat template ends its prompt; empty where it does not.

    It is the beginning of the reply, and none of its tokens.
    """
    opened = _OPENED.search(prompt)
    return opened[0] if opened else ""


def open_checkpoint(folder: Path, profile: Profile, device: Device, name: str) -> Checkpoint:
    """Load a network and its processor.

    Raises `ModelError` if the files are damaged, lack weights, or do not fit into memory, and `MissingExtra`
    without torch and transformers.
    """
    with as_model_error(), within_memory(name, "Use a smaller model, or half precision."):
        model, processor = _load(folder, device)
        set_pixels(processor, EmbedOptions(min_pixels=profile.factor**2, max_pixels=_ANY_SIZE))
    tokenizer = processor.tokenizer
    if not processor.chat_template:
        raise ModelError(f"{folder} has no chat template.", "Download the model again.")
    ends: set[int] = set()
    for ids in (model.generation_config.eos_token_id, tokenizer.eos_token_id):
        ends.update([ids] if isinstance(ids, int) else ids or [])
    # Settings that a checkpoint recommends, such as a penalty of repetitions, would apply unnoticed.
    model.generation_config = type(model.generation_config)(
        eos_token_id=sorted(ends), pad_token_id=tokenizer.pad_token_id, do_sample=False
    )
    named = (getattr(model.config, token, None) for token in _VISION)
    banned = tuple(sorted({int(token) for token in named if token is not None} - ends))
    return Checkpoint(folder, name, profile, device, model, processor, frozenset(ends), banned)


def family_of(folder: Path) -> Profile:
    """Return the profile that a checkpoint brings along, or that of its name or its family.

    The name of the folder decides for published fine-tunes only.

    Raises `ModelError` if it belongs to an unknown model family, or its files are damaged.
    """
    try:
        own = read_profile(folder)
    except SettingsError as error:
        raise ModelError(error.message, error.hint) from error
    if own is not None:
        return own
    with as_model_error():
        kind = read_settings(folder, "config.json").get("model_type", "nothing known")
    for profile in PROFILES.values():
        if kind in profile.model_types:
            return published_profile(str(folder)) or profile
    kinds = ", ".join(kind for profile in PROFILES.values() for kind in profile.model_types)
    raise ModelError(f"{folder} holds {kind}, which is not run in this process.", f"Known: {kinds}.")


def _load(folder: Path, device: Device) -> tuple[Any, Any]:
    """Return the network and its processor, from local files alone and without running code among them."""
    torch, transformers = library("torch"), library("transformers")
    damaged: Any = library("safetensors").SafetensorError
    settings = {"local_files_only": True, "trust_remote_code": False}
    with loading():
        try:
            processor = transformers.AutoProcessor.from_pretrained(folder, **PROCESSOR_SETTINGS, **settings)
            model = transformers.AutoModelForImageTextToText.from_pretrained(
                folder, dtype=getattr(torch, device.dtype), use_safetensors=True, **settings
            )
            return model.to(device.name).eval(), processor
        except (OSError, ValueError, RuntimeError, damaged) as error:
            if is_out_of_memory(error):
                raise
            raise ModelError(f"{folder} cannot be loaded: {error}", "Download the model again.") from error


def as_chat(message: Message) -> dict[str, Any]:
    """Return a message as chat templates take it; texts in a row are one, line by line."""
    if message.role is not Role.USER or all(isinstance(part, Text) for part in message.parts):
        return {"role": str(message.role), "content": escape_special_tokens(message.text)}
    content: list[dict[str, str]] = []
    for part in message.parts:
        if not isinstance(part, Text):
            content.append({"type": "image"})
        elif content and "text" in content[-1]:
            content[-1]["text"] += "\n" + escape_special_tokens(part.text)
        else:
            content.append({"type": "text", "text": escape_special_tokens(part.text)})
    return {"role": str(message.role), "content": content}


@contextlib.contextmanager
def as_model_error() -> Generator[None, None, None]:
    """Raise the errors of opening an embedder's checkpoint as `ModelError`: here it is a language model."""
    try:
        yield
    except EmbedError as error:
        raise ModelError(error.message, error.hint) from error


@contextlib.contextmanager
def within_memory(name: str, hint: str) -> Generator[None, None, None]:
    """Raise `ModelError` where memory does not suffice, after emptying the cache of the device."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
    else:
        return
    torch = library("torch")  # outside of `except`: the traceback holds the tensors that filled the memory
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    raise ModelError(f"There is not enough memory for {name} on this machine or device.", hint)


class TextDecoder:
    """A decoder that gives the text of tokens piece by piece.

    Tokens are bytes: what is not yet a whole character is held back, and so is what may be the beginning
    of a stop string. All pieces together are the text of all tokens up to the first stop string. `decode`
    returns the text of tokens, U+FFFD for bytes that are no character; `say` takes each piece.
    """

    def __init__(
        self, decode: Callable[[Sequence[int]], str], stop: Sequence[str], say: Callable[[str], None]
    ) -> None:
        self.stopped = False
        self._decode, self._stop, self._say = decode, stop, say
        self._said: list[str] = []
        self._held = ""
        self._pending: list[int] = []

    def begin(self, text: str) -> None:
        """Begin with text that the prompt had begun."""
        self._give(text)

    def add(self, token: int) -> None:
        """Add a token."""
        self._pending.append(token)
        text = self._decode(self._pending)
        if not text.endswith("�"):  # ends with a whole character
            self._pending.clear()
            self._take(text)

    def end(self) -> str:
        """Give out what was held back, since no token follows; return the whole text."""
        if not self.stopped:
            self._take(self._decode(self._pending))
        if not self.stopped:
            self._give(self._held)
        return "".join(self._said)

    def _take(self, text: str) -> None:
        self._held += text
        if ends := [at for stop in self._stop if (at := self._held.find(stop)) >= 0]:
            self.stopped = True
            self._give(self._held[: min(ends)])
            return
        sure = len(self._held) - max((_overlap(self._held, stop) for stop in self._stop), default=0)
        self._give(self._held[:sure])
        self._held = self._held[sure:]

    def _give(self, text: str) -> None:
        if text:
            self._said.append(text)
            self._say(text)


def _overlap(text: str, stop: str) -> int:
    """Return the number of characters at the end of `text` that may begin `stop`."""
    lengths = range(min(len(text), len(stop) - 1), 0, -1)
    return next((length for length in lengths if text.endswith(stop[:length])), 0)
