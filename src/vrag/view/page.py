"""A run as one page of HTML that stands alone: it runs no script and fetches nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from vrag import __version__
from vrag.agent.events import AnswerGiven
from vrag.view.account import cost_section, settings_section
from vrag.view.answer import answer_section, evidence_section
from vrag.view.head import POLICY, head
from vrag.view.making import method_name
from vrag.view.markup import Markup, document, element
from vrag.view.memory import graph_section, memory_section
from vrag.view.pictures import Album
from vrag.view.plates import Plates
from vrag.view.preface import attached_pictures, earlier_exchanges, setup_notices
from vrag.view.story import Story
from vrag.view.timeline import timeline_section
from vrag.view.wording import when

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from vrag.agent.events import Event
    from vrag.agent.runs import StoredRun

__all__ = ["POLICY", "Page", "page_of", "render"]


@dataclass(frozen=True, slots=True)
class Page:
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


def page_of(run: StoredRun) -> Page:
    """The page of a run, with the pictures that lie with it."""

    def read(sha256: str) -> bytes | None:
        try:
            return run.file(sha256, "jpg").read_bytes()
        except OSError:
            return None

    return _page(Story.of_run(run), read)


def render(events: Iterable[Event], read: Callable[[str], bytes | None]) -> Page:
    """The page of the events of a run, which need not have an end.

    Args:
        events: Beginning with the start of the run.
        read: Gives the JPEG file of a hash, or None where there is none.

    Raises:
        RunError: If the events do not begin with the start of a run.
    """
    return _page(Story.of(events), read)


def _page(story: Story, read: Callable[[str], bytes | None]) -> Page:
    album = Album.of(_hashes(story), read)
    plates = Plates(story, album)
    sections = {
        "Answer": answer_section(story),
        "Evidence": evidence_section(story, plates),
        "Graph": graph_section(story, plates),
        "Steps": timeline_section(story, plates),
        "Memory": memory_section(story, plates),
        "Cost": cost_section(story),
        "Settings": settings_section(story),
    }
    written = {name: section for name, section in sections.items() if section is not None}
    body = (
        _masthead(story, plates),
        _navigation(written),
        element("main", written.values()),
        _foot(story),
        album.definitions(),
    )
    html = document(head=head(f"{story.started.question[:120]} – {method_name(story)}"), body=body)
    return Page(html, len(album.leaves), tuple(dict.fromkeys(album.missing.values())), len(album.missing))


def _hashes(story: Story) -> Iterator[str]:
    """Of all pictures that the page shows, in order."""
    yield from story.started.attached
    for shown in story.pictures:
        yield shown.sha256
    for end in story.all(AnswerGiven):
        for evidence in end.evidence:
            if evidence.crop_sha256:
                yield evidence.crop_sha256


def _masthead(story: Story, plates: Plates) -> Markup:
    facts = (story.settings.policy, when(story.started.ts))
    return element(
        "header",
        element(
            "p",
            element("strong", method_name(story)),
            (element("span", fact) for fact in facts),
            class_="brand",
        ),
        earlier_exchanges(story),
        element("h1", story.started.question, dir="auto"),
        attached_pictures(story, plates),
        setup_notices(story),
    )


def _navigation(sections: Iterable[str]) -> Markup:
    links = (element("a", name, href=f"#{name.lower()}") for name in sections)
    return element("nav", links, aria_label="Parts of the page")


def _foot(story: Story) -> Markup:
    note = "A page without scripts, which fetches nothing. Rectangles mark what the model looked at."
    return element(
        "footer", element("p", f"Run {story.started.run_id}, written by vrag {__version__}. {note}")
    )
