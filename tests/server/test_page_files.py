"""The files of the page over HTTP: their names, how long they are kept, and how they are compressed."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from fastapi import FastAPI
from server_harness import ask

from vrag.server.app import add_routes
from vrag.server.http import errors
from vrag.server.http.compression import JsonCompression, accepts_gzip
from vrag.server.page_files import SHELL_POLICY, STATIC, PageFiles, page_routes
from vrag.server.page_modules import PageModuleError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from starlette.types import ASGIApp, Receive, Scope, Send


MAX_FIRST_LOAD = 70_000
"""Bytes, compressed, after which a question can be asked."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A copy of the files of the page that a test may change."""
    return shutil.copytree(STATIC, tmp_path / "static")


def app(page: PageFiles) -> FastAPI:
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    errors.register(app)
    add_routes(app, page_routes(page))
    return app


def get(page: PageFiles, path: str = "/", method: str = "GET", **headers: str) -> httpx.Response:
    return ask(app(page), method, path, headers={"accept-encoding": "identity"} | headers)


def named(page: PageFiles) -> list[str]:
    """What the shell loads by itself."""
    return [f"/{path}" for path in re.findall(r'(?:href|src)="(static/[^"]+)"', get(page).text)]


def test_the_shell_names_one_file_of_each_kind_and_no_others() -> None:
    names = [re.sub(r"\w{16}", "HASH", path) for path in named(PageFiles())]
    files = ["icon.svg", "HASH/start.js", "HASH/page.css", "HASH/app.js"]
    assert sorted(names) == sorted(f"/static/{file}" for file in files)


def test_the_first_load_is_small_and_has_no_parts_of_others() -> None:
    page = PageFiles()
    paths = ["/", *named(page)]
    sizes = [int(get(page, path, **{"accept-encoding": "gzip"}).headers["content-length"]) for path in paths]
    assert sum(sizes) < MAX_FIRST_LOAD
    assert not [path for path in paths if "vendor" in path]


def test_the_part_of_others_is_the_one_that_the_notice_names() -> None:
    notice = (Path(__file__).parents[2] / "NOTICE").read_text("utf-8")
    (version,) = re.findall(r"KaTeX ([\d.]+\d)", notice)
    assert f'"{version}"' in (STATIC / "vendor" / "katex" / "katex.min.js").read_text("utf-8")
    assert [path.name for path in (STATIC / "vendor").iterdir()] == ["katex"]
    assert "MIT License" in (STATIC / "vendor" / "katex" / "LICENSE.txt").read_text("utf-8")


def test_a_part_of_others_is_sent_as_it_is_and_a_font_is_not_compressed_again() -> None:
    page = PageFiles()
    folder = next(path for path in named(page) if path.endswith("app.js")).removesuffix("app.js")
    for name in ("katex.min.js", "katex.min.css", "fonts/KaTeX_Main-Regular.woff2"):
        answer = get(page, f"{folder}vendor/katex/{name}", **{"accept-encoding": "gzip"})
        assert answer.content == (STATIC / "vendor" / "katex" / name).read_bytes()
        assert ("content-encoding" in answer.headers) == (not name.endswith("woff2"))
        assert "immutable" in answer.headers["cache-control"]
    assert answer.headers["content-type"] == "font/woff2"
    assert get(page, f"{folder}vendor/katex/LICENSE.txt").status_code == 404


def test_the_shell_says_whether_a_token_is_needed() -> None:
    assert "data-token" in get(PageFiles()).text
    assert "data-token" not in get(PageFiles(with_token=False)).text
    assert named(PageFiles()) != named(PageFiles(with_token=False))


def test_each_file_arrives_with_its_type_and_the_policy_of_the_page() -> None:
    page = PageFiles()
    types = {"svg": "image/svg+xml", "css": "text/css; charset=utf-8", "js": "text/javascript; charset=utf-8"}
    for path in named(page):
        response = get(page, path)
        assert response.status_code == 200
        assert response.headers["content-type"] == types[path.rpartition(".")[2]]
        assert response.headers["content-security-policy"] == SHELL_POLICY
        assert int(response.headers["content-length"]) == len(response.content)


def test_the_page_is_light() -> None:
    page = PageFiles()
    responses = [get(page, path, **{"accept-encoding": "gzip"}) for path in ["/", *named(page)]]
    assert sum(int(response.headers["content-length"]) for response in responses) < 120_000


def test_files_are_kept_for_ever_and_the_shell_is_asked_for_each_time() -> None:
    page = PageFiles()
    assert get(page).headers["cache-control"] == "no-cache"
    for path in named(page):
        kept = get(page, path).headers["cache-control"]
        assert kept == (
            "public, max-age=86400" if path.endswith(".svg") else "public, max-age=31536000, immutable"
        )


