"""Readers of replies outside the grammars: thoughts, tool calls in any form, plain answers.

Hermes and Qwen write `<tool_call>{"name": …, "arguments": …}</tool_call>`, Qwen-Coder
`<function=name><parameter=query>…</parameter></function>`, GLM `<tool_call>name<arg_key>query</arg_key>
<arg_value>…</arg_value></tool_call>`, Mistral `[TOOL_CALLS][{…}]`, Llama `<|python_tag|>{…}`. some models
write `name(query="…")`. `find_calls` reads all of these forms, with damaged JSON too, and knows no tool.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import cast

from vrag.agent.actions import TAG, closing_tag, is_only_tags
from vrag.agent.replies.json_repairs import MAX_CHARACTERS, read_damaged_json
from vrag.agent.replies.tool_arguments import repair_text

_TAG = re.compile(r"<(?P<close>/?)(?P<name>think|passage)\b[^<>]*>", re.IGNORECASE)


def unquoted(reply: str) -> str | None:
    """Return the reply with blanks in place of thoughts and quoted passages; positions stay the same.

    A reply that starts in the middle of a thought is understood. A passage that never ends is none. Returns
    None where a thought begins that never ends: nothing after that is certain to be said.

    >>> unquoted("<think>why</think> <answer>12</answer>").strip()
    '<answer>12</answer>'
    """
    tags = list(_TAG.finditer(reply))
    thoughts = [tag for tag in tags if tag["name"].lower() == "think"]
    pieces: list[str] = []
    position = 0

    def blank(start: int, end: int) -> None:
        nonlocal position
        pieces.extend((reply[position:start], " " * (end - start)))
        position = end

    if thoughts and thoughts[0]["close"]:
        blank(0, thoughts[0].end())
    is_endless = False
    for index, tag in enumerate(tags):
        if tag["close"] or tag.start() < position:
            continue
        is_passage = tag["name"].lower() == "passage"
        close = None if is_passage and is_endless else closing_tag(tags, index)
        if close is not None:
            blank(tag.start(), tags[close].end())
        elif is_passage:
            is_endless = True
        else:
            return None
    return "".join([*pieces, reply[position:]])


CALL_OPENINGS = (
    r"<tool_calls?\s*>|(?=<function\s*=)|\[TOOL_CALLS\]|<\|(?:python_tag|tool_call(?:_start|_begin)?)\|>"
)
"""The tags that open a tool call, as a regular expression that ignores case."""
_OPENING = re.compile(CALL_OPENINGS, re.IGNORECASE)
_CLOSING = re.compile(r"</tool_calls?\s*>|\[/TOOL_CALLS\]|<\|/?tool_call(?:_end)?\|>", re.IGNORECASE)
_FUNCTION_END = re.compile(r"</function\s*>(?:\s*</tool_call\s*>)?", re.IGNORECASE)
_FUNCTION = re.compile(r"\s*<function\s*=\s*[\"']?([\w.-]{1,64})[\"']?\s*>", re.IGNORECASE)
_PARAMETER = re.compile(
    r"<parameter\s*=\s*[\"']?([\w.-]{1,64})[\"']?\s*>(.*?)(?=</parameter\s*>|<parameter\s*=|</function\s*>|\Z)",
    re.IGNORECASE | re.DOTALL,
)
_PAIR = re.compile(
    r"<arg_key>\s*([\w.-]{1,64})\s*</arg_key>\s*<arg_value>(.*?)</arg_value>", re.IGNORECASE | re.DOTALL
)
_NAMED = re.compile(r"\s*([\w.-]{1,64})\s*(?=<arg_key>)", re.IGNORECASE)
_LANGUAGE = re.compile(r"```[a-z_]*", re.IGNORECASE)
_TOKEN = re.compile(r"<\|[a-z_]{1,32}\|>", re.IGNORECASE)
_MAX_ARGUMENTS = 64
_MAX_CALLS = 64
_PYTHON_CALL = re.compile(
    r"\[?\s{0,8}(?P<name>[A-Za-z_][\w.]{0,63})\((?P<arguments>.*)\)\s{0,8}\]?\Z", re.DOTALL
)
_PYTHON_ARGUMENT = re.compile(
    r"""(?P<string>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')|(?<![\w.])(?P<name>[A-Za-z_]\w{0,63})\s{0,8}=(?!=)""",
    re.DOTALL,
)

