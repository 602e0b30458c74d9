"""The least role that each route needs, and the action by which the audit log names its requests.

`ROUTES` is the one table of both, for every route of the application: a test fails for a route without a row.
`AuthMiddleware` looks a request up before it reaches its route.
"""

from __future__ import annotations

import re
from collections import defaultdict
from typing import NamedTuple

from vrag.server.http.audit_log import AuditAction
from vrag.server.http.errors import Refusal
from vrag.server.http.users import User, UserRole


class RouteRule(NamedTuple):
    """The role that a route needs, and its action in the audit log."""

    role: UserRole | None
    """The least role; None for a public route, which needs no token."""
    action: AuditAction | None = None
    """None if only refused requests are logged."""
    changes: bool = False
    """True if an entry is written before the request is carried out, and not only before its answer."""
    begins_itself: bool = False
    """True if the route writes that entry: what it is about to change is known only there."""


_OPEN, _READ = RouteRule(None), RouteRule(UserRole.ASK)
ROUTES: dict[tuple[str, str], RouteRule] = {
    ("GET", "/"): _OPEN,
    ("GET", "/favicon.ico"): _OPEN,
    ("GET", "/static/{path:path}"): _OPEN,
    ("GET", "/healthz"): _OPEN,
    ("GET", "/session"): _OPEN,
    ("POST", "/session"): RouteRule(None, AuditAction.SIGN_IN),
    ("DELETE", "/session"): RouteRule(None, AuditAction.SIGN_OUT),
    ("GET", "/docs"): _READ,
    ("GET", "/openapi.json"): _READ,
    ("GET", "/version"): _READ,
    ("GET", "/metrics"): _READ,
    ("GET", "/options"): _READ,
    ("GET", "/search"): RouteRule(UserRole.ASK, AuditAction.SEARCH),
    ("POST", "/search"): RouteRule(UserRole.ASK, AuditAction.SEARCH),
    ("GET", "/conflicts"): _READ,
    ("GET", "/items/{id}"): _READ,
    ("GET", "/items/{id}/image"): _READ,
    ("GET", "/items/{id}/crop"): _READ,
    ("GET", "/items/{id}/part"): _READ,
    ("GET", "/items/{id}/clip"): _READ,
    ("GET", "/items/{id}/words"): _READ,
    ("GET", "/items/{id}/find"): _READ,
    ("GET", "/documents/{id}"): _READ,
    ("GET", "/documents/{id}/find"): _READ,
    ("GET", "/documents/{id}/file"): _READ,
    ("GET", "/retention"): RouteRule(UserRole.ADMINISTER),
    ("GET", "/runs"): _READ,
    ("POST", "/runs"): RouteRule(UserRole.ASK, AuditAction.ASK, changes=True),
    ("DELETE", "/runs"): RouteRule(
        UserRole.ADMINISTER, AuditAction.PURGE_RUNS, changes=True, begins_itself=True
    ),
    ("GET", "/runs/{id}"): _READ,
    ("PATCH", "/runs/{id}"): RouteRule(UserRole.ASK, AuditAction.CHANGE_RUN, changes=True),
    ("DELETE", "/runs/{id}"): RouteRule(UserRole.ASK, AuditAction.STOP_RUN, changes=True),
    ("GET", "/runs/{id}/events"): _READ,
    ("GET", "/runs/{id}/files/{sha256}.jpg"): _READ,
    ("GET", "/runs/{id}/export"): RouteRule(UserRole.ASK, AuditAction.EXPORT),
    ("POST", "/reports"): RouteRule(UserRole.ASK, AuditAction.EXPORT),
    ("GET", "/v1/models"): _READ,
    ("GET", "/v1/models/{id:path}"): _READ,
    ("POST", "/v1/chat/completions"): RouteRule(UserRole.ASK, AuditAction.ASK, changes=True),
    ("POST", "/v1/responses"): RouteRule(UserRole.ASK, AuditAction.ASK, changes=True),
    ("GET", "/mcp"): _READ,
    ("POST", "/mcp"): _READ,  # its tools write entries of their own
    ("GET", "/collections"): _READ,
    ("POST", "/collections"): RouteRule(
        UserRole.MANAGE, AuditAction.CREATE_COLLECTION, changes=True, begins_itself=True
    ),
    ("DELETE", "/collections/{name}"): RouteRule(
        UserRole.MANAGE, AuditAction.DELETE_COLLECTION, changes=True
    ),
    ("GET", "/collections/{name}/documents"): _READ,
    ("GET", "/collections/{name}/questions"): _READ,
    ("PUT", "/collections/{name}/documents/{filename:anything}"): RouteRule(
        UserRole.UPLOAD, AuditAction.UPLOAD, changes=True
    ),
    ("DELETE", "/collections/{name}/documents/{id}"): RouteRule(
        UserRole.UPLOAD, AuditAction.REMOVE_DOCUMENT, changes=True
    ),
    ("POST", "/collections/{name}/documents/{id}/retry"): RouteRule(
        UserRole.UPLOAD, AuditAction.RETRY, changes=True
    ),
    ("GET", "/collections/{name}/jobs"): _READ,
    ("GET", "/jobs/{id}"): _READ,
    ("DELETE", "/jobs/{id}"): RouteRule(UserRole.UPLOAD, AuditAction.CANCEL_UPLOAD, changes=True),
    ("GET", "/setup"): _READ,
    # The choice for the own browser; the choice for all needs `administer`, by `SetupService.choose_for_all`.
    ("PUT", "/setup"): RouteRule(UserRole.ASK, AuditAction.CHOOSE_MODEL, changes=True),
    ("DELETE", "/setup"): RouteRule(UserRole.ASK, AuditAction.REMOVE_MODEL, changes=True),
    ("GET", "/setup/servers"): RouteRule(UserRole.ADMINISTER),
    ("POST", "/setup/models"): _READ,
    ("POST", "/setup/test"): _READ,
}
_UNKNOWN_CHANGE = RouteRule(UserRole.ADMINISTER)
_ABILITIES = {
    UserRole.ASK: "ask and search",
    UserRole.UPLOAD: "add, change or remove documents",
    UserRole.MANAGE: "create or delete collections",
    UserRole.ADMINISTER: "administer the server",
}


