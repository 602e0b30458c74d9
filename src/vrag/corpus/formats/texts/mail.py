"""Mail: .eml files of one message, .mbox files of many. Each becomes a section under its subject.

Of a message that is there as HTML and as plain text, the HTML is read, which mail programs show. Attached
messages and files of text are sections below it, pictures are pages. Other attachments, and messages that are
encrypted, are told as not read. Nothing is fetched from the network.
"""

from __future__ import annotations

import codecs
import re
from email import message_from_bytes, policy
from itertools import chain
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, cast
from urllib.parse import unquote

from vrag.corpus.formats.sections import markdown_sections, plain_sections
from vrag.corpus.formats.texts.html_tree import html_page
from vrag.corpus.formats.texts.illustrated_text import (
    FigureContent,
    IllustratedText,
    PictureContent,
    decode_data_url,
    is_small_picture,
)
from vrag.corpus.formats.texts.outline import Section
from vrag.corpus.formats.texts.separated_values import table_sections
from vrag.corpus.formats.texts.web.figures import Figure
from vrag.corpus.sniff import decode, drop_invisible
from vrag.errors import CorpusError, FileTooLargeError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from email.message import Message

    from vrag.corpus.converter import ConversionContext, SourceFile

SUFFIXES = (".eml", ".mbox")
MAX_MAIL_BYTES = 256 * 2**20
"""Larger mailboxes would take gigabytes to parse."""
MAX_HEADER_CHARS = 10_000
"""Characters of a line of the head of a message that are read."""
MAX_DEPTH = 5
"""Messages attached to messages."""
MAX_PARTS = 1000
"""Parts of one message that are looked at."""
ZERO_BYTES = 16
"""Bytes at the begin of mail among which UTF-16 has zeros; a message begins with the name of a header."""
HEADERS = ("From", "To", "Cc", "Date")
SIGNATURES = frozenset(
    {"application/pgp-signature", "application/pkcs7-signature", "application/x-pkcs7-signature"}
)
"""Types of parts that show nothing."""
ENCRYPTED = frozenset({"application/pkcs7-mime", "application/x-pkcs7-mime", "application/pgp-encrypted"})
_MESSAGE_START = re.compile(rb"(?:\A|\n\r?\n)From [^\n]*\d\d:\d\d[^\n]*\n")
_QUOTED_FROM = re.compile(rb"^>(>*From )", re.MULTILINE)
_SOFT_BREAK = re.compile(r"(?<=[^\n-]) \n(?![>\n])")


class MailFile(IllustratedText):
    """A file of messages that was read.

    Raises `FileTooLargeError` if it has more than 256 MiB, and `CorpusError` if it holds no message.
    """

    def __init__(self, source: SourceFile, context: ConversionContext) -> None:
        if source.size > MAX_MAIL_BYTES:
            raise FileTooLargeError(f"The mail has {source.size:,} bytes; the limit is {MAX_MAIL_BYTES:,}.")
        with source.open() as file:
            data = file.read(MAX_MAIL_BYTES)
        data = _to_bytes_of_letters(data)
        messages: Iterator[Message]
        if source.path.suffix.lower() == ".mbox":
            boxed = split_box(data)
            messages = chain([message_from_bytes(next(boxed))], map(message_from_bytes, boxed))
        else:
            messages = iter([parse_message(data)])
        pictures: list[FigureContent] = []

        def read_sections() -> Iterator[Section]:
            for message in messages:
                reader = MessageReader(message, context.options.passage_chars)
                yield from reader.sections
                pictures.extend(reader.pictures)

        super().__init__(source, context, read_sections(), pictures)


def _to_bytes_of_letters(data: bytes) -> bytes:
    """Return mail that some program stored as UTF-16, of which half of the bytes are zero, as UTF-8."""
    return decode(data).encode() if b"\x00" in data[:ZERO_BYTES] else data


def split_box(data: bytes) -> Iterator[bytes]:
    """Yield the messages of a mailbox. Raises `CorpusError` if it holds none."""
    starts = [(match.start(), match.end()) for match in _MESSAGE_START.finditer(data)]
    if not starts:
        raise CorpusError("This is not a mailbox: no message begins with a line “From … 12:30:00 2026”.")
    ends = [start for start, _ in starts[1:]] + [len(data)]
    for (_, first), last in zip(starts, ends, strict=True):
        yield _QUOTED_FROM.sub(rb"\1", data[first:last])


