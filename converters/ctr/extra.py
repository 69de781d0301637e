"""What a build needs beyond the core install."""

from importlib.util import find_spec

from ingot.converters.errors import ConversionError


def require_numba() -> None:
    """See that numba is there.

    Raises:
        ConversionError: it is not; names the extra that brings it.
    """
    if find_spec("numba") is None:
        problem = "a build needs numba, which is not installed"
        raise ConversionError("", problem, "pip install 'ingot[recsys]'")
