"""`remote:MODEL@URL`, `remote-chat:MODEL@URL` and `pooling:MODEL@URL`: vectors from a server.

The first two use the embeddings API of OpenAI, `POST /v1/embeddings`, the third vLLM's
`POST /pooling`, which gives one vector per token. Images are sent as vLLM takes them, as chat `messages`,
one request each; with `remote-chat` texts are, too, between the system prompt and the empty answer
that Qwen3-VL-Embedding is served with.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import random
import re
import threading
import weakref
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, cast

import httpx
import numpy as np
import tenacity
from PIL import Image

from vrag.chat.http_clients import checked_key, uses_proxy
from vrag.embed.embedder import EmbedContent, Modality, VectorKind
from vrag.embed.model_kind import QWEN3_INSTRUCTION
from vrag.embed.options import EmbedOptions
from vrag.errors import EmbedderFailedError, EmbedError
from vrag.providers import complete_address, complete_embedder, hide_credentials, reachable, redact_key

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

_ADDRESS = re.compile(r"(?P<model>.+?)@(?P<url>(?:https?://|:|localhost|[^\s@?#/]+:[0-9])[^\s@?#]+)")
_CONNECT_SECONDS = 5.0
_ATTEMPTS = 5
_TOO_MANY_REQUESTS = 429
_BUSY_STATUSES = {408, 425, _TOO_MANY_REQUESTS}
_REQUEST_STATUSES = {400, 413, 415, 422}
"""Refusals that blame the request."""
_PROBES = ("vrag: shore power for ferries", "vrag: 收入 2023, in thousands")
"""Texts embedded when the embedder is opened, to recognise the server's model."""


class Address:
    """The address of a model on a server, `MODEL@URL`.

    The URL may end in `/v1` or leave it out. User names, passwords and queries are not taken in URLs.

    >>> Address("Qwen/Qwen3-VL-Embedding-2B@http://localhost:8000/v1").pooling
    'http://localhost:8000/pooling'

    Raises `EmbedError` if it is not such an address.
    """

    def __init__(self, text: str) -> None:
        found = _ADDRESS.fullmatch(text)
        if found is None:
            raise EmbedError(
                f"{hide_credentials(text)!r} does not name a model on a server.",
                "Write MODEL@URL: my-model@http://localhost:8000/v1",
            )
        self.model: str = found["model"]
        root = reachable(complete_address(found["url"])).rstrip("/").removesuffix("/v1")
        self.embeddings = f"{root}/v1/embeddings"
        """The URL that returns one vector per input."""
        self.pooling = f"{root}/pooling"
        """The URL that returns one vector per token."""


