"""The attention implementation of the trained model, chosen by what is installed.

The default of verl, `flash_attention_2`, needs the package flash-attn, which neither verl nor vLLM installs:
it is built for one version of torch and CUDA, mostly on the machine itself. The attention of torch (`sdpa`)
needs nothing. The configuration group `attention` holds the settings that go with each.
"""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from importlib.util import find_spec

__all__ = ["FLASH", "IMPLEMENTATIONS", "SDPA", "Attention", "choose_attention"]

FLASH, SDPA = "flash_attention_2", "sdpa"
IMPLEMENTATIONS = (FLASH, SDPA)
"""Names of the configurations in the group `attention`."""
MIN_CAPABILITY = 8
"""Major compute capability that flash-attn 2 needs: Ampere and newer."""
PROBE_SECONDS = 120.0
_PROBE = """
import flash_attn.flash_attn_interface, flash_attn.bert_padding, torch
count = torch.cuda.device_count() if torch.cuda.is_available() else 0
print(min((torch.cuda.get_device_capability(number)[0] for number in range(count)), default=0))
"""
"""Run by a process of its own: CUDA takes memory of a GPU for as long as the process lives."""


@dataclass(frozen=True, slots=True)
class Attention:
    """A chosen implementation."""

    name: str
    """One of `IMPLEMENTATIONS`."""
    reason: str
    """Why, as the end of a sentence."""


def choose_attention() -> Attention:
    """Choose flash-attn if it can be imported and every GPU supports it, and that of torch otherwise."""
    if find_spec("flash_attn") is None:
        return Attention(SDPA, "flash-attn is not installed")
    command = [sys.executable, "-c", _PROBE]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PROBE_SECONDS)  # noqa: S603
    except subprocess.TimeoutExpired:
        return Attention(SDPA, f"flash-attn was not imported within {PROBE_SECONDS:g} s")
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [f"exit status {done.returncode}"]
        return Attention(SDPA, f"flash-attn cannot be imported ({lines[-1]})")
    return _by_capability(int(done.stdout.split()[-1]))


def _by_capability(capability: int) -> Attention:
    if not capability:
        return Attention(SDPA, "flash-attn is installed, but no GPU is visible")
    if capability < MIN_CAPABILITY:
        return Attention(
            SDPA, f"flash-attn needs compute capability {MIN_CAPABILITY}.0, and a GPU has {capability}"
        )
    return Attention(FLASH, "flash-attn is installed, and every GPU supports it")
