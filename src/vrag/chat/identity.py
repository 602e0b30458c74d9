"""The identity of a served model: its architecture, the weights behind its name, whether it sees images.

The sources are `/v1/models` (vLLM names the weights in `root`, and the model of an adapter in `parent`;
`owned_by` tells SGLang, llama.cpp, LM Studio and Ollama apart) and endpoints of the programs: SGLang's
`/model_info`, Ollama's `/api/show`, LM Studio's `/api/v1/models` and `/api/v0/models`, llama.cpp's `/props`.
All of them are optional: what a server does not say stays empty. A request that is refused, such as for its
key or for too many requests, says nothing about the model: the identity is then marked as `failed`.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Any, cast
from urllib.parse import urlsplit

import httpx

from vrag.chat.http_clients import certificates_for, read_body, uses_proxy
from vrag.chat.messages import json_object

_ARCHITECTURES = {
    "qwen2_vl": "qwen2-vl",
    "qwen25vl": "qwen2.5-vl",
    "qwen2_5_vl": "qwen2.5-vl",
    "qwen3vl": "qwen3-vl",
    "qwen3vlmoe": "qwen3-vl",
    "qwen3_vl": "qwen3-vl",
    "qwen3_vl_moe": "qwen3-vl",
    "qwen35": "qwen3-vl",
    "qwen35moe": "qwen3-vl",
    "qwen3_5": "qwen3-vl",
    "qwen3_5_moe": "qwen3-vl",
    "glm4v": "glm-v",
    "glm4v_moe": "glm-v",
    "glm4vmoe": "glm-v",
    "internvl": "internvl",
    "internvl_chat": "internvl",
}
"""Model profiles by architecture, as transformers, llama.cpp and Ollama spell it.

`qwen2vl` of llama.cpp is missing: it stands for Qwen2-VL and for Qwen2.5-VL, whose boxes differ.
"""


_ANY_NAME = frozenset({"llamacpp", "sglang"})
"""`owned_by` of programs that serve one model, and take any name in a request for it."""


@dataclass(frozen=True, slots=True)
class ModelIdentity:
    """A model as its server describes it."""

    program: str = ""
    """`Ollama`, `LM Studio`, `vLLM`, `SGLang`, `llama.cpp`; empty if unknown."""
    architecture: str = ""
    """As the server spells it: `qwen25vl`, `qwen3_vl`."""
    weights: str = ""
    """Name or path of the weights; empty if the server gives only the served name."""
    sees: bool | None = None
    """True if it accepts images; None if unknown."""
    label: str = ""
    """Name in the metadata of the weights' file, which a converter derived; empty if unknown."""
    parent: str = ""
    """Name or path of the weights that an adapter is loaded onto; empty for a whole model."""
    failed: bool = False
    """True if a request was refused: what is empty may have been said another time."""

    @property
    def family(self) -> str | None:
        """Name of the model profile for the architecture."""
        return _ARCHITECTURES.get(self.architecture.lower())


async def ask_identity(base_url: str, model: str, key: str | None, seconds: float) -> ModelIdentity | None:
    """Ask a server about a model; return None if it does not answer within `seconds`."""
    try:
        async with _client(base_url, key) as client, asyncio.timeout(seconds):
            requests = _Requests(client)
            identity = await _identity(requests, base_url, model)
            return replace(identity, failed=requests.failed)
    except (TimeoutError, httpx.HTTPError, OSError):
        return None


async def list_models(base_url: str, seconds: float) -> tuple[Mapping[str, Any], ...]:
    """Read the entries of `/v1/models`; empty if the server does not answer within `seconds`."""
    try:
        async with _client(base_url, None) as client, asyncio.timeout(seconds):
            return tuple(_entries(await _Requests(client).json("GET", f"{base_url}/models")))
    except (TimeoutError, httpx.HTTPError, OSError):
        return ()


def _client(base_url: str, key: str | None) -> httpx.AsyncClient:
    """Return a client for a few requests."""
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    verify = certificates_for(base_url)
    return httpx.AsyncClient(headers=headers, verify=verify, trust_env=uses_proxy(base_url))


@dataclass(slots=True)
class _Requests:
    """The requests about one model."""

    client: httpx.AsyncClient
    failed: bool = False
    """True if one of them was refused."""

    async def json(self, method: str, url: str, body: object = None) -> object:
        """Return the JSON of an optional endpoint, which may be missing (404); None if there is none."""
        status, data = await read_body(self.client, method, url, body)
        self.failed = self.failed or status not in {HTTPStatus.OK, HTTPStatus.NOT_FOUND}
        return _parse(status, data)

    async def listing(self, base_url: str) -> object:
        """Return the JSON of `/v1/models`.

        Raises `httpx.ReadError` at a 5xx, such as of a proxy before a server that is starting.
        """
        status, data = await read_body(self.client, "GET", f"{base_url}/models")
        if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            raise httpx.ReadError(f"status {status}")
        self.failed = status != HTTPStatus.OK
        return _parse(status, data)


