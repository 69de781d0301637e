"""Batches dealt to streams: even shares, turns, positions that can be left and taken."""

from hypothesis import given
from hypothesis import strategies as st

from ingot.converters.recsys.training.batch_order import (
    Share,
    count_batches,
    deal_batches,
    delivery_order,
    remaining_shares,
)

RUNS = st.lists(st.integers(1, 9), max_size=8).map(
    lambda sizes: [(20 * place, 20 * place + size) for place, size in enumerate(sizes)]
)


def flat(shares: tuple[Share, ...]) -> list[int]:
    return [batch for share in shares for run in share for batch in range(*run)]


@given(RUNS, st.integers(1, 5))
def test_shares_are_even_and_in_order(runs: list[tuple[int, int]], streams: int) -> None:
    shares = deal_batches(runs, streams)
    assert flat(shares) == [batch for run in runs for batch in range(*run)]
    sizes = [count_batches(share) for share in shares]
    assert len(sizes) == streams
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] - sizes[-1] <= 1
    assert sorted(delivery_order(shares)) == flat(shares)


def test_streams_deliver_in_turn() -> None:
    assert list(delivery_order(deal_batches([(0, 5)], 2))) == [0, 3, 1, 4, 2]


@given(RUNS, st.integers(1, 5), st.data())
def test_what_remains_is_delivered_as_if_nothing_happened(
    runs: list[tuple[int, int]], streams: int, data: st.DataObject
) -> None:
    shares = deal_batches(runs, streams)
    order = list(delivery_order(shares))
    first = data.draw(st.integers(0, len(order)))
    second = data.draw(st.integers(0, len(order) - first))
    left = remaining_shares(shares, first)
    assert list(delivery_order(left)) == order[first:]
    assert list(delivery_order(remaining_shares(left, second))) == order[first + second :]
