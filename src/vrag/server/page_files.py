"""The files of the web page, joined and compressed when the server starts, and their routes.

A browser loads the shell, a style sheet, a script that runs before the first paint, and one with the modules
of the first page; others follow when they are needed. Their addresses hold a hash of all of them,
`static/HASH/app.js`, and are relative to the shell, so that the page works below any path. So a browser may
keep them for ever, and never mixes files of two versions: the shell, which it asks for each time, names those
of the server that answers. A shell of a former version asks for files that are gone, and says that the page
is to be loaded again.
"""

from __future__ import annotations

import gzip
import hashlib
import re
import sysconfig
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path, PurePosixPath

from fastapi import APIRouter, Request
from starlette.responses import Response

from vrag.server.http.compression import accepts_gzip
from vrag.server.http.errors import Refusal
from vrag.server.page_modules import PageModuleError, join_modules, join_scripts, join_styles

STATIC = Path(__file__).parent / "static"
SHELL_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; font-src 'self'; img-src 'self' data: blob:; "
    "media-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'"
)
"""The page may load its own files, use its own server, and nothing else."""
_ASK_EACH_TIME = "no-cache"
_KEEP_NEVER = "no-store"
_KEEP_A_DAY = "public, max-age=86400"
_KEEP = "public, max-age=31536000, immutable"
_STYLES = re.compile(r'(?: *<link rel="stylesheet" href="static/css/[\w-]+\.css">\n)+')
_SCRIPTS = re.compile(r'(?: *<script src="static/js/[\w-]+\.js"></script>\n)+')
_ENTRY = re.compile(r' *<script type="module" src="static/js/[\w-]+\.js"></script>\n')
_VENDORED = {".css": "text/css", ".js": "text/javascript", ".woff2": "font/woff2"}
"""Media types of the files of others, which are sent as they are; other files in their folders are not."""
_VERSION = "{version}"
_NEEDED = ' data-token="needed"'
_PATH = re.compile(r'"static/([^"]+)"')

Stamp = tuple[tuple[str, int, int], ...]
"""Path, time of the last change and length of each source file."""


@dataclass(frozen=True, slots=True)
class PageFile:
    """A file as browsers get it."""

    content: bytes
    media_type: str
    cache_control: str
    policy: str = SHELL_POLICY
    """The content security policy."""
    packed: bytes = field(init=False)
    """The content compressed by gzip; of a font as it is."""
    etag: str = field(init=False)
    """Weak, since it names both forms."""

    def __post_init__(self) -> None:
        is_font = self.media_type.startswith("font/")  # compressed already
        packed = self.content if is_font else gzip.compress(self.content, 9, mtime=0)
        object.__setattr__(self, "packed", packed)
        object.__setattr__(self, "etag", f'W/"{_digest(self.content)}"')

    def response(self, request: Request) -> Response:
        """Answer a GET or HEAD: with what the browser has already (304), or all of it."""
        headers = {
            "ETag": self.etag,
            "Cache-Control": self.cache_control,
            "Vary": "Accept-Encoding",
            "Content-Security-Policy": self.policy,
        }
        known = ",".join(request.headers.getlist("if-none-match"))
        if known.strip() == "*" or self.etag in {tag.strip() for tag in known.split(",")}:
            return Response(status_code=304, headers=headers)
        encodings = ",".join(request.headers.getlist("accept-encoding"))
        packs = self.packed is not self.content and accepts_gzip(encodings)
        content = self.packed if packs else self.content
        headers |= {"Content-Length": str(len(content))} | ({"Content-Encoding": "gzip"} if packs else {})
        return Response(b"" if request.method == "HEAD" else content, 200, headers, self.media_type)


@dataclass(frozen=True, slots=True)
class PageBuild:
    """All files of one version of the page."""

    shell: PageFile
    files: dict[str, PageFile]
    """By their path below `/static/`."""


