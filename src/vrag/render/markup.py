"""HTML pages, SVG charts and Markdown that show text of others as text, whatever it contains.

Pages stand alone and fetch nothing. They and their charts come from templates, which escape every value.
"""

from __future__ import annotations

import base64
import math
import re
from functools import cache
from importlib.resources import files
from typing import Any

from markupsafe import Markup

from vrag import __version__
from vrag.render.answer_html import answer_html, turn_html
from vrag.render.markdown_text import inline, link, paragraph, quoted
from vrag.render.text_format import (
    amount,
    extent,
    list_places,
    moment,
    one_line,
    place,
    printable,
    seconds,
    text_width,
    when,
    where,
)
from vrag.render.verdicts import claim_lines, trust_line
from vrag.text.numerals import count

POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
"""The content security policy of pages: a browser draws them and nothing else."""
ICON = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16">'
    '<rect width="16" height="16" rx="4" fill="#0f766e"/>'
    '<rect x="4" y="4.5" width="8" height="7" rx="1" fill="none" stroke="#fff" stroke-width="1.6"/></svg>'
)
_BETWEEN_TAGS = re.compile(r"(?<=[>}])\n\s*|\n\s*(?=[<{])")
"""Line breaks and indentation of templates."""


class SvgDrawing(str):
    """An SVG file as text, which notebooks show."""

    __slots__ = ()

    def _repr_html_(self) -> Markup:
        """Return the drawing as an image, so that its styles concern nothing else; its title is the text."""
        title = re.search("<title>(.*?)</title>", self, re.DOTALL)
        data = base64.b64encode(self.encode()).decode()
        image = Markup('<img alt="{}" src="data:image/svg+xml;base64,{}">')
        return image.format(Markup(title[1]).unescape() if title else "", data)  # noqa: S704 - is escaped again


def stylesheet(css: str) -> Markup:
    """Return a trusted style sheet, unescaped.

    Raises `ValueError` if it would end its element or fetch something.
    """
    if "<" in css or "@import" in css or "url(" in css:
        raise ValueError("the style sheet of a page must not contain <, @import or url(")
    return Markup(f"<style>{css}</style>")  # noqa: S704 - a file of this program


@cache
def package_text(package: str, path: str) -> str:
    """Read a text file of a package."""
    return (files(package) / path).read_text(encoding="utf-8")


def number(value: float) -> str:
    """Return a length or coordinate with at most two decimals; 0 if it is not finite.

    >>> number(1 / 3), number(2.0), number(float("nan"))
    ('0.33', '2', '0')
    """
    if not math.isfinite(value):
        return "0"
    return f"{value:.2f}".rstrip("0").rstrip(".")


def render_page(template: str, /, **values: Any) -> str:  # noqa: ANN401 - whatever the template shows
    """Render a page from a template of this package."""
    return environment("vrag.render").get_template(template).render(values)


@cache
def environment(package: str) -> Any:  # noqa: ANN401 - its type has no room for further filters
    """Return the environment of the templates of a package, which can import those of this one.

    Every value of a page is escaped; Markdown escapes its own. Characters that no page can hold are replaced.
    Line breaks between tags are removed, since some elements show white space. A missing value is an error.
    """
    from jinja2 import Environment, FunctionLoader, StrictUndefined, select_autoescape

    def load(name: str) -> str:
        source = package if (files(package) / "templates" / name).is_file() else "vrag.render"
        text = package_text(source, f"templates/{name}")
        return text if name.endswith(".md.jinja") else _BETWEEN_TAGS.sub("", text)

    loaded: Any = Environment(
        loader=FunctionLoader(load),
        autoescape=select_autoescape(enabled_extensions=(), disabled_extensions=("md.jinja",), default=True),
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
        finalize=_finalize,
    )
    texts = (amount, count, extent, list_places, moment, one_line, place, seconds, text_width, when, where)
    marked = (inline, link, paragraph, quoted, package_text, stylesheet)
    answers = (answer_html, turn_html, claim_lines, trust_line)
    loaded.globals |= {function.__name__: function for function in (*texts, *marked, *answers)}
    icon = base64.b64encode(ICON.encode()).decode()
    loaded.globals |= {"icon": icon, "page_policy": POLICY, "version": __version__}
    return loaded


def _finalize(value: object) -> object:
    """Convert a value for a page: text without control characters, numbers with two digits at most."""
    match value:
        case None:
            return ""
        case float():
            return number(value)
        case str() if not isinstance(value, Markup):
            return printable(value)
        case _:
            return value