def parse_message(data: bytes) -> Message:
    """Parse a message. Raises `CorpusError` if it has none of the lines that a message begins with."""
    message = message_from_bytes(data, policy=policy.compat32)
    if not any(message[name] for name in ("From", "To", "Subject", "Date", "Received", "Message-ID")):
        raise CorpusError("This is not a message: it has neither a sender nor a subject.")
    return message


class MessageReader:
    """The sections and pictures of one message."""

    def __init__(self, message: Message, size: int) -> None:
        self._size = size
        self._parts = 0
        self.pictures: list[FigureContent] = []
        self.sections = list(self._read(message, (), 0))

    def _read(self, message: Message, above: tuple[str, ...], depth: int) -> Iterator[Section]:
        """Yield the sections of a message, and of what is attached to it."""
        subject = read_header(message, "Subject") or "(no subject)"
        headings = (*above, subject)
        bodies, attached = _collect_parts(message)
        unread: list[str] = []
        body = list(self._read_bodies(bodies, headings, attached, unread))
        sections: list[Section] = []
        for part in attached:
            self._parts += 1
            if self._parts > MAX_PARTS:
                unread.append(f"The message has more than {MAX_PARTS:,} parts; the others are not read.")
                break
            found = list(self._read_attached(part, headings, depth))
            sections += found
            if not found and (reason := self._describe_unread(part)):
                unread.append(reason)
        lines = [f"{name}: {value}" for name in HEADERS if (value := read_header(message, name))]
        head = Section(headings, "\n".join([subject, "", *lines]), (), tuple(dict.fromkeys(unread)))
        if body and body[0].headings == headings:
            yield _join_sections(head, body.pop(0))
        else:
            yield head
        yield from body
        yield from sections

    def _read_bodies(
        self,
        bodies: Iterable[Message],
        headings: tuple[str, ...],
        attached: list[Message],
        unread: list[str],
    ) -> Iterator[Section]:
        """Yield what a mail program shows of a message; add to `unread` what cannot be read."""
        for part in bodies:
            try:
                text = read_part_text(part)
            except CorpusError as error:
                unread.append(f"A part of the message is not read: {error}")
                continue
            if part.get_content_type() != "text/html":
                if part.get_param("format") == "flowed":
                    text = _SOFT_BREAK.sub(" ", text)
                yield from (_below(headings, section) for section in plain_sections(text))
                continue
            sections, figures, _ = html_page(text)
            yield from (_below(headings, section) for section in sections)
            for figure in figures:
                self._add_figure(figure._replace(headings=(*headings, *figure.headings)), attached)

    def _add_figure(self, figure: Figure, attached: list[Message]) -> None:
        """Add a picture that the text shows: one in itself, or a part of the message."""
        if figure.reference.lower().startswith("data:"):
            content = decode_data_url(figure.reference)
            if isinstance(content, str) or not is_small_picture(content.open()):
                self.pictures.append(FigureContent(figure, content))
        elif figure.reference.lower().startswith("cid:"):
            wanted = unquote(figure.reference[4:])
            for part in attached:
                if str(part.get("Content-ID") or "").strip(" <>") == wanted:
                    attached.remove(part)
                    self._add_picture(figure, part)
                    break

    def _add_picture(self, figure: Figure, part: Message) -> None:
        content = PictureContent.of_bytes(_payload(part))
        if not is_small_picture(content.open()):
            self.pictures.append(FigureContent(figure, content))

    def _read_attached(self, part: Message, headings: tuple[str, ...], depth: int) -> Iterator[Section]:
        """Yield the sections of an attached message or file of text."""
        kind, name = part.get_content_type(), _file_name(part)
        if kind == "message/rfc822" and depth < MAX_DEPTH:
            for inner in _inner_parts(part)[:1]:
                yield from self._read(inner, headings, depth + 1)
            return
        suffix = PurePosixPath(name).suffix.lower()
        if part.get_content_maintype() != "text" and suffix not in {".txt", ".md", ".csv", ".tsv"}:
            return
        try:
            text = read_part_text(part)
        except CorpusError:
            return
        inner = (*headings, name or kind)
        if kind == "text/html" or suffix in {".html", ".htm"}:
            sections: Iterable[Section] = html_page(text)[0]
        elif kind == "text/csv" or suffix in {".csv", ".tsv"}:
            sections = table_sections(text, self._size)
        else:
            sections = markdown_sections(text) if suffix == ".md" else plain_sections(text)
        yield from (_below(inner, section) for section in sections)

    def _describe_unread(self, part: Message) -> str:
        """Add an attached picture, or return a sentence that says that an attachment is not read."""
        kind, name = part.get_content_type(), _file_name(part)
        if kind in SIGNATURES:
            return ""
        if kind in ENCRYPTED:
            return "The message is encrypted or sealed, and not read: save it as plain mail."
        if part.get_content_maintype() == "image" and kind != "image/svg+xml":
            self._add_picture(Figure(name or kind, name, ()), part)
            return ""
        label = f"“{name}”" if name else f"of type {kind}"
        return f"The attachment {label} is not read: save it as a file of its own, and add that."


