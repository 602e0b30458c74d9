"""Models that are named with their provider: address, key, and what does not go where it does not belong."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from pydantic import SecretStr

from vrag.chat import ThinkingSwitch
from vrag.distill.experts import read_experts
from vrag.embed.registry import embedder_names
from vrag.errors import SettingsError
from vrag.factory.models import open_chat
from vrag.factory.training import open_judge
from vrag.providers import (
    PROVIDERS,
    Provider,
    complete_embedder,
    find_withheld_keys,
    is_embedding_server,
    split_model,
)
from vrag.settings import Settings, load_settings

if TYPE_CHECKING:
    from pathlib import Path

KEYED = [provider for provider in PROVIDERS.values() if provider.key_variable]
LOCAL = [provider for provider in PROVIDERS.values() if not provider.key_variable]


@pytest.mark.parametrize("provider", PROVIDERS.values(), ids=PROVIDERS)
def test_the_word_stands_for_address_and_key(provider: Provider, monkeypatch: pytest.MonkeyPatch) -> None:
    if provider.key_variable:
        monkeypatch.setenv(provider.key_variable, "sk-own")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://elsewhere/v1")
    report = load_settings(model=f"{provider.name}:org/name:tag")
    settings = report.settings
    assert (settings.model, settings.base_url) == ("org/name:tag", provider.base_url)
    assert settings.key("model_key") == ("sk-own" if provider.key_variable else None)
    assert settings.key_place("model_key") == (provider.key_variable or "VRAG_MODEL_KEY")
    assert ThinkingSwitch(settings.thinking_switch).value == provider.thinking_switch
    assert report.origins["base_url"] == f"{provider.name}: in model"
    assert open_chat(settings).base_url == provider.base_url


@pytest.mark.parametrize("provider", KEYED, ids=[provider.name for provider in KEYED])
def test_a_missing_key_is_an_error_that_names_the_variable(provider: Provider) -> None:
    settings = load_settings(model=f"{provider.name}:any").settings
    with pytest.raises(SettingsError) as told:
        open_chat(settings)
    assert provider.key_variable in told.value.hint


@pytest.mark.parametrize("provider", LOCAL, ids=[provider.name for provider in LOCAL])
def test_a_program_on_this_machine_is_sent_no_key_of_a_service(
    provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-own")
    monkeypatch.setenv("DASHSCOPE_API_KEY", "sk-own")
    assert load_settings(model=f"{provider.name}:any").settings.key("model_key") is None


def test_what_is_no_word_of_a_provider_is_part_of_the_name() -> None:
    for name in ("qwen3-vl:8b", "local:./folder", "unsloth/ollama:x", "hf.co/a/b:Q4_K_M", ""):
        assert split_model(name) == (None, name)
    assert split_model("Ollama: qwen3-vl:8b")[1] == "qwen3-vl:8b"


class TestWeight:
    """An address or key of less weight than the model's name belongs to another server."""

    def test_an_address_beside_the_name_wins(self) -> None:
        settings = load_settings(model="ollama:any", base_url="http://gpu:11434/v1").settings
        assert settings.base_url == "http://gpu:11434/v1"

    def test_what_the_environment_says_of_another_server_does_not_count_for_a_flag(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("VRAG_BASE_URL", "http://gpu:8000/v1")
        monkeypatch.setenv("VRAG_MODEL_KEY", "of-the-other")
        monkeypatch.setenv("OPENROUTER_API_KEY", "sk-own")
        settings = load_settings(model="openrouter:any").settings
        assert settings.base_url == PROVIDERS["openrouter"].base_url
        assert settings.key("model_key") == "sk-own"
        assert load_settings(model="ollama:any").settings.key("model_key") is None

    def test_in_one_place_the_own_setting_wins(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("VRAG_MODEL", "openrouter:any")
        monkeypatch.setenv("VRAG_MODEL_KEY", "own")
        monkeypatch.setenv("OPENROUTER_API_KEY", "other")
        assert load_settings().settings.key("model_key") == "own"

    @pytest.mark.parametrize("file", [".env", "vrag.toml"])
    def test_a_folder_that_names_a_provider_gets_no_other_key_of_the_user(
        self, file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        line = "VRAG_MODEL=openrouter:any" if file == ".env" else 'model = "openrouter:any"'
        (tmp_path / file).write_text(line)
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("VRAG_MODEL_KEY", "of-another-server")
        with pytest.raises(SettingsError, match="requires a key"):
            load_settings().settings.key("model_key")
        monkeypatch.setenv("OPENROUTER_API_KEY", "sk-own")
        assert load_settings().settings.key("model_key") == "sk-own"

    def test_a_folder_that_names_an_address_gets_no_key(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / ".env").write_text("VRAG_MODEL=openai:any\nVRAG_BASE_URL=http://evil/v1\n")
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("OPENAI_API_KEY", "sk-own")
        settings = load_settings().settings
        assert settings.base_url == "http://evil/v1"
        with pytest.raises(SettingsError, match="is not sent to"):
            settings.key("model_key")

    def test_further_models_are_of_the_same_provider(self) -> None:
        assert load_settings(model="ollama:a", models="ollama:b:8b, c").settings.models == ("b:8b", "c")


def test_a_judge_may_be_named_with_its_provider(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = load_settings(judge_model="gemini:gemini-2.5-flash").settings
    assert (settings.judge_model, settings.judge_url) == (
        "gemini-2.5-flash",
        PROVIDERS["gemini"].base_url,
    )
    with pytest.raises(SettingsError) as told:
        open_judge(settings)
    assert "GEMINI_API_KEY" in told.value.hint
    monkeypatch.setenv("GEMINI_API_KEY", "sk-own")
    open_judge(load_settings(judge_model="gemini:gemini-2.5-flash").settings)


def test_experts_may_be_named_with_their_providers(tmp_path: Path) -> None:
    path = tmp_path / "experts.toml"
    path.write_text(
        '[planner]\nmodel = "ollama:qwen3-vl:8b"\n[grounder]\n'
        'model = "openrouter:qwen/qwen3-vl-8b-instruct"\n'
        '[judge]\nmodel = "vllm:any"\nbase_url = "http://gpu:8000/v1"\n'
    )
    experts = read_experts(path, {"OPENROUTER_API_KEY": "sk-own", "DASHSCOPE_API_KEY": "other"})
    assert experts.grounder is not None
    said: list[Any] = [experts.planner.model, experts.grounder.model, experts.judge.model]
    assert [(chat.base_url, chat.name) for chat in said] == [
        ("http://localhost:11434/v1", "qwen3-vl:8b"),
        ("https://openrouter.ai/api/v1", "qwen/qwen3-vl-8b-instruct"),
        ("http://gpu:8000/v1", "any"),
    ]
    assert experts.planner.options.thinking_switch is ThinkingSwitch.EFFORT
    with pytest.raises(SettingsError) as told:
        read_experts(path, {})
    assert "OPENROUTER_API_KEY" in told.value.hint


def test_no_key_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENROUTER_API_KEY", "sk-geheim")
    settings = load_settings(model="openrouter:any").settings
    assert "geheim" not in repr(settings) + settings.model_dump_json() + repr(open_chat(settings))


@pytest.mark.parametrize("provider", KEYED, ids=[provider.name for provider in KEYED])
def test_the_key_of_a_provider_goes_to_no_other_host(
    provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(provider.key_variable, "sk-own")
    for prefix in ("VRAG_", "VRAG_JUDGE_"):
        monkeypatch.setenv(f"{prefix}MODEL", f"{provider.name}:any")
    monkeypatch.setenv("VRAG_BASE_URL", "http://lab:8000/v1")
    monkeypatch.setenv("VRAG_JUDGE_URL", "http://lab:8000/v1")
    settings = load_settings().settings
    assert (settings.base_url, settings.key("model_key")) == ("http://lab:8000/v1", None)
    assert settings.key("judge_key") is None


def test_a_proxy_in_place_of_a_provider_needs_no_key_of_it() -> None:
    settings = load_settings(model="openai:gpt-5", base_url="http://127.0.0.1:9/v1").settings
    assert open_chat(settings).base_url == "http://127.0.0.1:9/v1"


def test_further_models_of_another_provider_are_refused() -> None:
    with pytest.raises(SettingsError, match="openai:gpt-5"):
        load_settings(model="ollama:qwen3-vl:8b", models=["openai:gpt-5"])
    assert load_settings(model="ollama:a", models=["ollama:b", "c"]).settings.models == ("b", "c")


class TestEmbeddingServers:
    """A name with the scheme of a server is one of a server, with or without `http://`."""

    @pytest.mark.parametrize(
        ("name", "complete"),
        [
            ("remote:m@evil.example:80", "remote:m@http://evil.example:80"),
            ("remote-chat:org/m@x@:8000/v1", "remote-chat:org/m@x@http://127.0.0.1:8000/v1"),
            (" Pooling:m@localhost ", "Pooling:m@http://localhost"),
            ("remote:m@[::1]:8000", "remote:m@http://[::1]:8000"),
            ("remote:m@https://host", "remote:m@https://host"),
            ("remote:m@host", "remote:m@host"),
        ],
    )
    def test_their_addresses_are_completed(self, name: str, complete: str) -> None:
        assert is_embedding_server(name)
        assert complete_embedder(name) == complete
        assert load_settings(embedder=name).settings.embedder == complete

    @pytest.mark.parametrize(
        "name", ["", "colqwen2", "sentence:a/b", "./remote", "gve:m@host:80", "C:/models"]
    )
    def test_a_model_in_this_process_is_none(self, name: str) -> None:
        assert not is_embedding_server(name)
        assert load_settings(embedder=name).settings.embedder == name

    def test_the_schemes_of_the_registry_are_told_apart(self) -> None:
        """A new scheme must be put on one of the two sides."""
        schemes = {name for name in embedder_names() if name.endswith(":")}
        servers = {scheme for scheme in schemes if is_embedding_server(f"{scheme}m@host:80")}
        assert servers == {"remote:", "remote-chat:", "pooling:"}
        assert schemes - servers == {"gve:", "qwen3-vl:", "sentence:"}

    @pytest.mark.parametrize("file", ["vrag.toml", ".env"])
    def test_one_that_a_folder_names_is_sent_no_key(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str
    ) -> None:
        monkeypatch.chdir(tmp_path)
        name = "embedder" if file == "vrag.toml" else "VRAG_EMBEDDER"
        (tmp_path / file).write_text(f'{name} = "remote:m@evil.example:80"\n')
        monkeypatch.setenv("VRAG_EMBED_KEY", "geheim")
        with pytest.raises(SettingsError, match=r"not sent to remote:m@http://evil\.example:80"):
            load_settings().settings.key("embed_key")

    def test_a_key_is_withheld_by_the_scheme_alone(self) -> None:
        """Also where the settings were not read by `load_settings`, which completes addresses."""
        settings = Settings(embedder="remote:m@evil.example:80", embed_key=SecretStr("geheim"))
        origins = dict.fromkeys(Settings.model_fields, "default")
        origins |= {"embedder": "vrag.toml", "embed_key": "environment"}
        assert "embed_key" in find_withheld_keys(settings, origins)
