"""LibreOffice as a program: finding it, and one conversion to PDF in a process and a profile of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from vrag.corpus import timeout_exec
from vrag.errors import CorpusError, TooSlow, UnsupportedFormat

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["find_soffice", "print_to_pdf"]

NAMES = ("soffice", "libreoffice")
PLACES = (
    "/usr/lib/libreoffice/program/soffice",
    "/usr/lib64/libreoffice/program/soffice",
    "/opt/libreoffice*/program/soffice",
    "/usr/local/lib/libreoffice/program/soffice",
    "/snap/bin/libreoffice",
    "/Applications/LibreOffice.app/Contents/MacOS/soffice",
    "C:/Program Files/LibreOffice/program/soffice.exe",
)
"""Where its installers put it."""
INSTALL = (
    "Install it (Debian and Ubuntu: apt install libreoffice; macOS: brew install --cask libreoffice; "
    "others: libreoffice.org), then add the file again with --retry-failed."
)

SECURITY = "/org.openoffice.Office.Common/Security/Scripting"
INTERNET = "/org.openoffice.Inet/Settings"
REGISTRY: tuple[tuple[str, str, str], ...] = (
    (SECURITY, "BlockUntrustedRefererLinks", "true"),  # pictures linked from elsewhere, disk or network
    (SECURITY, "DisableMacrosExecution", "true"),
    (SECURITY, "MacroSecurityLevel", "3"),
    ("/org.openoffice.Office.Writer/Content/Update", "Link", "0"),
    ("/org.openoffice.Office.Calc/Content/Update", "Link", "2"),
    # Whatever still wants the network asks a proxy at a port where nobody answers.
    (INTERNET, "ooInetProxyType", "2"),
    (INTERNET, "ooInetHTTPProxyName", "127.0.0.1"),
    (INTERNET, "ooInetHTTPProxyPort", "9"),
    (INTERNET, "ooInetHTTPSProxyName", "127.0.0.1"),
    (INTERNET, "ooInetHTTPSProxyPort", "9"),
    (INTERNET, "ooInetFTPProxyName", "127.0.0.1"),
    (INTERNET, "ooInetFTPProxyPort", "9"),
    (INTERNET, "ooInetNoProxy", ""),
)
"""Path, property and value of LibreOffice's registry: no macros, no links followed, no network."""
HEAD = (
    '<?xml version="1.0" encoding="UTF-8"?>\n'
    '<oor:items xmlns:oor="http://openoffice.org/2001/registry" xmlns:xs="http://www.w3.org/2001/XMLSchema" '
    'xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance">\n'
)
ITEM = '<item oor:path="{}"><prop oor:name="{}" oor:op="fuse"><value>{}</value></prop></item>\n'


def find_soffice() -> str:
    """The path of LibreOffice: on PATH, or where its installers put it.

    Raises:
        UnsupportedFormat: If it is not installed.
    """
    for name in NAMES:
        if path := shutil.which(name):
            return path
    for place in PLACES:
        anchor = Path(place).anchor or "/"
        for path in sorted(Path(anchor).glob(place.removeprefix(anchor)), reverse=True):
            if os.access(path, os.X_OK):
                return str(path)
    raise UnsupportedFormat("LibreOffice is needed to read this kind of file and was not found.", INSTALL)


def print_to_pdf(document: Path, suffix: str, pdf: Path, seconds: float) -> None:
    """Has LibreOffice print a document to a PDF file, without macros, links and network.

    The work is done in a folder of its own beside the PDF file (a copy of the document, profile,
    temporary files), which is removed whatever happens, also when this process is killed.

    Args:
        document: Any file name will do.
        suffix: Of its format in lower case, with the dot.
        pdf: Where to; appears whole or not at all.
        seconds: Time limit, of processor time; see `vrag.corpus.timeout_exec`.

    Raises:
        UnsupportedFormat: If LibreOffice is not installed.
        TooSlow: If it took longer than the time limit.
        CorpusError: If it made nothing of the document.
        OSError: If the document cannot be read or the folder not be written.
    """
    program = find_soffice()
    with tempfile.TemporaryDirectory(prefix="office-", dir=pdf.parent, ignore_cleanup_errors=True) as name:
        work_dir = Path(name)
        copy = work_dir / f"document{suffix}"
        shutil.copyfile(document, copy)
        _write_profile(work_dir / "profile")
        (work_dir / "tmp").mkdir()
        status = _run([program, *_arguments(work_dir, copy)], work_dir, seconds)
        made = work_dir / "out" / "document.pdf"
        if status == timeout_exec.LATE:
            raise TooSlow(f"LibreOffice took longer than the time limit ({seconds:g} seconds).")
        if status == timeout_exec.CRASHED:
            raise CorpusError("It crashed LibreOffice, or took more memory than is allowed.")
        if not made.is_file() or not made.stat().st_size:
            raise CorpusError("LibreOffice cannot open it: it is damaged, or not what its suffix says.")
        made.replace(pdf)


def _write_profile(profile: Path) -> None:
    """A user profile with nothing but what is forbidden."""
    path = profile / "user" / "registrymodifications.xcu"
    path.parent.mkdir(parents=True)
    path.write_text(HEAD + "".join(ITEM.format(*entry) for entry in REGISTRY) + "</oor:items>\n")


def _arguments(work_dir: Path, document: Path) -> list[str]:
    return [
        f"-env:UserInstallation={(work_dir / 'profile').as_uri()}",
        "--headless",
        "--norestore",
        "--nolockcheck",
        "--nodefault",
        "--nofirststartwizard",
        "--convert-to",
        "pdf",
        "--outdir",
        str(work_dir / "out"),
        str(document),
    ]


def _run(command: list[str], work_dir: Path, seconds: float) -> int:
    """Runs a command under guard; gives its exit status."""
    line = [sys.executable, "-I", "-S", timeout_exec.__file__, str(seconds), str(work_dir), *command]
    null = subprocess.DEVNULL
    with subprocess.Popen(  # noqa: S603 - our own command, the document is an argument of ours
        line,
        stdin=subprocess.PIPE,
        stdout=null,
        stderr=null,
        env=_environment(work_dir, os.environ),
        start_new_session=True,
    ) as process:
        try:
            return process.wait()
        finally:
            if process.stdin:  # its end is what the guard waits for
                process.stdin.close()


def _environment(work_dir: Path, now: Mapping[str, str]) -> dict[str, str]:
    """What LibreOffice needs to know: nothing of the user's that could change a page."""
    kept = {name: now[name] for name in ("PATH", "LANG", "LC_ALL", "LC_CTYPE", "SYSTEMROOT") if name in now}
    return kept | {"HOME": str(work_dir), "TMPDIR": str(work_dir / "tmp"), "SAL_USE_VCLPLUGIN": "svp"}
