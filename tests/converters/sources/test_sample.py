"""Samples: all of a small source, rows from everywhere in a large one, one result per seed."""

import gzip
import json
import struct
from collections.abc import Callable
from itertools import accumulate
from pathlib import Path

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ingot.converters.rows import Json
from ingot.converters.sources import SourceSpec, open_source
from ingot.converters.sources.sample import UNKNOWN_ROW, draw_sample
from ingot.converters.sources.storage.listing import LocalFile

ROWS = 20_000
BUDGET = 256 << 10  # small, so that these files are large beside it


def row(number: int) -> dict[str, Json]:
    return {"n": number, "text": f"words of row {number} " * (1 + number % 5)}


def jsonl(path: Path) -> str:
    path.write_text("".join(json.dumps(row(n)) + "\n" for n in range(ROWS)))
    return str(path)


def json_list(path: Path) -> str:
    path.write_text(json.dumps([row(n) for n in range(ROWS)]))
    return str(path)


def packed(path: Path) -> str:
    lines = "".join(json.dumps(row(n)) + "\n" for n in range(ROWS))
    path.write_bytes(gzip.compress(lines.encode()))
    return str(path)


def tsv(path: Path) -> str:
    path.write_text("n\ttext\n" + "".join(f"{n}\t{row(n)['text']}\n" for n in range(ROWS)))
    return str(path)


def parquet(path: Path) -> str:
    pq.write_table(pa.Table.from_pylist([row(n) for n in range(ROWS)]), path, row_group_size=500)
    return str(path)


def arrow(path: Path) -> str:
    table = pa.Table.from_pylist([row(n) for n in range(ROWS)])
    with pa.OSFile(str(path), "wb") as out, pa.ipc.new_stream(out, table.schema) as writer:
        writer.write_table(table, max_chunksize=500)
    return str(path)


def one_group(path: Path) -> str:
    pq.write_table(pa.Table.from_pylist([row(n) for n in range(ROWS)]), path)
    return str(path)


def keyed(path: Path) -> str:
    inner = {
        f"id{n}": {**row(n), "turns": [{"n": "no row"}, {"n": "nor this"}]} for n in range(ROWS)
    }
    path.write_text(json.dumps({"version": {"n": 1}, "data": inner}, indent=1))
    return str(path)


def indented(path: Path) -> str:
    values = [{**row(n), "replies": [{"to": "x"}, {"to": "}, {"}]} for n in range(ROWS)]
    path.write_text(json.dumps(values, indent=2))
    return str(path)


def table(path: Path) -> str:
    cells = "".join(f'{n},"{row(n)["text"]}\n\nsaid ""{n}"", and more,"\n' for n in range(ROWS))
    path.write_text("n,text\n" + cells)
    return str(path)


def wide(path: Path) -> str:
    lines = "".join(json.dumps(row(n)) + "\n" for n in range(ROWS))
    path.write_bytes(lines.encode("utf-16"))
    return str(path)


READ: dict[str, Callable[[Path], str]] = {
    "a.jsonl": jsonl,
    "a.tsv": tsv,
    "a.csv": table,
    "a.parquet": parquet,
    "one.parquet": one_group,
    "a.arrow": arrow,
    "a.json": json_list,
    "indented.json": indented,
    "keyed.json": keyed,
    "a.jsonl.gz": packed,
    "wide.jsonl": wide,
}


def test_a_small_source_is_sampled_whole(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"n": 1}\nbroken\n{"n": 3}\n')
    (tmp_path / "b.json").write_text('[{"n": 4}]')
    sample = draw_sample(open_source(str(tmp_path)))
    assert [(item.file, item.row, item.value) for item in sample.rows] == [
        ("a.jsonl", 0, {"n": 1}),
        ("a.jsonl", 2, {"n": 3}),
        ("b.json", 0, {"n": 4}),
    ]
    assert [(item.file, item.bad.row) for item in sample.bad] == [("a.jsonl", 1)]
    assert (sample.complete, sample.total_rows, len({r.file for r in sample.rows})) == (True, 4, 2)


