"""Raw files of Ali-CCP are told by their content."""

from pathlib import Path

import pytest

from ingot.converters.sources.recognizers.aliccp import ALICCP_HEAD, recognize_aliccp

GOLDEN = Path(__file__).parents[3] / "golden" / "ctr"
SKELETON = (GOLDEN / "sample_skeleton_train.csv").read_bytes()
COMMON = (GOLDEN / "common_features_train.csv").read_bytes()


@pytest.mark.parametrize(("data", "kind"), [(SKELETON, "skeleton"), (COMMON, "common")])
@pytest.mark.parametrize("size", [300, 5000, ALICCP_HEAD])
def test_however_much_is_seen(data, kind, size):
    assert recognize_aliccp(data[:size]) == kind


def test_one_line_and_a_part_of_one():
    line = COMMON.split(b"\n")[1]
    assert (
        recognize_aliccp(line)
        == recognize_aliccp(line + b"\n")
        == recognize_aliccp(line[:200])
        == "common"
    )
    assert recognize_aliccp(b"\xef\xbb\xbf" + SKELETON[:9000].replace(b"\n", b"\r\n")) == "skeleton"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\n\n",
        b"sample_id,click,purchase,common_feature_index,feature_num,feature_list\n",
        b"1,0,1,ab,2,1:2:3\n" * 9,
        b"a\x01b\x01c\n" * 9,
        b"1,2,0,ab,2,1\x02a\x031.0\n" * 9,  # a click of 2
        b"ab,x,1\x02a\x031.0\n" * 9,  # a count that is none
        b'{"a": "1,0,0,x,2,1\\u0002a\\u00031.0"}\n' * 9,
        bytes(range(256)) * 40,
    ],
)
def test_what_is_none(data):
    assert recognize_aliccp(data) is None
