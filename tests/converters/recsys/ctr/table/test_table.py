"""Plain tables: equal to reading row by row, whatever the file and the batches."""

import csv
import gzip
import io
import json
import math
import struct
import zipfile
from collections import Counter
from decimal import Decimal
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ingot.converters.errors import FeaturemapError, SourceError
from ingot.converters.recsys.ctr.featuremap import FeatureMap, parse
from ingot.converters.recsys.ctr.table import table_rows
from ingot.converters.recsys.ctr.table.table_cells import RawBlock, cell_texts
from ingot.converters.recsys.ctr.table.table_files import open_table, read_pieces, with_columns
from ingot.converters.recsys.ctr.table.table_rows import read_table
from ingot.converters.sources import SourceSpec
from ingot.converters.sources.readers import read_file

COLUMNS = ["sid", "user", "click", "buy", "item", "weighted", "tags", "history"]
FEATUREMAP = """
table: {entity_id: user, y_ctr: click, y_cvr: buy, sample_id: sid, token_separator: '|',
        missing: ['', 'NULL']}
features:
  - {name: f0_item, field: item, encoding: hash, hash_bucket: 10}
  - {name: f0_w, field: w, column: weighted, encoding: hash, hash_bucket: 10, use_value: true}
  - {name: f0_tags, field: tags, encoding: hash, hash_bucket: 10, max_len: 4}
  - {name: f0_hist, field: history, encoding: hash, hash_bucket: 10, max_len: 4, use_value: true}
"""
MISSING = {"", "NULL"}


def featuremap(text: str = FEATUREMAP) -> FeatureMap:
    return parse(text, "here")


def rounded(number: float) -> tuple[float, int]:
    """A value as float32, and whether it was not finite."""
    try:
        value = struct.unpack("f", struct.pack("f", number))[0]
    except OverflowError:
        return 0.0, 1
    return (value, 0) if math.isfinite(value) else (0.0, 1)


def reference_tokens(cell: str, many: bool, valued: bool, counts: Counter[str]):
    """The tokens of a text cell and their values, one after the other."""
    if cell in MISSING:
        return []
    out = []
    for piece in [one for one in cell.split("|") if one] if many else [cell]:
        token, mark, number = piece.rpartition(":") if valued else ("", "", "")
        if not mark:
            if valued and many:
                counts["no_value"] += 1
            else:
                out.append((piece, 1.0))
            continue
        try:
            value, odd = rounded(float(number))
        except ValueError:
            counts["bad_number"] += 1
            continue
        counts["not_finite"] += odd
        out.append((token, value))
    return out


def reference(rows: list[list[str]]):
    """Rows of cells by the rules, without any vector."""
    kept, rejects, counts = [], [], Counter[str]()
    labels = {"0": 0, "0.0": 0, "false": 0, "1": 1, "1.0": 1, "true": 1, "True": 1}
    for number, cells in enumerate(rows):
        if len(cells) != len(COLUMNS):
            rejects.append((number, "columns"))
            continue
        row = dict(zip(COLUMNS, cells, strict=True))
        if row["click"] not in labels or row["buy"] not in labels:
            rejects.append((number, "label"))
            continue
        if row["user"] in MISSING:
            rejects.append((number, "entity_id"))
            continue
        tokens = [
            reference_tokens(row["item"], False, False, counts),
            reference_tokens(row["weighted"], False, True, counts),
            reference_tokens(row["tags"], True, False, counts),
            reference_tokens(row["history"], True, True, counts),
        ]
        kept.append((number, labels[row["click"]], labels[row["buy"]], row["user"], tokens))
    return kept, rejects, +counts


def of_blocks(blocks: list[RawBlock]):
    """Blocks in the form of `reference`."""
    kept, rejects, counts = [], [], Counter[str]()
    for block in blocks:
        counts.update(block.counts)
        rejects += [(one.row, one.reason) for one in block.rejects]
        for place in range(len(block.rows)):
            kept.append(
                (
                    int(block.rows[place]),
                    int(block.clicks[place]),
                    int(block.purchases[place]),
                    block.entities[place].as_py().decode(),
                    [tokens_of(field, place) for field in block.tokens],
                )
            )
    return kept, rejects, +counts


def tokens_of(field, place):
    begin, end = field.offsets[place], field.offsets[place + 1]
    tokens = [one.decode() for one in field.tokens[begin:end].to_pylist()]
    return list(zip(tokens, field.values[begin:end].tolist(), strict=True))


