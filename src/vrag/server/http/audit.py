"""The audit of requests: which of them get entries in the audit log, and when these are written.

A request that changes something has two entries with one id: `begun` before it is carried out, and `done`,
`failed` or `refused` before its answer is sent. If the first cannot be written, because the disk is full, the
request is refused (507) and nothing is done; so nothing is ever done by requests that the log does not have.
If only the second cannot be written, the server's log has it, and the answer is sent: the change is made. The
creation of a collection and the deletion of runs have their first entry when it is known which, and none if
the request is invalid. Searches, exports and sign-ins have one entry, before the answer; without it the
answer is not sent.

Refused requests (401, 403, 429) of all routes have entries, up to a number a minute for each address and for
all: else whoever sends many would fill the disk. The others are counted; the next entry of their address has
the number.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from urllib.parse import parse_qs

from cachetools import LRUCache
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from vrag.server.http.audit_log import AuditAction, AuditEntry, AuditLog, AuditResult
from vrag.server.http.background import Threads
from vrag.server.http.errors import Refusal
from vrag.server.http.limits import peer_of
from vrag.server.http.roles import RouteRule, rule_of
from vrag.server.http.users import NOBODY, User
from vrag.server.options import ServerOptions

log = logging.getLogger("vrag.server.audit")
REFUSED = frozenset({401, 403, 429})
MAX_REFUSED, MAX_REFUSED_TOTAL = 30, 600
"""Entries of refused requests in a minute: of one address, and of all."""
_CLIENT_LEFT_STATUS = 499
_MAX_ADDRESSES = 4096
"""Addresses whose refused requests are counted; the one that was silent longest is forgotten first."""


class AuditTrail:
    """The audit log of one application, written by a thread of its own. For one event loop."""

    def __init__(self, log: AuditLog | None, now: Callable[[], float] = time.monotonic) -> None:
        self.log = log
        self._now = now
        self._threads = Threads(1, "vrag-audit")
        self._writing: set[asyncio.Future[None]] = set()
        self._refused: LRUCache[str, int] = LRUCache(_MAX_ADDRESSES)
        """Refused requests of addresses in this minute."""
        self._minute = self._total = 0
        """The minute, and the entries of refused requests in it."""
        self._omitted: LRUCache[str, int] = LRUCache(_MAX_ADDRESSES)
        """Refused requests of addresses without entries, since their last entry."""

    async def write(self, entry: AuditEntry) -> None:
        """Write an entry, unless there is no log. Raises `Refusal` if that fails (507, 503)."""
        try:
            await asyncio.shield(self.begin_write(entry))
        except OSError as error:
            reason = error.strerror or type(error).__name__
            log.error("The audit log cannot be written: %s. Requests are refused.", reason)  # noqa: TRY400
            status = 507 if error.errno in {errno.ENOSPC, errno.EDQUOT, errno.EFBIG} else 503
            hint = "Nothing was done. Ask the administrator to free some disk space or fix the permissions."
            raise Refusal(status, "The audit log of the server cannot be written.", hint) from error

    def begin_write(self, entry: AuditEntry) -> asyncio.Future[None]:
        """Write an entry in the thread; the future raises `OSError` if that fails."""
        if self.log is None:
            done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            done.set_result(None)
            return done
        writing = self._threads.run(partial(self.log.write, entry))
        self._writing.add(writing)
        writing.add_done_callback(self._writing.discard)
        return writing

    def report_failure(self, entry: AuditEntry, error: BaseException) -> None:
        """Log an entry that could not be written."""
        line = entry.model_copy(update={"question": ""}).line.decode()
        log.error("An entry could not be written to the audit log (%s): %s", error, line)

    def admit_refused(self, address: str) -> int | None:
        """Return how many entries of refused requests were omitted before this one; None to omit it too."""
        minute = int(self._now() // 60)
        if minute != self._minute:
            self._minute, self._total = minute, 0
            self._refused.clear()
        count = self._refused.get(address, 0) + 1
        self._refused[address] = count
        if count > MAX_REFUSED or self._total >= MAX_REFUSED_TOTAL:
            self._omitted[address] = self._omitted.get(address, 0) + 1
            return None
        self._total += 1
        return self._omitted.pop(address, 0)

    async def close(self, seconds: float) -> None:
        """Finish what is being written, and close the file."""
        if self._writing:
            await asyncio.wait(self._writing, timeout=seconds)
        await self._threads.close(seconds)
        if self.log is not None:
            self.log.close()


@dataclass(slots=True)
class RequestAudit:
    """The entries of one request, or of one call of a tool in it."""

    trail: AuditTrail
    rule: RouteRule
    common: dict[str, Any]
    """Fields of all entries that the request itself has: its address, method and path."""
    state: dict[str, Any]
    """The state of the request, in which `AuthMiddleware` notes its user."""
    facts: dict[str, Any] = field(default_factory=dict[str, Any])
    id: str = field(default_factory=lambda: secrets.token_hex(8))
    begun: bool = False
    ended: bool = False

    def note(self, **facts: Any) -> None:  # noqa: ANN401 - fields of `AuditEntry`
        """Add fields to the entries that follow; a question only where the log is to have it."""
        if "question" in facts and not (self.trail.log and self.trail.log.with_questions):
            del facts["question"]
        self.facts |= {name: value for name, value in facts.items() if value is not None}

    async def begin(self) -> None:
        """Write the entry before a change. Raises `Refusal` if that fails (507, 503)."""
        if self.rule.changes and self.trail.log is not None:
            await self.trail.write(self._entry(AuditResult.BEGUN))
            self.begun = True

    async def end(self, status: int) -> None:
        """Write the entry before the answer. Raises `Refusal` if the answer must not be sent."""
        if self.ended or self.trail.log is None:
            return
        self.ended = True
        if (entry := self._last_entry(status)) is None:
            return
        if self.begun or status in REFUSED:
            try:
                await asyncio.shield(self.trail.begin_write(entry))
            except OSError as error:
                self.trail.report_failure(entry, error)
        else:
            await self.trail.write(entry)

    def abandon(self, status: int) -> None:
        """Have the last entry written for a request that got no answer; nobody waits for it."""
        if self.ended or self.trail.log is None:
            return
        self.ended = True
        if (entry := self._last_entry(status)) is not None:
            writing = self.trail.begin_write(entry)

            def report(done: asyncio.Future[None]) -> None:
                if not done.cancelled() and (error := done.exception()) is not None:
                    self.trail.report_failure(entry, error)

            writing.add_done_callback(report)

    def of_tool(self, action: AuditAction, *, changes: bool) -> RequestAudit:
        """Return the audit of a call of a tool in this request."""
        return RequestAudit(self.trail, RouteRule(self.rule.role, action, changes), self.common, self.state)

    def _last_entry(self, status: int) -> AuditEntry | None:
        """Return the last entry; None for a request that gets none."""
        if status not in REFUSED:
            result = AuditResult.DONE if status < 400 else AuditResult.FAILED
            return self._entry(result, status) if self.rule.action else None
        if self.begun:
            return self._entry(AuditResult.REFUSED, status)
        omitted = self.trail.admit_refused(self.common["address"])
        return None if omitted is None else self._entry(AuditResult.REFUSED, status, omitted=omitted or None)

    def _entry(self, result: AuditResult, status: int | None = None, **more: Any) -> AuditEntry:  # noqa: ANN401
        user: User = self.state.get("user") or NOBODY
        own: dict[str, Any] = {"user": user.name, "role": user.role or ""}
        fields = own | self.common | self.facts | more
        if self.rule.action is not None:
            fields = {name: value for name, value in fields.items() if name not in {"method", "path"}}
        action = fields.pop("action", self.rule.action or AuditAction.REQUEST)
        return AuditEntry(id=self.id, action=action, result=result, status=status, **fields)


class AuditMiddleware:
    """Gives each request its `RequestAudit`, as `scope["state"]["audit"]`, and writes its last entry."""

    def __init__(self, app: ASGIApp, options: ServerOptions, trail: AuditTrail) -> None:
        self._app = app
        self._options = options
        self._trail = trail

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        audit = self._audit_of(scope)
        scope["state"]["audit"] = audit
        if self._trail.log is None:
            await self._app(scope, receive, send)
            return
        withheld = False

        async def send_audited(message: Message) -> None:
            nonlocal withheld
            if message["type"] == "http.response.start" and not withheld:
                try:
                    await audit.end(message["status"])
                except Refusal as refusal:
                    withheld = True
                    await refusal.response()(scope, receive, send)
            if not withheld:
                await send(message)

        status = _CLIENT_LEFT_STATUS
        try:
            await self._app(scope, receive, send_audited)
        except Exception:
            status = 500
            raise
        finally:
            audit.abandon(status)

    def _audit_of(self, scope: Scope) -> RequestAudit:
        rule, facts = rule_of(scope["method"], scope["path"])
        state = scope.setdefault("state", {})
        common = {
            "address": peer_of(scope, self._options.proxies).address,
            "method": scope["method"],
            "path": scope["path"],
            "request": state.get("request_id", ""),
        }
        facts = {name: facts[name] for name in facts.keys() & AuditEntry.model_fields.keys()}
        if rule.action is AuditAction.STOP_RUN and "remove" in parse_qs(
            scope["query_string"].decode("latin-1"), keep_blank_values=True
        ):
            rule = rule._replace(action=AuditAction.DELETE_RUN)
        return RequestAudit(self._trail, rule, common, state, dict[str, Any](facts))
