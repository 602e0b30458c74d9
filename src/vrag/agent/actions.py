"""The actions of an agent, and the grammar in which a model writes them.

A reply is `<think>…</think>` followed by exactly one of `<search>query</search>`,
`<bbox>[x1, y1, x2, y2]</bbox>` and `<answer>text</answer>` (VRAG-RL, arXiv 2505.22019, §3).
`parse` takes any text and never raises; `render` is its inverse for every action that can be
constructed.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from typing import Generic, TypeVar

from vrag.errors import as_sentence

ABSTENTION = "Not answerable"
"""The answer that says that the documents do not hold one."""

NAME = re.compile(r"[a-z][a-z0-9_]{0,31}")
"""Pattern of the names of custom tools."""
_BUILT_IN_TAGS = ("search", "bbox", "answer")
_SELECT = "evidence"
_QUOTED = "passage"
"""The element in which a model is shown text of documents; what it repeats of that is no action."""


class ActionRejected(ValueError):
    """An action cannot be carried out; the message is a sentence for the model."""


@cache
def tag_pattern(names: frozenset[str]) -> re.Pattern[str]:
    """Return the pattern of a tag with these further names; its groups are `close`, `name`, `rest`."""
    words = "|".join(["think", *_BUILT_IN_TAGS, *sorted(names)])
    return re.compile(rf"<(?P<close>/?)(?P<name>{words})\b(?P<rest>[^<>]*)>", re.IGNORECASE)


TAG = tag_pattern(frozenset[str]())
"""A tag of the grammar, opening or closing."""


_TAGS_ALONE = re.compile(r"(?:</?[a-z_][^<>]*>\s*)+", re.IGNORECASE)


def is_only_tags(text: str) -> bool:
    """Return whether a text is made of tags, with no words between them: no answer.

    >>> is_only_tags("<lookup> </lookup>"), is_only_tags("<b>12</b>")
    (True, False)
    """
    return _TAGS_ALONE.fullmatch(text) is not None


_TAG_NAME = re.compile(r"</?([a-z_][\w.-]{0,63})", re.IGNORECASE)
_EMPTY_ELEMENT = re.compile(r"<([a-z_][\w.-]{0,63})\b[^<>]*>\s*</\1\s*>", re.IGNORECASE)
_CALL_TAGS = frozenset({"tool_calls", "function", "parameter", "arg_key", "arg_value", "crop", "zoom"})


def is_action_or_empty(text: str, names: frozenset[str] = frozenset()) -> bool:
    """Return whether an answer is tags alone that answer nothing: of an action, or of an empty element.

    Other tags may be what was asked for; `names` are the custom tools on offer.

    >>> [is_action_or_empty(text) for text in ("<ul>", "<lookup></lookup>", "<tool_call>")]
    [False, True, True]
    """
    if not is_only_tags(text):
        return False
    tags = {name.lower() for name in _TAG_NAME.findall(text)}
    return _EMPTY_ELEMENT.search(text) is not None or not tags.isdisjoint(RESERVED | _CALL_TAGS | names)


_NOTHING_BUT_TAGS = "the answer is empty: it holds nothing but tags"


def _check_text(text: str, name: str) -> None:
    if not text.strip():
        raise ValueError(f"the {name} is empty")
    if text != text.strip():
        raise ValueError(f"the {name} begins or ends with white space")
    if TAG.search(text):
        raise ValueError(f"the {name} contains a tag of the grammar")


@dataclass(frozen=True, slots=True)
class Search:
    """Look for items.

    Raises `ValueError` if the query is empty, is not stripped or contains a tag of the grammar.
    """

    query: str

    def __post_init__(self) -> None:
        _check_text(self.query, "query")


@dataclass(frozen=True, slots=True)
class Crop:
    """Look closer at a part of a picture that was shown.

    The numbers are in the coordinate space of the model's profile; only the environment, which knows that
    space and the picture, can tell whether anything lies inside. Raises `ValueError` if a number is not
    finite or `image` is under 1.
    """

    box: tuple[float, float, float, float]
    image: int | None = None
    """Number of the picture in the order shown, from 1, crops included; None for the last one."""

    def __post_init__(self) -> None:
        if not all(math.isfinite(side) for side in self.box):
            raise ValueError("the box holds a number that is not finite")
        if self.image is not None and self.image < 1:
            raise ValueError("pictures are numbered from 1")


@dataclass(frozen=True, slots=True)
class Answer:
    """End the run.

    Raises `ValueError` if the text is empty or only tags that answer nothing, is not stripped or contains a
    tag of the grammar.
    """

    text: str

    def __post_init__(self) -> None:
        _check_text(self.text, "answer")
        if is_action_or_empty(self.text):
            raise ValueError(_NOTHING_BUT_TAGS)

    @property
    def abstains(self) -> bool:
        """True if it says that the documents do not hold an answer."""
        return self.text.rstrip(".").casefold() == ABSTENTION.casefold()


@dataclass(frozen=True, slots=True)
class UseTool:
    """Use a custom tool: `<name>text</name>`; see `vrag.agent.tool_plugins`.

    Raises `ValueError` if the name cannot be one, or the text is empty, not stripped or contains a tag.
    """

    name: str
    text: str

    def __post_init__(self) -> None:
        if not NAME.fullmatch(self.name) or self.name in RESERVED:
            raise ValueError(f"{self.name!r} cannot be the name of a custom tool")
        _check_text(self.text, f"text of {self.name}")
        if tag_pattern(frozenset({self.name})).search(self.text):
            raise ValueError(f"the text of {self.name} contains a tag of the grammar")


@dataclass(frozen=True, slots=True)
class Select:
    """The choice among listed evidence, where the model was asked for it: `<evidence>1, 3</evidence>`.

    Raises `ValueError` if a number is under 1.
    """

    numbers: tuple[int, ...]
    """Numbers in the list, from 1; none when nothing listed supports the answer."""

    def __post_init__(self) -> None:
        if any(number < 1 for number in self.numbers):
            raise ValueError("the evidence is numbered from 1")


@dataclass(frozen=True, slots=True)
class Invalid:
    """A reply that is no action, or an action that cannot be executed."""

    reason: str
    """One sentence the model can act on."""


RESERVED = frozenset({"think", *_BUILT_IN_TAGS, _SELECT, "passage", "tool_call", "conflict"})
"""Names that no custom tool may bear."""

Action = Search | Crop | Answer | UseTool | Select
"""An action, as `render` writes and `parse` reads it."""

A_co = TypeVar("A_co", covariant=True)


class Flag(StrEnum):
    """A fault of a reply that does not keep its action from running."""

    NO_THOUGHT = "no_thought"
    """There is no think block before the action, or nothing in it."""
    TRAILING_TEXT = "trailing_text"
    """Something follows the action; it is dropped."""
    REPAIRED = "repaired"
    """The reply breaks the grammar, and its meaning is clear; `Turn.repairs` says what was repaired."""


@dataclass(frozen=True, slots=True)
class Turn(Generic[A_co]):
    """One reply, taken apart by one grammar or another."""

    thought: str | None
    """The text inside the think block; None without one."""
    action: A_co | Invalid
    executed: str
    """The reply up to the end of the action that runs: all that may be scored or shown."""
    flags: frozenset[Flag] = frozenset()
    repairs: tuple[str, ...] = ()
    """Short phrases on what breaks the grammar and how it was read, for a repaired reply."""


def end_tags(names: Iterable[str], *, selecting: bool = False) -> tuple[str, ...]:
    """Return the tags that end an action; `names` and `selecting` as in `parse`.

    >>> end_tags(["calculate"])
    ('</search>', '</bbox>', '</answer>', '</calculate>')
    """
    return tuple(
        f"</{name}>" for name in (*_BUILT_IN_TAGS, *sorted(names), *([_SELECT] if selecting else []))
    )


def render(action: Action) -> str:
    """Return the action in the grammar.

    >>> render(Crop((10, 20.5, 30, 40), image=2))
    '<bbox image="2">[10, 20.5, 30, 40]</bbox>'
    """
    match action:
        case Search(query):
            return f"<search>{query}</search>"
        case Answer(text):
            return f"<answer>{text}</answer>"
        case Crop(box, image):
            name = "" if image is None else f' image="{image}"'
            sides = (int(side) if side == int(side) and abs(side) < 1e15 else float(side) for side in box)
            return f"<bbox{name}>[{', '.join(map(repr, sides))}]</bbox>"
        case UseTool(name, text):
            return f"<{name}>{text}</{name}>"
        case Select(numbers):
            return f"<{_SELECT}>{', '.join(map(str, numbers))}</{_SELECT}>"


def parse(
    reply: str,
    names: frozenset[str] = frozenset(),
    *,
    selecting: bool = False,
    without: frozenset[str] = frozenset(),
) -> Turn[Action]:
    """Take any text apart; never raises.

    The first complete action tag outside think blocks is the action. A reply that starts in the
    middle of a thought (some chat templates open the block themselves) is understood.

    `names` are the custom tools on offer; `selecting` is true if the model was asked which evidence counts;
    `without` are tags of built-in actions that this agent does not offer, such as `bbox` for one that never
    looks closer. Such an action is `Invalid`, and the reason names those that may be taken.

    >>> parse("<think>It needs looking up.</think><search>ferry prices</search>").action
    Search(query='ferry prices')
    >>> parse("no idea").action
    Invalid(reason='The reply contains no complete action.')
    >>> parse("<bbox>[1, 2, 3, 4]</bbox>", without=frozenset({"bbox"})).action
    Invalid(reason='There is no bbox here, only: search, answer.')
    """
    element = first_element(reply, names | {_SELECT} if selecting else names)
    thought = "\n".join(element.thoughts) if element.thoughts else None
    if element.unclosed is not None:
        return Turn(reply[element.unclosed :].strip(), Invalid("The think block is never closed."), reply)
    if element.opening is None or element.closing is None:
        return Turn(thought, Invalid("The reply contains no complete action."), reply)
    name, end = element.opening["name"].lower(), element.closing.end()
    body = reply[element.opening.end() : element.closing.start()].strip()
    action = absent(name, names, without) if name in without else _build_action(element.opening, body)
    if isinstance(action, Answer) and is_action_or_empty(body, names):
        action = Invalid(as_sentence(_NOTHING_BUT_TAGS))
    flags = {Flag.TRAILING_TEXT} if reply[end:].strip() else set[Flag]()
    if not any(element.thoughts):
        flags.add(Flag.NO_THOUGHT)
    return Turn(thought, action, reply[:end], frozenset(flags))


@dataclass(frozen=True, slots=True)
class Element:
    """The first complete element of a reply that stands for an action, whatever is in it."""

    thoughts: tuple[str, ...]
    """The texts of the think blocks before it."""
    opening: re.Match[str] | None = None
    """The opening tag; None where there is no complete element."""
    closing: re.Match[str] | None = None
    unclosed: int | None = None
    """Position at which a thought begins that never ends; no element is looked for in it."""


def first_element(reply: str, names: frozenset[str]) -> Element:
    """Find the action of a reply. Thoughts and quoted passages hold none."""
    tags = list(tag_pattern(names | {_QUOTED}).finditer(reply))
    thoughts: list[str] = []
    never_closed: set[str] = set()
    at = 0
    first = next((n for n, tag in enumerate(tags) if tag["name"].lower() == "think"), None)
    if first is not None and tags[first]["close"]:  # the reply begins inside a think block
        thoughts.append(reply[: tags[first].start()].strip())
        at = first + 1
    while at < len(tags):
        tag = tags[at]
        name = tag["name"].lower()
        close = None if tag["close"] or name in never_closed else closing_tag(tags, at)
        at = at + 1 if close is None else close
        if tag["close"]:
            continue
        if name == "think":
            if close is None:
                return Element(tuple(thoughts), unclosed=tag.end())
            thoughts.append(reply[tag.end() : tags[close].start()].strip())
        elif close is None:
            never_closed.add(name)
        elif name != _QUOTED:
            return Element(tuple(thoughts), tag, tags[close])
    return Element(tuple(thoughts))


def closing_tag(tags: Sequence[re.Match[str]], opening: int) -> int | None:
    """Return the index of the tag that closes the one at `opening`; None where there is none."""
    name = tags[opening]["name"].lower()
    later = range(opening + 1, len(tags))
    return next((at for at in later if tags[at]["close"] and tags[at]["name"].lower() == name), None)


def absent(name: str, names: frozenset[str], without: frozenset[str]) -> Invalid:
    """Return the error for an action that this agent does not offer."""
    allowed = [tag for tag in (*_BUILT_IN_TAGS, *sorted(names)) if tag not in without]
    return Invalid(f"There is no {name} here, only: {', '.join(allowed)}.")


def _build_action(tag: re.Match[str], body: str) -> Action | Invalid:
    try:
        match tag["name"].lower():
            case "search":
                return Search(body)
            case "answer":
                return Answer(body)
            case "bbox":
                return _build_crop(body, tag["rest"])
            case "evidence":  # distinct numbers in the order written, with anything between them
                return Select(tuple(dict.fromkeys(int(n) for n in re.findall(r"[0-9]{1,6}", body))))
            case name:
                return UseTool(name, body)
    except ValueError as error:
        return Invalid(as_sentence(str(error)))


def _build_crop(body: str, attribute: str) -> Crop:
    inner = body.removeprefix("[").removesuffix("]")
    try:
        x1, y1, x2, y2 = (float(side) for side in inner.split(","))
    except ValueError:
        raise ValueError("a box is four numbers between brackets") from None
    if not attribute.strip():
        return Crop((x1, y1, x2, y2))
    name, _, value = attribute.partition("=")
    number = value.strip().removeprefix('"').removesuffix('"').strip()
    is_named = name.strip() == "image" and name[:1].isspace()
    if not is_named or not re.fullmatch(r"[0-9]{1,6}", number):
        raise ValueError('the picture of a box is named by its number: <bbox image="2">')
    return Crop((x1, y1, x2, y2), int(number))
