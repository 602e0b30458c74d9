"""The routes of the set-up: what is chosen and runs now, found servers, the test of a model, the choice."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Annotated, Any
from urllib.parse import urlsplit

from fastapi import APIRouter, Query, Request
from starlette.responses import Response, StreamingResponse

from vrag.errors import ModelError, ServerStateError, SettingsError
from vrag.model_profiles import PROFILES
from vrag.server.collections.service import CollectionService
from vrag.server.http.background import Threads, wait_for_client
from vrag.server.http.errors import Refusal, Responses, log_error, responses
from vrag.server.http.users import User
from vrag.server.options import ServerOptions
from vrag.server.runs.run_manager import Requester, RunManager
from vrag.server.runs.user_runs import UserRuns
from vrag.server.setup import schema
from vrag.server.setup.choices import ChosenModel, ModelChoices
from vrag.server.setup.servers import OWN_SERVER, ModelServers, hides_address
from vrag.server.state.sessions import BrowserSessions, begin_session

log = logging.getLogger("vrag.server")
LIST_SECONDS = 15.0
"""Time limit of finding servers, and of the list of models of one."""
MAX_TESTS = 4
"""Tests at one time, of all users."""
_LINES: Responses = {200: {"content": {"application/x-ndjson": {}}, "description": "Objects, one a line."}}


@dataclass(frozen=True, slots=True)
class ModelSetup:
    """The parts from which the set-up of a server is built."""

    servers: ModelServers
    inspector: schema.ModelInspector


@dataclass(frozen=True, slots=True)
class SetupService:
    """The set-up of one application. For one event loop."""

    setup: ModelSetup
    choices: ModelChoices
    sessions: BrowserSessions
    options: ServerOptions
    runs: RunManager
    collections: CollectionService
    threads: Threads = field(default_factory=lambda: Threads(MAX_TESTS + 2, "vrag-setup"))
    tests: dict[threading.Event, str] = field(default_factory=dict[threading.Event, str])
    """Clients whose tests run, by what stops them."""

    async def state(self, user: User, session: bytes | None) -> schema.SetupState:
        """Describe what is chosen, what may be chosen, and what runs now."""
        servers = self.setup.servers
        closed = self.choices.closed
        return schema.SetupState(
            changeable=not closed,
            reason=closed,
            admin=user.is_admin,
            session=self._info(self.choices.of_session(session), user, owned=True),
            for_all=self._info(self.choices.for_all, user, owned=user.is_admin),
            problem=self.choices.problem if user.is_admin else "",
            servers=tuple(
                schema.OfferedServer(
                    name=server.name,
                    title=server.title,
                    address=server.base_url if user.is_admin or server.name != OWN_SERVER else None,
                    needs_key=server.needs_key and not (user.is_admin and server.key.get_secret_value()),
                    has_key=user.is_admin and bool(server.key.get_secret_value()),
                    models=() if user.is_admin else server.models,
                )
                for server in servers.offered_to(user)
                if not closed
            ),
            families=tuple(PROFILES),
            activity=await self._activity(user, session),
        )

    def check_open(self) -> None:
        """Raise `Refusal` if models cannot be chosen here (403)."""
        if reason := self.choices.closed:
            raise Refusal(403, "Models cannot be chosen on this server's page.", reason)

    def resolve(self, request: schema.ModelRequest, user: User, session: bytes | None) -> ChosenModel:
        """Return the model that a request describes; see `ModelServers.resolve`."""
        former = [self.choices.of_session(session)]
        if user.is_admin:
            former.append(self.choices.for_all)
        return self.setup.servers.resolve(request, user, [chosen for chosen in former if chosen])

    async def choose_for_all(self, chosen: ChosenModel | None, user: User) -> None:
        """Set or remove the choice for all. Raises `Refusal` if the user may not (403), or the disk fails."""
        if not user.is_admin:
            hint = "Choose it for yourself, or ask the administrator."
            raise Refusal(403, "Only an administrator may choose a model for everyone.", hint)
        try:
            await self.threads.run(lambda: self.choices.choose_for_all(chosen))
        except ServerStateError as error:
            error_id = log_error(error, "Saving the chosen model", trace=False)
            hint = (
                f"Free some disk space or fix the permissions; the log has details under the id {error_id}."
            )
            raise Refusal(507, "The choice could not be saved, and nothing was changed.", hint) from error

    async def list_models(
        self, request: Request, wanted: schema.ServerRequest, user: User, session: bytes | None
    ) -> schema.FoundModels:
        """List the models of a server. Raises `Refusal` with what to do if it does not (502)."""
        asked = schema.ModelRequest(model="-", server=wanted.server, key=wanted.key)
        server = next((each for each in self.setup.servers.servers if each.name == wanted.server), None)
        if server is not None and server.models and not user.is_admin:
            return schema.FoundModels(
                models=tuple(schema.FoundModel(name=name, sees=None) for name in server.models)
            )
        chosen = self.resolve(asked, user, session)
        try:
            work = self.threads.run(lambda: self.setup.inspector.list_models(chosen))
            return schema.FoundModels(models=tuple(await wait_for_client(request, work, LIST_SECONDS)))
        except (ModelError, SettingsError) as error:
            raise Refusal(502, error.message, error.hint) from error

    def begin_test(self, chosen: ChosenModel, user: User, client: str) -> Response:
        """Begin a test in a thread, and return the response with its lines. It is stopped when that ends.

        Raises `Refusal` if a test of the client (409) or too many of others (503) are running.
        """
        if client in self.tests.values():
            hint = "Wait until it has ended, or stop it."
            raise Refusal(409, "A test of yours is still running.", hint)
        if len(self.tests) >= MAX_TESTS:
            raise Refusal(503, "Other tests are running.", "Try again in a minute.", 60.0)
        inspector, stop = self.setup.inspector, threading.Event()
        loop, results = asyncio.get_running_loop(), asyncio.Queue[schema.CheckResult | None]()
        title = self.setup.servers.title_of(chosen, user) if hides_address(chosen, user) else ""

        def work() -> None:
            try:
                for result in inspector.test(chosen, stop):
                    if title:
                        result = _without_address(result, chosen.base_url, title)  # noqa: PLW2901
                    loop.call_soon_threadsafe(results.put_nowait, result)
            except Exception:
                log.exception("The test of a model failed.")
            finally:
                loop.call_soon_threadsafe(self.tests.pop, stop)  # before the client is told the end
                loop.call_soon_threadsafe(results.put_nowait, None)

        self.tests[stop] = client
        self.threads.run(work)
        return _TestStream(self._test_lines(results), stop)

    async def _test_lines(
        self, results: asyncio.Queue[schema.CheckResult | None]
    ) -> AsyncGenerator[bytes, None]:
        try:
            yield _line(schema.TestLine(checks=tuple(self.setup.inspector.plan)))
            async with asyncio.timeout(self.options.test_seconds):
                while (result := await results.get()) is not None:
                    yield _line(schema.TestLine(result=result))
            yield _line(schema.TestLine(end="finished"))
        except TimeoutError:
            yield _line(schema.TestLine(end="late"))

    def _info(self, chosen: ChosenModel | None, user: User, *, owned: bool) -> schema.ChosenInfo | None:
        if chosen is None:
            return None
        shown = owned and not hides_address(chosen, user)
        return schema.ChosenInfo(
            model=chosen.model,
            server=self.setup.servers.title_of(chosen, user) if owned else "",
            server_name=chosen.server if owned else "",
            address=chosen.base_url if shown else None,
            has_key=chosen.has_key,
            key_end=chosen.key_end if shown else "",
            profile=chosen.profile,
        )

    async def _activity(self, user: User, session: bytes | None) -> schema.Activity:
        capabilities = await self.runs.capabilities(session)
        named = {model.name: model.title for model in capabilities.models}
        model = capabilities.defaults.model
        if self.choices.of_session(session):
            source = "session"
        elif self.choices.for_all:
            source = "all"
        else:
            source = "settings" if model else "none"
        return schema.Activity(
            model=named.get(model, model),
            source=source,
            runs=tuple(UserRuns(self.runs, Requester(user)).active()),
            uploads=tuple(self.collections.active_jobs()),
            collections=capabilities.collections,
        )


def setup_routes(service: SetupService) -> APIRouter:  # noqa: C901 - one per route
    """Build `/setup` and what belongs to it."""
    router = APIRouter(prefix="/setup", tags=["setup"])

    @router.get("", summary="What is chosen, and what runs now", responses=responses(503, 504))
    async def state(request: Request) -> schema.SetupState:
        """The chosen models without their keys, the servers that may be chosen, and runs in progress."""
        return await service.state(request.state.user, request.state.session)

    @router.put("", summary="Choose a model", responses=responses(409, 502, 503, 504, 507))
    async def choose(
        request: Request, response: Response, choice: schema.ModelChoiceRequest
    ) -> schema.SetupState:
        """Use a model from now on: for this browser's session, or for all users. Its key is never returned.

        Runs in progress keep their model. A server without tokens begins a session for the browser.
        """
        request.state.audit.note(model=choice.model, scope=choice.scope)
        service.check_open()
        user, session = request.state.user, request.state.session
        chosen = service.resolve(choice, user, session)
        if choice.scope == "all":
            await service.choose_for_all(chosen, user)
            return await service.state(user, session)
        if session is None:
            if service.sessions.needed:
                hint = "Sign in at the page, or choose it for all users."
                raise Refusal(409, "The request belongs to no browser session.", hint)
            request.state.question()  # limits how many sessions one client opens
            session = await begin_session(service.sessions, service.options, request.scope, response)
        service.choices.choose(session, chosen)
        return await service.state(user, session)

    @router.delete("", summary="Remove a choice", responses=responses(503, 504, 507))
    async def remove(
        request: Request, scope: Annotated[schema.Scope, Query(description="Whose choice.")] = "session"
    ) -> schema.SetupState:
        """Forget the chosen model and its key. Runs in progress keep their model."""
        request.state.audit.note(scope=scope)
        service.check_open()
        user, session = request.state.user, request.state.session
        if scope == "all":
            await service.choose_for_all(None, user)
        elif session is not None:
            service.choices.forget(session)
        return await service.state(user, session)

    @router.get("/servers", summary="Model servers on this machine", responses=responses(503, 504))
    async def servers(request: Request) -> schema.FoundServers:
        """Asks the usual ports of model servers on the server's own machine. For administrators only."""
        service.check_open()
        if not request.state.user.is_admin:
            hint = "Choose a server from the list."
            raise Refusal(403, "Only an administrator may look for servers.", hint)
        work = service.threads.run(service.setup.inspector.find_servers)
        return schema.FoundServers(servers=tuple(await wait_for_client(request, work, LIST_SECONDS)))

    @router.post("/models", summary="The models of a server", responses=responses(502, 503, 504))
    async def models(request: Request, server: schema.ServerRequest) -> schema.FoundModels:
        """The models that a server lists, asked with the given key."""
        service.check_open()
        request.state.question()
        return await service.list_models(request, server, request.state.user, request.state.session)

    @router.post(
        "/test",
        summary="Test a model",
        response_class=Response,
        responses=_LINES | responses(409, 503),
    )
    async def test(request: Request, model: schema.ModelRequest) -> Response:
        """Check the address, the key, replies, pictures and coordinates of a model.

        The response is a stream of JSON objects, one a line: `checks` are planned, `result` of each, `end`.
        A client that leaves stops the test.
        """
        service.check_open()
        request.state.question()
        chosen = service.resolve(model, request.state.user, request.state.session)
        return service.begin_test(chosen, request.state.user, request.state.client)

    return router


class _TestStream(StreamingResponse):
    """A streamed response that stops its test, however it ends."""

    def __init__(self, lines: AsyncGenerator[bytes, None], stop: threading.Event) -> None:
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        super().__init__(lines, 200, headers, "application/x-ndjson")
        self._lines = lines
        self._stop = stop

    async def __call__(self, *asgi: Any) -> None:  # noqa: ANN401 - scope, receive and send
        """Send it, until it ends or the client leaves."""
        try:
            async with aclosing(self._lines):
                await super().__call__(*asgi)
        finally:
            self._stop.set()  # the thread ends in a moment; a request that it has sent, at its own time limit


def _without_address(result: schema.CheckResult, base_url: str, title: str) -> schema.CheckResult:
    """Return a result that names a server by its title, for users who may not see its address."""
    message, hint = result.message, result.hint
    for address in (base_url, urlsplit(base_url).netloc):
        message, hint = message.replace(address, title), hint.replace(address, title)
    return result.model_copy(update={"message": message, "hint": hint})


def _line(line: schema.TestLine) -> bytes:
    return line.model_dump_json(exclude_none=True).encode() + b"\n"