def rule_of(method: str, path: str) -> tuple[RouteRule, dict[str, str]]:
    """Return the rule of a request, and the parameters of its path by the names of audit entries.

    A method that the path does not have needs the least role of those that it has: whoever may send one of
    them learns which there are (405). Of an unknown path, what reads needs `ask` and everything else
    `administer`.

    >>> rule_of("DELETE", "/collections/a/documents/b")[0].role, rule_of("HEAD", "/runs/1")[1]
    (<UserRole.UPLOAD: 'upload'>, {'run': '1'})
    >>> rule_of("PUT", "/collections")[0].role, rule_of("PUT", "/unknown")[0].role
    (<UserRole.ASK: 'ask'>, <UserRole.ADMINISTER: 'administer'>)
    """
    method = "GET" if method == "HEAD" else method
    for pattern, rule in _PATTERNS.get(method, ()):
        if match := pattern.match(path):
            return rule, match.groupdict()
    rules = [rule for rows in _PATTERNS.values() for pattern, rule in rows if pattern.match(path)]
    for role in (None, *UserRole):
        if any(rule.role is role for rule in rules):
            return RouteRule(role), {}
    return (_READ if method in {"GET", "OPTIONS"} else _UNKNOWN_CHANGE), {}


def _pattern(path: str) -> re.Pattern[str]:
    """Compile the path of a route, as Starlette does; the groups have the names of audit entries."""
    section = path.split("/")[1]
    names = {
        "name": "collection",
        "filename": "file",
        "path": "static_path",
        "id": _ID_NAMES.get(section, "document"),
    }
    wild = {"": "[^/]+", ":path": ".*", ":anything": "(?s:.+)"}
    pattern = ""
    for literal, name, convertor in re.findall(r"([^{]*)(?:\{(\w+)(:\w+)?\})?", path):
        pattern += re.escape(literal)
        pattern += f"(?P<{names.get(name, name)}>{wild[convertor]})" if name else ""
    return re.compile(f"^{pattern}$")


_ID_NAMES = {"runs": "run", "jobs": "job", "items": "item", "v1": "model"}
_PATTERNS: dict[str, list[tuple[re.Pattern[str], RouteRule]]] = defaultdict(list)
for (_method, _path), _rule in ROUTES.items():
    _PATTERNS[_method].append((_pattern(_path), _rule))


def check_role(user: User, role: UserRole) -> None:
    """Check that a user has a role. Raises `Refusal` (403) that says what is missing, and who can give it."""
    if not user.may(role):
        raise Refusal(403, _missing(user, role), _hint(user, role), reason="role")


def missing_role(user: User, role: UserRole) -> str:
    """Say why a user may not do what needs a role, and who can allow it; empty if the user may."""
    return "" if user.may(role) else f"{_missing(user, role)} {_hint(user, role)}"


def _missing(user: User, role: UserRole) -> str:
    own = f"has the role {user.role.value}, which" if user.role else "has no role, and"
    return f"Your token {own} does not allow you to {_ABILITIES[role]}."


def _hint(user: User, role: UserRole) -> str:
    return f"An administrator of this server can allow it: vrag tokens role {user.name} {role.value}"
