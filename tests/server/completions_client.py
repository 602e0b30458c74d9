"""The official client of OpenAI's door, and what it is asked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import openai
from hypothesis import strategies as st

from vrag.agent.evidence import Evidence
from vrag.types import ItemKind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from openai.types.chat import ChatCompletionChunk

QUESTION: Any = [{"role": "user", "content": "How many passengers?"}]
CROP = "<think>Closer.</think><bbox>[0, 0, 300, 200]</bbox>"


CLIENTS: list[openai.OpenAI] = []


def client_of(address: str, key: str = "none", retries: int = 0) -> openai.OpenAI:
    """The official client; closed when the test ends."""
    client = openai.OpenAI(base_url=f"{address}/v1", api_key=key, max_retries=retries, timeout=120)
    CLIENTS.append(client)
    return client


def extra(thing: Any) -> dict[str, Any]:  # noqa: ANN401
    """Fields that the client's type does not know."""
    return thing.model_extra or {}


def joined(chunks: Iterator[ChatCompletionChunk]) -> str:
    return "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)


def place(document: str = "a.pdf", page: int = 1) -> Evidence:
    return Evidence(
        item=f"{'0' * 16}-{page}",
        document=document,
        document_id="0" * 64,
        page=page,
        kind=ItemKind.PAGE,
        box=(0.25, 0.0, 0.5, 1.0),
    )


PLACES = st.integers(0, 12).map(lambda number: tuple(place(page=page) for page in range(1, number + 1)))
