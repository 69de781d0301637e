"""Rejects for people, the same from memory and from the files that list them."""

import json
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

from ingot.converters.records import reject_document
from ingot.converters.rows import Json, Reject

_FOUND_CHARS = 100


def reject_text(reject: Reject) -> str:
    """A reject for people: place, reason, path, what was found."""
    return _text(reject_document(reject))


def first_texts(files: Iterable[Path], most: int) -> list[str]:
    """The first rejects of some parts, in order, as `reject_text` says them; not the filtered ones.

    Raises:
        OSError: a file cannot be read.
        ValueError: one holds no rejects.
    """
    rejects = (one for one in _documents(files) if one["reason"] != "filtered")
    return [_text(one) for one in islice(rejects, most)]


def _documents(files: Iterable[Path]) -> Iterator[dict[str, Json]]:
    for file in files:
        with file.open("rb") as stream:
            yield from map(json.loads, stream)


def _text(reject: dict[str, Json]) -> str:
    element = "" if reject["element"] is None else f", element {reject['element']}"
    path = f" at {reject['path']}" if reject["path"] else ""
    found = f": {reject['found'][:_FOUND_CHARS]}" if reject["found"] else ""
    return f"{reject['file']} row {reject['row']}{element}: {reject['reason']}{path}{found}"
