"""`remote:MODEL@URL`, `remote-chat:MODEL@URL` and `pooling:MODEL@URL`: vectors from a server.

The first two speak the embeddings API of OpenAI, `POST /v1/embeddings`, the third vLLM's
`POST /pooling`, which gives one vector per token. Pictures go as vLLM takes them, as chat `messages`,
one request each; with `remote-chat` texts do so, too, between the system prompt and the empty answer
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

from vrag.addresses import reachable
from vrag.embed.embedder import EmbedContent, Modality, VectorKind
from vrag.embed.options import EmbedOptions
from vrag.errors import EmbedderGone, EmbedError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray
    from PIL.Image import Image

__all__ = ["Address", "RemoteEmbedder"]

_ADDRESS = re.compile(r"(?P<model>.+?)@(?P<url>https?://[^\s@]+)")
_CONNECT_SECONDS = 5.0
_ATTEMPTS = 5
_TOO_MANY = 429
_BUSY = {408, 425, _TOO_MANY}
_OF_REQUEST = {400, 413, 415, 422}
"""Refusals that blame what was asked."""
_INSTRUCTION = "Represent the user's input."
"""The system prompt of Qwen3-VL-Embedding where nothing more particular is asked for."""
_PROBES = ("vrag: shore power for ferries", "vrag: 收入 2023, in thousands")
"""Texts embedded when the embedder is opened, to know the server's model again."""


class Address:
    """A model and the server that has it, as `MODEL@URL` names them.

    The URL may end in `/v1` or leave it out. User names and passwords are not taken in URLs.

    >>> Address("Qwen/Qwen3-VL-Embedding-2B@http://localhost:8000/v1").pooling
    'http://localhost:8000/pooling'

    Raises:
        EmbedError: If it is no such address.
    """

    def __init__(self, text: str) -> None:
        found = _ADDRESS.fullmatch(text)
        if found is None:
            raise EmbedError(
                f"{text!r} names no model on a server.", "Write MODEL@URL: my-model@http://localhost:8000/v1"
            )
        self.model: str = found["model"]
        self._root = reachable(found["url"]).rstrip("/").removesuffix("/v1")

    @property
    def embeddings(self) -> str:
        """Where one vector per input is asked for."""
        return f"{self._root}/v1/embeddings"

    @property
    def pooling(self) -> str:
        """Where one vector per token is asked for."""
        return f"{self._root}/pooling"