def _join_sections(first: Section, second: Section) -> Section:
    """Return two sections under one heading as one."""
    text = f"{first.text}\n\n{second.text}"
    by = len(text) - len(second.text)
    return Section(
        first.headings,
        text,
        tuple(table.moved(by) for table in second.tables),
        first.unread + second.unread,
        hidden_text=second.hidden_text,
    )


def _below(headings: tuple[str, ...], section: Section) -> Section:
    return section._replace(headings=(*headings, *section.headings))


def _collect_parts(message: Message) -> tuple[list[Message], list[Message]]:
    """Return the parts that a mail program shows as the text of a message, and what is attached."""
    shown: list[Message] = []
    attached: list[Message] = []
    stack = [message]
    while stack:
        part = stack.pop()
        kind = part.get_content_type()
        inner = _inner_parts(part)
        is_attached = part.get_content_disposition() == "attachment"
        if kind == "multipart/alternative" and inner:
            stack.append(_choose_alternative(inner))
        elif inner and kind != "message/rfc822":
            stack += reversed(inner)
        elif not is_attached and _is_body(part):
            shown.append(part)
        else:
            attached.append(part)
    return shown, attached


def _inner_parts(part: Message) -> list[Message]:
    payload = part.get_payload()
    return cast("list[Message]", payload) if isinstance(payload, list) else []


def _is_body(part: Message) -> bool:
    """Return whether a part is text without a name, or says wrongly that it has parts."""
    is_text = part.get_content_type() in {"text/plain", "text/html"} and not part.get_filename()
    return is_text or (part.get_content_maintype() == "multipart" and not part.is_multipart())


def _choose_alternative(parts: list[Message]) -> Message:
    """Return the last part that is read: programs put the plainest first."""
    for part in reversed(parts):
        kinds = {inner.get_content_type() for inner in part.walk()}
        if "text/html" in kinds or "text/plain" in kinds:
            return part
    return parts[-1]


def read_header(message: Message, name: str) -> str:
    """Return a line of the head of a message, decoded, with single spaces."""
    values = (value for key, value in message.raw_items() if key.lower() == name.lower())
    value = "".join(str(next(values, "")).splitlines())[:MAX_HEADER_CHARS]
    try:
        value = str(policy.default.header_factory(name, value))
    except Exception:  # noqa: BLE001 - the parser of the standard library fails at some damaged lines
        value = value.strip()
    text = value.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    return " ".join(drop_invisible(text).split())


def _file_name(part: Message) -> str:
    try:
        name = part.get_filename() or ""
    except Exception:  # noqa: BLE001 - as above
        return ""
    text = name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    return " ".join(text.split())[:200]


def _payload(part: Message) -> bytes:
    data = part.get_payload(decode=True)
    return data if isinstance(data, bytes) else b""


def read_part_text(part: Message) -> str:
    """Return the text of a part. Raises `CorpusError` if it is none."""
    data = _payload(part)
    charset = part.get_content_charset() or ""
    try:
        known = codecs.lookup(charset).name if charset else ""
    except LookupError:
        known = ""
    if known in {"", "ascii", "utf-8"}:
        return decode(data)
    return decode(data.decode(known, "replace").encode())
