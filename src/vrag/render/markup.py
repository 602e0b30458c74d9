"""HTML pages, SVG charts and Markdown that show text of others as text, whatever it contains.

Pages stand alone and fetch nothing. They and their charts come from templates, which escape every value.

CommonMark reads a backslash before ASCII punctuation as the character itself. Some punctuation is special
only at the beginning of a line; it is escaped there and nowhere else, so that Markdown stays readable.
"""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from importlib.resources import files
from typing import Any
from urllib.parse import quote

from markupsafe import Markup

from vrag import __version__
from vrag.agent.answers.citation import MarkedText
from vrag.render.text_format import (
    amount,
    count,
    extent,
    list_places,
    moment,
    place,
    printable,
    seconds,
    text_width,
    when,
    where,
)
from vrag.render.verdicts import VERDICT_NAMES, answer_pieces, claim_lines, summarize_claims

POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
"""The content security policy of pages: a browser draws them and nothing else."""
ICON = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16">'
    '<rect width="16" height="16" rx="4" fill="#0f766e"/>'
    '<rect x="4" y="4.5" width="8" height="7" rx="1" fill="none" stroke="#fff" stroke-width="1.6"/></svg>'
)
_BETWEEN_TAGS = re.compile(r"(?<=[>}])\n\s*|\n\s*(?=[<{])")
"""Line breaks and indentation of templates."""
_ALWAYS = re.compile(r"[\\`*_{}\[\]<>#|~$&^@]|(?<!\d):(?=\S)|:(?=[^\s\d])|(?<=[Ww]{3})\.|!(?=\[)")
"""Characters that can begin code, emphasis, links, HTML, entities, tables, formulas, mentions or
addresses."""
_FIRST = re.compile(r"[-+=:%!'\"(),./;?]")
"""Further special characters at the beginning of a line: lists, rules, titles."""
_MARKER = "\ue000"
"""The place of a marker while the words around it are escaped: a character that Unicode gives no meaning."""
_NUMBERED = re.compile(r"(\d{1,9})([.)])(?=\s|$)")


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
    texts = (amount, count, extent, list_places, moment, place, seconds, text_width, when, where)
    marked = (inline, link, paragraph, quoted, package_text, stylesheet)
    answers = (answer_pieces, claim_lines, summarize_claims)
    loaded.globals |= {function.__name__: function for function in (*texts, *marked, *answers)}
    icon = base64.b64encode(ICON.encode()).decode()
    loaded.globals |= {"icon": icon, "page_policy": POLICY, "version": __version__}
    loaded.globals["verdict_names"] = VERDICT_NAMES
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


def inline(text: str) -> str:
    r"""Return text on one line, at the beginning of a line or anywhere else.

    >>> print(inline("# 1 <b>*not* [bold](http://x)"))
    \# 1 \<b\>\*not\* \[bold\](http\://x)
    """
    line = " ".join(printable(text).split())
    if numbered := _NUMBERED.match(line):
        return f"{numbered[1]}\\{numbered[2]}{_ALWAYS.sub(_escaped, line[numbered.end() :])}"
    begun = "\\" if _FIRST.match(line) and not _ALWAYS.match(line) else ""
    return begun + _ALWAYS.sub(_escaped, line)


def paragraph(text: str) -> str:
    r"""Return text as one paragraph; its lines stay lines.

    >>> print(paragraph("one\n\n- two"))
    one\
    \- two
    """
    lines = (inline(line) for line in re.split(r"[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]", text))
    return "\\\n".join(line for line in lines if line)


def cited_paragraph(marked: MarkedText, cite: Callable[[int], str]) -> str:
    r"""Return an answer as one paragraph; `cite` returns the Markdown of the marker of a number.

    >>> from vrag.agent.answers.citation import Citation, with_markers
    >>> text = with_markers("*12*.", [Citation(start=0, end=5, numbers=(1,), source="model")])
    >>> print(cited_paragraph(text, "[{}](#a)".format))
    \*12\* [1](#a).
    """
    ends = [0, *(marker.end for marker in marked.markers)]
    starts = [*(marker.start for marker in marked.markers), len(marked.text)]
    words = (marked.text[end:start].replace(_MARKER, "") for end, start in zip(ends, starts, strict=True))
    numbers = iter(marked.markers)
    return re.sub(_MARKER, lambda _: cite(next(numbers).number), paragraph(_MARKER.join(words)))


def quoted(text: str) -> str:
    """Return text as a quotation."""
    return "\n".join(f"> {line}" for line in paragraph(text).split("\n"))


def link(text: str, target: str) -> str:
    """Return a link to a heading of the same document, in small letters with hyphens."""
    return f"[{inline(text)}](#{target})"


def image(alt: str, place: str) -> str:
    """Return an image in a file, by its path relative to the document."""
    return f"![{inline(alt)}]({quote(place)})"


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return cells of Markdown, of one line each, as a table; plain CommonMark shows it as lines."""
    return "\n".join(f"| {' | '.join(row)} |" for row in (heads, ["---"] * len(heads), *rows))


def _escaped(found: re.Match[str]) -> str:
    return f"\\{found[0]}"
