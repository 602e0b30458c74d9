"""A run as one page of HTML that stands alone: it runs no script and fetches nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from vrag import __version__
from vrag.agent.events import AnswerGiven
from vrag.render.cost import cost_section, settings_section
from vrag.render.html import Markup, document, element
from vrag.render.page_head import POLICY, head
from vrag.render.run_facts import method_name
from vrag.render.run_page.answer import answer_section, evidence_section
from vrag.render.run_page.figures import Figures
from vrag.render.run_page.image_store import ImageStore
from vrag.render.run_page.memory import graph_section, memory_section
from vrag.render.run_page.question_section import attached_pictures, earlier_exchanges, setup_notices
from vrag.render.run_page.run_view import RunView
from vrag.render.run_page.timeline import timeline_section
from vrag.render.text_format import when

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from vrag.agent.events import Event
    from vrag.agent.runs.run_store import StoredRun

__all__ = ["POLICY", "RunPage", "page_of", "render"]


@dataclass(frozen=True, slots=True)
class RunPage:
    """A page and what is in it."""

    html: str
    pictures: int
    """Pictures in it."""
    missing: tuple[str, ...]
    """Why pictures of the run are not in it, each reason once."""
    absent: int
    """How many are not in it."""

    @property
    def data(self) -> bytes:
        """The file."""
        return self.html.encode()


def page_of(run: StoredRun) -> RunPage:
    """The page of a run, with the pictures that lie with it."""

    def read(sha256: str) -> bytes | None:
        try:
            return run.file(sha256, "jpg").read_bytes()
        except OSError:
            return None

    return _page(RunView.of_run(run), read)


def render(events: Iterable[Event], read: Callable[[str], bytes | None]) -> RunPage:
    """The page of the events of a run, which need not have an end.

    Args:
        events: Beginning with the start of the run.
        read: Gives the JPEG file of a hash, or None where there is none.

    Raises:
        RunError: If the events do not begin with the start of a run.
    """
    return _page(RunView.of(events), read)


def _page(run_view: RunView, read: Callable[[str], bytes | None]) -> RunPage:
    image_store = ImageStore.of(_hashes(run_view), read)
    page_figures = Figures(run_view, image_store)
    sections = {
        "Answer": answer_section(run_view),
        "Evidence": evidence_section(run_view, page_figures),
        "Graph": graph_section(run_view, page_figures),
        "Steps": timeline_section(run_view, page_figures),
        "Memory": memory_section(run_view, page_figures),
        "Cost": cost_section(run_view),
        "Settings": settings_section(run_view),
    }
    written = {name: section for name, section in sections.items() if section is not None}
    body = (
        _masthead(run_view, page_figures),
        _navigation(written),
        element("main", written.values()),
        _foot(run_view),
        image_store.definitions(),
    )
    html = document(head=head(f"{run_view.started.question[:120]} – {method_name(run_view)}"), body=body)
    return RunPage(
        html,
        len(image_store.stored_images),
        tuple(dict.fromkeys(image_store.missing.values())),
        len(image_store.missing),
    )


def _hashes(run_view: RunView) -> Iterator[str]:
    """Of all pictures that the page shows, in order."""
    yield from run_view.started.attached
    for shown in run_view.pictures:
        yield shown.sha256
    for end in run_view.all(AnswerGiven):
        for evidence in end.evidence:
            if evidence.crop_sha256:
                yield evidence.crop_sha256


def _masthead(run_view: RunView, page_figures: Figures) -> Markup:
    facts = (run_view.settings.policy, when(run_view.started.ts))
    return element(
        "header",
        element(
            "p",
            element("strong", method_name(run_view)),
            (element("span", fact) for fact in facts),
            class_="brand",
        ),
        earlier_exchanges(run_view),
        element("h1", run_view.started.question, dir="auto"),
        attached_pictures(run_view, page_figures),
        setup_notices(run_view),
    )


def _navigation(sections: Iterable[str]) -> Markup:
    links = (element("a", name, href=f"#{name.lower()}") for name in sections)
    return element("nav", links, aria_label="Parts of the page")


def _foot(run_view: RunView) -> Markup:
    note = "A page without scripts, which fetches nothing. Rectangles mark what the model looked at."
    return element(
        "footer", element("p", f"Run {run_view.started.run_id}, written by vrag {__version__}. {note}")
    )
