"""The settings: their names, defaults and descriptions, and the origin of each value.

A flag on the command line wins over an environment variable (`VRAG_…`), which wins over a line in
`.env`, which wins over the settings file, which wins over the default. The settings file is the
one that `VRAG_CONFIG` names, else `vrag.toml` in the current folder, else `config.toml` in the
user's configuration folder. Nothing is built here.
"""

from __future__ import annotations

import difflib
import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

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
from vrag.providers import (
    KEY_ADDRESSES,
    Key,
    add_known_variables,
    apply_providers,
    complete_address,
    find_withheld_keys,
    hide_credentials,
    split_model,
)
from vrag.types import OcrMode, parse_ocr_mode

if TYPE_CHECKING:
    from collections.abc import Mapping

_OTHER_VARIABLES = frozenset(
    {
        "VRAG_CONFIG",
        "VRAG_API_KEY",
        "VRAG_COLPALI_PYTHON",
        "VRAG_FIXED_MODELS",
        "VRAG_LLAMAFACTORY_PYTHON",
        "VRAG_ROOT_PATH",
        "VRAG_TOKENS",
        "VRAG_VERL_PYTHON",
        "VRAG_VLLM_PYTHON",
    }
)
"""Variables that are not settings."""


def _default_collection() -> str:
    return str(user_data_path("vrag", appauthor=False) / "collections" / "default")


def _as_text(value: object) -> object:
    text = str(value) if isinstance(value, Path) else value
    return os.path.expanduser(text) if isinstance(text, str) and text.startswith("~") else text  # noqa: PTH111


Address: TypeAlias = Annotated[str, BeforeValidator(_as_text)]
"""A directory or a URL."""


def _as_server(value: object) -> object:
    return complete_address(value) if isinstance(value, str) else value


ServerAddress: TypeAlias = Annotated[str, BeforeValidator(_as_server)]
"""The URL of a server; without a scheme, such as 127.0.0.1:8001, it is http."""


