"""Doors for OpenAI's official client, and the client."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from completions_client import CLIENTS, CROP, client_of
from hosting import ANSWER, SEARCH
from service_harness import Doors, doors, scripted

if TYPE_CHECKING:
    from collections.abc import Generator

    import openai


@pytest.fixture
def closing() -> Generator[None]:
    """Closes the clients that a test opens."""
    yield
    while CLIENTS:
        CLIENTS.pop().close()


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Generator[Doors]:
    with doors(scripted(tmp_path_factory.mktemp("runs"), (SEARCH, CROP, ANSWER))) as opened:
        yield opened


@pytest.fixture
def client(served: Doors) -> openai.OpenAI:
    return client_of(served.address)
