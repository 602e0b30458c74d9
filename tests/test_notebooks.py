"""The notebooks of examples/notebooks run, and their stored outputs are those of their code."""

from __future__ import annotations

import io
import re
from collections.abc import Generator, Iterator

import numpy as np
import pytest
from PIL import Image

from tools.run_notebooks import (
    COLOURS,
    FOLDER,
    IMAGES,
    NOTEBOOKS,
    PICTURES,
    Notebook,
    nbformat,
    notebook_kernel,
    pictures_of,
    run_notebook,
)

ASK, COMPARE, LEARN = NOTEBOOKS
MAX_BYTES = 700_000
"""Size of a notebook with its outputs, among them results with pictures of their places."""
PLACES = re.compile(r"/(home|root|tmp|work|Users|usr|opt)/|[A-Z]:\\")
"""Paths of a machine."""


@pytest.fixture(scope="module")
def executed(tmp_path_factory: pytest.TempPathFactory) -> Generator[dict[str, Notebook]]:
    """The notebooks, run in one process with few documents, questions and steps."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("QUICK", "1")
        with notebook_kernel(tmp_path_factory.mktemp("notebooks")) as kernel:
            yield {name: run_notebook(name, kernel) for name in NOTEBOOKS}


def read(name: str) -> Notebook:
    return nbformat.read(FOLDER / name, as_version=4)


def code_cells(notebook: Notebook) -> list[Notebook]:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def outputs(notebook: Notebook) -> Iterator[Notebook]:
    for cell in code_cells(notebook):
        yield from cell.outputs


def texts(notebook: Notebook) -> list[str]:
    """The texts of all outputs, HTML as it is written."""
    found: list[str] = []
    for output in outputs(notebook):
        data = output.get("data", {})
        found += [output.text] if "text" in output else []
        found += [data[kind] for kind in ("text/html", "text/markdown", "text/plain") if kind in data]
    return found


def pictures(notebook: Notebook) -> list[Image.Image]:
    return [Image.open(io.BytesIO(data)) for data in pictures_of(notebook)]


def test_all_notebooks_of_the_folder_are_run() -> None:
    assert sorted(path.name for path in FOLDER.glob("*.ipynb")) == sorted(NOTEBOOKS)


@pytest.mark.parametrize("name", NOTEBOOKS)
class TestStored:
    def test_all_cells_were_run_once_and_in_order_without_an_error_or_a_warning(self, name: str) -> None:
        notebook = read(name)
        nbformat.validate(notebook)
        cells = code_cells(notebook)
        assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
        kinds = {(output.output_type, output.get("name", "stdout")) for output in outputs(notebook)}
        assert kinds <= {("stream", "stdout"), ("display_data", "stdout"), ("execute_result", "stdout")}

    def test_nothing_of_the_machine_is_in_it(self, name: str) -> None:
        notebook = read(name)
        sources = [cell.source for cell in notebook.cells]
        for text in [*texts(notebook), *sources]:
            assert not PLACES.search(text), text
            assert "Warning" not in text
        assert notebook.metadata.language_info == {"name": "python"}
        assert (FOLDER / name).stat().st_size < MAX_BYTES

    def test_its_pictures_show_something(self, name: str) -> None:
        stored = pictures(read(name))
        assert stored
        for picture in stored:
            assert min(picture.size) >= 100
            assert 8 < len(picture.convert("RGB").getcolors(picture.width * picture.height) or []) <= COLOURS

    def test_its_code_uses_public_names_only(self, name: str) -> None:
        code = "\n".join(cell.source for cell in code_cells(read(name)))
        assert not re.search(r"\._\w|import _|vrag\.testing", code)


def test_the_pictures_of_the_documentation_are_those_of_the_notebooks() -> None:
    page = (IMAGES.parent / "notebooks.md").read_text(encoding="utf-8")
    for picture, (name, number) in PICTURES.items():
        assert f"](images/notebook-{picture}.png)" in page
        assert (IMAGES / f"notebook-{picture}.png").read_bytes() == pictures_of(read(name))[number]


@pytest.mark.slow
def test_the_answers_stand_where_the_notebook_says(executed: dict[str, Notebook]) -> None:
    """The rectangle on page 3 of the report, and an abstention."""
    run = texts(executed[ASK])
    answer, abstention = (text for text in run if " steps" in text and "<small>" in text)
    assert "84,210 [1]" in answer
    assert "annual-report-2024.pdf</bdi>, page 3" in answer
    assert "These passages may answer it." in abstention
    assert any("Answer: 1,498" in text for text in run)
    page, part = pictures(executed[ASK])
    assert page.size == (620, 877)
    assert part.width == 760
    red, green, _ = (np.asarray(channel, int) for channel in page.convert("RGB").split())
    drawn = np.argwhere((green - red > 60)[: page.height * 44 // 100])  # above the green chart
    assert len(drawn) > 1000
    assert (drawn.min(axis=0) / page.size[::-1]).round(2).tolist() == [0.21, 0.1]
    assert (drawn.max(axis=0) / page.size[::-1]).round(2).tolist() == [0.42, 0.9]


@pytest.mark.slow
def test_a_stored_output_is_that_of_a_new_run(executed: dict[str, Notebook]) -> None:
    """Wherever a cell does not name more documents than the quick run has."""
    stored, fresh = code_cells(read(ASK)), code_cells(executed[ASK])
    for number in (2, 3, 4, 5, 11):
        of_code, again = stored[number - 1], fresh[number - 1]
        assert of_code.source == again.source
        assert texts(nbformat.v4.new_notebook(cells=[of_code])) == texts(
            nbformat.v4.new_notebook(cells=[again])
        )


@pytest.mark.slow
def test_the_agents_are_compared(executed: dict[str, Notebook]) -> None:
    run = "\n".join(texts(executed[COMPARE]))
    assert "VRAG: 1 of 2 right" in run
    assert "VimRAG: 1 of 2 right" in run
    assert "chains that hold up to each stage: page 1, region 1, fact 1, answer 1" in run
    assert len(pictures(executed[COMPARE])) == 2


def test_the_model_learned_in_the_stored_run() -> None:
    """The figures of the last evaluation are in the text: the notebook prints them."""
    held_out = re.search(r"Held out: (\d+)% right before, (\d+)% after", "\n".join(texts(read(LEARN))))
    assert held_out is not None
    before, after = map(int, held_out.groups())
    assert after >= before + 10


@pytest.mark.slow
def test_a_training_of_few_steps_runs(executed: dict[str, Notebook]) -> None:
    assert [picture.width > 800 for picture in pictures(executed[LEARN])] == [True] * 5
    assert any("Step 1 of 1" in text for text in texts(executed[LEARN]))


@pytest.mark.slow
def test_no_new_run_prints_a_warning(executed: dict[str, Notebook]) -> None:
    for name, notebook in executed.items():
        assert not [output.text for output in outputs(notebook) if output.get("name") == "stderr"], name
