"""Pictures that a model was shown, on a page: with rectangles, captions and what they are, in words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from vrag.render.drawing.boxes import drawing, figure, placed
from vrag.render.html import Child, Markup, element
from vrag.render.text_format import moment

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vrag.agent.events import ImageShown
    from vrag.agent.evidence import BoxSides
    from vrag.render.run_page.image_store import ImageStore
    from vrag.render.run_page.run_view import RunView

__all__ = ["Figures", "described"]


@dataclass(frozen=True, slots=True)
class Figures:
    """Draws the pictures of a run."""

    run_view: RunView
    image_store: ImageStore

    def draw_figure(
        self,
        shown: ImageShown,
        name: str,
        boxes: Sequence[BoxSides] = (),
        *,
        caption: Child = None,
        class_: str = "",
    ) -> Markup:
        """A picture as it was shown, or a note in its place.

        Args:
            shown: The picture.
            name: Of the place, unique within the page.
            boxes: Rectangles to draw, in fractions of the page.
            caption: Below it; what it is when None.
            class_: Of the figure.
        """
        inner = [found for box in boxes if (found := placed(box, shown.box)) is not None]
        alt = described(shown) + (", with a rectangle around the part in question" if inner else "")
        stored_image = self.image_store.stored_images.get(shown.sha256)
        if stored_image is None:
            return self.absent(shown.sha256, alt, caption or described(shown))
        drawn = drawing(stored_image, alt, inner, content=self._content(shown))
        return figure(drawn, alt, caption or described(shown), name, class_=class_)

    def bare(self, sha256: str, alt: str, name: str, caption: Child, *, class_: str = "") -> Markup:
        """A picture of which only the hash of its file is known."""
        stored_image = self.image_store.stored_images.get(sha256)
        if stored_image is None:
            return self.absent(sha256, alt, caption)
        return figure(drawing(stored_image, alt), alt, caption, name, class_=class_)

    def absent(self, sha256: str, alt: str, caption: Child) -> Markup:
        """A note in the place of a picture that cannot be shown."""
        reason = self.image_store.missing.get(sha256, "The picture is not among the files of the run.")
        note = element("div", element("span", alt), reason, class_="absent")
        return element("figure", note, element("figcaption", caption), class_="without")

    def small(self, shown: ImageShown, alt: str) -> Markup:
        """A picture as a stamp."""
        stored_image = self.image_store.stored_images.get(shown.sha256)
        return (
            element("span", "?", class_="stamp", title=alt)
            if stored_image is None
            else drawing(stored_image, alt)
        )

    def source_of(self, crop: ImageShown, number: int | None = None) -> ImageShown | None:
        """The picture that a crop was cut from: of that number, or the last before it that holds the part."""
        earlier = [s for s in self.run_view.pictures if s.seq < crop.seq and s.item == crop.item]
        named = [s for s in earlier if number is not None and s.number == number]
        holding = [s for s in earlier if _holds(s.box, crop.box)]
        return next(reversed(named or holding or earlier), None)

    def _content(self, shown: ImageShown) -> tuple[float, float]:
        """The part of a picture that is no margin.

        Memory never enlarges whole items, so one that is smaller than its picture stands in its left upper
        corner.
        """
        width, height = shown.region[2] - shown.region[0], shown.region[3] - shown.region[1]
        fits = 0 < width <= shown.width and 0 < height <= shown.height
        if shown.crop or self.run_view.settings.memory is None or not fits:
            return 1.0, 1.0
        return width / shown.width, height / shown.height


def described(shown: ImageShown) -> str:
    """What a picture is: its label, document, and page or moment."""
    where = f"page {shown.page}" if shown.seconds is None else f"at {moment(shown.seconds)}"
    closer = ", closer" if shown.crop else ""
    label = f"{shown.label}: " if shown.label else ""
    return f"{label}{shown.document}, {where}{closer}"


def _holds(outer: BoxSides, inner: BoxSides) -> bool:
    slack = 1e-6
    return (
        outer[0] <= inner[0] + slack
        and outer[1] <= inner[1] + slack
        and outer[2] >= inner[2] - slack
        and outer[3] >= inner[3] - slack
    )
