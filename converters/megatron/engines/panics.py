"""Panics of native libraries, which pass `except Exception`: pyo3 makes them BaseExceptions."""

from collections.abc import Iterator
from contextlib import contextmanager


class PanickedError(Exception):
    """Native code panicked; the object it panicked in may be left unusable."""


@contextmanager
def panics_caught() -> Iterator[None]:
    """Turn a panic of native code into PanickedError; interrupts and exits pass.

    Raises:
        PanickedError: native code panicked.
    """
    try:
        yield
    except BaseException as error:
        # every extension module has a PanicException of its own, none can be imported
        if type(error).__name__ != "PanicException":
            raise
        raise PanickedError(f"panic: {error}") from error