NAME_FIELDS = ("name", "tool", "tool_name", "function", "action")
ARGUMENT_FIELDS = ("arguments", "parameters", "args", "action_input", "tool_input", "input")
"""The fields of a call in JSON that may hold the name of the tool, and its arguments."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenCall:
    """A call as a model wrote it, taken apart."""

    name: str | None = None
    """The name of the tool; None where there is none, or the call cannot be read."""
    arguments: object = None
    fault: str = ""
    """The reason the call cannot be read; one sentence."""
    start: int = 0
    """Characters of the reply before it."""
    end: int
    """Characters of the reply up to its end."""
    text: str = ""
    """The call as it is written, where it cannot be read."""
    closed: bool = True
    """True if the call has its closing tag."""
    further: int = 0
    """Calls that follow in the same list."""


def find_call(spoken: str, names: frozenset[str]) -> WrittenCall | None:
    """Return the first tool call in what a model said; None where it opens none.

    A call that no tag opens must be all that is said, alone or in a code fence: JSON within other text may be
    quoted from anywhere.
    """
    return next(find_calls(spoken, names), None)


def find_calls(spoken: str, names: frozenset[str]) -> Iterator[WrittenCall]:
    """Yield the tool calls in what a model said, those of a list one by one; see `find_call`."""
    opening = _OPENING.search(spoken)
    if opening is None:
        is_short = len(spoken.strip()) <= MAX_CHARACTERS
        bare = inside_fence(_TOKEN.sub(" ", spoken)) if is_short else ""
        python = _PYTHON_CALL.match(bare)
        if bare.startswith(("{", "[")) or (python and _tool_named(python["name"], names)):
            calls = _read_calls(spoken, names, 0, len(spoken), closed=True)
            yield from calls if calls[0].name is not None else ()
        return
    for _ in range(_MAX_CALLS):
        start = opening.end()
        later = (match for match in _OPENING.finditer(spoken, start + 1) if match.end() > match.start())
        following = next(later, None)
        limit = len(spoken) if following is None else following.start()
        closing = _FUNCTION_END if _FUNCTION.match(spoken, start) else _CLOSING
        close = closing.search(spoken, start)
        written, end, is_closed = spoken[start:limit], limit, False
        if close is not None and close.start() <= limit:
            written, end, is_closed = spoken[start : close.start()], close.end(), True
        yield from _read_calls(written, names, opening.start(), end, closed=is_closed)
        opening = _OPENING.search(spoken, end)
        if opening is None:
            return


def inside_fence(text: str) -> str:
    """Return the content of a code fence around a whole text; the stripped text where there is none."""
    text = text.strip()
    if len(text) < 6 or not (text.startswith("```") and text.endswith("```")):
        return text
    return _LANGUAGE.sub("", text[:-3], count=1).strip()


def _read_calls(
    written: str, names: frozenset[str], start: int, end: int, *, closed: bool
) -> list[WrittenCall]:
    """Read the text between the tags of a call: at least one call, several where it holds a list of them.

    Arguments that stand in elements of their own are texts, for a reader that knows the tool.
    """
    whole = WrittenCall(start=start, end=end, closed=closed)
    if len(written.strip()) > MAX_CHARACTERS:
        return [replace(whole, fault=f"The tool call has more than {MAX_CHARACTERS:,} characters.")]
    text = inside_fence(_TOKEN.sub(" ", written))
    for head, element in ((_FUNCTION, _PARAMETER), (_NAMED, _PAIR)):
        if match := head.match(text):
            pairs = element.findall(text, match.end())[:_MAX_ARGUMENTS]
            arguments = {name: value.strip() for name, value in pairs}
            return [replace(whole, name=match[1], arguments=arguments)]
    try:
        if python := _PYTHON_CALL.match(text):
            name = _tool_named(python["name"], names) or python["name"]
            return [replace(whole, name=name, arguments=_read_python_arguments(python["arguments"]))]
        value = read_damaged_json(text)
        calls = cast("list[object]", value) if isinstance(value, list) else [value]
        if not calls or not all(isinstance(call, dict) for call in calls):
            raise ValueError("it is no object")  # noqa: TRY301 - a fault of the text, like the others
    except (ValueError, RecursionError) as error:
        fault = f"The tool call holds no JSON object that can be read: {error}."
        return [replace(whole, fault=fault, text=text)]
    read: list[WrittenCall] = []
    for further, call in zip(range(len(calls) - 1, -1, -1), calls, strict=True):
        name, arguments = _name_and_arguments(cast("dict[str, object]", call), names)
        read.append(replace(whole, name=name, arguments=arguments, further=further))
    return read


def _read_python_arguments(written: str) -> object:
    """Return the named arguments of a call in Python; raise `ValueError` if they cannot be read."""
    quoted = _PYTHON_ARGUMENT.sub(lambda match: match["string"] or f'"{match["name"]}": ', written)
    return read_damaged_json(f"{{{quoted}}}")


def _name_and_arguments(call: dict[str, object], names: frozenset[str]) -> tuple[str | None, object]:
    """Return the name and arguments of a call, whatever its fields are called."""
    if isinstance(inner := call.get("function"), dict):
        call = cast("dict[str, object]", inner)
    if len(call) == 1 and (tool := _tool_named(next(iter(call)), names)):
        return tool, next(iter(call.values()))
    field = next((field for field in NAME_FIELDS if isinstance(call.get(field), str)), None)
    if field is None:
        return None, None
    written = str(call[field])
    rest = {name: value for name, value in call.items() if name not in {field, "type"}}
    holder = next((name for name in ARGUMENT_FIELDS if isinstance(rest.get(name), dict | str)), None)
    return _tool_named(written, names) or written, rest if holder is None else rest[holder]


def _tool_named(name: str, names: frozenset[str]) -> str | None:
    """Return the tool that a name means, however it is spelled."""
    plain = re.sub(r"[\s-]+", "_", name.strip().casefold()).removeprefix("functions.")
    return plain if plain in names else None


_FIELDS = ("answer", "final_answer", "Answer", "text", "response")
_TAGGED = re.compile(r"<answer\b[^<>]*>|</answer\b[^<>]*>", re.IGNORECASE)
ANSWER_LABEL = (
    r"(?:^|\n)[ \t>#]*[*_]{0,3}(?:(?:the )?(?:final )?answer(?: is)?|答案|最终答案)[*_]{0,3}\s?[:：]"
)
"""A label such as `Final answer:`, as a regular expression that ignores case."""
_MARKER = re.compile(rf"{ANSWER_LABEL}[*_]{{0,3}}[ \t]*", re.IGNORECASE)
_BOXED = re.compile(r"\\boxed\s?\{")
_MODEL_TOKEN = re.compile(r"<\|(?:begin|end)_of_box\|>|<\|[a-z_]{1,32}\|>", re.IGNORECASE)
_LATEX = re.compile(r"\\(?:text|mathrm|textbf)\s?\{([^{}]*)\}|\\([%$#&_])")
_INTENTION = re.compile(
    r"(?:(?:okay|ok|so|now|next|first|hmm|well)[,.]? )*"
    r"(?:(?:i|we)(?: (?:still|first|now|also|next))?"
    r"(?:['’]ll| will| need to| should| must| have to| want to|(?: am| are|['’]m|['’]re) going to)"
    r"|let me|let us|let['’]s)"
    r"(?: (?:first|now|next|also|try to|have to|need to))*"
    r" (?:search|look|find|check|crop|zoom|examine|inspect|summari[sz]e|call|use|retrieve)\b(?P<rest>.*)\Z",
    re.IGNORECASE | re.DOTALL,
)
_CLAUSE_AFTER = re.compile(r"[:：;=]\s*\S|[,，]\s*(?:but|so|and|since|because|as|which)\b", re.IGNORECASE)
_NUMBER = re.compile(r"\d")
_NAMED_NUMBER = re.compile(
    r"\b(?:pages?|tables?|figures?|sections?|steps?|images?|pictures?|texts?|videos?|nodes?)\s\d{1,4}\b"
    r"|\b(?:19|20)\d\d\b",
    re.IGNORECASE,
)
"""A number that only names what the model looks at."""
_SENTENCE = re.compile(r"(?<=[.!?。！？])\s+|\n+")
_STATED = re.compile(
    r"(?:\A|[.!?:。\n])\s{0,8}(?:(?:so|thus|therefore|hence|ok|okay)[,\s]\s{0,3}){0,2}"
    r"the (?:final )?answer is (?:therefore |thus |hence )?"
    r"(?!not (?!answerable)|(?:still|probably|likely|unclear|unknown|missing|there|here|somewhere|yet)\b"
    r"|to be |(?:on|in|at|under) (?:the|this|that|another|an?|page|table|figure|one)\b)"
    r"(?!(?:given|shown|found|listed) )"
    r"(?P<answer>[^\s.].{0,2000}?)(?:(?<!Mr)(?<!Dr)(?<!St)[.!?](?=\s|[*_]|\Z)|[。！？\n]|\Z)",
    re.IGNORECASE,
)
"""A sentence that states the answer."""
_CALL_IN_PYTHON = re.compile(
    r"\[?\s{0,8}(?:add_[a-z]{1,32}_node|summarize_and_memorize|search|bbox|crop|zoom|(?:final_)?answer)\("
)
CALL_FIELD = r"[\"'](?:arguments|parameters|parent_ids|query)[\"']\s*:"
"""Text that occurs in tool calls only, as a regular expression."""
_CALL = re.compile(CALL_FIELD)
MAX_ANSWER_CHARS = 20_000
"""Length of an answer; a longer text is no answer."""


_ELEMENT = re.compile(r"<(?P<name>[a-z_][\w.-]{0,63})\b[^<>]*>.*</(?P=name)\s*>", re.IGNORECASE | re.DOTALL)
_MARKUP = frozenset("a b br code div em h1 h2 h3 h4 i li ol p pre s span strong sub sup table u ul".split())


def _is_markup(name: str) -> bool:
    """Return whether an element is of HTML; one of another name is a call of something that is not there."""
    return name.lower() in _MARKUP


def plain_answer(spoken: str) -> str | None:
    r"""Return the answer that a text gives, without what is written around it.

    Understood are a code fence, `{"answer": …}`, `Answer: …` in plain text or Markdown, `\boxed{…}`, an
    `<answer>` that is never closed, and a text alone. Returns None where it gives none: it is empty, opens a
    tool call or another action, is an element that means nothing, or only says what the model means to do
    next.

    >>> plain_answer("The table lists it.\n\n**Answer:** 48,200")
    '48,200'
    """
    text = inside_fence(_TAGGED.sub("\n", _MODEL_TOKEN.sub(" ", spoken)))
    if not text or len(text) > MAX_ANSWER_CHARS:
        return None
    if _OPENING.search(spoken) or TAG.search(text) or _CALL.search(text):
        return None
    if is_only_tags(text) or ((element := _ELEMENT.fullmatch(text)) and not _is_markup(element["name"])):
        return None
    if text[0] in "{[":
        return _answer_in_json(text)
    answer = _labelled(text)
    if not answer and not _only_intends(text) and not _CALL_IN_PYTHON.match(text):
        return text
    return answer


def labelled_answer(parts: Sequence[str]) -> str | None:
    """Return the answer that a text gives beside actions, which stand between its parts.

    It must be told from the rest of the text: by `Answer:`, by a box, or by `The answer is …`.
    """
    texts = (_TAGGED.sub("\n", _MODEL_TOKEN.sub(" ", part)) for part in parts)
    answers = [
        answer
        for text in texts
        if len(text) <= MAX_ANSWER_CHARS and not TAG.search(text) and not _CALL.search(text)
        if (answer := _labelled(text) or _stated(text)) and not _only_intends(answer)
    ]
    return answers[-1] if answers else None


def _stated(text: str) -> str | None:
    """Return the answer in the last sentence that says what the answer is."""
    sentences = list(_STATED.finditer(text))
    return (sentences[-1]["answer"].strip("*_ ") or None) if sentences else None


def _only_intends(text: str) -> bool:
    """Return whether a text only says what the model means to do next, in nothing but such sentences."""
    sentences = [sentence for sentence in _SENTENCE.split(text.strip()) if sentence.strip()]
    return bool(sentences) and all(map(_is_intention, sentences))


def _is_intention(sentence: str) -> bool:
    match = _INTENTION.match(sentence.strip())
    if match is None:
        return False
    return not _CLAUSE_AFTER.search(match["rest"]) and not _NUMBER.search(
        _NAMED_NUMBER.sub("", match["rest"])
    )


def _labelled(text: str) -> str | None:
    """Return the answer after `Answer:` or in a box; None where there is none."""
    markers = list(_MARKER.finditer(text))
    marked = text[markers[-1].end() :].strip().strip("*_ ").strip() if markers else ""
    return _boxed(text) or marked or None


def _answer_in_json(text: str) -> str | None:
    """Return the answer in an object that holds it; whatever else is JSON is none."""
    try:
        value = read_damaged_json(text)
        if not isinstance(value, dict):
            return None
        fields = cast("dict[str, object]", value)
        return next((repair_text(fields[name]) for name in _FIELDS if name in fields), None)
    except (ValueError, RecursionError):
        return None


def _boxed(text: str) -> str | None:
    r"""Return the content of the last `\boxed{…}`."""
    openings = list(_BOXED.finditer(text))
    if not openings:
        return None
    start = openings[-1].end()
    depth = 1
    for at in range(start, len(text)):
        depth += {"{": 1, "}": -1}.get(text[at], 0)
        if depth == 0:
            return _LATEX.sub(r"\1\2", text[start:at]).strip() or None
    return None


_THINK_OPENING = re.compile(r"\s*<think>", re.IGNORECASE)
_THINK_CLOSING = re.compile(r"</think\b[^<>]*>", re.IGNORECASE)


@dataclass(slots=True)
class Thinking:
    """An incremental reader of the think block with which a reply begins.

    Letters that may be the beginning of the closing tag are held back: what was given out stays true.

    >>> thinking = Thinking()
    >>> [thinking.add(piece) for piece in ("<think>two", " pages</thi", "nk><search>ferry")]
    ['two', ' pages', '']
    """

    open: bool = False
    over: bool = False
    tail: str = ""
    """Text that may be the beginning of a tag."""

    def add(self, piece: str) -> str:
        """Add a piece, and return what it adds to the thought."""
        if self.over:
            return ""
        self.tail += piece
        if not self.open:
            opening = _THINK_OPENING.match(self.tail)
            if opening is None:
                self.over = not "<think>".startswith(self.tail.lstrip().lower())
                return ""
            self.open, self.tail = True, self.tail[opening.end() :]
        closing = _THINK_CLOSING.search(self.tail)
        if closing is not None:
            self.over = True
            return self.tail[: closing.start()]

        at = self.tail.rfind("<")
        end = self.tail[at:].lower()
        may_close = at >= 0 and ">" not in end and ("</think".startswith(end) or end.startswith("</think"))
        certain = at if may_close else len(self.tail)
        thought, self.tail = self.tail[:certain], self.tail[certain:]
        return thought
