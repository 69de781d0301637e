"""How kernels are compiled, and what they say where that cannot be."""

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any, Final, NoReturn

from ingot.converters.errors import ConversionError


def _kernel_stub(function: Callable[..., Any]) -> Callable[..., Any]:
    """A kernel of an install without numba: there to be imported, not to be called."""

    def missing(*_: object) -> NoReturn:
        problem = "this needs numba, which is not installed"
        raise ConversionError("", problem, "pip install 'ingot[recsys]'")

    missing.__doc__ = function.__doc__
    return missing


def _compile_kernel(function: Callable[..., Any]) -> Any:  # noqa: ANN401 - a dispatcher of numba's
    """Machine code at the first call, after some seconds; kept for the next process if possible."""
    from numba import njit

    try:
        return njit(cache=True, nogil=True)(function)
    except RuntimeError:  # neither the package's folder nor the user's cache can be written
        return njit(nogil=True)(function)


kernel: Final[Callable[[Callable[..., Any]], Any]] = (
    _compile_kernel if find_spec("numba") else _kernel_stub
)
"""Compiles a function to machine code that runs without the interpreter's lock."""
