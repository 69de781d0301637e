"""Compressed streams: read by the real libraries, and what others wrote read here."""

import gzip
import io
import random
import struct
import zlib
from collections.abc import Callable
from typing import Any, BinaryIO

import pyarrow as pa
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from ingot.converters.errors import ConversionError, SourceError
from ingot.converters.recsys.monolith.frames.compression import (
    compression_by_content,
    compression_by_name,
    new_compressor,
    open_decompressed,
)
from ingot.converters.recsys.monolith.frames.framing import COMPRESSIONS

NOISE = random.Random(3).randbytes(300_000)
TEXT = b"the same words again and again " * 30_000 + NOISE


def packed(data: bytes, compression: str, step: int = 100_000) -> bytes:
    packing = new_compressor(compression)
    parts = [packing.compress(data[at : at + step]) for at in range(0, len(data), step)]
    return b"".join([*parts, packing.flush()])


def unpacked(data: bytes, compression: str | None, where: str = "it", size: int = 1 << 20) -> bytes:
    stream = open_decompressed(io.BytesIO(data), where, compression)
    return b"".join(iter(lambda: stream.read(size), b""))


def hadoop(data: bytes) -> list[tuple[int, list[bytes]]]:
    """The blocks of Hadoop's snappy: the length each gives, and its chunks."""
    blocks = []
    at = 0
    codec = pa.Codec("snappy")
    while at < len(data):
        (length,) = struct.unpack_from(">I", data, at)
        at += 4
        chunks: list[bytes] = []
        while sum(map(len, chunks)) < length:
            (size,) = struct.unpack_from(">I", data, at)
            raw = data[at + 4 : at + 4 + size]
            at += 4 + size
            whole = next(
                sum((byte & 127) << 7 * place for place, byte in enumerate(raw[:end]))
                for end in range(1, 6)
                if raw[end - 1] < 128
            )
            chunks.append(codec.decompress(raw, decompressed_size=whole, asbytes=True))
        blocks.append((length, chunks))
    return blocks


def chunk(data: bytes) -> bytes:
    raw: bytes = pa.Codec("snappy").compress(data, asbytes=True)
    return len(raw).to_bytes(4) + raw


def test_the_libraries_read_what_is_written() -> None:
    assert packed(TEXT, "none") == TEXT
    assert gzip.decompress(packed(TEXT, "gzip")) == TEXT
    assert zlib.decompress(packed(TEXT, "zlib")) == TEXT
    reader = zstandard.ZstdDecompressor().stream_reader(io.BytesIO(packed(TEXT, "zstd")))
    assert reader.read() == TEXT
    blocks = hadoop(packed(TEXT, "snappy"))
    assert b"".join(chunk for _, chunks in blocks for chunk in chunks) == TEXT
    assert all(length == len(one) <= 256 << 10 for length, (one,) in blocks)
    assert packed(b"", "snappy") == b""


def test_chunks_fit_the_buffers_of_hadoop_where_nothing_is_saved() -> None:
    data = packed(NOISE * 2, "snappy")
    (size,) = struct.unpack_from(">I", data, 4)
    assert 200 << 10 < size <= 256 << 10


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_equal_bytes_give_equal_bytes(compression: str) -> None:
    """Whatever pieces they come in, and at any time of day."""
    assert packed(TEXT, compression, 777) == packed(TEXT, compression, 500_000)


@given(
    data=st.binary(max_size=2_000),
    compression=st.sampled_from(COMPRESSIONS),
    step=st.integers(1, 500),
    size=st.integers(1, 500),
)
def test_what_is_packed_is_unpacked(data: bytes, compression: str, step: int, size: int) -> None:
    assert unpacked(packed(data, compression, step), compression, size=size) == data


@pytest.mark.parametrize("compression", ["gzip", "zlib", "zstd", "snappy"])
def test_members_in_a_row(compression: str, drops: Callable[..., Any]) -> None:
    data = packed(b"one", compression) + packed(TEXT, compression) + packed(b"two", compression)
    assert unpacked(data, compression) == b"one" + TEXT + b"two"
    stream = open_decompressed(drops(data, 1_000), "it", compression)
    assert b"".join(iter(lambda: stream.read(10_000), b"")) == b"one" + TEXT + b"two"


def test_blocks_of_several_chunks_and_of_none() -> None:
    data = (8).to_bytes(4) + chunk(b"three") + chunk(b"two") + bytes(4) + (1).to_bytes(4)
    assert unpacked(data + chunk(b"a"), "snappy") == b"threetwoa"
    assert unpacked(bytes(4), "snappy") == b""


def drained(stream: BinaryIO) -> tuple[bytes, str]:
    """What a stream gives, and the error at its end."""
    given = bytearray()
    try:
        while data := stream.read(1 << 20):
            given += data
    except SourceError as error:
        return bytes(given), str(error)
    return bytes(given), ""


