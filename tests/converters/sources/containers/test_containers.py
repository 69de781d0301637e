"""Avro, Feather V1, MDS, MessagePack, ORC, WebDataset: written by others, damaged, converted."""

import datetime as dt
import io
import json
import math
import shutil
import struct
import zlib
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import fastavro
import msgpack
import pyarrow as pa
import pytest
import zstandard
from pyarrow import orc
from typer.testing import CliRunner

from ingot.cli.app import app
from ingot.converters.errors import SourceError
from ingot.converters.rows import Json
from ingot.converters.sources import SourceSpec, open_source
from ingot.converters.sources.sample import draw_sample
from tests.converters.sources.sound_files import flat_rows, shard_members, tar

MDS = Path(__file__).parents[3] / "golden" / "mds"
ROWS = flat_rows(2000)
FIELDS = [{"name": "id", "type": "long"}, {"name": "text", "type": "string"}]
RECORD = {"type": "record", "name": "Row", "fields": FIELDS}


def avro_bytes(rows: list[Any] = ROWS, schema: Json = RECORD, codec: str = "deflate") -> bytes:
    out = io.BytesIO()
    fastavro.writer(out, fastavro.parse_schema(schema), rows, codec=codec, sync_interval=4000)
    return out.getvalue()


def orc_bytes(table: pa.Table | None = None, **options: Any) -> bytes:
    out = io.BytesIO()
    orc.write_table(pa.Table.from_pylist(ROWS) if table is None else table, out, **options)
    return out.getvalue()


def shard_row(row: dict[str, Any]) -> Json:
    number = row["id"]
    return {
        "__key__": f"{number:06d}",
        "jpg": {"bytes": 18},
        "text.txt": row["text"],
        "cls": number,
        "json": {"a": [number]},
    }


def write(folder: Path, form: str, data: bytes) -> Path:
    path = folder / f"a.{'tar' if form == 'webdataset' else form}"
    path.write_bytes(data)
    return path


def read(path: Path, **spec: Any) -> tuple[list[Json], list[str], SourceError | None]:
    """Return rows, details of bad rows, and the error behind them."""
    values: list[Json] = []
    bad: list[str] = []
    try:
        for batch in open_source(str(path), SourceSpec(**spec)).batches():
            values += batch.values
            bad += [one.detail for one in batch.bad]
    except SourceError as error:
        return values, bad, error
    return values, bad, None


def test_a_named_file_that_is_another(tmp_path: Path) -> None:
    for name in ("a.orc", "a.avro", "a.mds.zstd", "a.msgpack"):
        (tmp_path / name).write_bytes(b"\0\1\2\3" * 99)
        assert "does not begin like" in str(read(tmp_path / name)[2])


# --- ORC


def test_values_of_orc(tmp_path: Path) -> None:
    row = {
        "time": dt.datetime(2024, 2, 29, 1, 2, 3, 4),
        "day": dt.date(1890, 1, 1),
        "price": Decimal("12345678901234567890.12"),
        "data": b"caf\xc3\xa9",
        "list": [{"x": 1.5}, None],
        "map": [("k", 2)],
    }
    kinds = pa.schema(
        [
            ("time", pa.timestamp("ns")),
            ("day", pa.date32()),
            ("price", pa.decimal128(30, 2)),
            ("data", pa.binary()),
            ("list", pa.list_(pa.struct([("x", pa.float64())]))),
            ("map", pa.map_(pa.string(), pa.int64())),
        ]
    )
    table = pa.Table.from_pylist([row, {**row, "data": b"\xff"}], kinds)
    rows, bad, _ = read(write(tmp_path, "orc", orc_bytes(table)))
    times = {"time": "2024-02-29T01:02:03.000004", "day": "1890-01-01"}
    others = {"price": "12345678901234567890.12", "data": "café", "map": {"k": 2}}
    assert rows == [{**times, **others, "list": row["list"]}]
    assert bad == ["binary that is no UTF-8 text"]


