"""Documents embedded in an Office Open XML file as objects of which its pages show an icon, or nothing.

An object that is drawn shows what its author wanted people to see of it, and that is read from the page.
"""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING, NamedTuple, cast

from vrag.corpus.formats.libreoffice.xml_parts import ARCHIVE_ERRORS, parse_xml
from vrag.errors import CorpusError

if TYPE_CHECKING:
    import zipfile
    from collections.abc import Iterator
    from typing import BinaryIO
    from xml.etree.ElementTree import Element

MAX_LIST_BYTES, MAX_PART_BYTES = 2**20, 64 * 2**20
"""Unpacked bytes of a list of relations, and of a part with objects, beyond which it is not read."""
MAX_LISTS = 2000
KINDS = ("/package", "/oleObject")
"""Ends of the types of relations that lead to objects."""
ELEMENTS = frozenset({"OLEObject", "oleObj", "oleObject"})
"""Local names of the elements that place an object: of Word, PowerPoint and Excel."""
ICON_ATTRIBUTES = (
    ("DrawAspect", "Icon"),
    ("dvAspect", "DVASPECT_ICON"),
    ("showAsIcon", "1"),
    ("showAsIcon", "true"),
)
UNREAD = (
    "The document has an embedded one ({}) that is not read. Open it there, save it as a file, and add it."
)
UNREAD_LIST = (
    "The document may have embedded ones, which are not read. Open them, save them as files, and add them."
)


class _PlacedObject(NamedTuple):
    relation: str
    program: str
    is_drawn: bool


def find_unread_objects(archive: zipfile.ZipFile) -> list[str]:
    """Return sentences for people about the embedded objects of a file that its pages do not show."""
    found: list[str] = []
    lists = [name for name in archive.namelist() if name.endswith(".rels") and "/charts/" not in name]
    for name in lists[:MAX_LISTS]:
        try:
            found += _list_unread(archive, name)
        except (CorpusError, *ARCHIVE_ERRORS):
            found.append(UNREAD_LIST)
    return list(dict.fromkeys(found))


def _list_unread(archive: zipfile.ZipFile, name: str) -> list[str]:
    folder, base = posixpath.split(name)
    part = posixpath.join(posixpath.dirname(folder), base.removesuffix(".rels"))
    if part not in archive.NameToInfo:
        return []
    targets = {
        each.get("Id", ""): each.get("Target", "")
        for each in _read(archive, name, MAX_LIST_BYTES)
        if each.get("Type", "").endswith(KINDS) and each.get("TargetMode") != "External"
    }
    root = _read(archive, part, MAX_PART_BYTES) if targets else None
    objects = _list_objects(root) if root is not None else ()
    return [
        UNREAD.format(_name_kind(targets[each.relation], each.program))
        for each in objects
        if each.relation in targets and not each.is_drawn
    ]


def _read(archive: zipfile.ZipFile, name: str, limit: int) -> Element:
    """Parse a part. Raises `CorpusError` if it is damaged or too large."""
    if archive.getinfo(name).file_size > limit:
        raise CorpusError("A part of the document is too large.")
    with archive.open(name) as part:
        return parse_xml(cast("BinaryIO", part))


def _list_objects(root: Element) -> Iterator[_PlacedObject]:
    """Yield the objects in a part; one in an element `object` of Word is drawn if this has a picture."""
    unseen = {
        child
        for each in root.iter()
        if _local(each.tag) == "object" and not any(_local(inner.tag) == "imagedata" for inner in each.iter())
        for child in each
    }
    for each in root.iter():
        if _local(each.tag) in ELEMENTS:
            relation = next((value for key, value in each.items() if key.endswith("}id")), "")
            is_icon = any(each.get(key) == value for key, value in ICON_ATTRIBUTES)
            program = each.get("ProgID") or each.get("progId") or ""
            yield _PlacedObject(relation, program, not is_icon and each not in unseen)


def _local(tag: str) -> str:
    return tag.rpartition("}")[2]


def _name_kind(target: str, program: str) -> str:
    """Return what people know an object by: the suffix of its file, or else the program that made it."""
    suffix = posixpath.splitext(target)[1].lower()
    return suffix if suffix and suffix != ".bin" else program or "of an unknown kind"
