"""Checks of this machine: Python, packages, extras, LibreOffice, OCR, accelerator, disk."""

from __future__ import annotations

import platform
import re
import shutil
import sys
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, requires, version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from vrag.doctor.check import Check, CheckStatus

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vrag.settings import Settings

__all__ = [
    "EXTRAS",
    "Extra",
    "check_accelerator",
    "check_actions",
    "check_disk",
    "check_extra",
    "check_ocr",
    "check_office",
    "check_packages",
    "check_python",
]

DISTRIBUTION = "vrag-agent"
MIN_PYTHON = (3, 11)
LOW_DISK, NO_DISK = 2e9, 2e8
"""Bytes that are little room for a collection, and none."""


@dataclass(frozen=True, slots=True)
class Extra:
    """An optional part of the installation."""

    name: str
    packages: Mapping[str, str]
    """What it brings: distribution by module."""
    without: str
    """What cannot be done without it."""


EXTRAS = (
    Extra(
        "models",
        {
            "torch": "torch",
            "transformers": "transformers",
            "sentence_transformers": "sentence-transformers",
            "peft": "peft",
        },
        "no embedder, reranker or language model runs on this machine; servers can be asked",
    ),
    Extra(
        "train",
        {"torch": "torch", "transformers": "transformers"},
        "no model is trained in this process",
    ),
    Extra(
        "verl",
        {"verl": "verl"},
        "no model is trained with verl, which has an environment of its own",
    ),
    Extra("video", {"av": "av"}, "videos cannot be read"),
    Extra(
        "faiss",
        {"faiss": "faiss-cpu"},
        "single vectors are searched one by one, which is slow beyond a million",
    ),
    Extra("ray", {"ray": "ray"}, "indexing runs on this machine alone"),
    Extra("qdrant", {"qdrant_client": "qdrant-client"}, "vectors cannot be searched in Qdrant"),
    Extra("mcp", {"mcp": "mcp"}, "programs that speak MCP are not served"),
    Extra(
        "otel",
        {
            "opentelemetry.sdk": "opentelemetry-sdk",
            "opentelemetry.exporter.otlp.proto.http": "opentelemetry-exporter-otlp-proto-http",
        },
        "no traces are sent",
    ),
    Extra("streamlit", {"streamlit": "streamlit"}, "the apps in demo/ do not start"),
)


def check_python() -> Check:
    """Python and the system."""
    here = f"Python {platform.python_version()} on {platform.platform(terse=True)}, {platform.machine()}"
    details = {
        "python": platform.python_version(),
        "platform": platform.platform(),
        "executable": sys.executable,
        "vrag": _version(DISTRIBUTION),
    }
    if sys.version_info < MIN_PYTHON:
        wanted = ".".join(map(str, MIN_PYTHON))
        return Check("", CheckStatus.FAILED, f"{here}.", f"Install Python {wanted} or newer.", details)
    return Check("", CheckStatus.OK, f"{here}; vrag {details['vrag']}.", details=details)


def check_packages() -> Check:
    """The packages that vrag cannot do without."""
    names = _dependencies()
    found = {name: _version(name) for name in names}
    missing = [name for name, known in found.items() if not known]
    if missing:
        hint = f"Run: pip install --force-reinstall {DISTRIBUTION}"
        return Check("", CheckStatus.FAILED, f"Missing: {', '.join(missing)}.", hint, found)
    if not names:
        return Check("", CheckStatus.SKIPPED, "vrag runs from its sources: nothing says what it needs.")
    shown = ("lancedb", "numpy", "pillow", "pypdfium2", "onnxruntime", "httpx")
    some = ", ".join(f"{name} {found[name]}" for name in shown if name in found)
    return Check("", CheckStatus.OK, f"All {len(found)} are there: {some} …", details=found)


def _dependencies() -> list[str]:
    """Names of the required packages; none where vrag is not installed as a distribution."""
    try:
        lines = requires(DISTRIBUTION) or []
    except PackageNotFoundError:
        return []
    return [re.split(r"[^\w.-]", line, maxsplit=1)[0] for line in lines if "extra ==" not in line]


def _version(name: str) -> str:
    """Of a distribution; empty where it is not installed."""
    try:
        return version(name)
    except PackageNotFoundError:
        return ""


