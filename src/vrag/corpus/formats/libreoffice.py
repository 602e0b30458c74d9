"""LibreOffice as a program: the search for it, and conversions to PDF in a process and profile of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from vrag.corpus import timeout_exec
from vrag.errors import ConversionTimeout, CorpusError, UnsupportedFormatError

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
INSTALL_HINT = (
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
REGISTRY_HEAD = (
    '<?xml version="1.0" encoding="UTF-8"?>\n'
    '<oor:items xmlns:oor="http://openoffice.org/2001/registry" xmlns:xs="http://www.w3.org/2001/XMLSchema" '
    'xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance">\n'
)
REGISTRY_ITEM = '<item oor:path="{}"><prop oor:name="{}" oor:op="fuse"><value>{}</value></prop></item>\n'


def find_soffice() -> str:
    """Return the path of LibreOffice: on PATH, or where its installers put it.

    Raises `UnsupportedFormatError` if it is not installed.
    """
    for name in PROGRAMS:
        if path := shutil.which(name):
            return path
    for place in PLACES:
        anchor = Path(place).anchor or "/"
        for path in sorted(Path(anchor).glob(place.removeprefix(anchor)), reverse=True):
            if os.access(path, os.X_OK):
                return str(path)
    raise UnsupportedFormatError(
        "LibreOffice is needed to read this kind of file and was not found.", INSTALL_HINT
    )


def print_to_pdf(document: Path, suffix: str, pdf: Path, seconds: float) -> None:
    """Have LibreOffice print a document to a PDF file, without macros, links and network.

    The work is done in a folder of its own beside the PDF file (a copy of the document, profile,
    temporary files), which is removed whatever happens, also when this process is killed.

    Args:
        document: Any file name will do.
        suffix: Of its format in lower case, with the dot.
        pdf: Appears whole or not at all.
        seconds: Time limit, of processor time; see `vrag.corpus.timeout_exec`.

    Raises:
        UnsupportedFormatError: If LibreOffice is not installed.
        ConversionTimeout: If it took longer than the time limit.
        CorpusError: If it made nothing of the document.
        OSError: If the document cannot be read or the folder not be written.
    """
    program = find_soffice()
    with tempfile.TemporaryDirectory(prefix="office-", dir=pdf.parent, ignore_cleanup_errors=True) as name:
        work_dir = Path(name)
        copy, printed = work_dir / f"document{suffix}", work_dir / "out" / "document.pdf"
        shutil.copyfile(document, copy)
        registry = work_dir / "profile" / "user" / "registrymodifications.xcu"
        registry.parent.mkdir(parents=True)
        entries = "".join(REGISTRY_ITEM.format(*entry) for entry in REGISTRY)
        registry.write_text(f"{REGISTRY_HEAD}{entries}</oor:items>\n")
        (work_dir / "tmp").mkdir()
        options = "--headless --norestore --nolockcheck --nodefault --nofirststartwizard --convert-to pdf"
        command = [
            program,
            f"-env:UserInstallation={(work_dir / 'profile').as_uri()}",
            *options.split(),
            "--outdir",
            str(printed.parent),
            str(copy),
        ]
        status = _run(command, work_dir, seconds)
        if status == timeout_exec.LATE:
            raise ConversionTimeout(f"LibreOffice took longer than the time limit ({seconds:g} seconds).")
        if status == timeout_exec.CRASHED:
            raise CorpusError("It crashed LibreOffice, or took more memory than is allowed.")
        if not printed.is_file() or not printed.stat().st_size:
            raise CorpusError("LibreOffice cannot open it: it is damaged, or not what its suffix says.")
        printed.replace(pdf)


def _run(command: list[str], work_dir: Path, seconds: float) -> int:
    """Run a command by `timeout_exec`, without what in the user's environment could change a page."""
    line = [sys.executable, "-I", "-S", timeout_exec.__file__, str(seconds), str(work_dir), *command]
    names = ("PATH", "LANG", "LC_ALL", "LC_CTYPE", "SYSTEMROOT")
    environment = {name: os.environ[name] for name in names if name in os.environ}
    environment |= {"HOME": str(work_dir), "TMPDIR": str(work_dir / "tmp"), "SAL_USE_VCLPLUGIN": "svp"}
    with subprocess.Popen(  # noqa: S603 - our own command, the document is an argument of ours
        line,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=environment,
        start_new_session=True,
    ) as process:
        try:
            return process.wait()
        finally:
            if process.stdin:  # `timeout_exec` waits for its end
                process.stdin.close()