def test_stripes_are_batches_and_a_damaged_one_ends_the_file(tmp_path: Path) -> None:
    data = orc_bytes(stripe_size=4_000, batch_size=200, compression="zlib")
    assert orc.ORCFile(io.BytesIO(data)).nstripes > 1
    assert read(write(tmp_path, "orc", data))[0] == ROWS
    middle = len(data) * 2 // 3
    bad = data[:middle] + b"\xff" * 900 + data[middle + 900 :]
    rows, _, error = read(write(tmp_path, "orc", bad))
    assert error is not None
    assert rows == ROWS[: len(rows)]


# --- Avro


@pytest.mark.more
def test_logical_types_unions_and_maps_of_avro(tmp_path: Path) -> None:
    def logical(kind: str, logical_type: str, **more: Json) -> Json:
        return {"type": kind, "logicalType": logical_type, **more}

    fixed = {"type": "fixed", "name": "F", "size": 2}
    cases: list[tuple[Json, Any, Json]] = [
        (logical("bytes", "decimal", precision=25, scale=2), Decimal("-1.50"), -1.5),
        (
            logical("bytes", "decimal", precision=40, scale=20),
            Decimal("1e-20"),
            1e-20,
        ),
        (logical("int", "date"), dt.date(1890, 1, 1), "1890-01-01"),
        (logical("int", "time-millis"), dt.time(1, 2, 3), "01:02:03"),
        (
            logical("long", "timestamp-micros"),
            dt.datetime(2024, 1, 1, 0, 0, 0, 5, dt.UTC),
            "2024-01-01T00:00:00.000005+00:00",
        ),
        (logical("long", "local-timestamp-millis"), dt.datetime(2024, 1, 1), "2024-01-01T00:00:00"),
        (logical("string", "uuid"), UUID(int=5), str(UUID(int=5))),
        (
            logical("fixed", "duration", name="D", size=12),
            b"\1\0\0\0\2\0\0\0\xdc\5\0\0",
            "P1M2DT1.5S",
        ),
        (
            ["null", "long", fixed, {"type": "array", "items": ["null", "F"]}],
            [b"ab", None],
            ["ab", None],
        ),
        ({"type": "map", "values": "double"}, {"a": 0.5, "b": float("nan")}, {"a": 0.5, "b": None}),
        ({"type": "enum", "name": "E", "symbols": ["X", "Y"]}, "Y", "Y"),
    ]
    fields = [{"name": f"c{n}", "type": kind} for n, (kind, _, _) in enumerate(cases)]
    row = {f"c{n}": value for n, (_, value, _) in enumerate(cases)}
    data = avro_bytes([row], {"type": "record", "name": "R", "fields": fields})
    rows, bad, error = read(write(tmp_path, "avro", data))
    assert (rows, bad, error) == (
        [{f"c{n}": told for n, (_, _, told) in enumerate(cases)}],
        [],
        None,
    )


def varint(value: int) -> bytes:
    value, out = (value << 1) ^ (value >> 63), b""
    while value > 0x7F:
        out, value = out + bytes([value & 0x7F | 0x80]), value >> 7
    return out + bytes([value])


def container(kind: Json, blocks: list[tuple[int, bytes]], codec: bytes = b"null") -> bytes:
    """An Avro file by the words of its specification."""
    schema = json.dumps({"type": "record", "name": "R", "fields": [{"name": "x", "type": kind}]})
    meta = (b"avro.schema", schema.encode(), b"avro.codec", codec)
    head = b"Obj\1" + varint(2) + b"".join(varint(len(one)) + one for one in meta) + b"\0"
    sync = b"s" * 16
    parts = [varint(count) + varint(len(data)) + data + sync for count, data in blocks]
    return head + sync + b"".join(parts)


def test_codecs_of_avro(tmp_path: Path) -> None:
    data = varint(3) + b"abc"
    snappy = bytes(pa.Codec("snappy").compress(data)) + zlib.crc32(data).to_bytes(4, "big")
    packed = {b"snappy": snappy, b"zstandard": zstandard.compress(data)}
    for codec, block in packed.items():
        assert read(write(tmp_path, "avro", container("string", [(1, block)], codec)))[0] == [
            {"x": "abc"}
        ]
    for name in ("null", "bzip2", "xz"):
        assert read(write(tmp_path, "avro", avro_bytes(codec=name)))[0] == ROWS
    assert "lz4" in str(read(write(tmp_path, "avro", container("string", [], b"lz4")))[2])
    wrong = snappy[:-1] + b"\0"
    error = read(write(tmp_path, "avro", container("string", [(1, wrong)], b"snappy")))[2]
    assert "checksum" in str(error)


