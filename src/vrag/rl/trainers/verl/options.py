"""The section `vrag` of a configuration of verl: search, agents and rewards."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from vrag.embed import device
from vrag.errors import MissingExtra, SettingsError
from vrag.reward.combine import COSTS, OWN_PARTS, Weights
from vrag.rl.advantages import GgpoOptions


class _StrictOptions(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class JudgeOptions(_StrictOptions):
    """The judge of answers."""

    kind: Literal["rules", "endpoint"] = "rules"
    """`rules` compares by rules, offline; `endpoint` asks a model behind an OpenAI-compatible server."""
    exact: bool = False
    """Of rules: a number must stand alone and is not rounded."""
    typos: bool = False
    """Of rules: one wrong letter within a long word passes."""
    base_url: str = ""
    model: str = ""
    key_variable: str = "VRAG_JUDGE_KEY"
    """The environment variable that holds its key. The key itself is never in a configuration."""
    requests: int = Field(default=64, ge=1)
    """Maximum of concurrent requests of one process."""

    @property
    def key(self) -> str | None:
        """The key in the environment; None without one."""
        return os.environ.get(self.key_variable) or None


class PartWeights(_StrictOptions):
    """The weights of the parts of VRAG's reward; see `vrag.reward`."""

    retrieval: float = Field(default=0.2, ge=0)
    answer: float = Field(default=0.7, ge=0)
    pattern: float = Field(default=0.1, ge=0)
    region: float = Field(default=0.0, ge=0)
    attribution: float = Field(default=0.0, ge=0)
    support: float = Field(default=0.0, ge=0)
    selection: float = Field(default=0.0, ge=0)
    turn_cost: float = Field(default=0.0, ge=0)
    """Cost of each model call beyond two."""
    repeat_cost: float = Field(default=0.0, ge=0)
    """Cost of each repeated search."""

    @property
    def weights(self) -> Weights:
        """The weights; parts of evidence only where they count.

        Raises `SettingsError` if they do not sum to 1.
        """
        always = (*OWN_PARTS, *COSTS)
        return Weights.of({name: value for name, value in self if name in always or value > 0})


class MemorySettings(_StrictOptions):
    """The memory of VimRAG; the same in training and in serving."""

    tokens: int = Field(default=1280, ge=1)
    fresh_tokens: int = Field(default=4096, ge=1)
    items: int = Field(default=5, ge=1)
    crop_nodes: bool = True


class VerlOptions(_StrictOptions):
    """The whole section."""

    search_url: str = "http://127.0.0.1:8001"
    """The search server: `vrag serve` or the reference's. One serves all workers."""
    search_key_variable: str = "VRAG_SEARCH_KEY"
    """The environment variable that holds its token."""
    image_root: str = ""
    """Folder of the pictures that a server of the reference names by path."""
    searcher: str = ""
    """Instead of a server: `module:function`, which is called without arguments and returns a `Searcher`."""
    scorer: str = ""
    """Instead of the reward below: `module:function`, called with the agent's name, returns a `Scorer`."""
    judge: JudgeOptions = JudgeOptions()
    preset: Literal["", "vrag", "vrag-after-sft", "attribution", "unidoc"] = ""
    """A mixture by name instead of `weights`; empty for these. `unidoc` needs `select`."""
    weights: PartWeights = PartWeights()
    gate: bool = True
    """True if a trajectory without a search or without an answer earns 0."""
    profile: str = "auto"
    """Family of the model; auto by the checkpoint."""
    instruction: str | None = None
    """A custom instruction; None for the built-in one."""
    steps: int = Field(default=5, ge=1)
    """Model calls of a trajectory: the reference's four turns and one closing generation."""
    reply_tokens: int = Field(default=2048, ge=1)
    """Of each reply, at most."""
    seconds: float | None = Field(default=600.0, gt=0)
    """Deadline of a trajectory."""
    hits: int = Field(default=0, ge=0, le=1000)
    """Hits of a search; 0 for the agent's own: 10 (vrag), 3 (vimrag)."""
    show: int = Field(default=1, ge=1, le=10)
    select: int = Field(default=0, ge=0, le=10)
    """Pages of a search of vrag, of which the model selects one; 0 without selection."""
    padding: float = Field(default=0.0, ge=0, le=1000)
    memory: MemorySettings = MemorySettings()
    credit: Literal["trajectory", "node"] = "trajectory"
    """`trajectory` is GRPO: every row of a trajectory has its advantage. `node` is GGPO."""
    penalty: float = Field(default=0.5, ge=0)
    """c of GGPO: what a segment with an invalid action costs."""
    dead_ends: bool = True
    evidence: bool = True
    records: str = ""
    """Folder that gets one line of JSON for each rollout, failed ones included; empty for none."""

    def __hash__(self) -> int:
        """Hash the values, so that clients of equal options are shared."""
        return hash(self.model_dump_json())

    @property
    def search_key(self) -> str | None:
        """The token of the search server in the environment; None without one."""
        return os.environ.get(self.search_key_variable) or None

    @property
    def ggpo(self) -> GgpoOptions:
        """The rules of GGPO that apply."""
        return GgpoOptions(penalty=self.penalty, dead_ends=self.dead_ends, evidence=self.evidence)


def read_options(section: Mapping[str, Any] | None) -> VerlOptions:
    """Validate the section `vrag` of a configuration; None for the defaults.

    Raises `SettingsError` with the key if it is unknown or its value cannot be used.

    >>> read_options({"steps": 3}).steps
    3
    """
    try:
        return VerlOptions.model_validate(dict(section or {}))
    except ValidationError as error:
        fault = error.errors(include_url=False, include_context=False)[0]
        key = ".".join(["vrag", *map(str, fault["loc"])])
        raise SettingsError(f"{key}: {fault['msg']}.", "docs/verl.md lists the keys.") from None


def library(name: str) -> Any:  # noqa: ANN401 - none of these libraries is typed
    """Import a library of the extra `verl` where it is used; raise `MissingExtra` if it is not installed."""
    try:
        return device.library(name)
    except MissingExtra as error:
        raise MissingExtra(name.partition(".")[0].replace("_", "-"), "verl") from error


def options_of(config: Any) -> VerlOptions:  # noqa: ANN401 - a DictConfig
    """Read the section `vrag` of a configuration of verl; the defaults where it has none.

    Raises `MissingExtra` without the dependencies of verl and `SettingsError` if a key is unknown or a value
    cannot be used.
    """
    section = config.get("vrag")
    if section is None:
        return VerlOptions()
    return read_options(library("omegaconf").OmegaConf.to_container(section, resolve=True))
