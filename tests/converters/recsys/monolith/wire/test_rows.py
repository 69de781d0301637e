"""Parts of rows, chosen rows, rows of several stretches."""

from random import Random

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from ingot.converters.recsys.monolith.record_index import Rows, records_of_messages
from ingot.converters.recsys.monolith.wire.row_assembly import compact_rows, join_rows
from ingot.converters.recsys.monolith.wire.row_index import (
    empty_rows,
    index_batches,
    index_examples,
)
from tests.converters.recsys.monolith.reference import canonical
from tests.converters.recsys.monolith.strategies import batch, encoded, example, made
from tests.converters.recsys.monolith.wire.comparing import examples_of, with_sort_ids


def rows_of(random: Random) -> Rows:
    """Rows of Examples, with sort_ids."""
    records = records_of_messages(
        [encoded(random, example(random)) for _ in range(random.randrange(5))]
    )
    stops = np.minimum(records.start + 3, records.stop)
    spans = list(zip(records.start.tolist(), stops.tolist(), strict=True))
    return index_examples(with_sort_ids(records, spans))[0]


def of_batch(random: Random) -> Rows:
    """Rows of a batch, some of them in the same places."""
    records = records_of_messages([batch(random).SerializeToString()])
    return next((rows for rows, _ in index_batches(records)), empty_rows())


ANY_ROWS = st.one_of(made(rows_of), made(of_batch))


def said(rows: Rows) -> list[tuple[bytes, bytes, int]]:
    """What rows say."""
    sort_ids = [
        rows.data[a:b].tobytes() for a, b in zip(rows.sort_start, rows.sort_stop, strict=True)
    ]
    examples = [canonical(one) for one in examples_of(rows)]
    return list(zip(examples, sort_ids, rows.record.tolist(), strict=True))


@settings(max_examples=40)
@given(ANY_ROWS, st.data())
def test_a_part_is_its_rows(rows, data):
    begin = data.draw(st.integers(0, len(rows)))
    end = data.draw(st.integers(begin, len(rows)))
    assert said(rows.part(begin, end)) == said(rows)[begin:end]


@settings(max_examples=40)
@given(ANY_ROWS, st.data())
def test_chosen_rows_are_those(rows, data):
    keep = np.array([data.draw(st.booleans()) for _ in range(len(rows))], np.bool_)
    kept = [one for one, good in zip(said(rows), keep, strict=True) if good]
    assert said(rows.chosen(keep)) == kept


@settings(max_examples=40)
@given(ANY_ROWS, st.data())
def test_chosen_features_are_those_of_the_rows(rows, data):
    few = np.array([data.draw(st.booleans()) for _ in range(len(rows.name))], np.bool_)
    everything = np.ones(len(rows), np.bool_)
    chosen = rows.chosen(everything, few)
    names = [rows.names[at] for at in rows.name[few]]
    assert [rows.names[at] for at in chosen.name] == names
    assert np.array_equal(chosen.entry_row, rows.entry_row[few])
    for one in examples_of(chosen):
        assert len(one.named_feature) + len(one.named_raw_feature) <= len(names)


@settings(max_examples=40)
@given(st.lists(ANY_ROWS, min_size=1, max_size=4))
def test_joined_rows_are_all_of_them_in_order(parts):
    assert said(join_rows(parts)) == [one for part in parts for one in said(part)]


@settings(max_examples=40)
@given(ANY_ROWS)
def test_compact_rows_say_the_same_in_no_more_bytes_than_they_have(rows):
    small = compact_rows(rows)
    assert said(small) == said(rows)
    spans = (
        (rows.start, rows.stop),
        (rows.extra_start, rows.extra_stop),
        (rows.line_start, rows.line_stop),
        (rows.rest_start, rows.rest_stop),
        (rows.sort_start, rows.sort_stop),
    )
    assert len(small.data) <= sum(int((stop - start).sum()) for start, stop in spans)


@settings(max_examples=40)
@given(st.lists(ANY_ROWS, min_size=1, max_size=3))
def test_joined_compact_parts_are_the_rows(parts):
    cut = [compact_rows(part.part(at, at + 1)) for part in parts for at in range(len(part))]
    if cut:
        assert said(join_rows(cut)) == [one for part in parts for one in said(part)]
