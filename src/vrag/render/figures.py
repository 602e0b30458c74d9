"""Images of a run on a page: each is stored once, and shown with rectangles and captions.

An image is an `<image>` among the definitions of one hidden drawing, and every place that shows it refers to
that. So a page needs no other file, and an image that is shown five times costs its bytes once.
"""

from __future__ import annotations

import base64
import hashlib
import io
import math
import re
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from vrag.agent.events import ImageShown
from vrag.agent.evidence import BoxSides, Evidence
from vrag.agent.runs.run_result import is_whole
from vrag.agent.runs.run_store import StoredRun
from vrag.geometry import Size
from vrag.render.markup import number
from vrag.render.run_view import RunView
from vrag.render.text_format import moment

_HASH = re.compile(r"[0-9a-f]{64}")
NOT_AMONG_FILES = "The picture is not among the files of the run."


@dataclass(frozen=True, slots=True)
class StoredImage:
    """An image of a page."""

    id: str
    """Id of its definition in the page."""
    size: Size
    data: bytes
    """A JPEG file."""

    @property
    def url(self) -> str:
        """The file as a data URL."""
        return f"data:image/jpeg;base64,{base64.b64encode(self.data).decode()}"


@dataclass(frozen=True, slots=True)
class ImageStore:
    """All images of a page, and the reasons why others are missing."""

    stored_images: Mapping[str, StoredImage]
    """By the hash of their file."""
    missing: Mapping[str, str]
    """The reason an image cannot be shown, by its hash."""

    @classmethod
    def of(cls, hashes: Iterable[str], read: Callable[[str], bytes | None]) -> ImageStore:
        """Read the images with these SHA-256 hashes; values that are no hash are never read.

        `read` returns the file of a hash, or None if there is none.
        """
        stored_images: dict[str, StoredImage] = {}
        missing: dict[str, str] = {}
        for sha256 in dict.fromkeys(hashes):
            data = read(sha256) if _HASH.fullmatch(sha256) else None
            if data is None:
                missing[sha256] = NOT_AMONG_FILES
            elif (size := _jpeg_size(data, sha256)) is None:
                missing[sha256] = "The file of the picture is damaged."
            else:
                stored_images[sha256] = StoredImage(f"picture-{len(stored_images) + 1}", size, data)
        return cls(stored_images, missing)


def image_reader(runs: Sequence[StoredRun]) -> Callable[[str], bytes | None]:
    """Return a reader of the JPEG file of a hash, from the first run that has it; None if none has."""

    def read(sha256: str) -> bytes | None:
        for run in runs:
            try:
                return run.read_file(sha256)
            except OSError:
                continue
        return None

    return read


def _jpeg_size(data: bytes, sha256: str) -> Size | None:
    """Return the size of an image; None if the file is not the one that was saved, or not a JPEG file."""
    from PIL import Image

    if hashlib.sha256(data).hexdigest() != sha256:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with Image.open(io.BytesIO(data), formats=("JPEG",)) as image:
                return Size(*image.size)
    except (OSError, ValueError, SyntaxError, Warning, Image.DecompressionBombError):
        return None


@dataclass(frozen=True, slots=True)
class Drawing:
    """An image with rectangles over it. They are shapes, so they stay sharp and change no pixel."""

    image: StoredImage
    alt: str
    width: float
    """Width of the part that is shown, in pixels of the image."""
    height: float
    rectangles: tuple[tuple[float, float, float, float], ...] = ()
    """Left, top, width and height of each."""
    marks: tuple[tuple[float, float, float, float], ...] = ()
    """The same of words and cells, which are coloured as by a highlighter."""

    @property
    def shade(self) -> str:
        """Path around a single rectangle, which is darkened; empty for none or several."""
        if len(self.rectangles) != 1:
            return ""
        left, top, width, height = self.rectangles[0]
        right, bottom = number(left + width), number(top + height)
        outline = f"M0 0H{number(self.width)}V{number(self.height)}H0Z"
        return f"{outline}M{number(left)} {number(top)}V{bottom}H{right}V{number(top)}Z"


@dataclass(frozen=True, slots=True)
class PageFigure:
    """A drawing with a caption that can be enlarged, or a note instead."""

    name: str
    """Id of the enlarged copy: unique within the page, small letters, digits and hyphens."""
    alt: str
    caption: str
    facts: str = ""
    """Small print of the caption."""
    class_: str = ""
    drawing: Drawing | None = None
    reason: str = ""
    """The reason there is no drawing."""


