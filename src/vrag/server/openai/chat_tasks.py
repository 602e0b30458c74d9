"""Side questions of chat programs: a title, tags, follow-up questions and the like for a conversation.

They come as chat requests, with the conversation in a prompt of the program. They are recognised by the known
forms of these prompts and answered from the conversation itself, in the shape that they ask for: no agent
runs, and nothing is recorded.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from vrag.reading.suggested_questions import Language, find_language
from vrag.server.openai.answer_format import JsonForm, to_json
from vrag.text.terms import STOP_WORDS

MAX_TITLE_CHARS = 60
MAX_TAGS, MAX_FOLLOW_UPS = 3, 3
_MIN_TAG_CHARS, _MAX_TAG_CHARS = 4, 20
_KEYS = re.compile(r'\{\s*"(title|tags|follow_ups|queries|prompt|text)"\s*:')
"""The field of the JSON object that a prompt of Open WebUI asks for."""
_TITLE_PROMPT = re.compile(
    r"\s*(?:provide a concise, 5-word-or-less title for the conversation"  # LibreChat
    r"|analyze this conversation and provide:\s*1\. the detected language"
    r"|detect user language and write in the same language an extremely concise title"
    r"|based on the chat history, give this conversation a (?:name|title)"  # Chatbox
    r"|you are a professional conversation summarizer\. generate a concise title"  # LobeChat
    r"|you are an assistant [\w ]{0,40}\. you need to summarize the user's conversation into a title"
    r"|summarize the given session as a \d+-word title"  # Cherry Studio
    r"|你是一名擅长会话的助理，你需要将用户的会话总结为)",
    re.IGNORECASE,
)
_EMOJI_PROMPT = re.compile(r"\s*Your task is to reflect the speaker's likely facial expression through a")
_TOOLS_PROMPT = re.compile(r"\s*Available Tools: .*\bchoose and return the correct tool\(s\)", re.DOTALL)
_SPEAKER = re.compile(r"(?im)^(?:\|\|>)?(user|human|assistant|ai|response|system|title)\s*:")
_RETRIEVED_PROMPT = re.compile(r"\s*### Task:\s*Respond to the user query using the provided context")
_USERS = frozenset({"user", "human"})
_SEPARATOR = re.compile(r"\n-{9,}\n")
"""Between the messages of a conversation that names no speakers."""
_NEUTRAL_FACE = "🙂"
_LANGUAGES = {Language.ENGLISH: "English", Language.GERMAN: "German", Language.CHINESE: "Chinese"}


@dataclass(frozen=True, slots=True)
class ChatTask:
    """A side question."""

    kind: str
    """The field of the answer, such as `title`."""
    questions: tuple[str, ...]
    """What the user asked in the conversation."""
    answers: str = ""
    """What was answered."""
    draft: str = ""
    """The beginning of a question that is to be completed."""
    as_json: bool = False

    @property
    def needs_suggestions(self) -> bool:
        """True if the answer is chosen among questions that the documents answer."""
        return self.kind in {"follow_ups", "text"}

    def answer(self, suggestions: Sequence[str]) -> dict[str, Any]:
        """Return the fields of the answer; `suggestions` are questions that the documents answer."""
        language = find_language("\n".join(self.questions))
        return {self.kind: self._main_field(suggestions), "language": _LANGUAGES.get(language, "")}

    def _main_field(self, suggestions: Sequence[str]) -> str | list[str]:
        match self.kind:
            case "title":
                value = shorten_title(self.questions)
            case "tags":
                value = choose_tags(self.questions, self.answers)
            case "follow_ups":
                asked = {question.casefold() for question in self.questions}
                value = [text for text in suggestions if text.casefold() not in asked][:MAX_FOLLOW_UPS]
            case "queries":
                value = list(self.questions[-1:])
            case "prompt":
                value = "".join(self.questions[-1:])
            case "text":
                value = complete_draft(self.draft, suggestions)
            case "emoji":
                value = _NEUTRAL_FACE
            case _:
                value = list[str]()
        return value

    def write(self, fields: Mapping[str, Any], form: JsonForm | None) -> str:
        """Write the answer as the request wants it. Raises `UnfitError` if it does not fit the schema."""
        if form is not None and form.schema is not None:
            return form.fill(fields, self.kind)
        only = fields[self.kind]
        return to_json({self.kind: only}) if self.as_json or form is not None else str(only)


def find_task(instructions: str, messages: Sequence[str]) -> ChatTask | None:
    """Return the side question that a request is; None if it asks about documents.

    `instructions` are its system messages, `messages` those of the user.
    """
    last = messages[-1] if messages else instructions
    before, found, history = last.partition("<chat_history>")
    is_template = found and last.lstrip().startswith("### Task:") and not _RETRIEVED_PROMPT.match(last)
    if is_template and (key := _KEYS.search(before)):
        history, _, after = history.rpartition("</chat_history>")
        draft = after.rpartition("<text>")[2].partition("</text>")[0]
        return _task(key[1], read_conversation(history), draft, as_json=True)
    if _EMOJI_PROMPT.match(last):
        return ChatTask("emoji", ())
    if _TOOLS_PROMPT.match(instructions):
        return ChatTask("tool_calls", (), as_json=True)
    if _TITLE_PROMPT.match(instructions) and messages:
        turns = [turn for message in messages for turn in read_conversation(message)]
        return _task("title", turns)
    if _TITLE_PROMPT.match(last):
        return _task("title", read_conversation(_quoted_conversation(last)))
    return None


def own_words(text: str) -> str:
    """Return the user's question in a prompt of Open WebUI that has passages of its own search before it."""
    asked = re.sub(r"</?user_query>", "", text.rpartition("</context>")[2]).strip()
    return asked if asked and _RETRIEVED_PROMPT.match(text) else text


