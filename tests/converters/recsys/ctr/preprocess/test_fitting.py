"""Builds with the vocabularies of an earlier one: rows that do not fit to them stop."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ingot.converters.errors import ConversionError
from ingot.converters.output.identity import CommittedResult
from ingot.converters.output.sharding import JobShard, Spread
from ingot.converters.recsys.ctr.featuremap import parse
from ingot.converters.recsys.ctr.preprocess.inputs import PlainTable
from ingot.converters.recsys.ctr.preprocess.job import build

ROWS = 400
ITEMS = np.random.default_rng(0).integers(0, 60, ROWS)
CODES = [f"{code:04x}" for code in np.random.default_rng(1).integers(60, 255, ROWS)]
MAP = parse(
    """
table: {entity_id: user, y_ctr: click, y_cvr: null}
features:
  - {name: f0_item, src: 0, field: item, encoding: vocab, vocab_num_tokens: 100}
  - {name: f0_code, src: 0, field: code, encoding: hash, hash_bucket: 100}
  - {name: f0_tags, src: 0, field: tags, encoding: hybrid, vocab_num_tokens: 3, hash_bucket: 9,
     max_len: 4}
""",
    "map.yaml",
)


def table_of(path: Path, **columns: Any) -> PlainTable:
    base = {
        "user": [f"u{row % 50}" for row in range(ROWS)],
        "click": [row % 2 for row in range(ROWS)],
        "item": ITEMS,
        "code": CODES,
        "tags": [f"t{row % 7},2024-01-{row % 9 + 1:02d}" for row in range(ROWS)],
    }
    pq.write_table(pa.table(base | columns), path)
    return PlainTable(table=str(path))


@pytest.fixture(scope="module")
def earlier(tmp_path_factory: pytest.TempPathFactory) -> CommittedResult:
    folder = tmp_path_factory.mktemp("earlier")
    return build(table_of(folder / "t.parquet"), MAP, folder / "out")


MISFITS: list[tuple[str, dict[str, Any], str]] = [
    (
        "whole numbers as floats",
        {"item": pa.array([None, *map(float, ITEMS[1:])], pa.float64())},
        r"f0_item: .*% of its tokens are known in another spelling \('\d+\.0' here, '\d+' there\); "
        "the column is float here, integer there",
    ),
    ("zeros before", {"item": [f"{one:04d}" for one in ITEMS]}, "f0_item: .*another spelling"),
    ("case", {"code": [one.upper() for one in CODES]}, "f0_code: .*another spelling"),
    (
        "some blanks",
        {"code": [one + " " * (row % 9 == 0) for row, one in enumerate(CODES)]},
        "f0_code: 11.*another spelling",
    ),
    (
        "bytes as Python shows them",
        {"code": [f"b'{one}'" for one in CODES]},
        "f0_code: 99.*another spelling",
    ),
    (
        "dates",
        {"tags": [f"t{row % 7},202401{row % 9 + 1:02d}" for row in range(ROWS)]},
        "f0_tags: 50.0% of its tokens are known in another spelling",
    ),
    (
        "other ids",
        {"item": ITEMS + 1000, "code": [f"x{one}" for one in CODES]},
        "(?s)f0_item: 100.0% of its tokens are unseen.*f0_code: 100.0% of its tokens are unseen",
    ),
    ("nothing", {"item": pa.nulls(ROWS, pa.int64())}, "f0_item: 100.0% of the rows have no token"),
    ("empty lists", {"tags": [""] * ROWS}, "f0_tags: 100.0% of the rows have no token"),
    (
        "holes",
        {"item": [None if row % 3 else int(one) for row, one in enumerate(ITEMS)]},
        "f0_item: 66.5% of the rows have no token, 0.0% there",
    ),
]


@pytest.mark.parametrize(("columns", "said"), [one[1:] for one in MISFITS], ids=lambda _: "")
def test_rows_that_do_not_fit_stop(tmp_path, earlier, columns, said):
    inputs, out = table_of(tmp_path / "t.parquet", **columns), tmp_path / "out"
    with pytest.raises(ConversionError, match=said) as raised:
        build(inputs, MAP, out, vocab=earlier.out)
    assert (raised.value.exit_code, "`accept_unseen`" in str(raised.value)) == (1, True)
    assert not out.exists()
    done = build(inputs, MAP, out, vocab=earlier.out, accept_unseen=True)
    assert done.stats["rows"]["read"] == ROWS


FITS: list[dict[str, Any]] = [
    {"item": ITEMS[::-1].copy()},
    {"item": [str(one) for one in ITEMS]},
    {"item": pa.array(ITEMS, pa.int32()), "code": pa.array(CODES).dictionary_encode()},
    {"item": np.where(np.arange(ROWS) % 5, ITEMS, ITEMS + 1000)},
    {"item": [None if row % 4 == 0 else int(one) for row, one in enumerate(ITEMS)]},
]


@pytest.mark.parametrize("columns", FITS)
def test_rows_that_fit_are_built_and_shares_are_told(tmp_path, earlier, columns):
    inputs = table_of(tmp_path / "t.parquet", **columns)
    done = build(inputs, MAP, tmp_path / "out", vocab=earlier.out)
    known = pq.read_table(Path(earlier.out) / "vocab/f0_item.parquet")["token"].to_pylist()
    tokens = [str(one) for one in pa.array(columns["item"]).to_pylist() if one is not None]
    told = done.stats["vocab"]["f0_item"]
    assert told["new_tokens"] == len(tokens)
    assert told["new_unseen"] == sum(one not in known for one in tokens)
    assert told["new_expected"] < 0.1 * len(tokens)


def test_an_earlier_build_may_be_of_any_version(tmp_path, earlier):
    vocab = tmp_path / "vocab"
    vocab.mkdir()
    for name in ("f0_item", "f0_code", "f0_tags"):
        (vocab / f"{name}.parquet").write_bytes(
            (Path(earlier.out) / f"vocab/{name}.parquet").read_bytes()
        )
    floats = table_of(tmp_path / "t.parquet", item=ITEMS.astype(float))
    empty = table_of(tmp_path / "e.parquet", item=pa.nulls(ROWS, pa.int64()))
    for text in (None, "[]", "{}", '{"vocab": 3, "splits": {"train": null}, "columns": []}'):
        if text is not None:
            (tmp_path / "stats.json").write_text(text)
        with pytest.raises(ConversionError, match="another spelling"):
            build(floats, MAP, tmp_path / "out", vocab=vocab)
        with pytest.raises(ConversionError, match="f0_item: no row has a token"):
            build(empty, MAP, tmp_path / "out", vocab=vocab)


def test_values_of_their_own_are_expected_to_be_unseen(tmp_path):
    first = table_of(tmp_path / "a.parquet", code=[f"r{row}" for row in range(ROWS)])
    later = table_of(tmp_path / "b.parquet", code=[f"s{row}" for row in range(ROWS)])
    old = build(first, MAP, tmp_path / "a")
    told = build(later, MAP, tmp_path / "b", vocab=old.out).stats["vocab"]["f0_code"]
    assert (told["new_unseen"], told["new_expected"]) == (ROWS, ROWS)


def test_parts_stop_before_they_write(tmp_path, earlier):
    floats, out = table_of(tmp_path / "t.parquet", item=ITEMS.astype(float)), tmp_path / "out"
    spread = Spread(shard=JobShard(0, 1))
    with pytest.raises(ConversionError, match="another spelling"):
        build(floats, MAP, out, spread=spread, vocab=earlier.out)
    assert not out.exists()


def test_types_are_kept(earlier):
    stats = json.loads((Path(earlier.out) / "stats.json").read_text())
    assert stats["columns"] == {"code": "text", "item": "integer", "tags": "text"}
