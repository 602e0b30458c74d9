"""Every text an expert is given, one file each."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from string import Template

__all__ = ["prompt"]


def prompt(file: str, /, **values: str | int) -> str:
    """The text of a prompt file with its `$names` filled in.

    Args:
        file: Its name in this folder.
        values: What to put in the place of each `$name`; none may be missing.
    """
    return _template(file).substitute(values)


@cache
def _template(name: str) -> Template:
    return Template((files(__name__) / name).read_text(encoding="utf-8").strip())
