"""JSON documents of files that somebody else may have written."""

import json
from pathlib import Path
from typing import Final

from ingot.converters.rows import Json

_LARGEST: Final = 64 << 20


def load_json(path: Path) -> dict[str, Json]:
    """A JSON object of a file.

    Raises:
        FileNotFoundError: there is no such file.
        OSError: it cannot be read.
        ValueError: it holds no JSON object, or is larger than 64 MiB.
    """
    if path.stat().st_size > _LARGEST:
        raise ValueError("larger than 64 MiB")
    try:
        document = json.loads(path.read_bytes())
    except RecursionError as error:
        raise ValueError("nested too deep") from error
    if not isinstance(document, dict):
        raise ValueError("no JSON object")
    return document