class RemoteEmbedder:
    """An `Embedder` whose model runs on a server.

    Whether it takes images is tried when it is opened: a server that refuses a small image embeds text
    alone. Requests are retried while the server is unreachable, busy (429) or failing (5xx), up to five
    times with growing pauses; `Retry-After` is heeded. Redirects are not followed. After the last failure
    a request that succeeded before shows whether the request or the server is to blame.

    The fingerprint is a hash over the model's name, the name that the server reports, the kind and
    dimension of vectors, and the place and sign of the greatest number in the vectors of two fixed
    texts. It does not contain the URL: a server may move. It tells other models and revisions apart,
    since those places change; the same model on other hardware keeps it but for chance near-ties.

    The address is `MODEL@URL`; `kind` chooses one vector per input, or one per token. The options have the
    batch size, the time-out and the bearer token. With `chat`, texts are sent as chat messages, with a system
    prompt and an answer to be continued; `pause` is the seconds before the first retry. Raises
    `EmbedderFailedError` if the server cannot be reached or fails, and `EmbedError` if its answer does not
    follow its API.
    """

    settings: Mapping[str, str | int] = MappingProxyType({})
    """Empty: the server decides precision and sizes of images."""

    def __init__(
        self,
        address: str,
        options: EmbedOptions | None = None,
        *,
        kind: VectorKind = VectorKind.SINGLE,
        chat: bool = False,
        name: str = "",
        pause: float = 0.5,
    ) -> None:
        self._options = options = options or EmbedOptions()
        self._address = Address(address)
        self.kind = kind
        scheme = "pooling" if kind is VectorKind.MULTI else "remote-chat" if chat else "remote"
        self.name = name or complete_embedder(f"{scheme}:{address}")
        options.refuse_instructions(self.name)
        self._chat = chat
        self._key = checked_key(options.api_key, "VRAG_EMBED_KEY", "embedding server")
        headers = {"Authorization": f"Bearer {self._key}"} if self._key else {}
        limits = httpx.Timeout(options.timeout, connect=_CONNECT_SECONDS)
        self._client = httpx.Client(
            headers=headers,
            timeout=limits,
            follow_redirects=False,
            trust_env=uses_proxy(self._address.embeddings),
        )
        self._closed = weakref.finalize(self, self._client.close)
        self._pause = pause
        self._lock = threading.Lock()
        self.dimension = 0
        self._reported = ""
        self._answered_request: tuple[str, dict[str, Any]] | None = None
        self.fingerprint = self._fingerprint(self.embed_queries(_PROBES))
        self.modalities = frozenset({Modality.TEXT, Modality.IMAGE})
        try:
            self._embed_chat(EmbedContent(image=Image.new("RGB", (112, 112), "white")))
        except _RequestRefused:
            self.modalities = frozenset({Modality.TEXT})

    def close(self) -> None:
        """Close the connections; garbage collection does so, too."""
        self._closed()

    def embed_items(self, contents: Sequence[EmbedContent]) -> Sequence[NDArray[np.float32]]:
        """Embed contents; see `Embedder.embed_items`.

        Raises `EmbedError` if the server cannot embed one of them, or its answer cannot be used, and
        `EmbedderFailedError` if it is unreachable or fails at any request.
        """
        for content in contents:
            if missing := content.modalities - self.modalities:
                raise EmbedError(f"{self.name} cannot embed {', '.join(sorted(missing))}.")
            if not content.modalities:
                raise EmbedError(f"{self.name} cannot embed an empty content.")
        texts = [content.text for content in contents if content.image is None]
        vectors = iter(self.embed_queries(texts))
        return [next(vectors) if content.image is None else self._embed_chat(content) for content in contents]

    def embed_queries(self, queries: Sequence[str]) -> Sequence[NDArray[np.float32]]:
        """Embed queries; see `Embedder.embed_queries`. Raises as `embed_items` does."""
        if self._chat:
            return [self._embed_chat(EmbedContent(text=query)) for query in queries]
        vectors: list[NDArray[np.float32]] = []
        for start in range(0, len(queries), self._options.batch):
            batch = list(queries[start : start + self._options.batch])
            vectors += self._request({"input": batch}, len(batch))
        return vectors

    def _embed_chat(self, content: EmbedContent) -> NDArray[np.float32]:
        """Embed a content that is sent as chat messages."""
        parts: list[dict[str, Any]] = []
        if content.image is not None:
            file = io.BytesIO()
            content.image.convert("RGB").save(file, "PNG")
            url = f"data:image/png;base64,{base64.b64encode(file.getvalue()).decode()}"
            parts.append({"type": "image_url", "image_url": {"url": url}})
        if content.text:
            parts.append({"type": "text", "text": content.text})
        messages: list[dict[str, Any]] = [{"role": "user", "content": parts}]
        if not self._chat:
            return self._request({"messages": messages}, 1)[0]
        system = {"role": "system", "content": [{"type": "text", "text": QWEN3_INSTRUCTION}]}
        answer = {"role": "assistant", "content": [{"type": "text", "text": ""}]}
        options = {"continue_final_message": True, "add_generation_prompt": False, "add_special_tokens": True}
        return self._request({"messages": [system, *messages, answer], **options}, 1)[0]

    def _request(self, request: dict[str, Any], count: int) -> list[NDArray[np.float32]]:
        """Send one request for `count` vectors; retry while that may help."""
        single = self.kind is VectorKind.SINGLE
        url = self._address.embeddings if single else self._address.pooling
        body = {"model": self._address.model, "encoding_format": "base64" if single else "float", **request}
        try:
            answer = tenacity.Retrying(
                retry=tenacity.retry_if_exception_type(_ServerBusy),
                stop=tenacity.stop_after_attempt(_ATTEMPTS),
                wait=self._pause_seconds,
                reraise=True,
            )(self._post, url, body)
        except _RequestFailed as error:
            if error.of_request or (error.of_request is None and self._answers_again()):
                raise
            raise EmbedderFailedError(error.message, error.hint) from error
        vectors = [_to_array(entry, single) for entry in _entries(answer, count, single)]
        with self._lock:
            for vector in vectors:
                self._check(vector)
            self._reported = self._reported or str(answer.get("model", ""))
            self._answered_request = self._answered_request or (url, body)
        return vectors

    def _answers_again(self) -> bool:
        """Return whether the server now answers a request that it answered before."""
        if self._answered_request is None:
            return False
        try:
            self._post(*self._answered_request)
        except EmbedError:
            return False
        return True

    def _check(self, vector: NDArray[np.float32]) -> None:
        axes = 1 if self.kind is VectorKind.SINGLE else 2
        if vector.ndim != axes or not vector.size:
            raise EmbedError(
                f"{self.name} returned vectors of shape {vector.shape}.",
                "Use remote: for one vector per input and pooling: for one per token.",
            )
        self.dimension = self.dimension or vector.shape[-1]
        if vector.shape[-1] != self.dimension:
            raise EmbedError(
                f"{self.name} returned {vector.shape[-1]} numbers after {self.dimension} before."
            )
        if not np.isfinite(vector).all():
            raise EmbedError(f"{self.name} returned a vector that is not finite.")

    def _pause_seconds(self, state: tenacity.RetryCallState) -> float:
        error = state.outcome.exception() if state.outcome else None
        retry_after = error.retry_after if isinstance(error, _ServerBusy) else 0.0
        return max(retry_after, self._pause * (2**state.attempt_number - random.random()))

    def _post(self, url: str, body: Mapping[str, Any]) -> dict[str, Any]:
        try:
            answer = self._client.post(url, json=body)
        except httpx.TransportError as error:
            raise _ServerBusy(
                f"The server at {url} does not answer: {type(error).__name__} {error}".rstrip() + ".",
                "Start it, or correct the URL.",
                of_request=False if isinstance(error, (httpx.ConnectError, httpx.ConnectTimeout)) else None,
            ) from error
        if answer.status_code in _BUSY_STATUSES or answer.status_code >= 500:
            header = answer.headers.get("Retry-After", "")
            seconds = float(header) if header.replace(".", "", 1).isdigit() else 0.0  # dates are not read
            raise _ServerBusy(
                self._describe(url, answer),
                "Try later.",
                retry_after=min(seconds, 60.0),
                of_request=False if answer.status_code == _TOO_MANY_REQUESTS else None,
            )
        if not answer.is_success:
            hint = "Set the API key." if answer.status_code in {401, 403} else ""
            raise _RequestRefused(
                self._describe(url, answer), hint, of_request=answer.status_code in _REQUEST_STATUSES or None
            )
        try:
            data = answer.json()
        except ValueError as error:
            raise EmbedError(
                f"{url} did not answer with JSON.", "Check that it is an embedding server."
            ) from error
        if not isinstance(data, dict):
            raise EmbedError(f"{url} did not answer with an object.", "Check that it is an embedding server.")
        return cast("dict[str, Any]", data)

    def _describe(self, url: str, answer: httpx.Response) -> str:
        """Say what a server answered; a key that it repeats is left out, and it cannot steer a terminal."""
        text = redact_key(answer.text, self._key)
        line = " ".join("".join(c if c.isprintable() else " " for c in text).split())[:300]
        return f"{url} answered {answer.status_code}" + (f": {line}" if line else ".")

    def _fingerprint(self, probes: Sequence[NDArray[np.float32]]) -> str:
        peaks: list[int] = []
        for probe in probes:
            vector = probe if probe.ndim == 1 else probe.sum(axis=0)
            place = int(np.abs(vector).argmax())
            peaks.append(place if vector[place] >= 0 else ~place)
        parts = [self._address.model, self._reported, str(self.kind), self._chat, self.dimension, peaks]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


