"""Office documents → page items: printed to PDF by LibreOffice, then read like any PDF file; then passages.

The first worker that opens a document has its parent process print it, which keeps the PDF until the document
is finished: other workers, and a replacement of one that crashed, get it too. Pages are what LibreOffice
prints: hidden slides and sheets are left out, a field such as today's date has the value of the day, and
fonts that are not installed are replaced. What is in the document and not in the text of its pages, such as
speaker notes and comments, is read from its contents (`libreoffice/contents.py`) and follows as passages.
"""

from __future__ import annotations

import glob
import os
import shutil
import stat
import subprocess
import sys
import tempfile
import zipfile
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from vrag.corpus.converter import OpenFile, PrintedDocument
from vrag.corpus.formats.libreoffice.contents import DocumentContents, read_contents
from vrag.corpus.formats.libreoffice.embedded import read_embedded
from vrag.corpus.formats.libreoffice.equations import read_formulas
from vrag.corpus.formats.libreoffice.printed_formulas import find_unprinted, restore_formulas
from vrag.corpus.formats.libreoffice.printed_text import (
    find_cut_boxes,
    read_printed_letters,
    restore_hyphens,
    write_checks,
)
from vrag.corpus.formats.libreoffice.profile import (
    CONTENTS_NAME,
    DOCUMENT_FOLDER,
    PDF_NAME,
    clean_name,
    start_argument,
    write_profile,
)
from vrag.corpus.formats.libreoffice.stored_comments import read_stored_comments
from vrag.corpus.formats.libreoffice.worksheet_pages import (
    WorksheetPage,
    find_worksheet_pages,
    locate_cells,
    order_rows,
    read_outline,
)
from vrag.corpus.formats.libreoffice.xml_parts import XmlParts
from vrag.corpus.formats.pdf import PdfFile
from vrag.corpus.formats.pdf_text.marked_headings import locate_headings
from vrag.corpus.formats.text import passage_item, passages
from vrag.corpus.sniff import ARCHIVE_ERRORS, describe
from vrag.corpus.workers import timeout_exec
from vrag.corpus.workers.sandbox import (
    LowerUser,
    SandboxPolicy,
    exec_command,
    find_lower_user,
    sandbox_options,
)
from vrag.errors import (
    ConversionTimeout,
    CorpusError,
    EncryptedFileError,
    FileTooLargeError,
    UnsupportedFormatError,
)
from vrag.scratch import scratch_directory

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import BinaryIO

    from vrag.corpus.converter import ConversionContext, CorpusOptions, SourceFile
    from vrag.corpus.formats.libreoffice.equations import Formula
    from vrag.corpus.formats.texts.outline import Section
    from vrag.corpus.sniff import Openable
    from vrag.types import Item