BIG = 1 << 50
NESTED: Json = {"type": "record", "name": "L0", "fields": [{"name": "a", "type": "null"}]}
for depth in range(1, 30):
    halves = [{"name": "a", "type": NESTED}, {"name": "b", "type": f"L{depth - 1}"}]
    NESTED = {"type": "record", "name": f"L{depth}", "fields": halves}


@pytest.mark.more
@pytest.mark.parametrize(
    ("kind", "count", "data", "said"),
    [
        ("string", 1, varint(BIG) + b"abc", "cannot decode row 0"),
        ("string", 1, varint(-3) + b"abc", "cannot decode row 0"),
        ("string", BIG, b"\0", "would have 1,125,899,906,842,624 rows"),
        ("null", BIG, b"", "would have 1,125,899,906,842,624 rows"),
        ("int", 1, b"\2\2", "1 bytes behind the 1 rows"),
        ({"type": "array", "items": "int"}, 1, varint(BIG) + b"\2", "cannot decode row 0"),
        ({"type": "array", "items": "null"}, 1, varint(BIG) + b"\0", "which is not read"),
        (NESTED, 1, b"", "makes too much"),
        (["null", "R"], 1, b"\2" * 100_000 + b"\0", "recursion"),
        ("bytes", 1, bytes(300), "more than 256 MiB"),  # of MiB, packed
    ],
)
def test_lying_lengths_of_avro(
    tmp_path: Path, kind: Json, count: int, data: bytes, said: str
) -> None:
    codec = b"deflate" if kind == "bytes" else b"null"
    if kind == "bytes":
        data = zlib.compress(bytes(len(data) << 20), 1)[2:-4]
    rows, _, error = read(write(tmp_path, "avro", container(kind, [(count, data)], codec)))
    assert len(rows) == (kind == "int")
    assert said in str(error)


