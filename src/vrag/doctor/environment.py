"""Checks of this machine, of the settings, and of the collections and search servers in them."""

from __future__ import annotations

import platform
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, requires, version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from vrag.doctor.check import Check, failed, ok, skipped, warning
from vrag.errors import ServerError, SettingsError, UnsupportedFormatError
from vrag.settings import Settings, SettingsReport, unknown_variables
from vrag.types import ItemKind, Query

if TYPE_CHECKING:
    from vrag.corpus.workers.sandbox import Protection

DISTRIBUTION = "vrag-agent"
UNTESTED = {
    "darwin": " It is developed on Linux; what differs on macOS: docs/platforms.md.",
    "win32": " It is developed on Linux; on Windows, time limits count all time, and the token file is "
    "protected by its folder alone. What else differs: docs/platforms.md.",
}
"""Limits on other systems than Linux, by `sys.platform`."""
MATH = "libreoffice-math-nogui"
"""Package of the part of LibreOffice that draws formulas."""
OFFICE_FONTS = {
    "Liberation": "fonts-liberation",
    "Carlito": "fonts-crosextra-carlito",
    "Caladea": "fonts-crosextra-caladea",
}
"""Fonts as wide as those of office programs, and the packages that have them."""
MIN_PYTHON = (3, 11)
MIN_DISK_BYTES, LOW_DISK_BYTES = 2e8, 2e9
"""Free space below which the check fails, and below which it warns."""
SANDBOX_HINT = (
    "Run it where others cannot be harmed: in a container, or as a user of its own. See docs/threats.md."
)
COMMON_WORDS = "the total of the page in 2023"
"""Query to a search server, to see whether its hits can be shown."""


@dataclass(frozen=True, slots=True)
class Extra:
    """An optional part of the installation."""

    name: str
    packages: Mapping[str, str]
    """Its distributions, by module."""
    consequence: str
    """The functions that do not work without it."""


_MODELS = {
    "torch": "torch",
    "transformers": "transformers",
    "sentence_transformers": "sentence-transformers",
    "peft": "peft",
}
_OTEL = {
    "opentelemetry.sdk": "opentelemetry-sdk",
    "opentelemetry.exporter.otlp.proto.http": "opentelemetry-exporter-otlp-proto-http",
}
_TRAIN = {
    "matplotlib": "matplotlib",
    "peft": "peft",
    "pyarrow": "pyarrow",
    "torch": "torch",
    "transformers": "transformers",
}
EXTRAS = (
    Extra("models", _MODELS, "embedders, rerankers and language models run only on servers"),
    Extra("eval", {"pyarrow": "pyarrow"}, "data sets in parquet cannot be read or written"),
    Extra("train", _TRAIN, "no training in this process, and no curves"),
    Extra("tensorboard", {"tensorboard": "tensorboard"}, "trainings are not shown in TensorBoard"),
    Extra("wandb", {"wandb": "wandb"}, "trainings are not shown in Weights & Biases"),
    Extra("verl", {"verl": "verl"}, "no training with verl, which needs its own environment"),
    Extra("video", {"av": "av"}, "videos cannot be read"),
    Extra("heic", {"pillow_heif": "pillow-heif"}, "pictures in HEIC cannot be read"),
    Extra("faiss", {"faiss": "faiss-cpu"}, "search with single vectors is slow beyond a million"),
    Extra("s3", {"s3fs": "s3fs"}, "collections cannot be published to S3 or searched from there"),
    Extra("ray", {"pyarrow": "pyarrow", "ray": "ray"}, "indexing runs on this machine only"),
    Extra("qdrant", {"qdrant_client": "qdrant-client"}, "vectors cannot be searched in Qdrant"),
    Extra("mcp", {"mcp": "mcp"}, "MCP clients are not served"),
    Extra("otel", _OTEL, "no traces are sent"),
    Extra("streamlit", {"streamlit": "streamlit"}, "the apps in demo/ do not start"),
)


