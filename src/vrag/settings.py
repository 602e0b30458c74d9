"""Every setting, once: its name, its default, what it means, and where its value came from.

A flag on the command line wins over an environment variable (`VRAG_…`), which wins over a line in
`.env`, which wins over the settings file, which wins over the default. The settings file is the
one that `VRAG_CONFIG` names, else `vrag.toml` in the current folder, else `config.toml` in the
user's configuration folder. Nothing is built here.
"""

from __future__ import annotations

import difflib
import os
import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias
from urllib.parse import urlsplit

from platformdirs import user_config_path, user_data_path
from pydantic import BeforeValidator, Field, PrivateAttr, SecretStr, ValidationError, field_serializer
from pydantic_settings import (
    BaseSettings,
    DotEnvSettingsSource,
    EnvSettingsSource,
    NoDecode,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)
from pydantic_settings import SettingsError as EnvironmentFault

from vrag.errors import SettingsError
from vrag.providers import DASHSCOPE, Provider, split_model

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "DASHSCOPE",
    "AgentName",
    "Settings",
    "SettingsReport",
    "is_dashscope",
    "load_settings",
    "settings_file",
    "unknown_variables",
]

_OTHERS = frozenset(
    {
        "VRAG_CONFIG",
        "VRAG_API_KEY",
        "VRAG_COLPALI_PYTHON",
        "VRAG_LLAMAFACTORY_PYTHON",
        "VRAG_VERL_PYTHON",
        "VRAG_VLLM_PYTHON",
    }
)
"""Variables that are no settings."""


def _default_collection() -> str:
    return str(user_data_path("vrag", appauthor=False) / "collections" / "default")


def _as_text(value: object) -> object:
    text = str(value) if isinstance(value, Path) else value
    return os.path.expanduser(text) if isinstance(text, str) and text.startswith("~") else text  # noqa: PTH111


Address: TypeAlias = Annotated[str, BeforeValidator(_as_text)]
"""A directory or a URL."""


