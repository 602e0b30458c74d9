"""Some seven hundred damaged, hostile and odd inputs: each gives items or a reason, and none a crash.

Run with `-s` to see the table of what came of each class.
"""

from __future__ import annotations

import functools
import gzip
import importlib.util
import io
import os
import random
import zipfile
from collections import Counter, defaultdict
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from PIL import Image

from corpus.image_files import bmp_bomb, gif_bomb, png_bomb
from corpus.office_files import archive, compound, encrypted_odt, odt, rtf, zip_bomb
from corpus.pdf_files import PdfPage, asking_for_password, assemble, pdf_bytes, text_at
from corpus.video_files import Film, film_bytes
from vrag.corpus.convert import Converted, Failed, Finished, ItemCount, convert_all
from vrag.corpus.converter import CorpusOptions
from vrag.corpus.discover import Skipped, find, read_source

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vrag.corpus.converter import SourceFile

Case = tuple[str, str, bytes]
"""Class, file name, content."""

ROUNDS = 12


def good() -> dict[str, bytes]:
    """One sound file of each format."""
    rng = random.Random(0)
    picture = Image.frombytes("RGB", (60, 40), rng.randbytes(60 * 40 * 3))
    files = {"pdf": pdf_bytes(*(PdfPage(text_at(72, 700, f"Sound page number {n}")) for n in range(3)))}
    for suffix in ("png", "jpg", "webp", "tiff", "bmp", "gif"):
        buffer = io.BytesIO()
        picture.save(buffer, {"jpg": "jpeg"}.get(suffix, suffix))
        files[suffix] = buffer.getvalue()
    files["html"] = b"<h1>Title</h1><p>Words of a paragraph.</p>" * 20
    files["json"] = b'{"a": [1, 2, {"b": "words"}], "c": "more words"}'
    files["md"] = b"# Title\n\nWords of a paragraph.\n\n" * 20
    files["txt"] = "Words of a paragraph: größer, 日本.\n\n".encode() * 20
    return files | good_office() | good_videos()


def good_office() -> dict[str, bytes]:
    """Documents by hand. Few of the damaged ones get as far as LibreOffice, which takes a second for each."""
    return {"odt": odt("Words of a page"), "rtf": rtf("Words of a page")}


@functools.cache
def good_videos() -> dict[str, bytes]:
    """Videos of two seconds; none where nothing can make them."""
    if not importlib.util.find_spec("av"):
        return {}
    film = Film(times=range(0, 2000, 100), size=(64, 48), key_every=5)
    return {
        "mp4": film_bytes(replace(film, sound="aac")),
        "mkv": film_bytes(replace(film, kind="matroska", sound="libopus")),
        "webm": film_bytes(replace(film, kind="webm", codec="libvpx", options=(("cpu-used", "8"),))),
        "avi": film_bytes(replace(film, kind="avi", codec="mpeg4")),
    }


