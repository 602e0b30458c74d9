"""Runs the notebooks of examples/notebooks, stores their outputs in them, and some pictures in docs/images.

`make notebooks` runs them whole, in an empty folder and in one process of Python, which is reset between
two of them. Outputs are stored so that they depend on the code alone: no times, no text beside pictures and
HTML, few colours.
"""

from __future__ import annotations

import argparse
import base64
import io
import os
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeAlias

from nbclient import NotebookClient
from PIL import Image

nbformat: Any = import_module("nbformat")  # not typed
Notebook: TypeAlias = Any
"""A notebook of nbformat, or a part of one."""

FOLDER = Path(__file__).parents[1] / "examples" / "notebooks"
NOTEBOOKS = ("ask_and_look.ipynb", "compare_two_agents.ipynb", "watch_a_model_learn.ipynb")
"""In the order in which they are read. The second uses the index that the first has made."""
METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}
PICTURES = {"ask": (NOTEBOOKS[0], 0), "compare": (NOTEBOOKS[1], 0), "learn": (NOTEBOOKS[2], 4)}
"""The pictures of the documentation: notebook, and number among its pictures from 0."""
IMAGES = Path(__file__).parents[1] / "docs" / "images"
COLOURS = 256
"""Colours of a stored picture."""
MAX_CELL_SECONDS = 1800


@contextmanager
def notebook_kernel(folder: Path) -> Generator[NotebookClient]:
    """Start a Python process for notebooks that works in `folder`, without settings of `vrag`."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("VRAG_")}
    environment["MPLBACKEND"] = "module://matplotlib_inline.backend_inline"  # as Jupyter sets it
    client = NotebookClient(
        nbformat.v4.new_notebook(),
        kernel_name="python3",
        timeout=MAX_CELL_SECONDS,
        record_timing=False,
        coalesce_streams=True,  # a busy machine prints the lines of a cell in several messages
        extra_arguments=["--log-level=40"],  # not that it listens on this machine only without encryption
    )
    with client.setup_kernel(cwd=str(folder), env=environment):
        yield client


def run_notebook(name: str, client: NotebookClient) -> Notebook:
    """Return a notebook with new outputs; raise `CellExecutionError` if a cell fails."""
    notebook = nbformat.read(FOLDER / name, as_version=4)
    client.nb = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("%reset -f"), *notebook.cells])
    client.reset_execution_trackers()
    for number, cell in enumerate(client.nb.cells):
        client.execute_cell(cell, number)
    return tidy(notebook)


def tidy(notebook: Notebook) -> Notebook:
    """Return the notebook without what depends on the machine or the time, its cells counted from 1."""
    notebook.metadata = nbformat.from_dict(METADATA)
    for count, cell in enumerate((cell for cell in notebook.cells if cell.cell_type == "code"), 1):
        cell.execution_count = count
        cell.metadata = nbformat.from_dict({})
        for output in cell.outputs:
            if "execution_count" in output:
                output.execution_count = count
            if "data" in output:
                output.data = tidy_data(output.data)
                output.metadata = nbformat.from_dict({})
    return notebook


def tidy_data(data: Notebook) -> Notebook:
    """Return an output in its best form: a picture, else HTML or Markdown, else text."""
    if "image/png" in data:
        return nbformat.from_dict({"image/png": shrink_picture(data["image/png"])})
    best = next(kind for kind in ("text/html", "text/markdown", "text/plain") if kind in data)
    return nbformat.from_dict({best: data[best]})


def shrink_picture(encoded: str) -> str:
    """Return a PNG picture, base64, with fewer colours."""
    picture = Image.open(io.BytesIO(base64.b64decode(encoded))).convert("RGB")
    buffer = io.BytesIO()
    picture.quantize(COLOURS).save(buffer, "PNG", optimize=True)
    return base64.b64encode(buffer.getvalue()).decode()


def pictures_of(notebook: Notebook) -> list[bytes]:
    """Return the pictures of the outputs of a notebook, PNG, in order."""
    outputs = (output for cell in notebook.cells for output in cell.get("outputs", ()))
    encoded = (output.get("data", {}).get("image/png") for output in outputs)
    return [base64.b64decode(data) for data in encoded if data]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the notebooks that are named, or all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("notebooks", nargs="*", choices=[*NOTEBOOKS, []], help="all without a name")
    names = parser.parse_args(arguments).notebooks or NOTEBOOKS
    with TemporaryDirectory() as folder, notebook_kernel(Path(folder)) as kernel:
        for name in names:
            notebook = run_notebook(name, kernel)
            nbformat.write(notebook, FOLDER / name)
            for picture, (source, number) in PICTURES.items():
                if source == name:
                    (IMAGES / f"notebook-{picture}.png").write_bytes(pictures_of(notebook)[number])
            print(f"{name}: {(FOLDER / name).stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
