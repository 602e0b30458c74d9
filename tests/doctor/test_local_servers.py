"""Model servers on this machine: found at their ports, with the models that see and the command for each."""

from __future__ import annotations

from model_servers import JsonServer, lm_studio, ollama, vllm

from vrag.doctor import CheckStatus
from vrag.doctor.endpoint import LOCAL_SERVERS, LocalServer, check_local_servers

CLOSED = LocalServer("SGLang", "http://127.0.0.1:9/v1")


def test_each_server_is_found_with_the_models_that_see() -> None:
    models = {"qwen3-vl:8b": ("qwen3vl", True), "qwen3:8b": ("qwen3", False)}
    with JsonServer(ollama(models)) as first, JsonServer(vllm("eyes", "Qwen/Qwen3-VL-8B-Instruct")) as second:
        servers = (LocalServer("Ollama", first.url, "ollama"), CLOSED, LocalServer("vLLM", second.url))
        found = check_local_servers(servers)
    assert found.status is CheckStatus.OK
    assert f"Ollama at {first.url} has 2 models; vLLM at {second.url} has 1 model" in found.message
    assert found.message.endswith("qwen3-vl:8b, eyes see.")
    assert found.hint == (
        'vrag ask PATH "QUESTION" --model ollama:qwen3-vl:8b; '
        f'or vrag ask PATH "QUESTION" --model eyes --base-url {second.url}'
    )
    assert [(model["name"], model["sees"], model["family"]) for model in found.details["models"]] == [
        ("qwen3-vl:8b", True, "qwen3-vl"),
        ("qwen3:8b", False, None),
        ("eyes", True, "qwen3-vl"),
    ]


def test_an_address_without_a_word_is_spelled_out() -> None:
    with JsonServer(lm_studio({"my eyes": ("qwen2_5_vl", "vlm")})) as server:
        found = check_local_servers((LocalServer("LM Studio", server.url),))
    assert found.hint == f"vrag ask PATH \"QUESTION\" --model 'my eyes' --base-url {server.url}"


def test_without_a_model_that_sees_there_is_a_warning() -> None:
    with JsonServer(ollama({"qwen3:8b": ("qwen3", False)})) as server:
        found = check_local_servers((LocalServer("Ollama", server.url, "ollama"),))
    assert found.status is CheckStatus.WARNING
    assert "none of them sees" in found.message


def test_where_sight_is_not_known_that_is_said() -> None:
    with JsonServer(vllm("it", "it")) as server:
        found = check_local_servers((LocalServer("vLLM", server.url),))
    assert "it is not known whether" in found.message


def test_a_server_of_vrag_itself_is_none() -> None:
    routes = {"GET /v1/models": {"data": [{"id": "vrag", "owned_by": "vrag"}]}}
    with JsonServer(routes) as server:
        found = check_local_servers((LocalServer("vLLM", server.url, "vllm"),))
    assert (found.status, found.details["models"]) == (CheckStatus.SKIPPED, [])


def test_nothing_at_any_port_is_no_failure() -> None:
    assert check_local_servers((CLOSED,) * 6).status is CheckStatus.SKIPPED


def test_only_this_machine_is_asked() -> None:
    assert all(server.base_url.startswith("http://localhost:") for server in LOCAL_SERVERS)
