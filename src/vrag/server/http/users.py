"""Users: who sends a request, by the token that it came with."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class User:
    """A user. `AuthMiddleware` puts that of each request into `scope["state"]["user"]`."""

    name: str
    """The name of the token; empty where the server has no tokens, and for a request without one."""
    is_admin: bool
    """True if the user sees the runs of all users and may change the set-up of the server."""


EVERYBODY = User("", is_admin=True)
"""The one user of a server without tokens."""
NOBODY = User("", is_admin=False)
"""The user of a request that has no token where one is needed: it reaches only public routes."""
SERVER_ADMIN = User("admin", is_admin=True)
"""The user of the server's own token, `--token`."""