class RemoteEmbedder:
    """An `Embedder` whose model runs on a server.

    What it looks at is found out when it is opened: a server that refuses a small picture embeds text
    alone. Requests are repeated while the server is away, too busy (429) or failing (5xx), up to five
    times with growing pauses; `Retry-After` is heeded. Redirects are not followed. Whether what was
    asked or the server is to blame in the end, a request tells that it has answered before.

    The fingerprint is a hash over the model's name, the name that the server reports, the kind and
    dimension of vectors, and the place and sign of the greatest number in the vectors of two fixed
    texts. It does not contain the URL: a server may move. It tells other models and revisions apart,
    since those places change; the same model on other hardware keeps it but for chance near-ties.

    Args:
        address: `MODEL@URL`.
        options: Batch, time-out and bearer token.
        kind: Whether to ask for one vector per input, or one per token.
        chat: Whether texts go as chat messages, with a system prompt and an answer to be continued.
        name: How settings name it.
        pause: Seconds before the first repetition.

    Raises:
        EmbedderGone: If the server cannot be reached or fails.
        EmbedError: If it does not answer as its API says.
    """

    settings: Mapping[str, str | int] = MappingProxyType({})
    """None: precision and sizes of pictures are the server's matter."""

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
        self.name = name or f"{scheme}:{address}"
        options.refuse_instructions(self.name)
        self._chat = chat
        headers = {"Authorization": f"Bearer {options.api_key}"} if options.api_key else {}
        limits = httpx.Timeout(options.timeout, connect=_CONNECT_SECONDS)
        self._client = httpx.Client(headers=headers, timeout=limits, follow_redirects=False)
        self._closed = weakref.finalize(self, self._client.close)
        self._pause = pause
        self._lock = threading.Lock()
        self.dimension = 0
        self._reported = ""
        self._answered: tuple[str, dict[str, Any]] | None = None
        self.fingerprint = self._fingerprint(self.embed_queries(_PROBES))
        self.modalities = frozenset({Modality.TEXT, Modality.IMAGE} if self._sees() else {Modality.TEXT})

    def close(self) -> None:
        """Closes the connections; so does forgetting the embedder."""
        self._closed()

    def embed_items(self, contents: Sequence[EmbedContent]) -> Sequence[NDArray[np.float32]]:
        """The vectors of contents, in their order; see `Embedder.embed_items`.

        Raises:
            EmbedError: If the server cannot embed one of them, or its answer cannot be used.
            EmbedderGone: If it is away or fails whatever it is asked.
        """
        for content in contents:
            if missing := content.modalities - self.modalities:
                raise EmbedError(f"{self.name} does not look at {', '.join(sorted(missing))}.")
            if not content.modalities:
                raise EmbedError(f"{self.name} was given nothing to look at.")
        texts = [content.text for content in contents if content.image is None]
        embedded = iter(self._texts(texts))
        return [next(embedded) if one.image is None else self._message(one) for one in contents]

    def embed_queries(self, queries: Sequence[str]) -> Sequence[NDArray[np.float32]]:
        """The vectors of queries, in their order; see `Embedder.embed_queries`.

        Raises:
            EmbedError: If the server cannot embed one of them, or its answer cannot be used.
            EmbedderGone: If it is away or fails whatever it is asked.
        """
        return self._texts(queries)

    def _texts(self, texts: Sequence[str]) -> list[NDArray[np.float32]]:
        if self._chat:
            return [self._message(EmbedContent(text=text)) for text in texts]
        made: list[NDArray[np.float32]] = []
        for start in range(0, len(texts), self._options.batch):
            batch = list(texts[start : start + self._options.batch])
            made += self._asked({"input": batch}, len(batch))
        return made

    def _message(self, content: EmbedContent) -> NDArray[np.float32]:
        """The vector of what goes as a chat."""
        parts: list[dict[str, Any]] = []
        if content.image is not None:
            parts.append({"type": "image_url", "image_url": {"url": _data_url(content.image)}})
        if content.text:
            parts.append({"type": "text", "text": content.text})
        messages: list[dict[str, Any]] = [{"role": "user", "content": parts}]
        if not self._chat:
            return self._asked({"messages": messages}, 1)[0]
        system = {"role": "system", "content": [{"type": "text", "text": _INSTRUCTION}]}
        answer = {"role": "assistant", "content": [{"type": "text", "text": ""}]}
        around = {"continue_final_message": True, "add_generation_prompt": False, "add_special_tokens": True}
        return self._asked({"messages": [system, *messages, answer], **around}, 1)[0]

    def _sees(self) -> bool:
        """Whether the server takes a picture."""
        from PIL import Image as Images

        try:
            self._message(EmbedContent(image=Images.new("RGB", (112, 112), "white")))
        except _Refused:
            return False
        return True

    def _asked(self, request: dict[str, Any], count: int) -> list[NDArray[np.float32]]:
        """The vectors that the server gives for one request."""
        single = self.kind is VectorKind.SINGLE
        url = self._address.embeddings if single else self._address.pooling
        body = {"model": self._address.model, "encoding_format": "base64" if single else "float", **request}
        try:
            answer = self._repeated(lambda: self._post(url, body))
        except _Failure as error:
            if error.of_request or (error.of_request is None and self._answers()):
                raise
            raise EmbedderGone(error.message, error.hint) from error
        vectors = [_numbers(entry, single) for entry in _entries(answer, count, single)]
        with self._lock:
            for vector in vectors:
                self._check(vector)
            self._reported = self._reported or str(answer.get("model", ""))
            self._answered = self._answered or (url, body)
        return vectors

    def _answers(self) -> bool:
        """Whether the server answers now what it has answered before."""
        if self._answered is None:
            return False
        try:
            self._post(*self._answered)
        except EmbedError:
            return False
        return True

    def _check(self, vector: NDArray[np.float32]) -> None:
        axes = 1 if self.kind is VectorKind.SINGLE else 2
        if vector.ndim != axes or not vector.size:
            raise EmbedError(
                f"{self.name} gave numbers of shape {vector.shape}.",
                "Use remote: for one vector per input and pooling: for one per token.",
            )
        self.dimension = self.dimension or vector.shape[-1]
        if vector.shape[-1] != self.dimension:
            raise EmbedError(f"{self.name} gave {vector.shape[-1]} numbers after {self.dimension} before.")
        if not np.isfinite(vector).all():
            raise EmbedError(f"{self.name} gave a vector that is not finite.")

    def _repeated(self, ask: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """What the server answers, asked again while that may help."""

        def pause(state: tenacity.RetryCallState) -> float:
            failed = state.outcome.exception() if state.outcome else None
            asked = failed.after if isinstance(failed, _Busy) else 0.0
            return max(asked, self._pause * (2**state.attempt_number - random.random()))

        retrying = tenacity.Retrying(
            retry=tenacity.retry_if_exception_type(_Busy),
            stop=tenacity.stop_after_attempt(_ATTEMPTS),
            wait=pause,
            reraise=True,
        )
        return retrying(ask)

    def _post(self, url: str, body: Mapping[str, Any]) -> dict[str, Any]:
        try:
            answer = self._client.post(url, json=body)
        except httpx.TransportError as error:
            raise _Busy(
                f"The server at {url} does not answer: {type(error).__name__} {error}".rstrip() + ".",
                "Start it, or correct the URL.",
                of_request=False if isinstance(error, (httpx.ConnectError, httpx.ConnectTimeout)) else None,
            ) from error
        if answer.status_code in _BUSY or answer.status_code >= 500:
            raise _Busy(
                _complaint(url, answer),
                "Try later.",
                after=_seconds(answer.headers.get("Retry-After")),
                of_request=False if answer.status_code == _TOO_MANY else None,
            )
        if not answer.is_success:
            hint = "Set the API key." if answer.status_code in {401, 403} else ""
            raise _Refused(
                _complaint(url, answer), hint, of_request=answer.status_code in _OF_REQUEST or None
            )
        try:
            data = answer.json()
        except ValueError as error:
            raise EmbedError(
                f"{url} answered with something other than JSON.", "Is it such a server?"
            ) from error
        if not isinstance(data, dict):
            raise EmbedError(f"{url} answered with JSON that is no object.", "Is it such a server?")
        return cast("dict[str, Any]", data)

    def _fingerprint(self, probes: Sequence[NDArray[np.float32]]) -> str:
        peaks: list[int] = []
        for probe in probes:
            vector = probe if probe.ndim == 1 else probe.sum(axis=0)
            place = int(np.abs(vector).argmax())
            peaks.append(place if vector[place] >= 0 else ~place)
        parts = [self._address.model, self._reported, str(self.kind), self._chat, self.dimension, peaks]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


class _Failure(EmbedError):
    """A request got no answer that could be used.

    Args:
        message: What happened.
        hint: What to do about it.
        after: Seconds that the server wants to be left alone.
        of_request: Whether what was asked is to blame; None when that cannot be told from the failure.
    """

    def __init__(
        self, message: str, hint: str = "", *, after: float = 0.0, of_request: bool | None = None
    ) -> None:
        super().__init__(message, hint)
        self.after = after
        self.of_request = of_request


class _Busy(_Failure):
    """The server is away, busy or failing: asking again may help."""


class _Refused(_Failure):
    """The server does not want this request; asking again does not help."""


def _entries(answer: Mapping[str, Any], count: int, single: bool) -> list[Any]:
    """What the server gives for each input, in the order of the inputs.

    Raises:
        EmbedError: If there are not as many as inputs, or they bear no usable numbers.
    """
    listed: object = answer.get("data")
    if not isinstance(listed, list):
        raise EmbedError("The server's answer holds no list `data`.", "Is it such a server?")
    entries = cast("list[object]", listed)
    by_index: dict[int, Any] = {}
    for place, entry in enumerate(entries):
        if not isinstance(entry, dict):
            raise EmbedError("The server's answer holds an entry that is no object.")
        fields = cast("dict[str, Any]", entry)
        by_index[fields.get("index", place)] = fields.get("embedding" if single else "data")
    if len(entries) != count or by_index.keys() != set(range(count)):
        raise EmbedError(
            f"The server gave entries {list(by_index)} for {count} inputs.", "Is it such a server?"
        )
    return [by_index[place] for place in range(count)]


def _numbers(entry: object, single: bool) -> NDArray[np.float32]:
    """An entry as numbers: a list, lists of lists, or little-endian float32 in base64."""
    try:
        if single and isinstance(entry, str):
            return np.frombuffer(base64.b64decode(entry, validate=True), dtype="<f4").astype(np.float32)
        return np.asarray(entry, dtype=np.float32)
    except (ValueError, TypeError) as error:
        raise EmbedError(f"The server gave numbers that cannot be read: {error}.") from error


def _data_url(image: Image) -> str:
    file = io.BytesIO()
    image.convert("RGB").save(file, "PNG")
    return f"data:image/png;base64,{base64.b64encode(file.getvalue()).decode()}"


def _complaint(url: str, answer: httpx.Response) -> str:
    said = " ".join(answer.text[:300].split())
    return f"{url} answered {answer.status_code}: {said}"


def _seconds(header: str | None) -> float:
    """How long to wait as `Retry-After` says, at most a minute; dates are not read."""
    return min(float(header), 60.0) if header and header.replace(".", "", 1).isdigit() else 0.0