def _as_list(value: object) -> object:
    return [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value


Addresses: TypeAlias = Annotated[tuple[Address, ...], NoDecode, BeforeValidator(_as_list)]
"""Several, in the environment with commas between them."""
Names: TypeAlias = Annotated[tuple[str, ...], NoDecode, BeforeValidator(_as_list)]
"""Several, in the environment with commas between them."""
AgentName: TypeAlias = Literal["vrag", "vimrag", "rag", "react"]
"""The agents that there are."""
_DASHSCOPE_HOSTS = ".aliyuncs.com"
Key: TypeAlias = Literal["model_key", "search_key", "embed_key", "judge_key"]
"""The settings that are keys."""
_ADDRESSES: dict[Key, tuple[str, str]] = {
    "model_key": ("base_url", "VRAG_BASE_URL=… or --base-url"),
    "search_key": ("search_url", "VRAG_SEARCH_URL=… or --search-url"),
    "embed_key": ("embedder", "VRAG_EMBEDDER=… or --embedder"),
    "judge_key": ("judge_url", "VRAG_JUDGE_URL=… or --judge-url"),
}
"""The setting that says where a key is sent, and how people name that address themselves."""
_MODELS: tuple[tuple[str, str, Key], ...] = (
    ("model", "base_url", "model_key"),
    ("judge_model", "judge_url", "judge_key"),
)
"""Settings that name a model, with its address and its key."""
_BROUGHT = frozenset({".env", "vrag.toml"})
"""Origins in the current folder, which may come from elsewhere."""
_USER_INFO = re.compile(r"(?<=://)\S*@")


class Settings(BaseSettings):
    """All settings. Frozen."""

    model_config = SettingsConfigDict(env_prefix="VRAG_", frozen=True, extra="forbid")

    collection: Address = Field(
        default_factory=_default_collection,
        min_length=1,
        description="Directory of the collection: index, pictures, runs; or the URL it is published under.",
    )
    collections: Addresses = Field(
        default=(), description="Collections that are searched together; none for `collection` alone."
    )
    embedder: str = Field(
        default="",
        description="What makes vectors of items and queries; empty for the collection's own, or for none.",
    )
    device: str = Field(
        default="auto",
        pattern=r"^(auto|cpu|mps|xpu|cuda(:\d+)?)$",
        description="Where models and vectors are computed: cpu, cuda, cuda:1.",
    )
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = Field(
        default="auto", description="Precision of models: float32, bfloat16, float16."
    )
    embed_pixels: int = Field(
        default=0, ge=0, description="Pixels of a picture that an embedder is shown at most; 0 for its own."
    )
    embed_frames: int = Field(
        default=0, ge=0, description="Frames of a video that an embedder is shown at most; 0 for its own."
    )
    embed_query_instruction: str = Field(
        default="",
        description="What Qwen3-VL-Embedding is asked to do with a query; empty for its own sentence.",
    )
    embed_document_instruction: str = Field(
        default="",
        description="The same for items; a collection keeps it, since it decides their vectors.",
    )
    visual_tokens: int = Field(
        default=768,
        ge=0,
        description="Visual tokens of a picture at most, with many vectors each; 0 for the model's own.",
    )
    embed_key: SecretStr = Field(
        default=SecretStr(""), description="Key for an embedder that is a server; sent as a bearer token."
    )
    batch: int = Field(default=8, ge=1, le=1024, description="Items that a model takes at once, at most.")
    ranking: Literal["auto", "lexical", "vector"] = Field(
        default="auto",
        description="What ranks items: lexical (words), vector, or auto: both where there are both.",
    )
    tier: Literal["auto", "exact", "rabitq", "pooled", "cuda"] = Field(
        default="auto", description="How vectors are searched; `vrag index status` says which way and why."
    )
    reranker: str = Field(default="", description="Model that ranks the best hits anew; empty for none.")
    rerank_depth: int = Field(default=30, ge=1, le=1000, description="Hits that the reranker looks at.")
    dpi: float = Field(default=144.0, ge=36, le=600, description="Resolution of rendered pages, per inch.")
    ocr: bool = Field(default=True, description="Read pages and pictures without text by OCR.")
    page_seconds: float = Field(
        default=60.0, gt=0, description="Time limit per page, in seconds of processor time."
    )
    max_pixels: int = Field(
        default=50_000_000, ge=1_000_000, description="Pixels beyond which a picture is refused."
    )
    passage_chars: int = Field(
        default=1200, ge=100, le=20_000, description="Length of the passages of text files, in characters."
    )
    qdrant: str = Field(
        default="", description="Where vectors are searched: qdrant://host:port/name; empty for this machine."
    )
    ray_address: str = Field(
        default="", description="Ray cluster for indexing: auto or ray://host:port; empty for this machine."
    )
    ray_embedders: int = Field(default=1, ge=1, description="Models that a Ray cluster runs at a time.")
    ray_gpus: float = Field(default=0.0, ge=0, description="GPUs that each of them takes.")
    clip_seconds: float = Field(default=60.0, ge=1, le=3600, description="Length of the clips of videos.")
    office_seconds: float = Field(
        default=180.0,
        gt=0,
        description="Time limit for turning an office document into pages, as page_seconds.",
    )
    workers: int = Field(default=0, ge=0, description="Processes that read files; 0 for one per core.")
    agent: AgentName = Field(
        default="vrag",
        description="How questions are answered: vrag; vimrag, with a memory graph; the baselines rag, one "
        "search and one model call, and react, search alone.",
    )
    model: str = Field(
        default="",
        description="Name of a served model, with its provider where it has a word (ollama:qwen3-vl:8b, "
        "openrouter:…), or local:PATH of a checkpoint; empty for the offline policy.",
    )
    models: Names = Field(
        default=(),
        description="Further models, of the same server, that people who ask a server may choose; in the "
        "environment with commas between them.",
    )
    base_url: str = Field(
        default="", description="Of the model's server, OpenAI-compatible: http://localhost:8002/v1"
    )
    model_key: SecretStr = Field(
        default=SecretStr(""), description="Key for the model's server; sent as a bearer token."
    )
    profile: str = Field(
        default="auto",
        description="Model family: picture sizes, coordinate space; auto by the model's name, server or "
        "checkpoint, or by measuring.",
    )
    probe: bool = Field(
        default=True,
        description="Measure how a model of no known family writes boxes, at its first use: 8 to 12 small "
        "questions.",
    )
    thinking: Literal["auto", "on", "off"] = Field(
        default="auto", description="Whether the model thinks apart from its reply; auto asks for neither."
    )
    thinking_switch: Literal["top", "template", "both", "effort", "reasoning"] = Field(
        default="top",
        description="How thinking is switched: top (DashScope), template (vLLM, SGLang), both of them, "
        "effort (OpenAI, Gemini, Ollama) or reasoning (OpenRouter).",
    )
    native_tools: bool = Field(
        default=False, description="Offer VimRAG's tools to the server as tools, beside the instruction."
    )
    temperature: float | None = Field(
        default=None, ge=0, le=2, description="Of sampling; none for 0, or 0.6 when the model thinks."
    )
    top_p: float | None = Field(
        default=None, gt=0, le=1, description="Of sampling; none for 1, or 0.95 when the model thinks."
    )
    seed: int | None = Field(default=None, description="Of sampling, where the server takes one.")
    max_tokens: int = Field(default=4096, ge=1, description="Tokens of a reply at most.")
    token_details: bool = Field(
        default=False, description="Ask the server for token ids and log-probabilities, for training."
    )
    connect_seconds: float = Field(
        default=10.0, gt=0, description="Time limit for reaching the model's server."
    )
    first_token_seconds: float = Field(
        default=120.0, gt=0, description="Time limit from a call to the first token of the reply."
    )
    token_seconds: float = Field(default=60.0, gt=0, description="Time limit from one token to the next.")
    call_seconds: float = Field(default=600.0, gt=0, description="Time limit for a whole reply.")
    model_retries: int = Field(default=5, ge=0, le=100, description="How often a failed call is made again.")
    model_requests: int = Field(
        default=64, ge=1, description="Calls that the model's server is sent at once."
    )
    price_prompt: float | None = Field(
        default=None, ge=0, description="Price of a million tokens of prompts, in any currency."
    )
    price_completion: float | None = Field(
        default=None, ge=0, description="Price of a million tokens of replies."
    )
    price_cached: float | None = Field(
        default=None, ge=0, description="Price of a million prompt tokens that the server had cached."
    )
    max_steps: int = Field(
        default=0,
        ge=0,
        le=200,
        description="Model calls of a run; 0 for the agent's own: 10 (vrag, react), 20 (vimrag), 1 (rag).",
    )
    budget_tokens: int | None = Field(default=None, ge=1, description="Tokens of a run, prompts and replies.")
    budget_visual_tokens: int | None = Field(
        default=None, ge=1, description="Visual tokens of a run, in all prompts together."
    )
    budget_seconds: float | None = Field(default=None, gt=0, description="Seconds of a run.")
    budget_cost: float | None = Field(default=None, gt=0, description="Cost of a run, by the prices.")
    hits: int = Field(
        default=0,
        ge=0,
        le=1000,
        description="Hits an agent's search returns; 0 for its own: 10 (vrag, react), 3 (vimrag, rag).",
    )
    show: int = Field(default=1, ge=1, le=10, description="Items that a search of vrag or react shows.")
    padding: float = Field(default=0.0, ge=0, le=1000, description="Item pixels added around a crop.")
    memory_tokens: int = Field(
        default=1280, ge=256, description="Visual tokens of what vimrag remembers, in each call."
    )
    memory_items: int = Field(default=5, ge=1, description="Items that vimrag is shown from memory.")
    memory_rule: Literal["through", "blocked"] = Field(
        default="through", description="Whether energy passes through nodes without pictures."
    )
    fresh_tokens: int = Field(
        default=4096, ge=256, description="Visual tokens of the results of a search of vimrag."
    )
    frame_tokens: int = Field(
        default=96,
        ge=1,
        description="Visual tokens of a frame of a video at least: below that frames are left out.",
    )
    crop_nodes: bool = Field(default=False, description="Let vimrag look closer at what it remembers.")
    reselect: bool = Field(
        default=False, description="Ask the model which of its evidence counts before the answer is given."
    )
    repair: bool = Field(
        default=True, description="Read replies that break the grammar where their meaning is clear."
    )
    actions: Names = Field(default=(), description="Actions of installed packages that the agent may take.")
    instruction: str = Field(
        default="", description="File with an instruction to use in place of ours; empty for ours."
    )
    search_url: str = Field(
        default="", description="Search server to use in place of a collection: http://localhost:8001/search"
    )
    search_key: SecretStr = Field(default=SecretStr(""), description="Token that the search server asks for.")
    image_root: str = Field(
        default="", description="Folder of the pictures that a search server of the reference names by path."
    )
    judge_model: str = Field(
        default="",
        description="Model that judges answers, in training and evaluation; empty for rules.",
    )
    judge_url: str = Field(default="", description="Of the judge's server, OpenAI-compatible.")
    judge_key: SecretStr = Field(
        default=SecretStr(""), description="Key for the judge's server; sent as a bearer token."
    )
    judge_cache: str = Field(
        default="", description="File in which verdicts are kept and found again; empty for memory alone."
    )

    _withheld: dict[Key, tuple[str, str]] = PrivateAttr(default_factory=dict[Key, tuple[str, str]])
    """Keys that are not there, and message and hint for whoever needs them."""
    _places: dict[Key, str] = PrivateAttr(default_factory=dict[Key, str])
    """Where keys come from that are not in the variable of their setting."""

    def key(self, name: Key) -> str | None:
        """A key to send to the server that the settings name; None where there is none.

        Raises:
            SettingsError: If there is one and it does not go there, because nobody but a file in the current
                folder names the server; or there is none, and the provider asks for one.
        """
        if reason := self._withheld.get(name):
            raise SettingsError(*reason)
        key: SecretStr = getattr(self, name)
        return key.get_secret_value() or None

    def key_place(self, name: Key) -> str:
        """Where the user put a key, or would put it: `VRAG_MODEL_KEY`, `OPENAI_API_KEY`, a file."""
        return self._places.get(name, f"VRAG_{name.upper()}")

    def placing(self, origins: Mapping[str, str]) -> Settings:
        """The same, knowing where its keys come from.

        Args:
            origins: As in `SettingsReport`.
        """
        copy = self.model_copy()
        copy._places = {  # noqa: SLF001 - of this class
            key: origin if origin.isupper() else f"{key} in {origin}"
            for key in _ADDRESSES
            if (origin := origins[key]) not in {"default", "environment", "flag"}
        }
        return copy

    def with_key_place(self, name: Key, place: str) -> Settings:
        """A copy whose messages about a key name the place that a caller knows, such as an argument.

        Args:
            name: The setting of the key.
            place: What `key_place` returns for it.
        """
        copy = self.model_copy()
        copy._places = {**self._places, name: place}  # noqa: SLF001 - of this class
        return copy

    def withholding(self, reasons: Mapping[Key, tuple[str, str]]) -> Settings:
        """The same without some keys.

        Args:
            reasons: Message and hint of the error that `key` raises for each.
        """
        copy = self.model_copy(update=dict.fromkeys(reasons, SecretStr("")))
        copy._withheld = dict(reasons)  # noqa: SLF001 - of this class
        return copy

    @field_serializer(
        "base_url",
        "search_url",
        "judge_url",
        "embedder",
        "qdrant",
        "ray_address",
        "collection",
        when_used="json",
    )
    def _shown(self, address: str) -> str:
        """An address as it is shown: without user name and password."""
        return _USER_INFO.sub("***@", address)

    @field_serializer("collections", when_used="json")
    def _all_shown(self, addresses: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(map(self._shown, addresses))

    @property
    def places(self) -> tuple[str, ...]:
        """The collections that are searched; runs are recorded in the first of them."""
        return self.collections or (self.collection,)

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],  # noqa: ARG003 - the signature is pydantic's
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Takes values as given only: `load_settings` reads the sources, to know each one's origin."""
        return (init_settings,)


@dataclass(frozen=True, slots=True)
class SettingsReport:
    """Settings and where each value came from."""

    settings: Settings
    origins: dict[str, str]
    """By name: `flag`, `environment`, `.env`, `default` or the path of the settings file; of a key that was
    dropped, that it was withheld and why."""
    file: Path | None
    """The settings file that was read."""


def settings_file() -> Path | None:
    """The settings file in force, if there is one.

    Raises:
        SettingsError: If `VRAG_CONFIG` names a file that does not exist.
    """
    if named := os.environ.get("VRAG_CONFIG"):
        if not Path(named).is_file():
            raise SettingsError(f"The settings file {named} does not exist.", "Correct VRAG_CONFIG.")
        return Path(named)
    places = [Path("vrag.toml"), user_config_path("vrag", appauthor=False) / "config.toml"]
    return next((place for place in places if place.is_file()), None)


def load_settings(**flags: Any) -> SettingsReport:  # noqa: ANN401 - validated by the model
    """Reads every source and keeps for each setting the strongest value.

    Args:
        flags: Values from the command line; None stands for a flag that was not given.

    Raises:
        SettingsError: If a value or the settings file cannot be used.
    """
    file = settings_file()
    layers = [("default", dict[str, Any]()), *_sources(file)]
    layers.append(("flag", {name: value for name, value in flags.items() if value is not None}))
    values: dict[str, Any] = {}
    origins = dict.fromkeys(Settings.model_fields, "default")
    for origin, layer in layers:
        if "collection" in layer:  # it outweighs several that were named with less weight
            values.pop("collections", None)
            origins["collections"] = "default"
        values |= layer
        origins |= dict.fromkeys(layer, origin)
    named = split_model(str(values.get("model") or ""))[0]
    missing = _apply_providers(values, origins)
    if named is None:
        _add_known_variables(values, origins)
    try:
        settings = Settings(**values)
    except ValidationError as error:
        raise SettingsError(_first_fault(error, origins)) from None
    settings = settings.placing(origins)
    return SettingsReport(settings.withholding(missing | _withheld_keys(settings, origins)), origins, file)


def _sources(file: Path | None) -> list[tuple[str, dict[str, Any]]]:
    """What file, `.env` and environment say, the weakest first."""
    try:
        toml = TomlConfigSettingsSource(Settings, file)() if file else {}
    except (tomllib.TOMLDecodeError, OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"The settings file {file} cannot be read: {error}.") from error
    known = Settings.model_fields.keys()
    try:
        dotenv = DotEnvSettingsSource(Settings, env_file=".env")()
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"The file .env cannot be read: {error}.") from error
    try:
        environment = EnvSettingsSource(Settings)()
    except EnvironmentFault as error:
        raise SettingsError(f"The environment cannot be read: {error}.") from error
    return [
        (str(file), toml),
        (".env", {name: value for name, value in dotenv.items() if name in known}),
        ("environment", environment),
    ]


