"""The errors: one class per boundary, all of them `VragError`.

Bad documents, bad replies of a model and bad rollouts are data with a reason and do not raise
past the code that handles many of them at once. Errors say what to do, in `hint`.
"""

from __future__ import annotations

import errno

REPAIR_COMMAND = "vrag index verify --repair"
"""The command that repairs a collection, for hints."""


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message, at most 300 characters, without its period.

    An error without a message gives the name of its type.
    """
    text = str(error).strip() or type(error).__name__
    return text.splitlines()[0][:300].rstrip(".")


class VragError(Exception):
    """An error that a user can act on.

    The message is one sentence on what happened; the hint is the remedy, empty when the message contains it.
    """

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message} {self.hint}".rstrip()

    def __reduce__(self) -> tuple[type[VragError], tuple[str, str]]:
        """Pickle with the hint, so that errors survive the way back from a worker process."""
        return type(self), (self.message, self.hint)


class SettingsError(VragError):
    """A flag, environment variable or settings file cannot be used."""


class CorpusError(VragError):
    """A file cannot become items."""


class UnsupportedFormatError(CorpusError):
    """No converter takes this kind of file."""


class EncryptedFileError(CorpusError):
    """The content is protected by a password."""


class FileTooLargeError(CorpusError):
    """Opening the file would take more memory than is allowed."""


class ConversionTimeout(CorpusError):
    """The file took longer than its time limit."""


class CollectionError(VragError):
    """The directory that holds items and index cannot be used."""


class CollectionBusy(CollectionError):
    """Another process is writing to the collection."""


class FingerprintMismatch(CollectionError):
    """The collection was built with other settings or another model."""


class EmbedError(VragError):
    """A model cannot be loaded as an embedder, or something cannot be embedded."""


class EmbedderFailedError(EmbedError):
    """The embedder's server or device failed; its input is not to blame."""


class SearchError(VragError):
    """A query or a filter cannot be answered."""


class OutOfScopeError(SearchError):
    """An item or a document is not among those that a question may look at."""


class ServerError(SearchError):
    """The search server cannot be reached, or answered with an error."""


class ServerStateError(VragError):
    """The state that a server keeps over a restart cannot be read or written."""


class DownloadError(VragError):
    """A published file cannot be downloaded, or has another content."""


class ModelError(VragError):
    """A language model failed or sent an unusable reply."""


class ContextTooLong(ModelError):
    """The prompt is longer than the context of the model."""


class ActionError(VragError):
    """An action of another package (`vrag.actions`) cannot be loaded."""


class RunError(VragError):
    """A recorded run is missing, damaged or cannot be replayed."""


class TrainingError(VragError):
    """A model cannot be trained."""


class CaseError(VragError):
    """A data set of questions cannot be read, written or made."""


class JudgeError(VragError):
    """No verdict on an answer is available; that is not a verdict against it."""


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
        """Pickle by its own two arguments."""
        return type(self), (self.package, self.extra)


def disk_advice(error: OSError) -> str:
    """Return what to do about a directory that cannot be written to.

    >>> disk_advice(OSError(errno.EROFS, "Read-only file system"))
    'Use a directory that can be written to.'
    """
    if error.errno == errno.EROFS:
        return "Use a directory that can be written to."
    return "Free some disk space or fix the permissions."


def as_sentence(reason: str) -> str:
    """Return a reason as a sentence: with a capital letter, unless it begins with a name, and a full stop.

    >>> as_sentence("the box is empty"), as_sentence("fares.pdf is empty.")
    ('The box is empty.', 'fares.pdf is empty.')
    """
    word = reason.split(maxsplit=1)[0] if reason.strip() else ""
    is_word = word.rstrip(",:;.").isalpha() and word.islower()
    return f"{reason[:1].upper() if is_word else reason[:1]}{reason[1:].rstrip('.')}."
