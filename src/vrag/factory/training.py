"""Judges, rewards and run configurations for training and evaluation, built from the settings."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from vrag.agent.methods import METHODS
from vrag.embed.model_files import checkpoint_digest, find_checkpoint
from vrag.errors import SettingsError
from vrag.evaluation.answer_extraction import Extractor
from vrag.evaluation.fact_judge import FactJudge
from vrag.factory.models import open_judge_model
from vrag.providers import LOCAL_PREFIX
from vrag.reward import CompositeReward, OutcomeReward, Weights
from vrag.reward.cached_judge import CachedJudge
from vrag.reward.combine import load_parts
from vrag.reward.endpoint_judge import EndpointJudge
from vrag.reward.rules_judge import RulesJudge

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vrag.agent.agent import Agent
    from vrag.reward.reward import IdentifiedJudge
    from vrag.search.searcher import Searcher
    from vrag.settings import Settings

VERDICTS = "verdicts.sqlite"
"""File with the verdicts and short answers of a judge model, in the folder of the runs."""


def settings_to_train(settings: Settings, *, check_claims: bool = False) -> Settings:
    """Return the settings of runs to train on: claims are not checked, and so evidence is not located.

    With `check_claims` the settings stay as they are, since a reward needs the verdicts; so they do where
    `VRAG_VERIFY` is set.
    """
    if check_claims or "verify" in settings.model_fields_set:
        return settings
    return settings.model_copy(update={"verify": "off"})


def made_with(settings: Settings, agent: Agent, searcher: Searcher) -> dict[str, Any]:
    """Return the configuration of runs as JSON: runs in one folder must have the same.

    A checkpoint in this process is identified by its files, since folder names repeat.

    Raises `EmbedError` if the checkpoint cannot be read.
    """
    excluded = set[str]() if agent.settings.repair else {"repair"}  # as in folders from before this setting
    run_settings = agent.settings.model_dump(mode="json", exclude=excluded)
    config = {**run_settings, "collection": searcher.version}
    if not settings.model.startswith(LOCAL_PREFIX):
        return config
    return {
        **config,
        "checkpoint": checkpoint_digest(find_checkpoint(settings.model.removeprefix(LOCAL_PREFIX))),
    }


def open_judge(settings: Settings, *, exact: bool = False, beside: Path | None = None) -> IdentifiedJudge:
    """Return the judge of answers: the model that the settings name, or rules.

    With `exact`, rules judge in any case, and accept a number only if it stands alone and is not rounded.
    `beside` is the folder of the judged runs, where the verdicts of a model are cached unless the settings
    name another place.

    Raises `SettingsError` if the judge model has no server, or its key is withheld.
    """
    if exact or not settings.judge_model:
        return RulesJudge(exact=exact)
    return CachedJudge(EndpointJudge(open_judge_model(settings)), _kept_in(settings, beside))


def open_extractor(settings: Settings, *, beside: Path | None = None) -> Extractor:
    """Return the extractor of short answers, which published scoring rules compare: the judge model.

    Short answers are cached in the file of the verdicts: see `open_judge`.

    Raises `SettingsError` if there is no judge model or no server, or its key is withheld.
    """
    if not settings.judge_model:
        raise SettingsError(
            "Extracting short answers needs a judge model.",
            "Set VRAG_JUDGE_MODEL and VRAG_JUDGE_URL, or compare answers without extraction.",
        )
    return Extractor(open_judge_model(settings), _kept_in(settings, beside))


def open_fact_judge(settings: Settings, *, beside: Path | None = None) -> FactJudge:
    """Return the judge of gold facts, which is the judge model.

    Verdicts are cached in the file of the verdicts on answers: see `open_judge`.

    Raises `SettingsError` if the judge has no server, or its key is withheld.
    """
    return FactJudge(open_judge_model(settings), _kept_in(settings, beside))


def _kept_in(settings: Settings, beside: Path | None) -> Path | None:
    """Return the cache file of the judge model; None without a folder and a setting."""
    own = None if beside is None else beside / VERDICTS
    return Path(settings.judge_cache).expanduser() if settings.judge_cache else own


def open_scorer(
    settings: Settings,
    weights: Weights | None = None,
    parts: Sequence[str] = (),
    *,
    exact: bool = False,
    beside: Path | None = None,
) -> CompositeReward:
    """Return the reward of runs: VRAG's composite reward, or VimRAG's outcome reward.

    Without `weights`, its parts have the defaults of the agent. `parts` of installed packages are measured
    even without a weight. For `exact` and `beside` see `open_judge`.

    Raises `SettingsError` if the settings contradict each other, or a part is not installed.
    """
    judge = open_judge(settings, exact=exact, beside=beside)
    extras = load_parts([*parts, *(weights.extras if weights else ())])
    if weights is None and METHODS[settings.agent].uses_graph:
        return OutcomeReward(judge, extras=extras)
    return CompositeReward(judge, weights or Weights(), extras=extras)
