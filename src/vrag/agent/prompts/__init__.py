"""Every text a model is given, one file each."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from string import Template

__all__ = ["prompt", "worded"]


def prompt(file: str, /, **values: str | int) -> str:
    """The text of a prompt file with its `$names` filled in.

    Args:
        file: Its name in this folder.
        values: What to put in the place of each `$name`; none may be missing.
    """
    return _template(file).substitute(values)


def worded(own: str | None, file: str, *, actions: str) -> str:
    """An instruction, in the user's own words or ours.

    Args:
        own: The user's; its `$actions` is filled in, every other `$` stays as it is.
        file: That of ours.
        actions: The lines about actions of others; added at the end of the user's, where it has
            no place for them.
    """
    if own is None:
        return prompt(file, actions=actions)
    filled = Template(own).safe_substitute(actions=actions)
    return filled if filled != own or not actions else f"{own.rstrip()}\n{actions}"


@cache
def _template(name: str) -> Template:
    return Template((files(__name__) / name).read_text(encoding="utf-8").strip())