def test_damage_of_avro_ends_the_file_after_the_rows_before(tmp_path: Path) -> None:
    blocks = [(2, varint(1) + b"a" + varint(1) + b"\xff"), (1, varint(1) + b"c")]
    data = container("string", blocks)
    rows, bad, error = read(write(tmp_path, "avro", data[:-1] + b"x"))
    assert (rows, bad) == ([{"x": "a"}], ["text that is not valid UTF-8"])
    assert "no sync marker behind block 1" in str(error)
    assert read(write(tmp_path, "avro", data[: len(data) // 3]))[2] is not None


def test_an_avro_schema_may_spell_its_types_with_escapes(tmp_path: Path) -> None:
    for kind, data in (("double", struct.pack("<d", math.inf)), ("bytes", varint(1) + b"a")):
        made = container(kind, [(1, data)])
        spelled = f'"\\u{ord(kind[0]):04x}{kind[1:]}"'.encode()
        plain, header = f'"{kind}"'.encode(), made.index(b"avro.schema") + len("avro.schema")
        schema = made[made.index(b'{"type') : made.index(b"avro.codec") - 1]
        other = schema.replace(plain, spelled)
        made = made[:header] + varint(len(other)) + other + made[made.index(b"avro.codec") - 1 :]
        assert read(write(tmp_path, "avro", made))[0] == [{"x": None if kind == "double" else "a"}]


def test_recursive_rows_of_avro(tmp_path: Path) -> None:
    data = container(["null", "R"], [(2, b"\2\2\0" + b"\2" * 150 + b"\0")])
    rows, _, error = read(write(tmp_path, "avro", data))
    assert rows[0] == {"x": {"x": {"x": None}}}
    assert len(rows) == 2
    assert error is None


# --- MessagePack


def test_values_of_msgpack(tmp_path: Path) -> None:
    values: list[Any] = [
        {"a": b"caf\xc3\xa9", "b": msgpack.Timestamp(1, 5), "c": 2**64 - 1},
        {1: 2, False: 3, None: 4, b"k": 5},
        {"n": [float("inf"), 0.5]},
        b"\xff",
        {1: 2, "1": 3},
        {1.5: 2},
        msgpack.ExtType(4, b"x"),
    ]
    deep = b"\x91" * 300 + b"\1"
    data = b"".join(map(msgpack.packb, values)) + b"\xa1\xff" + deep + msgpack.packb({"z": 1})
    path = write(tmp_path, "msgpack", data)
    rows, bad, error = read(path)
    time = "1970-01-01T00:00:01.000000005+00:00"
    assert rows == [
        {"a": "café", "b": time, "c": 2**64 - 1},
        {"1": 2, "false": 3, "null": 4, "k": 5},
        {"n": [None, 0.5]},
        {"z": 1},
    ]
    assert len(bad) == 6
    assert error is None
    (batch,) = open_source(str(path)).batches()
    assert batch.non_finite == [(2, 1)]
    assert [one.row for one in batch.bad] == [3, 4, 5, 6, 7, 8]


def test_one_list_of_maps_is_a_list_of_rows(tmp_path: Path) -> None:
    data = msgpack.packb(ROWS)
    assert read(write(tmp_path, "msgpack", data)) == (ROWS, [], None)
    assert "comes more" in str(read(write(tmp_path, "msgpack", data + b"\1"))[2])
    several = msgpack.packb(ROWS[:2]) * 2
    assert read(write(tmp_path, "msgpack", several))[0] == [ROWS[:2]] * 2


def test_msgpack_needs_its_name_or_to_be_stated(tmp_path: Path) -> None:
    path = tmp_path / "a.bin"
    path.write_bytes(msgpack.packb({"a": 1}) + msgpack.packb("x"))
    assert open_source(str(path)).files[0].facts.format == "text"
    assert read(path, format="msgpack")[0] == [{"a": 1}, "x"]
    (tmp_path / "b.msgpack").write_text("one line\nand another\n")
    assert read(tmp_path / "b.msgpack")[0] == [{"text": "one line"}, {"text": "and another"}]


@pytest.mark.parametrize(
    "tail", [b"\xdd\xff\xff\xff\xff", b"\xc6\xff\xff\xff\xff", b"\x91" * 2000, b"\xc1"]
)
def test_lying_lengths_of_msgpack(tmp_path: Path, tail: bytes) -> None:
    rows, _, error = read(write(tmp_path, "msgpack", msgpack.packb({"a": 1}) + tail))
    assert rows == [{"a": 1}]
    assert error is not None


# --- WebDataset


def test_a_tar_of_data_files_stays_what_it_is(tmp_path: Path) -> None:
    lines = json.dumps({"id": 1, "text": "x"}).encode() + b"\n"
    for names in (
        ("a.jsonl", "b.jsonl"),
        ("train.en.jsonl", "train.de.jsonl", "test.en.jsonl", "test.de.jsonl"),
        ("train.json", "train.txt", "test.json", "test.txt"),
        ("a.en", "a.de", "b.en", "b.de"),
        ("a.json", "b.json", "c.json"),
    ):
        (tmp_path / "a.tar").write_bytes(tar([(name, lines) for name in names]))
        assert open_source(str(tmp_path / "a.tar")).files[0].facts.format != "webdataset", names
    (tmp_path / "a.tar").write_bytes(tar([("a.json", b"1"), ("b.json", b"2")]))
    rows = [{"__key__": "a", "json": 1}, {"__key__": "b", "json": 2}]
    assert read(tmp_path / "a.tar", format="webdataset")[0] == rows


def test_bad_parts_are_bad_rows(tmp_path: Path) -> None:
    members = [
        *shard_members(ROWS[:9]),
        *[("x.json", b"{"), ("x.txt", b"a"), ("y.cls", b"one"), ("z.txt", b"\xff")],
        *[
            ("w.txt", b"a"),
            ("w.txt", b"b"),
            ("v.note", b"\0\xff"),
            ("v.lang", b"en"),
            ("README", b""),
        ],
    ]
    rows, bad, error = read(write(tmp_path, "webdataset", tar(members)))
    assert rows == [
        *map(shard_row, ROWS[:9]),
        {"__key__": "v", "note": {"bytes": 2}, "lang": "en"},
    ]
    assert [one.partition(":")[0] for one in bad] == [
        "part json",
        "part cls",
        "part txt",
        "two parts txt",
    ]
    assert error is None


@pytest.mark.more
def test_shards_are_one_data_set_and_packed_ones_are_read_once(tmp_path: Path) -> None:
    for number, mode in enumerate(("w", "w:gz")):
        name = f"s-{number:05d}.tar{'.gz' * number}"
        part = ROWS[number * 500 : number * 500 + 500]
        (tmp_path / name).write_bytes(tar(shard_members(part), mode))
    assert read(tmp_path) == (list(map(shard_row, ROWS[:1000])), [], None)


@pytest.mark.parametrize(
    ("place", "said"), [(512 * 80, "no header"), (-10240, "end mark"), (300, "cannot read it")]
)
def test_a_damaged_tar_never_ends_silently(tmp_path: Path, place: int, said: str) -> None:
    data = tar(shard_members(ROWS[:50]))
    size = len(data.rstrip(b"\0")) // 512 * 512 + 512
    bad = data[:size] if place < 0 else data[:place] + b"\xff" * 40 + data[place + 40 :]
    assert said in str(read(write(tmp_path, "webdataset", bad), format="webdataset")[2])


# --- MDS


def mds_rows() -> Iterator[Json]:
    for n in range(20):
        yield {
            "big": 10**30,
            "id": n - 5,
            "j": {"a": [n, None]},
            "pair": {"encoding": "ndarray", "bytes": 8},
            "price": 1.5,
            "raw": "ok",
            "score": n / 4,
            "sf": 0.1,
            "small": 0.5,
            "text": f"text {n} é",
            "toks": {"encoding": "ndarray", "bytes": 3 + 8 * (n + 1)},
            "u": 4_000_000_000,
        }


@pytest.fixture(params=["plain", "zstd"])
def mds(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """Shards that mosaicml-streaming 0.13.0 has written."""
    shutil.copytree(MDS / request.param, folder := tmp_path / "mds")
    return folder


def test_shards_of_mds(mds: Path) -> None:
    source = open_source(str(mds))
    assert len(source.files) > 1
    assert draw_sample(source).total_rows == 20
    assert read(mds) == (list(mds_rows()), [], None)
    assert [one.name for one in source.left_out] == ["index.json"]
    first = sorted(mds.glob("shard*"))[0]
    assert read(first)[0] == list(mds_rows())[: len(read(first)[0])]
    (mds.parent / "m.json").write_text('{"version": 2, "text": "text"}')
    out = str(mds.parent / "out")
    ran = CliRunner().invoke(app, ["convert", str(mds.parent / "m.json"), str(mds), "--out", out])
    assert ran.exit_code == 0, ran.output


def test_shards_that_the_index_does_not_name_are_left_out(mds: Path) -> None:
    first, *_ = sorted(mds.glob("shard*"))
    (mds / f"old.{first.name}").write_bytes(first.read_bytes())
    assert read(mds)[0] == list(mds_rows())
    assert "does not name" in open_source(str(mds)).left_out[1].why
    first.unlink()
    assert "is gone" in str(read(mds)[2])
    (mds.parent / "rows.jsonl").write_text('{"a": "Some text."}\n')
    above = open_source(str(mds.parent))
    assert [file.name for file in above.files] == ["rows.jsonl"]
    assert "is gone" in {one.name: one.why for one in above.left_out}["mds/index.json"]


def test_damaged_shards_of_mds(tmp_path: Path) -> None:
    shutil.copytree(MDS / "plain", folder := tmp_path / "mds")
    first, last = sorted(folder.glob("shard*"))[0], sorted(folder.glob("shard*"))[-1]
    data = last.read_bytes()
    last.write_bytes(data.replace(b"text 19", b"text 18"))
    rows, _, error = read(folder)
    assert len(rows) == 20
    assert "sha1" in str(error)
    assert read(last)[2] is None  # without its index
    last.write_bytes(data[:-1])
    assert "bytes and not" in str(read(folder)[2])
    assert "cut off" in str(read(last)[2])
    first.write_bytes(b"\xff\xff\xff\xff" + first.read_bytes()[4:])
    assert "does not begin like" in str(read(first)[2])
    last.write_bytes(data[:-300] + data[-300:].replace(b"ok", b"\xff\xff"))
    assert read(last)[1] == ["column raw: cannot be read"]
