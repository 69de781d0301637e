"""Results put together."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingot.converters.megatron.engines.engine import (
    Encoded,
    RefusedCallError,
    are_same_results,
    byte_offsets,
    differing_texts,
    encode_by_halves,
    join_rows,
    merge_parts,
    text_runs,
    texts_buffer,
)

ROWS = st.lists(st.lists(st.integers(0, 2**32 - 1), max_size=5), max_size=12)


def rows(values: list[list[int]]) -> Encoded:
    return join_rows([np.array(row, np.uint32) for row in values])


@given(ROWS, st.randoms(use_true_random=False))
def test_parts_of_a_batch_give_the_batch(values, source):
    side = np.array([source.random() < 0.5 for _ in values], np.bool_)
    parts = [
        (np.flatnonzero(mask), rows([values[at] for at in np.flatnonzero(mask)]))
        for mask in (side, ~side)
    ]
    assert are_same_results(merge_parts(len(values), parts), rows(values))


@given(ROWS, ROWS)
def test_differing_names_the_rows_that_differ(one, other):
    size = min(len(one), len(other))
    one, other = one[:size], other[:size]
    expected = [at for at in range(size) if one[at] != other[at]]
    assert differing_texts(rows(one), rows(other)) == expected


def test_a_text_that_fails_in_one_of_them_differs():
    good, bad = rows([[], [1]]), rows([[], [1]])
    bad = Encoded(ids=bad.ids, lengths=bad.lengths, failed=((0, "why"),))
    assert differing_texts(good, bad) == [0]


@given(st.lists(st.text(max_size=20), max_size=30), st.integers(0, 5), st.integers(1, 40))
def test_runs_are_the_texts_in_order_and_read_slices_right(values, first, size):
    whole = pa.array(values, pa.large_string())
    texts = whole[first:] if first < len(values) else whole
    found = text_runs(texts, size)
    assert [text for run in found for text in run.to_pylist()] == texts.to_pylist()
    assert all(len(run) == 1 or texts_buffer(run).size <= size for run in found)
    joined = "".join(texts.to_pylist()).encode()
    assert texts_buffer(texts).tobytes() == joined
    assert byte_offsets(texts)[-1] - byte_offsets(texts)[0] == len(joined)


@pytest.mark.parametrize("bad", [[], [0], [3], [0, 4], [0, 1, 2, 3, 4]])
def test_a_refused_text_takes_no_other_with_it(bad):
    def call(texts):
        values = texts.to_pylist()
        if any(int(value) in bad for value in values):
            raise RefusedCallError("bad " + " ".join(values))
        return rows([[int(value)] for value in values])

    encoded = encode_by_halves(pa.array(list("01234"), pa.large_string()), call)
    assert encoded.ids.tolist() == [at for at in range(5) if at not in bad]
    assert encoded.lengths.tolist() == [int(at not in bad) for at in range(5)]
    assert encoded.failed == tuple((at, f"bad {at}") for at in bad)