ORDINARY = [
    [f"s{n}", f"u{n % 7}", str(n % 2), "0", f"i{n % 5}", f"w{n}:0.{n}", "a|b", f"x:{n}|y:1"]
    for n in range(60)
]
pieces_of_text = st.text(
    st.sampled_from(["a", "b", "1", "é", "漢", " ", '"', ",", ";", ":", "|", "-", "\n"]),
    max_size=6,
)
numbers = st.sampled_from(
    ["1", "-2.5", "1e39", "nan", "inf", " 3", "1_0", "x", "", "0.1", "-0.0", "1e-50", "٣", "1e400"]
)
valued = st.builds(lambda token, number: f"{token}:{number}", pieces_of_text, numbers)
lists = st.lists(st.one_of(pieces_of_text, valued), max_size=4).map("|".join)
cells = st.tuples(
    pieces_of_text,
    st.one_of(st.sampled_from(["u", "NULL", ""]), pieces_of_text),
    st.sampled_from(["0", "1", "0.0", "1.0", "true", "false", "True", "", "2", " 1", "-1", "no"]),
    st.sampled_from(["0", "1", "0", "1", "NULL"]),
    st.one_of(pieces_of_text, st.just("NULL")),
    st.one_of(valued, pieces_of_text),
    st.one_of(lists, st.just("NULL")),
    lists,
).map(list)


def as_csv(rows: list[list[str]], delimiter: str = ",", header: bool = True) -> bytes:
    out = io.StringIO()
    writer = csv.writer(out, delimiter=delimiter, lineterminator="\n")
    if header:
        writer.writerow(COLUMNS)
    writer.writerows(rows)
    return out.getvalue().encode()


@pytest.mark.more
@given(
    st.lists(cells, max_size=12), st.sampled_from([1, 7, 33, 90]), st.sampled_from([",", "\t", ";"])
)
@settings(deadline=None, max_examples=40)
def test_equals_reading_row_by_row(tmp_path_factory, rows, batch_rows, delimiter):
    path = tmp_path_factory.mktemp("t") / "log.csv"
    rows = ORDINARY + rows
    path.write_bytes(as_csv(rows, delimiter))
    with patch.object(table_rows, "BATCH_ROWS", batch_rows):
        blocks = list(read_table(str(path), featuremap()))
    assert of_blocks(blocks) == reference(rows)
    assert all(len(one.rows) + len(one.rejects) <= batch_rows for one in blocks)


lines = st.lists(
    st.lists(
        st.text(st.sampled_from(["a", "0", '"', ",", " ", "\r", "é"]), max_size=4), max_size=9
    ).map(",".join),
    max_size=8,
)


@pytest.mark.more
@given(lines)
@example([',,"'])  # a quote that the end of the file finds open
@example(['0",,"'])  # the same, with an even number of quotes
@example(['0",,"', '"'])
@example(["", "  ", "a,b,c,", "a,b"])
@settings(deadline=None)
def test_lines_are_those_of_the_readers(tmp_path_factory, lines):
    """Whatever stands in the lines, Arrow's rows are the ones that the house's reader gives."""
    path = tmp_path_factory.mktemp("t") / "log.csv"
    ordinary = [["a", "b,c", "d"]] * 500
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows([["x", "y", "z"], *ordinary])
    path.write_bytes(out.getvalue().encode() + "\n".join(lines).encode())
    file = open_table(str(path)).files[0]
    wanted = list(file.facts.columns)
    expected = [
        tuple(row.values()) if isinstance(row, dict) else "broken"
        for stretch in read_file(file, SourceSpec())
        for row in stretch.values
    ]
    got = {}
    for piece in read_pieces(with_columns(file, wanted), wanted):
        got |= {one.row: "broken" for one in piece.rejects}
        columns = [column.to_pylist() for column in piece.columns.columns]
        for row, values in zip(piece.rows.tolist(), zip(*columns, strict=True), strict=True):
            got[row] = tuple(one.decode() for one in values)
    assert [got[row] for row in range(len(got))] == expected


@pytest.mark.more
def test_quoted_cells_over_the_ends_of_blocks(tmp_path, monkeypatch):
    rows = [
        [str(n), f"u{n}", "1", "0", "line\n" * (n % 50) + '"', "", "a|b\nc", f"x{n}:{n}"]
        for n in range(20_000)
    ]
    path = tmp_path / "log.csv"
    path.write_bytes(as_csv(rows))
    assert path.stat().st_size > 3 << 20
    monkeypatch.setattr(table_rows, "BATCH_ROWS", 777)
    assert of_blocks(list(read_table(str(path), featuremap()))) == reference(rows)


