"""Every error that a user can cause, as one tree with a clear sentence in each leaf.

    SCRError
    ├── ConfigError        a setting has a value that cannot work
    ├── SourceError        a file or folder given as a graph cannot be read as one
    ├── GraphError         the graph itself is not consistent (edges, features, labels, splits)
    ├── StoreError         a store, hops or run on disk is missing, truncated or altered
    ├── RunError           a run directory cannot be used as asked
    ├── EngineError        a cluster cannot be reached, or its workers are lost
    └── MemoryBudgetError  the work does not fit the memory it was given

A message says what was found, what was expected and, after ``hint:``, what to do. The command
line prints it without a traceback and exits with code 2.
"""

from __future__ import annotations

from typing import Any

LONGEST_LINE = 1000
"""Characters of a line of a message: a damaged file may have a name or a value of any length."""


def _shortened(text: str) -> str:
    """A text without the middle of lines that nobody would read to their end."""
    if len(text) <= LONGEST_LINE:
        return text
    half = (LONGEST_LINE - 5) // 2
    return "\n".join(
        line if len(line) <= LONGEST_LINE else f"{line[:half]} ... {line[-half:]}"
        for line in text.split("\n")
    )


class SCRError(Exception):
    """Base of all errors that the user can fix."""

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        message = _shortened(message)
        hint = None if hint is None else _shortened(hint)
        self.message = message
        self.hint = hint
        super().__init__(message if hint is None else f"{message}\n\nhint: {hint}")

    def __reduce__(self) -> tuple[Any, ...]:
        # Errors of worker processes come pickled. Python would call the class with the message
        # alone, which classes that take something else refuse.
        return _restored, (type(self), self.args, self.__dict__)


def _restored(
    kind: type[SCRError], arguments: tuple[Any, ...], attributes: dict[str, Any]
) -> SCRError:
    error = kind.__new__(kind, *arguments)
    error.__dict__.update(attributes)
    return error


class InactiveTermWarning(UserWarning):
    """A regularizer was asked for and had no part in the result."""


class ResumeWarning(UserWarning):
    """A run is resumed where its last bits may come out otherwise than where it was begun."""


class ConfigError(SCRError):
    """A setting has a value that cannot work."""

    def __init__(
        self, setting: str, found: object, expected: str, *, hint: str | None = None
    ) -> None:
        self.setting = setting
        super().__init__(f"`{setting}` is {found!r}; expected {expected}", hint=hint)


class ConfigErrors(ConfigError):
    """Several settings are wrong; all of them are named at once."""

    def __init__(self, errors: list[ConfigError]) -> None:
        self.errors = errors
        self.setting = ", ".join(error.setting for error in errors)
        SCRError.__init__(self, "\n".join(str(error) for error in errors))


class PairError(ConfigError):
    """An encoder and a regularizer do not go together."""

    def __init__(self, encoder: str, regularizer: str, *, fitting: str, reason: str) -> None:
        self.encoder, self.regularizer = encoder, regularizer
        self.fitting, self.reason = fitting, reason
        super().__init__("encoder.name", encoder, f"{fitting} with `{regularizer}`, which {reason}")


class SourceError(SCRError):
    """A file or folder given as a graph cannot be read as one."""


class GraphError(SCRError):
    """A graph is not consistent with itself."""


class StoreError(SCRError):
    """An artifact on disk is missing, truncated, altered or of another version."""


class RunError(SCRError):
    """A run directory cannot be used as asked."""


class EngineError(SCRError):
    """A cluster cannot be reached, or workers of it are lost."""


class TrainingError(SCRError):
    """A training cannot go on."""


class MemoryBudgetError(SCRError):
    """The work does not fit the memory that it was given."""
