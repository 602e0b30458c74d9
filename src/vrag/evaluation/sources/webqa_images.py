"""Pictures as lines of one huge TSV file, `id <tab> base64`, with a file of offsets beside it."""

from __future__ import annotations

import base64
import io
from array import array
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from PIL import Image, UnidentifiedImageError

from vrag.errors import CaseError

if TYPE_CHECKING:
    from pathlib import Path

    from vrag.evaluation.sources.load_report import Remarks

__all__ = ["PictureLines"]

MODULUS = 10_000_000
"""An id is the number of its line, plus a multiple of this that tells the split."""
LONGEST_LINE = 64 * 2**20
"""Bytes."""
JPEG_START, JPEG_END = b"\xff\xd8", b"\xff\xd9"
_FAULTS = (UnidentifiedImageError, Image.DecompressionBombError, OSError, ValueError, SyntaxError)


@dataclass(frozen=True, slots=True)
class PictureLines:
    """The pictures of WebQA: read one by one, never all of their 51 GB."""

    pictures: Path
    """`imgs.tsv`."""
    offsets: Path
    """`imgs.lineidx`: on each line the byte at which a line of `imgs.tsv` begins."""
    remarks: Remarks
    _starts: array[int] = field(default_factory=lambda: array("Q"))

    def picture(self, id: str) -> bytes | None:
        """The file of a picture that can be decoded.

        A JPEG file that was cut off, of which there are some, is closed: what is missing of it is grey.

        Args:
            id: Of the picture, a number.

        Returns:
            Its bytes; None of one that is missing or broken, which is remarked.

        Raises:
            CaseError: If the two files do not belong together, or cannot be read.
        """
        line = self._line(id)
        if line is None:
            self.remarks.count("pictures are not in imgs.tsv; their captions stand for them", id)
            return None
        try:
            data = base64.b64decode(line.partition(b"\t")[2].strip(), validate=True)
        except ValueError:
            data = b""
        if _decodes(data):
            return data
        if data.startswith(JPEG_START) and _decodes(data + JPEG_END):
            self.remarks.count("pictures are cut off; what is missing of them is grey", id)
            return data + JPEG_END
        self.remarks.count("pictures are broken; their captions stand for them", id)
        return None

    def _line(self, id: str) -> bytes | None:
        """The line of a picture; None if there is none."""
        number = int(id) % MODULUS
        try:
            if number >= len(self._table()):
                return None
            with self.pictures.open("rb") as file:
                file.seek(self._table()[number])
                line = file.readline(LONGEST_LINE)
        except OSError as error:
            raise CaseError(f"{self.pictures} cannot be read: {error.strerror or error}.") from error
        found = line.partition(b"\t")[0].strip()
        if found != id.encode():
            raise CaseError(
                f"{self.pictures} has the picture {found!r:.40} where {self.offsets.name} says {id}.",
                "Unpack both anew: they belong to each other.",
            )
        return line

    def _table(self) -> array[int]:
        """The offsets; read once.

        Raises:
            CaseError: If one is no number.
        """
        if not self._starts:
            try:
                self._starts.extend(int(line) for line in self.offsets.read_bytes().split())
            except (ValueError, OverflowError) as error:
                raise CaseError(f"{self.offsets} is not made of numbers.", "Unpack it anew.") from error
        return self._starts


def _decodes(data: bytes) -> bool:
    try:
        with Image.open(io.BytesIO(data)) as image:
            image.load()
    except _FAULTS:
        return False
    return True
