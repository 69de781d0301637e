"""Names of files as texts of JSON: any bytes that a file system allows come back as they were."""

import os
from pathlib import Path


def text_of(name: str | Path) -> str:
    """A name or path, one character for each of its bytes."""
    return os.fsencode(name).decode("latin-1")


def name_of(text: str) -> str:
    """The name or path that `text_of` made the text of."""
    return os.fsdecode(text.encode("latin-1"))