def truncated() -> Iterator[Case]:
    for suffix, data in good().items():
        for step in range(2, ROUNDS, 4) if suffix in good_office() else range(ROUNDS):
            yield "truncated", f"t{step}.{suffix}", data[: len(data) * step // ROUNDS + 1]


def flipped() -> Iterator[Case]:
    rng = random.Random(1)
    for suffix, data in good().items():
        for step in range(3 if suffix in good_office() else ROUNDS):
            damaged = bytearray(data)
            for _ in range(1 + step * 3):
                damaged[rng.randrange(len(damaged))] ^= 1 << rng.randrange(8)
            yield "bit flips", f"f{step}.{suffix}", bytes(damaged)


def renamed() -> Iterator[Case]:
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("a.txt", "text")
    others = {"zip": archive.getvalue(), "gz": gzip.compress(b"text"), "elf": b"\x7fELF" + bytes(200)}
    wanted = ("pdf", "png", "jpg", "tiff", "txt", "json", "html", "docx", "xls", "mp4", "mkv")
    for kind, data in (good() | others).items():
        for suffix in wanted:
            if suffix != kind and not (kind in good_office() and suffix in {"docx", "xls"}):
                yield "renamed", f"{kind}-is-no.{suffix}", data


def filled() -> Iterator[Case]:
    rng = random.Random(2)
    fillings = {
        "zeros": bytes(5000),
        "ones": b"\xff" * 5000,
        "noise": rng.randbytes(5000),
        "spaces": b" \n" * 500,
    }
    for suffix, data in good().items():
        yield "empty", f"empty.{suffix}", b""
        for name, filling in fillings.items():
            yield "filled", f"{name}.{suffix}", filling
        yield "filled", f"begun.{suffix}", data[:12] + rng.randbytes(5000)


def bombs() -> Iterator[Case]:
    for side in (7_100, 20_000, 65_535, 100_000, 2**31 - 1):
        yield "image bombs", f"{side}.png", png_bomb(side, side)
        yield "image bombs", f"{side}.bmp", bmp_bomb(side, side)
        yield "image bombs", f"{min(side, 65_535)}-{side}.gif", gif_bomb(min(side, 65_535), 65_535)
    for width, height in ((100_000, 1), (1, 100_000), (100_000, 100), (0, 0), (0, 10)):
        yield "image bombs", f"{width}x{height}.png", png_bomb(width, height)
    yield "image bombs", "within.png", png_bomb(7000, 7000)
    yield "image bombs", "swollen.png", png_bomb(20, 20, packed=50_000_000)
    yield "nesting bombs", "list.json", b"[" * 200_000
    yield "nesting bombs", "closed.json", b"[" * 50_000 + b"]" * 50_000
    yield "nesting bombs", "objects.json", b'{"a":' * 50_000 + b"1" + b"}" * 50_000
    yield "nesting bombs", "digits.json", b"1" * 100_000
    yield "nesting bombs", "div.html", b"<div>" * 50_000
    yield "nesting bombs", "tables.html", b"<table><tr><td>" * 20_000 + b"words"
    yield "nesting bombs", "unclosed.html", b"<a " * 5_000
    yield "nesting bombs", "comments.html", b"<!--" * 5_000
    yield "nesting bombs", "script.html", b"<script>" * 20_000
    yield "nesting bombs", "quotes.md", b">" * 20_000 + b" words"
    yield "nesting bombs", "brackets.md", b"[" * 5_000
    yield "nesting bombs", "emphasis.md", b"*a_ " * 5_000
    yield "nesting bombs", "one-word.txt", b"x" * 300_000


def hostile_documents() -> Iterator[Case]:
    yield "office bombs", "text.docx", zip_bomb(2**32 - 2)
    yield "office bombs", "pictures.pptx", zip_bomb(2**32 - 2, "ppt/media/a.png")
    yield "office bombs", "many.xlsx", archive({f"{n}.xml": "" for n in range(100_100)})
    yield "office bombs", "plain.docx", archive({"word/document.xml": "<a>" * 1000})
    yield "encrypted", "password.odt", encrypted_odt()
    for number, names in enumerate((("WordDocument",), ("EncryptedPackage",), ())):
        yield "old office", f"{number}.doc", compound(*names)
    yield "old office", "head.xls", compound("Workbook")[:512]
    yield "old office", "nested.rtf", b"{\\rtf1 " + b"{" * 50_000


def hostile_videos() -> Iterator[Case]:
    lists = {
        "hls": b"#EXTM3U\n#EXT-X-TARGETDURATION:9\n#EXTINF:9,\nhttp://127.0.0.1:9/a.ts\n#EXT-X-ENDLIST\n",
        "concat": b"ffconcat version 1.0\nfile /etc/hostname\n",
        "sdp": b"v=0\no=- 0 0 IN IP4 127.0.0.1\nc=IN IP4 127.0.0.1\nm=video 9 RTP/AVP 96\n",
    }
    for name, data in lists.items():
        for suffix in ("mp4", "mkv", "webm", "avi", "mov"):
            yield "play lists", f"{name}.{suffix}", data
    for suffix, data in good_videos().items():
        if suffix == "mp4":
            yield from hostile_boxes(data)
        for share in (3, 5, 7):
            cut = len(data) * share // 8
            yield "video gaps", f"{share}.{suffix}", data[: cut - 400] + bytes(800) + data[cut + 400 :]


def hostile_boxes(data: bytes) -> Iterator[Case]:
    """MP4 files whose tables say other things than the film."""
    for name in (
        b"mvhd",
        b"tkhd",
        b"mdhd",
        b"stts",
        b"ctts",
        b"stsz",
        b"stco",
        b"stsc",
        b"stss",
        b"avc1",
        b"avcC",
    ):
        for filling in (b"\xff", b"\x00", b"\x7f"):
            at = data.find(name)
            yield (
                "video tables",
                f"{name.decode()}-{filling.hex()}.mp4",
                (data[: at + 8] + filling * 24 + data[at + 32 :]),
            )
    for size in (0, 1, 7, 2**31, 2**32 - 1):
        yield "video tables", f"size{size}.mp4", size.to_bytes(4, "big") + data[4:]
    yield (
        "video tables",
        "nested.mp4",
        b"".join((8 * (2000 - n)).to_bytes(4, "big") + b"moov" for n in range(2000)),
    )


def hostile_pdfs() -> Iterator[Case]:
    for number, box in enumerate(
        (
            "[0 0 0 0]",
            "[0 0 -612 -792]",
            "[612 792 0 0]",
            "[0 0 1e9 1e9]",
            "[0 0 14400 14400]",
            "[0 0 1 1]",
            "[0 0 1e-9 1e-9]",
            "[0 0 100000 1]",
            "[0 0 nan inf]",
            "[0 0]",
            "[]",
            "(no box)",
            "[-1e30 -1e30 1e30 1e30]",
            "[2147483647 0 -2147483648 1]",
        )
    ):
        page = PdfPage(text_at(72, 700, "A page in an odd box"), f"/MediaBox {box}")
        yield (
            "pdf boxes",
            f"box{number}.pdf",
            pdf_bytes(page, PdfPage(text_at(72, 700, "A sound page follows"))),
        )
        yield (
            "pdf boxes",
            f"crop{number}.pdf",
            pdf_bytes(PdfPage(entries=f"/MediaBox [0 0 99 99] /CropBox {box}")),
        )
    catalog = "<< /Type /Catalog /Pages 2 0 R >>"
    trees = {
        "no-pages": "<< /Type /Pages /Kids [] /Count 0 >>",
        "self": "<< /Type /Pages /Kids [2 0 R] /Count 1 >>",
        "loop": "<< /Type /Pages /Kids [3 0 R 3 0 R] /Count 2 >>",
        "liar": "<< /Type /Pages /Kids [] /Count 5 >>",
        "many": "<< /Type /Pages /Kids [] /Count 2000000000 >>",
        "negative": "<< /Type /Pages /Kids [3 0 R] /Count -3 >>",
        "missing": "<< /Type /Pages /Kids [9 0 R 10 0 R] /Count 2 >>",
        "number": "42",
    }
    for name, tree in trees.items():
        yield (
            "pdf trees",
            f"{name}.pdf",
            assemble([catalog, tree, "<< /Type /Pages /Kids [2 0 R] /Count 1 >>"]),
        )
    yield "pdf trees", "no-catalog.pdf", assemble(["null"])
    contents = {
        "unbalanced": "q " * 50_000,
        "closing": "Q " * 50_000,
        "no-font": "BT /F9 12 Tf (words without a font) Tj ET",
        "huge-text": text_at(72, 700, "words that are far too large", 1e9),
        "tiny-text": text_at(72, 700, "words that are far too small", 1e-9),
        "far-away": text_at(1e9, -1e9, "words that stand far away from here"),
        "matrix": "0 0 0 0 0 0 cm " + text_at(0, 0, "words without any extent at all"),
        "garbage": "\x00\xff\x80 ]] >> (((( Tj",
        "strings": "BT /F1 12 Tf " + "(" * 10_000,
        "lines": "0 0 m " + "99 99 l 0 9 l " * 20_000 + "S",
    }
    for name, content in contents.items():
        yield "pdf contents", f"{name}.pdf", pdf_bytes(PdfPage(content))
    form = "<< /Type /XObject /Subtype /Form /BBox [0 0 9 9] /Length 5 /Resources"
    form += " << /XObject << /X 6 0 R >> >> >>"
    page = PdfPage("/X Do", "/MediaBox [0 0 99 99] /Resources << /XObject << /X 6 0 R >> >>")
    yield "pdf contents", "form-loop.pdf", pdf_bytes(page, extra=(f"{form}\nstream\n/X Do\nendstream",))
    for turn in ("45", "1e9", "-90", "(a)"):
        yield (
            "pdf contents",
            f"turn{turn}.pdf",
            pdf_bytes(PdfPage(entries=f"/MediaBox [0 0 99 99] /Rotate {turn}")),
        )
    yield "encrypted", "password.pdf", asking_for_password()
    yield (
        "encrypted",
        "unknown.pdf",
        pdf_bytes(PdfPage(), extra=("<< /Filter /Nobody /V 99 >>",), trailer="/Encrypt 6 0 R"),
    )


def cases() -> list[Case]:
    makers = (truncated, flipped, renamed, filled, bombs, hostile_pdfs, hostile_documents, hostile_videos)
    return [case for make in makers for case in make()]


def write(root: Path) -> dict[Path, str]:
    """Writes all cases and the odd parts of a file tree; gives the class of each path."""
    classes: dict[Path, str] = {}
    for number, (kind, name, data) in enumerate(cases()):
        path = root / kind / str(number) / name
        path.parent.mkdir(parents=True)
        path.write_bytes(data)
        classes[path] = kind
    return classes | write_tree(root)


def write_tree(root: Path) -> dict[Path, str]:
    classes: dict[Path, str] = {}
    deep = root.joinpath("deep", *["d"] * 300)
    deep.mkdir(parents=True)
    for name in (
        "line\nfeed.txt",
        "🦆.md",
        "x" * 251 + ".txt",
        " .txt",
        "a.TXT",
        "$(rm).txt",
        "bad\udcff.txt",
        "%s.txt",
    ):
        classes[root / "names" / name] = "odd names"
    classes[deep / "a.txt"] = "deep folders"
    for path in classes:
        path.parent.mkdir(exist_ok=True)
        path.write_text("Words in a file with an odd name.")
    links = {
        "out.txt": Path(__file__),
        "out": Path(__file__).parent,
        "gone.txt": root / "gone",
        "round": root,
    }
    (root / "links").mkdir()
    for name, target in links.items():
        path = root / "links" / name
        path.symlink_to(target)
        classes[path] = "links"
    for name in ("a.zip", "b.mp3", "c"):
        path = root / "links" / name
        path.write_bytes(b"something")
        classes[path] = "unsupported"
    os.mkfifo(root / "links" / "pipe.txt")
    return classes | {root / "links" / "pipe.txt": "special files"}


@pytest.mark.skipif(os.name != "posix", reason="makes pipes and undecodable names")
@pytest.mark.slow
def test_malformed_inputs_give_items_or_reasons_and_never_a_crash(tmp_path: Path) -> None:
    classes = write(tmp_path / "in")
    assert len(classes) >= 300
    reasons: dict[Path, list[str]] = defaultdict(list)
    items: Counter[Path] = Counter()
    finished: Counter[Path] = Counter()
    counted: dict[Path, int] = {}

    def sources() -> Iterator[SourceFile]:
        for found in find([tmp_path / "in"]):
            if isinstance(found, Skipped):
                reasons[found.path].append(found.reason)
            else:
                yield read_source(found)

    options = CorpusOptions(ocr="never", page_seconds=20, workers=2)
    for conversion in convert_all(sources(), tmp_path / "items", options):
        path = conversion.source.path
        match conversion:
            case Converted(item=item):
                items[path] += 1
                item.text.encode()
                assert all(0 <= w.start < w.end <= len(item.text) for w in item.words)
                assert all(0 <= side <= 1 for w in item.words for side in w.box.as_tuple())
            case Failed(reason=reason):
                reasons[path].append(reason)
            case ItemCount(items=count):
                counted[path] = count
            case Finished():
                finished[path] += 1

    silent = [path for path in classes if not items[path] and not reasons[path]]
    assert not silent
    assert all(reason.strip() for path in reasons for reason in reasons[path])
    assert all(finished[path] == 1 for path in classes if path in counted or items[path])
    for path, count in counted.items():
        assert items[path] + len(reasons[path]) == count, f"{path} lost an item"
    show(classes, items, reasons)
    crashed = [path for path in classes if any("crashed" in reason for reason in reasons[path])]
    late = [path for path in classes if any("time limit" in reason for reason in reasons[path])]
    assert (crashed, late) == ([], [])


def show(classes: dict[Path, str], items: Counter[Path], reasons: dict[Path, list[str]]) -> None:
    """Prints what came of each class."""
    table: dict[str, Counter[str]] = defaultdict(Counter)
    for path, kind in classes.items():
        outcome = ("partly" if reasons[path] else "items") if items[path] else "refused"
        table[kind][outcome] += 1
    print(f"\n{'class':16}{'inputs':>8}{'items':>8}{'partly':>8}{'refused':>8}")  # noqa: T201
    total: Counter[str] = Counter()
    for kind, outcomes in table.items():
        total += outcomes
        row = [outcomes.total(), outcomes["items"], outcomes["partly"], outcomes["refused"]]
        print(f"{kind:16}" + "".join(f"{count:8}" for count in row))  # noqa: T201
    row = [total.total(), total["items"], total["partly"], total["refused"]]
    print(f"{'all':16}" + "".join(f"{count:8}" for count in row))  # noqa: T201
