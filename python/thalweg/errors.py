"""Exceptions of the engine: one class for each of its error codes, below Error."""

from __future__ import annotations


class Error(Exception):
    """Any error of the engine. `code` is its name, as in JSON and in the batch files."""

    code = "internal"


class InvalidArgumentError(Error, ValueError):
    """A value of the caller's is wrong."""

    code = "invalid_argument"


class NotFoundError(Error, LookupError):
    """A named thing does not exist."""

    code = "not_found"


class FailedPreconditionError(Error, RuntimeError):
    """The right call in the wrong state."""

    code = "failed_precondition"


class OutOfRangeError(Error, ValueError):
    """Beyond a documented limit."""

    code = "out_of_range"


class UnsupportedError(Error, NotImplementedError):
    """Valid, but not something this version does."""

    code = "unsupported"


class ResourceExhaustedError(Error, MemoryError):
    """Memory, cache blocks or slots are used up."""

    code = "resource_exhausted"


class IoError(Error, OSError):
    """The operating system refused."""

    code = "io"


class InternalError(Error, RuntimeError):
    """A defect of the engine."""

    code = "internal"


_CLASSES = {
    cls.code: cls
    for cls in (
        InvalidArgumentError,
        NotFoundError,
        FailedPreconditionError,
        OutOfRangeError,
        UnsupportedError,
        ResourceExhaustedError,
        IoError,
        InternalError,
    )
}


def make(code: str, message: str) -> Error:
    """The exception of a code; called by the compiled module."""
    return _CLASSES.get(code, InternalError)(message)
