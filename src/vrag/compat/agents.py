"""The class `VRAG` of the reference implementation, a thin layer over the real API, and helpers for `VimRAG`.

Both call a served model and a search server, and yield the steps that the demos of the reference show.
"""

from __future__ import annotations

import re
import weakref
from collections.abc import Generator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from vrag.agent.agent import Agent
from vrag.agent.events import (
    AnswerGiven,
    CropRequested,
    ImageShown,
    ModelCalled,
    RunFailed,
    SearchRequested,
    StopReason,
    ThoughtGiven,
)
from vrag.errors import ModelError, SearchError, VragError
from vrag.factory.agents import check_agent, open_agent
from vrag.factory.families import ModelFamily, open_family
from vrag.factory.search import open_client
from vrag.geometry import Box, Size, Space, View, draw_view
from vrag.search.client import SearchClient
from vrag.settings import Settings, SettingsReport, load_settings

if TYPE_CHECKING:
    from PIL.Image import Image

MODEL = "Qwen/Qwen2.5-VL-7B-Instruct"
"""Name of the served model of VRAG in the reference."""
_PURPLE = (160, 32, 240)
"""The colour of the box on a page that was cropped."""
_THINK = re.compile(r"<think>(.*?)</think>", re.DOTALL)
_ACTION = re.compile(r"<(search|select|bbox|answer)\b[^<>]*>(.*?)</\1\s*>", re.DOTALL | re.IGNORECASE)
Step = tuple[str, Any, Any]


class VRAG:
    """The agent of one conversation, configured by attributes and arguments alone.

    `max_steps` is the number of actions before the answer is demanded, as in the reference: a run makes
    one model call more.

    Args:
        base_url: Address of the model's server.
        search_url: Address of the search server.
        generator: Whether `run` yields every step; otherwise it returns the text of the answer.
        api_key: Key for the model's server; None for the one of the settings.
        model_name: Name of the model on that server.
        image_root: Folder of the pictures, if the search server is the reference's, which names paths.
            None for the setting.
        profile: Family of the model; by what its server says, and by its name, where None.

    Raises:
        SettingsError: If an address or the profile cannot be used.
        ServerError: If the address of the search server is none.
    """

    def __init__(
        self,
        base_url: str = "http://0.0.0.0:8002/v1",
        search_url: str = "http://0.0.0.0:8001/search",
        generator: bool = True,
        api_key: str | None = "EMPTY",
        *,
        model_name: str = MODEL,
        image_root: str | None = None,
        profile: str | None = None,
    ) -> None:
        self.max_steps = 10
        self.generator = generator
        report = read_settings(
            "vrag", base_url, search_url, model_name, api_key, image_root=image_root, profile=profile
        )
        self._agents = ReferenceAgents(self, report.settings, SearchClient)

    def run(self, question: str) -> Generator[Step, None, Step] | str:
        """Answer a question.

        Returns:
            With `generator`, a generator of `("think", text, tag)`, `("search", query, tag)`,
            `("search_image", page as shown, tag)`, `("bbox", text, tag)` and
            `("crop_image", crop as shown, picture with the box drawn)`, `tag` being the part of the reply
            that holds the text with the tags around it; it returns `("answer", text, tag)`.
            Otherwise the text of the answer; "" when there is none.

        Raises:
            ModelError, SearchError: If the model or the search fails.
        """
        steps = self._steps(question)
        if self.generator:
            return steps
        while True:
            try:
                next(steps)
            except StopIteration as stop:
                return stop.value[1]

    def _steps(self, question: str) -> Generator[Step, None, Step]:
        agent = with_steps(self._agents.current(), self.max_steps + 1)
        pictures = _Pictures(agent)
        reply, tag = "", ""
        for event in agent.stream(question, save=pictures.save):
            match event:
                case ModelCalled():
                    reply = event.reply[: event.executed]
                    actions = list(_ACTION.finditer(_THINK.sub("", reply)))
                    tag = actions[-1][0] if actions else ""
                case ThoughtGiven(text=text):  # as written, unless its tags are incomplete
                    found = _THINK.search(reply)
                    yield ("think", found[1], found[0]) if found else ("think", text, text)
                case SearchRequested():
                    yield "search", event.query, tag
                case CropRequested():
                    yield "bbox", _text_of(tag), tag
                case ImageShown() if event.crop:
                    yield "crop_image", pictures.of(event), pictures.boxed(event)
                case ImageShown():
                    yield "search_image", pictures.of(event), tag
                case AnswerGiven():  # of an abstention the model's own words
                    abstained = event.stop_reason is StopReason.ABSTAINED
                    text = _text_of(tag) if abstained else event.text
                    return ("answer", "", "") if text is None else ("answer", text, tag)
                case RunFailed():
                    raise failure_of(event)
                case _:
                    pass
        raise AssertionError("a run ended without its last event")  # pragma: no cover


