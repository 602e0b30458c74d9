"""What stands around a report: one file, one script of ours and no other, nothing fetched."""

from __future__ import annotations

import base64
import hashlib
import json
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from vrag import __version__
from vrag.render.html import ICON, Child, css, element, stylesheet

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["embedded", "policy", "shell"]


@cache
def policy() -> str:
    """What a browser may do for the page: draw what is in it, and run this one script."""
    digest = base64.b64encode(hashlib.sha256(_file("cases.js").encode()).digest()).decode()
    return (
        f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; "
        "base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'"
    )


def shell(title: str, body: Child, data: Mapping[str, Any]) -> str:
    """A whole page.

    Args:
        title: Of the window.
        body: All that is read without a script.
        data: What the script makes the list of cases of.

    Raises:
        ValueError: If a number of the data is none that JSON has.
    """
    head = element("head", _head(title)).html
    inner = element("main", body).html.removeprefix("<main>").removesuffix("</main>")
    return (
        f'<!doctype html>\n<html lang="en">{head}<body>{inner}'
        f'<script type="application/json" id="data">{embedded(data)}</script>'
        f"<script>{_file('cases.js')}</script></body></html>\n"
    )


def embedded(data: Mapping[str, Any]) -> str:
    r"""JSON that ends no element, opens no comment and has nothing but ASCII.

    Raises:
        ValueError: If a number is none that JSON has.

    >>> embedded({"a": "</script>"})
    '{"a":"\\u003c/script>"}'
    """
    return json.dumps(data, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")


def _head(title: str) -> Child:
    icon = base64.b64encode(ICON.encode()).decode()
    return (
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=policy()),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("meta", name="referrer", content="no-referrer"),
        element("meta", name="generator", content=f"vrag {__version__}"),
        element("link", rel="icon", href=f"data:image/svg+xml;base64,{icon}"),
        element("title", title[:120]),
        stylesheet(css("page.css")),
        stylesheet(_file("evaluation.css")),
    )


@cache
def _file(name: str) -> str:
    return (files("vrag.evaluation.report") / name).read_text(encoding="utf-8")
