"""The text of XFA forms: forms of which the page of a PDF file says only to wait.

Such a form is XML inside the file, which programs of Adobe lay out. A template has its fields, captions and
static texts, a data tree what was filled in. Both are read here, without a layout: a line for each text, and
one with label and value for each field. What the template hides is left out; its scripts do not run.

XML is parsed by expat. Document types are refused, and with them entities; nothing else is opened.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple
from xml.parsers import expat

from vrag.corpus.formats.text import TextPassage, passages
from vrag.corpus.formats.texts.outline import Section
from vrag.errors import CorpusError
from vrag.text.signs import CHECKED, CHOSEN, NOT_CHECKED, NOT_CHOSEN
from vrag.types import FormField

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from vrag.corpus.converter import CorpusOptions

MAX_BYTES = 32 * 2**20
"""Size of all parts of a form together."""
MAX_ELEMENTS = 500_000
MAX_DEPTH = 150
MAX_LINES = 20_000
UNREAD_FORM = (
    "The document is a form that only programs of Adobe show (XFA), and it could not be read. "
    "Print it to PDF with one of them, and add that."
)
_BARE_AMPERSAND = re.compile(rb"&(?!(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|amp|lt|gt|quot|apos);)")
"""Programs of Adobe write it, and read it. An entity of another name is text as well."""
_PATH = re.compile(r"([^.\[\]]+)(?:\[[^\]]*\])?")
_HIDDEN = frozenset({"hidden", "invisible", "inactive"})
_CONTAINERS = frozenset({"subform", "subformSet", "area", "pageSet", "pageArea"})
_BLOCKS = frozenset({"p", "div", "br", "li", "h1", "h2", "h3"})
_NO_VALUE = frozenset({"button", "signature", "imageEdit", "passwordEdit", "barcode"})
"""Kinds of fields without a value to read."""


@dataclass(slots=True)
class XmlElement:
    """An element of a parsed document, named without its namespace."""

    name: str
    attributes: dict[str, str] = field(default_factory=dict[str, str])
    content: list[XmlElement | str] = field(default_factory=list["XmlElement | str"])

    @property
    def elements(self) -> list[XmlElement]:
        """Its child elements."""
        return [part for part in self.content if isinstance(part, XmlElement)]

    def find(self, *path: str) -> XmlElement | None:
        """Return the first element below it by the names on the way; None if there is none."""
        found: XmlElement | None = self
        for name in path:
            if found is None:
                return None
            found = next((child for child in found.elements if child.name == name), None)
        return found

    def text(self) -> str:
        """Return all text inside, paragraphs on lines of their own and without further white space."""
        raw = "".join(_text_parts(self))
        lines = (" ".join(line.split()) for line in re.split(r"[\r\n\u2028\u2029]+", raw))
        return "\n".join(filter(None, lines))


def _text_parts(element: XmlElement) -> Iterator[str]:
    for part in element.content:
        if isinstance(part, str):
            yield part
        else:
            yield from _text_parts(part)
            if part.name in _BLOCKS:
                yield "\n"


def parse_xml(data: bytes) -> XmlElement:
    """Parse an XML document. Raises `CorpusError` if it is malformed, too large or has a document type."""
    root = XmlElement("")
    stack = [root]
    count = 0

    def start(name: str, attributes: dict[str, str]) -> None:
        nonlocal count
        count += 1
        if count > MAX_ELEMENTS or len(stack) > MAX_DEPTH:
            raise CorpusError("The XML is too large.")
        element = XmlElement(_local(name), {_local(key): value for key, value in attributes.items()})
        stack[-1].content.append(element)
        stack.append(element)

    def add_text(text: str) -> None:
        stack[-1].content.append(text)

    def refuse(*_: object) -> None:
        raise CorpusError("The XML has a document type.")

    parser = expat.ParserCreate(namespace_separator=" ")
    parser.buffer_text = True
    parser.StartElementHandler = start
    parser.EndElementHandler = lambda _: stack.pop()
    parser.CharacterDataHandler = add_text
    parser.StartDoctypeDeclHandler = refuse
    parser.EntityDeclHandler = refuse
    try:
        parser.Parse(_BARE_AMPERSAND.sub(b"&amp;", data), True)
    except (expat.ExpatError, ValueError, LookupError) as error:
        raise CorpusError(f"The XML is damaged: {error}.") from error
    return root.elements[0]


def _local(name: str) -> str:
    return name.rsplit(" ", 1)[-1]


class FormText(NamedTuple):
    """The text of a form that has no pages of its own."""

    passages: tuple[TextPassage, ...] = ()
    unread: tuple[str, ...] = ()
    """A sentence that says that it could not be read; none if it was."""


def read_form_text(packets: Mapping[str, bytes], options: CorpusOptions) -> FormText:
    """Read a form as passages.

    Args:
        packets: The parts of the form, as `read_form` takes them; none where a file has no such form.
        options: How long passages are, and how many there may be.
    """
    if not packets:
        return FormText()
    try:
        text, fields = read_form(packets)
        form = passages([Section((), text, fields=fields)], options)
    except CorpusError:
        form = []
    return FormText(tuple(form), () if form else (UNREAD_FORM,))


def read_form(packets: Mapping[str, bytes]) -> tuple[str, tuple[FormField, ...]]:
    """Return the lines of a form, and the fields in them.

    Args:
        packets: The parts of the form by their names; a form of one part has any name.

    Raises:
        CorpusError: If the form is damaged or too large, or has no template.
    """
    if sum(map(len, packets.values())) > MAX_BYTES:
        raise CorpusError("The form is too large.")
    parts = {name: parse_xml(packets[name]) for name in ("template", "datasets") if name in packets}
    if not parts and len(packets) == 1:
        (whole,) = packets.values()
        parts = {part.name: part for part in reversed(parse_xml(whole).elements)}
    template, datasets = parts.get("template"), parts.get("datasets")
    if template is None:
        raise CorpusError("The form has no template.")
    reader = _FormReader(datasets or _NO_DATA)
    reader.read(template, reader.datasets.find("data") or _NO_DATA)
    return "\n".join(reader.lines), tuple(reader.fields)


_NO_DATA = XmlElement("")


class _FormReader:
    """One reading of a form."""

    def __init__(self, datasets: XmlElement) -> None:
        self.datasets = datasets
        """What was filled in, and lists of choices."""
        self.lines: list[str] = []
        self.fields: list[FormField] = []
        """Fields, by where they stand in all lines joined."""
        self._length = 0
        self._taken: defaultdict[tuple[int, str], int] = defaultdict(int)
        """Data nodes with a name that were given to fields, by the node that holds them."""

    def read(self, container: XmlElement, data: XmlElement) -> None:
        """Add the lines of the fields and texts in a part of the template, with its part of the data."""
        for child in container.elements:
            if child.attributes.get("presence") in _HIDDEN or len(self.lines) > MAX_LINES:
                continue
            if child.name in _CONTAINERS:
                for node in self._parts_of(child, data):
                    self.read(child, node)
            elif child.name == "exclGroup":
                self._add_choices(child, data)
            elif child.name == "field":
                self._add_field(child, self._value(child, data))
            elif child.name == "draw":
                self._add(_value_text(child))

    def _add(self, *parts: str) -> list[tuple[int, int]]:
        """Add a line of some parts, and return where each of them stands; empty ones add nothing."""
        places: list[tuple[int, int]] = []
        at = self._length
        for part in parts:
            places.append((at, at + len(part)))
            at += len(part)
        if at > self._length:
            self.lines.append("".join(parts))
            self._length = at + 1
        return places

    def _add_choices(self, group: XmlElement, data: XmlElement) -> None:
        """Add a line for each of the buttons of which one is chosen."""
        (caption,) = self._add(_caption(group))
        chosen = self._value(group, data)
        values: list[tuple[int, int]] = []
        for button in group.elements:
            if button.name == "field" and button.attributes.get("presence") not in _HIDDEN:
                is_chosen = bool(chosen) and chosen == _on_value(button)
                _, value = self._add(f"{CHOSEN if is_chosen else NOT_CHOSEN} ", _label(button))
                values += [value] if is_chosen and value[0] < value[1] else []
        self._note(caption, values)

    def _parts_of(self, container: XmlElement, data: XmlElement) -> list[XmlElement]:
        """Return the parts of the data that a part of the template is shown for, once each."""
        name, bind = container.attributes.get("name", ""), container.find("bind")
        if not name or container.name != "subform" or (bind and bind.attributes.get("match") == "none"):
            return [data]
        occur = container.find("occur")
        times = occur.attributes if occur else {}
        limit = int(times.get("max", "1")) if re.fullmatch(r"-?\d{1,6}", times.get("max", "1")) else 1
        found = self._take(_bound_name(container), data, None if limit < 0 else max(limit, 1))
        return found or ([] if times.get("min") == "0" else [_NO_DATA])

    def _value(self, entry: XmlElement, data: XmlElement) -> str:
        """Return what was filled in, or what the template begins with."""
        bind = entry.find("bind")
        if bind is None or bind.attributes.get("match") != "none":
            found = self._take(_bound_name(entry), data, 1)
            if found:
                return found[0].text()
        return _value_text(entry)

    def _take(self, name: str, data: XmlElement, limit: int | None) -> list[XmlElement]:
        """Return the next data nodes of a name; those given before are for fields before."""
        nodes = [child for child in data.elements if child.name == name]
        first = self._taken[id(data), name]
        taken = nodes[first:] if limit is None else nodes[first : first + limit]
        self._taken[id(data), name] += len(taken)
        return taken

    def _add_field(self, entry: XmlElement, value: str) -> None:
        """Add label and value of a field in one line."""
        ui = entry.find("ui")
        kinds = {child.name for child in ui.elements} if ui else set[str]()
        if kinds & _NO_VALUE:
            return
        if "checkButton" in kinds:
            is_set = bool(value) and value == _on_value(entry)
            mark, _, label = self._add(CHECKED if is_set else NOT_CHECKED, " ", _label(entry))
            self._note(label, [mark] if is_set else [], is_check=True)
            return
        choices = dict(zip(*reversed(_items(entry)), strict=False)) or self._bound_choices(entry)
        shown = ", ".join(choices.get(line, line) for line in value.split("\n")) if choices else value
        label, _, written = (
            self._add(_label(entry).rstrip(" :"), ": ", shown)
            if shown
            else self._add(_caption(entry), "", "")
        )
        self._note(label, [written] if shown else [])

    def _note(
        self, label: tuple[int, int], values: Sequence[tuple[int, int]], *, is_check: bool = False
    ) -> None:
        """Note a field that has a label."""
        if label[0] < label[1]:
            self.fields.append(FormField((label,), tuple(values), is_check=is_check))

    def _bound_choices(self, entry: XmlElement) -> dict[str, str]:
        """Return what a field shows for the values of a list of choices that is part of the data."""
        bound = entry.find("bindItems")
        path = _PATH.findall(bound.attributes.get("ref", "").removeprefix("xfa.datasets.")) if bound else []
        if bound is None or not path:
            return {}
        holder = self.datasets.find(*path[:-1]) or _NO_DATA
        keys = [bound.attributes.get(name, "$") for name in ("valueRef", "labelRef")]
        choices = [each for each in holder.elements if each.name == path[-1]]
        return {_part_of(choice, keys[0]): _part_of(choice, keys[1]) for choice in choices}


def _bound_name(entry: XmlElement) -> str:
    """Return the name of the data node of a field: the last part of its reference, or its own name."""
    bind = entry.find("bind")
    reference = bind.attributes.get("ref", "") if bind else ""
    last = re.sub(r"\[[^\]]*\]$", "", reference.rsplit(".", 1)[-1])
    return last if reference and re.fullmatch(r"[\w-]+", last) else entry.attributes.get("name", "")


def _label(entry: XmlElement) -> str:
    """Return the caption of a field, or what else names it to people."""
    tip = entry.find("assist", "toolTip")
    return _caption(entry) or (tip.text() if tip else "") or entry.attributes.get("name", "")


def _caption(entry: XmlElement) -> str:
    caption = entry.find("caption")
    if caption is None or caption.attributes.get("presence") in _HIDDEN:
        return ""
    return " ".join(_value_text(caption).split())


def _value_text(entry: XmlElement) -> str:
    """Return the text of a value in the template; images have none."""
    value = entry.find("value")
    kinds = value.elements if value else []
    return kinds[0].text() if kinds and kinds[0].name not in {"image", "line", "rectangle", "arc"} else ""


def _items(entry: XmlElement) -> tuple[list[str], list[str]]:
    """Return what a field shows of each of its choices, and the values that are stored for them."""
    lists = [child for child in entry.elements if child.name == "items"]
    shown = next((each for each in lists if each.attributes.get("save") != "1"), None)
    saved = next((each for each in lists if each.attributes.get("save") == "1"), shown)
    texts = [[part.text() for part in each.elements] if each else [] for each in (shown or saved, saved)]
    return texts[0], texts[1]


def _on_value(button: XmlElement) -> str:
    """Return the value of a button that is set."""
    _, saved = _items(button)
    return saved[0] if saved else "1"


def _part_of(choice: XmlElement, reference: str) -> str:
    """Return the part of a choice that a reference names: its text, an attribute or a child."""
    name = reference.removeprefix("$").lstrip(".")
    child = choice.find(name) if name else choice
    return child.text() if child else choice.attributes.get(name, "")
