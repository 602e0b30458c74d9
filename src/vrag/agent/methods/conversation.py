"""A question in its conversation: the message for the model, and the questions that follow on a run.

A follow-up run is given only the earlier questions and answers. Earlier answers may quote documents, so they
are sanitized like these.
"""

from __future__ import annotations

import hashlib
import io
import re
from collections.abc import Collection, Sequence

from vrag.agent.environment import Environment
from vrag.agent.jpeg import decode_jpeg, encode_jpeg
from vrag.agent.policy import EnclosedImage, Message, Part, Picture, Text
from vrag.agent.prompts import prompt
from vrag.agent.question import MAX_OPENED, PreviousTurn, Question, QuestionImage, bounded
from vrag.agent.runs.run_store import StoredRun
from vrag.errors import CorpusError, RunError
from vrag.geometry import View, draw_view
from vrag.model_profiles import Profile

__all__ = ["asked_again", "follow_up", "following", "half_of", "question_parts", "shortened"]

_HASH = re.compile(r"[0-9a-f]{64}")


def following(run: StoredRun) -> tuple[PreviousTurn, ...]:
    """Return the history of a question that follows on a run: that of the run, and the run itself."""
    started = run.started
    return bounded((*started.history, PreviousTurn(started.question, run.result.answer)))


def follow_up(run: StoredRun, text: str, images: Sequence[QuestionImage] = ()) -> Question:
    """Return a question that follows on a run.

    Args:
        run: Of the same conversation, finished or not.
        text: What is asked now.
        images: Pictures that come with it; those of earlier questions do not come again.

    Raises:
        ValueError: If there is no text.
    """
    session = run.started.session or run.id
    return Question.of(Question(text, following(run), tuple(images), session))


def asked_again(run: StoredRun) -> Question:
    """Return the question of a run as it was asked, with its history and its pictures.

    Raises:
        RunError: If a picture that came with it is missing from the files of the run, or is damaged.
    """
    started = run.started
    images = tuple(_load_question_image(run, sha256) for sha256 in started.attached)
    return Question(started.question, started.history, images, started.session)


def question_parts(question: Question, environment: Environment) -> tuple[Part, ...]:
    """Return a question as a model is told it: after what was said before and the pictures that came with it.

    May block: pictures are drawn at the size of the model's family.

    Raises:
        CorpusError: If a picture cannot be drawn.
    """
    parts: list[Part] = []
    if question.history:
        exchanges = "\n\n".join(_format_previous_turn(turn, environment) for turn in question.history)
        parts.append(Text(prompt("history.md", exchanges=exchanges)))
    if question.images:
        parts.append(Text(prompt("enclosed.md", count=len(question.images))))
        parts += (_enclosed(image, environment.profile) for image in question.images)
    if parts:
        parts.append(Text(prompt("question_itself.md")))
    return (*parts, Text(question.text, asked=question))


def _format_previous_turn(previous_turn: PreviousTurn, environment: Environment) -> str:
    question = environment.material(previous_turn.question)
    if previous_turn.answer is None:
        return prompt("exchange_unanswered.md", question=question)
    return prompt("exchange.md", question=question, answer=environment.material(previous_turn.answer))


def _enclosed(attached: QuestionImage, profile: Profile) -> EnclosedImage:
    """Return a picture that came with a question, at the size of a family."""
    try:
        shown = profile.shown_size(attached.size)
        drawn = draw_view(decode_jpeg(attached.jpeg), View.whole(attached.size, shown))
    except (OSError, SyntaxError, ValueError) as error:
        raise CorpusError(f"A picture that came with the question cannot be shown: {error}.") from error
    jpeg = encode_jpeg(drawn)
    return EnclosedImage(attached.sha256, shown, jpeg, hashlib.sha256(jpeg).hexdigest())


def _load_question_image(run: StoredRun, sha256: str) -> QuestionImage:
    """Return a picture that came with the question of a run, from its files."""
    from vrag.corpus.formats.image import open_picture

    try:
        jpeg = run.file(sha256).read_bytes() if _HASH.fullmatch(sha256) else b""
    except OSError as error:
        raise RunError(f"A picture of the run {run.id} cannot be read: {error.strerror}.") from error
    if hashlib.sha256(jpeg).hexdigest() != sha256:
        raise RunError(f"A picture of the run {run.id} is not the one that came with its question.")
    try:
        with open_picture(io.BytesIO(jpeg), MAX_OPENED) as image:
            return QuestionImage(jpeg, sha256, *image.size)
    except CorpusError as error:
        raise RunError(f"A picture of the run {run.id} cannot be shown. {error}") from error


def half_of(count: int) -> int:
    """Return the number of pictures to remove at once: half, rounded up, so that none is left at last."""
    return (count + 1) // 2


def shortened(
    messages: Sequence[Message], dropped: Collection[Picture | EnclosedImage], request: Sequence[Part]
) -> list[Message]:
    """Return the messages without some pictures; the last says so."""
    gone = [_without(message, dropped) for message in messages]
    last = gone[-1]
    texts = {part.text for part in last.parts if isinstance(part, Text)}
    added = [Text(prompt("shortened.md")), *request]
    more = tuple(part for part in added if not (isinstance(part, Text) and part.text in texts))
    return [*gone[:-1], Message(last.role, (*last.parts, *more))]


def _without(message: Message, dropped: Collection[Picture | EnclosedImage]) -> Message:
    """Return a message without some pictures; the same one where it holds none of them."""
    if not any(part in dropped for part in message.parts):
        return message
    note = Text(prompt("out_of_sight.md"))
    return Message(message.role, tuple(note if part in dropped else part for part in message.parts))
