"""The configurations for verl of this package, and their section `vrag`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from vrag.embed import device
from vrag.errors import MissingExtra
from vrag.rl.advantages import GgpoOptions
from vrag.rl.episodes.options import EpisodeOptions, validate_options


class VerlOptions(EpisodeOptions):
    """The section `vrag`: the options of rollouts, their credit and their records."""

    reply_tokens: int = Field(default=2048, ge=1)
    """Of each reply, at most."""
    credit: Literal["trajectory", "node"] = "trajectory"
    """`trajectory` is GRPO: every row of a trajectory has its advantage. `node` is GGPO."""
    penalty: float = Field(default=0.5, ge=0)
    """c of GGPO: what a segment with an invalid action costs."""
    dead_ends: bool = True
    evidence: bool = True
    records: str = ""
    """Folder that gets one line of JSON for each rollout, failed ones included; empty for none."""

    __hash__ = EpisodeOptions.__hash__

    @property
    def ggpo(self) -> GgpoOptions:
        """The rules of GGPO that apply."""
        return GgpoOptions(penalty=self.penalty, dead_ends=self.dead_ends, evidence=self.evidence)


def read_options(section: Mapping[str, Any] | None) -> VerlOptions:
    """Validate the section `vrag` of a configuration; None for the defaults.

    Raises `SettingsError` with the key if it is unknown or its value cannot be used.
    """
    return validate_options(VerlOptions, section or {}, "vrag")


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


def shipped() -> dict[str, Path]:
    """List the configurations that come with this package, by name."""
    folder = Path(__file__).parents[2] / "configs"
    return {path.stem: path for path in sorted(folder.glob("*.yaml"))}


def compose(name: str, overrides: Sequence[str] = ()) -> Any:  # noqa: ANN401 - a DictConfig
    """Compose a shipped configuration as verl does, which raises for a setting that no section has."""
    library("verl")
    hydra = library("hydra")
    with hydra.initialize_config_module("vrag.rl.configs", version_base=None):
        return hydra.compose(name, overrides=list(overrides))
