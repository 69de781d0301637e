"""Some of the user's own text: what the engines are raced on, and how much there is in all."""

from collections.abc import Iterator, Sequence
from typing import Final

import pyarrow as pa

from ingot.converters.errors import SourceError
from ingot.converters.megatron.preparing import Preparer
from ingot.converters.megatron.reading import read_rows
from ingot.converters.megatron.recipe import Recipe
from ingot.converters.megatron.units import InputFile, Unit

SAMPLE_BYTES: Final = 2 << 20
_UNITS: Final = 4
_ROWS: Final = 1_000  # that are read at a time
_PACKED: Final = 3  # bytes of text in a byte of Parquet, roughly


def text_bytes(files: Sequence[InputFile], units: Sequence[Unit]) -> int:
    """About how much text is in some units, in bytes."""
    return sum(
        unit.bytes * (1 if files[unit.file].path.suffix == ".jsonl" else _PACKED) for unit in units
    )


def sample(
    files: Sequence[InputFile], units: Sequence[Unit], recipe: Recipe
) -> pa.LargeStringArray:
    """Texts from the beginning of a few units that lie apart, about `SAMPLE_BYTES`."""
    texts: list[pa.LargeStringArray] = []
    preparer = recipe.preparer()
    some = units[:: max(1, len(units) // _UNITS)][:_UNITS]
    for unit in some:
        room = SAMPLE_BYTES // len(some)
        for own in _first_texts(files[unit.file], unit, preparer):
            texts.append(own)
            room -= own.nbytes
            if room <= 0:
                break
    return pa.concat_arrays(texts) if texts else pa.array([], pa.large_string())


def _first_texts(file: InputFile, unit: Unit, preparer: Preparer) -> Iterator[pa.LargeStringArray]:
    rows = read_rows(file, unit, preparer.layout, batch_size=_ROWS)
    try:
        for shard in preparer.prepare(file.name, rows):
            if len(shard.texts):
                yield shard.texts
    except SourceError:
        return  # it will be told when it is its turn
