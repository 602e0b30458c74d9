"""Options that several commands share, and the settings that the flags of a command make."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from vrag.cli.terminal.console import announce_collection
from vrag.cli.terminal.last_collection import remember_existing_collection, use_memory
from vrag.providers import complete_address
from vrag.settings import Settings, SettingsReport, load_settings

if TYPE_CHECKING:
    from vrag.render.annotations.evidence_export import EvidenceFormat

MODEL, SEARCH = "Model and agent", "Collection and search"
"""Panels of the help texts."""


def parse_path(text: str) -> Path:
    """Parse a path. An empty one is a shell variable that is not set, not the current folder."""
    if not text:
        raise typer.BadParameter("The path is empty.")
    return Path(text)


def option(panel: str, help: str, default: bool | str, *names: str, min: int | None = None) -> Any:  # noqa: ANN401
    """Describe an option for `Annotated`; `default` is what its help shows."""
    return typer.Option(*names, help=help, show_default=default, rich_help_panel=panel, min=min)


CollectionOption = Annotated[
    str | None,
    option(SEARCH, "Directory or URL of the collection.", "VRAG_COLLECTION", "--collection", "-c"),
]
_WAIT = "Seconds to wait for another process that is writing to the collection; 0 to fail at once."
WaitOption = Annotated[float | None, option(SEARCH, _WAIT, "VRAG_WAIT, or 5", min=0)]
_COLLECTIONS = "Directory or URL of a collection; repeat it to search several collections together."
CollectionsOption = Annotated[
    list[str] | None, option(SEARCH, _COLLECTIONS, "VRAG_COLLECTION", "--collection", "-c")
]
_SEARCH_URL = "URL of a search server to use instead of a collection."
SearchUrlOption = Annotated[str | None, option(SEARCH, _SEARCH_URL, "VRAG_SEARCH_URL")]
_IMAGE_ROOT = "Directory of the images that a search server of the reference implementation names."
ImageRootOption = Annotated[str | None, option(SEARCH, _IMAGE_ROOT, "VRAG_IMAGE_ROOT")]
_RANKING = (
    "Rank by `lexical` (words), `vector`, `fused` (both), or `auto`: both, but words alone where the "
    "embedder takes text only."
)
RankingOption = Annotated[str | None, option(SEARCH, _RANKING, "VRAG_RANKING")]
RerankerOption = Annotated[str | None, option(SEARCH, "Model that reranks the best hits.", "VRAG_RERANKER")]
_EMBEDDER = (
    "Embedding model: a folder, a name such as colqwen2 or of the hub, `sentence:MODEL`, "
    "`gve:MODEL`, `qwen3-vl:MODEL`, or `remote:MODEL@URL`."
)
EmbedderOption = Annotated[str | None, option(SEARCH, _EMBEDDER, "the collection's own")]
_QUERY_INSTRUCTION = (
    "Instruction for queries, for Qwen3-VL-Embedding.",
    "VRAG_EMBED_QUERY_INSTRUCTION, or the model's own",
)
QueryInstructionOption = Annotated[str | None, option(SEARCH, *_QUERY_INSTRUCTION, "--query-instruction")]
_DOCUMENT_INSTRUCTION = (
    "Instruction for documents, for Qwen3-VL-Embedding; stored in the collection.",
    "VRAG_EMBED_DOCUMENT_INSTRUCTION, or the model's own",
)
DocumentInstructionOption = Annotated[
    str | None, option(SEARCH, *_DOCUMENT_INSTRUCTION, "--document-instruction")
]
_VISUAL_TOKENS = "Maximum visual tokens per page, for a multi-vector embedder; 0 for the model's limit."
VisualTokensOption = Annotated[
    int | None, option(SEARCH, _VISUAL_TOKENS, "the collection's own, or 768", min=0)
]
DeviceOption = Annotated[str | None, option(MODEL, "Device for models: cpu, cuda, cuda:1.", "VRAG_DEVICE")]
_AGENT = "Agent: `vrag`, `vimrag` (with a memory graph), or a baseline: `rag`, `react`."
AgentOption = Annotated[str | None, option(MODEL, _AGENT, "VRAG_AGENT, or vrag")]
_MODEL = "Name of a served model, `ollama:NAME`, `openrouter:NAME` …, or `local:PATH` of a checkpoint."
ModelOption = Annotated[str | None, option(MODEL, _MODEL, "VRAG_MODEL, or without a model")]
_BASE_URL = "URL of the model server, such as http://localhost:8002/v1."
BaseUrlOption = Annotated[str | None, option(MODEL, _BASE_URL, "VRAG_BASE_URL, OPENAI_BASE_URL")]
_PROFILE = "Model family; sets image sizes and the format of boxes."
ProfileOption = Annotated[str | None, option(MODEL, _PROFILE, "VRAG_PROFILE, or detected")]
_MAX_STEPS = "Maximum model calls per question."
MaxStepsOption = Annotated[int | None, option(MODEL, _MAX_STEPS, "VRAG_MAX_STEPS, or the agent's own", min=1)]
_TOP_K = "Hits that each search of the agent returns."
TopKOption = Annotated[
    int | None, option(MODEL, _TOP_K, "VRAG_HITS, or the agent's own", "--top-k", "-k", min=1)
]
_OCR = (
    "Read by OCR: what is seen on a page and not in its text (`auto`), all of every page (`always`), or "
    "nothing (`never`)."
)
OcrOption = Annotated[str | None, typer.Option("--ocr", help=_OCR, metavar="MODE")]


def _check_server(address: str) -> str:
    from vrag.render.place_links import is_server_address

    complete = complete_address(address)
    if address and not is_server_address(complete):
        raise typer.BadParameter(f"{address!r} is not an address such as http://127.0.0.1:8000.")
    return complete


DpiOption = Annotated[float | None, typer.Option(help="Resolution of rendered pages, in dots per inch.")]
WorkersOption = Annotated[
    int | None, typer.Option(help="Number of processes that read files; 0 for one per core.")
]
DurabilityOption = Annotated[
    str | None,
    typer.Option(help="`full` waits for the disk at every commit; `normal` at the end.", metavar="LEVEL"),
]
InlineOption = Annotated[
    bool,
    typer.Option(
        "--inline", help="Markdown: embed the pictures as data instead of writing them to a folder."
    ),
]
ServerOption = Annotated[
    str,
    typer.Option(
        "--server",
        metavar="URL",
        help="Address of a vrag server that has the runs: links open the cited places there.",
        callback=_check_server,
        show_default=False,
    ),
]
EVIDENCE = "Evidence"
PdfOption = Annotated[
    bool,
    option(
        EVIDENCE,
        "Write the source PDF files with the cited places highlighted and numbered; other documents as their "
        "cited pages.",
        False,
        "--pdf",
    ),
]
AnnotationsOption = Annotated[
    bool,
    option(EVIDENCE, "Write all citations as a W3C Web Annotation collection.", False, "--annotations"),
]
PicturesOption = Annotated[
    bool,
    option(
        EVIDENCE, "Write pictures of each citation: its page, and the part enlarged.", False, "--pictures"
    ),
]
OverwriteOption = Annotated[
    bool,
    option(EVIDENCE, "Write evidence to a folder that holds files, and replace some.", False, "--overwrite"),
]


_AGES = {"m": timedelta(minutes=1), "h": timedelta(hours=1), "d": timedelta(days=1), "w": timedelta(weeks=1)}


def parse_age(text: str) -> timedelta:
    """Parse an age such as 30d; days without a unit. Raises `typer.BadParameter` if it is none.

    >>> parse_age("30d"), parse_age("12h"), parse_age("2w") == parse_age("14")
    (datetime.timedelta(days=30), datetime.timedelta(seconds=43200), True)
    """
    match = re.fullmatch(r"([0-9]{1,5})\s*([mhdw]?)", text.strip().lower())
    if match is None:
        raise typer.BadParameter(f"{text!r} is not an age. Write it as 30d, 12h or 4w.")
    return int(match[1]) * _AGES[match[2] or "d"]


def parse_time(text: str) -> datetime:
    """Parse a time in the form of ISO 8601; UTC without a zone. Raises `typer.BadParameter` if it is none.

    >>> parse_time("2026-03-14") == parse_time("2026-03-14T01:00+01:00")
    True
    """
    try:
        time = datetime.fromisoformat(text)
        return (time if time.tzinfo else time.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        raise typer.BadParameter(f"{text!r} is not a time such as 2026-03-14.") from None


def evidence_formats(*, pdf: bool, annotations: bool, pictures: bool) -> list[EvidenceFormat]:
    """Return the kinds of files that the options of evidence name."""
    from vrag.render.annotations.evidence_export import EvidenceFormat

    chosen = {
        EvidenceFormat.PDF: pdf,
        EvidenceFormat.ANNOTATIONS: annotations,
        EvidenceFormat.PICTURES: pictures,
    }
    return [kind for kind, wanted in chosen.items() if wanted]


class ServedPart(StrEnum):
    """A part of the server that can be served alone."""

    SEARCH = "search"


OnlyOption = Annotated[
    ServedPart | None, typer.Option("--only", help="Serve only this part.", show_default="everything")
]
PortOption = Annotated[
    int | None,
    typer.Option(
        "--port",
        "-p",
        min=0,
        max=65535,
        help="Port to listen on; 0 for any free port.",
        show_default="8000, or 8001 for search only",
    ),
]
RunsOutOption = Annotated[
    Path, typer.Option("--out", "-o", help="Output folder of the runs; an existing one is continued.")
]
RetryFailedOption = Annotated[bool, typer.Option("--retry-failed", help="Retry what failed before.")]
EvaluationArgument = Annotated[Path, typer.Argument(help="Output folder of `vrag eval run`.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]


def load_reading_flags(flags: Mapping[str, Any]) -> SettingsReport:
    """Load the settings of a command that reads a collection: without any, that of the command before.

    The collection that is used without being named is printed, and one that is named is remembered.
    """
    report = load_flags(flags)
    if "flag" in {report.origins["collection"], report.origins["collections"]}:
        remember_existing_collection(report.settings)
    report, note = use_memory(report)
    announce_collection(report, note)
    return report


def load_flags(flags: Mapping[str, Any], **others: Any) -> SettingsReport:  # noqa: ANN401 - settings
    """Load the settings, overridden by those arguments of a command that are named like a setting.

    An option that was not given (None, or an empty list) overrides nothing. `flags` are all arguments of the
    command: `locals()` in its first line; `others` are further settings.
    """
    chosen = {name: value for name, value in flags.items() if name in Settings.model_fields and value != []}
    return load_settings(**chosen, **others)
