"""The options of rollouts for trainers that own the model: search server, agent, limits and reward.

verl's configurations have them in their section `vrag` (`vrag.rl.trainers.verl.options`), and
`vrag.rl.Episode` takes them for all other trainers.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from vrag.agent.agent import Agent
from vrag.agent.answers.verification import VerifyMode
from vrag.agent.budget import Limits
from vrag.agent.environment import Environment, EnvironmentOptions
from vrag.agent.memory.energies import MemoryOptions
from vrag.agent.methods import METHODS, build_method
from vrag.agent.policy import Policy
from vrag.errors import SettingsError
from vrag.model_profiles import Profile
from vrag.reward.combine import COSTS, OWN_PARTS, PRESETS, Weights
from vrag.reward.reward import Judge, Scorer
from vrag.search.searcher import Searcher

Options = TypeVar("Options", bound=BaseModel)


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


class PartWeights(BaseModel):
    """The weights of the parts of VRAG's reward; see `vrag.reward`. Other keys are parts of packages."""

    model_config = ConfigDict(frozen=True, extra="allow")
    __pydantic_extra__: dict[str, Annotated[float, Field(ge=0)]] = Field(init=False)  # pyright: ignore[reportIncompatibleVariableOverride]

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


def _check_preset(name: str) -> str:
    if name and name not in PRESETS:
        raise ValueError(f"there is no reward preset {name!r}; known: {', '.join(PRESETS)}")
    return name


class MemorySettings(_StrictOptions):
    """The memory of VimRAG; the same in training and in serving."""

    tokens: int = Field(default=1280, ge=1)
    fresh_tokens: int = Field(default=4096, ge=1)
    items: int = Field(default=5, ge=1)
    crop_nodes: bool = True


class EpisodeOptions(_StrictOptions):
    """The options of rollouts for a trainer that owns the model: search, agent, limits and reward."""

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
    preset: Annotated[str, AfterValidator(_check_preset)] = ""
    """A mixture of `PRESETS` instead of `weights`; empty for these. `unidoc` needs `select`."""
    weights: PartWeights = PartWeights()
    gate: bool = True
    """True if a trajectory without a search or without an answer earns 0."""
    profile: str = "auto"
    """Family of the model; auto by the checkpoint."""
    instruction: str | None = None
    """A custom instruction; None for the built-in one."""
    steps: int = Field(default=5, ge=1)
    """Model calls of a trajectory: the reference's four turns and one closing generation."""
    seconds: float | None = Field(default=600.0, gt=0)
    """Deadline of a trajectory."""
    hits: int = Field(default=0, ge=0, le=1000)
    """Hits of a search; 0 for the agent's own: 10 (vrag), 3 (vimrag)."""
    show: int = Field(default=1, ge=1, le=10)
    select: int = Field(default=0, ge=0, le=10)
    """Pages of a search of vrag, of which the model selects one; 0 without selection."""
    padding: float = Field(default=0.0, ge=0, le=1000)
    memory: MemorySettings = MemorySettings()

    def __hash__(self) -> int:
        """Hash the values, so that clients of equal options are shared."""
        return hash(self.model_dump_json())

    @property
    def search_key(self) -> str | None:
        """The token of the search server in the environment; None without one."""
        return os.environ.get(self.search_key_variable) or None


def validate_options(model: type[Options], values: Mapping[str, Any], section: str = "") -> Options:
    """Return the options with these values; `section` is where they stand, for messages.

    Raises `SettingsError` with the key if it is unknown or its value cannot be used.

    >>> validate_options(EpisodeOptions, {"steps": 3}).steps
    3
    """
    try:
        return model.model_validate(dict(values))
    except ValidationError as error:
        fault = error.errors(include_url=False, include_context=False)[0]
        key = ".".join([*filter(None, [section]), *map(str, fault["loc"])])
        raise SettingsError(f"{key}: {fault['msg']}.", "docs/verl.md lists the keys.") from None


@lru_cache(maxsize=4)
def open_searcher(options: EpisodeOptions) -> Searcher:
    """Open the search server for all rollouts of this process; searches are batched.

    Raises `SettingsError` or `ServerError` if it cannot be opened.
    """
    from vrag.rollouts.batched_search import BatchedSearcher
    from vrag.search.client import SearchClient

    if options.searcher:
        return _load(options.searcher)()
    root = Path(options.image_root) if options.image_root else None
    return BatchedSearcher(SearchClient(options.search_url, token=options.search_key, image_root=root))


@lru_cache(maxsize=4)
def open_scorer(agent: str, options: EpisodeOptions) -> Scorer:
    """Open the scorer of rollouts: the composite reward for VRAG, the outcome for VimRAG.

    Raises `SettingsError` if the judge lacks its server or model, or the weights do not sum to 1.
    """
    from vrag.reward.combine import CompositeReward, OutcomeReward, Weights, load_parts, open_preset

    if options.scorer:
        return _load(options.scorer)(agent)
    judge = _open_judge(options.judge)
    if options.preset:
        return open_preset(options.preset, judge)
    weights = options.weights.weights
    if METHODS[agent].uses_graph:
        outcome = {"answer": 1.0, "turn_cost": weights.turn_cost, "repeat_cost": weights.repeat_cost}
        return OutcomeReward(judge, Weights.of(outcome))
    return CompositeReward(judge, weights, gate=options.gate, extras=load_parts(weights.extras))


def _open_judge(options: JudgeOptions) -> Judge:
    if options.kind == "rules":
        from vrag.reward.rules_judge import RulesJudge

        return RulesJudge(exact=options.exact, typos=options.typos)
    from vrag.chat import OpenAIChat
    from vrag.reward.endpoint_judge import EndpointJudge

    if not options.base_url or not options.model:
        raise SettingsError(
            "The judge needs a server and a model.", "Set vrag.judge.base_url and vrag.judge.model."
        )
    chat = OpenAIChat(
        options.base_url,
        options.model,
        api_key=options.key,
        key_variable=options.key_variable,
        concurrency=options.requests,
    )
    return EndpointJudge(chat)


def _load(place: str) -> Any:  # noqa: ANN401 - of any type
    """Import the object that `module:name` names; raise `SettingsError` if there is none."""
    module, _, name = place.partition(":")
    try:
        return getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise SettingsError(f"{place} cannot be loaded: {error}.", "Write it as module:function.") from error


def open_agent(agent: str, policy: Policy, options: EpisodeOptions, profile: Profile) -> Agent:
    """Open `vrag` or `vimrag` with the environment of the options; searchers are shared."""
    hits = options.hits or METHODS[agent].hits
    environment_options = EnvironmentOptions(
        hits=hits,
        show=options.show,
        select=options.select if METHODS[agent].follows_checkpoints else 0,
        padding=options.padding,
    )
    environment = Environment(open_searcher(options), profile, environment_options)
    memory = MemoryOptions(**options.memory.model_dump())
    # Replies are not repaired, so that the grammar is learned. Claims are checked where that is rewarded.
    verify = VerifyMode.TELL if options.weights.support > 0 else VerifyMode.OFF
    method = build_method(agent, instruction=options.instruction, repair=False, memory=memory, verify=verify)
    return Agent(policy, environment, method, Limits(steps=options.steps), locate=False)
