"""Figures of a folder: those of stats.json, those that are counted, and the page made of them."""

import json
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ingot.converters.errors import SourceError
from ingot.converters.output.figures import format_percent
from ingot.converters.output.identity import CommittedResult
from ingot.converters.recsys.ctr import contract, featuremap
from ingot.converters.recsys.ctr.validation.figures import (
    FeatureFigures,
    read_figures,
)
from ingot.converters.recsys.ctr.validation.stats_page import render_stats_page
from tests.converters.page_parts import Parts
from tests.converters.recsys.ctr.right import make

GOLDEN = Path(__file__).parents[4] / "golden/ctr"


@pytest.fixture
def built(golden_build: CommittedResult) -> Path:
    """The golden raw files, built."""
    return golden_build.out


def test_rates_are_those_of_the_rows(built):
    told = read_figures(built)
    assert not told.counted
    for split in ("train", "valid"):
        table = pq.read_table(built / split)
        clicks, bought, both = (np.array(table[name]) for name in ("y_ctr", "y_cvr", "y_ctcvr"))
        one = told.splits[split]
        assert one.rows == len(clicks)
        assert one.ctr == pytest.approx(clicks.mean())
        assert one.cvr_of_impressions == pytest.approx(bought.mean())
        assert one.cvr_of_clicks == pytest.approx(bought[clicks == 1].mean())
        assert one.ctcvr == pytest.approx(both.mean())
        assert one.funnel_anomalies == int(((bought == 1) & (clicks == 0)).sum())
        assert one.entities == len(set(table["entity_id"].to_pylist()))


def known_of_rows(told: FeatureFigures) -> tuple[object, ...]:
    return told.missing, told.tokens, told.oov, told.hashed


def test_without_stats_json_the_rows_are_counted_to_the_same_figures(built, tmp_path):
    root = shutil.copytree(built, tmp_path / "out")
    (root / "stats.json").unlink()
    told, counted = read_figures(built), read_figures(root)
    assert counted.counted
    for name, splits in told.by_feature.items():
        for split, one in splits.items():
            other = counted.by_feature[name][split]
            assert known_of_rows(other) == known_of_rows(one), name
            assert (other.cut_rows, other.tokens_kept, other.value_kept) == (None, None, None)
    assert [one.ctr for one in counted.splits.values()] == [one.ctr for one in told.splits.values()]
    assert "no stats.json" in counted.notes[0]
    lists = pq.read_table(root / "train")["f1_110_14_idx"].to_pylist()
    lengths = [0 if one == [1] else len(one) for one in lists]
    found = counted.by_feature["f1_110_14"]["train"].lengths
    assert found is not None
    assert (found["min"], found["max"]) == (min(lengths), max(lengths))
    assert found["mean"] == pytest.approx(np.mean(lengths))
    for name, share in (("p50", 0.5), ("p90", 0.9), ("p99", 0.99)):
        assert found[name] == np.quantile(lengths, share, method="inverted_cdf")


def test_without_a_featuremap_either_what_columns_show_is_told(built, tmp_path):
    root = tmp_path / "out"
    for split in ("train", "valid"):
        shutil.copytree(built / split, root / split)
    told, known = read_figures(root), read_figures(built)
    assert [one.name for one in told.features] == [one.name for one in known.features]
    one, same = told.by_feature["f1_109_14"]["valid"], known.by_feature["f1_109_14"]["valid"]
    assert (one.missing, one.tokens, one.oov, one.hashed) == (same.missing, same.tokens, None, None)
    assert told.profile is None
    assert any("no featuremap.yaml" in note for note in told.notes)
    given = read_figures(root, featuremap.load(GOLDEN / "featuremap_small.yaml"))
    assert given.by_feature["f1_109_14"]["valid"].oov == same.oov
    assert "not known" in render_stats_page(told)
    assert json.loads(json.dumps(told.to_document())) == told.to_document()


def test_a_tail_that_is_not_told_from_its_head_is_not_guessed(tmp_path):
    root = make(tmp_path / "out", {"tail_ids": "contract"})
    (root / "stats.json").unlink()
    told = read_figures(root)
    assert told.by_feature["f0_4"]["train"].hashed is None
    assert told.by_feature["f0_3"]["train"].hashed == 1.0
    assert any("tail_ids is contract" in note for note in told.notes)


def test_an_empty_split_divides_by_nothing(tmp_path):
    root = make(tmp_path / "out")
    (root / "stats.json").unlink()
    path = root / "valid/part-00000.parquet"
    pq.write_table(pq.read_table(path).slice(0, 0), path)
    told = read_figures(root)
    assert (told.splits["valid"].rows, told.splits["valid"].ctr) == (0, None)
    assert told.by_feature["f1_5"]["valid"].lengths is None
    assert "–" in render_stats_page(told)


