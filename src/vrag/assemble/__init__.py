"""Settings become objects. The only package that knows how the parts fit together."""

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
