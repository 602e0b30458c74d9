"""HTTP servers that answer as Ollama, LM Studio, vLLM, SGLang, llama.cpp and OpenRouter document it.

Each function gives the routes of one program, with what its documentation shows in the answers; fields that
say nothing about the model are left out. `JsonServer` serves them.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self, TypeAlias

Answer: TypeAlias = Mapping[str, Any] | Callable[[Any], Mapping[str, Any] | None]
Routes: TypeAlias = Mapping[str, Answer]
"""Answers by method and path, `GET /v1/models`; a callable gets the JSON that was sent, None is a 404."""


class JsonServer:
    """Serves JSON in a `with` block, on a free port of the loopback address."""

    def __init__(self, routes: Routes, key: str | None = None) -> None:
        self.routes, self.key = dict(routes), key
        self.asked: list[str] = []
        """Method and path of every request."""
        self.refused: dict[str, int] = {}
        """Statuses by the start of method and path; what is not answered as its route says."""
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})

    @property
    def url(self) -> str:
        """Base URL, up to and with `/v1`."""
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(10)


def _handler(server: JsonServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer("GET", None)

        def do_POST(self) -> None:
            length = int(self.headers.get("Content-Length", "0"))
            self._answer("POST", json.loads(self.rfile.read(length) or b"null"))

        def _answer(self, method: str, sent: object) -> None:
            place = f"{method} {self.path}"
            server.asked.append(place)
            for start, status in server.refused.items():
                if place.startswith(start):
                    self._send(status, {"error": {"message": "refused"}})
                    return
            answer = server.routes.get(place)
            body = answer(sent) if callable(answer) else answer
            if server.key is not None and self.headers.get("Authorization") != f"Bearer {server.key}":
                self._send(401, {"error": {"message": "no"}})
            elif body is None:
                self._send(404, {"error": "not found"})
            else:
                self._send(200, body)

        def _send(self, status: int, body: Mapping[str, Any]) -> None:
            data = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    return Handler


def _listed(*entries: Mapping[str, Any]) -> dict[str, Any]:
    return {"object": "list", "data": [{"object": "model", **entry} for entry in entries]}


def ollama(models: Mapping[str, tuple[str, bool]], *, parent: str = "", label: str = "") -> Routes:
    """Ollama (docs.ollama.com, `POST /api/show`): architecture and sight by name of the model.

    `parent` is the model that it was created from, `label` the name in the metadata of its file.
    """

    def show(sent: Mapping[str, str]) -> Mapping[str, Any] | None:
        if sent["model"] not in models:
            return None
        architecture, sees = models[sent["model"]]
        return {
            "details": {
                "parent_model": parent,
                "format": "gguf",
                "family": architecture,
                "families": [architecture],
                "parameter_size": "8.3B",
                "quantization_level": "Q4_K_M",
            },
            "model_info": {
                "general.architecture": architecture,
                "general.name": label,
                "general.parameter_count": 8292166656,
            },
            "capabilities": ["completion", *(["vision"] if sees else [])],
        }

    listed = _listed(*({"id": name, "created": 1, "owned_by": "library"} for name in models))
    return {"GET /v1/models": listed, "POST /api/show": show}


def lm_studio(models: Mapping[str, tuple[str, str]]) -> Routes:
    """LM Studio (lmstudio.ai/docs, `GET /api/v0/models`): architecture and type by name."""
    return {
        "GET /v1/models": _listed(*({"id": name, "owned_by": "organization_owner"} for name in models)),
        "GET /api/v0/models": _listed(
            *(
                {
                    "id": name,
                    "type": kind,
                    "publisher": "mlx-community",
                    "arch": architecture,
                    "compatibility_type": "mlx",
                    "quantization": "4bit",
                    "state": "not-loaded",
                    "max_context_length": 32768,
                }
                for name, (architecture, kind) in models.items()
            )
        ),
    }


def lm_studio_loaded(identifier: str, key: str, architecture: str) -> Routes:
    """LM Studio (`GET /api/v1/models`): a model that was loaded with an identifier of the user."""
    model = {
        "type": "llm",
        "publisher": "somebody",
        "key": key,
        "display_name": key,
        "architecture": architecture,
        "loaded_instances": [{"id": identifier, "config": {"context_length": 32768}}],
        "capabilities": {"vision": True, "trained_for_tool_use": False},
    }
    listed = _listed({"id": identifier, "owned_by": "organization_owner"})
    return {"GET /v1/models": listed, "GET /api/v1/models": {"models": [model]}}


def sglang(name: str, path: str, architecture: str, endpoint: str = "model_info") -> Routes:
    """SGLang (docs.sglang.io, `GET /model_info`): its list repeats the served name in `root`."""
    info = {
        "model_path": path,
        "tokenizer_path": path,
        "is_generation": True,
        "has_image_understanding": True,
        "has_audio_understanding": False,
        "model_type": architecture,
        "architectures": ["Qwen2_5_VLForConditionalGeneration"],
    }
    entry = {"id": name, "created": 1, "owned_by": "sglang", "root": name, "max_model_len": 128000}
    return {"GET /v1/models": _listed(entry), f"GET /{endpoint}": info}


def vllm_adapter(name: str, root: str, base: str, base_root: str) -> Routes:
    """vLLM with `--lora-modules`: an adapter, and the model that it is loaded onto."""
    entry = {"id": base, "created": 1, "owned_by": "vllm", "root": base_root, "parent": None}
    adapter = {"id": name, "created": 1, "owned_by": "vllm", "root": root, "parent": base}
    return {"GET /v1/models": _listed(entry, adapter)}


def vllm(name: str, root: str, owner: str = "vllm") -> Routes:
    """vLLM (`GET /v1/models`): the weights behind a served name."""
    entry = {
        "id": name,
        "created": 1,
        "owned_by": owner,
        "root": root,
        "parent": None,
        "max_model_len": 32768,
    }
    return {"GET /v1/models": _listed(entry)}


def llama_cpp(path: str, *, vision: bool) -> Routes:
    """llama.cpp's server (`GET /props`): path of the weights, and what it takes."""
    meta = {"vocab_type": 2, "n_vocab": 151936, "n_ctx_train": 128000, "n_params": 7615616512}
    return {
        "GET /v1/models": _listed({"id": path, "created": 1, "owned_by": "llamacpp", "meta": meta}),
        "GET /props": {"model_path": path, "modalities": {"vision": vision, "audio": False}},
    }


def open_router(name: str, weights: str, *takes: str) -> Routes:
    """OpenRouter (`GET /models`): the weights on Hugging Face, and what goes in."""
    return {
        "GET /v1/models": _listed(
            {"id": name, "hugging_face_id": weights, "architecture": {"input_modalities": list(takes)}}
        )
    }
