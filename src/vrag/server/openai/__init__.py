"""Runs behind the interface that OpenAI's clients speak: `/v1/models`, `/v1/chat/completions`."""

from vrag.server.openai.errors import ErrorShape
from vrag.server.openai.routes import completions_routes

__all__ = ["ErrorShape", "completions_routes"]
