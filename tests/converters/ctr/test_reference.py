"""Builds of random raw files: every cell, every count and every reject as plain Python has them."""

import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingot.converters.ctr.build import build
from ingot.converters.ctr.contract import processed_schema
from ingot.converters.ctr.featuremap import FeatureMap, load
from ingot.converters.ctr.inputs import Aliccp
from ingot.converters.errors import ConversionError
from tests.converters.ctr.raw import FEATUREMAPS, RAW, Raw
from tests.converters.ctr.reference import Builder, Expected

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


@settings(max_examples=60)
@given(RAW, FEATUREMAPS, BLOCKS)
def test_builds(raw: Raw, featuremap: FeatureMap, block: int) -> None:
    check_build(raw, featuremap, block)


@pytest.mark.long
@settings(max_examples=5_000)
@given(RAW, FEATUREMAPS, BLOCKS)
def test_many_builds(raw: Raw, featuremap: FeatureMap, block: int) -> None:
    check_build(raw, featuremap, block)
