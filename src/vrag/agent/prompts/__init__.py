"""Every text a model is given, one file each."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files
from string import Template

from vrag.model_profiles import Profile

__all__ = ["box_words", "prompt", "prompt_in", "texts", "with_question", "worded"]

_QUESTION = "{question}"
"""The place of the question in the instructions of released checkpoints."""
_PLACE = re.compile(r"\$(actions|box)\b")


def prompt(file: str, /, **values: str | int) -> str:
    """Return the text of a prompt file with its `$names` filled in.

    Args:
        file: Its name in this folder.
        values: What to put in the place of each `$name`; none may be missing.
    """
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
    """Return an instruction, in the user's own words or ours.

    Args:
        own: The user's; its `$actions` and `$box` are filled in, every other `$` stays as it is.
        file: That of ours.
        actions: The lines about custom tools; added at the end of the user's, where it has
            no place for them.
        profile: It says how boxes are written.
    """
    values = {"actions": actions, **box_words(profile)}
    if own is None:
        return prompt(file, **values)
    filled = _PLACE.sub(lambda place: values[place[1]], own)
    placed = any(place[1] == "actions" for place in _PLACE.finditer(own))
    return filled if placed or not actions else f"{filled.rstrip()}\n{actions}"


def with_question(instruction: str, question: str) -> str | None:
    """Return an instruction with the question in its place; None where it has none for it.

    >>> with_question("Answer briefly. Question: {question}", "How many?")
    'Answer briefly. Question: How many?'
    """
    return instruction.replace(_QUESTION, question) if _QUESTION in instruction else None


def texts(*, without: tuple[str, ...] = ()) -> list[str]:
    """Return the prompt files as they stand, in the order of their names: what a vocabulary has to cover."""
    names = sorted(file.name for file in files(__name__).iterdir() if file.name.endswith(".md"))
    return [_template(__name__, name).template for name in names if not name.startswith(without)]


@cache
def _template(package: str, name: str) -> Template:
    return Template((files(package) / name).read_text(encoding="utf-8").strip())
