"""Secrets are in nothing that is printed, logged, recorded, exported or sent to others, in no spelling."""

from __future__ import annotations

import asyncio
import base64
import io
import json
import logging
import traceback
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from unittest import mock
from urllib.parse import quote, quote_plus

import httpx
import pytest
from chat_server import Asked, ChatServer, Refuse
from command_line import run_vrag
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from server_harness import PacedSearcher, ask, asked

import vrag
from vrag.chat.errors import ErrorResponse
from vrag.chat.http_clients import base_of, checked_key
from vrag.embed.models.remote import Address, RemoteEmbedder
from vrag.embed.options import EmbedOptions
from vrag.errors import VragError
from vrag.index.remote.object_storage import Objects
from vrag.index.remote.qdrant import QdrantStore
from vrag.providers import hide_credentials, redact_key
from vrag.render.exports import Format, export_of
from vrag.search.client import SearchClient
from vrag.server.app import create_app
from vrag.server.logs import configure_logs
from vrag.server.options import ServerOptions
from vrag.settings import load_settings
from vrag.telemetry.spans import Spans
from vrag.testing import tiny_corpus
from vrag.types import Query

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

SECRETS = st.text("abcdefgxyzABCXYZ0123456789-_.~+/=$!*'", min_size=16, max_size=60).map("sk-7".__add__)
"""Keys and tokens: signs that keys have, and that URLs, JSON or shells write in another way."""
PASSWORDS = st.text("abcxyzABC0123456789-_.~!$*+=", min_size=12, max_size=40).map("pw-7".__add__)
"""Passwords as they may stand in an address."""


