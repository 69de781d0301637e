"""The golden set, built once."""

from pathlib import Path

import pytest

from ingot.converters.output.identity import CommittedResult
from ingot.converters.recsys.ctr.featuremap import load
from ingot.converters.recsys.ctr.preprocess.inputs import Aliccp
from ingot.converters.recsys.ctr.preprocess.job import build

GOLDEN = Path(__file__).parents[3] / "golden/ctr"


@pytest.fixture(scope="session")
def golden() -> Path:
    """Raw files and what the public project made of them."""
    return GOLDEN


@pytest.fixture(scope="session")
def golden_build(tmp_path_factory: pytest.TempPathFactory) -> CommittedResult:
    """The golden raw files, built."""
    skeleton, common = GOLDEN / "sample_skeleton_train.csv", GOLDEN / "common_features_train.csv"
    inputs = Aliccp(skeleton=str(skeleton), common=str(common))
    featuremap = load(GOLDEN / "featuremap_small.yaml")
    return build(inputs, featuremap, tmp_path_factory.mktemp("golden") / "out")