def _task(kind: str, turns: Sequence[tuple[str, str]], draft: str = "", *, as_json: bool = False) -> ChatTask:
    questions = tuple(text for speaker, text in turns if speaker in _USERS and text)
    answers = "\n".join(text for speaker, text in turns if speaker not in _USERS)
    return ChatTask(kind, questions, answers, draft.strip(), as_json)


def _quoted_conversation(prompt: str) -> str:
    """Return the conversation that stands in a prompt: in a fence, or behind its first paragraph."""
    _, found, fenced = prompt.partition("Here's the conversation")
    if found:
        return fenced.partition("```")[2].rpartition("```")[0]
    paragraph = re.search(r"\n\s*\n", prompt)
    return prompt[paragraph.end() :] if paragraph else ""


def read_conversation(text: str) -> list[tuple[str, str]]:
    r"""Return speakers, in lower case, and what they said; without speakers, the first message is the user's.

    >>> read_conversation("USER: How many?\nASSISTANT: 48,200.")
    [('user', 'How many?'), ('assistant', '48,200.')]
    """
    if (messages := _json_messages(text)) is not None:
        return messages
    first, *parts = _SPEAKER.split(text)
    if not parts:
        return [("user", _SEPARATOR.split(first.strip())[0].strip())]
    return [(parts[at].lower(), parts[at + 1].strip().strip('"')) for at in range(0, len(parts), 2)]


def _json_messages(text: str) -> list[tuple[str, str]] | None:
    """Read messages that are a JSON list of objects, as Cherry Studio sends them."""
    try:
        entries = json.loads(text) if text.lstrip().startswith("[") else None
    except (ValueError, RecursionError):
        return None
    if not isinstance(entries, list):
        return None
    messages = [
        cast("dict[str, Any]", entry) for entry in cast("list[Any]", entries) if isinstance(entry, dict)
    ]
    return [
        (str(message.get("role")), str(message.get("mainText", message.get("content", ""))))
        for message in messages
    ]


def complete_draft(draft: str, suggestions: Sequence[str]) -> str:
    """Return how a suggested question goes on that begins like this; empty if none does.

    >>> complete_draft("How many p", ["What is it?", "How many passengers?"])
    'assengers?'
    """
    start = draft.casefold()
    return next(
        (text[len(start) :] for text in suggestions if start and text.casefold().startswith(start)), ""
    )


def shorten_title(questions: Sequence[str]) -> str:
    """Return the first question as a title: its first line, whole words, without punctuation at its end.

    >>> shorten_title(["How many passengers did the ferry carry in 2023?"])
    'How many passengers did the ferry carry in 2023'
    """
    lines = "\n".join(questions).strip().splitlines()
    words = " ".join(lines[0].split()) if lines else ""
    if len(words) > MAX_TITLE_CHARS:
        words = words[:MAX_TITLE_CHARS].rpartition(" ")[0] or words[:MAX_TITLE_CHARS]
    return words.strip(" \"'.,:;!?。？！") or "New chat"


def choose_tags(questions: Sequence[str], answers: str) -> list[str]:
    """Return words of the questions that stand for their topics, those that the answers have too first.

    >>> choose_tags(["How many passengers did the ferry carry?"], "48,200 passengers")
    ['Passengers', 'Ferry', 'Carry']
    """
    counts: Counter[str] = Counter()
    for question in questions:
        words = re.findall(r"[^\W\d_]+", question.casefold())
        counts.update(word for word in words if _MIN_TAG_CHARS <= len(word) <= _MAX_TAG_CHARS)
    known = set(re.findall(r"[^\W\d_]+", answers.casefold()))
    topics = [word for word in counts if word not in STOP_WORDS]
    topics.sort(key=lambda word: (word not in known, -counts[word]))
    return [word.capitalize() for word in topics[:MAX_TAGS]] or ["General"]