def _as_list(value: object) -> object:
    return [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value


Addresses: TypeAlias = Annotated[tuple[Address, ...], NoDecode, BeforeValidator(_as_list)]
"""Directories or URLs, in the environment with commas between them."""
Names: TypeAlias = Annotated[tuple[str, ...], NoDecode, BeforeValidator(_as_list)]
"""Names, in the environment with commas between them."""
AgentName: TypeAlias = Literal["vrag", "vimrag", "rag", "react"]
"""Names of the agents."""


class Settings(BaseSettings):
    """All settings. Frozen."""

    model_config = SettingsConfigDict(
        env_prefix="VRAG_", frozen=True, extra="forbid", use_attribute_docstrings=True
    )

    collection: Address = Field(default_factory=_default_collection, min_length=1)
    """Directory of the collection (index, pictures, runs), or the URL where it is published."""
    collections: Addresses = ()
    """Collections that are searched together; empty to use only `collection`."""
    runs_dir: str = ""
    """Directory of recorded runs; empty for `runs` in the collection, or, where that cannot be written to, a
    directory in your data directory."""
    wait: float = Field(default=5.0, ge=0, allow_inf_nan=False)
    """Seconds to wait for another process that is writing to the collection; 0 to fail at once."""
    embedder: str = ""
    """Embedding model of items and queries: folder or name; empty for the collection's own, or for none."""
    device: str = Field(default="auto", pattern=r"^(auto|cpu|mps|xpu|cuda(:\d+)?)$")
    """Device of models and vectors: cpu, cuda, cuda:1."""
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    """Precision of models: float32, bfloat16, float16."""
    embed_pixels: int = Field(default=0, ge=0)
    """Maximum pixels of a picture for the embedder; 0 for its own limit."""
    embed_frames: int = Field(default=0, ge=0)
    """Maximum frames of a video for the embedder; 0 for its own limit."""
    embed_query_instruction: str = ""
    """Instruction for queries, for Qwen3-VL-Embedding; empty for its default."""
    embed_document_instruction: str = ""
    """Instruction for documents; stored in the collection, since it changes the vectors."""
    visual_tokens: int = Field(default=768, ge=0)
    """Maximum visual tokens per picture for multi-vector embedders; 0 for the model's limit."""
    embed_key: SecretStr = SecretStr("")
    """Key of a remote embedder; sent as a bearer token."""
    batch: int = Field(default=8, ge=1, le=1024)
    """Maximum items per batch of a model."""
    ranking: Literal["auto", "lexical", "vector", "fused"] = "auto"
    """Ranking of items: lexical (words), vector, fused (both), or auto (both where vectors are of pictures,
    words alone where the embedder takes text only)."""
    tier: Literal["auto", "exact", "rabitq", "pooled", "cuda"] = Field(
        default="auto",
        description="Vector search method (exact, rabitq, pooled, cuda); `vrag index status` shows the "
        "choice and the reason.",
    )
    reranker: str = ""
    """Model that reranks the best hits; empty for none."""
    rerank_depth: int = Field(default=30, ge=1, le=1000)
    """Number of hits that the reranker sees."""
    reader: str = ""
    """Extractive question-answering model that reads text beside the package's own reader; empty for none."""
    durability: Literal["full", "normal"] = Field(
        default="full",
        description="Whether commits and events of runs are on the disk before they are acknowledged (full); "
        "normal may lose the last of them when the machine loses power.",
    )
    dpi: float = Field(default=144.0, ge=36, le=600)
    """Resolution of rendered pages, in dots per inch."""
    ocr: Annotated[OcrMode, BeforeValidator(parse_ocr_mode)] = Field(
        default="auto",
        description="What OCR reads: what is seen on a page and not in its text (auto), all of every page "
        "(always), or nothing (never). true and false, of earlier versions, are auto and never.",
    )
    page_seconds: float = Field(default=60.0, gt=0)
    """Time limit per page, in seconds of processor time."""
    max_pixels: int = Field(default=50_000_000, ge=1_000_000)
    """Maximum pixels of a picture; larger ones are refused."""
    passage_chars: int = Field(default=1200, ge=100, le=20_000)
    """Length of the passages of text files, in characters."""
    qdrant: str = ""
    """Qdrant collection of the vectors, qdrant://host:port/name; empty to search on this machine."""
    ray_address: str = ""
    """Ray cluster for indexing: auto or ray://host:port; empty for this machine."""
    ray_embedders: int = Field(default=1, ge=1)
    """Embedding models that a Ray cluster runs at a time."""
    ray_gpus: float = Field(default=0.0, ge=0)
    """GPUs per embedding model on Ray."""
    sources: bool = True
    """Draw enlarged parts of pages from the PDF files, where these are still as indexed."""
    clip_seconds: float = Field(default=60.0, ge=1, le=3600)
    """Length of video clips, in seconds."""
    office_seconds: float = Field(default=180.0, gt=0)
    """Time limit for converting an office document, in seconds of processor time."""
    workers: int = Field(default=0, ge=0)
    """Number of processes that read files; 0 for one per core."""
    sandbox: Literal["auto", "on", "off"] = "auto"
    """Restrict the processes that read files: auto, as far as the system can; on, or read nothing; off."""
    parse_user: str = "nobody"
    """User that reads files when vrag runs as root; empty for root."""
    agent: AgentName = Field(
        default="vrag",
        description="Agent: vrag; vimrag, with a memory graph; or a baseline: rag (one search and one "
        "model call), react (search only).",
    )
    model: str = Field(
        default="",
        description="Name of a served model, with a prefix for its provider (ollama:qwen3-vl:8b, "
        "openrouter:…), or local:PATH of a checkpoint; empty to answer without a model.",
    )
    models: Names = Field(
        default=(), description="Further models on the same server that users of `vrag serve` may choose."
    )
    base_url: ServerAddress = ""
    """URL of the model server, OpenAI-compatible: http://localhost:8002/v1"""
    model_key: SecretStr = SecretStr("")
    """Key of the model server; sent as a bearer token."""
    profile: str = Field(
        default="auto",
        description="Model family: picture sizes and box coordinates; auto detects it by the model's "
        "name, server or checkpoint, or measures it.",
    )
    probe: bool | None = Field(
        default=None,
        description="Measure the box coordinates of a model of an unknown family at its first use: 8 to "
        "12 requests with a small picture each. Unset, people are asked first on a terminal, and elsewhere "
        "nothing is measured.",
    )
    thinking: Literal["auto", "on", "off"] = "auto"
    """Whether the model thinks before its reply; auto uses the server's default."""
    thinking_switch: Literal["top", "template", "both", "effort", "reasoning"] = Field(
        default="top",
        description="Request field that switches thinking: top (DashScope), template (vLLM, SGLang), "
        "both, effort (OpenAI, Gemini, Ollama) or reasoning (OpenRouter).",
    )
    native_tools: bool = False
    """Also send the tools of VimRAG to the server as native tools."""
    temperature: float | None = Field(default=None, ge=0, le=2)
    """Sampling temperature; none for 0, or 0.6 with thinking."""
    top_p: float | None = Field(default=None, gt=0, le=1)
    """Sampling top-p; none for 1, or 0.95 with thinking."""
    seed: int | None = None
    """Sampling seed, if the server supports one."""
    max_tokens: int = Field(default=4096, ge=1)
    """Maximum tokens per reply."""
    token_details: bool = False
    """Request token ids and log-probabilities, for training."""
    connect_seconds: float = Field(default=10.0, gt=0)
    """Time limit for connecting to the model server."""
    first_token_seconds: float = Field(default=120.0, gt=0)
    """Time limit until the first token of a reply."""
    token_seconds: float = Field(default=60.0, gt=0)
    """Time limit between two tokens."""
    call_seconds: float = Field(default=600.0, gt=0)
    """Time limit of a reply."""
    model_retries: int = Field(default=5, ge=0, le=100)
    """Maximum retries of a failed call."""
    model_requests: int = Field(default=64, ge=1)
    """Maximum concurrent calls to the model server."""
    price_prompt: float | None = Field(default=None, ge=0)
    """Price per million prompt tokens, in any currency."""
    price_completion: float | None = Field(default=None, ge=0)
    """Price per million reply tokens."""
    price_cached: float | None = Field(default=None, ge=0)
    """Price per million cached prompt tokens."""
    max_steps: int = Field(default=0, ge=0, le=200)
    """Maximum model calls per run; 0 for the agent's own: 10 (vrag, react), 20 (vimrag), 1 (rag)."""
    budget_tokens: int | None = Field(default=None, ge=1)
    """Maximum tokens per run, prompts and replies."""
    budget_visual_tokens: int | None = Field(default=None, ge=1)
    """Maximum visual tokens per run, in all prompts together."""
    budget_seconds: float | None = Field(default=None, gt=0)
    """Maximum seconds per run."""
    budget_cost: float | None = Field(default=None, gt=0)
    """Maximum cost per run, by the prices."""
    hits: int = Field(default=0, ge=0, le=1000)
    """Hits per search of the agent; 0 for its own: 10 (vrag, react), 3 (vimrag, rag), 10 without a model."""
    show: int = Field(default=0, ge=0, le=10)
    """Items that a search of vrag or react shows; 0 for 1, or 10 without a model."""
    select: int = Field(
        default=0,
        ge=0,
        le=10,
        description="Pages that a search of vrag shows, of which the model selects one by <select> before it "
        "looks closer (UniDoc-RL); 0 for no selection, or what a checkpoint was trained with.",
    )
    tables: bool = False
    """Show a model the tables of a page as text beside its picture."""
    padding: float = Field(default=0.0, ge=0, le=1000)
    """Pixels of the item added around a crop."""
    memory_tokens: int = Field(default=1280, ge=256)
    """Visual tokens of vimrag's memory in each call."""
    memory_items: int = Field(default=5, ge=1)
    """Items that vimrag is shown from memory."""
    memory_rule: Literal["through", "blocked"] = "through"
    """Whether energy passes through nodes without pictures."""
    fresh_tokens: int = Field(default=4096, ge=256)
    """Visual tokens of the results of a search of vimrag."""
    frame_tokens: int = Field(default=96, ge=1)
    """Minimum visual tokens per video frame; with less room, frames are left out."""
    crop_nodes: bool = True
    """Let vimrag zoom into pictures from memory; False as in the reference."""
    reselect: bool = False
    """Ask the model to select its evidence before it answers."""
    repair: bool = True
    """Accept replies with a broken grammar if their meaning is clear."""
    verify: Literal["off", "tell", "repair", "withdraw"] = Field(
        default="tell",
        description="Compare the claims of an answer with the text of its evidence: tell shows verdicts, "
        "repair asks the model once to look again, withdraw gives no answer that is in doubt.",
    )
    second_reading: bool = Field(
        default=True,
        description="Read the places that an answer rests on a second time, as a picture, by OCR: what both "
        "readings say is verified, and a number that they read differently is doubted.",
    )
    verify_by: Literal["rules", "judge"] = "rules"
    """What checks claims: rules, or also the judge model, on the pictures, where rules cannot decide."""
    actions: Names = ()
    """Custom tools that the agent may use: `list_documents`, and those of installed packages."""
    instruction: str = ""
    """File of a custom instruction; empty for the built-in one."""
    keep_runs: float = Field(
        default=0,
        ge=0,
        le=36_500,
        description="Days after the last question at which a server deletes a conversation that is neither "
        "pinned nor shared; 0 for never.",
    )
    audit_log: Address = ""
    """File in which a server logs who asked, searched, uploaded and removed what; empty for none."""
    audit_questions: bool = False
    """Write the text of questions and searches to the audit log."""
    search_url: ServerAddress = ""
    """Search server in place of a collection: http://localhost:8001/search. `--collection` overrides it."""
    search_key: SecretStr = SecretStr("")
    """Key of the search server; sent as a bearer token."""
    image_root: str = ""
    """Directory of the images that a search server of the reference implementation names."""
    judge_model: str = ""
    """Model that judges answers in training and evaluation; empty for rules."""
    judge_url: ServerAddress = ""
    """URL of the judge's server, OpenAI-compatible."""
    judge_key: SecretStr = SecretStr("")
    """Key of the judge's server; sent as a bearer token."""
    judge_cache: str = ""
    """File of cached verdicts; empty to cache in memory only."""

    _withheld: dict[Key, tuple[str, str]] = PrivateAttr(default_factory=dict[Key, tuple[str, str]])
    """Message and hint for keys that are missing or not sent."""
    _places: dict[Key, str] = PrivateAttr(default_factory=dict[Key, str])
    """Origins of keys that are not in the variable of their setting."""

    @property
    def durable(self) -> bool:
        """True if what is acknowledged is on the disk."""
        return self.durability == "full"

    def key(self, name: Key) -> str | None:
        """Return a key to send to the server in the settings; None where there is none.

        Raises `SettingsError` if there is one and it is withheld, because only a file in the current folder
        names the server; or there is none, and the provider requires one.
        """
        if reason := self._withheld.get(name):
            raise SettingsError(*reason)
        key: SecretStr = getattr(self, name)
        return key.get_secret_value() or None

    def key_place(self, name: Key) -> str:
        """Return where the user sets a key: `VRAG_MODEL_KEY`, `OPENAI_API_KEY`, a file."""
        return self._places.get(name, f"VRAG_{name.upper()}")

    def placing(self, origins: Mapping[str, str]) -> Settings:
        """Return a copy that knows where its keys come from, by the origins of a `SettingsReport`."""
        copy = self.model_copy()
        copy._places = {  # noqa: SLF001 - of this class
            key: origin if origin.isupper() else f"{key} in {origin}"
            for key in KEY_ADDRESSES
            if (origin := origins[key]) not in {"default", "environment", "flag"}
        }
        return copy

    def with_key_place(self, name: Key, place: str) -> Settings:
        """Return a copy whose messages about a key name another place, such as an argument of the caller."""
        copy = self.model_copy()
        copy._places = {**self._places, name: place}  # noqa: SLF001 - of this class
        return copy

    def withholding(self, reasons: Mapping[Key, tuple[str, str]]) -> Settings:
        """Return a copy without some keys, for which `key` raises an error with this message and hint."""
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
        """Hide what may be a password or a key."""
        return hide_credentials(address)

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
        """Take given values only: `load_settings` reads the sources, to know the origin of each value."""
        return (init_settings,)


@dataclass(frozen=True, slots=True)
class SettingsReport:
    """Settings and the origin of each value."""

    settings: Settings
    origins: dict[str, str]
    """By name: `flag`, `environment`, `.env`, `default` or the path of the settings file; of a key that is
    withheld, also the reason."""
    file: Path | None
    """The settings file, if there is one."""


def settings_file() -> Path | None:
    """Find the settings file, if there is one.

    Raises `SettingsError` if `VRAG_CONFIG` names a file that does not exist.
    """
    if named := os.environ.get("VRAG_CONFIG"):
        if not Path(named).is_file():
            raise SettingsError(f"The settings file {named} does not exist.", "Correct VRAG_CONFIG.")
        return Path(named)
    places = [Path("vrag.toml"), user_config_path("vrag", appauthor=False) / "config.toml"]
    return next((place for place in places if place.is_file()), None)


def load_settings(**flags: Any) -> SettingsReport:  # noqa: ANN401 - validated by the model
    """Read every source and keep the strongest value of each setting.

    A flag that is None was not given. Raises `SettingsError` if a value or the settings file cannot be used.
    """
    file = settings_file()
    layers = [("default", dict[str, Any]()), *_sources(file)]
    layers.append(("flag", {name: value for name, value in flags.items() if value is not None}))
    values: dict[str, Any] = {}
    origins = dict.fromkeys(Settings.model_fields, "default")
    for origin, layer in layers:
        if "collection" in layer:  # it replaces `collections` of weaker sources
            values.pop("collections", None)
            origins["collections"] = "default"
        if origin == "flag" and {"collection", "collections"} & layer.keys():  # what was named is searched
            values.pop("search_url", None)
            origins["search_url"] = "default"
        values |= layer
        origins |= dict.fromkeys(layer, origin)
    settings = _resolve(values, origins)
    return SettingsReport(settings, origins, file)


def change_settings(settings: Settings, origins: Mapping[str, str], **changes: Any) -> Settings:  # noqa: ANN401
    """Return settings with other values, checked and completed as those of `load_settings` are.

    `origins` are those of the settings, as in `SettingsReport`. A change that is None is none. With another
    model, the server and the key stay only if they did not come with the provider of the former one.

    Raises `SettingsError` if a value cannot be used.
    """
    changed = {name: value for name, value in changes.items() if value is not None}
    values = {name: getattr(settings, name) for name in settings.model_fields_set} | changed
    origins = {**origins, **dict.fromkeys(changed, "flag")}
    if "model" in changed:
        for name in ("base_url", "model_key", "thinking_switch"):
            if origins[name].endswith(": in model") or not changed["model"]:
                values.pop(name, None)
                origins[name] = "default"
    return _resolve(values, origins)


def _resolve(values: dict[str, Any], origins: dict[str, str]) -> Settings:
    """Complete values with those of providers, and check them; the origins are changed in place.

    Raises `SettingsError` if a value cannot be used.
    """
    for name in {"base_url", "search_url", "judge_url"} & values.keys():
        values[name] = _as_server(values[name])
    provider = split_model(str(values.get("model") or ""))[0]
    missing = apply_providers(values, origins)
    if provider is None:
        add_known_variables(values, origins)
    try:
        settings = Settings(**values).placing(origins)
    except ValidationError as error:
        fault = error.errors()[0]
        name = str(fault["loc"][0]) if fault["loc"] else "settings"
        if fault["type"] == "extra_forbidden":
            raise unknown_setting(name, origins.get(name, "unknown origin")) from None
        origin = origins.get(name, "default")
        raise SettingsError(f"The setting {name!r} ({origin}) cannot be used: {fault['msg']}.") from None
    return settings.withholding(missing | find_withheld_keys(settings, origins))


def unknown_setting(name: str, origin: str) -> SettingsError:
    """Return the error that there is no setting of a name, with the nearest one.

    Names are written as where they come from: `VRAG_MODLE` is near `VRAG_MODEL`.
    """
    known = list(Settings.model_fields)
    if name.upper().startswith("VRAG_"):
        known = [f"VRAG_{setting.upper()}" for setting in known]
    near = difflib.get_close_matches(name.upper() if name.isupper() else name.lower(), known, 1)
    place = "" if origin in {"flag", "environment"} else f" ({origin})"
    question = f" Did you mean {near[0]!r}?" if near else ""
    return SettingsError(
        f"Unknown setting {name!r}{place}.{question}", "`vrag config show` lists all settings."
    )


def _sources(file: Path | None) -> list[tuple[str, dict[str, Any]]]:
    """Read file, `.env` and environment, the weakest first."""
    try:
        toml = TomlConfigSettingsSource(Settings, file)() if file else {}
    except (ValueError, RecursionError, OSError) as error:
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


def unknown_variables() -> list[SettingsError]:
    """Return an error for each variable `VRAG_…` of the environment or of `.env` that is no setting."""
    known = {*(f"VRAG_{name.upper()}" for name in Settings.model_fields), *_OTHER_VARIABLES}
    places = [(name, "environment") for name in os.environ]
    with suppress(OSError, UnicodeDecodeError):
        variables = DotEnvSettingsSource(Settings, env_file=".env").env_vars  # in lower case
        places += [(name.upper(), ".env") for name in variables if name.upper() not in os.environ]
    unknown = {
        (name, origin) for name, origin in places if name.startswith("VRAG_") and name.upper() not in known
    }
    return [unknown_setting(name, origin) for name, origin in sorted(unknown)]