class PageFiles:
    """The files of the page. Those of an installed package never change; those of a checkout are watched."""

    def __init__(
        self, folder: Path = STATIC, *, with_token: bool = True, watched: bool | None = None
    ) -> None:
        self._folder = folder
        self._with_token = with_token
        installed = folder.is_relative_to(sysconfig.get_path("purelib"))
        self._watched = not installed if watched is None else watched
        self._build = build_page(folder, _stamp(folder), with_token)

    def shell(self) -> PageFile:
        """Return the shell. In a checkout, the whole page is built again if a file changed."""
        if self._watched:
            self._build = build_page(self._folder, _stamp(self._folder), self._with_token)
        return self._build.shell

    def file(self, path: str) -> PageFile:
        """Return the file with this path below `/static/`. Raises `Refusal` if the page has none (404).

        A shell of another version gets the style sheet and the first script of this one, for once, so that it
        can say that its modules are gone.
        """
        files = self._build.files
        if file := files.get(path) or files.get(path.partition("/")[2]):
            return file
        hint = "It may belong to another version of the server. Load the page again."
        raise Refusal(404, "The page has no such file.", hint)


@lru_cache(2)
def build_page(folder: Path, stamp: Stamp, with_token: bool) -> PageBuild:  # noqa: ARG001 - see below
    """Join the files of the page; `stamp` tells builds apart. The shell says whether a token is needed.

    Raises `PageModuleError` if the files do not fit together.
    """
    shell = (folder / "index.html").read_text("utf-8")
    if not with_token:
        shell = shell.replace(_NEEDED, "")
    shell, scripts = _name_joined(shell, _SCRIPTS, "start.js")
    shell, styles = _name_joined(shell, _STYLES, "page.css")
    shell, modules = _name_joined(shell, _ENTRY, "app.js")
    texts = {
        "start.js": join_scripts([(folder / path).read_text("utf-8") for path in scripts]),
        "page.css": join_styles([(folder / path).read_text("utf-8") for path in styles]),
        **join_modules(folder / "js", modules[0].removeprefix("js/")),
    }
    vendored = {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted((folder / "vendor").rglob("*"))
        if path.suffix in _VENDORED
    }
    version = _digest(b"\0".join([*(text.encode() for text in (shell, *texts.values())), *vendored.values()]))
    files = {"icon.svg": PageFile((folder / "icon.svg").read_bytes(), "image/svg+xml", _KEEP_A_DAY)}
    for name, text in texts.items():
        media_type = "text/css" if name.endswith("css") else "text/javascript"
        files[f"{version}/{name}"] = PageFile(text.encode(), media_type, _KEEP)
        if name in {"start.js", "page.css"}:
            files[name] = PageFile(text.encode(), media_type, _KEEP_NEVER)
    for name, content in vendored.items():
        files[f"{version}/{name}"] = PageFile(content, _VENDORED[PurePosixPath(name).suffix], _KEEP)
    shell = shell.replace(_VERSION, version)
    return PageBuild(PageFile(shell.encode(), "text/html", _ASK_EACH_TIME), files)


def _name_joined(shell: str, pattern: re.Pattern[str], name: str) -> tuple[str, list[str]]:
    """Name a joined file in the shell in place of the files that it names in a row; return these, too."""
    found = list(pattern.finditer(shell))
    if len(found) != 1:
        raise PageModuleError(f"index.html must name the files that become {name} in one place.")
    first = found[0][0].splitlines(keepends=True)[0]
    named = _PATH.sub(f'"static/{_VERSION}/{name}"', first)
    return shell.replace(found[0][0], named), _PATH.findall(found[0][0])


def page_routes(page: PageFiles) -> APIRouter:
    """Build the routes of the shell at `/`, of the icon and of the other files."""
    router = APIRouter(include_in_schema=False)

    @router.api_route("/", methods=["GET", "HEAD"])
    async def shell(request: Request) -> Response:
        return page.shell().response(request)

    @router.api_route("/favicon.ico", methods=["GET", "HEAD"])
    async def icon(request: Request) -> Response:
        return page.file("icon.svg").response(request)

    @router.api_route("/static/{path:path}", methods=["GET", "HEAD"])
    async def file(path: str, request: Request) -> Response:
        return page.file(path).response(request)

    return router


def _stamp(folder: Path) -> Stamp:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    states = ((str(path), path.stat()) for path in files)
    return tuple((path, state.st_mtime_ns, state.st_size) for path, state in states)


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]
