from __future__ import annotations

import http.server
import io
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from PIL import Image

from corpus.office_files import (
    archive,
    compound,
    encrypted_odt,
    odp,
    ods,
    odt,
    open_document,
    rtf,
    stand_in,
    zip_bomb,
)
from corpus.test_convert import alive, await_end
from vrag.corpus.convert import Converted, Failed, Finished, ItemCount, convert_all
from vrag.corpus.converter import ConversionContext, CorpusOptions
from vrag.corpus.discover import read_source
from vrag.corpus.formats import office
from vrag.corpus.formats.office import SUFFIXES, OfficeFile, find_soffice
from vrag.corpus.workers import sandbox
from vrag.corpus.workers.sandbox import SandboxOptions
from vrag.errors import (
    ConversionTimeout,
    CorpusError,
    EncryptedFileError,
    FileTooLargeError,
    UnsupportedFormatError,
)
from vrag.scratch import remove_abandoned
from vrag.types import TextSource

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vrag.corpus.converter import Conversion
    from vrag.types import Item

posix = pytest.mark.skipif(os.name != "posix", reason="the stand-in for LibreOffice is a script")
installed = pytest.mark.skipif(
    not (shutil.which("soffice") or shutil.which("libreoffice")), reason="LibreOffice is not installed"
)