def check_python() -> Check:
    """Report the versions of Python and the system."""
    system = f"Python {platform.python_version()} on {platform.platform(terse=True)}, {platform.machine()}"
    details = {
        "python": platform.python_version(),
        "platform": platform.platform(),
        "executable": sys.executable,
        "vrag": _version(DISTRIBUTION),
    }
    if sys.version_info < MIN_PYTHON:
        least = ".".join(map(str, MIN_PYTHON))
        return failed(f"{system}.", f"Install Python {least} or newer.", details)
    limits = UNTESTED.get(sys.platform, "")
    return ok(f"{system}; vrag {details['vrag']}.{limits}", details=details)


def check_packages() -> Check:
    """Check that the required packages are installed."""
    try:
        lines = requires(DISTRIBUTION) or []
    except PackageNotFoundError:
        lines = []
    names = [re.split(r"[^\w.-]", line, maxsplit=1)[0] for line in lines if "extra ==" not in line]
    versions = {name: _version(name) for name in names}
    missing = [name for name, installed in versions.items() if not installed]
    if missing:
        hint = f"Run: pip install --force-reinstall {DISTRIBUTION}"
        return failed(f"Missing: {', '.join(missing)}.", hint, versions)
    if not names:
        return skipped("vrag runs from source: its requirements are not known.")
    shown = ("apsw", "numpy", "pillow", "pypdfium2", "onnxruntime", "httpx")
    examples = ", ".join(f"{name} {versions[name]}" for name in shown if name in versions)
    return ok(f"All {len(versions)} are installed: {examples} …", details=versions)


def _version(name: str) -> str:
    """Return the version of a distribution; empty if it is not installed."""
    try:
        return version(name)
    except PackageNotFoundError:
        return ""


def check_extra(extra: Extra) -> Check:
    """Check whether an extra is installed, without importing it."""
    missing = [name for module, name in extra.packages.items() if not _is_installed(module)]
    if missing:
        return skipped(
            f"Not installed: {extra.consequence}.",
            f"If you need it: pip install '{DISTRIBUTION}[{extra.name}]'",
            {"missing": missing},
        )
    versions = {name: _version(name) for name in extra.packages.values()}
    text = ", ".join(f"{name} {installed}".rstrip() for name, installed in versions.items())
    return ok(f"{text}.", details=versions)


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # the parent is missing: fastapi brings `opentelemetry` without its exporters
        return False


def check_office() -> Check:
    """Find LibreOffice, which converts office documents, its formulas, and fonts of the usual widths."""
    from vrag.corpus.formats.office import find_soffice

    try:
        program = find_soffice()
    except UnsupportedFormatError as error:
        return warning("Not found: office documents cannot be read.", error.hint)
    folder = Path(program).resolve().parent
    missing = [] if any(folder.glob("*smlo.*")) or folder.name != "program" else [MATH]
    listed = list_fonts()
    missing += [package for font, package in OFFICE_FONTS.items() if not _has_font(font, folder, listed)]
    details = {"program": program, "missing": missing}
    if not missing:
        return ok(program, details=details)
    return warning(
        f"{program}, without {', '.join(missing)}: formulas are left out, or lines break at other words.",
        f"Debian and Ubuntu: apt install {' '.join(missing)}; see docs/platforms.md for other systems.",
        details,
    )


def list_fonts() -> str | None:
    """Return the families of the fonts that the system has; None where that cannot be known."""
    lister = shutil.which("fc-list")
    if lister is None:
        return None
    listed = subprocess.run(  # noqa: S603 - a program of the system, without input
        [lister, ":", "family"], capture_output=True, text=True, check=False, timeout=30
    )
    return None if listed.returncode else listed.stdout.casefold()


def _has_font(font: str, program: Path, listed: str | None) -> bool:
    """Return whether LibreOffice brings a font, or the system has it; True where that cannot be known."""
    is_brought = any((program.parent / "share" / "fonts").rglob(f"{font}*"))
    return is_brought or listed is None or font.casefold() in listed


def start_worker() -> Protection:
    """Start a process as those that read files, and return its restrictions.

    Raises `VragError` if it cannot be started, or the settings ask for more than there is.
    """
    from vrag.corpus.workers.drawing_pool import DrawingProcess

    process = DrawingProcess()
    try:
        return process.wait_until_ready()
    finally:
        process.close()