def spellings(secret: str) -> set[str]:
    """The secret as it is, and as URLs, JSON, Python and base64 write it; and its first half."""
    packed = base64.b64encode(secret.encode()).decode().rstrip("=")
    forms = {
        secret,
        quote(secret, safe=""),
        quote(secret),
        quote_plus(secret),
        packed,
        secret[: len(secret) // 2],
    }
    return forms | {json.dumps(secret)[1:-1], repr(secret)[1:-1], secret.encode().hex()}


def assert_hidden(text: str, *secrets: str) -> None:
    plain = "".join(text.split())  # tables break long values into lines
    for secret in secrets:
        found = [form for form in spellings(secret) if form in text or form in plain]
        assert not found, f"{found} in {text[:2000]}"


def said_by(error: BaseException) -> str:
    """All that a program could print of an error."""
    return f"{error} {error!r} {''.join(traceback.format_exception(error))}"


def echo(request: httpx.Request) -> httpx.Response:
    """Refuse a request and repeat all of it, as some servers and proxies do."""
    text = f"{request.method} {request.url} {dict(request.headers)} {request.headers.raw!r}"
    packed = base64.b64encode(request.headers.get("authorization", "").removeprefix("Bearer ").encode())
    text += f" {quote(request.headers.get('authorization', ''), safe='')} {packed.decode()}"
    detail = {"detail": text, "hint": text, "error": {"message": text, "code": "bad"}}
    return httpx.Response(400, stream=httpx.ByteStream(json.dumps(detail).encode()))


class TestSettings:
    @settings(max_examples=10)
    @given(SECRETS, PASSWORDS)
    def test_are_shown_without_keys_passwords_and_queries(self, key: str, password: str) -> None:
        keys = {f"VRAG_{name}_KEY": key for name in ("MODEL", "SEARCH", "EMBED", "JUDGE")}
        address = f"://ada:{password}@example.invalid/v1?key={quote(key, safe='')}"
        addresses = {
            "VRAG_BASE_URL": f"https{address}",
            "VRAG_JUDGE_URL": f"https{address}",
            "VRAG_SEARCH_URL": f"https{address}",
            "VRAG_EMBEDDER": f"remote:m@https{address}",
            "VRAG_COLLECTIONS": f"s3{address},https{address}",
            "VRAG_QDRANT": f"qdrant{address}",
            "VRAG_RAY_ADDRESS": f"ray{address}",
            "HTTPS_PROXY": f"http{address}",
        }
        with mock.patch.dict("os.environ", keys | addresses):
            report = load_settings(model="m")
            assert_hidden(f"{report.settings.model_dump_json()} {report.origins}", key, password)
            for reveal in (str, repr):
                shown = reveal(report.settings.model_copy(update=dict.fromkeys(VISIBLE, "")))
                assert_hidden(shown, key, password)

    @pytest.mark.slow
    def test_are_printed_without_them(self, tmp_path: Path) -> None:
        key, password = "sk-7/with+signs=and more?".replace(" ", "%"), "pw-7$secret*here"
        address = f"https://ada:{password}@example.invalid/v1?key={quote(key, safe='')}"
        environment = {"VRAG_MODEL_KEY": key, "VRAG_SEARCH_URL": address, "VRAG_COLLECTION": address}
        for arguments in (["config", "show"], ["config", "show", "--json"], ["config", "show", "--help"]):
            done = run_vrag(*arguments, cwd=tmp_path, **environment)
            assert done.status == 0, done.err
            assert_hidden(done.out + done.err, key, password)
        for arguments in (
            ["doctor", "--json"],
            ["search", "x"],
            ["ask", "x"],
            ["runs", "list"],
            ["index", "status"],
        ):
            done = run_vrag(*arguments, cwd=tmp_path, **environment)
            assert_hidden(done.out + done.err, key, password)


VISIBLE = (
    "base_url", "judge_url", "search_url", "embedder", "qdrant", "ray_address", "collection", "collections",
)  # fmt: skip
"""Settings whose `repr` is for debuggers and holds addresses whole."""


class TestErrors:
    @settings(max_examples=5)
    @given(SECRETS, PASSWORDS)
    def test_about_an_address_do_not_repeat_what_it_holds(self, key: str, password: str) -> None:
        query = f"?key={quote(key, safe='')}"
        tails = (f"ada:{password}@host/v1{query}", f"host/v1{query}", f"[::/{query}")
        readers: list[Callable[[str], object]] = [
            base_of, Address, SearchClient, Objects, QdrantStore.at,
            lambda url: load_settings(base_url=url, model="m", model_key="x").settings.key("model_key"),
        ]  # fmt: skip
        heads = ("https://", "m@https://", "s3://", "qdrant://", "nothing://")
        for read in readers:
            for head in heads:
                for tail in tails:
                    try:
                        read(head + tail)
                    except VragError as error:
                        assert_hidden(said_by(error), key, password)

    @settings(max_examples=10)
    @given(SECRETS, st.sampled_from(["\n", "\r\nX-Other: 1", "ü", "\x00", " "]))
    def test_about_a_key_that_no_header_can_carry_do_not_repeat_it(self, key: str, end: str) -> None:
        spoilt = f"{key}{end}{key}"
        openers: list[Callable[[], object]] = [
            lambda: checked_key(spoilt, "VRAG_MODEL_KEY"),
            lambda: SearchClient("http://localhost:1", token=spoilt),
            lambda: RemoteEmbedder("m@http://localhost:1", EmbedOptions(api_key=spoilt)),
        ]
        for open_client in openers:
            with pytest.raises(VragError) as raised:
                open_client()
            assert_hidden(said_by(raised.value), key)

    @settings(max_examples=10)
    @given(SECRETS)
    def test_of_servers_that_repeat_the_request_are_shown_without_the_key(self, key: str) -> None:
        with SearchClient("http://host", token=key, transport=httpx.MockTransport(echo), retries=0) as client:
            for call in (lambda: client.search([Query("x")], 1), lambda: client.item("00112233-1")):
                with pytest.raises(VragError) as raised:
                    call()
                assert_hidden(said_by(raised.value), key)
        real = httpx.Client

        def echoing_client(**options: Any) -> httpx.Client:  # noqa: ANN401
            return real(**options, transport=httpx.MockTransport(echo))

        with (
            mock.patch.object(httpx, "Client", echoing_client),
            pytest.raises(VragError) as raised,
        ):
            RemoteEmbedder("m@http://host", EmbedOptions(api_key=key))
        assert "400" in str(raised.value)
        assert_hidden(said_by(raised.value), key)

    @given(SECRETS, st.integers(0, 700))
    def test_are_redacted_before_they_are_cut(self, key: str, before: int) -> None:
        for body in (
            json.dumps({"error": {"message": "x" * before + key}}).encode(),
            b"y" * before + key.encode(),
        ):
            assert_hidden(ErrorResponse.of(400, body, key).message, key)

    @given(SECRETS)
    def test_options_with_keys_do_not_show_them(self, key: str) -> None:
        assert_hidden(f"{EmbedOptions(api_key=key)!r} {ServerOptions(token=key)!r}", key)

    @given(st.text(), SECRETS)
    def test_redaction_leaves_other_text_alone(self, text: str, key: str) -> None:
        assert redact_key(text, key) == text
        assert redact_key(text, "abc") == text
        assert hide_credentials("./" + text.replace("://", "")) == "./" + text.replace("://", "")


@pytest.fixture
def log() -> Iterator[Callable[[str], io.StringIO]]:
    """Sends the log of this process to a text, and puts things back afterwards."""
    root, ours = logging.getLogger(), logging.getLogger("vrag")
    before = root.handlers[:], root.level, ours.level

    def begin(style: str) -> io.StringIO:
        stream = io.StringIO()
        configure_logs(style, "info", stream)  # type: ignore[arg-type]
        return stream

    yield begin
    root.handlers[:], level, own = before
    root.setLevel(level)
    ours.setLevel(own)
    logging.captureWarnings(capture=False)


class TestServer:
    @pytest.mark.parametrize("style", ["json", "text"])
    def test_log_metrics_and_answers_hold_no_token_whatever_is_sent(
        self, log: Callable[[str], io.StringIO], style: str
    ) -> None:
        stream = log(style)

        @settings(max_examples=4)
        @given(SECRETS, SECRETS)
        def check(token: str, wrong: str) -> None:
            searcher = PacedSearcher(fail=RuntimeError(f"It broke over {token}."))
            searcher.go.set()
            app = create_app(searcher, ServerOptions(token=token))
            said: list[str] = []
            right = {"Authorization": f"Bearer {token}"}
            sent: list[tuple[str, str, dict[str, Any]]] = [
                ("GET", f"/search?queries=a&token={quote(wrong, safe='')}", {}),
                ("GET", f"/search?queries=a&token={quote(wrong, safe='')}", {"headers": right}),
                ("GET", f"/items/{quote(wrong, safe='')}", {"headers": right}),
                ("GET", f"/{quote(wrong, safe='')}", {"headers": right}),
                ("GET", "/version", {"headers": {"Authorization": f"Bearer {wrong}"}}),
                (
                    "GET",
                    "/version",
                    {"headers": {"Authorization": f"Basic {wrong}", "Cookie": f"vrag_session={wrong}"}},
                ),
                ("POST", "/session", {"json": {"token": wrong}}),
                ("POST", "/session", {"json": {"token": [wrong]}}),
                ("POST", "/session", {"content": f'{{"token": "{wrong}"'}),
                ("POST", "/session", {"json": {"token": token}}),
                ("GET", "/metrics", {"headers": right}),
                ("GET", "/openapi.json", {"headers": right}),
            ]

            async def send() -> None:
                async with asked(app) as client:
                    for method, path, request in sent:
                        answer = await client.request(method, path, **request)
                        said.append(f"{answer.text} {answer.headers.get('x-request-id')}")

            asyncio.run(send())
            assert_hidden("\n".join(said), token, wrong)
            assert "RuntimeError" in stream.getvalue()
            assert_hidden(stream.getvalue(), token, wrong)
            stream.seek(0)
            stream.truncate()

        check()


class TestRuns:
    def test_files_exports_and_spans_of_a_run_hold_no_key_that_its_server_repeats(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        (docs := tmp_path / "docs").mkdir()
        (docs / "ferries.md").write_text("# Ferries\n\nThe single fare is 12 crowns.\n")
        session = vrag.open(docs, collection=tmp_path / "collection")

        def refuse(asked: Asked) -> Refuse:
            sent = asked.headers["authorization"]
            packed = base64.b64encode(sent.removeprefix("Bearer ").encode()).decode()
            return Refuse(400, f"no: {sent} {quote(sent, safe='')} {packed}")

        @settings(max_examples=2)
        @given(SECRETS)
        def check(key: str) -> None:
            with ChatServer(refuse, models=("qwen3-vl:8b",)) as server, caplog.at_level(logging.DEBUG):
                with mock.patch.dict("os.environ", {"VRAG_MODEL_KEY": key}):
                    opened = vrag.open(
                        collection=tmp_path / "collection", model="qwen3-vl:8b", base_url=server.url
                    )
                with suppress(VragError):
                    result = opened.ask("What is the fare?")
                    assert result.failure
                    assert "no: Bearer …" in result.failure
                assert server.requests[0].headers["authorization"] == f"Bearer {key}"
            stored = session.runs.read(max(session.runs.ids()))
            exports = [export_of(stored, kind).data.decode() for kind in Format]
            exporter, provider = InMemorySpanExporter(), TracerProvider(shutdown_on_exit=False)
            provider.add_span_processor(SimpleSpanProcessor(exporter))
            spans = Spans(provider.get_tracer("test"), content=True)
            for event in stored.events:
                spans(event)
            spans.close()
            told = [span.to_json() for span in exporter.get_finished_spans()]
            files = [path.read_bytes().decode("latin-1") for path in tmp_path.rglob("*") if path.is_file()]
            assert_hidden("\n".join([*exports, *told, *files, caplog.text]), key)

        check()


def test_the_searcher_of_the_tests_is_reached_by_the_token() -> None:
    """What is hidden above was really sent: with the right token the routes answer."""
    app = create_app(tiny_corpus(), ServerOptions(token="sk-right"))
    assert ask(app, "GET", "/version", headers={"Authorization": "Bearer sk-right"}).status_code == 200
