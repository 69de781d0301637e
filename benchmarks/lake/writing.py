"""Rows to the bytes of files in every format, encoding and packing that data lies around in.

The same rows give the same bytes: no times, no names of people or machines.
"""

import bz2
import csv
import gzip
import io
import json
import lzma
import tarfile
import zipfile
from collections.abc import Mapping, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
import zstandard

Row = dict[str, Any]
_EPOCH: Final = (1980, 1, 1, 0, 0, 0)


def json_lines(rows: Sequence[Any], *, plain: bool = True) -> str:
    """A value per line; a row that is a string already stands for itself, as a broken line."""
    lines = [
        row if isinstance(row, str) else json.dumps(row, ensure_ascii=not plain) for row in rows
    ]
    return "".join(line + "\n" for line in lines)


def json_list(rows: Sequence[Any]) -> str:
    """One list over several lines."""
    return json.dumps(rows, ensure_ascii=False, indent=1) + "\n"


def json_under(rows: Sequence[Any], key: str) -> str:
    """An object with the rows under a key, as exports of programs are."""
    return json.dumps({"version": "1.1", key: rows}, ensure_ascii=False) + "\n"


def json_keyed(rows: Sequence[Any]) -> str:
    """An object of rows under ids."""
    return json.dumps({f"id-{n:05d}": row for n, row in enumerate(rows)}, ensure_ascii=False) + "\n"


def table(rows: Sequence[Row], *, delimiter: str = ",", header: bool = True) -> str:
    """A table with cells quoted where needed; None is an empty cell."""
    told = io.StringIO()
    write = csv.writer(told, delimiter=delimiter, lineterminator="\n")
    if header:
        write.writerow(rows[0])
    write.writerows(["" if cell is None else cell for cell in row.values()] for row in rows)
    return told.getvalue()


def parquet(rows: Sequence[Row], *, group: int = 64) -> bytes:
    """A Parquet file of several row groups."""
    told = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(list(rows)), told, row_group_size=group)
    return told.getvalue()


def arrow(rows: Sequence[Row], *, stream: bool) -> bytes:
    """An Arrow file, or a stream as `save_to_disk` of Hugging Face datasets leaves it."""
    told = io.BytesIO()
    held = pa.Table.from_pylist(list(rows))
    make = pa.ipc.new_stream if stream else pa.ipc.new_file
    with make(told, held.schema) as writer:
        writer.write_table(held)
    return told.getvalue()


def packed(data: bytes, how: str) -> bytes:
    """Data in `gz`, `zst`, `bz2`, `xz`, or as it is for ""."""
    if how == "gz":
        return gzip.compress(data, mtime=0)
    if how == "zst":
        return zstandard.ZstdCompressor().compress(data)
    if how == "bz2":
        return bz2.compress(data)
    return lzma.compress(data) if how == "xz" else data


def zipped(members: Mapping[str, bytes]) -> bytes:
    """A zip archive."""
    told = io.BytesIO()
    with zipfile.ZipFile(told, "w") as archive:
        for name, data in members.items():
            about = zipfile.ZipInfo(name, _EPOCH)
            about.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(about, data)
    return told.getvalue()


def tarred(members: Mapping[str, bytes], how: str = "") -> bytes:
    """A tar archive, packed if need be."""
    told = io.BytesIO()
    with tarfile.open(fileobj=told, mode="w") as archive:
        for name, data in members.items():
            about = tarfile.TarInfo(name)
            about.size = len(data)
            archive.addfile(about, io.BytesIO(data))
    return packed(told.getvalue(), how)
