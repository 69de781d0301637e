"""What filters leave out, counted."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingot.converters.errors import ConversionError
from ingot.converters.recsys.monolith.convert.settings import Filters, LabelTest
from ingot.converters.recsys.monolith.convert.stream import filter_rows
from ingot.converters.recsys.monolith.record_index import records_of_messages
from ingot.converters.recsys.monolith.wire.message_writer import example_records
from ingot.converters.recsys.monolith.wire.row_index import index_examples
from ingot.schemas.monolith.example_pb2 import Example


def example(labels=(), features=(), uid=None, rate=None):
    made = Example(label=labels)
    for name, fids in features:
        made.named_feature.add(name=name).feature.fid_v2_list.value.extend(fids)
    if uid is not None:
        made.line_id.uid = uid
    if rate is not None:
        made.line_id.sample_rate = rate
    made.instance_weight = 1.0
    return made


def rows_of(examples):
    rows, wrong = index_examples(records_of_messages([one.SerializeToString() for one in examples]))
    assert not wrong
    return rows


def filtered(filters, examples, stream="s"):
    dropped = Counter()
    rows = filter_rows(filters, rows_of(examples), stream, dropped)
    records = example_records(rows)
    made = [Example.FromString(records.message(at)) for at in range(len(records))]
    return made, dropped


def test_labels_are_tested_by_position():
    examples = [
        example([1, 0]),
        example([0, 1]),
        example([]),
        example([2]),
        example([float("nan")]),
    ]
    cases = {
        "0>=1": [0, 3],
        "0<=0": [1],
        "1==1": [1],
        "1 == 0": [0],
        "0!=1": [1, 3, 4],
        "0<2": [0, 1],
        "3>0": [],
    }
    for text, left in cases.items():
        made, dropped = filtered(Filters(labels=(LabelTest.parse(text),)), examples)
        assert [str(one) for one in made] == [str(examples[at]) for at in left], text
        assert dropped == Counter(label=len(examples) - len(left))


def test_a_label_is_compared_as_a_float32():
    made, _ = filtered(Filters(labels=(LabelTest.parse("0>=0.1"),)), [example([0.1])])
    assert len(made) == 1


@pytest.mark.parametrize(
    "text", ["", "0", "0=1", "x>1", "0>", "0>1e", "0>1;0<2", "-1>0", "0=>1", "0>nan"]
)
def test_what_is_no_test_of_a_label(text):
    with pytest.raises(ConversionError, match="is not a test of a label"):
        LabelTest.parse(text)


def test_features_that_must_be_there_or_not():
    examples = [
        example(features=[("a", [1]), ("b", [2])]),
        example(features=[("a", [])]),  # a list without values is no value... of a feature
        example(features=[("b", [3])]),
    ]
    examples[1].named_feature[0].feature.Clear()
    made, dropped = filtered(Filters(has=("a",)), examples)
    assert made == [examples[0]]
    assert dropped == Counter(has=2)
    made, dropped = filtered(Filters(lacks=("a",)), examples)
    assert made == examples[1:]
    made, dropped = filtered(Filters(has=("b",), lacks=("a",)), examples)
    assert made == [examples[2]]
    assert dropped == Counter(has=1, lacks=1)  # the first reason of each


def test_features_are_pruned_by_name():
    examples = [example(features=[("user_a", [1]), ("item_b", [2]), ("user_c", [3])])]
    examples[0].named_raw_feature.add(name="user_raw")
    examples[0].named_feature.add(name="user_empty").feature.SetInParent()

    def names(**how):
        made, dropped = filtered(Filters(**how), examples)
        assert not dropped
        one = made[0]
        return [f.name for f in (*one.named_feature, *one.named_raw_feature)]

    assert names(features=("user_*",)) == ["user_a", "user_c", "user_empty", "user_raw"]
    assert names(features=("user_*",), drop_features=("*_c",), drop_raw=True) == [
        "user_a",
        "user_empty",
    ]
    # A raw feature of no features has no value either.
    assert names(drop_unset=True) == ["user_a", "item_b", "user_c"]
    assert names(drop_raw=True) == ["user_a", "item_b", "user_c", "user_empty"]


def test_a_share_of_negatives_says_its_rate():
    examples = [example([at % 2], uid=at) for at in range(4000)]
    examples[0].line_id.sample_rate = 0.5
    filters = Filters(negative_rate=0.25, seed=3)
    made, dropped = filtered(filters, examples)
    positives = [one for one in made if one.label[0] > 0]
    negatives = [one for one in made if one.label[0] <= 0]
    assert positives == examples[1::2]  # untouched
    assert dropped == Counter(negative=2000 - len(negatives))
    assert 420 <= len(negatives) <= 580
    for one in negatives:
        assert one.line_id.sample_rate == (0.125 if one.line_id.uid == 0 else 0.25)
    again, _ = filtered(filters, examples)
    assert again == made
    other, _ = filtered(Filters(negative_rate=0.25, seed=4), examples)
    assert other != made
    elsewhere, _ = filtered(filters, examples, "another stream")
    assert elsewhere != made


def test_a_negative_without_a_line_id_gets_one():
    made, _ = filtered(Filters(negative_rate=1.0), [example([0])])
    assert made[0].line_id.sample_rate == 1.0
    assert made[0].line_id.HasField("sample_rate")


@given(st.lists(st.integers(1, 5), min_size=1, max_size=8), st.floats(0.01, 1))
def test_how_rows_are_batched_does_not_matter(cuts, rate):
    examples = [example([at % 3], uid=at) for at in range(sum(cuts))]
    filters = Filters(negative_rate=rate, labels=(LabelTest.parse("0<2"),))
    rows = rows_of(examples)
    whole, apart = Counter(), Counter()
    together = example_records(filter_rows(filters, rows, "s", whole))
    pieces, begin = [], 0
    for size in cuts:
        part = example_records(filter_rows(filters, rows.part(begin, begin + size), "s", apart))
        pieces += [part.message(at) for at in range(len(part))]
        begin += size
    assert pieces == [together.message(at) for at in range(len(together))]
    assert +apart == +whole


@pytest.mark.parametrize("rate", [0.0, -0.5, 1.5, float("nan")])
def test_a_share_is_above_0_and_at_most_1(rate):
    with pytest.raises(ConversionError, match="above 0 and at most 1"):
        Filters(negative_rate=rate)


def test_without_filters_rows_are_what_they_were():
    rows = rows_of([example([1])])
    assert filter_rows(Filters(), rows, "s", Counter()) is rows
    assert not Filters(seed=7).are_any
    assert np.array_equal(rows.row, [-1])


def test_names_that_no_feature_has():
    filters = Filters(has=("a",), lacks=("gone",), features=("a*", "user_*"), drop_features=("b",))
    filtered(filters, [example(features=[("a", [1]), ("ab", [2])])])
    assert filters.unmatched() == ("gone", "user_*", "b")