def test_the_page_stands_alone_and_shows_every_feature(built):
    page = render_stats_page(read_figures(built))
    parts = Parts(page)
    assert parts.open == []
    assert not parts.tags & {"script", "link", "img", "iframe", "object", "form", "a"}
    assert not {name for name in parts.attributes if name.startswith("on")} | (
        parts.attributes & {"src", "href"}
    )
    assert "http" not in page.replace("http-equiv", "")
    assert "url(" not in page
    told = read_figures(built)
    for one in told.features:
        assert one.name in parts.text
        for split in told.by_feature[one.name].values():
            assert format_percent(split.missing) in parts.text
    for one in told.splits.values():
        assert format_percent(one.cvr_of_clicks) in parts.text
    for heading in ("Rows without a token", "Tokens in a list", "What truncation keeps"):
        assert heading in parts.text
    assert "prefers-color-scheme: dark" in page
    assert render_stats_page(told) == page
    widths = [float(one.split("width: ")[1].rstrip("%")) for one in parts.styles if "%" in one[-1:]
              and "width: " in one]  # fmt: skip
    assert len(widths) > 100
    assert 0 <= min(widths) <= max(widths) <= 100


def test_texts_of_the_folder_are_text(built, tmp_path):
    root = shutil.copytree(built, tmp_path / "<img src=x onerror=alert(1)>")
    stats = json.loads((root / "stats.json").read_bytes())
    stats["rejects"] = {"<script>alert(1)</script>": 3}
    (root / "stats.json").write_text(json.dumps(stats), encoding="utf-8")
    parts = Parts(render_stats_page(read_figures(root)))
    assert not parts.tags & {"script", "img"}
    assert "<script>alert(1)</script>" in parts.text


@pytest.mark.parametrize(
    "change",
    [
        lambda stats: stats.pop("splits"),
        lambda stats: stats["splits"]["train"].update(rows="12"),
        lambda stats: stats["splits"]["train"]["features"].pop("f0_508"),
        lambda stats: stats["splits"]["train"]["features"]["f1_110_14"].update(lengths={"min": 1}),
        lambda stats: stats.update(vocab=[]),
        lambda stats: stats["rows"].update(read=None) or stats.update(entities=3),
    ],
)
def test_a_stats_json_that_is_no_builds_is_told(built, tmp_path, change):
    root = shutil.copytree(built, tmp_path / "out")
    stats = json.loads((root / "stats.json").read_bytes())
    change(stats)
    (root / "stats.json").write_text(json.dumps(stats), encoding="utf-8")
    with pytest.raises(SourceError, match=r"stats\.json: is not as a build writes it"):
        read_figures(root)


def test_what_cannot_be_read_is_told(built, tmp_path):
    root = shutil.copytree(built, tmp_path / "out")
    (root / "stats.json").write_text("[1]", encoding="utf-8")
    with pytest.raises(SourceError, match="not a JSON object"):
        read_figures(root)
    (root / "stats.json").unlink()
    (root / "valid/part-00000.parquet").write_bytes(b"PAR1")
    with pytest.raises(SourceError, match=r"valid/part-00000\.parquet: cannot be read"):
        read_figures(root)
    (root / "featuremap.yaml").unlink()
    shutil.copy(built / "stats.json", root)
    with pytest.raises(SourceError, match="`featuremap`"):
        read_figures(root)
    for split in ("train", "valid"):
        shutil.rmtree(root / split)
        (root / split).mkdir()
    (root / "stats.json").unlink()
    with pytest.raises(SourceError, match="no Parquet file"):
        read_figures(root)


def test_quantiles_are_those_of_the_inverted_distribution():
    rng = np.random.default_rng(3)
    for size in (1, 2, 7, 100):
        lengths = rng.integers(0, 9, size)
        found = contract.length_figures(np.bincount(lengths))
        assert found is not None
        for name, share in (("min", 0.0), ("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("max", 1.0)):
            assert found[name] == np.quantile(lengths, share, method="inverted_cdf")
    assert contract.length_figures(np.zeros(0, np.int64)) is None


def test_lists_of_other_writers_are_counted_with_their_nulls(tmp_path):
    root = tmp_path / "out"
    (root / "train").mkdir(parents=True)
    cells = pa.array([[3, 4], None, [], [1], [5, None]], pa.list_(pa.int64()))
    labels = dict.fromkeys(contract.LABELS, pa.array([1, 0, 0, 0, None], pa.int8()))
    pq.write_table(pa.table({**labels, "f0_1_idx": cells}), root / "train/a.parquet")
    assert read_figures(root).splits["train"].ctr == 0.2
    one = read_figures(root).by_feature["f0_1"]["train"]
    assert (one.missing, one.tokens) == (0.2, 3)
    assert one.lengths is not None
    assert (one.lengths["min"], one.lengths["max"]) == (0, 2)


@pytest.mark.parametrize("kind", [pa.string(), pa.list_(pa.float32()), pa.timestamp("s")])
def test_columns_that_cannot_be_counted_are_told_not_taken_for_0(tmp_path, kind):
    root = make(tmp_path / "out")
    (root / "stats.json").unlink()
    path = root / "train/part-00000.parquet"
    table = pq.read_table(path)
    odd = pa.nulls(len(table), kind)
    at = table.schema.names.index("f0_3_idx")
    pq.write_table(table.set_column(0, "y_ctr", odd).set_column(at, "f0_3_idx", odd), path)
    with pytest.raises(SourceError, match="no column y_ctr, f0_3_idx that can be counted"):
        read_figures(root)
