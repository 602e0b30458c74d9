"""Office documents → page items: printed to PDF by LibreOffice, then read like any PDF file.

The first worker that opens a document has it printed; the PDF lies in the run's scratch directory
under the document's hash until the document is finished, so that other workers and a replacement of
one that crashed find it there. Pages are what LibreOffice prints: hidden slides and sheets are left out,
a field such as today's date has the value of the day, and fonts that are not installed are replaced.
"""

from __future__ import annotations

import tempfile
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Self

from vrag.corpus.formats.libreoffice import print_to_pdf
from vrag.corpus.formats.pdf import PdfFile
from vrag.corpus.sniff import describe
from vrag.errors import CorpusError, EncryptedFileError, FileTooLargeError

if TYPE_CHECKING:
    from vrag.corpus.converter import ConversionContext, SourceFile
    from vrag.corpus.options import CorpusOptions
    from vrag.types import Item


SUFFIXES = (".docx", ".doc", ".pptx", ".ppt", ".xlsx", ".xls", ".odt", ".odp", ".ods", ".rtf")
ZIP, OLE, RTF = b"PK\x03\x04", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", b"{\\rtf"
MAX_XML_BYTES = 512 * 2**20
"""Unpacked bytes of the text parts of a document; LibreOffice takes a multiple of it in memory."""
MAX_UNPACKED_BYTES = 4 * 2**30
"""Unpacked bytes of a document with all its pictures and films."""
MAX_PARTS = 100_000
PASSWORD_ERROR = "The document is protected by a password.", "Save a copy without it."


class OfficeFile:
    """An office document that was printed to PDF.

    Raises:
        UnsupportedFormatError: If LibreOffice is not installed.
        EncryptedFileError: If it asks for a password.
        FileTooLargeError: If it unpacks to more than is allowed.
        ConversionTimeout: If printing it takes longer than `office_seconds`.
        CorpusError: If it is not an office document, or damaged.
    """

    def __init__(self, source: SourceFile, context: ConversionContext) -> None:
        self._own = None if context.scratch else tempfile.TemporaryDirectory(prefix="vrag-")
        scratch = context.scratch or Path(self._own.name if self._own else "")
        pdf = scratch / f"{source.document[:16]}.pdf"
        try:
            if not pdf.exists():
                _print(source, pdf, context.options.office_seconds)
            self._pdf = PdfFile(replace(source, path=pdf), context)
        except BaseException:
            self._clean()
            raise
        self.count = self._pdf.count

    @staticmethod
    def opening_seconds(source: SourceFile, options: CorpusOptions) -> float:  # noqa: ARG004 - a protocol's
        """See `vrag.corpus.converter.Slow`."""
        return options.office_seconds

    def item(self, ordinal: int) -> Item:
        """Make the item of one page."""
        return self._pdf.item(ordinal)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._pdf.__exit__(None, None, None)
        self._clean()

    def _clean(self) -> None:
        if self._own:
            self._own.cleanup()


def _print(source: SourceFile, pdf: Path, seconds: float) -> None:
    """Check a document and have it printed."""
    with source.path.open("rb") as file:
        head = file.read(512)
    if head.startswith(ZIP):
        _check_archive(source.path)
    elif not head.startswith((OLE, RTF)):
        raise CorpusError(f"This is not an office document: {describe(source.path)}.")
    try:
        print_to_pdf(source.path, source.path.suffix.lower(), pdf, seconds)
    except CorpusError as error:
        if type(error) is CorpusError and head.startswith(OLE) and _asks_for_password(source.path):
            raise EncryptedFileError(*PASSWORD_ERROR) from error
        raise


def _check_archive(path: Path) -> None:
    """Refuse a ZIP archive that is not an office document, encrypted or too large, before unpacking it."""
    try:
        with zipfile.ZipFile(path) as archive:
            parts = archive.infolist()
            _check_sizes(parts)
            names = {part.filename for part in parts}
            if "[Content_Types].xml" in names:
                return
            if "META-INF/manifest.xml" not in names or "mimetype" not in names:
                raise CorpusError(
                    "This is not an office document: it seems to be another kind of ZIP archive."
                )
            with archive.open("META-INF/manifest.xml") as manifest:
                if b"encryption-data" in manifest.read(MAX_XML_BYTES):
                    raise EncryptedFileError(*PASSWORD_ERROR)
    except (zipfile.BadZipFile, ValueError, EOFError, zipfile.LargeZipFile, NotImplementedError) as error:
        # zipfile raises the last one of ways to pack that it does not know
        raise CorpusError(
            "The document is damaged: it ends early, or its list of contents is lost."
        ) from error


def _check_sizes(parts: list[zipfile.ZipInfo]) -> None:
    text = sum(part.file_size for part in parts if part.filename.lower().endswith((".xml", ".rels")))
    unpacked = sum(part.file_size for part in parts)
    if len(parts) > MAX_PARTS:
        raise FileTooLargeError(f"The document has {len(parts):,} parts; the limit is {MAX_PARTS:,}.")
    if text > MAX_XML_BYTES or unpacked > MAX_UNPACKED_BYTES:
        raise FileTooLargeError(
            f"The document unpacks to {unpacked:,} bytes, {text:,} of them text; "
            f"the limits are {MAX_UNPACKED_BYTES:,} and {MAX_XML_BYTES:,}."
        )


def _asks_for_password(path: Path) -> bool:
    """Return whether an old office document, or an encrypted new one in its wrapping, is marked as encrypted.

    Only for documents that could not be opened: names of streams in its directory (MS-OFFCRYPTO,
    2.3 and 2.3.5), or a flag in the first bytes of a text or a sheet where they commonly lie.
    """
    with path.open("rb") as file:
        data = file.read(MAX_XML_BYTES)
    names = ("EncryptedPackage", "EncryptedSummary", "EncryptionInfo")
    if any(name.encode("utf-16-le") in data for name in names):
        return True
    begin = data[512:]
    is_doc = (
        begin[:2] == b"\xec\xa5" and len(begin) > 11 and bool(begin[11] & 1)
    )  # MS-DOC, FibBase.fEncrypted
    is_xls = begin[:2] == b"\x09\x08" and b"\x2f\x00" in begin[20:32]  # MS-XLS, FilePass after BOF
    return is_doc or is_xls