@dataclass(frozen=True, slots=True)
class Figures:
    """The figures of a run."""

    run: RunView
    image_store: ImageStore

    def figure(
        self,
        shown: ImageShown,
        name: str,
        boxes: Sequence[BoxSides] = (),
        marks: Sequence[BoxSides] = (),
        *,
        caption: str = "",
        facts: str = "",
        class_: str = "",
    ) -> PageFigure:
        """Return the figure of an image that the model was shown; boxes and marks are of the page."""
        inner, words = _all_placed(boxes, shown.box), _all_placed(marks, shown.box)
        description = describe_image(shown)
        alt = description + (", with a rectangle around the part in question" if inner else "")
        drawing = self._drawing(shown.sha256, alt, inner, words, self.run.content_of(shown))
        reason = self.image_store.missing.get(shown.sha256, NOT_AMONG_FILES)
        return PageFigure(name, alt, caption or description, facts, class_, drawing, reason)

    def plain(
        self, sha256: str, alt: str, name: str, caption: str, marks: Sequence[BoxSides] = ()
    ) -> PageFigure:
        """Return the figure of an image of which only the hash is known, with marks in fractions of it."""
        reason = self.image_store.missing.get(sha256, NOT_AMONG_FILES)
        return PageFigure(name, alt, caption, drawing=self._drawing(sha256, alt, (), marks), reason=reason)

    def attached(self, prefix: str, caption: str) -> list[PageFigure]:
        """Return the figures of the question's images; `{}` in the caption is their number."""
        return [
            self.plain(sha256, caption.format(place), f"{prefix}{place}", caption.format(place))
            for place, sha256 in enumerate(self.run.started.attached, 1)
        ]

    def of_evidence(self, evidence: Evidence, name: str, where: str) -> list[PageFigure]:
        """Return the page with the rectangle on it, and the part enlarged, as the model or reader saw it."""
        page, closer = self.run.images_of(evidence)
        marks = [mark.box for mark in evidence.marks]
        boxes = [evidence.box] if evidence.box else []
        figures: list[PageFigure] = []
        if page is not None:
            figures += [self.figure(page, name, boxes, marks, caption=where, class_="page")]
        if closer is not None:
            caption = f"{where}, closer"
            figures += [self.figure(closer, f"{name}-closer", (), marks, caption=caption, class_="closer")]
        elif evidence.crop_sha256 and evidence.box and not is_whole(evidence.box):
            caption = f"{where}, closer"
            alt = f"{evidence.document}, {caption}"
            inner = _all_placed(marks, evidence.box) if evidence.box else []
            figures += [self.plain(evidence.crop_sha256, alt, f"{name}-closer", caption, inner)]
        if not figures and evidence.crop_sha256:
            figures += [self.plain(evidence.crop_sha256, f"{evidence.document}, {where}", name, where)]
        return figures

    def thumbnail(
        self, node: str, label: str, item: str, seconds: Sequence[float]
    ) -> tuple[Drawing | None, str]:
        """Return the drawing of a remembered item and its description; None if there is no image."""
        seen = self.run.seen_at(node, label, item)
        shown = next((s for s in seen if s.seconds in seconds), seen[0] if seen else None)
        if shown is None:
            return None, label
        alt = f"{label}: {shown.document}, {shown.page}"
        return self._drawing(shown.sha256, alt), alt

    def source_of(self, crop: ImageShown, number: int | None = None) -> ImageShown | None:
        """Find the image that a crop was cut from: by its number, or the last one before with the part."""
        slack = 1e-6
        earlier = [s for s in self.run.pictures if s.seq < crop.seq and s.item == crop.item]
        named = [s for s in earlier if number is not None and s.number == number]
        holding = [
            s
            for s in earlier
            if all(s.box[side] <= crop.box[side] + slack for side in (0, 1))
            and all(s.box[side] >= crop.box[side] - slack for side in (2, 3))
        ]
        return next(reversed(named or holding or earlier), None)

    def _drawing(
        self,
        sha256: str,
        alt: str,
        boxes: Sequence[BoxSides] = (),
        marks: Sequence[BoxSides] = (),
        content: tuple[float, float] = (1.0, 1.0),
    ) -> Drawing | None:
        """Return a drawing of the content of a stored image; boxes and marks are in fractions of it."""
        image = self.image_store.stored_images.get(sha256)
        if image is None:
            return None
        width, height = image.size.width * content[0], image.size.height * content[1]
        rectangles, words = (
            tuple(
                (x1 * width, y1 * height, (x2 - x1) * width, (y2 - y1) * height) for x1, y1, x2, y2 in sides
            )
            for sides in (boxes, marks)
        )
        return Drawing(image, alt, max(width, 1), max(height, 1), rectangles, words)


def describe_image(shown: ImageShown) -> str:
    """Describe an image: its label, document, and page or moment."""
    label = f"{shown.label}: " if shown.label else ""
    where = f"page {shown.page}" if shown.seconds is None else f"at {moment(shown.seconds)}"
    return f"{label}{shown.document}, {where}{', closer' if shown.crop else ''}"


def _all_placed(boxes: Sequence[BoxSides], outer: BoxSides) -> list[BoxSides]:
    """Convert boxes as `placed` does, without those that are not on the image."""
    return [found for box in boxes if (found := placed(box, outer)) is not None]


def placed(box: BoxSides, outer: BoxSides) -> BoxSides | None:
    """Convert a box of a page to an image of a part of it, `outer`, both in fractions of the page.

    Returns the part of the box inside the image, in fractions of the image; None if there is none, or it is
    the whole image.

    >>> placed((0.5, 0.5, 0.75, 1.0), (0.5, 0.0, 1.0, 1.0))
    (0.0, 0.5, 0.5, 1.0)
    """
    if not all(map(math.isfinite, (*box, *outer))) or outer[2] <= outer[0] or outer[3] <= outer[1]:
        return None
    width, height = outer[2] - outer[0], outer[3] - outer[1]
    x1, x2 = (min(max((side - outer[0]) / width, 0.0), 1.0) for side in (box[0], box[2]))
    y1, y2 = (min(max((side - outer[1]) / height, 0.0), 1.0) for side in (box[1], box[3]))
    if x2 <= x1 or y2 <= y1 or min(x2 - x1, y2 - y1) >= 0.999:  # the whole picture
        return None
    return x1, y1, x2, y2