@pytest.mark.parametrize("form", ["{}", 'W/"other", {}', "*", '"a",{} , "b"'])
@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_what_a_browser_has_is_not_sent_again(form: str, method: str) -> None:
    page = PageFiles()
    for path in ("/", *named(page)):
        etag = get(page, path).headers["etag"]
        response = get(page, path, method, **{"if-none-match": form.format(etag)})
        assert (response.status_code, response.content) == (304, b"")
        assert response.headers["etag"] == etag
        assert "cache-control" in response.headers


@pytest.mark.parametrize("other", ['W/"0123456789abcdef"', "", '"', "W/", "\xff" * 50, "," * 5000])
def test_what_it_does_not_have_is_sent(other: str) -> None:
    headers = [(b"if-none-match", other.encode("latin-1")), (b"host", b"127.0.0.1")]
    response = ask(app(PageFiles()), "GET", "/", headers=headers)
    assert response.status_code == 200
    assert "<!doctype html>" in response.text


def test_a_range_is_answered_with_the_whole_file() -> None:
    page = PageFiles()
    response = get(page, named(page)[-1], range="bytes=0-9")
    assert response.status_code == 200
    assert len(response.content) > 10


def test_head_has_the_same_headers_and_no_content() -> None:
    page = PageFiles()
    for path in ("/", "/favicon.ico", *named(page)):
        for accepted in ("gzip", "identity"):
            whole = get(page, path, **{"accept-encoding": accepted})
            head = get(page, path, "HEAD", **{"accept-encoding": accepted})
            assert head.headers == whole.headers
            assert head.content == b""


@pytest.mark.parametrize(
    ("accepted", "packed"),
    [
        ("gzip", True),
        ("GZIP", True),
        ("gzip, deflate, br, zstd", True),
        ("br;q=1.0, gzip;q=0.8, *;q=0.1", True),
        ("gzip ; q=0.001", True),
        ("*", True),
        ("identity", False),
        ("", False),
        ("gzip;q=0", False),
        ("gzip;q=0.000", False),
        ("*;q=0", False),
        ("*;q=1, gzip;q=0", False),
        ("gzipx, xgzip", False),
        ("gzip;q=nan", False),
        ("gzip;q=-1", False),
        ("gzip;q=1e9", False),
        ("gzip;level=9", False),
        ("\xff\xfe", False),
        (f"{'a,' * 2000}gzip", False),
        (",;,;q=,gzip;;q==1,", False),
    ],
)
def test_files_are_compressed_for_those_who_accept_it(accepted: str, *, packed: bool) -> None:
    assert accepts_gzip(accepted) is packed
    headers = [(b"accept-encoding", accepted.encode("latin-1")), (b"host", b"127.0.0.1")]
    response = ask(app(PageFiles()), "GET", "/", headers=headers)
    assert response.headers.get("content-encoding") == ("gzip" if packed else None)
    assert response.headers["vary"] == "Accept-Encoding"
    assert response.text.startswith("<!doctype html>")  # unpacked by the client


def test_both_forms_have_the_same_content() -> None:
    page = PageFiles()
    for path in named(page):
        assert get(page, path, **{"accept-encoding": "gzip"}).content == get(page, path).content


@pytest.mark.parametrize(
    "path",
    [
        "/static/js/app.js",
        "/static/index.html",
        "/static/",
        "/static/0123456789abcdef/app.js",
        "/static/%2e%2e/app.py",
        "/static/..%2fapp.py",
        "/static//etc/passwd",
        "/static/%00",
        "/static/" + "a/" * 500,
    ],
)
def test_nothing_else_is_there(path: str) -> None:
    response = get(PageFiles(), path)
    assert response.status_code == 404
    assert "Load the page again" in response.json()["hint"]


def test_a_shell_of_another_version_can_say_so() -> None:
    page = PageFiles()
    for name in ("start.js", "page.css"):
        current = next(path for path in named(page) if path.endswith(name))
        former = get(page, f"/static/0123456789abcdef/{name}")
        assert (former.status_code, former.headers["cache-control"]) == (200, "no-store")
        assert former.content == get(page, current).content


