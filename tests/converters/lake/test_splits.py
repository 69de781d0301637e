"""Splits: what may be said, and where a hash belongs, in whole numbers."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingot.converters.errors import ConversionError
from ingot.converters.lake.record_hashes import ALL, Splits, parse_splits

LAST = 2**64 - 1
SPLITS = st.lists(st.integers(1, 10**6), min_size=1, max_size=6).map(
    lambda parts: [f"{Fraction(part, sum(parts)).__float__():.15f}" for part in parts]
)


def places(splits: Splits, *values: int) -> list[int]:
    return splits.places(np.array(values, np.uint64)).tolist()


@pytest.mark.more
@given(fractions=SPLITS, values=st.lists(st.integers(0, LAST), max_size=20))
def test_a_record_is_where_its_fraction_says(fractions: list[str], values: list[int]) -> None:
    if any(Fraction(one) == 0 for one in fractions):
        return
    splits = parse_splits(",".join(f"s{number}={one}" for number, one in enumerate(fractions)))
    sums = [sum(map(Fraction, fractions[: end + 1])) for end in range(len(fractions))]
    edges = [min(max(int(one * 2**64) + step, 0), LAST) for one in sums for step in (-1, 0, 1)]
    for value in (*values, *edges, 0):
        wanted = [place for place, one in enumerate(sums) if Fraction(value, 2**64) < one]
        assert places(splits, value) == [min([*wanted, len(fractions) - 1])]
    assert places(splits, LAST) == [len(fractions) - 1]


def test_a_hash_on_a_bound_is_of_the_split_after_it() -> None:
    splits = parse_splits("train=0.5, valid=0.25,test=0.25")
    assert splits.bounds() == (2**63, 3 * 2**62)
    assert places(splits, 0, 2**63 - 1, 2**63, 3 * 2**62 - 1, 3 * 2**62, LAST) == [0, 0, 1, 1, 2, 2]


def test_what_is_said_in_other_words_is_the_same() -> None:
    assert parse_splits("a=0.980,b=.02") == parse_splits("a=0.98, b=0.0200")
    assert parse_splits("all=1.0") == parse_splits("all=1") == ALL
    assert parse_splits("train=0.98,valid=0.02").to_json() == [
        {"name": "train", "fraction": "0.98"},
        {"name": "valid", "fraction": "0.02"},
    ]


def test_everything_in_one() -> None:
    assert places(ALL, 0, 2**63, LAST) == [0, 0, 0]


def test_thirds_add_up_nearly() -> None:
    splits = parse_splits("a=0.3333333333,b=0.3333333333,c=0.3333333333")
    assert places(splits, LAST) == [2]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "'' is not a split"),
        ("train", "'train' is not a split"),
        ("train=0.5,valid=0.4", "add up to 0.9"),
        ("train=0.98,valid=0.03", "add up to 1.01"),
        ("train=0.5,train=0.5", "train is named twice"),
        ("Train=1", "'Train=1' is not a split"),
        ("../up=1", "not a split"),
        ("a/b=1", "not a split"),
        ("train=1,valid=0", "the fraction of valid is 0"),
        ("train=2", "the fraction of train is 2"),
        ("train=-1", "not a split"),
        ("train=nan", "not a split"),
        ("train=1e0", "not a split"),
        ("train=１", "not a split"),
        (f"train=0.{'0' * 60}1", "not a split"),
        (f"{'x' * 51}=1", "not a split"),
        ("train=1,", "'' is not a split"),
    ],
)
def test_what_is_no_split_is_told(text: str, problem: str) -> None:
    with pytest.raises(ConversionError) as told:
        parse_splits(text)
    assert problem in str(told.value)
    assert "`split`" in str(told.value)