@pytest.mark.more
def test_a_quote_that_never_ends_costs_one_line(tmp_path):
    rows = [list(row) for row in ORDINARY for _ in range(400)]
    data = as_csv(rows).split(b"\n")
    data[10_001] = b'"' + data[10_001]
    path = tmp_path / "log.csv"
    path.write_bytes(b"\n".join(data))
    kept, rejects, _ = of_blocks(list(read_table(str(path), featuremap())))
    assert rejects == [(10_000, "columns")]
    assert [row[0] for row in kept] == [n for n in range(len(rows)) if n != 10_000]


def test_lines_with_another_number_of_cells_are_rejects(tmp_path):
    path = tmp_path / "log.csv"
    lines = as_csv(ORDINARY).decode().splitlines()
    lines[3] += ",surplus"
    lines[5] = "only,three,cells"
    lines.insert(7, "")  # a blank line is no row
    path.write_text("\n".join(lines))
    (block,) = read_table(str(path), featuremap())
    found = [(one.file, one.row, one.reason) for one in block.rejects]
    assert found == [("log.csv", 2, "columns"), ("log.csv", 4, "columns")]
    assert block.rejects[1].found == "3 fields instead of 8: only,three,cells"
    assert [row for row in range(60) if row not in (2, 4)] == block.rows.tolist()


def test_rejects_say_what_was_found(tmp_path):
    rows = [list(row) for row in ORDINARY]
    rows[1][2], rows[2][3], rows[3][1] = "2", "yes\x1b[31m", "NULL"
    path = tmp_path / "log.csv"
    path.write_bytes(as_csv(rows))
    (block,) = read_table(str(path), featuremap())
    found = [(one.row, one.reason, one.found) for one in block.rejects]
    assert found == [
        (1, "label", "click: '2'"),
        (2, "label", r"buy: 'yes\x1b[31m'"),
        (3, "entity_id", "user: 'NULL'"),
    ]


PACKED = {
    "log.csv": bytes,
    "log.tsv": lambda data: data.replace(b",", b"\t"),
    "log.csv.gz": gzip.compress,
    "log.csv.zst": lambda data: zstandard.ZstdCompressor().compress(data),
    "log.dat": lambda data: data.replace(b",", b"::"),
    "utf16.csv": lambda data: data.decode().encode("utf-16"),
    "crlf.csv": lambda data: data.replace(b"\n", b"\r\n"),
    "mac.csv": lambda data: data.replace(b"\n", b"\r"),
    "bom.csv": lambda data: b"\xef\xbb\xbf" + data,
}


@pytest.mark.parametrize("name", PACKED)
def test_what_the_readers_find_out_about_a_file(tmp_path, name):
    rows = [[cell.replace("a|b", "é|漢") for cell in row] for row in ORDINARY]
    path = tmp_path / name
    path.write_bytes(PACKED[name](as_csv(rows)))
    text = FEATUREMAP.replace(
        "token_separator: '|',", "token_separator: '|', value_separator: ':',"
    )
    assert of_blocks(list(read_table(str(path), featuremap(text)))) == reference(rows)


def test_files_in_an_archive(tmp_path):
    path = tmp_path / "log.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("log/b.csv", as_csv(ORDINARY[20:]))
        archive.writestr("log/a.csv", as_csv(ORDINARY[:20]))
    assert of_blocks(list(read_table(str(path), featuremap()))) == reference(ORDINARY)


def test_raw_files_of_aliccp_are_no_plain_table():
    path = Path(__file__).parents[4] / "golden" / "ctr" / "sample_skeleton_train.csv"
    with pytest.raises(SourceError, match=r"raw file of Ali-CCP .*featuremap aliccp"):
        read_table(str(path), featuremap())


def test_columns_of_one_name_are_told_apart(tmp_path):
    cells = [pa.array(["u", "v"]), pa.array([0, 1]), pa.array(["a", "b"]), pa.array(["c", "d"])]
    table = pa.Table.from_arrays(cells, names=["user", "click", "x", "x"])
    pq.write_table(table, tmp_path / "log.parquet")
    (block,) = read_table(str(tmp_path / "log.parquet"), featuremap(SMALL))
    assert block.tokens[0].tokens.to_pylist() == [b"a", b"b"]
    second = SMALL.replace("field: x", "field: x.1")
    (block,) = read_table(str(tmp_path / "log.parquet"), featuremap(second))
    assert block.tokens[0].tokens.to_pylist() == [b"c", b"d"]