def _apply_providers(values: dict[str, Any], origins: dict[str, str]) -> dict[Key, tuple[str, str]]:
    """Replaces `ollama:NAME` and the like by the name, and adds the provider's address and key.

    An address or key that the user set with at least the weight of the model's name stays. A model that a
    file in the current folder names gets the provider's own key and no other of the user's.

    Returns:
        The keys that providers ask for and that are not there: message and hint of the error.
    """
    missing: dict[Key, tuple[str, str]] = {}
    _name_further_models(values, split_model(str(values.get("model") or ""))[0])
    for model, url, key in _MODELS:
        provider, name = split_model(str(values.get(model) or ""))
        if provider is None:
            continue
        values[model], origin = name, f"{provider.name}: in {model}"
        if not _outweighs(url, model, values, origins):
            values[url], origins[url] = provider.base_url, origin
        if model == "model" and not _outweighs("thinking_switch", model, values, origins):
            values["thinking_switch"], origins["thinking_switch"] = provider.thinking_switch, origin
        # The provider's key is not for another server, such as a proxy, that the user set instead.
        # To an address that a folder brought along no key is sent; that is an error which names the key.
        own = origins[url] in _BROUGHT or _host(str(values[url]), "") == _host(provider.base_url, "")
        foreign_key = origins[model] in _BROUGHT and origins[key] not in _BROUGHT
        if foreign_key or (own and not _outweighs(key, model, values, origins)):
            variable = provider.key_variable if own else ""
            values[key], origins[key] = os.environ.get(variable, ""), variable or "default"
            if variable and not values[key]:
                missing[key] = f"{provider.title} asks for a key.", f"Set {variable}."
    return missing


