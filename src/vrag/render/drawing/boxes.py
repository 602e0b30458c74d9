"""Rectangles over pictures: drawn as shapes, so that they stay sharp and no pixel is changed."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from vrag.render.html import Child, Markup, element, number

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vrag.agent.evidence import BoxSides
    from vrag.render.run_page.image_store import StoredImage

__all__ = ["drawing", "figure", "placed"]

WHOLE = 0.999
"""Part of each side of a picture from which a box is the whole of it, and not drawn."""


def placed(box: BoxSides, outer: BoxSides) -> BoxSides | None:
    """Where a box of a page lies on a picture of a part of that page, in fractions of the picture.

    Args:
        box: In fractions of the page.
        outer: The part of the page that the picture shows, in the same.

    Returns:
        The part of the box inside the picture; None when there is none, or the box is the whole picture.

    >>> placed((0.5, 0.5, 0.75, 1.0), (0.5, 0.0, 1.0, 1.0))
    (0.0, 0.5, 0.5, 1.0)
    """
    if not all(map(math.isfinite, (*box, *outer))) or outer[2] <= outer[0] or outer[3] <= outer[1]:
        return None
    width, height = outer[2] - outer[0], outer[3] - outer[1]
    x1, x2 = (_inside((side - outer[0]) / width) for side in (box[0], box[2]))
    y1, y2 = (_inside((side - outer[1]) / height) for side in (box[1], box[3]))
    if x2 <= x1 or y2 <= y1 or min(x2 - x1, y2 - y1) >= WHOLE:
        return None
    return x1, y1, x2, y2


def drawing(
    stored_image: StoredImage,
    alt: str,
    boxes: Sequence[BoxSides] = (),
    *,
    content: tuple[float, float] = (1, 1),
) -> Markup:
    """A picture with rectangles over it.

    Args:
        stored_image: The picture.
        alt: What it shows, for those who do not see it.
        boxes: In fractions of its content.
        content: Part of the picture that is not margin, along x and y; the margin is at the right and below.
    """
    width, height = stored_image.size.width * content[0], stored_image.size.height * content[1]
    shapes: list[Child] = [element("use", href=f"#{stored_image.id}")]
    corners = [(x1 * width, y1 * height, x2 * width, y2 * height) for x1, y1, x2, y2 in boxes]
    if len(corners) == 1:
        shapes.append(_shade(width, height, corners[0]))
    shapes += [_rectangle(sides, kind) for sides in corners for kind in ("halo", "frame")]
    return element(
        "svg",
        element("title", alt),
        shapes,
        viewBox=f"0 0 {number(max(width, 1))} {number(max(height, 1))}",
        width=max(width, 1),
        height=max(height, 1),
        role="img",
        class_="picture",
        focusable="false",
    )


def figure(drawn: Markup, alt: str, caption: Child, name: str, *, class_: str = "") -> Markup:
    """A drawing with its caption, that fills the window when it is pressed. No script is needed for it.

    Args:
        drawn: What `drawing` gave.
        alt: What it shows, for those who do not see it.
        caption: Below it.
        name: Of the enlarged copy: unique within the page, small letters, digits and hyphens.
        class_: Of the figure.
    """
    small = element(
        "button", drawn, type="button", popovertarget=name, title="Enlarge", aria_label=f"{alt}. Enlarge"
    )
    large = element(
        "div",
        element(
            "button", drawn, type="button", popovertarget=name, popovertargetaction="hide", title="Close"
        ),
        element("p", caption),
        popover=True,
        id=name,
        class_="enlarged",
    )
    return element("figure", small, element("figcaption", caption), large, class_=class_ or None)


def _inside(side: float) -> float:
    return min(max(side, 0.0), 1.0)


def _shade(width: float, height: float, hole: tuple[float, float, float, float]) -> Markup:
    """What lies outside of a rectangle, darkened."""
    left, top, right, bottom = map(number, hole)
    outline = f"M0 0H{number(width)}V{number(height)}H0Z"
    return element("path", d=f"{outline}M{left} {top}V{bottom}H{right}V{top}Z", class_="shade")


def _rectangle(sides: tuple[float, float, float, float], kind: str) -> Markup:
    x1, y1, x2, y2 = sides
    return element(
        "rect",
        x=x1,
        y=y1,
        width=x2 - x1,
        height=y2 - y1,
        rx=1,
        class_=kind,
        vector_effect="non-scaling-stroke",
    )
