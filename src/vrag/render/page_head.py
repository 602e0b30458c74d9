"""What stands in the head of every page: what a browser may do for it, and how it looks."""

from __future__ import annotations

import base64
from functools import cache
from importlib.resources import files

from vrag import __version__
from vrag.render.html import Child, element, stylesheet

__all__ = ["POLICY", "css", "head"]

POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
"""What a browser may do for a page: draw what is in it, and nothing else."""
ICON = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16">'
    '<rect width="16" height="16" rx="4" fill="#0f766e"/>'
    '<rect x="4" y="4.5" width="8" height="7" rx="1" fill="none" stroke="#fff" stroke-width="1.6"/></svg>'
)


def head(title: str, *sheets: str) -> Child:
    """The head of a page that runs no script and fetches nothing.

    Args:
        title: Of the window.
        sheets: Style sheets of this package that it needs beside that of every page.
    """
    icon = base64.b64encode(ICON.encode()).decode()
    return (
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=POLICY),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("meta", name="referrer", content="no-referrer"),
        element("meta", name="generator", content=f"vrag {__version__}"),
        element("link", rel="icon", href=f"data:image/svg+xml;base64,{icon}"),
        element("title", title),
        (stylesheet(css(name)) for name in ("page.css", *sheets)),
    )


@cache
def css(name: str) -> str:
    """A style sheet of this package."""
    return (files("vrag.render") / name).read_text(encoding="utf-8")
