"""Rendering of reports: Jinja templates, and the page around them: one file, one script, nothing fetched."""

from __future__ import annotations

import base64
import hashlib
import json
import shlex
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from vrag.evaluation.report import images, labels
from vrag.render.markup import environment, package_text
from vrag.render.text_format import when
from vrag.text.numerals import count

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from vrag.evaluation.report.case_list import CaseEntry
    from vrag.evaluation.report.images import Thumbnails


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
    """Render a page with its list of cases, which a script draws; `context` are variables of the template.

    `names` are those of the runs that are compared, one or two, and `runs` the folders of their files,
    relative to the page; empty where they are not there. Raises `ValueError` for a number that JSON lacks.
    """
    links = Links()

    def scripts() -> Markup:
        """Render the cases and the script that lists them: last, since it has all links of the page."""
        measures = dict.fromkeys(
            name for entry in entries for side in entry.sides for name in side.record.measures
        )
        data = {
            "names": list(names),
            "runs": [shlex.quote(folder) if folder else "" for folder in runs],
            "links": links.filters,
            "labels": {name: labels.label_of(name) for name in measures},
            "pictures": thumbnails.pictures,
            "entries": [entry.as_dict() for entry in entries],
        }
        return Markup(  # noqa: S704 - JSON that ends no element, and a script of this program
            f'<script type="application/json" id="data">{embedded(data)}</script><script>{_script()}</script>'
        )

    values = {"links": links, "cases": len(entries), "thumbnails": thumbnails, "policy": policy()}
    return _environment().get_template(template).render(context, **values, scripts=scripts)


def render_markdown(template: str, page: object) -> str:
    """Render the numbers of a page as Markdown."""
    return f"{_environment().get_template(template).render(page=page)}\n"


@cache
def policy() -> str:
    """Return the content security policy: the browser draws the page and runs its one script only."""
    digest = base64.b64encode(hashlib.sha256(_script().encode()).digest()).decode()
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
def _environment() -> Any:  # noqa: ANN401 - as of `environment`
    loaded = environment("vrag.evaluation.report")
    loaded.filters |= {"count": count, "label": labels.label_of, "number": "{:,}".format, "when": when}
    drawings = (images.interval_drawing, images.difference_drawing, images.shares_bar)
    texts = (
        labels.estimate_text,
        labels.families,
        labels.grouping_name,
        labels.interval_text,
        labels.p_text,
        labels.signed_text,
        labels.value_text,
    )
    loaded.globals |= {function.__name__: function for function in (*drawings, *texts)} | {"labels": labels}
    loaded.tests["share"] = labels.is_share
    return loaded


def _script() -> str:
    return package_text("vrag.evaluation.report", "cases.js")