async def _identity(requests: _Requests, base_url: str, model: str) -> ModelIdentity:
    """Ask as `ask_identity` does. Raises `httpx.HTTPError` or `OSError` if the server does not answer."""
    answer = await requests.listing(base_url)
    listed, origin = read_listed(answer, model) or _only_entry(answer), base_url.removesuffix("/v1")
    match str(listed.get("owned_by", "")):
        case "sglang":
            reported = await _of_sglang(requests, origin, model)
        case "organization_owner":
            reported = await _of_lm_studio(requests, origin, model)
        case "llamacpp":
            reported = await _of_llama_cpp(requests, origin)
        case _ if isinstance(listed.get("architecture"), dict):
            takes = json_object(listed["architecture"]).get("input_modalities")
            sees = "image" in takes if isinstance(takes, list) else None
            reported = ModelIdentity("OpenRouter", weights=_text(listed.get("hugging_face_id")), sees=sees)
        case "vllm":
            reported = None
        case _ if urlsplit(base_url).path == "/v1" and urlsplit(base_url).scheme == "http":
            reported = _of_ollama(await requests.json("POST", f"{origin}/api/show", {"model": model}))
        case _:
            reported = None
    return reported or _of_root(answer, listed, model)


def read_listed(answer: object, model: str) -> Mapping[str, Any]:
    """Return the entry of a model in a response of `/v1/models`; empty if there is none."""
    for fields in _entries(answer):
        if str(fields.get("id", "")).removeprefix("models/") == model.removeprefix("models/"):
            return fields
    return {}


def _only_entry(answer: object) -> Mapping[str, Any]:
    """Return the only model of a program that answers to any name; empty for other programs."""
    entries = _entries(answer)
    only = entries[0] if len(entries) == 1 else {}
    return only if only.get("owned_by") in _ANY_NAME else {}


def _entries(answer: object) -> list[dict[str, Any]]:
    listed = json_object(answer).get("data")
    return [json_object(entry) for entry in cast("list[object]", listed)] if isinstance(listed, list) else []


def _of_root(answer: object, listed: Mapping[str, Any], model: str) -> ModelIdentity:
    """Return what an entry of the list says: the weights of a model, and of the one below an adapter."""
    root, below = _text(listed.get("root")), _text(listed.get("parent"))
    parent = _text(read_listed(answer, below).get("root")) or below
    program = {"vllm": "vLLM", "sglang": "SGLang"}.get(str(listed.get("owned_by")), "")
    return ModelIdentity(program, weights="" if root == model else root, parent=parent)


async def _of_llama_cpp(requests: _Requests, origin: str) -> ModelIdentity:
    props = json_object(await requests.json("GET", f"{origin}/props"))
    sees = _flag(json_object(props.get("modalities")).get("vision"))
    return ModelIdentity("llama.cpp", weights=_text(props.get("model_path")), sees=sees)


async def _of_sglang(requests: _Requests, origin: str, model: str) -> ModelIdentity | None:
    """Return what SGLang says of its model, whose `root` is the served name; None if it says nothing."""
    for path in ("model_info", "get_model_info"):  # the second is the older one
        info = json_object(await requests.json("GET", f"{origin}/{path}"))
        if weights := _text(info.get("model_path")):
            sees = _flag(info.get("has_image_understanding"))
            weights = "" if weights == model else weights
            return ModelIdentity("SGLang", _text(info.get("model_type")), weights, sees)
    return None


async def _of_lm_studio(requests: _Requests, origin: str, model: str) -> ModelIdentity:
    """Return what LM Studio says of a model; a loaded one may have an identifier of the user."""
    newer = json_object(await requests.json("GET", f"{origin}/api/v1/models")).get("models")
    for entry in map(json_object, cast("list[object]", newer) if isinstance(newer, list) else []):
        key, instances = _text(entry.get("key")), entry.get("loaded_instances")
        loaded = cast("list[object]", instances) if isinstance(instances, list) else []
        if model in {key, *(_text(json_object(instance).get("id")) for instance in loaded)}:
            sees = _flag(json_object(entry.get("capabilities")).get("vision"))
            weights = "" if key == model else key
            return ModelIdentity("LM Studio", _text(entry.get("architecture")), weights, sees)
    entry = read_listed(await requests.json("GET", f"{origin}/api/v0/models"), model)
    sees = {"vlm": True, "llm": False, "embeddings": False}.get(str(entry.get("type")))
    return ModelIdentity("LM Studio", _text(entry.get("arch")), sees=sees)


def _of_ollama(answer: object) -> ModelIdentity | None:
    shown = json_object(answer)
    details, info = json_object(shown.get("details")), json_object(shown.get("model_info"))
    architecture = info.get("general.architecture") or details.get("family")
    if not isinstance(architecture, str):
        return None
    capabilities = shown.get("capabilities")
    sees = "vision" in capabilities if isinstance(capabilities, list) else None
    weights, label = _text(details.get("parent_model")), _text(info.get("general.name"))
    return ModelIdentity("Ollama", architecture, weights, sees, label)


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _flag(value: object) -> bool | None:
    return value if isinstance(value, bool) else None


def _parse(status: int, data: bytes) -> object:
    try:
        return json.loads(data) if status == HTTPStatus.OK else None
    except (ValueError, RecursionError):
        return None
