"""A mapping as it is told to a model that may see no values: those of the data are numbered."""

from ingot.converters.rows import Json

_TABLES = ("map", "split", "replace")  # their keys are values of the data


def without_values(value: Json) -> Json:
    """The same mapping with names of speakers, markers and values of conditions withheld."""
    if isinstance(value, list):
        return [without_values(one) for one in value]
    if not isinstance(value, dict):
        return value
    return {key: _withheld(key, one) for key, one in value.items()}


def _withheld(key: str, value: Json) -> Json:
    if key in _TABLES and isinstance(value, dict):
        return {f"<value {n}>": one for n, one in enumerate(value.values(), start=1)}
    if key in ("in", "not_in") and isinstance(value, list):
        return [f"<value {n}>" for n, _ in enumerate(value, start=1)]
    return without_values(value)
