"""Objects built from the settings: sessions, agents, searchers, embedders, the server.

It is the only package that knows how the parts fit together.
"""

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vrag.factory.agents import (
        agent_of,
        open_agent,
        open_environment,
        open_method,
        open_policy,
        open_profile,
    )
    from vrag.factory.collection_registry import CollectionRegistry
    from vrag.factory.indexing import (
        IndexedDocuments,
        IndexJob,
        corpus_options,
        documents_under,
        index_documents,
        load_embedder,
        missing_paths_error,
        open_for_adding,
        open_marked,
        open_ray,
        unreadable_error,
    )
    from vrag.factory.model_families import open_family
    from vrag.factory.models import LOCAL, USUAL_PROFILE, FamilySource, ModelFamily, chat_options, open_chat
    from vrag.factory.search import open_client, open_searcher, vector_options
    from vrag.factory.seeds import agent_by_seed
    from vrag.factory.server import Agents
    from vrag.factory.session import Session, open_session, run_store
    from vrag.factory.training import made_with, open_extractor, open_judge, open_scorer

__all__ = [
    "LOCAL",
    "USUAL_PROFILE",
    "Agents",
    "CollectionRegistry",
    "FamilySource",
    "IndexJob",
    "IndexedDocuments",
    "ModelFamily",
    "Session",
    "agent_by_seed",
    "agent_of",
    "chat_options",
    "corpus_options",
    "documents_under",
    "index_documents",
    "load_embedder",
    "made_with",
    "missing_paths_error",
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
    "open_session",
    "run_store",
    "unreadable_error",
    "vector_options",
]

_MODULES = {
    "IndexJob": "indexing",
    "IndexedDocuments": "indexing",
    "index_documents": "indexing",
    "missing_paths_error": "indexing",
    "unreadable_error": "indexing",
    "Agents": "server",
    "FamilySource": "models",
    "LOCAL": "models",
    "ModelFamily": "models",
    "CollectionRegistry": "collection_registry",
    "USUAL_PROFILE": "models",
    "Session": "session",
    "agent_by_seed": "seeds",
    "agent_of": "agents",
    "chat_options": "models",
    "corpus_options": "indexing",
    "documents_under": "indexing",
    "load_embedder": "indexing",
    "made_with": "training",
    "open_agent": "agents",
    "open_chat": "models",
    "open_client": "search",
    "open_environment": "agents",
    "open_extractor": "training",
    "open_family": "model_families",
    "open_for_adding": "indexing",
    "open_judge": "training",
    "open_marked": "indexing",
    "open_method": "agents",
    "open_policy": "agents",
    "open_profile": "agents",
    "open_ray": "indexing",
    "open_scorer": "training",
    "open_searcher": "search",
    "open_session": "session",
    "run_store": "session",
    "vector_options": "search",
}
"""In which module each name is: a command loads those that it needs."""


def __getattr__(name: str) -> object:
    """Load the module of a name when it is asked for."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