def test_rows_of_a_small_source_are_spread(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text("".join(f'{{"n": {n}}}\n' for n in range(1000)))
    sample = draw_sample(open_source(str(tmp_path)), rows=100)
    numbers = [item.value["n"] for item in sample.rows]
    assert (len(numbers), sample.complete, sample.total_rows) == (100, False, 1000)
    assert numbers == [item.row for item in sample.rows] == sorted(set(numbers))
    assert {n // 100 for n in numbers} == set(range(10))


def spec_of(name: str) -> SourceSpec:
    return SourceSpec(root="data.*") if name == "keyed.json" else SourceSpec()


@pytest.mark.more
@pytest.mark.parametrize("name", READ)
def test_the_same_seed_gives_the_same_rows(tmp_path: Path, name: str) -> None:
    path = READ[name](tmp_path / name)
    source = open_source(path, spec_of(name))
    first = draw_sample(source, max_bytes=BUDGET)
    assert draw_sample(open_source(path, spec_of(name)), max_bytes=BUDGET) == first
    assert draw_sample(source, max_bytes=BUDGET, seed=1).rows != first.rows
    assert len(first.rows) == 200
    assert not first.complete
    assert [item.value for item in first.rows] == [_as_in(name, item.value) for item in first.rows]


def _as_in(name: str, value: Json) -> Json:
    n = int(value["n"])
    whole = {**value, **row(n)}
    if name == "a.csv":
        whole["text"] += f'\n\nsaid "{n}", and more,'
    return {key: str(held) for key, held in whole.items()} if name in ("a.tsv", "a.csv") else whole


def test_a_packed_file_is_not_read_without_end(tmp_path: Path) -> None:
    sample = draw_sample(open_source(packed(tmp_path / "a.jsonl.gz")), rows=50, max_bytes=10_000)
    numbers = [int(item.value["n"]) for item in sample.rows]
    assert len(numbers) == 50
    assert numbers[-1] > 1_000  # spread over what was read,
    assert numbers[-1] < ROWS // 2  # and that is not all


@pytest.mark.more
@pytest.mark.parametrize("name", READ)
def test_a_large_file_is_sampled_everywhere(tmp_path: Path, name: str) -> None:
    source = open_source(READ[name](tmp_path / name), spec_of(name))
    sample = draw_sample(source, max_bytes=BUDGET)
    numbers = [int(item.value["n"]) for item in sample.rows]
    assert numbers == sorted(set(numbers))
    assert {number * 10 // ROWS for number in numbers} == set(range(10))
    assert not sample.bad
    for item in sample.rows:
        assert item.row in (UNKNOWN_ROW, int(item.value["n"]))


def test_little_of_a_large_file_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = open_source(jsonl(tmp_path / "a.jsonl"))
    read: list[int] = []
    original = LocalFile.open

    def counted(self: LocalFile) -> Json:
        stream = original(self)
        inner = stream.read

        class Counting:
            def __getattr__(self, name: str) -> Json:
                return getattr(stream, name)

            def read(self, size: int = -1) -> bytes:
                data = inner(size)
                read.append(len(data))
                return data

            def __enter__(self) -> "Counting":
                return self

            def __exit__(self, *_: object) -> None:
                stream.close()

        return Counting()

    monkeypatch.setattr(LocalFile, "open", counted)
    draw_sample(source, rows=50, max_bytes=BUDGET)
    assert 0 < sum(read) < source.files[0].bytes // 2


def test_quoted_line_breaks_are_never_cut(tmp_path: Path) -> None:
    cells = "".join(f'{n},"line one, {n}\nline two, {n}"\n' for n in range(ROWS))
    (tmp_path / "a.csv").write_text("n,text\n" + cells)
    sample = draw_sample(open_source(str(tmp_path)), max_bytes=BUDGET)
    assert len(sample.rows) == 200
    for item in sample.rows:
        n = item.value["n"]
        assert item.value["text"] == f"line one, {n}\nline two, {n}"


def test_many_files_share_the_rows(tmp_path: Path) -> None:
    for number in range(100):
        lines = "".join(json.dumps(row(number)) + "\n" for _ in range(100))
        (tmp_path / f"{number:03d}.jsonl").write_text(lines)
    sample = draw_sample(open_source(str(tmp_path)), rows=80, max_bytes=BUDGET)
    seen = {int(item.file[:3]) // 10 for item in sample.rows}
    assert (len(sample.rows), seen) == (80, set(range(10)))
    assert 20 <= len({row.file for row in sample.rows}) <= 60
    assert [item.file for item in sample.rows] == sorted(item.file for item in sample.rows)


def test_many_files_of_one_row_are_opened_until_there_are_enough(tmp_path: Path) -> None:
    for number in range(300):
        text = json.dumps({"title": f"t{number}", "body": "x" * 2000}, indent=1)
        (tmp_path / f"{number:03d}.json").write_text(text)
    sample = draw_sample(open_source(str(tmp_path)), rows=200, max_bytes=500_000)
    assert len(sample.rows) == 200
    assert sample.rows[0].key == sample.rows[0].file.removesuffix(".json")


def test_json_fields_and_roots_apply(tmp_path: Path) -> None:
    document = {"data": [{"chat": json.dumps([{"role": "user"}])} for _ in range(5)]}
    (tmp_path / "a.json").write_text(json.dumps(document))
    spec = SourceSpec(root="data[*]", json_fields=("chat",))
    sample = draw_sample(open_source(str(tmp_path / "a.json"), spec))
    assert [item.value for item in sample.rows] == [{"chat": [{"role": "user"}]}] * 5


def test_a_source_without_files_gives_an_empty_sample(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("# nothing")
    sample = draw_sample(open_source(str(tmp_path)))
    assert (sample.rows, sample.complete, sample.total_rows) == ((), True, 0)


def late_row(number: int) -> dict[str, Json]:
    more = {"late": f"late {number}"} if number >= ROWS // 2 else {}
    return {**row(number), "late": None, **more}


def avro(path: Path) -> None:
    columns = [("n", "long"), ("text", "string"), ("late", ["null", "string"])]
    fields = [{"name": name, "type": kind} for name, kind in columns]
    schema = fastavro.parse_schema({"type": "record", "name": "R", "fields": fields})
    with path.open("wb") as out:
        fastavro.writer(out, schema, map(late_row, range(ROWS)), codec="deflate")


def mds(path: Path) -> None:
    config = {"version": 2, "format": "mds", "column_names": ["row"]}
    columns = json.dumps({**config, "column_encodings": ["json"], "column_sizes": [None]}).encode()
    texts = [json.dumps(late_row(number)).encode() for number in range(ROWS)]
    rows = [struct.pack("<I", len(text)) + text for text in texts]
    ends = accumulate(map(len, rows), initial=8 + 4 * ROWS + len(columns))
    path.write_bytes(struct.pack(f"<{ROWS + 2}I", ROWS, *ends) + columns + b"".join(rows))


@pytest.mark.parametrize("made", [avro, mds])
def test_what_only_the_second_half_of_a_file_has_is_seen(
    tmp_path: Path, made: Callable[[Path], None]
) -> None:
    path = tmp_path / f"a.{made.__name__}"
    made(path)
    source = open_source(str(path))
    sample = draw_sample(source, max_bytes=BUDGET)
    assert sample == draw_sample(open_source(str(path)), max_bytes=BUDGET)
    assert sample.rows != draw_sample(source, max_bytes=BUDGET, seed=1).rows
    values = [one.value.get("row", one.value) for one in sample.rows]
    assert values == [late_row(one.row) for one in sample.rows]
    assert {one.row * 10 // ROWS for one in sample.rows} == set(range(10))
    assert any(value["late"] for value in values)


@pytest.mark.more
def test_a_damaged_end_of_avro_does_not_hide_the_rows_before_it(tmp_path: Path) -> None:
    avro(path := tmp_path / "a.avro")
    data = path.read_bytes()
    path.write_bytes(data[: len(data) * 3 // 4])
    for seed in range(20):
        drawn = draw_sample(open_source(str(path)), max_bytes=BUDGET // 4, seed=seed).rows
        assert [one.value for one in drawn] == [late_row(one.row) for one in drawn]
        assert len(drawn) > 50
