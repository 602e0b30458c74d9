"""A server with all its interfaces, over the tiny corpus and a scripted policy."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hosting import Nothing, PacedPolicy, Scripted
from server_harness import serving

from vrag.server.app import Service

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence
    from pathlib import Path

    from vrag.search.searcher import Searcher
    from vrag.server.options import ServerOptions


@dataclass
class Doors:
    """A server that runs."""

    address: str
    answering: Scripted

    @property
    def policy(self) -> PacedPolicy:
        return self.answering.policy


def scripted(
    directory: Path, replies: Sequence[str] | None = None, *, paced: bool = False, piece: int = 1000
) -> Scripted:
    """An `AgentProvider` of some replies, at once unless it is paced, in pieces of so many characters."""
    policy = PacedPolicy(piece=piece) if replies is None else PacedPolicy(replies, piece=piece)
    if not paced:
        policy.go.set()
    return Scripted(directory, policy)


@contextlib.contextmanager
def doors(
    answering: Scripted, options: ServerOptions | None = None, searcher: Searcher | None = None
) -> Generator[Doors]:
    """The server, on a socket of this machine."""
    service = Service(answering, Nothing("The documents lie elsewhere."))
    with serving(searcher or answering.searcher, options, service=service) as address:
        yield Doors(address, answering)
