"""Criteo days to arrays with DuckDB, Polars or pyarrow: labels, ln(x + 3), ids by first sight.

    python benchmarks/criteo/column_peers.py WAY IN OUT

The arrays are those of `ingot criteo preprocess --no-shuffle`, bit for bit, on days without odd
lines whose values all have eight digits, as `generate.py` writes them. Nothing else is written: no
vocabularies, counts, hashes or rejects. Each library reads with all of its threads, each column's
ids are written as soon as they are known, and numpy takes the logarithms: those of the libraries
differ in the last bit.
"""

import sys
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import numpy as np

Array = np.ndarray[Any, Any]
Columns = Iterator[Array]
INTS: Final = [f"int_{at}" for at in range(13)]
KEYS: Final = [f"cat_{at}" for at in range(26)]
NAMES: Final = ["label", *INTS, *KEYS]
KINDS: Final = {"labels": ("<i4", 1), "dense": ("<f4", 13), "sparse": ("<i4", 26)}
NOTHING: Final = "00000000"  # what an empty field stands for
FIRST_ID: Final = 2


def by_pyarrow(days: list[Path]) -> Columns:
    """Read by Arrow's own reader; values are numbered by its dictionaries."""
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.csv as csv

    numbers = dict.fromkeys(NAMES[:14], pa.int32())
    kinds = numbers | dict.fromkeys(KEYS, pa.string())
    table = pa.concat_tables(
        csv.read_csv(
            day,
            read_options=csv.ReadOptions(column_names=NAMES, block_size=16 << 20),
            parse_options=csv.ParseOptions(delimiter="\t", quote_char=False),
            convert_options=csv.ConvertOptions(column_types=kinds, strings_can_be_null=True),
        )
        for day in days
    )
    for name in NAMES[:14]:
        yield pc.fill_null(table[name], 0).to_numpy()
    for name in KEYS:
        column = pc.fill_null(table[name], NOTHING).combine_chunks()
        table = table.drop_columns([name])
        yield column.dictionary_encode().indices.to_numpy() + FIRST_ID


def by_polars(days: list[Path]) -> Columns:
    """Read by Polars; values are numbered by a join with the distinct ones in their order."""
    import polars as pl

    kinds = dict.fromkeys(NAMES[:14], pl.Int32) | dict.fromkeys(KEYS, pl.String)
    table = pl.read_csv(days, separator="\t", has_header=False, quote_char=None, schema=kinds)
    for name in NAMES[:14]:
        yield table[name].fill_null(0).to_numpy()
    for name in KEYS:
        column = table.select(pl.col(name).fill_null(NOTHING))
        distinct = column.unique(maintain_order=True).with_row_index("id", FIRST_ID)
        joined = column.join(distinct, on=name, how="left", maintain_order="left")
        yield joined["id"].to_numpy()


def by_duckdb(days: list[Path]) -> Columns:
    """Read by DuckDB; values are numbered by the least row that has each."""
    import duckdb

    kinds = dict.fromkeys(NAMES[:14], "INTEGER") | dict.fromkeys(KEYS, "VARCHAR")
    base = duckdb.connect()
    files = [str(day) for day in days]
    how = f"delim='\t', header=false, quote='', escape='', columns={kinds}, auto_detect=false"
    base.execute(f"CREATE TABLE days AS FROM read_csv({files}, {how})")
    ints = ", ".join(f"ifnull({name}, 0) AS {name}" for name in NAMES[:14])
    found = base.execute(f"SELECT {ints} FROM days ORDER BY rowid").fetchnumpy()
    yield from (found.pop(name) for name in NAMES[:14])
    for name in KEYS:
        base.execute(
            f"CREATE OR REPLACE TABLE ids AS SELECT {name} AS value,"
            f" (row_number() OVER (ORDER BY min(rowid)) + {FIRST_ID - 1})::INTEGER AS id"
            f" FROM (SELECT ifnull({name}, '{NOTHING}') AS {name}, rowid FROM days) GROUP BY 1"
        )
        yield base.execute(
            f"SELECT id FROM days JOIN ids ON ifnull(days.{name}, '{NOTHING}') = ids.value"
            " ORDER BY days.rowid"
        ).fetchnumpy()["id"]


WAYS: Final[dict[str, Callable[[list[Path]], Columns]]] = {
    name: way
    for name, way in (("pyarrow", by_pyarrow), ("polars", by_polars), ("duckdb", by_duckdb))
    if find_spec(name)
}


def write(days: list[Path], columns: Columns, out: Path) -> None:
    """Write the arrays of each day."""
    counts = [sum(block.count(b"\n") for block in _blocks(day)) for day in days]
    ends = np.cumsum(counts)
    arrays = {
        (day.name, kind): np.lib.format.open_memmap(
            out / f"{day.name}_{kind}.npy", "w+", dtype, (rows, width)
        )
        for day, rows in zip(days, counts, strict=True)
        for kind, (dtype, width) in KINDS.items()
    }
    places = [(kind, at) for kind, (_, width) in KINDS.items() for at in range(width)]
    for (kind, at), column in zip(places, columns, strict=True):
        for day, end, rows in zip(days, ends, counts, strict=True):
            values = column[end - rows : end]
            if kind == "dense":
                with np.errstate(divide="ignore", invalid="ignore"):
                    values = np.log(values + np.int32(3), dtype=np.float32)
            arrays[day.name, kind][:, at] = values


def _blocks(day: Path) -> Iterator[bytes]:
    with day.open("rb") as file:
        yield from iter(lambda: file.read(1 << 24), b"")


def main() -> None:
    """Convert a folder."""
    way, folder, out = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
    out.mkdir(parents=True, exist_ok=True)
    days = sorted(folder.iterdir(), key=lambda day: int(day.name.removeprefix("day_")))
    write(days, WAYS[way](days), out)


if __name__ == "__main__":
    main()