def read_settings(
    method: Literal["vrag", "vimrag"],
    base_url: str,
    search_url: str,
    model: str,
    api_key: str | None,
    **more: Any,  # noqa: ANN401 - settings
) -> SettingsReport:
    """Load the user's settings, with the arguments of a class of the reference.

    Models are not measured, so that a run makes the requests of the reference and no others.

    Raises `SettingsError` if a value cannot be used.
    """
    report = load_settings(
        agent=method,
        base_url=base_url,
        model=model,
        model_key=api_key,
        search_url=search_url,
        probe=False,
        **more,
    )
    if api_key is None:
        return report
    return replace(report, settings=report.settings.with_key_place("model_key", "api_key"))


class ReferenceAgents:
    """The agent of the settings over a search server, opened again where the model server has another model.

    The reference's classes are often created before the model server has started. The connections are closed
    when `owner` is garbage: the classes of the reference have no `close`. Raises `SettingsError` or
    `ServerError` if the settings do not fit each other.
    """

    def __init__(self, owner: object, settings: Settings, kind: type[SearchClient]) -> None:
        self._settings = settings
        self._client = open_client(settings, kind)
        weakref.finalize(owner, self._client.close)
        check_agent(settings)
        self._opened: tuple[ModelFamily, Agent] | None = None

    def current(self) -> Agent:
        """Return the agent. Raises `VragError` if it cannot be opened."""
        family = open_family(self._settings, quiet=True)
        if self._opened is None or self._opened[0] != family:
            self._opened = family, open_agent(self._settings, self._client, family=family)
        return self._opened[1]


def with_steps(agent: Agent, steps: int) -> Agent:
    """Return the agent with a limit of model calls."""
    assert agent.limits is not None
    return replace(agent, limits=agent.limits.model_copy(update={"steps": steps}))


def failure_of(event: RunFailed) -> VragError:
    """Return the error of a failed run."""
    return (SearchError if event.stop_reason is StopReason.SEARCH_ERROR else ModelError)(event.message)


def _text_of(tag: str) -> str:
    found = _ACTION.fullmatch(tag)
    return found[2].strip() if found else ""


class _Pictures:
    """The pictures of a run for the demo."""

    def __init__(self, agent: Agent) -> None:
        self._environment = agent.environment
        self._files: dict[str, bytes] = {}

    def save(self, name: str, data: bytes) -> None:
        """Keep a picture; drop a message."""
        if name.endswith(".jpg"):
            self._files[name] = data

    def of(self, event: ImageShown) -> Image:
        """Open the picture that the model was shown."""
        import io

        from PIL import Image

        with Image.open(io.BytesIO(self._files[f"{event.sha256}.jpg"]), formats=("JPEG",)) as image:
            image.load()
            return image

    def boxed(self, event: ImageShown) -> Image:
        """Draw the box of a crop on its page, at the size at which the model is shown pages."""
        from PIL import ImageDraw

        page = self._environment.searcher.image(event.item)
        size = Size(*page.size)
        view = View.whole(size, self._environment.profile.shown_size(size))
        drawn = draw_view(page, view)
        box = view.from_item(Box(*event.region, Space.ITEM), Space.SHOWN)
        ImageDraw.Draw(drawn).rectangle(box.as_tuple(), outline=_PURPLE, width=7)
        return drawn
