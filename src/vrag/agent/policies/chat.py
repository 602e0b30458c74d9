"""The policy that is a language model behind a `ChatModel`."""

from __future__ import annotations

import base64
import json
import re
import threading
from collections import OrderedDict
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Any

from vrag.agent.policy import (
    Delta,
    EnclosedImage,
    FinishReason,
    Message,
    Picture,
    Reply,
    Retry,
)
from vrag.chat.messages import (
    ChatDelta,
    ChatImage,
    ChatMessage,
    ChatModel,
    ChatOptions,
    ChatPart,
    ChatReply,
    ChatRetry,
    ChatText,
    ToolCall,
)
from vrag.errors import ModelError

__all__ = ["ChatPolicy"]

_CACHED = 64 * 1024 * 1024
"""Characters of data URLs that are kept, at most."""
_THINK = re.compile(r"<(/?think\b[^<>]*)>", re.IGNORECASE)
_THOUGHT_END = re.compile(r"</think\b[^<>]*>", re.IGNORECASE)
_FINISHED = {"length": FinishReason.LENGTH, "": FinishReason.UNSAID}
_LONGEST_TAG = 64
"""Characters after a `<` for which its `>` is waited for."""


class ChatPolicy:
    """A policy that asks a language model for the next reply.

    What the server marks as thinking goes between `<think>` and `</think>` before the reply. A model
    that also writes such a block into its reply has two of them then; the grammar joins them. A
    native tool call becomes `<tool_call>` JSON `</tool_call>` at the end, unless the reply holds one.

    Args:
        model: What is asked. Runs and event loops share it, and the pictures that were encoded for it.
        options: How to sample.
        name: How it is called in run files; after the model where it is empty.
    """

    def __init__(self, model: ChatModel, options: ChatOptions | None = None, name: str = "") -> None:
        self.name = name or f"chat:{model.name}"
        self._model = model
        self._options = options or ChatOptions()
        self._urls = _DataUrls(_CACHED)

    @property
    def sampling(self) -> dict[str, float | int | str | bool]:
        """The sampling parameters that were set; `stop` as a JSON list."""
        options = self._options
        known: dict[str, Any] = {
            "model": self._model.name,
            "temperature": options.temperature,
            "top_p": options.top_p,
            "max_tokens": options.max_tokens,
            "seed": options.seed,
            "thinking": options.thinking,
            "stop": json.dumps(options.stop) if options.stop else None,
        }
        extra = {name: value for name, value in options.extra.items() if isinstance(value, float | int | str)}
        return {name: value for name, value in (extra | known).items() if value is not None}

    async def reply(
        self,
        history: Sequence[Message],
        turn: int = 1,  # noqa: ARG002 - a model knows only what it is told
    ) -> AsyncGenerator[Delta | Retry | Reply, None]:
        """Write the next reply; see `Policy.reply`.

        Raises:
            ContextTooLong: If the history is longer than the model can take.
            ModelError: If no reply can be had, or the server withholds it.
        """
        messages = [self._message(message) for message in history]
        written = _ReplyText()
        async with aclosing(self._model.stream(messages, self._options)) as parts:
            async for part in parts:
                match part:
                    case ChatDelta(text, thought=True):
                        pieces = written.think(text)
                    case ChatDelta(text):
                        pieces = written.say(text)
                    case ChatRetry(reason, seconds):
                        written = _ReplyText()
                        yield Retry(reason, seconds)
                        continue
                    case whole:
                        pieces = written.end(whole)
                        for piece in pieces:
                            yield Delta(piece)
                        yield _reply(written.text, whole)
                        return
                for piece in pieces:
                    yield Delta(piece)
        raise ModelError(f"{self.name} ended without a reply.")

    async def aclose(self) -> None:
        """Give back the model's connections of the running event loop."""
        await self._model.aclose()

    def _message(self, message: Message) -> ChatMessage:
        """Return a message; texts in a row are one, since servers put nothing between them."""
        parts: list[ChatPart] = []
        for part in message.parts:
            if isinstance(part, Picture | EnclosedImage):
                parts.append(ChatImage(self._urls.of(part)))
            elif parts and isinstance(before := parts[-1], ChatText):
                parts[-1] = ChatText(f"{before.text}\n{part.text}")
            else:
                parts.append(ChatText(part.text))
        return ChatMessage(message.role.value, tuple(parts))