class _RequestFailed(EmbedError):
    """A request got no usable answer.

    `retry_after` is in seconds; `of_request` says whether the request is to blame, None when unknown.
    """

    def __init__(
        self, message: str, hint: str = "", *, retry_after: float = 0.0, of_request: bool | None = None
    ) -> None:
        super().__init__(message, hint)
        self.retry_after = retry_after
        self.of_request = of_request


class _ServerBusy(_RequestFailed):
    """The server is unreachable, busy or failing: another attempt may help."""


class _RequestRefused(_RequestFailed):
    """The server refused this request: another attempt does not help."""


def _entries(answer: Mapping[str, Any], count: int, single: bool) -> list[Any]:
    """Return the embeddings of an answer in the order of the inputs.

    Raises `EmbedError` if there are not as many as inputs.
    """
    listed: object = answer.get("data")
    if not isinstance(listed, list):
        raise EmbedError("The server's answer has no list `data`.", "Check that it is an embedding server.")
    entries = cast("list[object]", listed)
    by_index: dict[int, Any] = {}
    for place, entry in enumerate(entries):
        if not isinstance(entry, dict):
            raise EmbedError("The server's answer has an entry that is not an object.")
        fields = cast("dict[str, Any]", entry)
        by_index[fields.get("index", place)] = fields.get("embedding" if single else "data")
    if len(entries) != count or by_index.keys() != set(range(count)):
        raise EmbedError(
            f"The server returned entries {list(by_index)} for {count} inputs.",
            "Check that it is an embedding server.",
        )
    return [by_index[place] for place in range(count)]


def _to_array(entry: object, single: bool) -> NDArray[np.float32]:
    """Convert an embedding: a list, lists of lists, or little-endian float32 in base64."""
    try:
        if single and isinstance(entry, str):
            return np.frombuffer(base64.b64decode(entry, validate=True), dtype="<f4").astype(np.float32)
        return np.asarray(entry, dtype=np.float32)
    except (ValueError, TypeError) as error:
        raise EmbedError(f"The server returned numbers that cannot be read: {error}.") from error
