"""Settings become what training and evaluation need: who judges, what a run earns and was made with."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import SecretStr

from vrag.embed.model_files import checkpoint_digest, find_checkpoint
from vrag.errors import SettingsError
from vrag.evaluation.answer_extraction import Extractor
from vrag.factory.models import LOCAL, open_chat
from vrag.reward import CompositeReward, OutcomeReward, Weights
from vrag.reward.judges.cached_judge import CachedJudge
from vrag.reward.judges.endpoint import EndpointJudge
from vrag.reward.judges.rules import RulesJudge
from vrag.reward.plugins import load_parts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vrag.agent.agent import Agent
    from vrag.chat.messages import ChatModel
    from vrag.reward.reward import IdentifiedJudge
    from vrag.search.engine import Searcher
    from vrag.settings import Settings

__all__ = ["made_with", "open_extractor", "open_judge", "open_scorer"]

VERDICTS = "verdicts.sqlite"
"""What a judge that is a model said of the runs of a folder: its verdicts, and short answers."""


def made_with(settings: Settings, agent: Agent, searcher: Searcher) -> dict[str, Any]:
    """What runs are made with, as JSON by name: those of other values do not belong into one folder.

    A checkpoint in this process counts by its files: its name is that of its folder, as of many others.

    Args:
        settings: Name the model.
        agent: Makes the runs.
        searcher: What it searches.

    Raises:
        EmbedError: If the checkpoint cannot be read.
    """
    unsaid = set[str]() if agent.settings.repair else {"repair"}  # as in folders made before there was one
    told = agent.settings.model_dump(mode="json", exclude=unsaid)
    made = {**told, "collection": searcher.version}
    if not settings.model.startswith(LOCAL):
        return made
    return {**made, "checkpoint": checkpoint_digest(find_checkpoint(settings.model.removeprefix(LOCAL)))}


def open_judge(settings: Settings, *, exact: bool = False, beside: Path | None = None) -> IdentifiedJudge:
    """Who says whether an answer is right: the model that the settings name, or rules.

    Args:
        settings: Name the model and its server.
        exact: Whether rules take an answer for right only if it is the reference word for word: a small
            vocabulary has words that differ in a letter.
        beside: The folder of the runs that are judged: a model's verdicts are kept there, where the settings
            name no other place.

    Raises:
        SettingsError: If a model is named and no server, or its key does not go there.
    """
    if not settings.judge_model:
        return RulesJudge(least=1.0) if exact else RulesJudge()
    return CachedJudge(EndpointJudge(_judge_model(settings)), _kept_in(settings, beside))


def open_extractor(settings: Settings, *, beside: Path | None = None) -> Extractor:
    """Who makes short answers of long ones for published rules to compare: the judge's model.

    Args:
        settings: Name the model and its server.
        beside: As of `open_judge`: short answers are kept in the file of the verdicts.

    Raises:
        SettingsError: If no model is named, or no server, or its key does not go there.
    """
    if not settings.judge_model:
        raise SettingsError(
            "Short answers are extracted by the judge's model, and none is named.",
            "Name it and its server: VRAG_JUDGE_MODEL and VRAG_JUDGE_URL; or take answers as they are given.",
        )
    return Extractor(_judge_model(settings), _kept_in(settings, beside))


def _judge_model(settings: Settings) -> ChatModel:
    if not settings.judge_url:
        raise SettingsError(f"Where is the judge {settings.judge_model}?", "Name its server: VRAG_JUDGE_URL.")
    asked = {
        "model": settings.judge_model,
        "base_url": settings.judge_url,
        "model_key": SecretStr(settings.key("judge_key") or ""),
    }
    return open_chat(settings.model_copy(update=asked).withholding({}))


def _kept_in(settings: Settings, beside: Path | None) -> Path | None:
    """The file of what the judge's model said; None where the settings name none, and there is no folder."""
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
    """What a run earns: VRAG's composite reward, or VimRAG's outcome.

    Args:
        settings: Name the agent and the judge.
        weights: Of the parts; None for what is usual for the agent.
        parts: Names of parts of installed packages, measured even without a weight.
        exact: See `open_judge`.
        beside: See `open_judge`.

    Raises:
        SettingsError: If the settings do not fit each other, or a part is not installed.
    """
    judge = open_judge(settings, exact=exact, beside=beside)
    extras = load_parts([*parts, *(weights.extras if weights else ())])
    if weights is None and settings.agent == "vimrag":
        return OutcomeReward(judge, extras=extras)
    return CompositeReward(judge, weights or Weights(), extras=extras)