class _DataUrls:
    """Data URLs of pictures, each encoded once while it is among the latest.

    Args:
        limit: Characters to keep, at most.
    """

    def __init__(self, limit: int) -> None:
        self._left = limit
        self._kept: OrderedDict[str, str] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, picture: Picture | EnclosedImage) -> str:
        """With the type, which strict servers ask for."""
        with self._lock:
            if (known := self._kept.get(picture.sha256)) is not None:
                self._kept.move_to_end(picture.sha256)
                return known
        url = f"data:image/jpeg;base64,{base64.b64encode(picture.jpeg).decode()}"
        with self._lock:
            if picture.sha256 not in self._kept:
                self._kept[picture.sha256] = url
                self._left -= len(url)
            while self._left < 0:
                self._left += len(self._kept.popitem(last=False)[1])
        return url


class _ReplyText:
    """The text of a reply so far, with its thought in front."""

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._thinking = False
        self._held = ""
        """The end of the thought, where it may be the beginning of a tag."""
        self._blanks = ""
        """White space before the text after the thought."""
        self._begun = False
        """True if the text after the thought has begun."""
        self._said: list[str] = []
        """The reply proper."""

    @property
    def text(self) -> str:
        """All of it."""
        return "".join(self._pieces)

    def think(self, text: str) -> list[str]:
        """Return a piece of thought; once the reply has begun there is no place for it any more."""
        if self._begun:
            return []
        opening = "" if self._thinking else "<think>"
        self._thinking = True
        thought, self._held = _without_open_tag(self._held + text)
        return self._append(opening + _escape_think_tags(thought))

    def say(self, text: str) -> list[str]:
        """Return a piece of the reply proper. Blanks do not begin it: templates put them around thoughts."""
        if not self._begun and not text.strip():
            self._blanks += text
            return []
        opening = "" if self._begun else self._opening()
        self._begun = True
        self._said.append(text)
        return self._append(opening + text)

    def end(self, whole: ChatReply) -> list[str]:
        """Return the pieces that are still to come when the model has ended."""
        calls = "" if self._holds_call() else "\n".join(map(_call, whole.tool_calls))
        if self._begun or calls or whole.finish != "length":
            return self._append("" if self._begun else self._opening()) + self._append(calls)
        # cut off while it thought: the thought stays open
        return self._append(_escape_think_tags(self._held))

    def _holds_call(self) -> bool:
        """Return whether a tool call is written after all thought; a thought may mention one."""
        return "<tool_call>" in _THOUGHT_END.split("".join(self._said))[-1]

    def _opening(self) -> str:
        """Return the text before the reply proper."""
        rest, self._held = self._held, ""
        return f"{_escape_think_tags(rest)}</think>\n" if self._thinking else self._blanks

    def _append(self, text: str) -> list[str]:
        self._pieces.append(text)
        return [text] if text else []


def _without_open_tag(text: str) -> tuple[str, str]:
    """Return the text in two, before and from what may be the beginning of a tag."""
    at = text.rfind("<", max(0, len(text) - _LONGEST_TAG))
    return (text, "") if at < 0 or ">" in text[at:] else (text[:at], text[at:])


def _escape_think_tags(thought: str) -> str:
    """Replace the brackets of think tags in a thought, so that it cannot close its own block."""
    return _THINK.sub(r"‹\1›", thought)


def _call(call: ToolCall) -> str:
    """Render a native tool call; arguments that are not JSON stay a string, for the grammar to reject."""
    try:
        written = _json({"name": call.name, "arguments": json.loads(call.arguments or "{}")})
    except (ValueError, RecursionError):
        written = _json({"name": call.name, "arguments": call.arguments})
    return f"<tool_call>{written}</tool_call>"


def _json(call: dict[str, object]) -> str:
    """In a form in which no string closes the tag around it, and that UTF-8 can hold."""
    written = json.dumps(call, ensure_ascii=False, allow_nan=False).replace("</", "<\\/")
    return written.encode("utf-8", "replace").decode()


def _reply(text: str, whole: ChatReply) -> Reply:
    if whole.finish == "content_filter":
        raise ModelError("The server's content filter withheld the reply.")
    return Reply(
        text,
        _FINISHED.get(whole.finish, FinishReason.STOP),
        whole.tokens,
        whole.sampled,
    )
