"""The agents under their old names, thin over the real API.

Both ask a served model and a search server, and yield what the demos of the reference show.
"""

from __future__ import annotations

import weakref
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from vrag.agent.actions import ABSTENTION, parse
from vrag.agent.events import (
    AnswerGiven,
    CropRequested,
    GraphChanged,
    ImageShown,
    InvalidAction,
    MemoryUpdated,
    ModelCalled,
    RunFailed,
    SearchRequested,
    SearchReturned,
    StopReason,
    ThoughtGiven,
)
from vrag.agent.loop import Agent
from vrag.assemble import open_agent, open_client
from vrag.errors import ModelError, SearchError, VragError
from vrag.geometry import Box, Size, Space, View, draw_view
from vrag.settings import load_settings

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Mapping

    from PIL.Image import Image

    from vrag.agent.events import Event

__all__ = ["VRAG", "VimRAG"]

MODEL = "Qwen/Qwen2.5-VL-7B-Instruct"
"""What the reference's VRAG has its model served as."""
_PURPLE = (160, 32, 240)
"""The colour of the box on a page that was cropped."""
Step = tuple[str, Any, Any]


class VRAG:
    """The agent of one conversation. What it is asked to do is set by attributes and arguments alone.

    Args:
        base_url: Of the model's server.
        search_url: Of the search server.
        generator: Whether `run` yields what happens; else it gives the answer alone.
        api_key: For the model's server.
        model_name: What it has the model as.
        image_root: Where the pictures lie, if the search server is the reference's, which names paths.
            None for the setting.
        profile: Family of the model; by its name where it is known.

    Raises:
        SettingsError: If an address or the profile cannot be used.
        ServerError: If the address of the search server cannot be one.
    """

    def __init__(
        self,
        base_url: str = "http://0.0.0.0:8002/v1",
        search_url: str = "http://0.0.0.0:8001/search",
        generator: bool = True,
        api_key: str = "EMPTY",
        *,
        model_name: str = MODEL,
        image_root: str | None = None,
        profile: str | None = None,
    ) -> None:
        self.max_steps = 10
        self.generator = generator
        self._agent = _agent(
            self, "vrag", base_url, search_url, model_name, api_key, image_root, profile=profile
        )

    def run(self, question: str) -> Generator[Step, None, Step] | str:
        """Answers a question.

        Returns:
            With `generator`, what yields `("think", text, raw)`, `("search", query, raw)`,
            `("search_image", picture as shown, page in full)`, `("bbox", text, raw)` and
            `("crop_image", crop as shown, page with the box drawn)`, `raw` being the reply as it came, and
            returns `("answer", text, raw)`. Else the text of the answer; "" when there is none.

        Raises:
            ModelError, SearchError: If the model or the search fails.
        """
        steps = self._steps(question)
        return steps if self.generator else _returned(steps)[1]

    def _steps(self, question: str) -> Generator[Step, None, Step]:
        agent = _with_steps(self._agent, self.max_steps)
        pictures = _Pictures(agent)
        raw = ""
        for event in agent.stream(question, save=pictures.save):
            match event:
                case ModelCalled():
                    raw = event.reply[: event.executed]
                case ThoughtGiven():
                    yield "think", event.text, raw
                case SearchRequested():
                    yield "search", event.query, raw
                case CropRequested():
                    sides = ", ".join(f"{side:g}" for side in event.box)
                    yield "bbox", f"[{sides}]", raw
                case ImageShown() if event.crop:
                    yield "crop_image", pictures.of(event), pictures.page(event, boxed=True)
                case ImageShown():
                    yield "search_image", pictures.of(event), pictures.page(event)
                case AnswerGiven():
                    return "answer", _text(event, raw), raw
                case RunFailed():
                    raise _failure(event)
                case _:
                    pass
        raise AssertionError("a run ended without an end")  # pragma: no cover


