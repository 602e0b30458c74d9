"""Which route a request went to, by its template: what logs and counters say in place of the address."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from starlette.types import Scope

__all__ = ["NO_ROUTE", "template_of"]

NO_ROUTE = "none"
"""Of requests that reached no route: refused before, or for what is not there."""


def template_of(scope: Scope) -> str:
    """The template of the route that took a request, once it was answered; `none` when none did.

    FastAPI says it of its own routes. Of those of Starlette, such as mounted files, the application's list
    is asked; it says `/static/{path}`. The address itself is never told: clients choose it.
    """
    route = scope.get("route")
    if route is None and (endpoint := scope.get("endpoint")) is not None:
        routes = getattr(scope.get("app"), "routes", ())
        route = next((route for route in routes if _leads_to(route) is endpoint), None)
    return str(getattr(route, "path_format", NO_ROUTE))


def _leads_to(route: object) -> object:
    """What a route calls: of a mount the application behind it."""
    return getattr(route, "endpoint", None) or getattr(route, "app", None)