def check_extra(extra: Extra) -> Check:
    """Whether an extra is installed. Nothing is imported."""
    missing = [name for module, name in extra.packages.items() if not _is_installed(module)]
    if missing:
        return Check(
            "",
            CheckStatus.SKIPPED,
            f"Not installed: {extra.without}.",
            f"If you need it: pip install '{DISTRIBUTION}[{extra.name}]'",
            {"missing": missing},
        )
    versions = {name: _version(name) for name in extra.packages.values()}
    told = ", ".join(f"{name} {known}".rstrip() for name, known in versions.items())
    return Check("", CheckStatus.OK, f"{told}.", details=versions)


def _is_installed(module: str) -> bool:
    """Whether a module can be imported; a package that lacks the part in question cannot."""
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # the parent is missing: fastapi brings `opentelemetry` without its exporters
        return False


def check_office() -> Check:
    """LibreOffice, which turns office documents into pages."""
    from vrag.corpus.formats.libreoffice import find_soffice
    from vrag.errors import UnsupportedFormat

    try:
        program = find_soffice()
    except UnsupportedFormat as error:
        return Check("", CheckStatus.WARNING, "Not found: office documents cannot be read.", error.hint)
    return Check("", CheckStatus.OK, program, details={"program": program})


def check_ocr() -> Check:
    """The models of OCR, which lie in its package. They are not loaded."""
    from vrag.corpus.ocr import MODELS

    spec = find_spec("rapidocr")
    folder = Path(spec.origin).parent / "models" if spec and spec.origin else None
    missing = [name for name in MODELS.values() if folder is None or not (folder / name).is_file()]
    if missing:
        return Check(
            "",
            CheckStatus.FAILED,
            f"Pages without text cannot be read: {', '.join(missing)} is missing.",
            "Run: pip install --force-reinstall rapidocr; or do without: VRAG_OCR=false",
        )
    return Check(
        "",
        CheckStatus.OK,
        f"rapidocr {_version('rapidocr')} with its models.",
        details={"models": len(MODELS)},
    )


def check_accelerator(settings: Settings, *, needed: bool) -> Check:
    """The device that models run on.

    Args:
        settings: Which device is asked for.
        needed: Whether anything is set up that runs a model here. Otherwise torch, which takes seconds to
            import, is left alone.

    Raises:
        EmbedError: If the device is not there.
    """
    if find_spec("torch") is None:
        status = CheckStatus.FAILED if needed else CheckStatus.SKIPPED
        hint = f"Run: pip install '{DISTRIBUTION}[models]'" if needed else ""
        return Check("", status, "torch is not installed: no model runs here.", hint)
    if not needed and settings.device == "auto":
        return Check("", CheckStatus.SKIPPED, "Nothing is set up that runs a model on this machine.")
    from vrag.embed.device import open_device
    from vrag.embed.options import EmbedOptions

    device = open_device(EmbedOptions(device=settings.device, dtype=settings.dtype))
    return Check(
        "",
        CheckStatus.OK,
        f"Models run on {device.name} in {device.dtype}.",
        details={"device": device.name, "dtype": device.dtype, "torch": _version("torch")},
    )


def check_actions(settings: Settings) -> Check:
    """Whether the actions of others that are set can be loaded.

    Raises:
        ActionError: If one is not installed or cannot be loaded.
    """
    from vrag.agent.tool_plugins import load_extensions

    names = ", ".join(load_extensions(settings.actions))
    return Check(
        "", CheckStatus.OK, f"They can be loaded: {names}.", details={"actions": list(settings.actions)}
    )


def check_disk(directory: Path) -> Check:
    """Room where collections, caches and runs are written."""
    place = next(path for path in (directory, *directory.parents) if path.exists())
    usage = shutil.disk_usage(place)
    message = f"{usage.free / 1e9:.1f} GB are free at {place}."
    details = {"free_bytes": usage.free, "total_bytes": usage.total}
    if usage.free < LOW_DISK:
        status = CheckStatus.FAILED if usage.free < NO_DISK else CheckStatus.WARNING
        hint = "Make room, or put the collection elsewhere: VRAG_COLLECTION"
        return Check("", status, message, hint, details)
    return Check("", CheckStatus.OK, message, details=details)
