"""Settings become objects. The only package that knows how the parts fit together."""

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vrag.assemble.adding import (
        Adding,
        corpus_options,
        documents_under,
        load_embedder,
        open_for_adding,
        open_marked,
        open_ray,
    )
    from vrag.assemble.answering import (
        agent_of,
        open_agent,
        open_environment,
        open_method,
        open_policy,
        open_profile,
    )
    from vrag.assemble.families import USUAL_PROFILE, FamilySource, ModelFamily, open_family
    from vrag.assemble.models import LOCAL, chat_options, open_chat
    from vrag.assemble.searching import open_client, open_searcher, vector_options
    from vrag.assemble.seeding import agent_by_seed
    from vrag.assemble.service import Agents
    from vrag.assemble.shelf import Shelf
    from vrag.assemble.training import made_with, open_extractor, open_judge, open_scorer
    from vrag.assemble.workbench import Workbench, open_workbench, run_store

__all__ = [
    "LOCAL",
    "USUAL_PROFILE",
    "Adding",
    "Agents",
    "FamilySource",
    "ModelFamily",
    "Shelf",
    "Workbench",
    "agent_by_seed",
    "agent_of",
    "chat_options",
    "corpus_options",
    "documents_under",
    "load_embedder",
    "made_with",
    "open_agent",
    "open_chat",
    "open_client",
    "open_environment",
    "open_extractor",
    "open_family",
    "open_for_adding",
    "open_judge",
    "open_marked",
    "open_method",
    "open_policy",
    "open_profile",
    "open_ray",
    "open_scorer",
    "open_searcher",
    "open_workbench",
    "run_store",
    "vector_options",
]

_MODULES = {
    "Adding": "adding",
    "Agents": "service",
    "FamilySource": "families",
    "LOCAL": "models",
    "ModelFamily": "families",
    "Shelf": "shelf",
    "USUAL_PROFILE": "families",
    "Workbench": "workbench",
    "agent_by_seed": "seeding",
    "agent_of": "answering",
    "chat_options": "models",
    "corpus_options": "adding",
    "documents_under": "adding",
    "load_embedder": "adding",
    "made_with": "training",
    "open_agent": "answering",
    "open_chat": "models",
    "open_client": "searching",
    "open_environment": "answering",
    "open_extractor": "training",
    "open_family": "families",
    "open_for_adding": "adding",
    "open_judge": "training",
    "open_marked": "adding",
    "open_method": "answering",
    "open_policy": "answering",
    "open_profile": "answering",
    "open_ray": "adding",
    "open_scorer": "training",
    "open_searcher": "searching",
    "open_workbench": "workbench",
    "run_store": "workbench",
    "vector_options": "searching",
}
"""In which module each name is: a command loads those that it needs."""


def __getattr__(name: str) -> object:
    """Load the module of a name when it is asked for."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
