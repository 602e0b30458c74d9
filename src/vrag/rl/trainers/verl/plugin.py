"""The plugin that verl imports with itself: it registers our names as soon as verl has the places for them.

`import verl` happens in every process of a job, those of the inference servers included, and takes three
seconds; its agent loops and trainers take two more. So nothing is imported here. A finder at the front of
`sys.meta_path` waits for the modules that hold verl's registries and adds our names once each is executed;
a fourth module has a function that is corrected (`unpack_features`). verl logs the failure of a plugin at
debug level only; here it is a warning, and `vrag train doctor` asserts the names.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Sequence
from functools import partial, wraps
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType, SimpleNamespace
from typing import Any

from vrag.rl.trainers.verl import CREDIT, MANAGER, TRAINERS

log = logging.getLogger("vrag.rl")


def _register_loops() -> None:
    from vrag.rl.trainers.verl import agent_loops

    agent_loops.register()


def _register_trainer(name: str) -> None:
    from vrag.rl.trainers.verl import trainer

    trainer.register(name)


def _register_reward_manager() -> None:
    """Register a manager that returns the reward of the loop and invents none.

    verl asks it about outputs without a reward. Its own managers would score by the name of the data source.
    """
    from vrag.rl.trainers.verl.options import library

    managers = "verl.experimental.reward_loop.reward_manager"
    base = library(f"{managers}.base").RewardManagerBase

    class VragRewardManager(base):
        """Manager of loops that score themselves."""

        def __init__(self, config: Any, tokenizer: Any, compute_score: Any, **_more: Any) -> None:  # noqa: ANN401
            parent: Any = super()
            parent.__init__(config, tokenizer, compute_score)

        async def run_single(self, data: Any) -> dict[str, Any]:  # noqa: ANN401
            """Return the reward of the last row of a rollout, with its parts."""
            return reward_of(data[len(data) - 1].non_tensor_batch.get("tool_extra_fields"))

    library(f"{managers}.registry").register(MANAGER)(VragRewardManager)


def reward_of(extra_fields: dict[str, Any] | None) -> dict[str, Any]:
    """Convert the facts of a row to the reward fields of verl.

    Raises `TrainingError` if there are none: then the group fails, and is not trained with an invented
    reward.
    """
    from vrag.errors import TrainingError

    facts = (extra_fields or {}).get(CREDIT)
    if not facts or facts.get("total") is None:
        raise TrainingError(
            "A rollout has no reward of vrag.", "Set rollout.agent.default_agent_loop to vrag or vimrag."
        )
    info = (extra_fields or {}).get("reward_extra_info", {})
    return {"reward_score": float(facts["total"]), "reward_extra_info": info}


def _correct_text_rows() -> None:
    module: Any = sys.modules["verl.models.transformers.qwen2_vl"]
    module._get_input_embeds = unpack_features(module._get_input_embeds, module.unpack_visual_output)  # noqa: SLF001


def unpack_features(
    embed: Callable[..., Any], unpack: Callable[[Any], tuple[Any, Any]]
) -> Callable[..., Any]:
    """Correct `_get_input_embeds` of verl 0.9.1 for rows of Qwen2.5-VL without an image.

    For a micro-batch without pictures verl runs the vision tower on an empty picture, so that all ranks make
    the same calls, and adds its mean times 0. It takes the output for a tensor, which it was before
    transformers 5, and the update fails: `'BaseModelOutputWithPooling' object has no attribute 'mean'`. Such
    rows are common: a rollout that answers at once, a first segment of VimRAG, and all rows with which verl
    fills a batch up. Everywhere else verl unpacks the output; here the model that is handed to its function
    has a vision tower whose output is unpacked already: by `unpack_visual_output` of verl, which leaves
    tensors alone, so that a corrected verl is unaffected.
    """

    @wraps(embed)
    def embed_inputs(model: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        def see(*pixels: Any, **grids: Any) -> Any:  # noqa: ANN401
            return unpack(model.visual(*pixels, **grids))[0]

        see.dtype = model.visual.dtype  # pyright: ignore[reportFunctionMemberAccess]
        facade = SimpleNamespace(
            get_input_embeddings=model.get_input_embeddings, config=model.config, visual=see
        )
        return embed(facade, *args, **kwargs)

    return embed_inputs


PLACES: dict[str, Callable[[], None]] = {
    "verl.experimental.agent_loop.agent_loop": _register_loops,
    **{
        f"verl.trainer.ppo.v1.trainer_{mode}": partial(_register_trainer, name)
        for name, mode in TRAINERS.items()
    },
    "verl.experimental.reward_loop.reward_manager.naive": _register_reward_manager,
    "verl.models.transformers.qwen2_vl": _correct_text_rows,
}
"""Modules of verl to extend or correct, and the function that does so."""


def install() -> None:
    """Register with the modules that verl has imported, and wait for the rest; once is enough."""
    for place in PLACES:
        if place in sys.modules:
            _register(place)
    if not any(isinstance(finder, _ImportHook) for finder in sys.meta_path):
        sys.meta_path.insert(0, _ImportHook())


def _register(place: str) -> None:
    """Extend a module of verl. A fault of ours does not keep verl from starting."""
    try:
        PLACES[place]()
    except Exception:
        log.warning("vrag cannot register with %s; `vrag train doctor` says more.", place, exc_info=True)


class _ImportHook(MetaPathFinder):
    """Lets other finders find the modules of verl, and follows their execution."""

    def __init__(self) -> None:
        self._looking: set[str] = set()

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,  # noqa: ARG002
        target: ModuleType | None = None,  # noqa: ARG002
    ) -> ModuleSpec | None:
        """Return the spec of one of the places, whose loader registers afterwards; None for other modules."""
        if fullname not in PLACES or fullname in self._looking:
            return None
        self._looking.add(fullname)
        try:
            spec = find_spec(fullname)
        finally:
            self._looking.discard(fullname)
        if spec is not None and spec.loader is not None:
            spec.loader = _RegisteringLoader(spec.loader)
        return spec


class _RegisteringLoader(Loader):
    """Loads as another loader does, then registers."""

    def __init__(self, loader: Loader) -> None:
        self._loader = loader

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """Delegate."""
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        """Delegate, then register."""
        self._loader.exec_module(module)
        _register(module.__name__)

    def __getattr__(self, name: str) -> object:
        """Delegate: sources for tracebacks, resources."""
        return getattr(self._loader, name)


if "verl" in sys.modules:  # verl loads entry points and calls nothing
    install()
