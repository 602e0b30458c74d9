"""The identity of a served model: its architecture, the weights behind its name, whether it sees images.

The sources are `/v1/models` (vLLM and SGLang name the weights in `root`; `owned_by` tells llama.cpp,
LM Studio and Ollama apart) and endpoints of the programs: Ollama's `/api/show`, LM Studio's
`/api/v0/models`, llama.cpp's `/props`. All of them are optional: what a server does not say stays empty.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass
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

    @property
    def family(self) -> str | None:
        """Name of the model profile for the architecture."""
        return _ARCHITECTURES.get(self.architecture.lower())


async def ask_identity(base_url: str, model: str, key: str | None, seconds: float) -> ModelIdentity | None:
    """Ask a server about a model; return None if it says nothing within `seconds`."""
    try:
        async with _client(base_url, key) as client, asyncio.timeout(seconds):
            return await _identity(client, base_url, model)
    except (TimeoutError, httpx.HTTPError, OSError):
        return None


async def list_models(base_url: str, seconds: float) -> tuple[Mapping[str, Any], ...]:
    """Read the entries of `/v1/models`; empty if the server does not answer within `seconds`."""
    try:
        async with _client(base_url, None) as client, asyncio.timeout(seconds):
            return tuple(_entries(await _json(client, "GET", f"{base_url}/models")))
    except (TimeoutError, httpx.HTTPError, OSError):
        return ()


def _client(base_url: str, key: str | None) -> httpx.AsyncClient:
    """Return a client for a few requests."""
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    verify = certificates_for(base_url)
    return httpx.AsyncClient(headers=headers, verify=verify, trust_env=uses_proxy(base_url))


async def _identity(client: httpx.AsyncClient, base_url: str, model: str) -> ModelIdentity | None:
    listed = read_listed(await _json(client, "GET", f"{base_url}/models"), model)
    owner = str(listed.get("owned_by", ""))
    origin = base_url.removesuffix("/v1")
    match owner:
        case "vllm" | "sglang":
            return _of_root(listed, "vLLM" if owner == "vllm" else "SGLang", model)
        case "organization_owner":
            entry = read_listed(await _json(client, "GET", f"{origin}/api/v0/models"), model)
            sees = {"vlm": True, "llm": False, "embeddings": False}.get(str(entry.get("type")))
            return ModelIdentity("LM Studio", _text(entry.get("arch")), sees=sees) if entry else None
        case "llamacpp":
            props = json_object(await _json(client, "GET", f"{origin}/props"))
            vision = json_object(props.get("modalities")).get("vision")
            sees = vision if isinstance(vision, bool) else None
            return ModelIdentity("llama.cpp", weights=_text(props.get("model_path")), sees=sees)
        case _ if isinstance(listed.get("architecture"), dict):
            takes = json_object(listed["architecture"]).get("input_modalities")
            sees = "image" in takes if isinstance(takes, list) else None
            return ModelIdentity("OpenRouter", weights=_text(listed.get("hugging_face_id")), sees=sees)
        case _ if urlsplit(base_url).path == "/v1" and urlsplit(base_url).scheme == "http":
            shown = await _json(client, "POST", f"{origin}/api/show", {"model": model})
            return _of_ollama(shown) or _of_root(listed, "", model)
        case _:
            return None


def read_listed(answer: object, model: str) -> Mapping[str, Any]:
    """Return the entry of a model in a response of `/v1/models`; empty if there is none."""
    for fields in _entries(answer):
        if str(fields.get("id", "")).removeprefix("models/") == model.removeprefix("models/"):
            return fields
    return {}


def _entries(answer: object) -> list[dict[str, Any]]:
    listed = json_object(answer).get("data")
    return [json_object(entry) for entry in cast("list[object]", listed)] if isinstance(listed, list) else []


def _of_root(listed: Mapping[str, Any], program: str, model: str) -> ModelIdentity | None:
    root = _text(listed.get("root"))
    weights = "" if root == model else root
    return ModelIdentity(program, weights=weights) if program or weights else None


def _of_ollama(answer: object) -> ModelIdentity | None:
    shown = json_object(answer)
    details, info = json_object(shown.get("details")), json_object(shown.get("model_info"))
    architecture = info.get("general.architecture") or details.get("family")
    if not isinstance(architecture, str):
        return None
    capabilities = shown.get("capabilities")
    sees = "vision" in capabilities if isinstance(capabilities, list) else None
    return ModelIdentity("Ollama", architecture, _text(details.get("parent_model")), sees)


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


async def _json(client: httpx.AsyncClient, method: str, url: str, body: object = None) -> object:
    """Return the JSON of a response; None if there is none."""
    status, data = await read_body(client, method, url, body)
    try:
        return json.loads(data) if status == HTTPStatus.OK else None
    except (ValueError, RecursionError):
        return None
