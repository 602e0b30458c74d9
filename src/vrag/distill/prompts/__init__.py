"""Every text an expert is given, one file each."""

from __future__ import annotations

from functools import partial

from vrag.agent.prompts import prompt_in

__all__ = ["prompt"]

prompt = partial(prompt_in, __name__)
"""As `vrag.agent.prompts.prompt`, of the files in this folder."""
