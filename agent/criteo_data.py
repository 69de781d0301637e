"""Criteo logs and arrays made of them: `ingot criteo` reads these, and the answer names it."""

from itertools import islice
from pathlib import PurePosixPath

from ingot.agent.mappers.proposal import Proposal
from ingot.agent.raw_data import head, irrelevant, is_inside, shown, unpack
from ingot.converters.criteo.contract import WIDTHS, array_name
from ingot.converters.criteo.recognizing import HEAD, array_rows, raw_kind
from ingot.converters.errors import SourceError
from ingot.converters.readers import Source
from ingot.converters.readers.faults import reading
from ingot.converters.readers.storage import Place

_MOST_PARTS = 8  # of which arrays are looked at
_RAW = (
    "Preprocess it with: ingot criteo preprocess --input-dir {} --out DIR "
    "(files day_0, day_1, ..., or train.txt)"
)
_OF_LINES = "lines of Criteo: 0 or 1, 13 whole numbers, 26 values of 8 hex digits, tabs between"
_OF_ARRAYS = "arrays of equally many rows: 13 dense values, a label, 26 ids"


def raw_criteo(source: Source) -> Proposal | None:
    """Criteo logs hold nothing to convert, nor do arrays made of them; None for others."""
    return _logs(source) or _arrays(source)


def _logs(source: Source) -> Proposal | None:
    """By the largest table: Kaggle's comes with a readme."""
    tables = [one for one in source.files if one.facts.delimiter == "\t"]
    largest = max(tables, key=lambda one: one.bytes or 0, default=None)
    if largest is None or not _is_log(largest.place):
        return None
    folder, packed = _folder(largest.name), is_inside(largest, source)
    what = unpack(largest, "ingot criteo preprocess") if packed else _RAW.format(folder)
    return irrelevant(f"This is raw Criteo data, clicks and no text. {what}", _OF_LINES)


def _is_log(place: Place) -> bool:
    try:
        return raw_kind(head(place, HEAD)) is not None
    except SourceError:  # what is damaged is told where it is read
        return False


def _folder(name: str) -> str:
    """The folder of a file below the location; the location itself is not told."""
    inside = str(PurePosixPath(name).parent)
    return "FOLDER" if inside == "." else shown(inside)


def _arrays(source: Source) -> Proposal | None:
    places = {entry.name: entry.place for entry in source.listing.entries}
    ends = array_name("", "sparse")
    parts = (name.removesuffix(ends) for name in places if name.endswith(ends))
    part = next((one for one in islice(parts, _MOST_PARTS) if _is_part(one, places)), None)
    if part is None:
        return None
    command = f"Look at it with: ingot criteo inspect {_folder(part)}"
    reason = f"This is preprocessed Criteo data, arrays and no text. {command}"
    return irrelevant(reason, _OF_ARRAYS)


def _is_part(part: str, places: dict[str, Place]) -> bool:
    """Whether a part has its three arrays, equally long."""
    rows = {_rows(places.get(array_name(part, kind)), kind) for kind in WIDTHS}
    return len(rows) == 1 and None not in rows


def _rows(place: Place | None, kind: str) -> int | None:
    if place is None:
        return None
    try:
        with place.open() as stream, reading(str(place)):
            return array_rows(stream, kind)
    except SourceError:  # what cannot be read is none
        return None
