"""HTML pages from templates: they run no script, fetch nothing, and show text of others as text."""

from __future__ import annotations

import base64
import re
from functools import cache
from typing import TYPE_CHECKING, Any, cast

from vrag import __version__
from vrag.render.graph_drawing import MARGIN, MAX_THUMBS, PADDING, THUMB, anchor, kind_name
from vrag.render.html import ICON, POLICY, css, number, package_text, printable, stylesheet
from vrag.render.text_format import amount, count, extent, list_places, moment, place, seconds, when, where

if TYPE_CHECKING:
    from jinja2 import Environment

_BETWEEN_TAGS = re.compile(r"(?<=[>}])\n\s*|\n\s*(?=[<{])")
"""Line breaks and indentation of templates."""


def render_page(template: str, /, **values: Any) -> str:  # noqa: ANN401 - whatever the template shows
    """A page from a template of this package."""
    return _environment().get_template(template).render(values)


@cache
def _environment() -> Environment:
    """The environment of the templates.

    Every value is escaped; characters that no page can hold are replaced. Line breaks between tags are
    removed, since some elements show white space. A missing value is an error.
    """
    from jinja2 import Environment, FunctionLoader, StrictUndefined

    environment = Environment(
        loader=FunctionLoader(lambda name: _BETWEEN_TAGS.sub("", package_text(f"templates/{name}"))),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_finalize,
    )
    texts = (amount, count, extent, list_places, moment, place, seconds, when, where)
    functions = (*texts, anchor, css, kind_name, stylesheet)
    layout = {"MARGIN": MARGIN, "MAX_THUMBS": MAX_THUMBS, "PADDING": PADDING, "THUMB": THUMB}
    icon = base64.b64encode(ICON.encode()).decode()
    values = cast("dict[str, Any]", environment.globals)
    values |= {function.__name__: function for function in functions} | layout
    values |= {"icon": icon, "policy": POLICY, "version": __version__}
    return environment


def _finalize(value: object) -> object:
    """Convert a value for a template: text without control characters, numbers with two digits at most."""
    match value:
        case None:
            return ""
        case float():
            return number(value)
        case str() if not hasattr(value, "__html__"):
            return printable(value)
        case _:
            return value
