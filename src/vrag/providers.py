"""Servers of models that `--model` names by a word before the name of the model: `ollama:qwen3-vl:8b`.

Each is asked through its OpenAI-compatible endpoint, at the address that its own documentation gives.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["DASHSCOPE", "PROVIDERS", "Provider", "split_model"]

DASHSCOPE = "https://dashscope.aliyuncs.com/compatible-mode/v1"
"""Where models are that `DASHSCOPE_API_KEY` is for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    """A program on this machine or a service that serves models."""

    name: str
    """The word before the colon."""
    title: str
    base_url: str
    key_variable: str = ""
    """Variable with the key; empty for a program that asks for none."""
    thinking_switch: str = "top"
    """Where it looks for the switch of thinking: a value of `vrag.chat.ThinkingSwitch`."""


PROVIDERS = {
    provider.name: provider
    for provider in (
        Provider(
            name="ollama", title="Ollama", base_url="http://localhost:11434/v1", thinking_switch="effort"
        ),
        Provider(
            name="lmstudio",
            title="LM Studio",
            base_url="http://localhost:1234/v1",
            thinking_switch="template",
        ),
        Provider(name="vllm", title="vLLM", base_url="http://localhost:8000/v1", thinking_switch="template"),
        Provider(
            name="openai",
            title="OpenAI",
            base_url="https://api.openai.com/v1",
            key_variable="OPENAI_API_KEY",
            thinking_switch="effort",
        ),
        Provider(
            name="openrouter",
            title="OpenRouter",
            base_url="https://openrouter.ai/api/v1",
            key_variable="OPENROUTER_API_KEY",
            thinking_switch="reasoning",
        ),
        Provider(
            name="gemini",
            title="Gemini",
            base_url="https://generativelanguage.googleapis.com/v1beta/openai",
            key_variable="GEMINI_API_KEY",
            thinking_switch="effort",
        ),
        Provider(
            name="anthropic",
            title="Anthropic",
            base_url="https://api.anthropic.com/v1",
            key_variable="ANTHROPIC_API_KEY",
        ),
        Provider(name="dashscope", title="DashScope", base_url=DASHSCOPE, key_variable="DASHSCOPE_API_KEY"),
    )
}
"""By name."""


def split_model(model: str) -> tuple[Provider | None, str]:
    """The provider that a model is named with, and what that provider calls the model.

    >>> provider, name = split_model("ollama:qwen3-vl:8b")
    >>> (provider.base_url, name)
    ('http://localhost:11434/v1', 'qwen3-vl:8b')
    >>> split_model("qwen3-vl:8b")
    (None, 'qwen3-vl:8b')
    """
    word, colon, name = model.partition(":")
    provider = PROVIDERS.get(word.strip().lower()) if colon else None
    return (provider, name.strip()) if provider else (None, model)
