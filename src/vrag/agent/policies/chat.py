"""The policy that is a language model behind a `ChatModel`."""

from __future__ import annotations

import base64
import contextlib
import json
import re
import threading
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Any

from cachetools import LRUCache

from vrag.agent.policy import Delta, FinishReason, Message, Part, Reply, Retry, Text
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
    join_texts,
)
from vrag.errors import ModelError

_MAX_CACHED_CHARS = 64 * 1024 * 1024
"""Characters of all data URLs in the cache."""
_THINK = re.compile(r"<(/?think\b[^<>]*)>", re.IGNORECASE)
_THOUGHT_END = re.compile(r"</think\b[^<>]*>", re.IGNORECASE)
_FINISHED = {"length": FinishReason.LENGTH, "": FinishReason.UNSAID}
_MAX_TAG_CHARS = 64
"""Characters after a `<` for which its `>` is waited for."""


class ChatPolicy:
    """A policy that asks a language model for the next reply.

    What the server marks as thinking goes between `<think>` and `</think>` before the reply. A model
    that also writes such a block into its reply has two of them then; the grammar joins them. A
    native tool call becomes `<tool_call>` JSON `</tool_call>` at the end, unless the reply holds one.

    Args:
        model: The model. Runs and event loops share it, and the pictures that were encoded for it.
        options: The sampling options.
        name: The name in run files; after the model where it is empty.
    """

    def __init__(self, model: ChatModel, options: ChatOptions | None = None, name: str = "") -> None:
        self.name = name or f"chat:{model.name}"
        self._model = model
        self._options = options or ChatOptions()
        self._urls = LRUCache[str, str](_MAX_CACHED_CHARS, getsizeof=len)
        self._lock = threading.Lock()

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
        turn: int = 1,  # noqa: ARG002 - a model knows only the history
    ) -> AsyncGenerator[Delta | Retry | Reply, None]:
        """Write the next reply; see `Policy.reply`.

        Raises `ContextTooLong` if the history is longer than the model can take, and `ModelError` if no reply
        can be had, or the server withholds it.
        """
        messages = [
            ChatMessage(message.role.value, join_texts(map(self._chat_part, message.parts)))
            for message in history
        ]
        reply_text = _ReplyText()
        async with aclosing(self._model.stream(messages, self._options)) as parts:
            async for part in parts:
                match part:
                    case ChatDelta(text, thought=True):
                        pieces = reply_text.think(text)
                    case ChatDelta(text):
                        pieces = reply_text.say(text)
                    case ChatRetry(reason, seconds):
                        reply_text = _ReplyText()
                        yield Retry(reason, seconds)
                        continue
                    case whole:
                        if whole.finish == "content_filter":
                            raise ModelError("The server's content filter withheld the reply.")
                        for piece in reply_text.end(whole):
                            yield Delta(piece)
                        finish = _FINISHED.get(whole.finish, FinishReason.STOP)
                        yield Reply(reply_text.text, finish, whole.tokens, whole.sampled)
                        return
                for piece in pieces:
                    yield Delta(piece)
        raise ModelError(f"{self.name} ended without a reply.")

    async def aclose(self) -> None:
        """Give back the model's connections of the running event loop."""
        await self._model.aclose()

    def _chat_part(self, part: Part) -> ChatPart:
        """Convert a part; the data URL of a picture has the type, which strict servers ask for."""
        if isinstance(part, Text):
            return ChatText(part.text)
        with self._lock:
            if (cached := self._urls.get(part.sha256)) is not None:
                return ChatImage(cached)
        url = f"data:image/jpeg;base64,{base64.b64encode(part.jpeg).decode()}"
        with self._lock, contextlib.suppress(ValueError):  # larger than the whole cache
            self._urls[part.sha256] = url
        return ChatImage(url)


class _ReplyText:
    """The text of a reply so far, with its thought in front."""

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._is_thinking = False
        self._held = ""
        """The end of the thought, where it may be the beginning of a tag."""
        self._blanks = ""
        """White space before the text after the thought."""
        self._said: list[str] = []
        """The pieces after the thought."""

    @property
    def text(self) -> str:
        """All of it."""
        return "".join(self._pieces)

    def think(self, text: str) -> list[str]:
        """Return a piece of thought; once the reply has begun there is no place for it any more."""
        if self._said:
            return []
        opening = "" if self._is_thinking else "<think>"
        self._is_thinking = True
        thought = self._held + text
        at = thought.rfind("<", max(0, len(thought) - _MAX_TAG_CHARS))
        may_be_tag = at >= 0 and ">" not in thought[at:]
        thought, self._held = (thought[:at], thought[at:]) if may_be_tag else (thought, "")
        return self._append(opening + _escape_think_tags(thought))

    def say(self, text: str) -> list[str]:
        """Return a piece of the reply proper. Blanks do not begin it: templates put them around thoughts."""
        if not self._said and not text.strip():
            self._blanks += text
            return []
        opening = "" if self._said else self._end_thought()
        self._said.append(text)
        return self._append(opening + text)

    def end(self, whole: ChatReply) -> list[str]:
        """Return the pieces that are still to come when the model has ended.

        Native tool calls are left out where the reply holds one after all thought; a thought may mention one.
        """
        holds_call = "<tool_call>" in _THOUGHT_END.split("".join(self._said))[-1]
        calls = "" if holds_call else "\n".join(map(_render_tool_call, whole.tool_calls))
        if self._said or calls or whole.finish != "length":
            return self._append("" if self._said else self._end_thought()) + self._append(calls)
        # cut off while it thought: the thought stays open
        return self._append(_escape_think_tags(self._held))

    def _end_thought(self) -> str:
        """Return the text before the reply proper."""
        rest, self._held = self._held, ""
        return f"{_escape_think_tags(rest)}</think>\n" if self._is_thinking else self._blanks

    def _append(self, text: str) -> list[str]:
        self._pieces.append(text)
        return [text] if text else []


def _escape_think_tags(thought: str) -> str:
    """Replace the brackets of think tags in a thought, so that it cannot close its own block."""
    return _THINK.sub(r"‹\1›", thought)


def _render_tool_call(call: ToolCall) -> str:
    """Render a native tool call; arguments that are not JSON stay a string, for the grammar to reject.

    No string in it closes the tag around it, and UTF-8 can hold all of it.
    """
    try:
        arguments = json.loads(call.arguments or "{}")
        written = json.dumps({"name": call.name, "arguments": arguments}, ensure_ascii=False, allow_nan=False)
    except (ValueError, RecursionError):
        content = {"name": call.name, "arguments": call.arguments}
        written = json.dumps(content, ensure_ascii=False, allow_nan=False)
    encodable = written.replace("</", "<\\/").encode("utf-8", "replace").decode()
    return f"<tool_call>{encodable}</tool_call>"
