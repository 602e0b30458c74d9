"""The tree of errors: one class per boundary crossed.

::

    VragError
    ├── SettingsError       a flag, environment variable or settings file cannot be used
    ├── CorpusError         a file cannot become items
    │   ├── UnsupportedFormat   nothing converts this kind of file
    │   ├── EncryptedFile       a password stands before the content
    │   ├── TooLarge            opening it would take more memory than is allowed
    │   └── TooSlow             it took longer than the time limit
    ├── CollectionError     the directory that holds items and index cannot be used
    │   ├── CollectionBusy      another process is writing to it
    │   └── FingerprintMismatch it was built with other settings or another model
    ├── EmbedError          a model cannot be loaded as an embedder, or something not be embedded
    │   └── EmbedderGone        its server or device failed: whatever comes next would fail as well
    ├── SearchError         a query or filter cannot be answered
    │   └── ServerError         the search server cannot be reached, or answered with an error
    ├── DownloadError       a published file cannot be fetched, or is another than expected
    ├── ModelError          a language model failed or sent what cannot be used
    │   └── ContextTooLong      the prompt is longer than the model takes
    ├── ActionError         an action of others cannot be loaded
    ├── RunError            a recorded run is missing, damaged or cannot be replayed
    ├── TrainingError       a model cannot be trained: no data, no checkpoint, other settings than before
    ├── CaseError           a data set of questions cannot be read, written or made
    ├── JudgeError          no verdict on an answer can be had
    ├── SampleError         supervised samples cannot be made, read or exported
    └── MissingExtra        an optional dependency is not installed

Bad documents, bad replies of a model and bad rollouts are data with a reason and do not raise
past the code that handles many of them at once. What does raise says what to do, in `hint`.
"""

from __future__ import annotations

__all__ = [
    "ActionError",
    "CaseError",
    "CollectionBusy",
    "CollectionError",
    "ContextTooLong",
    "CorpusError",
    "DownloadError",
    "EmbedError",
    "EmbedderGone",
    "EncryptedFile",
    "FingerprintMismatch",
    "JudgeError",
    "MissingExtra",
    "ModelError",
    "RunError",
    "SampleError",
    "SearchError",
    "ServerError",
    "SettingsError",
    "TooLarge",
    "TooSlow",
    "TrainingError",
    "UnsupportedFormat",
    "VragError",
]


class VragError(Exception):
    """Something a user can act on.

    Args:
        message: What happened, in one sentence.
        hint: What to do about it; empty when the message already says so.
    """

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message} {self.hint}".rstrip()

    def __reduce__(self) -> tuple[type[VragError], tuple[str, str]]:
        """Pickles with its hint, so that errors survive the way back from a worker process."""
        return type(self), (self.message, self.hint)


class SettingsError(VragError):
    """A flag, environment variable or settings file cannot be used."""


class CorpusError(VragError):
    """A file cannot become items."""


class UnsupportedFormat(CorpusError):
    """No converter takes this kind of file."""


class EncryptedFile(CorpusError):
    """A password stands before the content."""


class TooLarge(CorpusError):
    """Opening the file would take more memory than is allowed."""


class TooSlow(CorpusError):
    """The file took longer than its time limit."""


class CollectionError(VragError):
    """The directory that holds items and index cannot be used."""


class CollectionBusy(CollectionError):
    """Another process is writing to the collection."""


class FingerprintMismatch(CollectionError):
    """The collection was built with other settings or another model."""


class EmbedError(VragError):
    """A model cannot be loaded as an embedder, or something cannot be embedded."""


class EmbedderGone(EmbedError):
    """The embedder's server or device failed: not what it was given, but it itself is to blame."""


class SearchError(VragError):
    """A query or a filter cannot be answered."""


class ServerError(SearchError):
    """The search server cannot be reached, or answered with an error."""


class DownloadError(VragError):
    """A published file cannot be fetched, or is another than expected."""


class ModelError(VragError):
    """A language model failed or sent what cannot be used."""


class ContextTooLong(ModelError):
    """The prompt is longer than the model takes."""


class ActionError(VragError):
    """An action of others (`vrag.actions`) cannot be loaded."""


class RunError(VragError):
    """A recorded run is missing, damaged or cannot be replayed."""


class TrainingError(VragError):
    """A model cannot be trained."""


class CaseError(VragError):
    """A data set of questions cannot be read, written or made."""


class JudgeError(VragError):
    """No verdict on an answer can be had; that is none against it."""


class SampleError(VragError):
    """Supervised samples cannot be made, read or exported."""


class MissingExtra(VragError):
    """An optional dependency is not installed.

    >>> str(MissingExtra("torch", "models"))
    "torch is not installed. Run: pip install 'vrag-agent[models]'"
    """

    def __init__(self, package: str, extra: str) -> None:
        super().__init__(f"{package} is not installed.", f"Run: pip install 'vrag-agent[{extra}]'")
        self.package = package
        self.extra = extra

    def __reduce__(self) -> tuple[type[VragError], tuple[str, str]]:
        """Pickles by its own two arguments."""
        return type(self), (self.package, self.extra)
