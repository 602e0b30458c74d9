"""Parts of a page that its file does not hold: text that scripts write, and other files in frames."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from selectolax.lexbor import LexborHTMLParser

    from vrag.corpus.formats.texts.outline import Section

SAVE = "Save the page with its content from the browser, or print it to PDF."
BY_SCRIPTS = f"The page shows its text only with JavaScript, and its file does not hold it. {SAVE}"
PART_BY_SCRIPTS = f"A part of the page is written by JavaScript, and its file does not hold it. {SAVE}"
DRAWN_BY_SCRIPTS = f"The page has a drawing that JavaScript makes, which is not read. {SAVE}"
IN_FRAME = "The page shows another file ({}), which is not read. Add that file too, or print the page to PDF."
MAX_FRAMES = 20
"""Frames of a page that are named."""
MAX_ADDRESS_CHARS = 100
MAX_SMALL_SIDE = 10
"""Pixels of a side of a frame that shows nothing, as for counting visitors."""
FEW_WORDS = 12
"""Words of a page that may all be a request to wait, or to turn on JavaScript."""
FRAMES = {"iframe": "src", "frame": "src", "embed": "src", "object": "data"}
"""Elements that show another file, and the attribute that names it."""
NO_LONGER_SHOWN = re.compile(r"flash|java|silverlight|director|realaudio", re.IGNORECASE)
"""Types of files that browsers do not show any more; they show the content of the element."""
_SCRIPT_TYPE = re.compile(
    r"|module|(?:text|application)/(?:x-)?(?:java|ecma)script|text/babel", re.IGNORECASE
)
_BODY = re.compile(r"<body\b", re.IGNORECASE)
_NOTE = re.compile(r"<noscript\b[^<>]*>(?:(?!</?noscript).)*</noscript\s*>", re.IGNORECASE | re.DOTALL)
_WAITING = re.compile(r"…\W*$|\.\.\.\W*$|\bloading\b|please wait|\bjavascript\b", re.IGNORECASE)
_PICTURE = re.compile(r"\.(?:png|jpe?g|gif|webp|svg|bmp)$", re.IGNORECASE)
_ROOTS = "#root, #app, #__next, #__nuxt, #react-root, #svelte, app-root"
"""Elements that scripts of common frameworks fill."""
_NOT_SHOWN = re.compile(r"(?:about|javascript|blob):", re.IGNORECASE)


@dataclass(slots=True)
class MissingParts:
    """The parts of a page that are not in its file, while it is read."""

    frames: list[str] = field(default_factory=list[str])
    """Addresses of other files that it shows."""
    has_canvas: bool = False
    """True if it has a place for a drawing that scripts make."""

    def describe_frames(self) -> list[str]:
        """Return a sentence about each file in a frame."""
        return [describe_frame(address) for address in dict.fromkeys(self.frames[:MAX_FRAMES])]

    def describe(
        self, tree: LexborHTMLParser, sections: Iterable[Section], *, has_pictures: bool
    ) -> list[str]:
        """Return sentences about what scripts write and draw in a page, and about its frames."""
        title = tree.css_first("head > title")
        words = "\n".join(section.text for section in sections)
        words = words.replace(title.text().strip(), "", 1) if title is not None else words
        has_other = bool(self.frames) or (has_pictures and not words.strip())
        text = "" if has_other else find_script_text(tree, words)
        drawing = DRAWN_BY_SCRIPTS if self.has_canvas and has_scripts(tree) else ""
        return [sentence for sentence in (text, drawing) if sentence] + self.describe_frames()


def tell_missing(sections: list[Section], sentences: Iterable[str]) -> None:
    """Add sentences about what is not read to the first section with text; to the first if none has text."""
    place = next((place for place, section in enumerate(sections) if section.text), 0)
    above = (each for section in sections[:place] for each in section.unread)
    section = sections[place]
    unread = tuple(dict.fromkeys([*section.unread, *sentences, *above]))
    sections[place] = section._replace(unread=unread)


def find_script_text(tree: LexborHTMLParser, text: str) -> str:
    """Return a sentence that says that scripts write a page, or a part of it; "" if the file has its text.

    Args:
        tree: The page.
        text: What is read of its body.
    """
    has_script = has_scripts(tree)
    words = re.findall(r"\w+", text[:10_000])
    asks = any("javascript" in node.text().lower() for node in tree.css("noscript"))
    if not words:
        return BY_SCRIPTS if has_script or asks else ""
    if not has_script:
        return ""
    if len(words) <= FEW_WORDS and (asks or _WAITING.search(text)):
        return BY_SCRIPTS
    has_empty_root = any(not node.text(strip=True) for node in tree.css(_ROOTS))
    return PART_BY_SCRIPTS if has_empty_root else ""


def has_scripts(tree: LexborHTMLParser) -> bool:
    """Return whether a page has programs, and not data alone."""
    types = (node.attributes.get("type") or "" for node in tree.css("script"))
    return any(_SCRIPT_TYPE.fullmatch(kind.strip()) for kind in types)


def is_picture(tag: str, attributes: Mapping[str, str | None]) -> bool:
    """Return whether an object is a picture."""
    address = (attributes.get(FRAMES[tag]) or "").partition("?")[0]
    return (attributes.get("type") or "").startswith("image/") or _PICTURE.search(address) is not None


def drop_head_notes(text: str) -> str:
    """Return HTML without `<noscript>` elements in its head; lexbor takes their text for that of the body."""
    body = _BODY.search(text)
    head = text[: body.start()] if body else ""
    return _NOTE.sub("", head) + text[len(head) :] if "noscript" in head.lower() else text


def name_framed_file(tag: str, attributes: Mapping[str, str | None]) -> str:
    """Return the address of the file that a frame or object shows; "" if it shows none."""
    address = (attributes.get(FRAMES[tag]) or "").strip()
    kind = attributes.get("type") or ""
    is_shown = not _NOT_SHOWN.match(address) and not NO_LONGER_SHOWN.search(kind)
    sides = (attributes.get(name) or "" for name in ("width", "height"))
    is_small = any(re.fullmatch(r"\d{1,2}", side, re.ASCII) and int(side) <= MAX_SMALL_SIDE for side in sides)
    if not address or not is_shown or (is_small and tag != "frame"):
        return ""
    return address.partition(",")[0] if address.startswith("data:") else address


def describe_frame(address: str) -> str:
    """Return the sentence about a file in a frame that is not read."""
    shown = " ".join(address.split())
    shown = shown[:MAX_ADDRESS_CHARS] + "…" if len(shown) > MAX_ADDRESS_CHARS else shown
    return IN_FRAME.format(shown)