def _outweighs(name: str, model: str, values: Mapping[str, Any], origins: Mapping[str, str]) -> bool:
    """Whether a setting is set, with at least the weight of a model's name."""
    weights = {"default": 0, ".env": 2, "environment": 3, "flag": 4}  # a settings file has its path here
    return bool(values.get(name)) and weights.get(origins[name], 1) >= max(weights.get(origins[model], 1), 1)


def _name_further_models(values: dict[str, Any], provider: Provider | None) -> None:
    """Take the provider off the names of further models, which are of the server of `model`.

    Raises:
        SettingsError: If one names another provider.
    """
    names = values.get("models") or ()
    listed = [str(name).strip() for name in (names.split(",") if isinstance(names, str) else names)]
    for name in listed:
        other = split_model(name)[0]
        if other is not None and other is not provider:
            raise SettingsError(
                f"The setting 'models' names {name}, and further models are asked at the server of 'model'.",
                f"Leave out {other.name}: or name a model of {other.title} as 'model'.",
            )
    values["models"] = [split_model(name)[1] for name in listed]


def _add_known_variables(values: dict[str, Any], origins: dict[str, str]) -> None:
    """Address and key of the model's server as other programs name them, where nothing of ours does.

    A key goes to an address that the user named, not to one that a file in the current folder brought along.
    """
    dashscope = "DASHSCOPE_API_KEY"
    if not values.get("base_url"):
        if address := os.environ.get("OPENAI_BASE_URL"):
            values["base_url"], origins["base_url"] = address, "OPENAI_BASE_URL"
        elif values.get("model") and os.environ.get(dashscope) and not os.environ.get("OPENAI_API_KEY"):
            values["base_url"], origins["base_url"] = DASHSCOPE, dashscope
    if values.get("model_key") or origins["base_url"] in _BROUGHT:
        return
    host = _host(str(values.get("base_url", "")), origins["base_url"])
    variable = dashscope if host.endswith(_DASHSCOPE_HOSTS) else "OPENAI_API_KEY"
    if values.get("base_url") and (key := os.environ.get(variable)):
        values["model_key"], origins["model_key"] = key, variable


