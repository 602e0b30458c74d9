"""The answer in a reply, read while the reply is being written.

Both grammars are read, and the forms in which `tag_repair` and `call_parser` find an answer too: an element,
the argument of a tool call in JSON or in elements of its own, and plain text. What is given out is the
beginning of the text that the parser will find. Where a reply may still turn into another action, nothing is.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from enum import Enum, auto

from vrag.agent.actions import TAG, is_action_or_empty, is_only_tags, tag_pattern
from vrag.agent.replies.call_parser import PARENT_NAMES
from vrag.agent.replies.reply_text import (
    ANSWER_LABEL,
    ARGUMENT_FIELDS,
    CALL_FIELD,
    CALL_OPENINGS,
    MAX_ANSWER_CHARS,
    NAME_FIELDS,
)

MIN_PLAIN_CHARS = 120
"""Characters of plain text after which it is taken for the answer; before, it may be a preamble to one."""

_THINK = re.compile(r"<(?P<close>/?)think\b[^<>]*>", re.IGNORECASE)
_BARE_CALL = re.compile(r"\s*(?:```[a-z_]*\s*)?(?=\{|\[\s*\{)", re.IGNORECASE)
_ANSWER_END = re.compile(r"</answer\b[^<>]*>", re.IGNORECASE)
_OPEN_TAG = re.compile(r"<(?:/?[a-z_|]{0,32}\s*|/?(?:think|search|bbox|answer)\b[^<>]*)\Z", re.IGNORECASE)
"""The end of a text that may become a tag."""

_TOKEN = re.compile(
    r'"(?:[^"\\]|\\.)*(?P<end>"|\\?\Z)|[{}\[\],:]|[^\s{}\[\],:"]+',
    re.DOTALL,
)
_VALID_STRING = re.compile(
    r'(?:[^"\\]|\\["\\/bfnrt]|\\u(?![dD][89abAB])[0-9a-fA-F]{4}'
    r"|\\u[dD][89abAB][0-9a-fA-F]{2}(?=[^\\]|\\[^u]|\\u[0-9a-fA-F]{4}))*"
)
"""The inside of a JSON string, as far as it can be read: half a pair of surrogates waits for the other."""
_SURROGATE = re.compile("[\ud800-\udfff]")
_MAX_NAME_DEPTH = 3
"""Brackets within which the name of the tool stands: a list, the call, and `function` in it."""
_PARENT_FIELDS = frozenset({"parent_ids", *PARENT_NAMES})

_ELEMENT_CALL = re.compile(
    r"\s*(?:<function\s*=\s*[\"']?(?P<name>[\w.-]{1,64})[\"']?\s*>|(?P<named>[\w.-]{1,64})\s*(?=<arg_key>))",
    re.IGNORECASE,
)
_ELEMENT_ARGUMENT = re.compile(
    r"<parameter\s*=\s*[\"']?(?P<name>[\w.-]{1,64})[\"']?\s*>|"
    r"<arg_key>\s*(?P<key>[\w.-]{1,64})\s*</arg_key>\s*<arg_value>",
    re.IGNORECASE,
)
_ELEMENT_END = re.compile(
    r"</(?:parameter|function|arg_value|tool_calls?)\s*>|<parameter\s*=|<\|", re.IGNORECASE
)

_PLAIN_END = re.compile(
    rf"{CALL_OPENINGS}|<\|[a-z_]|\\boxed|{CALL_FIELD}|{ANSWER_LABEL}",
    re.IGNORECASE,
)
"""A sign that a text is not the answer as it stands: a call, or the answer apart from the rest."""
_OPEN_PLAIN = re.compile(
    r"(?:<[^<>\n]{0,40}|\[[a-z_]{0,10}|\\[a-z]{0,5}|[\"'][a-z_]{0,10}[\"']?\s*"
    r"|(?:^|\n)[ \t>#]*[*_]{0,3}[a-z ]{0,20}[答案最终]{0,4}[*_]{0,3}\s?)\Z",
    re.IGNORECASE,
)
"""The end of a text that may become such a thing."""
_PREAMBLE = re.compile(r"(?:okay|ok|so|now|next|first|hmm|well|i|let|let's|we)\b|[{\[<`]", re.IGNORECASE)
"""The beginning of a text that may say what the model means to do next, or is a call or a block of code."""


class _Form(Enum):
    """The form in which an answer is written."""

    ELEMENT = auto()
    CALL = auto()
    PLAIN = auto()
    NONE = auto()
    """Not in a way that is read before the reply is complete."""


@dataclass(slots=True)
class AnswerReader:
    """A reader of the answer in one reply.

    >>> reader = AnswerReader()
    >>> [reader.add(piece) for piece in ("<think>two</think><ans", "wer>84 mil", "lion</answer>")]
    ['', '84 mil', '84 million']
    """

    tool: str = "answer"
    """The tool of the answer, where the reply is a tool call."""
    arguments: frozenset[str] = frozenset({"answer", "text", "content"})
    """The arguments of the tool that hold the answer."""
    names: frozenset[str] = frozenset()
    """Names of custom actions in elements."""
    is_call_expected: bool = False
    """True if replies are tool calls: then an element is text, but for an answer in the last reply."""
    is_last: bool = False
    """True if any readable answer counts."""
    parents: tuple[str, ...] = ()
    """The ids of nodes that stand before the answer in its tool call."""
    is_complete: bool = False
    """True once the answer has its end."""
    _reply: str = ""
    _at: int = 0
    """End of the last thought."""
    _scanned: int = 0
    """Position before which all tags were read."""
    _thought_scanned: int = 0
    """Position before which the end of a thought was looked for."""
    _has_thought: bool = False
    _is_preceded: bool = False
    """True if something is said before the answer, apart from thoughts."""
    _form: _Form | None = None
    """None while the answer has not begun."""
    _answer: str = ""
    _pattern: re.Pattern[str] = field(init=False)

    def __post_init__(self) -> None:
        names = frozenset({"answer"}) if self.is_call_expected else self.names
        tag = tag_pattern(names | {"passage"}).pattern
        self._pattern = re.compile(f"{tag}|(?P<call>{CALL_OPENINGS})", re.IGNORECASE)

    def add(self, piece: str) -> str:
        """Add a piece of the reply, and return the answer as far as it is written; empty where there is none.

        An answer that was returned is the beginning of every later one.
        """
        if self._form is _Form.NONE or self.is_complete:
            return self._answer
        self._reply += piece
        if self._form is None:
            self._find_start()
        answer = ""
        match self._form:
            case _Form.ELEMENT:
                answer = self._read_element()
            case _Form.CALL:
                answer = self._read_call()
            case _Form.PLAIN:
                answer = self._read_plain()
            case _:
                pass
        if len(answer) > MAX_ANSWER_CHARS:
            self._form = _Form.NONE
        elif len(answer) > len(self._answer) and not self._may_be_empty(answer):
            self._answer = answer
        return self._answer

    def _may_be_empty(self, answer: str) -> bool:
        """Return whether an answer is tags that may answer nothing."""
        if self._form is not _Form.ELEMENT or not is_only_tags(answer):
            return False
        return not self.is_complete or is_action_or_empty(answer, self.names)

    def _find_start(self) -> None:
        """Read the tags as far as they have come, up to the one with which an answer or an action begins."""
        while self._form is None:
            tag = self._pattern.search(self._reply, self._scanned)
            if tag is None:
                self._wait()
                return
            name = "" if tag["name"] is None else tag["name"].lower()
            if name == "think":
                if not self._skip_thought(tag):
                    return
                continue
            said = bool(self._reply[self._at : tag.start()].strip())
            self._is_preceded = self._is_preceded or said
            if tag["close"]:
                self._is_preceded = True
                self._scanned = tag.end()
            elif name == "answer" and (self.is_last or not self.is_call_expected):
                self._begin(_Form.ELEMENT, tag.end())
            elif tag["call"] is not None:
                self._begin(_Form.CALL, tag.end())
            elif self.is_call_expected and name != "passage":
                self._is_preceded = True
                self._scanned = tag.end()
            else:
                self._form = _Form.NONE

    def _skip_thought(self, tag: re.Match[str]) -> bool:
        """Go on after a thought; return False where it has no end yet."""
        if tag["close"] and self._has_thought:  # a tag too many
            self._scanned, self._is_preceded = tag.end(), True
            return True
        end = tag
        if not tag["close"]:
            start = max(tag.end(), self._thought_scanned)
            closing = next((match for match in _THINK.finditer(self._reply, start) if match["close"]), None)
            if closing is None:
                self._scanned = tag.start()
                self._thought_scanned = max(start, self._reply.rfind("<"))
                return False
            end = closing
            self._is_preceded = self._is_preceded or bool(self._reply[self._at : tag.start()].strip())
        else:  # the reply began inside a thought
            self._is_preceded = False
        self._has_thought = True
        self._at = self._scanned = end.end()
        return True

    def _begin(self, form: _Form, at: int) -> None:
        self._form, self._at = form, at

    def _wait(self) -> None:
        """Look at a text without tags: it may be a call without one, or plain text."""
        spoken = self._reply[self._at :]
        opening = spoken.rfind("<")
        self._scanned = max(self._scanned, self._at + opening if opening >= 0 else len(self._reply) - 16)
        if self._is_preceded or not spoken.strip():
            return
        if (call := _BARE_CALL.match(spoken)) is not None:
            self._begin(_Form.CALL, self._at + call.end())
        elif self.is_last and self._has_thought and len(spoken.strip()) >= MIN_PLAIN_CHARS:
            is_preamble = _PREAMBLE.match(spoken.lstrip()) is not None
            self._form = _Form.NONE if is_preamble else _Form.PLAIN

    def _read_element(self) -> str:
        body = self._reply[self._at :]
        tag = TAG.search(body) if not self.is_call_expected else _ANSWER_END.search(body)
        self.is_complete = tag is not None and _ANSWER_END.fullmatch(tag[0]) is not None
        if self._is_preceded and not self.is_complete:
            return ""  # without its end, the text before it would be part of the answer
        if tag is not None:
            return body[: tag.start()].strip()
        return _without_open_end(body, _OPEN_TAG).strip()

    def _read_call(self) -> str:
        body = self._reply[self._at :]
        call = _ELEMENT_CALL.match(body)
        if call is None:
            read = _JsonCall(self.tool, self.arguments).read(body)
            self.parents, self.is_complete = tuple(read.parents), read.is_complete
            self._form = _Form.NONE if read.is_other else self._form
            return (read.answer or "").strip()
        if (call["name"] or call["named"]).lower() != self.tool:
            self._form = _Form.NONE
            return ""
        for argument in _ELEMENT_ARGUMENT.finditer(body, call.end()):
            if (argument["name"] or argument["key"]) in self.arguments:
                value = body[argument.end() :]
                end = _ELEMENT_END.search(value)
                self.is_complete = end is not None
                return (_without_open_end(value, _OPEN_TAG) if end is None else value[: end.start()]).strip()
        return ""

    def _read_plain(self) -> str:
        body = self._reply[self._at :]
        end = self._pattern.search(body) or _PLAIN_END.search(body)
        if end is not None:  # it was not the answer, or is followed by an action
            self._form = _Form.NONE
            return self._answer
        return _without_open_end(body, _OPEN_PLAIN).strip()


def _without_open_end(text: str, pattern: re.Pattern[str]) -> str:
    """Return a text without its end, where that may become something else."""
    match = pattern.search(text)
    return text if match is None else text[: match.start()]


@dataclass(slots=True)
class _JsonCall:
    """A reading of a tool call in JSON as far as it is written; its name must stand before its arguments."""

    tool: str
    arguments: frozenset[str]
    is_named: bool = False
    """True once the tool of the answer is named."""
    is_other: bool = False
    """True once another tool is named."""
    answer: str | None = None
    """None before it begins."""
    parents: list[str] = field(default_factory=list[str])
    is_complete: bool = False
    """True if the answer has its end."""
    _kinds: list[str] = field(default_factory=list[str])
    """The brackets that are open."""
    _keys: list[str | None] = field(default_factory=list["str | None"])
    """The key in each of them; None in a list, and before a key."""

    def read(self, text: str) -> _JsonCall:
        """Read a text up to its answer, or as far as it goes."""
        for token in _TOKEN.finditer(text):
            sign = token[0]
            if sign in "{[":
                self._kinds.append(sign)
                self._keys.append(None)
            elif sign in "}]":
                if self._kinds:
                    self._kinds.pop()
                    self._keys.pop()
                if "{" not in self._kinds:
                    break  # the call is over
            elif sign == "," and self._kinds and self._kinds[-1] == "{":
                self._keys[-1] = None
            elif sign.startswith('"') and self._kinds:
                self._take(_decode(sign), is_whole=token["end"] == '"')
            if self.answer is not None or self.is_other:
                break
        return self

    def _take(self, text: str, *, is_whole: bool) -> None:
        """Take a string: a key or a value."""
        in_object = self._kinds[-1] == "{"
        if in_object and self._keys[-1] is None:
            self._keys[-1] = text if is_whole else ""
            self.is_named = self.is_named or (len(self._kinds) == 1 and text == self.tool)
            return
        key = next((key for key in reversed(self._keys) if key is not None), "")
        if self.is_named and in_object and key in self.arguments:
            self.answer, self.is_complete = text, is_whole
        elif self.is_named and key in ARGUMENT_FIELDS:  # JSON within a string
            inner = _JsonCall(self.tool, self.arguments, is_named=True).read(text)
            self.answer, self.parents, self.is_complete = inner.answer, inner.parents, inner.is_complete
        elif not self.is_named and is_whole and key in NAME_FIELDS and len(self._kinds) <= _MAX_NAME_DEPTH:
            name = re.sub(r"[\s-]+", "_", text.strip().casefold()).removeprefix("functions.")
            self.is_named, self.is_other = name == self.tool, name != self.tool
        elif is_whole and key in _PARENT_FIELDS:
            self.parents.append(text)


def _decode(token: str) -> str:
    """Return the text of a JSON string, as far as it has come and can be read."""
    written = _VALID_STRING.match(token, 1)
    assert written is not None
    decoded: str = json.loads(f'"{written[0]}"', strict=False)
    return _SURROGATE.sub("\ufffd", decoded)
