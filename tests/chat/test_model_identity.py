"""What servers say about their models, in the shapes that their documentation shows."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from model_servers import JsonServer, llama_cpp, lm_studio, ollama, open_router, sglang, vllm

from vrag.chat.identity import ModelIdentity, ask_identity

if TYPE_CHECKING:
    from model_servers import Routes


def told(routes: Routes, model: str, key: str | None = None, sent: str | None = None) -> ModelIdentity | None:
    with JsonServer(routes, key) as server:
        return asyncio.run(ask_identity(server.url, model, sent, 5))


@pytest.mark.parametrize(
    ("routes", "model", "expected", "family"),
    [
        (
            ollama({"qwen2.5vl:7b": ("qwen25vl", True)}),
            "qwen2.5vl:7b",
            ModelIdentity("Ollama", "qwen25vl", "", sees=True),
            "qwen2.5-vl",
        ),
        (
            ollama({"mine": ("qwen3vl", True)}),
            "mine",
            ModelIdentity("Ollama", "qwen3vl", "", sees=True),
            "qwen3-vl",
        ),
        (
            ollama({"qwen3:8b": ("qwen3", False)}),
            "qwen3:8b",
            ModelIdentity("Ollama", "qwen3", "", sees=False),
            None,
        ),
        (
            lm_studio({"qwen2-vl-7b-instruct": ("qwen2_vl", "vlm")}),
            "qwen2-vl-7b-instruct",
            ModelIdentity("LM Studio", "qwen2_vl", "", sees=True),
            "qwen2-vl",
        ),
        (
            lm_studio({"meta-llama-3.1-8b-instruct": ("llama", "llm")}),
            "meta-llama-3.1-8b-instruct",
            ModelIdentity("LM Studio", "llama", "", sees=False),
            None,
        ),
        (
            vllm("eyes", "Qwen/Qwen2.5-VL-7B-Instruct"),
            "eyes",
            ModelIdentity("vLLM", weights="Qwen/Qwen2.5-VL-7B-Instruct"),
            None,
        ),
        (vllm("a/b", "a/b"), "a/b", ModelIdentity("vLLM"), None),
        (
            vllm("eyes", "/models/Qwen3-VL-8B-Instruct", "sglang"),
            "eyes",
            ModelIdentity("SGLang", weights="/models/Qwen3-VL-8B-Instruct"),
            None,
        ),
        (
            llama_cpp("/models/Qwen3-VL-4B-Instruct-Q4_K_M.gguf", vision=True),
            "/models/Qwen3-VL-4B-Instruct-Q4_K_M.gguf",
            ModelIdentity("llama.cpp", weights="/models/Qwen3-VL-4B-Instruct-Q4_K_M.gguf", sees=True),
            None,
        ),
        (
            open_router("qwen/qwen3-vl-8b-instruct", "Qwen/Qwen3-VL-8B-Instruct", "text", "image"),
            "qwen/qwen3-vl-8b-instruct",
            ModelIdentity("OpenRouter", weights="Qwen/Qwen3-VL-8B-Instruct", sees=True),
            None,
        ),
    ],
)
def test_each_program_is_understood(
    routes: Routes, model: str, expected: ModelIdentity, family: str | None
) -> None:
    assert told(routes, model) == expected
    assert expected.family == family


def test_an_architecture_of_two_families_decides_none() -> None:
    """llama.cpp calls Qwen2-VL and Qwen2.5-VL alike, and they write boxes in different ways."""
    identity = told(lm_studio({"it": ("qwen2vl", "vlm")}), "it")
    assert identity is not None
    assert (identity.architecture, identity.family) == ("qwen2vl", None)


@pytest.mark.parametrize(
    "routes",
    [
        {},
        {"GET /v1/models": {"data": None}},
        {"GET /v1/models": {"data": [3, {"id": 4}]}},
        {"GET /v1/models": {"data": [{"id": "it", "owned_by": "somebody"}]}},
        {"GET /v1/models": {"data": [{"id": "it"}]}, "POST /api/show": {"details": [], "model_info": 3}},
        {"GET /v1/models": {"data": [{"id": "other", "owned_by": "vllm", "root": "Qwen/Qwen3-VL-8B"}]}},
    ],
)
def test_a_server_that_says_nothing_of_use_is_no_error(routes: Routes) -> None:
    assert told(routes, "it") == ModelIdentity(failed=not routes)


def test_the_key_is_sent_and_a_refusal_is_no_error() -> None:
    routes = vllm("eyes", "Qwen/Qwen2.5-VL-7B-Instruct")
    assert told(routes, "eyes", "k", "k") == ModelIdentity("vLLM", weights="Qwen/Qwen2.5-VL-7B-Instruct")
    assert told(routes, "eyes", "k") == ModelIdentity(failed=True)


@pytest.mark.parametrize(
    ("routes", "model", "place"),
    [
        (sglang("eyes", "Qwen/Qwen3-VL-8B-Instruct", "qwen3_vl"), "eyes", "GET /model_info"),
        (ollama({"eyes": ("qwen25vl", True)}), "eyes", "POST /api/show"),
        (lm_studio({"eyes": ("qwen2_5_vl", "vlm")}), "eyes", "GET /api/v0"),
        (llama_cpp("/m/eyes.gguf", vision=True), "/m/eyes.gguf", "GET /props"),
        (vllm("eyes", "Qwen/Qwen3-VL-8B-Instruct"), "eyes", "GET /v1/models"),
    ],
)
@pytest.mark.parametrize("status", [401, 403, 405, 408, 429])
def test_a_request_that_is_refused_marks_the_identity(
    routes: Routes, model: str, place: str, status: int
) -> None:
    with JsonServer(routes) as server:
        complete = asyncio.run(ask_identity(server.url, model, None, 5))
        server.refused[place] = status
        refused = asyncio.run(ask_identity(server.url, model, None, 5))
    assert complete is not None
    assert refused is not None
    assert (complete.failed, refused.failed) == (False, True)
    assert (refused.architecture, refused.weights) == ("", "")


def test_a_server_that_fails_at_the_list_gives_no_identity() -> None:
    with JsonServer(vllm("eyes", "Qwen/Qwen3-VL-8B-Instruct")) as server:
        server.refused["GET /v1/models"] = 503
        assert asyncio.run(ask_identity(server.url, "eyes", None, 5)) is None


def test_a_server_that_is_not_there_is_no_error() -> None:
    assert asyncio.run(ask_identity("http://127.0.0.1:9/v1", "it", None, 1)) is None
