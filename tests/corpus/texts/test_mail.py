from __future__ import annotations

import io
from email.message import EmailMessage
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from vrag.corpus.convert import CONVERTERS
from vrag.corpus.converter import ConversionContext, CorpusOptions
from vrag.corpus.discover import read_source
from vrag.corpus.formats.texts.mail import MessageReader, parse_message
from vrag.errors import CorpusError
from vrag.types import ItemKind

if TYPE_CHECKING:
    from pathlib import Path

    from vrag.types import Item

BOX_LINE = b"From keeper@lights.example Mon Jun  1 10:00:00 2026\n"


def items_of(path: Path, data: bytes) -> list[Item]:
    path.write_bytes(data)
    context = ConversionContext(path.parent / "items", CorpusOptions(ocr="never"))
    with CONVERTERS[path.suffix](read_source(path), context) as file:
        return [file.item(ordinal) for ordinal in range(1, file.count + 1)]


def write_mail(subject: str = "Lights of the bay", body: str = "The beacon burns gas.") -> EmailMessage:
    message = EmailMessage()
    message["From"] = "Ada Holm <ada@lights.example>"
    message["To"] = "keepers@lights.example"
    message["Date"] = "Mon, 01 Jun 2026 10:00:00 +0200"
    message["Subject"] = subject
    message.set_content(body)
    return message


def png() -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (50, 50), "red").save(file, "PNG")
    return file.getvalue()


def test_a_message_is_its_head_and_text_below_its_subject(tmp_path: Path) -> None:
    (item,) = items_of(tmp_path / "a.eml", bytes(write_mail("Größe der Lichter")))
    assert item.heading == "Größe der Lichter"
    assert item.text == (
        "Größe der Lichter\n\nFrom: Ada Holm <ada@lights.example>\nTo: keepers@lights.example\n"
        "Date: Mon, 01 Jun 2026 10:00:00 +0200\n\nThe beacon burns gas."
    )
    assert item.facts.unread == ()


def test_what_mail_programs_show_is_read_with_its_tables(tmp_path: Path) -> None:
    message = write_mail(body="Plain words.")
    message.add_alternative(
        "<p>Rich words.<table><tr><th>Light<th>Range<tr><td>Bell<td>9</table>", subtype="html"
    )
    (item,) = items_of(tmp_path / "a.eml", bytes(message))
    assert "Rich words." in item.text
    assert "Plain words." not in item.text
    (table,) = item.facts.tables
    assert [item.text[cell.start : cell.end] for cell in table.cells] == ["Light", "Range", "Bell", "9"]


def test_words_of_a_message_that_nobody_sees_are_kept_apart(tmp_path: Path) -> None:
    message = write_mail(body="Plain words.")
    message.add_alternative('<p>The fee is 7.</p><p style="opacity:0">unseen</p>', subtype="html")
    (item,) = items_of(tmp_path / "a.eml", bytes(message))
    assert item.text.endswith("The fee is 7.")
    assert item.facts.hidden_text == "unseen"


def test_attached_text_and_messages_are_sections_and_pictures_pages(tmp_path: Path) -> None:
    message = write_mail()
    message.add_attachment("Light,Range\nBell,9\n", subtype="csv", filename="ranges.csv")
    message.add_attachment(write_mail("Older mail", "It burnt oil before."))
    message.add_attachment(png(), "image", "png", filename="bay.png")
    items = items_of(tmp_path / "a.eml", bytes(message))
    assert [item.heading for item in items] == [
        "Lights of the bay",
        "Lights of the bay › ranges.csv",
        "Lights of the bay › Older mail",
        "",
    ]
    assert "It burnt oil before." in items[2].text
    assert (items[3].kind, items[3].text) == (ItemKind.PAGE, "bay.png")
    assert all(item.facts.unread == () for item in items)


def test_a_picture_in_the_text_is_one_page(tmp_path: Path) -> None:
    message = write_mail()
    message.add_alternative('<p>See <img src="cid:map" alt="The bay"></p>', subtype="html")
    message.get_payload()[1].add_related(png(), "image", "png", cid="<map>")  # pyright: ignore
    items = items_of(tmp_path / "a.eml", bytes(message))
    assert [item.text for item in items if item.kind is ItemKind.PAGE] == ["The bay"]