def check_sandbox() -> Check:
    """Start a process as those that read files, and report what the kernel refuses it."""
    from vrag.corpus.workers.sandbox import sandbox_options

    if sandbox_options().mode == "off":
        return warning(
            "Files are read without restrictions: the setting sandbox is off.", "VRAG_SANDBOX=auto"
        )
    protection = start_worker()
    parts = [f"Landlock {protection.landlock}"] if protection.landlock else []
    parts += ["seccomp"] if protection.seccomp else []
    parts += [f"user {protection.user}"] if protection.user else []
    missing = " ".join(protection.missing)
    details = asdict(protection)
    if not parts:
        return warning(f"Files are read in processes without restrictions. {missing}", SANDBOX_HINT, details)
    message = f"Files are read under {', '.join(parts)}. {missing}".rstrip()
    if not missing:
        return ok(message, details=details)
    root_hint = (  # only the change of the user is missing then
        f"Run vrag as a user of its own, let the user {sandbox_options().user} read Python and its "
        "packages (chmod -R o+rX), or name a user who can: VRAG_PARSE_USER"
    )
    return warning(message, root_hint if protection.is_complete else SANDBOX_HINT, details)


def check_ocr() -> Check:
    """Find the OCR models in their package, without loading them."""
    from vrag.corpus.ocr import MODELS

    spec = find_spec("rapidocr")
    folder = Path(spec.origin).parent / "models" if spec and spec.origin else None
    missing = [name for name in MODELS.values() if folder is None or not (folder / name).is_file()]
    if missing:
        return failed(
            f"Pages without text cannot be read: {', '.join(missing)} is missing.",
            "Run: pip install --force-reinstall rapidocr; or do without: VRAG_OCR=never",
        )
    return ok(f"rapidocr {_version('rapidocr')} with its models.", details={"models": len(MODELS)})


def check_accelerator(settings: Settings, *, needed: bool) -> Check:
    """Open the device of models; torch, which takes seconds to import, only if a model runs here."""
    if find_spec("torch") is None:
        report = failed if needed else skipped
        hint = f"Run: pip install '{DISTRIBUTION}[models]'" if needed else ""
        return report("torch is not installed: models cannot run on this machine.", hint)
    if not needed and settings.device == "auto":
        return skipped("No model is set up to run on this machine.")
    from vrag.embed.device import open_device
    from vrag.embed.options import EmbedOptions

    device = open_device(EmbedOptions(device=settings.device, dtype=settings.dtype))
    return ok(
        f"Models run on {device.name} in {device.dtype}.",
        details={"device": device.name, "dtype": device.dtype, "torch": _version("torch")},
    )


def check_actions(settings: Settings) -> Check:
    """Load the custom tools of the settings."""
    from vrag.agent.tool_plugins import load_tools

    names = ", ".join(load_tools(settings.actions))
    return ok(f"They load: {names}.", details={"actions": list(settings.actions)})


def check_reader(settings: Settings) -> Check:
    """Load the pretrained reader of the settings, and let it read a sentence."""
    from vrag.factory.models import open_text_reader

    reader = open_text_reader(settings)
    begin = time.perf_counter()
    (found,) = reader.read("When was the pier opened?", ["The pier of Lindholm was opened in 1962."])
    seconds = time.perf_counter() - begin
    message = f"{reader.name} reads a sentence in {seconds:.2f} s, with {len(found)} possible answers."
    return ok(message, details={"reader": reader.name, "seconds": round(seconds, 3)})


def check_disk(directory: Path) -> Check:
    """Check the free space for collections, caches and runs."""
    place = next(path for path in (directory, *directory.parents) if path.exists())
    usage = shutil.disk_usage(place)
    message = f"{usage.free / 1e9:.1f} GB are free in {place}."
    details = {"free_bytes": usage.free, "total_bytes": usage.total}
    if usage.free < LOW_DISK_BYTES:
        report = failed if usage.free < MIN_DISK_BYTES else warning
        hint = "Free some disk space, or move the collection: VRAG_COLLECTION"
        return report(message, hint, details)
    return ok(message, details=details)


