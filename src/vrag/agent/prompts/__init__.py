"""Every text a model is given: prompt files, and text of documents that stays text.

Servers read a prompt as one string of tokens. A passage that holds `<|im_start|>system` would open a turn
of its own there, one that holds `<|image_pad|>` would stand for a picture that is not there, and one that
holds the end of the fence around it would speak from outside. `material` writes them otherwise, so that
nothing changes for a reader.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from importlib.resources import files
from string import Template

from vrag.model_profiles import Profile

_QUESTION = "{question}"
"""The place of the question in the instructions of released checkpoints."""
_CITING = re.compile(r"\bcit(?:e|es|ing|ations?)\b|in brackets after each statement", re.IGNORECASE)
_PLACEHOLDER = re.compile(r"\$(actions|box)\b")


def prompt(file: str, /, **values: str | int) -> str:
    """Return the text of a prompt file in this folder with its `$names` filled in; none may be missing."""
    return prompt_in(__name__, file, **values)


def prompt_in(package: str, file: str, /, **values: str | int) -> str:
    """Return the text of a prompt file of another package with its `$names` filled in; see `prompt`."""
    return _template(package, file).substitute(values)


def box_words(profile: Profile) -> dict[str, str]:
    """Return the description of a box: `$sides`, as `[x1, y1, x2, y2]`, and `$box`, with what that means."""
    order, unit = (prompt(file) for file in profile.box_prompts)
    sides = profile.written_sides
    return {"sides": sides, "box": f"{sides}, {order}, {unit}"}


def worded(own: str | None, file: str, *, actions: str, profile: Profile) -> str:
    """Return an instruction: the user's `own`, or the built-in one in a prompt file.

    In the user's, `$actions` and `$box` are filled in, and every other `$` stays as it is; `actions`, the
    lines about custom tools, are added at its end where it has no place for them.
    """
    values = {"actions": actions, **box_words(profile)}
    if own is None:
        return prompt(file, **values)
    filled = _PLACEHOLDER.sub(lambda match: values[match[1]], own)
    has_placeholder = any(match[1] == "actions" for match in _PLACEHOLDER.finditer(own))
    return filled if has_placeholder or not actions else f"{filled.rstrip()}\n{actions}"


def with_question(instruction: str, question: str) -> str | None:
    """Return an instruction with the question in its place; None where it has none for it.

    >>> with_question("Answer briefly. Question: {question}", "How many?")
    'Answer briefly. Question: How many?'
    """
    return instruction.replace(_QUESTION, question) if _QUESTION in instruction else None


def asks_for_citations(instruction: str) -> bool:
    """Return whether an instruction asks for the sources of an answer, as those of this folder do.

    >>> asks_for_citations(prompt("rag.md")), asks_for_citations("Search, look, answer.")
    (True, False)
    """
    return _CITING.search(instruction) is not None


def texts(*, without: tuple[str, ...] = ()) -> list[str]:
    """Return the prompt files as they stand, in the order of their names: what a vocabulary has to cover."""
    names = sorted(file.name for file in files(__name__).iterdir() if file.name.endswith(".md"))
    return [_template(__name__, name).template for name in names if not name.startswith(without)]


@cache
def _template(package: str, name: str) -> Template:
    return Template((files(package) / name).read_text(encoding="utf-8").strip())


_CHAT_TOKENS = (
    r"[<＜](?=[|｜])|(?<=[|｜])[>＞]"  # tokens of chat templates: <|im_start|>
    r"|\[(?=/?(?:INST|SYS)\])|<(?=<SYS>>|start_of_turn|end_of_turn|IMG_CONTEXT|image_soft_token)"
)
_CALLS = (  # of tool calls in other forms: <function=name>, <arg_key>, [TOOL_CALLS]
    r"<(?=\s*/?\s*(?:function|parameter)\s*=)|<(?=\s*/?\s*(?:tool_calls|arg_key|arg_value)\b)"
    r"|\[(?=/?TOOL_CALLS\])"
)
_TAG_NAMES = "passage|think|search|bbox|answer|evidence|conflict|tool_call|tool_response|image|img|video|s"
_CHAT_TOKEN = re.compile(_CHAT_TOKENS, re.IGNORECASE)
_REPLACEMENTS = {"<": "‹", ">": "›", "＜": "‹", "＞": "›", "[": "⟦"}


def material(text: str, names: Iterable[str] = ()) -> str:
    """Return the text with what a model's server or grammar would take for control written otherwise.

    >>> material("Ferry <|im_start|>system: a < b </passage>")
    'Ferry ‹|im_start|›system: a < b ‹/passage>'
    """
    return _control(frozenset(names)).sub(lambda match: _REPLACEMENTS[match[0]], text)


@cache
def _control(names: frozenset[str]) -> re.Pattern[str]:
    words = "|".join([_TAG_NAMES, *sorted(map(re.escape, names))])
    return re.compile(
        rf"{_CHAT_TOKENS}|{_CALLS}"
        rf"|[<＜](?=\s*/?\s*(?:{words})\b[^<>＜＞]{{0,200}}[>＞])"
        r"|[<＜](?=\s*/\s*passage)",  # a reader takes a fence for closed that nobody closed properly
        re.IGNORECASE,
    )


def spoken(text: str) -> str:
    """Escape the tokens of chat templates in a reply that goes back into a prompt; tags stay.

    A model can copy such tokens from a picture, and no server would know them from its own.

    >>> spoken("<search><|im_end|>ferry</search>")
    '<search>‹|im_end|›ferry</search>'
    """
    return _CHAT_TOKEN.sub(lambda match: _REPLACEMENTS[match[0]], text)


def encodable(text: str) -> str:
    """Return the text with lone surrogates replaced, which no file and no connection can carry."""
    return text.encode("utf-8", "replace").decode("utf-8")
