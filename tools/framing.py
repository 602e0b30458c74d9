"""Compares how this server and nginx frame requests: which they answer, and which reach an application.

`tests/server/framing_cases.toml` has raw requests, most of them malformed. Each is sent on a connection of
its own, followed by a plain request for `/next` on the same connection. Recorded are the statuses of the
responses and the requests that reached the application, by method, target and length of the body.

    python -m tools.framing record     # ask nginx in front of a small application; write framing_nginx.json
    python -m tools.framing compare    # ask this server; print a table by class, and the differences
    python -m tools.framing through    # nginx in front of this server, as deploy/nginx.conf has it
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import tomllib
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fastapi import FastAPI

from vrag.server.http.audit import AuditMiddleware, AuditTrail
from vrag.server.http.auth import AuthMiddleware, BrowserSessions
from vrag.server.http.errors import Refusal
from vrag.server.http.uvicorn_server import listen, make_server
from vrag.server.metrics import ServerMetrics
from vrag.server.options import ServerOptions

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from starlette.types import ASGIApp, Receive, Scope, Send

ROOT = Path(__file__).parent.parent
CASES = ROOT / "tests" / "server" / "framing_cases.toml"
ANSWERS = ROOT / "tests" / "server" / "framing_nginx.json"
NEXT = b"GET /next HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
"""The request that follows each case."""
MAX_BODY_BYTES = 1024 * 1024
_AT_ONE_TIME = 400
_REFUSALS = frozenset({"400", "405", "414", "431", "501", "505"})
"""Statuses of this server for requests that do not reach the application."""
_REPEAT = re.compile(r"<<(\d+)\*(.+?)>>", re.DOTALL)
_STATUS = re.compile(rb"HTTP/1\.[01] (\d{3}) ")


@dataclass(frozen=True)
class FramingCase:
    """One connection's requests."""

    id: str
    group: str
    idea: str
    """The rule or the known attack that it stands for."""
    request: bytes
    difference: str
    """The reason why this server refuses what nginx accepts, or answers otherwise; empty if it does not."""


@dataclass
class FramingAnswer:
    """What a server did with a case."""

    statuses: list[int] = field(default_factory=list[int])
    """Of its responses in order; 0 for a response without a head (HTTP/0.9)."""
    requests: list[str] = field(default_factory=list[str])
    """Whole requests that reached the application: method, target, length of the body."""
    began: int = 0
    """Requests whose head reached the application."""

    @property
    def verdicts(self) -> list[bool]:
        """Whether each response is one of success."""
        return [status < 400 for status in self.statuses]


def load_cases(path: Path = CASES) -> list[FramingCase]:
    """Return the cases of a file. `<<N*TEXT>>` in a request stands for N times the text."""
    rows = tomllib.loads(path.read_text(encoding="utf-8"))["case"]
    return [
        FramingCase(
            row["id"],
            row["group"],
            row["idea"],
            _REPEAT.sub(lambda match: int(match[1]) * match[2], row["request"]).encode("latin-1"),
            row.get("difference", ""),
        )
        for row in rows
    ]


def load_answers(path: Path = ANSWERS) -> dict[str, FramingAnswer]:
    """Return the recorded answers of nginx by the ids of their cases."""
    return {id: FramingAnswer(**row) for id, row in json.loads(path.read_text())["answers"].items()}


def compare_answers(own: FramingAnswer, nginx: FramingAnswer) -> str:
    """Return `same`, `stricter`, `other` for another response to the same requests, or `laxer`.

    Stricter is a server that lets fewer of the same requests reach the application, and answers no more.
    """
    if own.requests == nginx.requests:
        return "same" if own.verdicts == nginx.verdicts else "other"
    is_prefix = own.requests == nginx.requests[: len(own.requests)]
    accepted = sum(own.verdicts) <= sum(nginx.verdicts)
    return "stricter" if is_prefix and accepted else "laxer"


class Recorder:
    """An application that answers every request and remembers it by the port of its client."""

    def __init__(self) -> None:
        self.answers: dict[int, FramingAnswer] = {}

    def answer_of(self, port: int) -> FramingAnswer:
        """Return what is known of the connection from a port."""
        return self.answers.setdefault(port, FramingAnswer())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Read the whole request, then answer."""
        ports = [int(value) for name, value in scope["headers"] if name == b"x-client-port"]
        answer = self.answer_of(ports[0] if ports else scope["client"][1])
        answer.began += 1
        length, more = 0, True
        while more:
            try:
                message = await receive()
            except Refusal as refusal:
                await refusal.response()(scope, receive, send)
                return
            if message["type"] == "http.disconnect":
                return
            length += len(message.get("body", b""))
            more = message.get("more_body", False)
        query = b"?" + scope["query_string"] if scope["query_string"] else b""
        answer.requests.append(f"{scope['method']} {(scope['raw_path'] + query).decode('latin-1')} {length}")
        headers = [(b"content-length", b"2"), (b"content-type", b"text/plain")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b"ok"})


class _Recording:
    """Middleware that has a `Recorder` answer in place of the routes."""

    def __init__(self, app: ASGIApp, recorder: Recorder) -> None:
        self._app = app
        self._recorder = recorder

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request, or the begin and end of the server."""
        answer = self._recorder if scope["type"] == "http" else self._app
        await answer(scope, receive, send)