def check_settings(report: SettingsReport | SettingsError) -> Check:
    """List the settings that are not the default, and variables that look like settings."""
    if isinstance(report, SettingsError):
        raise report
    values = report.settings.model_dump(mode="json")  # keys and passwords are masked in it
    chosen = {name: origin for name, origin in sorted(report.origins.items()) if origin != "default"}
    details = {name: {"value": values[name], "origin": origin} for name, origin in chosen.items()}
    names = ", ".join(f"{name} ({origin})" for name, origin in chosen.items())
    message = f"Not the default: {names}." if names else "All settings have their defaults."
    if unknown := unknown_variables():
        faults = " ".join(error.message for error in unknown)
        hint = "Correct or unset them; `vrag config show` lists all settings."
        return warning(f"{faults} {message}", hint, details)
    return ok(message, details=details)


def check_collection(report: SettingsReport, place: str) -> Check:
    """Open a collection and one of its pictures, and count what it contains."""
    from vrag.factory.search import vector_options
    from vrag.index.maintenance import status
    from vrag.index.opening import open_collection

    named = {report.origins["collection"], report.origins["collections"]} != {"default"}
    if not named and not _exists(place):
        return warning(f"There is no collection yet in {place}.", "Make one: vrag index add PATH")
    collection = open_collection(place)
    now = status(collection, vector_options(report.settings))
    details = {
        "address": now.address,
        "documents": now.documents,
        "items": now.items,
        "bytes": now.bytes,
        "files": {str(state): count for state, count in now.files.items()},
        "version": now.content_version,
        "tier": asdict(now.tier) if now.tier else None,
    }
    if not now.items:
        return warning(f"It is empty: {now.address}", "Add documents: vrag index add PATH", details)
    tier = f", searched by {now.tier.name}" if now.tier else ""
    size = f"{now.bytes / 1e6:.1f} MB"
    message = f"{now.documents} documents, {now.items} items, {size}{tier}: {now.address}"
    for first in collection.store.read_items(["id"], "image IS NOT NULL", limit=1).column("id"):
        collection.image(first)  # raises if the picture is missing or damaged
    if now.pending or now.problems:
        problems = f"{len(now.problems)} files could not be read, {len(now.pending)} are unfinished."
        return warning(f"{problems} {message}", "See which and why: vrag index status", details)
    return ok(message, details=details)


def _exists(place: str) -> bool:
    from vrag.index.location import is_collection, is_url

    return is_url(place) or is_collection(Path(place))


def check_embedder(report: SettingsReport, place: str) -> Check:
    """Open the embedder that a collection was built with, and check that it is the same."""
    from vrag.factory.indexing import open_marked
    from vrag.index.opening import open_collection

    if not _exists(place):
        return skipped("There is no collection yet.")
    header = open_collection(place).header
    recorded = header.embedder
    if recorded is None:
        return skipped("The collection has no vectors; words are searched.")
    if report.settings.ranking == "lexical":
        return skipped(f"{recorded.name} is not used: the ranking is lexical.")
    if recorded.imported:
        hint = "Name the model: vrag index import DIR --embedder MODEL"
        return warning("Its vectors were imported without a model: they are not searched.", hint)
    header.check_embedder(open_marked(report.settings, recorded))
    return ok(f"{recorded.name} opens and is the model that made the vectors.")


def check_search_server(settings: Settings, seconds: float) -> Check:
    """Search on a search server, and open a picture that it finds."""
    from vrag.search.client import SearchClient

    token = settings.key("search_key")
    root = Path(settings.image_root) if settings.image_root else None
    with SearchClient(
        settings.search_url, token=token, timeout=seconds, retries=0, image_root=root
    ) as client:
        hits = client.search([Query(COMMON_WORDS)], 5)[0]
        try:
            version, corpora = client.version, client.corpora
        except ServerError:
            message = "It searches, but does not report a version: it is not `vrag serve`."
            hint = "Set the directory of its pictures: VRAG_IMAGE_ROOT"
            return warning(message, hint, {"hits": len(hits)})
        details = {"version": version, "corpora": list(corpora), "hits": len(hits)}
        if page := next((hit.item for hit in hits if hit.kind is ItemKind.PAGE), None):
            client.image(page)
    found = "shows what it finds" if hits else "does not find even common words"
    return ok(f"It searches {', '.join(corpora) or 'a collection'}, and {found}.", details=details)
