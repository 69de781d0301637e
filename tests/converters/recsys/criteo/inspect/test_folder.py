"""Figures of folders: those of stats.json and vocabularies, and those that are counted."""

import io
import json
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ingot.converters.errors import SourceError
from ingot.converters.recsys.criteo.contract import KEYS
from ingot.converters.recsys.criteo.inspect.figures import Figures
from ingot.converters.recsys.criteo.inspect.folder import count_figures, inspect
from tests.converters.recsys.criteo.inspect.written import Raw, draw, write
from tests.converters.recsys.criteo.preprocessed import run

GOLDEN = Path(__file__).parents[4] / "golden/criteo"
PARTS = [draw("day_0", 400, 1), draw("day_2", 300, 2), draw("day_10", 200, 3)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three days, every value with an id of its own."""
    return write(tmp_path / "out", PARTS)


def cells(at: int) -> list[int]:
    return [row[at] or 0 for part in PARTS for row in part.sparse]


def test_figures_of_stats_json(folder):
    told = inspect(folder)
    assert (told.source, told.rows, told.notes) == ("stats.json", 900, ())
    assert [one.name for one in told.parts] == ["day_0", "day_2", "day_10"]
    labels = [label for part in PARTS for label in part.labels]
    assert told.label_rate == sum(labels) / 900
    assert told.rejects == {"columns": 2, "sparse": 1}
    for at, one in enumerate(told.sparse):
        values = cells(at)
        assert one.distinct == one.vocabulary == len(set(values))
        assert one.num_embeddings == len(set(values)) + 2
        top = one.top[0]
        assert top.value is not None
        assert values.count(top.value) == top.count == max(map(values.count, set(values)))
        assert top.id == list(dict.fromkeys(values)).index(top.value) + 2
        assert top.raw == f"{top.value:08x}"
        assert one.covered(1) == top.count / 900 == top.share
        assert one.covered(10**9) == 1.0
    column = [row[3] for part in PARTS for row in part.dense]
    dense = told.dense[3]
    assert (dense.missing, dense.mean) == (column.count(None), sum(x or 0 for x in column) / 900)
    assert sum(count for _, count in dense.histogram) == 900
    assert [bound for bound, _ in dense.histogram][:4] == ["negative", "0", "1", "2"]


def test_rare_values_share_an_id(tmp_path):
    told = inspect(write(tmp_path, PARTS, threshold=4), top=2000)
    for at, one in enumerate(told.sparse):
        values = cells(at)
        rare = [value for value in set(values) if values.count(value) < 4]
        rows = sum(map(values.count, rare))
        assert (one.rare, one.rare_rows) == (len(rare), rows)
        (shared,) = [entry for entry in one.top if entry.id == 1] or [None]
        assert (shared is None) == (not rare)
        if shared:
            assert (shared.count, shared.value, shared.raw) == (rows, None, None)
        assert sum(entry.count for entry in one.top) == one.counted == 900


def known_of_arrays(told: Figures) -> list[object]:
    return [
        [(one.name, one.rows, one.zeros, one.ones, one.nonfinite) for one in told.parts],
        [(one.name, one.distinct, one.max_id, one.counted, one.coverage) for one in told.sparse],
        [[(top.id, top.count, top.share) for top in one.top] for one in told.sparse],
        [one.nonfinite for one in told.dense],
    ]


@pytest.mark.parametrize("gone", ["stats.json", "vocab"])
def test_without_them_the_arrays_are_counted_to_the_same_figures(folder, gone):
    told = inspect(folder)
    path = folder / gone
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    other = inspect(folder)
    assert other.source == "arrays"
    assert "counted from the arrays" in other.notes[0]
    assert known_of_arrays(other) == known_of_arrays(told)
    assert (other.rejects, other.sparse[0].missing, other.sparse[0].top[0].value) == (None,) * 3
    written = np.concatenate([np.load(folder / f"{one.name}_dense.npy") for one in told.parts])
    for at, one in enumerate(other.dense):
        fine = written[np.isfinite(written[:, at]), at]
        assert (one.least, one.most) == (fine.min(), fine.max())
        assert one.mean == pytest.approx(fine.mean(dtype=np.float64))
        below = np.count_nonzero(fine < 0)
        assert dict(one.histogram).get("negative", 0) == below
        assert dict(one.histogram)["2"] == np.count_nonzero(np.floor(fine) == 2)


@pytest.mark.parametrize("counters", [1, 7, 100, 1 << 20])
def test_however_many_counters_are_held(folder, counters):
    whole = count_figures(folder, 5)
    assert count_figures(folder, 5, counters=counters) == whole


def test_the_reference_writes_what_can_be_counted(tmp_path):
    """Labels of shape (N, 1) and, for the last day, ids of int64."""
    arrays = np.load(GOLDEN / "torchrec_now_shuffled.npz")
    for name in arrays.files:
        np.save(tmp_path / f"{name}.npy", arrays[name])
    told = inspect(tmp_path)
    ids = np.concatenate([arrays[f"day_{day}_sparse"] for day in range(3)])
    assert told.num_embeddings == (ids.max(axis=0) + 1).tolist()
    for at, one in enumerate(told.sparse):
        some, counts = np.unique(ids[:, at], return_counts=True)
        assert (one.distinct, one.top[0].count) == (len(some), counts.max())
    labels = np.concatenate([arrays[f"day_{day}_labels"] for day in range(3)])
    assert told.label_rate == labels.mean()


def test_values_that_are_no_ids_are_not_counted(folder):
    (folder / "stats.json").unlink()
    path = folder / "day_2_sparse.npy"
    ids = np.load(path).astype(np.int64)
    ids[5, 3] = -7
    ids[6, 4] = 1 << 31
    np.save(path, ids)
    told = inspect(folder)
    assert "not counted: cat_3, cat_4" in told.notes[1]
    odd, large, fine = told.sparse[3], told.sparse[4], told.sparse[5]
    assert (odd.distinct, odd.top, odd.coverage, large.distinct) == (None, (), (), None)
    assert (large.max_id, fine.distinct) == (1 << 31, len(set(cells(5))))


def test_no_rows_are_no_error(tmp_path):
    told = inspect(write(tmp_path / "out", [Raw("day_0", [], [], [])]))
    assert (told.rows, told.label_rate, told.sparse[0].top, told.notes) == (0, None, (), ())
    assert told.dense[0].least is told.dense[0].mean is None


def test_labels_that_are_none_have_no_rate(tmp_path):
    part = draw("test", 20, 1)
    root = write(tmp_path, [Raw("test", [-1] * 20, part.dense, part.sparse)])
    for _ in range(2):
        told = inspect(root)
        assert (told.label_rate, told.parts[0].other) == (None, 20)
        (root / "stats.json").unlink(missing_ok=True)


def test_rows_of_earlier_runs_are_told(folder):
    path = folder / "vocab/cat_4.parquet"
    table = pq.read_table(path)
    counts = pa.array([10 * one for one in table["count"].to_pylist()], pa.int64())
    earlier = {"value": [1], "id": [5000], "count": [0]}
    more = pa.table({name: pa.array(earlier[name], table[name].type) for name in earlier})
    table = pa.concat_tables([table.set_column(2, "count", counts), more])
    pq.write_table(table, path)
    (folder / "manifest.json").write_text('{"vocab_sha256": "0", "unseen": "1"}', encoding="utf-8")
    told = inspect(folder)
    assert told.sparse[4].counted == 9000
    assert (told.sparse[4].max_id, told.num_embeddings[4]) == (len(set(cells(4))) + 1, 5001)
    assert "earlier runs" in told.notes[0]
    assert "do not have" in told.notes[1]


def test_ids_that_went_through_float32_may_be_larger(folder):
    stats = json.loads((folder / "stats.json").read_bytes())
    for at, largest in enumerate((16777217, 16777219, 292775615)):
        stats["sparse"][at]["max_id"] = largest
    (folder / "stats.json").write_text(json.dumps(stats), encoding="utf-8")
    assert inspect(folder).num_embeddings[:3] == [16777218, 16777220, 292775616]
    (folder / "manifest.json").write_text('{"compat": "torchrec_f32"}', encoding="utf-8")
    assert inspect(folder).num_embeddings[:3] == [16777218, 16777221, 292775617]


def test_arrays_that_are_not_those_of_stats_json_are_told(folder):
    np.save(folder / "day_2_sparse.npy", np.zeros((300, 26), np.float32))
    shutil.copy(folder / "day_0_dense.npy", folder / "day_10_dense.npy")
    shutil.copy(folder / "day_0_sparse.npy", folder / "day_10_sparse.npy")
    shutil.copy(folder / "day_0_labels.npy", folder / "day_10_labels.npy")
    first, second = inspect(folder).notes
    assert "day_2_sparse.npy: holds float32" in first
    assert second == "day_10_sparse.npy has 400 rows, stats.json counts 200"


def test_the_document_is_json(folder):
    for _ in range(2):
        told = inspect(folder).to_document()
        assert json.loads(json.dumps(told)) == told
        assert told["num_embeddings"] == [one["num_embeddings"] for one in told["sparse"]]
        (folder / "stats.json").unlink(missing_ok=True)


@pytest.mark.parametrize(
    "change",
    [
        lambda stats: stats.pop("parts"),
        lambda stats: stats["parts"][0].update(rows="12"),
        lambda stats: stats["parts"][0].update(rows=-1),
        lambda stats: stats["parts"][0].update(rows=True),
        lambda stats: stats["parts"][0].update(name=3),
        lambda stats: stats["parts"][0]["labels"].pop("1"),
        lambda stats: stats["parts"][0].update(rejects=[1]),
        lambda stats: stats["dense"].pop(),
        lambda stats: stats["dense"][0].update(name="int_1"),
        lambda stats: stats["dense"][2].update(sum=None),
        lambda stats: stats["dense"][2]["histogram"].update(many=1),
        lambda stats: stats["sparse"].append(stats["sparse"][0]),
        lambda stats: stats["sparse"][25].pop("max_id"),
        lambda stats: stats.update(sparse=7),
    ],
)
def test_a_stats_json_that_is_no_runs_is_told(folder, change):
    stats = json.loads((folder / "stats.json").read_bytes())
    change(stats)
    (folder / "stats.json").write_text(json.dumps(stats), encoding="utf-8")
    with pytest.raises(SourceError, match=r"stats\.json: is not as a run writes it"):
        inspect(folder)


@pytest.mark.parametrize("content", [b"", b"[1]", b"{", b"[" * 100_000, b"\xff"])
@pytest.mark.parametrize("name", ["stats.json", "manifest.json"])
def test_json_that_cannot_be_read_is_told(folder, name, content):
    (folder / name).write_bytes(content)
    with pytest.raises(SourceError, match=rf"{name}: cannot be read"):
        inspect(folder)


def vocabulary(**columns: pa.Array) -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.table(columns), sink)
    return sink.getvalue()


VALUE, ID, COUNT = (
    pa.array([7], pa.uint32()),
    pa.array([2], pa.int32()),
    pa.array([3], pa.int64()),
)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "this vocabulary does not exist"),
        (b"PAR1", "is not a vocabulary"),
        (vocabulary(value=VALUE, id=ID), "the column count is not int64"),
        (vocabulary(value=COUNT, id=ID, count=COUNT), "the column value is not uint32"),
        (vocabulary(value=VALUE, id=ID, count=pa.nulls(1, pa.int64())), "count has nulls"),
        (vocabulary(value=VALUE, id=pa.array([-2], pa.int32()), count=COUNT), "negative number"),
    ],
)
def test_a_vocabulary_that_is_none_is_told(folder, content, said):
    path = folder / "vocab/cat_7.parquet"
    path.unlink() if content is None else path.write_bytes(content)
    with pytest.raises(SourceError, match=rf"cat_7\.parquet: .*{said}"):
        inspect(folder)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "is missing"),
        (b"PK\x03\x04", "is not a .npy array"),
        ("short", "ends early"),
    ],
)
def test_an_array_that_is_none_is_told(folder, content, said):
    (folder / "stats.json").unlink()
    path = folder / "day_0_sparse.npy"
    whole = path.read_bytes()
    path.unlink() if content is None else path.write_bytes(
        whole[:-1] if content == "short" else content
    )
    with pytest.raises(SourceError, match=rf"day_0_sparse\.npy: .*{said}"):
        inspect(folder)


def test_a_folder_that_is_none_is_told(tmp_path):
    with pytest.raises(SourceError, match="gone: "):
        inspect(tmp_path / "gone")
    with pytest.raises(SourceError, match="holds no arrays"):
        inspect(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(SourceError, match="Not a directory"):
        inspect(tmp_path / "file")


def test_every_column_has_a_vocabulary(folder):
    assert {path.stem for path in (folder / "vocab").iterdir()} == set(KEYS)


def whole(told: Figures) -> list[object]:
    """What rows show, whichever part they are in: of rare values their one id."""
    labels = [sum(getattr(one, name) for one in told.parts) for name in ("zeros", "ones", "other")]
    ids = [(one.distinct or 0) - (one.rare or 0) + bool(one.rare) for one in told.sparse]
    columns = [(one.max_id, one.counted, one.coverage) for one in told.sparse]
    return [told.rows, labels, told.num_embeddings, ids, columns, *known_of_arrays(told)[2:]]


@pytest.mark.more
@pytest.mark.parametrize("threshold", [0, 3])
@pytest.mark.parametrize("compat", ["exact", "torchrec_f32"])
def test_what_a_run_counts_is_what_its_arrays_hold(tmp_path, threshold, compat):
    run(GOLDEN, tmp_path / "out", frequency_threshold=threshold, compat=compat)
    told = inspect(tmp_path / "out")
    (tmp_path / "out/stats.json").unlink()
    arrays = inspect(tmp_path / "out")
    assert (told.source, arrays.source) == ("stats.json", "arrays")
    assert told.notes == ()
    assert whole(told) == whole(arrays)


@pytest.mark.more
def test_new_days_of_a_run(tmp_path):
    for folder, day in (("first", "day_0"), ("second", "day_1")):
        (tmp_path / folder).mkdir()
        shutil.copy(GOLDEN / day, tmp_path / folder)
    run(tmp_path / "first", tmp_path / "out")
    run(tmp_path / "second", tmp_path / "grown", vocab=tmp_path / "out")
    run(tmp_path / "second", tmp_path / "frozen", vocab=tmp_path / "out", unseen="1")
    first, grown, frozen = (inspect(tmp_path / name) for name in ("out", "grown", "frozen"))
    assert [one.counted for one in grown.sparse] == [first.rows + grown.rows] * 26
    assert all(a >= b for a, b in zip(grown.num_embeddings, first.num_embeddings, strict=True))
    assert frozen.num_embeddings == first.num_embeddings
    assert (len(first.notes), len(grown.notes), len(frozen.notes)) == (0, 1, 2)
    for one in frozen.sparse:
        assert one.counted + (one.rare_rows or 0) == first.rows + frozen.rows
