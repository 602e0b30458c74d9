"""Objects built from the settings: sessions, agents, searchers, embedders, the server.

It is the only package that knows how the parts fit together.
"""
# The names are imported for type checkers.
# ruff: noqa: F401
# pyright: reportUnusedImport=false

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vrag.factory.agents import (
        agent_by_seed,
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
    from vrag.factory.models import (
        LOCAL,
        USUAL_PROFILE,
        FamilySource,
        ModelFamily,
        chat_options,
        open_chat,
        open_family,
    )
    from vrag.factory.search import open_client, open_searcher, vector_options
    from vrag.factory.server import Agents
    from vrag.factory.session import Session, open_session, run_store
    from vrag.factory.training import made_with, open_extractor, open_judge, open_scorer

_NAMES = {
    "agents": "agent_by_seed agent_of open_agent open_environment open_method open_policy open_profile",
    "collection_registry": "CollectionRegistry",
    "indexing": "IndexedDocuments IndexJob corpus_options documents_under index_documents load_embedder "
    "missing_paths_error open_for_adding open_marked open_ray unreadable_error",
    "models": "LOCAL USUAL_PROFILE FamilySource ModelFamily chat_options open_chat open_family",
    "search": "open_client open_searcher vector_options",
    "server": "Agents",
    "session": "Session open_session run_store",
    "training": "made_with open_extractor open_judge open_scorer",
}
"""Names by their module: a command loads the modules that it needs."""


def __getattr__(name: str) -> object:
    """Load the module of a name when it is asked for."""
    for module, names in _NAMES.items():
        if name in names.split():
            return getattr(importlib.import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