SUFFIXES = (
    *(".docx", ".docm", ".doc", ".pptx", ".pptm", ".ppt", ".xlsx", ".xlsm", ".xls"),
    *(".odt", ".odp", ".ods", ".rtf"),
)
ZIP, OLE, RTF = b"PK\x03\x04", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", b"{\\rtf"
MAX_XML_BYTES = 512 * 2**20
"""Unpacked bytes of the text parts of a document; LibreOffice takes a multiple of it in memory."""
MAX_UNPACKED_BYTES = 4 * 2**30
"""Unpacked bytes of a document with all its pictures and films."""
MAX_PARTS = 100_000
PROGRAMS = ("soffice", "libreoffice")
PLACES = (
    "/usr/lib/libreoffice/program/soffice",
    "/usr/lib64/libreoffice/program/soffice",
    "/opt/libreoffice*/program/soffice",
    "/usr/local/lib/libreoffice/program/soffice",
    "/snap/bin/libreoffice",
    "/Applications/LibreOffice.app/Contents/MacOS/soffice",
    "C:/Program Files/LibreOffice/program/soffice.exe",
)
"""Paths of LibreOffice, by its installers."""
INSTALL = (
    "Debian and Ubuntu: apt install libreoffice; macOS: brew install --cask libreoffice; "
    "Windows: winget install TheDocumentFoundation.LibreOffice; others: libreoffice.org"
)

EXECUTABLE = ("/usr", "/bin", "/lib", "/lib64", "/opt")
READABLE = (
    "/etc/fonts",
    "/etc/libreoffice",
    "/etc/ld.so.cache",
    "/etc/localtime",
    "/var/cache/fontconfig",
    "/var/lib/libreoffice",
    "/var/spool/libreoffice",
    "/proc/cpuinfo",
    "/proc/meminfo",
    "/sys/devices/system/cpu",
    "/dev/urandom",
)
"""Files and folders that LibreOffice may read besides programs and libraries."""
_POLL_SECONDS = 0.1
UNREAD = "The document's notes, comments and data of charts are not read: {} Save it as PDF with them."
PASSWORD_ERROR = "The document is protected by a password.", "Save a copy without it."


class OfficeFile(OpenFile):
    """An office document that was printed to PDF.

    Raises as `print_document` does, `EncryptedFileError` if it asks for a password, and `FileTooLargeError`
    if it unpacks to more than is allowed.
    """

    is_printed = True

    def __init__(self, source: SourceFile, context: ConversionContext) -> None:
        is_old = _check(source)
        self._cleanup = ExitStack()
        try:
            printed = context.print_source(source)
            if printed is None:
                pdf = self._cleanup.enter_context(scratch_directory()) / PDF_NAME
                print_document(source, source.name, pdf, context.options.office_seconds)
                printed = PrintedDocument(pdf, contents_path(pdf))
            self._contents = _read_contents(printed, source)
            self._passages = passages(self._contents.sections, context.options)
            self._source = source
            self._pdf = PdfFile(source, context, printed.pdf)
            self._slide_titles = dict(enumerate(self._contents.slide_titles, 1))
            self._worksheet_pages = _find_worksheet_pages(printed, self._contents, self._pdf.count)
        except CorpusError as error:
            self._cleanup.close()
            if type(error) is CorpusError and is_old and _asks_for_password(source):
                raise EncryptedFileError(*PASSWORD_ERROR) from error
            raise
        except BaseException:
            self._cleanup.close()
            raise
        self.count = self._pdf.count + len(self._passages)

    @staticmethod
    def opening_seconds(source: SourceFile, options: CorpusOptions) -> float:  # noqa: ARG004 - a protocol's
        """See `vrag.corpus.converter.Slow`."""
        return options.office_seconds

    def item(self, ordinal: int) -> Item:
        """Make the item of one page or, after the last of these, of a passage."""
        if ordinal > self._pdf.count:
            return passage_item(self._passages[ordinal - self._pdf.count - 1], self._source, ordinal)
        item = restore_hyphens(self._pdf.item(ordinal), self._contents.compounds)
        item = restore_formulas(write_checks(item, self._contents.checks), self._contents.formulas)
        facts = self._contents.add_to(item.facts) if ordinal == 1 else item.facts
        if page := self._worksheet_pages.get(ordinal):
            facts = replace(
                facts, worksheet=page.worksheet, cells=locate_cells(item, page.cells), headings=()
            )
            item = order_rows(replace(item, facts=facts), len(page.cells))
            facts = item.facts
        elif title := self._slide_titles.get(ordinal):
            facts = replace(facts, headings=locate_headings(item.text, [(title, 1)]))
        return replace(item, facts=facts, heading=facts.worksheet)

    def close(self) -> None:
        """Close the PDF file."""
        self._pdf.close()
        self._cleanup.close()


def _find_worksheet_pages(
    printed: PrintedDocument, contents: DocumentContents, count: int
) -> dict[int, WorksheetPage]:
    if not contents.worksheets:
        return {}
    with printed.pdf.open("rb") as file:
        return find_worksheet_pages(contents.worksheets, contents.page_rows, read_outline(file), count)


def _read_contents(printed: PrintedDocument, source: SourceFile) -> DocumentContents:
    """Read what the pages of a document do not show as text; where it is damaged, say that it is not read."""
    with source.open() as file:
        embedded, comments, equations = read_embedded(file), read_stored_comments(file), read_formulas(file)
    try:
        with printed.contents.open("rb") as file:
            contents = read_contents(XmlParts(file), comments)
    except (CorpusError, RecursionError) as error:
        contents = DocumentContents(unread=(UNREAD.format(error),))
    formulas = equations or contents.formulas
    sections = _find_unprinted(printed, contents.boxes, formulas) + contents.sections + embedded.sections
    unread = contents.unread + embedded.unread
    return contents._replace(sections=sections, unread=unread, formulas=formulas)


def _find_unprinted(
    printed: PrintedDocument, boxes: Sequence[str], formulas: Sequence[Formula]
) -> tuple[Section, ...]:
    """Return what people see of a document and its pages do not have: ends of text boxes, and formulas."""
    if not boxes and not formulas:
        return ()
    with printed.pdf.open("rb") as pdf:
        letters = read_printed_letters(pdf)
    return find_cut_boxes(boxes, letters) + find_unprinted(formulas, letters)


def _check(source: SourceFile) -> bool:
    """Refuse what is not an office document, or too large. Returns whether it is of the old kind."""
    with source.open() as file:
        head = file.read(512)
        if head.startswith(ZIP):
            _check_archive(file)
        elif not head.startswith((OLE, RTF)):
            raise CorpusError(f"This is not an office document: {describe(source)}.")
    return head.startswith(OLE)


def _check_archive(file: BinaryIO) -> None:
    """Refuse a ZIP archive that is not an office document, encrypted or too large, before unpacking it."""
    try:
        with zipfile.ZipFile(file) as archive:
            parts = archive.infolist()
            text = sum(part.file_size for part in parts if part.filename.lower().endswith((".xml", ".rels")))
            unpacked = sum(part.file_size for part in parts)
            if len(parts) > MAX_PARTS:
                raise FileTooLargeError(f"The document has {len(parts):,} parts; the limit is {MAX_PARTS:,}.")
            if text > MAX_XML_BYTES or unpacked > MAX_UNPACKED_BYTES:
                raise FileTooLargeError(
                    f"The document unpacks to {unpacked:,} bytes, {text:,} of them text; "
                    f"the limits are {MAX_UNPACKED_BYTES:,} and {MAX_XML_BYTES:,}."
                )
            names = {part.filename for part in parts}
            if "[Content_Types].xml" in names:
                return
            if "META-INF/manifest.xml" not in names or "mimetype" not in names:
                message = "This is not an office document: it seems to be another kind of ZIP archive."
                raise CorpusError(message)
            with archive.open("META-INF/manifest.xml") as manifest:
                if b"encryption-data" in manifest.read(MAX_XML_BYTES):
                    raise EncryptedFileError(*PASSWORD_ERROR)
    except ARCHIVE_ERRORS as error:
        message = "The document is damaged: it ends early, or its list of contents is lost."
        raise CorpusError(message) from error


def _asks_for_password(document: Openable) -> bool:
    """Return whether an old office document, or an encrypted new one in its wrapping, is marked as encrypted.

    Only for documents that could not be opened: names of streams in its directory (MS-OFFCRYPTO,
    2.3 and 2.3.5), or a flag in the first bytes of a text or a sheet where they commonly lie.
    """
    with document.open("rb") as file:
        data = file.read(MAX_XML_BYTES)
    names = ("EncryptedPackage", "EncryptedSummary", "EncryptionInfo")
    if any(name.encode("utf-16-le") in data for name in names):
        return True
    begin = data[512:]
    # MS-DOC, FibBase.fEncrypted
    is_doc = begin[:2] == b"\xec\xa5" and len(begin) > 11 and bool(begin[11] & 1)
    is_xls = begin[:2] == b"\x09\x08" and b"\x2f\x00" in begin[20:32]  # MS-XLS, FilePass after BOF
    return is_doc or is_xls


def find_soffice() -> str:
    """Return the path of LibreOffice: on PATH, or where its installers put it.

    Raises `UnsupportedFormatError` if it is not installed.
    """
    for name in PROGRAMS:
        if path := shutil.which(name):
            return os.path.abspath(path)  # noqa: PTH100 - a link stays one: by it, some installations know their place
    for place in PLACES:
        for path in sorted(glob.glob(place), reverse=True):  # noqa: PTH207 - pathlib takes no absolute pattern
            if os.access(path, os.X_OK):
                return path
    raise UnsupportedFormatError(
        "LibreOffice is needed to read this kind of file and was not found.",
        f"Install it ({INSTALL}). Then try the file again.",
    )


def print_document(
    document: Openable,
    name: str,
    pdf: Path,
    seconds: float,
    is_wanted: Callable[[], bool] = lambda: True,
) -> None:
    """Have LibreOffice print a document to a PDF file, and store its contents beside it.

    The contents (`contents_path`) are an OpenDocument file, or an empty one if LibreOffice could not store
    them. Changes of a text are accepted first, and sheets are made wide enough
    (`libreoffice/printing.bas`). Macros of the document, links and the network are off.

    The work is done in a folder of its own beside the PDF file (a copy of the document, profile, temporary
    files), which is removed whatever happens, also when this process is killed: the PDF file is in a scratch
    directory. LibreOffice is restricted to its folder and its installation (`vrag.corpus.workers.sandbox`).
    The files appear whole or not at all.

    `name` is that of the file, which its pages may show; `seconds` limit processor time, see
    `vrag.corpus.workers.timeout_exec`; it ends when `is_wanted` says no. Raises `UnsupportedFormatError` if
    LibreOffice is not installed, `ConversionTimeout` if it took longer than the time limit, `CorpusError` if
    it made nothing of the document, and `OSError` if the document cannot be read or the PDF not be written.
    """
    program = find_soffice()
    with tempfile.TemporaryDirectory(prefix="office-", dir=pdf.parent, ignore_cleanup_errors=True) as folder:
        work_dir = Path(folder)
        copy, results = work_dir / DOCUMENT_FOLDER / clean_name(name), work_dir / "out"
        copy.parent.mkdir()
        with document.open("rb") as original, copy.open("wb") as file:
            shutil.copyfileobj(original, file)
        write_profile(work_dir / "profile")
        for made in (results, work_dir / "tmp"):
            made.mkdir()
        options = "--headless --norestore --nolockcheck --nodefault --nofirststartwizard"
        profile = f"-env:UserInstallation={(work_dir / 'profile').as_uri()}"
        command = [program, profile, *options.split(), start_argument(copy.name)]
        if sandbox_options().mode != "off":
            policy = office_policy(program, work_dir)
            give_to(policy, pdf.parent, work_dir)
            command = exec_command(policy, command)
        status = _run(command, work_dir, seconds, is_wanted)
        # It may have made anything of its folder: a link is not followed.
        if results.is_symlink() or not _is_regular(results / PDF_NAME):
            raise _failure(status, seconds)
        contents = contents_path(pdf)
        if _is_regular(results / CONTENTS_NAME):
            (results / CONTENTS_NAME).replace(contents)
        else:
            contents.touch()
        (results / PDF_NAME).replace(pdf)


def contents_path(pdf: Path) -> Path:
    """Return the path of the contents of a document, by that of its PDF file."""
    return pdf.with_suffix(".zip")


def _failure(status: int, seconds: float) -> CorpusError:
    """Return the error of LibreOffice that has printed nothing, by its exit status."""
    if status == timeout_exec.LATE:
        return ConversionTimeout(f"LibreOffice took longer than the time limit ({seconds:g} seconds).")
    if status == timeout_exec.BLOCKED:
        return CorpusError("LibreOffice stopped and asked what to do: the document may be damaged.")
    if status == timeout_exec.CRASHED:
        return CorpusError("It crashed LibreOffice, or took more memory than is allowed.")
    return CorpusError("LibreOffice cannot open it: it is damaged, or not what its suffix says.")


def _is_regular(path: Path) -> bool:
    try:
        status = path.lstat()
    except OSError:
        return False
    return stat.S_ISREG(status.st_mode) and status.st_size > 0


def office_policy(program: str, work_dir: Path) -> SandboxPolicy:
    """Return what LibreOffice may do: read its installation and the fonts, and write in its folder."""
    path = Path(program).resolve()
    installation = path.parent.parent if path.parent.name in {"program", "MacOS"} else path.parent
    return SandboxPolicy(
        readable=READABLE,
        executable=(*EXECUTABLE, str(installation)),
        writable=(str(work_dir), os.devnull),
        programs=True,
        user=sandbox_options().user,
        needed=(str(path), str(work_dir.parent.parent)),
    )


def give_to(policy: SandboxPolicy, scratch: Path, work_dir: Path) -> None:
    """Give a folder to the user that LibreOffice becomes where this process is root."""
    user = find_lower_user(policy)
    if isinstance(user, LowerUser):
        scratch.chmod(0o711)
        for path in (work_dir, *work_dir.rglob("*")):
            os.chown(path, user.uid, user.gid)


def _run(command: list[str], work_dir: Path, seconds: float, is_wanted: Callable[[], bool]) -> int:
    """Run a command by `timeout_exec`, without what in the user's environment could change a page."""
    line = [sys.executable, "-I", "-S", timeout_exec.__file__, str(seconds), str(work_dir), *command]
    names = ("PATH", "LANG", "LC_ALL", "LC_CTYPE", "SYSTEMROOT")
    environment = {name: os.environ[name] for name in names if name in os.environ}
    environment |= {"HOME": str(work_dir), "SAL_USE_VCLPLUGIN": "svp"}
    environment |= dict.fromkeys(("TMPDIR", "TMP", "TEMP"), str(work_dir / "tmp"))  # the last two on Windows
    with subprocess.Popen(  # noqa: S603 - our own command, the document is an argument of ours
        line,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=environment,
        start_new_session=True,
    ) as process:
        try:
            while is_wanted():
                with suppress(subprocess.TimeoutExpired):
                    return process.wait(_POLL_SECONDS)
            return timeout_exec.CRASHED
        finally:
            if process.stdin:  # `timeout_exec` waits for its end
                process.stdin.close()
