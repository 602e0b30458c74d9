"""The command that starts a training run: a configuration and its settings."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vrag.errors import SettingsError
from vrag.rl.trainers.verl import LOOPS
from vrag.rl.trainers.verl.options import library
from vrag.rl.trainers.verl.preflight import IMPLEMENTATIONS, Attention, choose_attention, shipped

if TYPE_CHECKING:
    from pathlib import Path


AUTO = "auto"


@dataclass(frozen=True, slots=True)
class Launch:
    """A configuration of this package and the settings that override it."""

    configuration: str
    """One of `shipped`."""
    settings: tuple[str, ...]
    """In the order of Hydra: later ones win."""
    attention: Attention

    @property
    def command(self) -> list[str]:
        """The command line of verl's entry point."""
        folder = str(shipped()[self.configuration].parent)
        command = [sys.executable, "-m", "verl.trainer.main_ppo", "--config-path", folder]
        return [*command, "--config-name", self.configuration, *self.settings]

    def compose(self) -> Any:  # noqa: ANN401 - a DictConfig
        """Compose the configuration with verl's own Hydra, as the command does.

        Raises:
            MissingExtra: Without verl.
            Exception: Of Hydra, for a setting that no section has.
        """
        library("verl")
        hydra = library("hydra")
        folder = str(shipped()[self.configuration].parent)
        with hydra.initialize_config_dir(folder, version_base=None):
            return hydra.compose(self.configuration, overrides=list(self.settings))


def prepare_launch(
    configuration: str,
    *,
    agent: str = "vrag",
    attention: str = AUTO,
    settings: tuple[str, ...] = (),
    overrides: tuple[str, ...] = (),
) -> Launch:
    """Check the names and choose the attention implementation.

    Args:
        configuration: One of `shipped`.
        agent: One of `LOOPS`.
        attention: One of `IMPLEMENTATIONS`, or `auto`: by what is installed, unless `overrides` name one.
        settings: Of the files, the model, the servers.
        overrides: Further settings of the user, which win.

    Raises:
        SettingsError: If a name is unknown.
    """
    if configuration not in shipped():
        raise SettingsError(
            f"There is no configuration {configuration!r}.", f"Known: {', '.join(shipped())}."
        )
    if agent not in LOOPS:
        raise SettingsError(f"There is no agent {agent!r}.", f"Known: {', '.join(LOOPS)}.")
    names = [override.partition("=")[2] for override in overrides if override.startswith("attention=")]
    name = names[-1] if names else attention
    if name not in (*IMPLEMENTATIONS, *(() if names else (AUTO,))):
        known = ", ".join((AUTO, *IMPLEMENTATIONS))
        raise SettingsError(f"There is no attention implementation {name!r}.", f"Known: {known}.")
    chosen = choose_attention() if name == AUTO else Attention(name, "it was asked for")
    group = () if names else (f"attention={chosen.name}",)
    return Launch(configuration, (f"agent={agent}", *group, *settings, *overrides), chosen)


def judge_settings(url: str, model: str) -> tuple[str, ...]:
    """Write the judge as settings of verl.

    Raises:
        SettingsError: If only its server or only its name is given: every rollout would fail.
    """
    if not url and not model:
        return ()
    if not url or not model:
        raise SettingsError("A judge has a server and a name.", "Give both: --judge-url and --judge-model.")
    named = (f"vrag.judge.base_url={quote(url)}", f"vrag.judge.model={quote(model)}")
    return ("vrag.judge.kind=endpoint", *named)


def quote(value: str | Path) -> str:
    """Quote a value of any characters for Hydra."""
    escaped = str(value).replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
