"""Small sound inputs: a file for every format that ingot reads rows from."""

import bz2
import gzip
import io
import json
import lzma
import tarfile
import zipfile
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import zstandard

COUNT = 25


def sentence(number: int) -> str:
    return f"The river runs past mill number {number} and nobody has counted the boats there."


ROWS: list[dict[str, Any]] = [
    {
        "id": number,
        "question": f"What is {number}?",
        "answer": sentence(number),
        "tags": ["a", "b"][: number % 3],
        "meta": {"n": number * 1.5, "ok": number % 2 == 0, "none": None},
        "sign": "ü漢😀",
    }
    for number in range(COUNT)
]


def lines(rows: list[Any]) -> bytes:
    """Rows as JSON lines."""
    texts = (json.dumps(row, ensure_ascii=number % 2 == 0) for number, row in enumerate(rows))
    return "".join(f"{text}\n" for text in texts).encode()


def _csv() -> bytes:
    rows = (f'{n},"What, is ""{n}""?","{sentence(n)}\nand more"\r\n' for n in range(COUNT))
    return ("id,question,answer\r\n" + "".join(rows)).encode()


def _tsv() -> bytes:
    rows = (f"{n}\tWhat {n}?\tIt is {n} and so on.\n" for n in range(COUNT))
    return ("id\tquestion\tanswer\n" + "".join(rows)).encode()


def _parquet(**options: Any) -> bytes:
    out = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(ROWS), out, **options)
    return out.getvalue()


def _typed_parquet() -> bytes:
    """Encodings and types beside those of plain rows."""
    table = pa.table(
        {
            "answer": pa.array([sentence(n) for n in range(COUNT)], pa.large_string()),
            "n": pa.array(range(COUNT), pa.int64()),
            "time": pa.array(range(COUNT), pa.timestamp("us", "UTC")),
            "price": pa.array(range(COUNT), pa.decimal128(12, 2)),
            "raw": pa.array([b"raw%d" % n for n in range(COUNT)], pa.binary()),
            "share": pa.array([n / 7 for n in range(COUNT)], pa.float32()),
            "pairs": pa.array([[("k", n)] for n in range(COUNT)], pa.map_(pa.string(), pa.int32())),
        }
    )
    out = io.BytesIO()
    encodings = {
        "answer": "DELTA_LENGTH_BYTE_ARRAY",
        "n": "DELTA_BINARY_PACKED",
        "raw": "DELTA_BYTE_ARRAY",
        "share": "BYTE_STREAM_SPLIT",
    }
    options = {"use_dictionary": False, "column_encoding": encodings, "row_group_size": 9}
    pq.write_table(table, out, compression="gzip", write_page_index=True, **options)
    return out.getvalue()


def _arrow(*, stream: bool) -> bytes:
    table, out = pa.Table.from_pylist(ROWS), io.BytesIO()
    with (pa.ipc.new_stream if stream else pa.ipc.new_file)(out, table.schema) as writer:
        writer.write_table(table, max_chunksize=9)
    return out.getvalue()


def _in_pieces(pack: Callable[[bytes], bytes]) -> bytes:
    """Rows in several streams, one behind another."""
    return b"".join(pack(lines(ROWS[start : start + 9])) for start in range(0, COUNT, 9))


def _zip(members: dict[str, bytes], how: int = zipfile.ZIP_DEFLATED) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", how) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return out.getvalue()


def tar(members: dict[str, bytes], mode: Any) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode=mode) as archive:
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return out.getvalue()


def _two_members() -> dict[str, bytes]:
    return {"a.jsonl": lines(ROWS), "d/b.jsonl": lines(ROWS[:9])}


def _transcript() -> bytes:
    talks = (f"User: {sentence(n)}\nAssistant: {sentence(n + 1)}" for n in range(COUNT))
    return "\n\n".join(talks).encode()


# name -> the file's name and how it is made
FILES: dict[str, tuple[str, Callable[[], bytes]]] = {
    "jsonl": ("s.jsonl", lambda: lines(ROWS)),
    "json_list": ("s.json", lambda: json.dumps(ROWS).encode()),
    "json_pretty": ("s.json", lambda: json.dumps(ROWS, indent=1).encode()),
    "json_object": ("s.json", lambda: json.dumps({"info": {"v": 1}, "data": ROWS}).encode()),
    "json_keyed": ("s.json", lambda: json.dumps({f"k{r['id']}": r for r in ROWS}).encode()),
    "csv": ("s.csv", _csv),
    "tsv": ("s.tsv", _tsv),
    "txt": ("s.txt", lambda: "\n\n".join(sentence(n) * 3 for n in range(COUNT)).encode()),
    "transcript": ("s.txt", _transcript),
    "utf16": ("s.csv", lambda: _csv().decode().encode("utf-16")),
    "gb18030": ("s.txt", lambda: ("今天天气很好，我们去河边散步。\n" * 40).encode("gb18030")),
    "parquet": ("s.parquet", _parquet),
    "parquet_plain": (
        "s.parquet",
        lambda: _parquet(compression="none", use_dictionary=False),
    ),
    "parquet_v2": (
        "s.parquet",
        lambda: _parquet(compression="zstd", data_page_version="2.0", row_group_size=7),
    ),
    "parquet_types": ("s.parquet", _typed_parquet),
    "arrow_file": ("s.arrow", lambda: _arrow(stream=False)),
    "arrow_stream": ("s.arrow", lambda: _arrow(stream=True)),
    "gz": ("s.jsonl.gz", lambda: gzip.compress(lines(ROWS), mtime=0)),
    "bz2": ("s.jsonl.bz2", lambda: bz2.compress(lines(ROWS))),
    "xz": ("s.jsonl.xz", lambda: lzma.compress(lines(ROWS))),
    "zst": ("s.jsonl.zst", lambda: zstandard.ZstdCompressor().compress(lines(ROWS))),
    "zip": ("s.zip", lambda: _zip(_two_members())),
    "tar": ("s.tar", lambda: tar(_two_members(), "w")),
    "tgz": ("s.tar.gz", lambda: tar(_two_members(), "w:gz")),
    "tar_bz2": ("s.tar.bz2", lambda: tar(_two_members(), "w:bz2")),
    "zip_stored": ("s.zip", lambda: _zip(_two_members(), zipfile.ZIP_STORED)),
    "gz_members": ("s.jsonl.gz", lambda: _in_pieces(lambda data: gzip.compress(data, mtime=0))),
    "zst_frames": ("s.jsonl.zst", lambda: _in_pieces(zstandard.ZstdCompressor().compress)),
    "xz_streams": ("s.jsonl.xz", lambda: _in_pieces(lzma.compress)),
    "nested": (
        "s.zip",
        lambda: _zip(
            {"a.jsonl.gz": gzip.compress(lines(ROWS)), "b.jsonl.xz": lzma.compress(lines(ROWS))}
        ),
    ),
}
