"""A profile of LibreOffice: no macros, no links followed, no network, and one program of ours.

The program (`printing.bas`) opens a document, has it show what is to be read, prints it to PDF and stores its
contents as OpenDocument. It is in the profile, not in a document: the setting that forbids macros is about
those of documents, which are opened in a mode without macros besides.
"""

from __future__ import annotations

import os
import re
import unicodedata
from html import escape
from importlib.resources import files
from typing import TYPE_CHECKING
from urllib.parse import quote

if TYPE_CHECKING:
    from pathlib import Path

PDF_NAME, CONTENTS_NAME = "document.pdf", "contents.zip"
"""Files that the program writes, in the folder `out` beside the profile."""
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
    # A profile that is not set up would have our program replaced by the files of an empty one.
    ("/org.openoffice.Setup/Office", "ooSetupInstCompleted", "true"),
)
"""Path, property and value of LibreOffice's registry."""
REGISTRY_HEAD = (
    '<?xml version="1.0" encoding="UTF-8"?>\n'
    '<oor:items xmlns:oor="http://openoffice.org/2001/registry" xmlns:xs="http://www.w3.org/2001/XMLSchema" '
    'xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance">\n'
)
REGISTRY_ITEM = '<item oor:path="{}"><prop oor:name="{}" oor:op="fuse"><value>{}</value></prop></item>\n'
LIBRARIES = """<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE library:libraries PUBLIC "-//OpenOffice.org//DTD OfficeDocument 1.0//EN" "libraries.dtd">
<library:libraries xmlns:library="http://openoffice.org/2000/library">
 <library:library library:name="Standard" library:link="false"/>
</library:libraries>
"""
LIBRARY = """<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE library:library PUBLIC "-//OpenOffice.org//DTD OfficeDocument 1.0//EN" "library.dtd">
<library:library xmlns:library="http://openoffice.org/2000/library" library:name="Standard"
 library:readonly="false" library:passwordprotected="false">
 <library:element library:name="Printing"/>
</library:library>
"""
MODULE = """<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE script:module PUBLIC "-//OpenOffice.org//DTD OfficeDocument 1.0//EN" "module.dtd">
<script:module xmlns:script="http://openoffice.org/2000/script" script:name="Printing"
 script:language="StarBasic">
{}</script:module>
"""
START = 'macro:///Standard.Printing.PrintDocument("{}")'
"""Argument of LibreOffice that runs the program on a document, by its name."""
DOCUMENT_FOLDER = "document"
"""Folder of the copy of a document, beside the profile of LibreOffice."""
MAX_NAME_BYTES = 100
"""Bytes of the name of the copy, without its suffix."""
_UNSAFE = re.compile(r"[^\w .,()&+='@~-]|[^\x00-\uffff]")
_PATH_SIGNS = ",()&+='@~"
"""Signs of a name that the path of an address has as they are."""
_RESERVED = re.compile(r"con|prn|aux|nul|com\d|lpt\d", re.IGNORECASE)
"""Names that Windows gives to devices."""


def start_argument(name: str) -> str:
    """Return the argument of LibreOffice that runs the program on the document of a name.

    The name is quoted as in an address, which the program makes of it, and once more for the argument.
    """
    return START.format(quote(quote(name, _PATH_SIGNS)))


def clean_name(name: str) -> str:
    """Return the name of a copy of a document: its own, without what a system or a link may not take.

    >>> clean_name("Fees 2024: north/south.XLSX"), clean_name("...docx"), clean_name("con.odt")
    ('Fees 2024_ north_south.XLSX', 'document.docx', 'document.odt')
    """
    stem, suffix = os.path.splitext(name)  # noqa: PTH122 - a name may have what divides paths
    if not suffix:
        stem, suffix = "", stem[stem.rfind(".") :]
    stem = _UNSAFE.sub("_", unicodedata.normalize("NFC", stem)).strip(" .")
    stem = stem.encode()[:MAX_NAME_BYTES].decode(errors="ignore").rstrip(" .")
    is_reserved = _RESERVED.fullmatch(stem.partition(".")[0]) is not None
    return f"{'document' if not stem or is_reserved else stem}{suffix}"


def write_profile(folder: Path) -> None:
    """Write the profile into a folder, which must not exist. Raises `OSError` if it cannot be written."""
    user = folder / "user"
    library = user / "basic" / "Standard"
    library.mkdir(parents=True)
    entries = "".join(REGISTRY_ITEM.format(*entry) for entry in REGISTRY)
    program = files("vrag.corpus.formats.libreoffice").joinpath("printing.bas").read_text(encoding="utf-8")
    texts = {
        user / "registrymodifications.xcu": f"{REGISTRY_HEAD}{entries}</oor:items>\n",
        user / "basic" / "script.xlc": LIBRARIES,
        library / "script.xlb": LIBRARY,
        library / "Printing.xba": MODULE.format(escape(program)),
    }
    for path, text in texts.items():
        path.write_text(text, encoding="utf-8")