class VimRAG:
    """The agent with a memory graph.

    Args:
        base_url: Of the model's server.
        search_url: Of the search server.
        model_name: What it has the model as.
        api_key: For the model's server.
        enable_thinking: Whether the model thinks apart from its reply, as DashScope switches it.
        max_steps: Model calls at most.
        top_k: Results of a search.
        image_root: Where the pictures lie, if the search server is the reference's, which names paths.
            None for the setting.
        profile: Family of the model; by its name where it is known.

    Raises:
        SettingsError: If an address or the profile cannot be used.
        ServerError: If the address of the search server cannot be one.
    """

    def __init__(  # noqa: PLR0913 - those of the seeds and four more
        self,
        base_url: str = "https://dashscope.aliyuncs.com/compatible-mode/v1",
        search_url: str = "http://localhost:8001/search",
        model_name: str = "qwen3.5-plus",
        api_key: str | None = None,
        enable_thinking: bool = False,
        *,
        max_steps: int = 20,
        top_k: int = 3,
        image_root: str | None = None,
        profile: str | None = None,
    ) -> None:
        self.max_steps = max_steps
        more: dict[str, Any] = {"thinking": "on" if enable_thinking else "off", "hits": top_k}
        self._agent = _agent(
            self, "vimrag", base_url, search_url, model_name, api_key, image_root, profile=profile, **more
        )

    def run(self, sample: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """Answers `sample["query"]`.

        Yields:
            `{"event": …, "content": …}`: `think` (text), `search` (query), `search_result` (file names),
            `memory` (what is shown from memory), `graph` (nodes), `invalid` (reason), at the end
            `answer` (text, with `evidence`) or `error` (message).
        """
        agent = _with_steps(self._agent, self.max_steps)
        raw = ""
        for event in agent.stream(str(sample["query"])):
            if isinstance(event, ModelCalled):
                raw = event.reply[: event.executed]
            elif (told := _told(event, raw)) is not None:
                yield told


def _told(event: Event, raw: str) -> dict[str, Any] | None:  # noqa: PLR0911 - one flat case per event
    """An event as a page of the demo takes it; None for one that it does not show."""
    match event:
        case ThoughtGiven():
            return {"event": "think", "content": event.text}
        case SearchRequested():
            return {"event": "search", "content": event.query, "node": event.node}
        case SearchReturned():
            names = [f"{hit.document_name}_{hit.ordinal}" for hit in event.hits]
            return {"event": "search_result", "content": names}
        case MemoryUpdated():
            kept = [entry.model_dump(mode="json") for entry in event.kept]
            return {"event": "memory", "content": kept, "tokens": event.tokens, "budget": event.budget}
        case GraphChanged():
            return {"event": "graph", "content": event.model_dump(mode="json")["graph"]["nodes"]}
        case InvalidAction():
            return {"event": "invalid", "content": event.reason}
        case AnswerGiven():
            evidence = [one.model_dump(mode="json") for one in event.evidence]
            return {"event": "answer", "content": _text(event, raw), "evidence": evidence}
        case RunFailed():
            return {"event": "error", "content": event.message}
        case _:
            return None


def _agent(
    owner: object,
    method: Literal["vrag", "vimrag"],
    base_url: str,
    search_url: str,
    model: str,
    api_key: str | None,
    image_root: str | None,
    *,
    profile: str | None,
    **more: Any,  # noqa: ANN401 - settings
) -> Agent:
    """The agent that a signature of the seeds describes; all else is as the settings say.

    What it holds of the search server is given back with its owner: the seeds have nothing to close.
    """
    settings = load_settings(
        agent=method,
        base_url=base_url,
        model=model,
        model_key=api_key,
        search_url=search_url,
        image_root=image_root,
        profile=profile,
        **more,
    ).settings
    client = open_client(settings)
    weakref.finalize(owner, client.close)
    return open_agent(settings, client)


def _with_steps(agent: Agent, steps: int) -> Agent:
    assert agent.limits is not None
    return replace(agent, limits=agent.limits.model_copy(update={"steps": steps}))


def _text(event: AnswerGiven, raw: str) -> str:
    """The answer; of an abstention how the model put it, and "" where there is none."""
    if event.text is not None or event.stop_reason is not StopReason.ABSTAINED:
        return event.text or ""
    action = parse(raw).action
    return getattr(action, "text", ABSTENTION)


def _failure(event: RunFailed) -> VragError:
    return (SearchError if event.stop_reason is StopReason.SEARCH_ERROR else ModelError)(event.message)


def _returned(steps: Generator[Step, None, Step]) -> Step:
    while True:
        try:
            next(steps)
        except StopIteration as stop:
            return stop.value


class _Pictures:
    """The pictures of a run, as the demo shows them."""

    def __init__(self, agent: Agent) -> None:
        self._environment = agent.environment
        self._files: dict[str, bytes] = {}

    def save(self, name: str, data: bytes) -> None:
        """Keeps a picture, not a message."""
        if name.endswith(".jpg"):
            self._files[name] = data

    def of(self, event: ImageShown) -> Image:
        """As the model was shown it."""
        import io

        from PIL import Image

        with Image.open(io.BytesIO(self._files[f"{event.sha256}.jpg"])) as image:
            image.load()
            return image

    def page(self, event: ImageShown, *, boxed: bool = False) -> Image:
        """The page it was taken from: in full, or at the size of the model's with the box drawn."""
        from PIL import ImageDraw

        page = self._environment.searcher.image(event.item)
        if not boxed:
            return page
        size = Size(*page.size)
        view = View.whole(size, self._environment.profile.shown_size(size))
        drawn = draw_view(page, view)
        box = view.from_item(Box(*event.region, Space.ITEM), Space.SHOWN)
        ImageDraw.Draw(drawn).rectangle(box.as_tuple(), outline=_PURPLE, width=7)
        return drawn
