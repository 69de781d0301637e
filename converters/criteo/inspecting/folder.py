"""A folder in figures, from whatever it holds."""

from pathlib import Path

from ingot.converters.criteo.inspecting.counting import counted
from ingot.converters.criteo.inspecting.figures import Figures
from ingot.converters.criteo.inspecting.stored import is_stored, stored


def inspect(root: Path, top: int = 10) -> Figures:
    """The figures of preprocessed Criteo data.

    Those of stats.json and of the vocabularies; where these are not there, the arrays are counted.

    Args:
        root: what `ingot criteo preprocess` wrote, or a folder of arrays of the same names.
        top: so many of the most frequent ids of each sparse column.

    Raises:
        SourceError: it is neither, or a file of it cannot be read.
    """
    return stored(root, top) if is_stored(root) else counted(root, top)
