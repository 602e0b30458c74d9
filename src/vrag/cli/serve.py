"""`vrag serve`: search for other programs, over HTTP."""

from __future__ import annotations

import json
import logging
import os
from enum import StrEnum
from typing import TYPE_CHECKING

import typer

from vrag.cli.display import Collections, Device, Embedder, RankBy, say, search_settings, warn

if TYPE_CHECKING:
    from vrag.assemble import Workbench
    from vrag.server.files import Naming

__all__ = ["serve"]


class Part(StrEnum):
    """What can be served by itself."""

    SEARCH = "search"


def serve(
    only: Part = typer.Option(Part.SEARCH, "--only", help="What to serve."),  # noqa: ARG001 - one so far
    host: str = typer.Option("127.0.0.1", "--host", help="Address to listen at; 0.0.0.0 for all."),
    port: int = typer.Option(
        8001, "--port", "-p", min=0, max=65535, help="Port to listen at; 0 for any free."
    ),
    collection: list[str] | None = Collections,
    ranking: str | None = RankBy,
    embedder: str | None = Embedder,
    device: str | None = Device,
    reranker: str | None = typer.Option(None, help="Model that ranks the best hits anew."),
    token: str | None = typer.Option(
        None, "--token", envvar="VRAG_API_KEY", help="What clients must send as: Authorization: Bearer TOKEN"
    ),
    insecure: bool = typer.Option(False, "--insecure", help="Serve other machines without a token."),
    name: list[str] = typer.Option([], "--name", help="Further host name that clients use; may be repeated."),
    files: str = typer.Option(
        "links",
        "--files",
        help="What file_path of a hit is: links (paths that can be opened on this machine), names "
        "(<stem>_<page>.jpg), or a folder where clients have these files.",
    ),
) -> None:
    """Serve search over HTTP: POST /search, GET /search, pictures by id.

    Listens on this machine only, unless --host says otherwise; then a token is needed. Stops on Ctrl-C
    when the requests that run are answered.

    Examples of use:

      vrag serve --only search --port 8001

      vrag serve --collection reports --collection slides --ranking lexical
    """
    from vrag.assemble import open_workbench
    from vrag.server.app import create_app
    from vrag.server.files import CollectionFiles
    from vrag.server.options import ServerOptions, is_loopback
    from vrag.server.running import check_access, listen, run_server

    check_access(host, token=token, insecure=insecure)
    logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s: %(message)s", level=logging.WARNING)
    bench = open_workbench(search_settings(collection, ranking, embedder, device, reranker))
    bench.warm_up()
    options = ServerOptions(token=token, local=is_loopback(host), hosts=frozenset(map(str.casefold, name)))
    app = create_app(
        bench.searcher,
        options,
        files=CollectionFiles(list(bench.collections.values())),
        naming=_naming(files, bench),
        corpora=bench.names,
    )
    with listen(host, port) as listening:
        address = _address(host, listening.getsockname()[1])
        if not is_loopback(host) and token is None:
            warn("Whoever reaches this address can read the collection: there is no token.")
        run_server(app, listening, options, lambda: _tell(address, token is not None))
    say("Stopped.")


def _naming(files: str, bench: Workbench) -> Naming:
    from vrag.server.files import in_folder, linked, plain_name

    if files == "links":
        return linked(bench.collection.cache_dir / "files")
    return plain_name if files == "names" else in_folder(files)


def _address(host: str, port: int) -> str:
    shown = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 - compared, not bound
    return f"http://[{shown}]:{port}" if ":" in shown else f"http://{shown}:{port}"


def _tell(address: str, with_token: bool) -> None:
    """Where it listens, and how to ask it."""
    body = json.dumps({"queries": ["your question"], "top_k": 3})
    header = " -H 'Authorization: Bearer '\"$VRAG_API_KEY\"" if with_token else ""
    say(("Searching at ", "bold"), f"{address}/search", "  (Ctrl-C stops)")
    say(f"  curl{header} -H 'Content-Type: application/json' {address}/search -d '{body}'")
    if os.environ.get("VRAG_API_KEY") is None and with_token:
        say(("  with the token in VRAG_API_KEY", "dim"))
