"""Rendering of reports: Jinja templates, and the page around them: one file, one script, nothing fetched."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from vrag import __version__
from vrag.evaluation.report import charts, labels
from vrag.render.html import ICON, css, printable, stylesheet
from vrag.render.text_format import count, when

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from jinja2 import Environment
    from markupsafe import Markup

    from vrag.evaluation.report.case_list import CaseEntry
    from vrag.evaluation.report.thumbnails import Thumbnails
    from vrag.render.html import Markup as Drawing

MAX_TITLE_CHARACTERS = 120
"""Length of the title of the window."""


@dataclass
class Links:
    """Links into the list of cases: each shows those of a filter. Without a script they lead nowhere."""

    filters: list[dict[str, str]] = field(default_factory=list[dict[str, str]])

    def number(self, wanted: dict[str, str]) -> int:
        """Return the number of a filter, by which the script finds it."""
        if wanted not in self.filters:
            self.filters.append(wanted)
        return self.filters.index(wanted)


def render_html(
    template: str,
    entries: Sequence[CaseEntry],
    thumbnails: Thumbnails,
    *,
    names: Sequence[str],
    runs: Sequence[str],
    **context: object,
) -> str:
    """Render a page with its list of cases, which a script draws.

    Args:
        template: Its name.
        entries: The cases, in order.
        thumbnails: Their images.
        names: Names of the runs that are compared: one or two.
        runs: Where the files of each one's runs lie, relative to the page; empty where they are not linked.
        context: Variables of the template.

    Raises:
        ValueError: If a number of the cases is not one that JSON has.
    """
    links = Links()
    page = (
        _environment()
        .get_template(template)
        .render(
            context,
            links=links,
            cases=len(entries),
            thumbnails=thumbnails,
            policy=policy(),
            icon=base64.b64encode(ICON.encode()).decode(),
            styles=[stylesheet(css("page.css")), stylesheet(_file("evaluation.css"))],
            max_title=MAX_TITLE_CHARACTERS,
            version=__version__,
        )
    )
    measures = dict.fromkeys(
        name for entry in entries for side in entry.sides for name in side.record.measures
    )
    data = {
        "names": list(names),
        "runs": list(runs),
        "links": links.filters,
        "labels": {name: labels.label_of(name) for name in measures},
        "pictures": thumbnails.pictures,
        "entries": [entry.as_dict() for entry in entries],
    }
    body = re.sub(r">\s+<", "><", page).strip().removesuffix("</body></html>")
    return (
        f'{body}<script type="application/json" id="data">{embedded(data)}</script>'
        f"<script>{_file('cases.js')}</script></body></html>\n"
    )


@cache
def policy() -> str:
    """Return the content security policy: the browser draws the page and runs its one script only."""
    digest = base64.b64encode(hashlib.sha256(_file("cases.js").encode()).digest()).decode()
    return (
        f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; "
        "base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'"
    )


def embedded(data: Mapping[str, Any]) -> str:
    r"""Return JSON in ASCII that ends no element and opens no comment; a ValueError for NaN and infinity.

    >>> embedded({"a": "</script>"})
    '{"a":"\\u003c/script>"}'
    """
    return json.dumps(data, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")


@cache
def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
    from markupsafe import Markup

    def finalize(value: object) -> object:
        """Replace characters that no page can hold."""
        return printable(value) if isinstance(value, str) and not isinstance(value, Markup) else value

    def drawn(draw: Callable[..., Drawing | None]) -> Callable[..., Markup]:
        """Let a template place a drawing, which is markup."""

        def place(*args: object) -> Markup:
            drawing = draw(*args)
            return Markup("" if drawing is None else drawing.html)  # noqa: S704 - escaped by `vrag.render.html`

        return place

    environment: Any = Environment(  # its type has no room for further filters
        loader=PackageLoader("vrag.evaluation.report"),
        autoescape=select_autoescape(["html"]),
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
        finalize=finalize,
    )
    for name in ("interval_drawing", "difference_drawing", "shares_bar"):
        environment.globals[name] = drawn(getattr(charts, name))
    environment.filters |= {
        "count": count,
        "drawing": drawn(_same),
        "label": labels.label_of,
        "number": "{:,}".format,
        "when": when,
    }
    environment.globals |= {
        "families": labels.families,
        "grouping_name": labels.grouping_name,
        "interval_text": labels.interval_text,
        "labels": labels,
        "p_text": labels.p_text,
        "signed_text": labels.signed_text,
        "value_text": labels.value_text,
    }
    environment.tests["share"] = labels.is_share
    return environment


def _same(drawing: Drawing) -> Drawing:
    return drawing


@cache
def _file(name: str) -> str:
    return (files("vrag.evaluation.report") / name).read_text(encoding="utf-8")
