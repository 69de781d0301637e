"""Builds of random raw files: every cell, every count and every reject as plain Python has them."""

import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingot.converters.errors import ConversionError
from ingot.converters.recsys.ctr.contract import processed_schema
from ingot.converters.recsys.ctr.featuremap import Feature, FeatureMap, load
from ingot.converters.recsys.ctr.preprocess.inputs import Aliccp
from ingot.converters.recsys.ctr.preprocess.job import build
from tests.converters.recsys.ctr.raw import FEATUREMAPS, RAW, Raw
from tests.converters.recsys.ctr.reference import Builder, Expected, token_hash

BLOCKS = st.sampled_from((1, 7, 64, 500, 8 << 20))
NO_SUCH_SHARE = 1e-5
# A build waits for the disk a dozen times; what is tested here is not that.
MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None


@contextmanager
def built(raw: Raw, featuremap: FeatureMap, block: int) -> Iterator[Path]:
    """The folder that a build makes of raw files."""
    with tempfile.TemporaryDirectory(dir=MEMORY) as name:
        folder = Path(name)
        skeleton, common = folder / "skeleton.csv", folder / "common.csv"
        skeleton.write_bytes(raw.skeleton)
        common.write_bytes(raw.common)
        inputs = Aliccp(skeleton=str(skeleton), common=str(common), block_bytes=block)
        build(inputs, featuremap, folder / "out")
        yield folder / "out"


def rows_of(folder: Path, split: str) -> list[dict[str, Any]]:
    return pq.read_table(folder / split).to_pylist()


def check_stats(found: Any, expected: Any) -> None:
    """Equal, but shares of sums of floats to six digits."""
    if isinstance(expected, dict):
        assert list(found) == list(expected) or sorted(found) == sorted(expected)
        for name in expected:
            if name == "value_kept" and expected[name] is not None:
                assert found[name] == pytest.approx(expected[name], abs=NO_SUCH_SHARE)
            else:
                check_stats(found[name], expected[name])
    else:
        assert found == expected


def check_folder(folder: Path, expected: Expected, featuremap: FeatureMap) -> None:
    for split, rows in expected.rows.items():
        assert rows_of(folder, split) == rows
        assert pq.read_schema(folder / split / "part-00000.parquet").equals(
            processed_schema(featuremap), check_metadata=True
        )
    for name, tokens in expected.vocabularies.items():
        assert pq.read_table(folder / f"vocab/{name}.parquet").to_pylist() == tokens
    check_stats(json.loads((folder / "stats.json").read_text()), expected.stats)
    rejects = folder / "rejects.jsonl"
    lines = rejects.read_text().splitlines() if rejects.exists() else []
    assert [json.loads(line) for line in lines] == expected.rejects
    assert rejects.exists() == bool(expected.rejects)
    assert load(folder / "featuremap.yaml") == featuremap


def check_build(raw: Raw, featuremap: FeatureMap, block: int) -> None:
    expected = Builder(raw.skeleton, raw.common, featuremap).expected()
    if not expected.rows["train"]:
        words = "no row is in the train split" if expected.rows["valid"] else "no row"
        with pytest.raises(ConversionError, match=words), built(raw, featuremap, block):
            pass
        return
    with built(raw, featuremap, block) as folder:
        check_folder(folder, expected, featuremap)


@settings(max_examples=40)
@given(RAW, FEATUREMAPS, BLOCKS)
def test_builds(raw: Raw, featuremap: FeatureMap, block: int) -> None:
    check_build(raw, featuremap, block)


@pytest.mark.long
@settings(max_examples=5_000)
@given(RAW, FEATUREMAPS, BLOCKS)
def test_many_builds(raw: Raw, featuremap: FeatureMap, block: int) -> None:
    check_build(raw, featuremap, block)


def wide(featuremap: FeatureMap) -> FeatureMap:
    """The same with vocabularies that hold every token."""
    features = tuple(
        one if one.encoding == "hash" else replace(one, vocab_num_tokens=1000)
        for one in featuremap.features
    )
    return replace(featuremap, features=features)


class Raws:
    """The raw tokens of every row, as the rules read them, and what ids stand for."""

    def __init__(self, raw: Raw, featuremap: FeatureMap, folder: Path) -> None:
        builder = Builder(raw.skeleton, raw.common, featuremap)
        self.samples = {one.line.number: one for one in builder.samples}
        self.seed = featuremap.hash_seed
        self.texts: dict[str, dict[int, list[str]]] = {}
        for feature in featuremap.features:
            by_id: dict[int, list[str]] = {}
            for one in pq.read_table(folder / f"vocab/{feature.name}.parquet").to_pylist():
                by_id.setdefault(one["id"], []).append(one["token"])
            self.texts[feature.name] = by_id

    def check(self, row: dict[str, Any], feature: Feature) -> None:
        """Every id of a row leads to a token of the row, and every token to an id."""
        raw: dict[str, float] = {}
        for text, value in self.samples[row["row_id"]].tokens(feature.source):
            raw[text] = max(value, raw.get(text, value))
        ids = row[f"{feature.name}_idx"]
        values = row.get(f"{feature.name}_val")
        if not feature.is_multi_hot:
            ids, values = [ids], None if values is None else [values]
        if not raw:
            assert ids == [1]
            assert values in (None, [1.0])
            return
        assert len(ids) == min(len(raw), feature.max_len or 1)
        decoded = [self.spelled(one, feature, raw) for one in ids]
        for at, texts in enumerate(decoded):
            assert texts, "an id that stands for no token of the row"
            assert values is None or values[at] in [raw[text] for text in texts]
        if len(ids) == len(raw):
            assert {text for texts in decoded for text in texts} == set(raw)

    def spelled(self, number: int, feature: Feature, raw: dict[str, float]) -> list[str]:
        """The tokens of the row that an id stands for, by the saved vocabulary or by hash."""
        if feature.encoding != "hash" and 3 <= number < 3 + len(self.texts[feature.name]):
            return [text for text in self.texts[feature.name][number] if text in raw]
        unseen = [text for text in raw if not self.is_saved(feature, text)]
        if feature.encoding == "vocab":
            assert number == 2
            return unseen
        first = 2 if feature.encoding == "hash" else 1003
        some = list(raw) if feature.encoding == "hash" else unseen
        return [text for text in some if first + self.hash(feature, text) == number]

    def is_saved(self, feature: Feature, text: str) -> bool:
        return any(text in texts for texts in self.texts[feature.name].values())

    def hash(self, feature: Feature, text: str) -> int:
        return token_hash(self.seed, feature.source, text, feature.hash_bucket or 1)


def check_decoded(raw: Raw, featuremap: FeatureMap) -> None:
    try:
        with built(raw, featuremap, 8 << 20) as folder:
            raws = Raws(raw, featuremap, folder)
            for split in ("train", "valid"):
                for row in rows_of(folder, split):
                    for feature in featuremap.features:
                        raws.check(row, feature)
    except ConversionError as error:
        assert "no row" in str(error)  # noqa: PT017 - what a build says of files without rows


@settings(max_examples=25)
@given(RAW, FEATUREMAPS)
def test_rows_lead_back_to_raw_tokens(raw: Raw, featuremap: FeatureMap) -> None:
    check_decoded(raw, replace(wide(featuremap), tail_ids="disjoint"))


@pytest.mark.long
@settings(max_examples=2_000)
@given(RAW, FEATUREMAPS)
def test_many_rows_lead_back_to_raw_tokens(raw: Raw, featuremap: FeatureMap) -> None:
    check_decoded(raw, replace(wide(featuremap), tail_ids="disjoint"))