@pytest.mark.parametrize(
    ("kind", "subtype", "name", "told"),
    [
        ("application", "pdf", "chart.pdf", "“chart.pdf” is not read"),
        ("application", "octet-stream", "", "of type application/octet-stream is not read"),
        ("application", "pkcs7-mime", "smime.p7m", "encrypted"),
        ("image", "svg+xml", "map.svg", "“map.svg” is not read"),
    ],
)
def test_other_attachments_are_told(tmp_path: Path, kind: str, subtype: str, name: str, told: str) -> None:
    message = write_mail()
    message.add_attachment(b"\x00\x01\x02", kind, subtype, filename=name or None)
    (item,) = items_of(tmp_path / "a.eml", bytes(message))
    (sentence,) = item.facts.unread
    assert told in sentence


def test_a_signature_is_nothing_that_is_seen(tmp_path: Path) -> None:
    message = write_mail()
    message.add_attachment(b"x", "application", "pgp-signature", filename="signature.asc")
    (item,) = items_of(tmp_path / "a.eml", bytes(message))
    assert item.facts.unread == ()


def test_a_mailbox_is_all_its_messages(tmp_path: Path) -> None:
    mails = [bytes(write_mail(f"Mail {number}", "Quoted:\n>From the bay.")) for number in range(3)]
    data = b"\n".join(BOX_LINE + mail for mail in mails)
    items = items_of(tmp_path / "a.mbox", data)
    assert [item.heading for item in items] == ["Mail 0", "Mail 1", "Mail 2"]
    assert items[0].text.endswith("Quoted:\nFrom the bay.")


def test_messages_of_a_mailbox_may_have_no_head(tmp_path: Path) -> None:
    data = BOX_LINE + b"\nThe beacon burns gas.\n\n" + BOX_LINE + b"\nThe bell is silent.\n"
    first, second = items_of(tmp_path / "a.mbox", data)
    assert "The beacon burns gas." in first.text
    assert "The bell is silent." in second.text


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
def test_mail_that_was_saved_as_utf_16_is_read(tmp_path: Path, encoding: str) -> None:
    mail = bytes(write_mail("Ebb tide", "The beacon burns gas.")).decode()
    (item,) = items_of(tmp_path / "a.eml", mail.encode(encoding))
    assert item.heading == "Ebb tide"
    assert "The beacon burns gas." in item.text


def test_a_soft_line_break_is_none(tmp_path: Path) -> None:
    message = write_mail()
    message.set_content("The beacon \nburns gas.\n\n> It burnt \n> oil.\n")
    message.set_param("format", "flowed")
    (item,) = items_of(tmp_path / "a.eml", bytes(message))
    assert "The beacon burns gas." in item.text


@pytest.mark.parametrize(
    "head",
    [
        b"Subject: =?x-nothing?q?Bay?=\nContent-Type: text/plain; charset=no-such\n\nThe beacon.",
        b"Subject: \xff\xfe Bay\nContent-Type: text/plain; charset=\n\nThe beacon.",
        b"From: @@@@<>\nContent-Type: multipart/mixed\n\nThe beacon.",
        b"From: a\nContent-Type: multipart/mixed; boundary=x\n\n--x\n\nThe beacon.",
    ],
)
def test_damaged_messages_keep_their_words(tmp_path: Path, head: bytes) -> None:
    assert any("The beacon." in item.text for item in items_of(tmp_path / "a.eml", head))


@pytest.mark.parametrize("name", ["a.eml", "a.mbox"])
def test_what_is_no_mail_has_a_reason(tmp_path: Path, name: str) -> None:
    with pytest.raises(CorpusError, match="This is not a m"):
        items_of(tmp_path / name, b"Just words.\n")


def test_messages_within_messages_end_somewhere(tmp_path: Path) -> None:
    message = write_mail()
    for number in range(12):
        outer = write_mail(f"Mail {number}")
        outer.add_attachment(message)
        message = outer
    items = items_of(tmp_path / "a.eml", bytes(message))
    assert any("is not read" in sentence for item in items for sentence in item.facts.unread)


@given(st.binary(max_size=300))
def test_no_bytes_make_the_reader_fail(data: bytes) -> None:
    start = b"Subject: a\nContent-Type: multipart/mixed; boundary=b\n\n--b\n"
    assert MessageReader(parse_message(start + data), 1200).sections