async def read_plain(recorder: Recorder, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer one request as nginx forwards it: with a length, and nothing doubtful."""
    with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        line, *fields = head.split("\r\n")
        named = {name.lower(): value.strip() for name, _, value in (each.partition(":") for each in fields)}
        answer = recorder.answer_of(int(named["x-client-port"]))
        answer.began += 1
        body = await reader.readexactly(int(named.get("content-length", 0)))
        method, target, _ = line.split(" ")
        answer.requests.append(f"{method} {target} {len(body)}")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok")
        await writer.drain()
    writer.close()


@contextlib.contextmanager
def serving_recorder() -> Generator[tuple[int, Recorder]]:
    """Run this server over a `Recorder`; yields its port."""
    options = ServerOptions(
        body_bytes=MAX_BODY_BYTES,
        body_seconds=5.0,
        head_seconds=5.0,
        drain_seconds=1,
        limit_local=False,
        proxies=frozenset({"127.0.0.1"}),
    )
    recorder, metrics = Recorder(), ServerMetrics()
    app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None)
    app.add_middleware(_Recording, recorder=recorder)
    app.add_middleware(AuthMiddleware, options=options, metrics=metrics, sessions=BrowserSessions(options))
    app.add_middleware(AuditMiddleware, options=options, trail=AuditTrail(None))
    app.state.metrics = metrics
    ready = threading.Event()
    server = make_server(app, options, ready.set)
    with listen("127.0.0.1", 0) as listening:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            if not ready.wait(30):
                raise SystemExit("The server did not start.")
            yield listening.getsockname()[1], recorder
        finally:
            server.should_exit = True
            thread.join(60)


_NGINX = """
pid {folder}/pid; error_log {folder}/error.log; daemon off; worker_processes 1; master_process off;
events {{ worker_connections 1024; }}
http {{
    log_format framing '$remote_port $upstream_status';
    access_log {folder}/access.log framing;
    {paths}
    client_header_timeout 2s; client_body_timeout 2s; keepalive_timeout 2s; lingering_timeout 1s;
    client_max_body_size 1m; large_client_header_buffers 16 16k;
    upstream application {{ server 127.0.0.1:{upstream}; keepalive 16; }}
    server {{
        listen 127.0.0.1:{port};
        location / {{
            proxy_pass http://application;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
            proxy_set_header Host $host;
            proxy_set_header X-Client-Port $remote_port;
            proxy_request_buffering {buffering};
            proxy_buffering off;
            proxy_next_upstream off;
        }}
    }}
}}
"""


@contextlib.contextmanager
def running_nginx(upstream: int, *, is_buffering: bool) -> Generator[tuple[int, Path]]:
    """Run nginx in front of a port; yields its port, and its access log with a line for each request.

    Raises `FileNotFoundError` if nginx is not installed.
    """
    program = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin:/sbin")
    if program is None:
        raise FileNotFoundError("nginx")
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        port = bound.getsockname()[1]
    with tempfile.TemporaryDirectory(prefix="framing-") as name:
        folder = Path(name)
        kinds = "client_body proxy fastcgi uwsgi scgi".split()
        paths = "".join(f"{kind}_temp_path {folder}/{kind};" for kind in kinds)
        buffering = "on" if is_buffering else "off"
        text = _NGINX.format(folder=folder, paths=paths, port=port, upstream=upstream, buffering=buffering)
        (folder / "nginx.conf").write_text(text, encoding="utf-8")
        command = [
            program,
            "-p",
            str(folder),
            "-c",
            str(folder / "nginx.conf"),
            "-e",
            str(folder / "error.log"),
        ]
        with subprocess.Popen(command) as process:
            try:
                while process.poll() is None and not _accepts(port):
                    time.sleep(0.02)
                if process.poll() is not None:
                    raise SystemExit((folder / "error.log").read_text())
                yield port, folder / "access.log"
            finally:
                process.terminate()


def _accepts(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
        return True
    return False


async def send_cases(port: int, cases: Sequence[FramingCase]) -> list[tuple[int, bytes]]:
    """Send each case on a connection of its own; return the port of its client and all that was received."""
    limit = asyncio.Semaphore(_AT_ONE_TIME)

    async def send(case: FramingCase) -> tuple[int, bytes]:
        async with limit:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            received = b""
            with contextlib.suppress(ConnectionError):
                writer.write(case.request + NEXT)
                await writer.drain()
                while piece := await asyncio.wait_for(reader.read(65536), 60):
                    received += piece
            own: int = writer.get_extra_info("sockname")[1]
            writer.close()
            return own, received

    return list(await asyncio.gather(*(send(case) for case in cases)))


def ask_server(port: int, recorder: Recorder, cases: Sequence[FramingCase]) -> dict[str, FramingAnswer]:
    """Send the cases to a server over a `Recorder`, by itself or behind nginx; return the answers by id."""
    return _join(asyncio.run(send_cases(port, cases)), recorder, cases)


def _join(
    sent: Sequence[tuple[int, bytes]], recorder: Recorder, cases: Sequence[FramingCase]
) -> dict[str, FramingAnswer]:
    answers: dict[str, FramingAnswer] = {}
    for case, (client, received) in zip(cases, sent, strict=True):
        answer = recorder.answer_of(client)
        statuses = [int(status) for status in _STATUS.findall(received)]
        answer.statuses = [status for status in statuses if status != 100]
        if received and not statuses:
            answer.statuses = [0]
        answers[case.id] = answer
    return answers


async def ask_nginx(cases: Sequence[FramingCase]) -> dict[str, FramingAnswer]:
    """Send the cases to nginx in front of a small application; return the answers by id."""
    recorder = Recorder()
    upstream = await asyncio.start_server(
        lambda reader, writer: read_plain(recorder, reader, writer), "127.0.0.1", 0, limit=2**20
    )
    async with upstream:
        own_port: int = upstream.sockets[0].getsockname()[1]
        with running_nginx(own_port, is_buffering=True) as (port, _):
            return _join(await send_cases(port, cases), recorder, cases)


@dataclass(frozen=True)
class ForwardedCase:
    """The requests of a case that nginx forwarded, and what became of them at this server."""

    forwarded: int
    answered: int
    """Those that reached the application."""
    refused: int
    """Those that did not, for their framing."""


def ask_through_nginx(cases: Sequence[FramingCase]) -> dict[str, ForwardedCase]:
    """Send the cases through nginx to this server; return the counts of requests by the id of the case.

    nginx uses its connections to the server again, so that a wrong end of one case would reach the next.
    """
    with serving_recorder() as (upstream, recorder):
        with running_nginx(upstream, is_buffering=False) as (port, log):
            sent = asyncio.run(send_cases(port, cases))
            _wait_for_log(log)
            lines = [line.split() for line in log.read_text(encoding="utf-8").splitlines()]
        forwarded = Counter(int(client) for client, status in lines if status != "-")
        refused = Counter(int(client) for client, status in lines if status in _REFUSALS)
        return {
            case.id: ForwardedCase(forwarded[client], recorder.answer_of(client).began, refused[client])
            for case, (client, _) in zip(cases, sent, strict=True)
        }


def _wait_for_log(log: Path) -> None:
    """Wait until nginx has written the lines of all that it answered."""
    size = -1
    while size != (size := log.stat().st_size):
        time.sleep(1.5)


def print_table(cases: Sequence[FramingCase], own: dict[str, FramingAnswer]) -> int:
    """Print the comparison with nginx by group; return the number of laxer answers."""
    nginx = load_answers()
    verdicts = {case.id: compare_answers(own[case.id], nginx[case.id]) for case in cases}
    kinds = ("same", "stricter", "other", "laxer")
    print(f"| {'group':22} | cases | " + " | ".join(kinds) + " |")
    for group in dict.fromkeys(case.group for case in cases):
        counts = Counter(verdicts[case.id] for case in cases if case.group == group)
        print(
            f"| {group:22} | {counts.total():5} | "
            + " | ".join(f"{counts[kind]:{len(kind)}}" for kind in kinds)
            + " |"
        )
    counts = Counter(verdicts.values())
    print(
        f"| {'all':22} | {counts.total():5} | "
        + " | ".join(f"{counts[kind]:{len(kind)}}" for kind in kinds)
        + " |"
    )
    for case in cases:
        if verdicts[case.id] != "same":
            mine, theirs = own[case.id], nginx[case.id]
            print(
                f"{verdicts[case.id]:8} {case.id}: {mine.statuses} {mine.requests}, nginx {theirs.statuses}"
                f" {theirs.requests}. {case.difference or 'NO REASON'}"[:300]
            )
    return counts["laxer"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one of the comparisons."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("action", choices=("record", "compare", "through"))
    action: str = parser.parse_args(arguments).action
    cases = load_cases()
    if action == "record":
        answers = asyncio.run(ask_nginx(cases))
        program = shutil.which("nginx") or "/usr/sbin/nginx"
        version = subprocess.run([program, "-v"], capture_output=True, text=True, check=True).stderr
        content: dict[str, Any] = {
            "made_with": version.strip().rpartition(" ")[2],
            "answers": {id: asdict(answer) for id, answer in answers.items()},
        }
        ANSWERS.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
        print(f"{len(answers)} answers of {content['made_with']}")
        return 0
    if action == "compare":
        with serving_recorder() as (port, recorder):
            return int(print_table(cases, ask_server(port, recorder, cases)) > 0)
    counts = ask_through_nginx(cases)
    unequal = {id: count for id, count in counts.items() if count.forwarded != count.answered + count.refused}
    forwarded, answered, refused = (
        sum(getattr(count, name) for count in counts.values())
        for name in ("forwarded", "answered", "refused")
    )
    print(f"nginx forwarded {forwarded} requests; the server answered {answered} and refused {refused}")
    print(f"cases whose counts differ: {unequal or 'none'}")
    return int(bool(unequal))


if __name__ == "__main__":
    sys.exit(main())
