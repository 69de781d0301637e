"""How kernels are compiled, and what they say where that cannot be."""

from collections.abc import Callable
from typing import Any, Final, NoReturn

from ingot.converters.errors import ConversionError


def _without_numba(function: Callable[..., Any]) -> Callable[..., Any]:
    """A kernel of an install without numba: there to be imported, not to be called."""

    def missing(*_: object) -> NoReturn:
        problem = "this needs numba, which is not installed"
        raise ConversionError("", problem, "pip install 'ingot[recsys]'")

    missing.__doc__ = function.__doc__
    return missing


def _decorator() -> Any:  # noqa: ANN401 - a decorator of numba's
    try:
        from numba import njit
    except ModuleNotFoundError:
        return _without_numba
    # Compiled at the first call, for some seconds; kept beside the source or in the user's cache.
    return njit(cache=True, nogil=True)


kernel: Final = _decorator()
"""Compiles a function to machine code that runs without the interpreter's lock."""