def test_files_of_a_folder_in_sorted_order(tmp_path, monkeypatch):
    for number, part in enumerate([ORDINARY[:20], ORDINARY[20:21], ORDINARY[21:]]):
        (tmp_path / f"part-{number}.csv").write_bytes(as_csv(part))
    (tmp_path / "README.md").write_text("# a log\n\nwith words\n")
    assert of_blocks(list(read_table(str(tmp_path), featuremap()))) == reference(ORDINARY)
    bad = [list(row) for row in ORDINARY[21:]]
    bad[4][2] = "?"
    (tmp_path / "part-2.csv").write_bytes(as_csv(bad))
    monkeypatch.setattr(table_rows, "BATCH_ROWS", 7)
    blocks = list(read_table(str(tmp_path / "part-*.csv"), featuremap()))
    assert [(one.file, one.row) for b in blocks for one in b.rejects] == [("part-2.csv", 4)]
    assert [int(row) for b in blocks for row in b.rows] == [n for n in range(60) if n != 25]


def test_tables_of_several_kinds_in_a_folder_are_refused(tmp_path):
    (tmp_path / "log.csv").write_bytes(as_csv(ORDINARY))
    (tmp_path / "items.csv").write_text("item,price,shop\n" + "1,2.5,a\n" * 30)
    with pytest.raises(SourceError, match=r"several kinds, such as log.csv and items.csv .*glob"):
        read_table(str(tmp_path), featuremap())


def test_names_of_the_featuremap_decide_about_the_header(tmp_path):
    words = [["a", "b", "1"], ["c", "d", "0"], ["e", "f", "1"], ["g", "h", "0"]]
    text = "table: {entity_id: c0, y_ctr: c2, y_cvr: null}\nfeatures:\n" + (
        "  - {name: f0_x, field: c1, encoding: hash, hash_bucket: 9}\n"
    )
    path = tmp_path / "log.csv"
    path.write_text("\n".join(",".join(row) for row in words))
    (block,) = read_table(str(path), featuremap(text))
    assert block.entities.to_pylist() == [b"a", b"c", b"e", b"g"]
    assert block.purchases.tolist() == [0, 0, 0, 0]
    named = text.replace("c0", "2020").replace("c1", "2021").replace("c2", "2022")
    named = named.replace("2020", "'2020'").replace("2021", "'2021'").replace("2022", "'2022'")
    path.write_text("2020,2021,2022\n" + path.read_text())
    (block,) = read_table(str(path), featuremap(named))
    assert block.rows.tolist() == [0, 1, 2, 3]
    assert block.entities.to_pylist() == [b"a", b"c", b"e", b"g"]


def test_unknown_columns_are_told_at_once_with_the_nearest(tmp_path):
    path = tmp_path / "log.csv"
    path.write_bytes(as_csv(ORDINARY))
    text = FEATUREMAP.replace("y_cvr: buy", "y_cvr: buys").replace("field: item", "field: itm")
    with pytest.raises(FeaturemapError) as raised:
        read_table(str(path), featuremap(text))
    got = [(one.pointer, one.got, one.nearest) for one in raised.value.problems]
    assert got == [("/table/y_cvr", "buys", "buy"), ("/features/0/field", "itm", "item")]
    assert str(path) in str(raised.value)


def test_a_featuremap_without_a_table_says_what_to_add(tmp_path):
    text = "features: [{name: f0_a, field: a, encoding: hash, hash_bucket: 3}]"
    with pytest.raises(FeaturemapError, match="/table: missing: expected entity_id, y_ctr and"):
        read_table(str(tmp_path / "none.csv"), featuremap(text))


@pytest.mark.parametrize(
    ("name", "data", "said"),
    [
        ("log.jsonl", b'{"user": 1}\n{"user": 2}\n', "no table: jsonl"),
        ("log.bin", b"\x00\x01\x02\xff" * 400, "no data in it"),
    ],
)
def test_what_is_no_table(tmp_path, name, data, said):
    path = tmp_path / name
    path.write_bytes(data)
    with pytest.raises(SourceError, match=said):
        read_table(str(path), featuremap())