def is_dashscope(address: str) -> bool:
    """Whether the models behind an address are DashScope's."""
    return (urlsplit(address).hostname or "").endswith(_DASHSCOPE_HOSTS)


def _host(address: str, origin: str) -> str:
    try:
        return urlsplit(address).hostname or ""
    except ValueError:
        shown = _USER_INFO.sub("***@", address)
        raise SettingsError(
            f"The setting 'base_url' ({origin}) cannot be used: {shown!r} is no address.",
            "It looks like http://localhost:8002/v1, or http://[::1]:8002/v1.",
        ) from None


def _withheld_keys(settings: Settings, origins: dict[str, str]) -> dict[Key, tuple[str, str]]:
    """The keys of the user whose address a file in the current folder brought along; why not, by name.

    A key that the folder brought along too is the folder's own.
    """
    reasons: dict[Key, tuple[str, str]] = {}
    for key, (place, own) in _ADDRESSES.items():
        source, address, given = origins[key], origins[place], str(getattr(settings, place))
        if not getattr(settings, key) or source in _BROUGHT or address not in _BROUGHT or not given:
            continue
        if key == "embed_key" and "://" not in given:
            continue  # a model in this process, which is sent no key
        origins[key] = f"{source}, withheld: {address} names the address"
        shown = _USER_INFO.sub("***@", given)
        reasons[key] = (
            f"{key} ({source}) is not sent to {shown}: only {address} of this folder names it.",
            f"Name the address yourself: {own}.",
        )
    return reasons


def _first_fault(error: ValidationError, origins: dict[str, str]) -> str:
    fault = error.errors()[0]
    name = str(fault["loc"][0]) if fault["loc"] else "settings"
    if fault["type"] == "extra_forbidden":
        return (
            f"There is no setting {name!r} ({origins.get(name, 'unknown origin')}); see `vrag config show`."
        )
    return f"The setting {name!r} ({origins.get(name, 'default')}) cannot be used: {fault['msg']}."


def unknown_variables() -> dict[str, str]:
    """Variables that look like settings and are none, each with the nearest that is one, or with nothing."""
    known = [f"VRAG_{name.upper()}" for name in Settings.model_fields]
    names = (name for name in os.environ if name.startswith("VRAG_"))
    strange = sorted(name for name in names if name.upper() not in {*known, *_OTHERS})
    return {name: next(iter(difflib.get_close_matches(name.upper(), known, 1)), "") for name in strange}