class TestChanges:
    def test_of_a_checkout_are_seen_without_a_restart(self, folder: Path) -> None:
        page = PageFiles(folder, watched=True)
        before = named(page)
        (folder / "js" / "router.js").write_text(
            (folder / "js" / "router.js").read_text("utf-8") + "const added = 1;\n", "utf-8"
        )
        after = named(page)
        assert [a.rpartition("/")[2] for a in before] == [a.rpartition("/")[2] for a in after]
        assert sum(a != b for a, b in zip(before, after, strict=True)) == 3
        assert "const added = 1;" in get(page, after[-1]).text
        assert get(page, before[-1]).status_code == 404

    def test_of_an_installed_package_are_not(self, folder: Path) -> None:
        """Else the page of a new version would meet the routes of the old one, which still run."""
        page = PageFiles(folder, watched=False)
        before = named(page)
        shutil.rmtree(folder)
        assert named(page) == before
        assert all(get(page, path).status_code == 200 for path in before)

    def test_that_do_not_fit_are_told_and_can_be_mended(self, folder: Path) -> None:
        page = PageFiles(folder, watched=True)
        router = folder / "js" / "router.js"
        good = router.read_text("utf-8")
        router.write_text(good.replace("export const runHash", "const runHash"), "utf-8")
        assert get(page).status_code == 503
        router.write_text(good, "utf-8")
        assert get(page).status_code == 200

    @pytest.mark.parametrize("missing", ["start.js", "page.css", "app.js"])
    def test_to_a_shell_without_its_files_are_told(self, folder: Path, missing: str) -> None:
        suffix = {"start.js": r"<script src", "page.css": "<link rel=.stylesheet", "app.js": "<script type"}
        shell = folder / "index.html"
        lines = shell.read_text("utf-8").splitlines(keepends=True)
        kept = [line for line in lines if not re.search(suffix[missing], line)]
        shell.write_text("".join(kept), "utf-8")
        with pytest.raises(PageModuleError, match=missing):
            PageFiles(folder)


class TestJson:
    """What `JsonCompression` does with the responses of an application."""

    LONG = b'{"documents": [' + b",".join([b'{"name": "annual-report.pdf"}'] * 200) + b"]}"

    @staticmethod
    def answer(
        content: Sequence[bytes] = (LONG,),
        status: int = 200,
        media_type: str = "application/json",
        method: str = "GET",
        accepted: str = "gzip",
        **more: str,
    ) -> httpx.Response:
        sent = {"content-type": media_type, "content-length": str(sum(map(len, content)))} | more

        async def inner(scope: Scope, receive: Receive, send: Send) -> None:
            headers = [(name.encode(), value.encode()) for name, value in sent.items()]
            await send({"type": "http.response.start", "status": status, "headers": headers})
            for index, part in enumerate(content):
                more_body = index + 1 < len(content)
                await send({"type": "http.response.body", "body": part, "more_body": more_body})

        compressed: ASGIApp = JsonCompression(inner)
        app = FastAPI(openapi_url=None)
        app.mount("/", compressed)
        headers = {"accept-encoding": accepted}
        return ask(app, method, "/", headers=headers)

    def test_is_compressed(self) -> None:
        response = self.answer()
        assert response.headers["content-encoding"] == "gzip"
        assert int(response.headers["content-length"]) < len(self.LONG) / 10
        assert response.content == self.LONG
        assert response.headers["vary"] == "Accept-Encoding"

    def test_of_megabytes_is_compressed(self) -> None:
        long = self.LONG * 200
        response = self.answer([long])
        assert (response.headers["content-encoding"], response.content) == ("gzip", long)

    def test_that_is_not_accepted_compressed_says_that_it_could_be(self) -> None:
        response = self.answer(accepted="gzip;q=0")
        assert "content-encoding" not in response.headers
        assert response.headers["vary"] == "Accept-Encoding"
        assert response.content == self.LONG

    @pytest.mark.parametrize(
        "case",
        [
            pytest.param({"content": (b'{"runs": []}',)}, id="short"),
            pytest.param({"method": "POST"}, id="answers POST"),
            pytest.param({"method": "HEAD", "content": (b"",)}, id="answers HEAD"),
            pytest.param({"status": 404}, id="an error"),
            pytest.param({"status": 206}, id="a range"),
            pytest.param({"media_type": "text/event-stream"}, id="events"),
            pytest.param({"media_type": "image/jpeg"}, id="a picture"),
            pytest.param({"media_type": "application/ld+json"}, id="a file"),
            pytest.param({"content-encoding": "br"}, id="compressed already"),
            pytest.param({"content": (LONG, LONG)}, id="in pieces"),
        ],
    )
    def test_is_else_left_as_it_is(self, case: dict[str, Any]) -> None:
        response = self.answer(**case)
        assert response.headers.get("content-encoding") != "gzip"
        content = case.get("content", (self.LONG,))
        assert response.content == b"".join(content)
