"""The plugin that verl imports with itself: it registers our names as soon as verl has the places for them.

`import verl` happens in every process of a job, those of the inference servers included, and takes three
seconds; its agent loops and trainers take two more. So nothing is imported here. A finder at the front of
`sys.meta_path` waits for the three modules that hold verl's registries and adds our names once each is
executed; a fourth module has a function that is corrected (`text_rows`). verl logs the failure of a plugin at
debug level only; here it is a warning, and `vrag train doctor` asserts the names.
"""

from __future__ import annotations

import importlib
import logging
import sys
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import ModuleType


log = logging.getLogger("vrag.rl")
PLACES = {
    "verl.experimental.agent_loop.agent_loop": "vrag.rl.trainers.verl.agent_loops",
    "verl.trainer.ppo.v1.trainer_sync": "vrag.rl.trainers.verl.trainer",
    "verl.experimental.reward_loop.reward_manager.naive": "vrag.rl.trainers.verl.reward_manager",
    "verl.models.transformers.qwen2_vl": "vrag.rl.trainers.verl.text_rows",
}
"""Modules of verl to extend or correct, and our module for each, which has a function `register`."""


def install() -> None:
    """Register with the modules that verl has imported, and wait for the rest; once is enough."""
    for place in PLACES:
        if place in sys.modules:
            _register(place)
    if not any(isinstance(finder, _ImportHook) for finder in sys.meta_path):
        sys.meta_path.insert(0, _ImportHook())


def _register(place: str) -> None:
    """Register our module for one of verl. A fault of ours does not keep verl from starting."""
    try:
        importlib.import_module(PLACES[place]).register()
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
