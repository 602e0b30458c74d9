"""Lines of a log: what they tell, what they never tell, and that nothing forges one."""

from __future__ import annotations

import asyncio
import io
import json
import logging
import re
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from fastapi import FastAPI
from hypothesis import given
from hypothesis import strategies as st
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route
from starlette.staticfiles import StaticFiles

from vrag.agent.agent import Agent
from vrag.agent.environment import Environment
from vrag.agent.methods.vrag import VragMethod
from vrag.errors import ModelError, SettingsError
from vrag.model_profiles import PROFILES
from vrag.reading.page_faults import UnreadPart, collect_page_faults, report_fault
from vrag.server.logs import RequestMiddleware, RunLines, configure_logs
from vrag.server.metrics import ServerMetrics
from vrag.testing import MemorySearcher, ScriptedPolicy, page

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Generator

    from starlette.requests import Request
    from starlette.types import Message, Scope

    from vrag.agent.events import Event
    from vrag.server.logs import Style

SECRET = "Xylophone"
RUN = "20260301-101500-000000-beef"
log = logging.getLogger("vrag.server")


class Terminal(io.StringIO):
    """A stream that says that it is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def lines() -> Generator[io.StringIO]:
    root, ours = logging.getLogger(), logging.getLogger("vrag")
    before = root.handlers[:], root.level, ours.level
    yield io.StringIO()
    root.handlers[:] = before[0]
    root.setLevel(before[1])
    ours.setLevel(before[2])
    logging.captureWarnings(capture=False)


def read(lines: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in lines.getvalue().splitlines()]


def application() -> RequestMiddleware:
    app = FastAPI()

    @app.get("/items/{id}")
    async def item(id: str) -> str:
        log.warning("Something about an item.")
        return id

    @app.get("/healthz")
    async def healthz() -> str:
        return "ok"

    @app.get("/runs/{id}/events")
    async def events(id: str) -> Response:
        async def slowly() -> AsyncGenerator[bytes]:
            yield b"data: 1\n\n"

        return StreamingResponse(slowly(), media_type="text/event-stream")

    async def bare(_: Request) -> Response:
        return Response()

    app.router.routes.append(Route("/bare", bare))
    app.mount("/static", StaticFiles(directory=Path(__file__).parent))

    @app.get("/broken")
    async def broken() -> str:
        raise ValueError(SECRET)

    return RequestMiddleware(app, ServerMetrics())


def ask(
    path: str, app: RequestMiddleware | None = None, client: str = "10.0.0.1", **headers: str
) -> httpx.Response:
    async def asked() -> httpx.Response:
        transport = httpx.ASGITransport(app or application(), raise_app_exceptions=False, client=(client, 9))
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as asking:
            return await asking.get(path, headers=given)

    return asyncio.run(asked())


def test_a_request_is_a_line(lines: io.StringIO) -> None:
    configure_logs("json", stream=lines)
    response = ask("/items/a1?max_pixels=3")
    said, answered = read(lines)
    assert (
        answered.items()
        >= {
            "level": "info",
            "logger": "vrag.requests",
            "message": "answered",
            "method": "GET",
            "route": "/items/{id}",
            "status": 200,
        }.items()
    )
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", answered["ts"])
    assert answered["ms"] >= 0
    assert answered["request"] == response.headers["x-request-id"] == said["request"]


@pytest.mark.parametrize(
    ("path", "route"),
    [
        ("/static/test_logs.py", "/static/{path}"),
        ("/static/deep/and/deeper.js", "/static/{path}"),
        ("/bare", "/bare"),
        ("/items/a1/", "none"),
        ("/nowhere", "none"),
    ],
)
def test_a_route_is_told_by_its_template(lines: io.StringIO, path: str, route: str) -> None:
    configure_logs("json", "debug", stream=lines)
    ask(path)
    told = read(lines)[-1]
    assert (told["route"], told["level"]) == (route, "debug" if "static" in route else "info")


def test_what_a_request_carries_is_not_told(lines: io.StringIO) -> None:
    configure_logs("json", "debug", stream=lines)
    ask(f"/items/{SECRET}?queries={SECRET}", authorization=f"Bearer {SECRET}", cookie=f"session={SECRET}")
    ask(f"/none/{SECRET}")
    assert read(lines)[-1]["status"] == 404
    assert SECRET not in lines.getvalue()
    assert "10.0.0.1" not in lines.getvalue()


@pytest.mark.parametrize("brought", ["abc-1_2.Z", "a" * 64])
def test_a_sane_id_that_a_client_brings_is_kept(lines: io.StringIO, brought: str) -> None:
    configure_logs("json", stream=lines)
    assert ask("/items/a", x_request_id=brought).headers["x-request-id"] == brought
    assert {line["request"] for line in read(lines)} == {brought}


@pytest.mark.parametrize("brought", ["", "a" * 65, "a b", "a\tb", '{"level":"x"}', "a;b"])
def test_any_other_id_is_replaced(lines: io.StringIO, brought: str) -> None:
    configure_logs("json", stream=lines)
    assert re.fullmatch("[0-9a-f]{16}", ask("/items/a", x_request_id=brought).headers["x-request-id"])


def test_every_request_has_an_id_of_its_own(lines: io.StringIO) -> None:
    configure_logs("json", stream=lines)
    assert len({ask("/items/a").headers["x-request-id"] for _ in range(5)}) == 5


def test_what_comes_after_a_request_is_not_told_as_part_of_it(lines: io.StringIO) -> None:
    configure_logs("json", stream=lines)

    async def answers(scope: Scope, receive: Any, send: Any) -> None:  # noqa: ANN401
        await send({"type": "http.response.start", "status": 200})

    async def send(message: Message) -> None:
        assert message["headers"][0][0] == b"x-request-id"

    async def one_after_the_other() -> None:
        scope: Scope = {"type": "http", "method": "GET", "path": "/", "headers": []}
        await RequestMiddleware(answers, ServerMetrics())(scope, send, send)  # pyright: ignore[reportArgumentType] - never called
        log.warning("Outside of requests.")

    asyncio.run(one_after_the_other())
    answered, outside = read(lines)
    assert "request" in answered
    assert "request" not in outside


def test_clients_are_told_apart_by_a_hash_of_this_process(lines: io.StringIO) -> None:
    configure_logs("json", stream=lines)
    app = application()
    for address in ("10.0.0.1", "10.0.0.2", "10.0.0.1"):
        ask("/items/a", app, address)
    ask("/items/a")  # another process
    first, second, again, other = [line["client"] for line in read(lines) if "client" in line]
    assert first == again
    assert len({first, second, other}) == 3
    assert re.fullmatch("[0-9a-f]{8}", first)


@pytest.mark.parametrize(("level", "told"), [("info", False), ("debug", True)])
def test_what_machines_ask_for_all_the_time_is_told_at_debug(
    lines: io.StringIO, level: str, told: bool
) -> None:
    configure_logs("json", level, stream=lines)
    ask("/healthz")
    assert bool(read(lines)) == told


def test_a_request_about_a_run_names_it(lines: io.StringIO) -> None:
    configure_logs("json", stream=lines)
    ask(f"/runs/{RUN}/events")
    ask("/runs/not%20a%20run/events")
    named, unnamed = read(lines)
    assert named["run"] == RUN
    assert "run" not in unnamed


def test_a_client_that_left_and_a_fault_are_lines_too(lines: io.StringIO) -> None:
    configure_logs("json", stream=lines)

    async def gone(scope: Scope, receive: Any, send: Any) -> None:  # noqa: ANN401
        """Answer nothing: nobody waits."""

    async def nothing(message: Message | None = None) -> Any:  # noqa: ANN401
        raise AssertionError

    scope: Scope = {"type": "http", "method": "GET", "path": "/", "headers": []}
    asyncio.run(RequestMiddleware(gone, ServerMetrics())(scope, nothing, nothing))
    assert ask("/broken").status_code == 500
    client_gone, error, fault = read(lines)
    assert (client_gone["status"], fault["status"]) == (499, 500)
    assert error["request"] == fault["request"]
    assert SECRET not in json.dumps(error)


def test_other_connections_pass(lines: io.StringIO) -> None:
    configure_logs("json", stream=lines)
    seen: list[Scope] = []

    async def inner(scope: Scope, receive: Any, send: Any) -> None:  # noqa: ANN401
        seen.append(scope)

    asyncio.run(RequestMiddleware(inner, ServerMetrics())({"type": "lifespan"}, None, None))  # pyright: ignore[reportArgumentType]
    assert [scope["type"] for scope in seen] == ["lifespan"]
    assert not lines.getvalue()


# Runs.


def events(*replies: str | Exception) -> list[Event]:
    corpus = MemorySearcher((page(f"{SECRET}.pdf", 1, f"The ferry carried {SECRET}"),))
    environment = Environment(corpus, PROFILES["qwen2.5-vl"])
    return list(Agent(ScriptedPolicy(replies), environment, VragMethod()).stream(f"How many {SECRET}?"))


def test_a_run_is_two_lines_that_tell_no_content(lines: io.StringIO) -> None:
    configure_logs("json", stream=lines)
    told = events(f"<search>{SECRET}</search>", f"<answer>{SECRET}</answer>")
    observer = RunLines()
    for event in told:
        observer(event)
    began, ended = read(lines)
    run = told[0].run_id
    assert began.items() >= {"message": "started", "run": run, "agent": "vrag", "session": run}.items()
    assert ended.items() >= {"message": "ended", "run": run, "reason": "answered", "steps": 2}.items()
    assert ended["seconds"] == pytest.approx(told[-1].ts - told[0].ts, abs=0.001)
    assert ended["visual_tokens"] > 0
    assert SECRET not in lines.getvalue()


def test_a_run_that_failed_is_a_warning_without_its_message(lines: io.StringIO) -> None:
    configure_logs("json", stream=lines)
    observer = RunLines()
    for event in events(ModelError(f"It said {SECRET}")):
        observer(event)
    ended = read(lines)[-1]
    assert (ended["level"], ended["reason"], ended["boundary"]) == ("warning", "model_error", "ModelError")
    assert SECRET not in lines.getvalue()


def test_mixed_runs_and_runs_without_a_beginning_do_not_confuse(lines: io.StringIO) -> None:
    configure_logs("json", stream=lines)
    first, second, third = (events("<answer>a</answer>") for _ in range(3))
    observer = RunLines()
    for both in zip(first, second, third[1:], strict=False):
        for event in both:
            observer(event)
    for event in (*first[len(third) - 1 :], *second[len(third) - 1 :]):
        observer(event)
    assert sorted((line["run"], line["message"]) for line in read(lines)) == sorted(
        (run[0].run_id, message) for run in (first, second) for message in ("started", "ended")
    )


# Lines.


@given(st.text(), st.sampled_from(["json", "text"]))
def test_nothing_that_is_told_ends_its_line_or_steers_a_terminal(text: str, style: Style) -> None:
    stream = io.StringIO()
    handler = _handler(style, stream)
    record = logging.makeLogRecord(
        {
            "name": "vrag.x",
            "levelname": "INFO",
            "msg": "%s failed",
            "args": (text,),
            "fields": {"route": text},
        }
    )
    handler.emit(record)
    written = stream.getvalue()
    assert len(written.splitlines()) == 1
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]", written)
    written.encode()


def _handler(style: Style, stream: io.StringIO) -> logging.Handler:
    root, ours = logging.getLogger(), logging.getLogger("vrag")
    before = root.handlers[:], root.level, ours.level
    configure_logs(style, stream=stream)
    [handler] = root.handlers
    root.handlers[:] = before[0]
    root.setLevel(before[1])
    ours.setLevel(before[2])
    logging.captureWarnings(capture=False)
    return handler


def test_a_name_cannot_forge_a_line(lines: io.StringIO) -> None:
    configure_logs("text", stream=lines)
    log.warning("cannot read %s", "a\n12:00:00.000 info    requests: answered status=200\x1b[2J\u202e")
    [line] = lines.getvalue().splitlines()
    assert r"a\n12:00" in line
    assert r"\x1b[2J\u202e" in line


@pytest.mark.parametrize("style", ["json", "text"])
def test_what_errors_of_others_say_is_told_at_debug_alone(lines: io.StringIO, style: Style) -> None:
    for level, told in (("info", False), ("debug", True)):
        configure_logs(style, level, stream=lines)
        try:
            _fails()
        except RuntimeError as error:
            log.error("failed", exc_info=error)  # noqa: TRY400 - as it is logged
        assert (SECRET in lines.getvalue()) == told
        assert "test_logs.py" in lines.getvalue()
        assert "ModelError: The model is gone." in lines.getvalue()
        assert "ValueError" in lines.getvalue()


def _fails() -> None:
    try:
        try:
            int(SECRET)
        except ValueError:
            raise ModelError("The model is gone.") from None
    except ModelError as error:
        value = ValueError(SECRET)
        value.__cause__ = error
        raise RuntimeError(f"{SECRET}\nforged") from value


def test_lines_of_a_trace_are_indented(lines: io.StringIO) -> None:
    configure_logs("text", "debug", stream=lines)
    try:
        _fails()
    except RuntimeError as error:
        log.error("failed", exc_info=error)  # noqa: TRY400 - as it is logged
    head, *trace = lines.getvalue().splitlines()
    assert "error   server: failed" in head
    assert all(line.startswith("    ") for line in trace)
    assert not any(line.strip() == "forged" for line in trace)


def test_a_fault_that_is_no_message_for_people_is_logged_with_its_trace(lines: io.StringIO) -> None:
    configure_logs("text", "info", stream=lines)
    try:
        _fails()
    except RuntimeError as error:
        log.error("failed", extra={"fault": error})  # noqa: TRY400 - as the loop of a run does it
    assert "test_logs.py" in lines.getvalue()
    assert SECRET not in lines.getvalue()


def test_page_faults_are_counted_by_part() -> None:
    metrics = ServerMetrics()
    name = b'vrag_page_faults_total{part="tables"} '
    before = float(metrics.render().split(name)[1].split()[0])
    with collect_page_faults():
        report_fault(UnreadPart.TABLES, "report.pdf, page 4: its tables could not be read", IndexError())
    assert float(metrics.render().split(name)[1].split()[0]) == before + 1


@pytest.mark.parametrize(
    ("style", "stream", "as_json"),
    [
        ("auto", io.StringIO(), True),
        ("auto", Terminal(), False),
        ("text", io.StringIO(), False),
        ("json", Terminal(), True),
    ],
)
def test_text_is_for_terminals_unless_asked_for(
    lines: io.StringIO, style: Style, stream: io.StringIO, as_json: bool
) -> None:
    configure_logs(style, stream=stream)
    log.warning("So.")
    assert stream.getvalue().startswith("{") == as_json


def test_libraries_speak_from_warning_on(lines: io.StringIO) -> None:
    configure_logs("json", "debug", stream=lines)
    logging.getLogger("httpx").info("HTTP Request: GET http://127.0.0.1/?q=%s", SECRET)
    logging.getLogger("httpx").warning("so")
    log.debug("ours")
    assert [line["message"] for line in read(lines)] == ["so", "ours"]


def test_warnings_of_the_interpreter_are_lines(lines: io.StringIO) -> None:
    configure_logs("json", stream=lines)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        logging.captureWarnings(capture=False)
        logging.captureWarnings(capture=True)
        warnings.warn("old", DeprecationWarning, stacklevel=1)
    assert "old" in read(lines)[0]["message"]


def test_an_unknown_level_is_refused(lines: io.StringIO) -> None:
    with pytest.raises(SettingsError, match="log level 'loud'"):
        configure_logs("json", "loud", stream=lines)
