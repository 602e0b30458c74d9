"""Every text a model is given to prepare answers for published rules, one file each."""

from __future__ import annotations

from functools import partial

from vrag.agent.prompts import prompt_in

__all__ = ["prompt"]

prompt = partial(prompt_in, __name__)
"""As `vrag.agent.prompts.prompt`, of the files in this folder."""