def write(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


def items_of(path: Path, **options: float) -> list[Item]:
    context = ConversionContext(path.parent / "items", CorpusOptions(ocr="never", **options))  # type: ignore[arg-type]
    with OfficeFile(read_source(path), context) as file:
        return [file.item(ordinal) for ordinal in range(1, file.count + 1)]


def convert(paths: list[Path], seconds: float = 60, page_seconds: float = 60) -> list[Conversion]:
    options = CorpusOptions(ocr="never", workers=2, office_seconds=seconds, page_seconds=page_seconds)
    return list(convert_all(map(read_source, paths), paths[0].parent / "items", options))


def reasons(conversions: list[Conversion]) -> dict[str, str]:
    return {c.source.name: c.reason for c in conversions if isinstance(c, Failed)}


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that comes first on PATH, for stand-ins, which write anywhere; temporary files go beside."""
    monkeypatch.setattr(sandbox, "_options", SandboxOptions(mode="off"))
    for name in ("bin", "tmp"):
        (tmp_path / name).mkdir()
    monkeypatch.setenv("PATH", os.pathsep.join([str(tmp_path / "bin"), os.environ["PATH"]]))
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return tmp_path / "bin"


@pytest.fixture(scope="module")
def documents(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A document of three pages of each format, the old ones and Microsoft's saved by LibreOffice.

    Those that may have macros have none: they are the same files under another name.
    """
    folder = tmp_path_factory.mktemp("office")
    words = [f"The ferry departs from quay {n}" for n in ("one", "two", "three")]
    made = {"odt": odt(*words), "ods": ods(*words), "odp": odp(*words), "rtf": rtf(*words)}
    paths = {f".{suffix}": write(folder / f"a.{suffix}", data) for suffix, data in made.items()}
    for origin, suffixes in {
        ".odt": ("docx", "doc"),
        ".ods": ("xlsx", "xls"),
        ".odp": ("pptx", "ppt"),
    }.items():
        for suffix in suffixes:
            line = [find_soffice(), f"-env:UserInstallation={(folder / 'profile').as_uri()}", "--headless"]
            line += ["--convert-to", suffix, "--outdir", str(folder), str(paths[origin])]
            subprocess.run(line, check=True, capture_output=True)
            paths[f".{suffix}"] = folder / f"a.{suffix}"
    return paths | {f".{name}m": paths[f".{name}x"] for name in ("doc", "ppt", "xls")}


@pytest.mark.slow
@installed
@pytest.mark.parametrize("suffix", SUFFIXES)
def test_pages_have_text_with_boxes_and_a_picture(
    documents: dict[str, Path], tmp_path: Path, suffix: str
) -> None:
    path = tmp_path / f"A deck.{suffix[1:].upper()}"
    shutil.copy(documents[suffix], path)
    items = items_of(path)
    assert [item.ordinal for item in items] == [1, 2, 3]
    for item, number in zip(items, ("one", "two", "three"), strict=True):
        assert f"The ferry departs from quay {number}" in " ".join(item.text.split())
        assert item.text_source is TextSource.LAYER
        assert {item.text[w.start : w.end] for w in item.words} >= {"ferry", "quay", number}
        assert all(0 <= side <= 1 for word in item.words for side in word.box.as_tuple())
        assert item.document_name == path.name
        with Image.open(tmp_path / "items" / str(item.image)) as image:
            assert item.size
            assert image.size == (item.size.width, item.size.height)
    assert [entry.name for entry in tmp_path.iterdir() if entry != path] == ["items"]


@pytest.mark.slow
@installed
def test_the_same_bytes_give_the_same_items(documents: dict[str, Path], tmp_path: Path) -> None:
    path = tmp_path / "a.docx"
    shutil.copy(documents[".docx"], path)
    assert items_of(path) == items_of(path)


@pytest.mark.slow
@posix
def test_odd_file_names_do_not_reach_libreoffice(tmp_path: Path, program: Path) -> None:
    is_odd = "set(document.name) & set(chr(code) for code in (10, 34, 35, 37, 42, 47, 59, 63, 0xDCFF))"
    stand_in(program, f"save(0 if {is_odd} or not document.stat().st_size else 3)")
    for name in ("-a --b.docx", "100% größer #1.docx", "bad\udcff.docx", "日本.DOCX", 'a"b\nc;d?*.docx'):
        assert len(items_of(write(tmp_path / name, odt("words")))) == 3


@pytest.fixture
def server() -> Iterator[tuple[str, list[str]]]:
    """The address of a web server, and what it was asked for."""
    asked: list[str] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_error(404)

        do_OPTIONS = do_HEAD = do_PROPFIND = do_CONNECT = do_GET  # noqa: N815 - the library's names

        def log_message(self, format: str, *args: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as web:
        thread = threading.Thread(target=web.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{web.server_port}", asked
        web.shutdown()
        thread.join()


@pytest.mark.smoke
@pytest.mark.slow
@installed
def test_neither_network_nor_other_files_are_read(tmp_path: Path, server: tuple[str, list[str]]) -> None:
    address, asked = server
    Image.new("RGB", (99, 99), "red").save(tmp_path / "secret.png")
    (tmp_path / "secret.txt").write_text("TOPSECRET")
    folder = tmp_path.as_uri()
    frame = (
        '<draw:frame text:anchor-type="as-char" svg:width="5cm" svg:height="5cm">'
        '<draw:image xlink:href="{}" xlink:type="simple" xlink:actuate="onLoad"/></draw:frame>'
    )
    section = (
        '<text:section text:name="{0}"><text:section-source xlink:href="{0}" xlink:type="simple"/>'
        "<text:p>own words</text:p></text:section>"
    )
    pictures = frame.format(f"{address}/a.png") + frame.format(f"{folder}/secret.png")
    sections = section.format(f"{address}/b.html") + section.format(f"{folder}/secret.txt")
    path = write(tmp_path / "a.odt", open_document("text", f"<text:p>Words{pictures}</text:p>{sections}"))
    (item,) = items_of(path)
    assert asked == []
    assert "own words" in item.text
    assert "TOPSECRET" not in item.text
    with Image.open(tmp_path / "items" / str(item.image)) as image:
        red, green, _ = image.convert("RGB").resize((200, 200)).split()
        assert max(r - g for r, g in zip(red.tobytes(), green.tobytes(), strict=True)) < 60
    formula = f"of:=COM.MICROSOFT.WEBSERVICE(&quot;{address}/c&quot;)"
    cell = f'<table:table-cell table:formula="{formula}"/>'
    sheet = f'<table:table table:name="S"><table:table-row>{cell}</table:table-row></table:table>'
    items_of(write(tmp_path / "a.ods", open_document("spreadsheet", sheet)))
    assert asked == []


@pytest.mark.slow
@installed
@pytest.mark.parametrize("entity", ["file", "network", "many"])
def test_entities_of_xml_read_no_file_and_no_address_and_do_not_multiply(
    tmp_path: Path, server: tuple[str, list[str]], entity: str
) -> None:
    address, asked = server
    (tmp_path / "secret.txt").write_text("TOPSECRET")
    laughs = '<!ENTITY e0 "ha">' + "".join(f'<!ENTITY e{n} "{f"&e{n - 1};" * 10}">' for n in range(1, 11))
    declared = {
        "file": f'<!ENTITY e SYSTEM "{(tmp_path / "secret.txt").as_uri()}">',
        "network": f'<!ENTITY e SYSTEM "{address}/e.txt">',
        "many": f'{laughs}<!ENTITY e "&e10;">',
    }[entity]
    with zipfile.ZipFile(io.BytesIO(odt("Own words &amp; more"))) as whole:
        parts = {name: whole.read(name).decode() for name in whole.namelist()}
    content = parts["content.xml"].replace("&amp;", "&e;")
    content = content.replace(
        "<office:document-content", f"<!DOCTYPE d [{declared}]><office:document-content", 1
    )
    path = write(tmp_path / "a.odt", archive(parts | {"content.xml": content}))
    try:
        text = "".join(item.text for item in items_of(path))
    except CorpusError:
        text = ""
    assert asked == []
    assert "TOPSECRET" not in text
    assert len(text) < 10_000


def spoil_manifest(*, is_encrypted: bool) -> bytes:
    """A text whose manifest is marked as encrypted in the archive, or is packed wrongly."""
    data, name = bytearray(odt("words")), b"META-INF/manifest.xml"
    local, central = data.index(name), data.rindex(name)
    if is_encrypted:
        data[local - 24] |= 1
        data[central - 38] |= 1
    else:
        data[local + len(name)] = 0xFF
    return bytes(data)


@pytest.mark.slow
@installed
@pytest.mark.parametrize(
    ("name", "data", "kind", "reason"),
    [
        ("a.docx", compound("EncryptedPackage", "EncryptionInfo"), EncryptedFileError, "password"),
        ("a.doc", compound("Nothing"), CorpusError, "damaged"),
        ("a.docx", open_document("text", "<text:p>")[:-30], CorpusError, "damaged"),
    ],
)
def test_what_libreoffice_cannot_open_has_a_reason(
    tmp_path: Path, name: str, data: bytes, kind: type[CorpusError], reason: str
) -> None:
    with pytest.raises(kind, match=reason):
        items_of(write(tmp_path / name, data))


@posix
@pytest.mark.parametrize(
    ("name", "data", "kind", "reason"),
    [
        ("a.odt", encrypted_odt(), EncryptedFileError, "password"),
        ("a.docx", zip_bomb(2**32 - 2), FileTooLargeError, "unpacks to"),
        ("a.docx", zip_bomb(600 * 2**20), FileTooLargeError, "unpacks to"),
        ("a.docx", b"PK\x03\x04" + bytes(500), CorpusError, "damaged"),
        ("a.docx", odt("words")[:300], CorpusError, "damaged"),
        ("a.odt", spoil_manifest(is_encrypted=True), CorpusError, "damaged"),
        ("a.odt", spoil_manifest(is_encrypted=False), CorpusError, "damaged"),
        ("a.docx", b"only words", CorpusError, "it seems to be text"),
        ("a.pptx", b"%PDF-1.7 and so on", CorpusError, "it seems to be a PDF file"),
        ("a.doc", b"<html><body>exported</body></html>", CorpusError, "it seems to be text"),
        (
            "a.xlsx",
            zip_bomb(100, "a.txt").replace(b"[Content_Types]", b"[Holiday-Photo]"),
            CorpusError,
            "ZIP",
        ),
        ("a.odp", b"", CorpusError, "zeros"),
    ],
)
def test_bad_documents_are_refused_before_libreoffice_sees_them(
    tmp_path: Path, program: Path, name: str, data: bytes, kind: type[CorpusError], reason: str
) -> None:
    stand_in(program, f"Path({str(tmp_path / 'seen')!r}).touch()")
    with pytest.raises(kind, match=reason):
        items_of(write(tmp_path / name, data))
    assert not (tmp_path / "seen").exists()


def test_without_libreoffice_a_document_fails_and_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("vrag.corpus.formats.office.PLACES", (f"{tmp_path}/opt/libreoffice*/soffice",))
    with pytest.raises(UnsupportedFormatError, match=r"apt install libreoffice.*try the file again"):
        items_of(write(tmp_path / "a.odt", odt("words")))


def test_libreoffice_is_found_where_installers_put_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for version in ("7.4", "25.8"):
        (tmp_path / f"libreoffice{version}").mkdir()
        stand_in(tmp_path / f"libreoffice{version}", "")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("vrag.corpus.formats.office.PLACES", ("/nowhere", f"{tmp_path}/libreoffice*/soffice"))
    assert Path(find_soffice()).parent.parent == tmp_path


@pytest.mark.slow
@posix
def test_a_document_is_printed_once_for_all_workers_and_its_pdf_goes_in_the_end(
    tmp_path: Path, program: Path
) -> None:
    log = tmp_path / "log"
    stand_in(program, f"open({str(log)!r}, 'a').write(f'{{document.parents[2]}}\\n'); save(8)")
    paths = [write(tmp_path / f"{n}.odt", odt(f"words {n}")) for n in range(3)]
    conversions = convert(paths)
    assert sum(isinstance(c, Converted) for c in conversions) == 24
    assert sum(isinstance(c, Finished) for c in conversions) == 3
    folders = log.read_text().split()
    assert len(folders) == 3
    assert len(set(folders)) == 1
    assert not list((tmp_path / "tmp").iterdir())


@pytest.mark.slow
@posix
def test_printing_has_a_time_limit_of_its_own(tmp_path: Path, program: Path) -> None:
    stand_in(program, "while time.process_time() < 2.5: pass\nsave(2)")
    path = write(tmp_path / "a.odt", odt("words"))
    slow = convert([path], seconds=20, page_seconds=2)
    assert sum(isinstance(c, Converted) for c in slow) == 2
    (reason,) = reasons(convert([path], seconds=1)).values()
    assert reason == "LibreOffice took longer than the time limit (1 seconds)."
    assert not list((tmp_path / "tmp").iterdir())


FAMILY = """
os.fork()
with open({pids!r}, "a") as file:
    print(os.getpid(), file=file)
time.sleep(100)
"""


@pytest.mark.slow
@posix
@pytest.mark.skipif(not Path("/proc").is_dir(), reason="looks at processes through /proc")
def test_all_processes_of_libreoffice_end_at_the_time_limit(tmp_path: Path, program: Path) -> None:
    pids = tmp_path / "pids"
    stand_in(program, FAMILY.format(pids=str(pids)))
    with pytest.raises(ConversionTimeout):
        items_of(write(tmp_path / "a.odt", odt("words")), office_seconds=0.2)
    family = {int(pid) for pid in pids.read_text().split()}
    assert len(family) == 2
    assert not await_end(family)
    assert not list((tmp_path / "tmp").iterdir())


RUN = """
import sys
from pathlib import Path
from vrag.corpus.convert import convert_all
from vrag.corpus.discover import read_source
from vrag.corpus.converter import CorpusOptions
from vrag.scratch import remove_abandoned
from vrag.corpus.workers.sandbox import SandboxOptions, configure_sandbox

configure_sandbox(SandboxOptions(mode="off"))
source = read_source(Path(sys.argv[1]))
list(convert_all([source], source.path.parent / "items", CorpusOptions(workers=1)))
"""


@pytest.mark.slow
@posix
@pytest.mark.skipif(not Path("/proc").is_dir(), reason="looks at processes through /proc")
@pytest.mark.parametrize("who", ["parent", "worker"])
def test_libreoffice_and_its_files_go_with_the_process_that_wanted_them(
    tmp_path: Path, program: Path, who: str
) -> None:
    pids, worker = tmp_path / "pids", tmp_path / "worker"
    stand_in(program, FAMILY.format(pids=str(pids)))
    path = write(tmp_path / "a.odt", odt("words"))
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    with subprocess.Popen([sys.executable, "-c", RUN, path], env=environment) as parent:
        limit = time.monotonic() + 120
        while time.monotonic() < limit and (not pids.exists() or len(pids.read_text().split()) < 2):
            time.sleep(0.02)
        family = {int(pid) for pid in pids.read_text().split()}
        assert all(map(alive, family))
        assert list((tmp_path / "tmp").iterdir())
        worker = _children(parent.pid).pop()
        os.kill(parent.pid if who == "parent" else worker, signal.SIGKILL)
        assert not await_end(family | {worker})
        parent.wait(10)
    # Of a parent that was killed an empty folder with its marker stays, which the next program removes.
    limit = time.monotonic() + 60
    while left_files(tmp_path / "tmp") and time.monotonic() < limit:
        time.sleep(0.02)
    assert not left_files(tmp_path / "tmp")


OPEN = """
import sys
from pathlib import Path
from vrag.corpus.converter import ConversionContext, CorpusOptions
from vrag.corpus.discover import read_source
from vrag.corpus.formats.office import OfficeFile
from vrag.corpus.workers.sandbox import SandboxOptions, configure_sandbox

configure_sandbox(SandboxOptions(mode="off"))
source = read_source(Path(sys.argv[1]))
file = OfficeFile(source, ConversionContext(source.path.parent / "items", CorpusOptions(ocr="never")))
print("open", flush=True)
sys.stdin.read()
"""


@pytest.mark.slow
@posix
def test_what_a_killed_process_has_printed_by_itself_is_removed_at_the_next_start(
    tmp_path: Path, program: Path
) -> None:
    stand_in(program, "save(1)")
    path = write(tmp_path / "a.odt", odt("words"))
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    with subprocess.Popen(
        [sys.executable, "-c", OPEN, path], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline()
        remove_abandoned()
        assert list((tmp_path / "tmp").glob("*/document.pdf")), "a live process keeps its own"
        process.kill()
    remove_abandoned()
    assert not list((tmp_path / "tmp").iterdir())


def left_files(folder: Path) -> list[Path]:
    """Files and folders below the children of `folder`, which another process may be removing."""
    walk = (entry for child in folder.iterdir() for entry in os.walk(child))
    found = [Path(root, name) for root, folders, files in walk for name in (*folders, *files)]
    return [path for path in found if not path.name.startswith(".vrag-scratch")]


def _children(pid: int) -> set[int]:
    return {int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()}


@pytest.mark.slow
@posix
def test_a_crash_of_libreoffice_costs_its_document(tmp_path: Path, program: Path) -> None:
    stand_in(program, "os.abort()")
    bad = write(tmp_path / "a.odt", odt("words"))
    good = write(tmp_path / "b.txt", b"Words of a text.")
    conversions = convert([bad, good])
    assert "crashed LibreOffice" in reasons(conversions)["a.odt"]
    assert sum(isinstance(c, ItemCount) for c in conversions) == 1


@pytest.mark.slow
@installed
def test_restricted_workers_and_a_restricted_libreoffice_read_a_document(tmp_path: Path) -> None:
    conversions = convert([write(tmp_path / "a.odt", odt("The ferry", "departs"))])
    assert not reasons(conversions)
    texts = {each.item.ordinal: each.item.text for each in conversions if isinstance(each, Converted)}
    assert texts == {1: "The ferry", 2: "departs"}


@pytest.mark.slow
@installed
def test_a_document_is_read_from_a_folder_that_other_users_may_not_enter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """LibreOffice of root runs as another user."""
    path = write(tmp_path / "a.odt", odt("The ferry"))
    (tmp_path / "closed").mkdir(mode=0o700)
    monkeypatch.chdir(tmp_path / "closed")
    assert not reasons(convert([path]))


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux restricts processes")
def test_libreoffice_reads_and_writes_its_own_folder_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program in its place, which is in a folder that it may start programs from."""
    program = "/bin/sh"
    (tmp_path / "secret").write_text("secret")
    work_dir = tmp_path / "work"
    work_dir.mkdir()
    attempts = (
        f"cat {tmp_path}/secret > secret",
        f"echo > {tmp_path}/new",
        "cat /etc/passwd > passwd",
        f"cat /proc/{os.getpid()}/environ > environ",
        f"ln -s {tmp_path}/secret link",
        f"kill -0 {os.getpid()}",
    )
    script = "; ".join(f"({attempt}) && echo {number} >> done" for number, attempt in enumerate(attempts))
    policy = office.office_policy(program, work_dir)
    office.give_to(policy, tmp_path, work_dir)
    command = sandbox.exec_command(policy, [program, "-c", f"cd {work_dir}; {script}; echo end >> done"])
    subprocess.run(command, check=False, capture_output=True)
    assert (work_dir / "done").read_text().split() == ["end"]
    network = "import socket; socket.socket()"
    done = subprocess.run(
        sandbox.exec_command(replace(policy, executable=("/",)), [sys.executable, "-ISc", network]),
        check=False,
        capture_output=True,
    )
    assert b"PermissionError" in done.stderr


@pytest.mark.slow
@posix
def test_libreoffice_sees_nothing_of_the_users_settings(
    tmp_path: Path, program: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VRAG_API_KEY", "secret")
    told = tmp_path / "told"
    stand_in(program, f"Path({str(told)!r}).write_text(repr(dict(os.environ)) + repr(sys.argv)); save(1)")
    items_of(write(tmp_path / "a.odt", odt("words")))
    assert "VRAG_API_KEY" not in told.read_text()
    assert str(Path.home()) not in told.read_text().replace(str(tmp_path), "")
    assert "UserInstallation" in told.read_text()