@pytest.mark.parametrize(
    ("compression", "held"),
    [("gzip", 1_000), ("zlib", 1_000), ("zstd", 140_000), ("snappy", 220_000)],
)
def test_all_before_a_cut_is_given(compression: str, held: int) -> None:
    """But for the block that it lies in."""
    data = packed(NOISE, compression)
    for cut in (1, 3, 5, 7, 11, len(data) // 2, len(data) - 1):
        stream = open_decompressed(io.BytesIO(data[:cut]), "it", compression)
        given, error = drained(stream)
        assert error.startswith(f"it: cut off: the {compression} data ends after {len(given)} ")
        assert NOISE.startswith(given)
        assert len(given) > cut - held


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (((64 << 20) + 1).to_bytes(4), "a block of 67108865 bytes is over 67108864"),
        (b"\xff\xff\xff\xff", "a block of 4294967295 bytes is over"),
        ((1).to_bytes(4) + b"\xff\xff\xff\xff", "a chunk of 4294967295 bytes is over"),
        ((3).to_bytes(4) + chunk(b"four"), "a chunk says it holds 4 bytes, more than it can"),
        (
            (64 << 20).to_bytes(4) + (5).to_bytes(4) + b"\x80\x80\x80\x20\0",
            "a chunk says it holds 67108864 bytes, more than it can",
        ),
        ((9).to_bytes(4) + (2).to_bytes(4) + b"\xff\xff", "a chunk has no length"),
        ((9).to_bytes(4) + (5).to_bytes(4) + b"\x09\xff\xff\xff\xff", "decompress"),
        ((9).to_bytes(4) + (0).to_bytes(4), "a chunk has no length"),
    ],
)
def test_snappy_that_lies(data: bytes, problem: str) -> None:
    with pytest.raises(SourceError, match=problem):
        unpacked(data, "snappy")


def test_the_limit_of_snappy_is_that_of_the_records() -> None:
    data = (100 << 20).to_bytes(4) + chunk(b"a")
    stream = open_decompressed(io.BytesIO(data), "it", "snappy", "examplebatch")
    assert stream.read(10) == b"a"


@pytest.mark.more
def test_a_bomb_is_refused() -> None:
    out = io.BytesIO()
    packing = zstandard.ZstdCompressor().compressobj()
    for _ in range(1_100):
        out.write(packing.compress(bytes(1 << 20)))
    out.write(packing.flush())
    stream = open_decompressed(io.BytesIO(out.getvalue()), "it.zst")
    with pytest.raises(SourceError, match="decompression bomb"):
        for _ in iter(lambda: stream.read(1 << 20), b""):
            pass


@pytest.mark.parametrize("compression", ["gzip", "zlib", "zstd", "snappy"])
def test_noise_is_no_compressed_data(compression: str) -> None:
    for seed in range(50):
        noise = random.Random(seed).randbytes(200)
        with pytest.raises(SourceError, match="it: "):
            unpacked(noise, compression)


@pytest.mark.parametrize(
    ("name", "compression"),
    [
        ("part-0.snappy", "snappy"),
        ("PART.ZST", "zstd"),
        ("a.pb.gz", "gzip"),
        ("a.zz", "zlib"),
        ("a.zlib", "zlib"),
        ("https://host/a.snappy?key=a.gz", "snappy"),
        ("a.pb", None),
        ("snappy", None),
    ],
)
def test_names(name: str, compression: str | None) -> None:
    assert compression_by_name(name) == compression


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_what_a_stream_is_compressed_with_is_told(
    compression: str, drops: Callable[..., Any]
) -> None:
    ends = {"none": ".pb", "snappy": ".snappy", "zstd": ".zst", "gzip": ".gz", "zlib": ".zz"}
    data = packed(TEXT, compression)
    assert unpacked(data, None, f"it{ends[compression]}") == TEXT
    stream = open_decompressed(drops(data, 1), f"it{ends[compression]}")
    assert b"".join(stream.read(1) for _ in range(5)) == TEXT[:5]
    if compression in ("zstd", "gzip"):
        assert unpacked(data, None, "without an ending") == TEXT


def test_a_stream_is_read_from_where_it_stands() -> None:
    raw = io.BytesIO(b"before" + gzip.compress(b"behind"))
    raw.seek(6)
    assert open_decompressed(raw, "it").read(100) == b"behind"


@pytest.mark.parametrize(
    ("name", "data", "hint"),
    [
        (
            "a.gz",
            b"no gzip at all",
            "its name says gzip, its first bytes do not .*set `compression` to none",
        ),
        ("a.gz", zstandard.compress(b"a"), "set `compression` to zstd"),
        (
            "a.snappy",
            gzip.compress(b"a", mtime=0),
            "its name says snappy, .*set `compression` to gzip",
        ),
        ("a.zst", b"\0" * 16, "its name says zstd, .*set `compression` to none"),
    ],
)
def test_names_that_promise_something_else(name: str, data: bytes, hint: str) -> None:
    with pytest.raises(SourceError, match=hint):
        unpacked(data, None, name)
    assert unpacked(b"", None, name) == b""


def test_sizes_that_look_like_gzip() -> None:
    assert compression_by_content(gzip.compress(b"a")) == "gzip"
    assert compression_by_content(gzip.compress(b"a", 1)) == "gzip"
    assert compression_by_content((0x8B1F).to_bytes(8, "little") + b"\x0a\x00") is None
    assert compression_by_content((0x088B1F).to_bytes(8, "little") + b"\x0a\x00") is None


def test_another_compression_is_no_option() -> None:
    with pytest.raises(ConversionError, match=r"'lz4' is unknown .use none, snappy, zstd"):
        open_decompressed(io.BytesIO(b""), "it", "lz4")
    with pytest.raises(ConversionError, match="'' is unknown"):
        new_compressor("")


def test_members_of_gzip_may_have_zeros_behind_them() -> None:
    padded = gzip.compress(b"one") + bytes(100_000) + gzip.compress(b"two") + bytes(3)
    assert unpacked(padded, "gzip") == b"onetwo"
    with pytest.raises(SourceError, match="cannot decompress it"):
        unpacked(gzip.compress(b"one") + b"noise", "gzip")
    with pytest.raises(SourceError, match="cannot decompress it"):
        unpacked(zlib.compress(b"one") + bytes(3), "zlib")