def test_bytes_that_are_no_utf8(tmp_path):
    rows = [[*row[:4], "é", *row[5:]] for row in ORDINARY]  # enough to see that it is UTF-8
    data = as_csv(rows).split(b"\n")
    data[3] = data[3].replace(b"a|b", b"a|\xff|b")
    data[4] = data[4].replace(b"u3", b"\xfe")
    data[5] = data[5].replace(b"4:0.4", b"4:\xff")
    path = tmp_path / "log.csv"
    path.write_bytes(b"\n".join(data))
    (block,) = read_table(str(path), featuremap())
    assert [(one.row, one.reason) for one in block.rejects] == [(3, "entity_id")]
    assert block.counts == {"not_utf8": 1, "bad_number": 1}
    assert tokens_of(block.tokens[2], 2) == [("a", 1.0), ("b", 1.0)]


def test_samples_are_hashes_of_their_ids(tmp_path):
    rows = [list(row) for row in ORDINARY]
    rows[5][0] = rows[4][0]
    rows[6][0] = rows[7][0] = ""
    path = tmp_path / "log.csv"
    path.write_bytes(as_csv(rows))
    (block,) = read_table(str(path), featuremap())
    assert block.samples.dtype == np.uint64
    assert len(set(block.samples.tolist())) == 59  # rows without an id do not repeat each other
    assert block.samples[4] == block.samples[5]
    text = FEATUREMAP.replace("sample_id: sid, ", "")
    assert next(read_table(str(path), featuremap(text))).samples is None


SMALL = """
table: {entity_id: user, y_ctr: click, y_cvr: null}
features:
  - {name: f0_x, field: x, encoding: hash, hash_bucket: 9}
"""


def column(tmp_path: Path, cells: pa.Array, *, many: bool = False, valued: bool = False):
    """The tokens of a Parquet column, with what was dropped."""
    count = len(cells)
    table = pa.table({"user": ["u"] * count, "click": [True] * count, "x": cells})
    path = tmp_path / "log.parquet"
    pq.write_table(table, path, row_group_size=3)
    more = ", max_len: 3" * many + ", use_value: true" * valued
    text = SMALL.replace("hash_bucket: 9", f"hash_bucket: 9{more}")
    (block,) = read_table(str(path), featuremap(text))
    counts = block.counts
    return [tokens_of(block.tokens[0], place) for place in range(count)], +counts


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        (pa.array([5, None, -1]), ["5", None, "-1"]),
        (pa.array([5.0, None, math.nan, 2.0**53, -0.0]), ["5.0", None, None, str(2.0**53), "-0.0"]),
        (pa.array([0.1, 1e300, math.inf]), ["0.1", "1e+300", "Infinity"]),
        (pa.array([0.1, 16777216.0], pa.float32()), ["0.1", "16777216.0"]),
        (pa.array([1.0, 0.1, None, 65504.0], pa.float16()), ["1.0", "0.1", None, "65504.0"]),
        (pa.array([True, None, False]), ["true", None, "false"]),
        (pa.array(["a", "", None, " a "]), ["a", None, None, " a "]),
        (pa.array([b"a", None]), ["a", None]),
        (pa.array(["a", None, "a"]).dictionary_encode(), ["a", None, "a"]),
        (pa.array([None, None], pa.null()), [None, None]),
        (pa.array([0, None], pa.timestamp("s")), ["1970-01-01T00:00:00", None]),
        (pa.array([0, None], pa.date32()), ["1970-01-01", None]),
        (pa.array(["x", "y"], pa.large_string()), ["x", "y"]),
        (pa.array([Decimal("1.50"), None]), ["1.5", None]),
    ],
    ids=lambda one: str(one.type) if isinstance(one, pa.Array) else "",
)
def test_a_token_is_the_text_of_the_cell(tmp_path, cells, expected):
    tokens, counts = column(tmp_path, cells)
    assert tokens == [[] if one is None else [(one, 1.0)] for one in expected]
    assert not counts


WEIGHTED = pa.struct([("id", pa.int64()), ("weight", pa.float64())])


