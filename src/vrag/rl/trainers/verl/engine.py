"""verl and what it brings along, imported where they are used."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vrag.embed.device import library as of_models
from vrag.errors import MissingExtra
from vrag.rl.trainers.verl.options import read_options

if TYPE_CHECKING:
    from vrag.rl.trainers.verl.options import VerlOptions

__all__ = ["library", "options_of"]


def library(name: str) -> Any:  # noqa: ANN401 - none of these libraries is typed
    """One of the libraries of the extra `verl`.

    Raises:
        MissingExtra: If it is not installed.
    """
    try:
        return of_models(name)
    except MissingExtra as error:
        raise MissingExtra(name.partition(".")[0].replace("_", "-"), "verl") from error


def options_of(config: Any) -> VerlOptions:  # noqa: ANN401 - a DictConfig
    """What the section `vrag` of a configuration of verl says; the usual where it has none.

    Raises:
        MissingExtra: Without what verl brings along.
        SettingsError: If a key is unknown or a value cannot be used.
    """
    section = config.get("vrag")
    if section is None:
        return read_options(None)
    return read_options(library("omegaconf").OmegaConf.to_container(section, resolve=True))
