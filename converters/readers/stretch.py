"""What every format reader gives: stretches of consecutive rows, broken ones among them."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ingot.converters.readers.jsonvalue import JsonTextError, loads
from ingot.converters.rows import BadRow, Batch, Json

BATCH_ROWS = 256
TABLE_ROWS = (
    1024  # of a batch with an Arrow form: whole columns cost little per row, much per batch
)
MAX_ROW_BYTES = 256 << 20  # a larger row is refused: memory stays bounded whatever the file holds
FOUND = 200  # characters of a broken row that are shown


@dataclass(frozen=True, slots=True)
class Broken:
    """Takes the place of a row that cannot be read."""

    detail: str
    found: str
    reason: str = "bad_row"
    path: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Stretch:
    """Consecutive rows of a file: values (or `Broken`), where known their keys and Arrow form.

    `sound` says that no value is `Broken`, so that nobody has to look at each of them.
    """

    values: Sequence[Json]
    keys: Sequence[str] | None = None
    table: Any | None = None
    sound: bool = False


Reader = Callable[[], Iterator[Stretch]]


def found(data: bytes | str) -> str:
    """The start of a broken row, as text that can be shown and stored."""
    if isinstance(data, bytes):
        return data[: FOUND * 4].decode("utf-8", "replace")[:FOUND].strip()
    return data[:FOUND].encode("utf-8", "replace").decode().strip()


def to_batches(
    name: str, stretches: Iterator[Stretch], fields: Sequence[str] = (), rows: int = BATCH_ROWS
) -> Iterator[Batch]:
    """Number the rows of a file from 0 and give them as batches of at most `rows` rows.

    Stretches of a columnar file may have up to TABLE_ROWS, as their reader has cut them.
    `fields` are the paths of strings that hold JSON; they are parsed, and a row whose text does not
    parse becomes a `bad_json` row.
    """
    first = 0
    for stretch in stretches:
        most = rows if stretch.table is None else max(rows, TABLE_ROWS)
        for start in range(0, len(stretch.values), most):
            part = _part(stretch, start, start + most)
            yield _batch(name, first + start, _with_fields(part, fields) if fields else part)
        first += len(stretch.values)


def _part(stretch: Stretch, start: int, stop: int) -> Stretch:
    if start == 0 and stop >= len(stretch.values):
        return stretch
    table = stretch.table
    return Stretch(
        values=stretch.values[start:stop],
        keys=None if stretch.keys is None else stretch.keys[start:stop],
        table=None if table is None else table.slice(start, stop - start),
        sound=stretch.sound,
    )


def _batch(name: str, first: int, part: Stretch) -> Batch:
    values = part.values
    broken = [] if part.sound else [p for p, value in enumerate(values) if type(value) is Broken]
    if not broken:
        rows = range(first, first + len(values))
        return Batch(file=name, rows=rows, values=values, keys=part.keys, table=part.table)
    gone = frozenset(broken)
    kept = [place for place in range(len(values)) if place not in gone]
    return Batch(
        file=name,
        rows=[first + place for place in kept],
        values=[values[place] for place in kept],
        keys=None if part.keys is None else [part.keys[place] for place in kept],
        bad=[bad_row(first + place, values[place]) for place in broken],
        table=None if part.table is None else part.table.take(kept),
    )


def bad_row(row: int, broken: Broken) -> BadRow:
    """The public form of a broken row at its place."""
    return BadRow(
        row=row,
        detail=broken.detail,
        found=broken.found,
        reason=broken.reason,
        path=broken.path,
    )


def _with_fields(part: Stretch, fields: Sequence[str]) -> Stretch:
    """The same rows with the JSON of their text fields parsed; the Arrow form no longer applies."""
    values = [row if type(row) is Broken else parse_fields(row, fields) for row in part.values]
    return Stretch(values=values, keys=part.keys)


def parse_fields(row: Json, fields: Sequence[str]) -> Json:
    """A row with the named text fields replaced by the JSON they hold, or `Broken` (`bad_json`).

    A field is a key, or a dotted way down through objects; missing, null and blank fields stay or
    become null.
    """
    for field in fields:
        row = _parse_field(row, field, field)
        if type(row) is Broken:
            return row
    return row


def _parse_field(value: Json, way: str, field: str) -> Json:
    if not isinstance(value, dict):
        return value
    if way in value:
        parsed = _parse_text(value[way], field)
        return parsed if type(parsed) is Broken else {**value, way: parsed}
    cut = way.find(".")
    while cut >= 0:
        if (head := way[:cut]) in value:
            inner = _parse_field(value[head], way[cut + 1 :], field)
            return inner if type(inner) is Broken else {**value, head: inner}
        cut = way.find(".", cut + 1)
    return value


def _parse_text(value: Json, field: str) -> Json:
    if not isinstance(value, str):
        return value
    if not value.strip():
        return None
    try:
        return loads(value.encode())
    except JsonTextError as error:
        return Broken(str(error), found(value), "bad_json", field)