@pytest.mark.parametrize(
    ("cells", "valued", "expected", "counts"),
    [
        (pa.array([[1, 2], None, [], [None, 3]]), False, ["1 2", "", "", "3"], {}),
        (pa.array([["a", ""], ["b,c"]]), False, ["a", "b,c"], {}),
        (pa.array([[1, 2], None], pa.list_(pa.int8(), 2)), False, ["1 2", ""], {}),
        (pa.array([["a:2", "b"], ["c:d:0.5"]]), True, ["a=2", "c:d=0.5"], {"no_value": 1}),
        (
            pa.array(
                [[(1, 0.5), (2, None), None], [(3, math.nan), (None, 1.0)]], pa.list_(WEIGHTED)
            ),
            True,
            ["1=0.5", ""],
            {"no_value": 2},
        ),
        (pa.array([[(1, 0.5)], [(2, 1e39)]], pa.list_(WEIGHTED)), False, ["1", "2"], {}),
        (
            pa.array([[("a", 2)], None, [("b", 3)]], pa.map_(pa.string(), pa.int64())),
            True,
            ["a=2", "", "b=3"],
            {},
        ),
        (pa.array(["a,b,,c", ",", None]), False, ["a b c", "", ""], {}),
        (pa.array(["a, b"]), False, ["a| b"], {}),
    ],
    ids=lambda one: str(one.type) if isinstance(one, pa.Array) else "",
)
def test_lists(tmp_path, cells, valued, expected, counts):
    tokens, dropped = column(tmp_path, cells, many=True, valued=valued)
    wanted = []
    for row in expected:
        one = []
        for part in row.split("|" if "|" in row else None):
            token, _, value = part.partition("=")
            one.append((token, float(value or 1)))
        wanted.append(one)
    assert tokens == wanted
    assert dropped == counts


def test_objects_that_are_no_tokens(tmp_path):
    with pytest.raises(SourceError, match=r"column x: cells of type struct.*leave the column out"):
        column(tmp_path, pa.array([{"a": 1}]))
    with pytest.raises(SourceError, match=r"objects with a cannot be tokens .*name the fields"):
        column(tmp_path, pa.array([[{"a": 1}]]), many=True)


def test_columns_of_parquet_with_labels_of_any_type(tmp_path):
    for kind in (pa.int8(), pa.float64(), pa.bool_(), pa.string()):
        values = pa.array([0, 1, None]).cast(kind)
        path = tmp_path / "log.parquet"
        pq.write_table(pa.table({"user": [1, 2, 3], "click": values, "x": [1, 2, 3]}), path)
        (block,) = read_table(str(path), featuremap(SMALL))
        assert block.clicks.tolist() == [0, 1]
        assert block.entities.to_pylist() == [b"1", b"2"]
        assert [one.found for one in block.rejects] == ["click: null"]


def test_parquet_and_arrow_equal_csv(tmp_path, monkeypatch):
    monkeypatch.setattr(table_rows, "BATCH_ROWS", 7)
    table = pa.table(dict(zip(COLUMNS, map(list, zip(*ORDINARY, strict=True)), strict=True)))
    pq.write_table(table, tmp_path / "log.parquet", row_group_size=17)
    with pa.ipc.new_file(tmp_path / "log.arrow", table.schema) as writer:
        writer.write_table(table)
    for name in ("log.parquet", "log.arrow"):
        blocks = list(read_table(str(tmp_path / name), featuremap()))
        assert of_blocks(blocks) == reference(ORDINARY)


def test_features_that_share_a_field_are_read_once(tmp_path):
    text = FEATUREMAP + "  - {name: f0_tag, field: tags, encoding: vocab, vocab_num_tokens: 3}\n"
    path = tmp_path / "log.csv"
    path.write_bytes(as_csv(ORDINARY))
    (block,) = read_table(str(path), featuremap(text))
    assert len(block.tokens) == 4
    assert tokens_of(block.tokens[2], 0) == [("a", 1.0), ("b", 1.0)]


def test_a_damaged_file_is_told(tmp_path):
    path = tmp_path / "log.csv.gz"
    path.write_bytes(gzip.compress(as_csv(ORDINARY * 900))[:-200])
    with pytest.raises(SourceError, match="cut off"):
        list(read_table(str(path), featuremap()))


@given(st.lists(st.one_of(st.floats(width=32), st.integers(-(2**30), 2**30).map(float))))
def test_the_text_of_a_float_is_its_own(numbers):
    """Whatever stands beside it: batches of whole numbers are read in another way."""
    for kind in (pa.float32(), pa.float64()):
        together = cell_texts(pa.array(numbers, kind), "here").to_pylist()
        alone = [cell_texts(pa.array([one], kind), "here")[0].as_py() for one in numbers]
        assert together == alone


def test_numbers_of_json(tmp_path):
    """The text of a float is what JSON writes, for any float."""
    numbers = [1.5, 1e22, 123456789.125, 5e-324, -7.0, 2.0**60]
    tokens, _ = column(tmp_path, pa.array(numbers))
    assert [row[0][0] for row in tokens] == [json.dumps(one) for one in numbers]
