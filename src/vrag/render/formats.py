"""What runs and reports are written in."""

from __future__ import annotations

from enum import StrEnum

__all__ = ["Format"]


class Format(StrEnum):
    """What a file is written in."""

    HTML = "html"
    """One page that needs no other file."""
    MARKDOWN = "markdown"
    """Text; the pictures are in it, as data at its end."""
    JSON = "json"
    """Everything that was said, for machines; pictures by the hash of their file."""

    @property
    def suffix(self) -> str:
        """Of a file."""
        return ".md" if self is Format.MARKDOWN else f".{self.value}"

    @property
    def media_type(self) -> str:
        """What HTTP calls it."""
        kind = "application" if self is Format.JSON else "text"
        return f"{kind}/{self.value}" + ("; charset=utf-8" if kind == "text" else "")
